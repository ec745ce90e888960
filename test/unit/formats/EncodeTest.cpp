// The encoders: oracle against the ordered algorithm in double arithmetic, fast encoder against the
// oracle, errors.
#include "artifact/formats/Encode.h"
#include "artifact/formats/Words.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace ninfer;

namespace {

constexpr Format kGrouped[] = {Format::Q4G64_F16S, Format::Q5G64_F16S, Format::Q6G64_F16S,
                               Format::W8G32_F16S};

struct Encoded {
  std::string error; ///< empty: success
  std::vector<int8_t> codes;
  std::vector<uint16_t> scales;
  bool operator==(const Encoded &) const = default;
};

template <typename Encode>
Encoded run(Encode encode, Format format, const std::vector<float> &row) {
  Encoded out;
  out.codes.resize(row.size());
  out.scales.resize((row.size() + formatInfo(format).groupSize - 1) / formatInfo(format).groupSize);
  Status status = encode(format, row, out.codes, out.scales);
  if (!status.ok())
    return {status.error().code + " " + status.error().message, {}, {}};
  return out;
}

/// The algorithm in double arithmetic with explicit roundings to binary32; binary16 by the
/// compiler's own type. A quotient or product rounded to 53 and then to 24 bits equals the direct
/// rounding, as 53 >= 2 * 24 + 2.
Encoded inDouble(Format format, const std::vector<float> &row) {
  const FormatInfo &info = formatInfo(format);
  Encoded out;
  for (size_t first = 0; first < row.size(); first += info.groupSize) {
    const size_t last = std::min(row.size(), first + info.groupSize);
    float amax = 0;
    for (size_t i = first; i < last; ++i)
      amax = std::max(amax, std::fabs(row[i]));
    if (amax == 0) {
      out.scales.push_back(0);
      out.codes.insert(out.codes.end(), last - first, 0);
      continue;
    }
    const float raw = float(double(amax) / info.qmax);
    // Spacing of binary16 at `raw`; nearbyint rounds ties to even.
    const int exponent = std::max(std::ilogb(raw), -14);
    double scale =
        std::ldexp(std::nearbyint(std::ldexp(double(raw), 10 - exponent)), exponent - 10);
    if (scale == 0)
      scale = 0x1p-24;
    const float inverse = float(1.0 / scale);
    uint32_t word = 0;
    if (scale < 0x1p-14) {
      word = uint32_t(std::ldexp(scale, 24)); // subnormal: units of 2^-24
    } else {
      const int e = std::ilogb(scale);
      word = uint32_t(e + 15) << 10 | (uint32_t(std::ldexp(scale, 10 - e)) & 0x3ff);
    }
    out.scales.push_back(uint16_t(word));
    for (size_t i = first; i < last; ++i) {
      const float normalized = float(double(row[i]) * double(inverse));
      out.codes.push_back(
          int8_t(std::clamp(int(std::nearbyint(normalized)), info.qmin, info.qmax)));
    }
  }
  return out;
}

std::vector<std::vector<float>> rows() {
  std::vector<std::vector<float>> out;
  std::mt19937 random(20240229);
  std::normal_distribution<float> normal;
  const auto uniform = [&](int n) { return int(random() % uint32_t(n)); };
  for (size_t k : {1, 2, 31, 32, 33, 63, 64, 65, 97, 128, 130, 257}) {
    // Magnitudes from binary32 subnormals to the largest scale.
    for (int exponent :
         {-149, -140, -130, -126, -60, -30, -27, -25, -24, -23, -22, -21, -20, -19, -18,
          -17,  -16,  -15,  -14,  -12, -8,  -4,  -1,  0,   1,   4,   8,   12,  15}) {
      std::vector<float> row(k);
      for (float &value : row)
        value = std::ldexp(float(normal(random)) * 0.9f, exponent);
      row[size_t(uniform(int(k)))] = std::ldexp(float(1 + uniform(15)), exponent);
      out.push_back(row);
    }
    // Rounding ties: half codes under a power-of-two scale, exact and one unit off.
    for (int qmax : {7, 15, 31, 127})
      for (int scale : {-24, -20, -14, -3, 0, 5}) {
        std::vector<float> row(k);
        for (float &value : row) {
          value = std::ldexp(float(uniform(4 * qmax + 1) - 2 * qmax) / 2, scale);
          if (uniform(3) == 0)
            value = std::nextafter(value, uniform(2) ? INFINITY : -INFINITY);
          value =
              std::clamp(value, -std::ldexp(float(qmax), scale), std::ldexp(float(qmax), scale));
        }
        row[0] = std::ldexp(float(qmax), scale);
        out.push_back(row);
      }
    // Random bit patterns below the overflow of the scale, zeros of both signs.
    for (int i = 0; i < 40; ++i) {
      std::vector<float> row(k);
      for (float &value : row) {
        const uint32_t bits = uint32_t(random());
        value = std::bit_cast<float>((bits & 0x80000000) | (bits & 0x7fffffff) % 0x48000000);
        if (uniform(5) == 0)
          value = uniform(2) ? 0.0f : -0.0f;
      }
      out.push_back(row);
    }
    out.push_back(std::vector<float>(k, 0.0f));
    out.push_back(std::vector<float>(k, -0.0f));
    out.push_back(std::vector<float>(k, std::bit_cast<float>(1u)));
  }
  // Scales at every step and tie of binary16, on both sides.
  for (uint32_t word = 1; word < 0x7c00; word += word < 0x420 ? 1 : 37) {
    const float low = decodeF16(uint16_t(word)),
                next = word == 0x7bff ? 65536.0f : decodeF16(uint16_t(word + 1));
    std::vector<float> row;
    for (int qmax : {7, 15, 31, 127})
      for (float scale : {low, std::nextafter((low + next) / 2, 0.0f), (low + next) / 2})
        row = {scale * float(qmax), -scale * float(qmax), scale * float(qmax) / 3},
        out.push_back(row);
  }
  return out;
}

TEST(Canonical, AgreesWithTheAlgorithmInDouble) {
  size_t differences = 0;
  for (const std::vector<float> &row : rows())
    for (Format format : kGrouped) {
      const Encoded oracle = run(encodeRowCanonical, format, row);
      if (!oracle.error.empty()) {
        EXPECT_EQ(oracle.error.substr(0, 6), "NB0207");
        continue;
      }
      const Encoded expected = inDouble(format, row);
      if (oracle != expected && ++differences < 5)
        ADD_FAILURE() << canonicalName(format) << ", K " << row.size() << ", first value "
                      << std::hexfloat << row[0];
    }
  EXPECT_EQ(differences, 0u);
}

TEST(Fast, EqualsTheOracle) {
  size_t encoded = 0, refused = 0;
  for (const std::vector<float> &row : rows())
    for (Format format : kGrouped) {
      const Encoded oracle = run(encodeRowCanonical, format, row),
                    fast = run(encodeRowFast, format, row);
      ASSERT_EQ(oracle, fast) << canonicalName(format) << ", K " << row.size() << ", first value "
                              << std::hexfloat << row[0];
      ++(oracle.error.empty() ? encoded : refused);
    }
  EXPECT_GT(encoded, 10000u);
  EXPECT_GT(refused, 10u) << "the scale overflow should occur in this set";
}

TEST(Fast, EqualsTheOracleOnLongRandomRows) {
  std::mt19937 random(99);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 30; ++i) {
    std::vector<float> row(4096 + size_t(i));
    for (float &value : row)
      value = normal(random) * std::ldexp(1.0f, -int(random() % 30));
    for (Format format : kGrouped)
      ASSERT_EQ(run(encodeRowCanonical, format, row), run(encodeRowFast, format, row))
          << canonicalName(format);
  }
}

TEST(Canonical, SubnormalScaleIsNotFlushed) {
  std::vector<float> row(64, 0.0f);
  row[0] = 7 * 0x1p-20f;
  const Encoded encoded = run(encodeRowCanonical, Format::Q4G64_F16S, row);
  EXPECT_EQ(encoded.scales[0], 0x0010);
  EXPECT_EQ(encoded.codes[0], 7);
  EXPECT_EQ(reconstructGrouped(encoded.scales[0], encoded.codes[0]), 6.67572021484375e-06f);
}

TEST(Canonical, RescueAndExamples) {
  // A nonzero raw scale that rounds to binary16 zero becomes 2^-24, here with all codes zero.
  const Encoded rescue = run(encodeRowCanonical, Format::W8G32_F16S, {0x1p-30f, -0x1p-40f});
  EXPECT_EQ(rescue.scales, std::vector<uint16_t>{0x0001});
  EXPECT_EQ(rescue.codes, (std::vector<int8_t>{0, 0}));
  const Encoded zero = run(encodeRowCanonical, Format::W8G32_F16S, {0.0f, -0.0f});
  EXPECT_EQ(zero.scales, std::vector<uint16_t>{0});
  // Halves round to even.
  const Encoded ties =
      run(encodeRowCanonical, Format::Q4G64_F16S, {7.0f, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, -2.5f});
  EXPECT_EQ(ties.scales, std::vector<uint16_t>{0x3c00});
  EXPECT_EQ(ties.codes, (std::vector<int8_t>{7, 0, 0, 2, -2, 2, -2}));
  // A subnormal scale that rounded down: codes clamp at qmin and qmax; -128 never appears.
  const Encoded clamped =
      run(encodeRowCanonical, Format::W8G32_F16S, {1.4f * 127 * 0x1p-24f, -1.4f * 127 * 0x1p-24f});
  EXPECT_EQ(clamped.scales, std::vector<uint16_t>{0x0001});
  EXPECT_EQ(clamped.codes, (std::vector<int8_t>{127, -127}));
}

TEST(Encoders, RefuseBadSources) {
  for (auto encode : {&encodeRowCanonical, &encodeRowFast}) {
    std::vector<float> row(70, 1.0f);
    row[66] = std::nanf("");
    EXPECT_EQ(run(encode, Format::Q4G64_F16S, row).error.substr(0, 6), "NB0206");
    EXPECT_NE(run(encode, Format::Q4G64_F16S, row).error.find("element 66"), std::string::npos);
    row[66] = -INFINITY;
    EXPECT_EQ(run(encode, Format::W8G32_F16S, row).error.substr(0, 6), "NB0206");
    row[66] = 65520.0f * 7;
    EXPECT_EQ(run(encode, Format::Q4G64_F16S, row).error.substr(0, 6), "NB0207");
    EXPECT_NE(run(encode, Format::Q4G64_F16S, row).error.find("group 1"), std::string::npos);
    row[66] = std::nextafter(65520.0f * 7, 0.0f);
    EXPECT_EQ(run(encode, Format::Q4G64_F16S, row).scales[1], 0x7bff);
    std::vector<int8_t> codes(70);
    std::vector<uint16_t> scales(2);
    EXPECT_EQ(encode(Format::BF16, row, codes, scales).error().code, "NB0205");
    EXPECT_EQ(encode(Format::Q4G64_F16S, row, std::span(codes).first(69), scales).error().code,
              "NB0205");
    EXPECT_EQ(encode(Format::W8G32_F16S, row, codes, scales).error().code, "NB0205");
  }
}

TEST(Fp8Row, EdgeCases) {
  const auto encode = [](std::vector<float> row) {
    std::vector<uint8_t> codes(row.size());
    uint16_t scale = 0xffff;
    Status status = encodeFp8Row(row, codes, scale);
    return std::tuple(status.ok() ? std::string() : status.error().code, scale, codes);
  };
  using Codes = std::vector<uint8_t>;
  EXPECT_EQ(encode({0.0f, -0.0f}), std::tuple(std::string(), uint16_t(0), Codes({0, 0})));
  EXPECT_EQ(encode({448.0f, -448.0f, -0x1p-11f, 1.0f}),
            std::tuple(std::string(), uint16_t(0x3f80), Codes({0x7e, 0xfe, 0x80, 0x38})));
  EXPECT_EQ(std::get<0>(encode({1.0f, INFINITY})), "NB0206");
  EXPECT_EQ(std::get<0>(encode({1.0f, std::nanf("")})), "NB0206");
  EXPECT_EQ(std::get<0>(encode({448 * 0x1p-128f})), "NB0208");
  // Scales of 2^-128 and below have an infinite reciprocal; 455 * 2^-128 is the tie that still
  // rounds to 2^-128.
  EXPECT_EQ(std::get<0>(encode({455 * 0x1p-128f})), "NB0208");
  EXPECT_EQ(encode({456 * 0x1p-128f}), std::tuple(std::string(), uint16_t(0x0021), Codes({0x7e})));
  EXPECT_EQ(std::get<0>(encode({std::bit_cast<float>(1u)})), "NB0208");
}

} // namespace
