// Subnormal scales through every encoder and decoder: canonical and fast encoder, stored layouts, reference kernels,
// ggml blocks and 16-bit sources. Values are computed here from the definition of the words, in double; the same again
// with the processor set to flush subnormals, as a host program compiled with fast math leaves it.
#include "artifact/formats/Encode.h"
#include "artifact/formats/Words.h"
#include "artifact/layouts/Layout.h"
#include "convert/GgmlBlocks.h"
#include "runtime/reference/WeightRows.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace ninfer {
namespace {

/// Value of a binary16 word below 2^-14 by its definition.
double subnormal16(uint32_t word) { return std::ldexp(double(word), -24); }

/// Runs `test` as the processor is, and with flush-to-zero and denormals-are-zero set.
template <typename Test>
void inBothModes(Test test) {
  test(false);
#if defined(__x86_64__)
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);
  test(true);
  _mm_setcsr(saved);
#endif
}

constexpr Format kGrouped[] = {Format::Q4G64_F16S, Format::Q5G64_F16S, Format::Q6G64_F16S, Format::W8G32_F16S};

std::vector<float> decodeByReference(const EncodedGeometry &geometry, std::vector<std::byte> &object) {
  reference::AttributeMap attributes = {{"format", std::string(canonicalName(geometry.format))}, {"layout", std::string(canonicalName(geometry.layout))},
                                        {"n", int64_t(geometry.rows)}, {"k", int64_t(geometry.k)}};
  reference::AttributeReader reader(attributes, "ref.linear", "test");
  const reference::WeightRows rows(reader);
  std::vector<void *> planes;
  for (const PlaneInfo &plane : geometry.planes)
    planes.push_back(object.data() + plane.offset);
  std::vector<float> out(geometry.k);
  rows.decode(planes.data(), int64_t(geometry.rows) - 1, out.data());
  return out;
}

TEST(Subnormal, EveryScaleOfTheGroupedFormats) {
  inBothModes([](bool flush) {
    for (Format format : kGrouped) {
      const FormatInfo &info = formatInfo(format);
      const uint64_t shape[] = {1, info.groupSize};
      const EncodedGeometry geometry = *encodedGeometry(format, Layout::RowSplitK128V1, shape);
      for (uint32_t word = 1; word <= 0x400; ++word) {
        std::vector<float> row(info.groupSize, 0.0f);
        row[0] = float(info.qmax * subnormal16(word)); // exact: at most 18 bits
        row[1] = -row[0];
        row[2] = float(subnormal16(word));
        std::vector<int8_t> codes(row.size()), fastCodes(row.size());
        std::vector<uint16_t> scales(1), fastScales(1);
        ASSERT_TRUE(encodeRowCanonical(format, row, codes, scales).ok());
        ASSERT_TRUE(encodeRowFast(format, row, fastCodes, fastScales).ok());
        ASSERT_EQ(scales[0], word) << canonicalName(format) << (flush ? ", flushing" : "");
        ASSERT_EQ(codes[0], info.qmax);
        ASSERT_EQ(codes[2], 1);
        ASSERT_EQ(fastScales, scales);
        ASSERT_EQ(fastCodes, codes);
        std::vector<std::byte> object(geometry.totalBytes);
        ASSERT_TRUE(encodeRows(geometry, 0, GroupedRows{codes, scales}, object).ok());
        std::vector<float> stored(row.size());
        decodeRow(geometry, object, 0, stored);
        ASSERT_EQ(stored, row) << canonicalName(format) << " scale " << word;
        if (word % 16 == 1) {
          ASSERT_EQ(decodeByReference(geometry, object), row);
        }
      }
    }
  });
}

TEST(Subnormal, TheStatedCase) {
  inBothModes([](bool) {
    std::vector<float> row(64, 0.0f);
    row[0] = 7 * 0x1p-20f;
    for (auto encode : {&encodeRowCanonical, &encodeRowFast}) {
      std::vector<int8_t> codes(64);
      std::vector<uint16_t> scales(1);
      ASSERT_TRUE(encode(Format::Q4G64_F16S, row, codes, scales).ok());
      EXPECT_EQ(scales[0], 0x0010);
      EXPECT_EQ(codes[0], 7);
      EXPECT_EQ(reconstructGrouped(scales[0], codes[0]), 6.67572021484375e-06f);
    }
  });
}

TEST(Subnormal, BlockScalesOfE4m3) {
  inBothModes([](bool) {
    const uint64_t shape[] = {128, 64};
    const EncodedGeometry geometry = *encodedGeometry(Format::NVFP4, Layout::BlockScaleK16M128x4V1, shape);
    for (uint8_t scale = 1; scale < 8; ++scale) {
      std::vector<uint8_t> codes(128 * 64, 7), scales(128 * 4, scale);
      const float divisor = 2.0f;
      std::vector<std::byte> object(geometry.totalBytes);
      ASSERT_TRUE(encodeRows(geometry, 0, BlockScaledRows{codes, scales, std::bit_cast<uint32_t>(divisor)}, object).ok());
      const float expected = float(6.0 * scale * 0x1p-9 / 2.0);
      std::vector<float> stored(64);
      decodeRow(geometry, object, 127, stored);
      EXPECT_EQ(stored, std::vector<float>(64, expected));
      EXPECT_EQ(decodeByReference(geometry, object), stored);
    }
  });
}

/// Subnormal codes of E4M3 under a normal scale; a bfloat16 scale below 2^-126 is a binary32 subnormal, whose products
/// exist only where the processor keeps them.
TEST(Subnormal, CodesAndScalesOfFp8Rows) {
  const uint64_t shape[] = {1, 64};
  const EncodedGeometry geometry = *encodedGeometry(Format::FP8_E4M3FN_ROW_BF16S, Layout::RowScaleV1, shape);
  const auto decode = [&](uint16_t scale, uint8_t code) {
    std::vector<uint8_t> codes(64, code);
    std::vector<uint16_t> scales(1, scale);
    std::vector<std::byte> object(geometry.totalBytes);
    EXPECT_TRUE(encodeRows(geometry, 0, RowScaledRows{codes, scales}, object).ok());
    std::vector<float> stored(64);
    decodeRow(geometry, object, 0, stored);
    EXPECT_EQ(decodeByReference(geometry, object), stored);
    return stored[5];
  };
  inBothModes([&](bool) {
    for (uint8_t code = 1; code < 8; ++code)
      EXPECT_EQ(decode(0x3f80, code), float(code * 0x1p-9));
    std::vector<float> row(64, 0.0f);
    row[0] = 448.0f;
    row[1] = 0x1p-9f;
    row[2] = 3 * 0x1p-9f;
    std::vector<uint8_t> codes(64);
    uint16_t scale = 0;
    ASSERT_TRUE(encodeFp8Row(row, codes, scale).ok());
    EXPECT_EQ(scale, 0x3f80);
    EXPECT_EQ(codes[1], 1);
    EXPECT_EQ(codes[2], 3);
  });
  for (uint16_t scale = 1; scale < 0x80; ++scale)
    EXPECT_EQ(decode(scale, 0x7e), float(448 * std::ldexp(double(scale), -133)));
}

TEST(Subnormal, GgmlBlocks) {
  inBothModes([](bool flush) {
    for (uint32_t word = 1; word < 0x400; word += word < 40 ? 1 : 37) {
      const double d = subnormal16(word);
      const auto block = [&](SourceType type, std::initializer_list<std::pair<size_t, uint8_t>> bytes) {
        const SourceTypeInfo &info = sourceTypeInfo(type);
        std::vector<std::byte> raw(info.blockBytes);
        for (auto [at, value] : bytes)
          raw[at] = std::byte{value};
        std::vector<float> values(info.blockElements);
        decodeSourceRow(type, raw, values);
        return values;
      };
      const auto lo = uint8_t(word), hi = uint8_t(word >> 8);
      EXPECT_EQ(block(SourceType::Q8_0, {{0, lo}, {1, hi}, {2, 1}, {3, 0x81}})[0], float(d)) << word << (flush ? ", flushing" : "");
      EXPECT_EQ(block(SourceType::Q8_0, {{0, lo}, {1, hi}, {2, 1}, {3, 0x81}})[1], float(-127 * d));
      EXPECT_EQ(block(SourceType::Q4_0, {{0, lo}, {1, hi}, {2, 0x1f}})[0], float(7 * d));
      EXPECT_EQ(block(SourceType::Q4_0, {{0, lo}, {1, hi}, {2, 0x1f}})[16], float(-7 * d));
      EXPECT_EQ(block(SourceType::Q5_0, {{0, lo}, {1, hi}, {2, 1}, {6, 0x0f}})[0], float(15 * d));
      EXPECT_EQ(block(SourceType::IQ4_NL, {{0, lo}, {1, hi}, {2, 0x0f}})[0], float(113 * d));
      EXPECT_EQ(block(SourceType::Q4_1, {{0, lo}, {1, hi}, {2, lo}, {3, hi}, {4, 0x0f}})[0], float(15 * d + d));
      EXPECT_EQ(block(SourceType::Q5_1, {{0, lo}, {1, hi}, {2, lo}, {3, hi}, {4, 1}, {8, 0x0f}})[0], float(31 * d + d));
      EXPECT_EQ(block(SourceType::Q2_K, {{0, 0x11}, {80, lo}, {81, hi}, {82, lo}, {83, hi}, {16, 3}})[0], float(3 * d - d));
      EXPECT_EQ(block(SourceType::Q4_K, {{0, lo}, {1, hi}, {2, lo}, {3, hi}, {4, 1}, {8, 1}, {16, 0x0f}})[0], float(15 * d - d));
      EXPECT_EQ(block(SourceType::Q6_K, {{192, 1}, {208, lo}, {209, hi}, {0, 0x0f}, {128, 3}})[0], float(31 * d));
    }
  });
}

/// binary16 sources: every subnormal word keeps its value into binary32 and, as bfloat16, to the nearest word.
TEST(Subnormal, Sixteen) {
  inBothModes([](bool flush) {
    for (uint32_t word = 1; word < 0x400; ++word) {
      const std::byte raw[2] = {std::byte(word & 255), std::byte(word >> 8)};
      float value[1];
      decodeSourceRow(SourceType::F16, raw, value);
      ASSERT_EQ(double(value[0]), subnormal16(word)) << word << (flush ? ", flushing" : "");
      const double stored = decodeBf16(roundToBf16(value[0]));
      ASSERT_LE(std::fabs(stored - subnormal16(word)), subnormal16(word) / 256) << word;
    }
    // bfloat16 and binary32 subnormals pass as words.
    for (uint32_t word : {1u, 0x7fu, 0x8001u}) {
      const std::byte raw[2] = {std::byte(word & 255), std::byte(word >> 8)};
      float value[1];
      decodeSourceRow(SourceType::BF16, raw, value);
      ASSERT_EQ(std::bit_cast<uint32_t>(value[0]), word << 16);
      ASSERT_EQ(roundToBf16(value[0]), word);
    }
  });
}

/// Rows of binary32 subnormals: encoder and oracle agree whatever the mode, and the mode changes nothing.
TEST(Subnormal, EncodersDoNotDependOnTheMode) {
  std::vector<std::vector<float>> rows;
  for (int exponent = -149; exponent < -100; ++exponent) {
    std::vector<float> row(64);
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = std::ldexp(float(int(i) - 32), exponent);
    rows.push_back(row);
  }
  rows.push_back(std::vector<float>(64, std::bit_cast<float>(1u)));
  std::vector<std::pair<std::vector<int8_t>, std::vector<uint16_t>>> first;
  inBothModes([&](bool flush) {
    size_t at = 0;
    for (const auto &row : rows)
      for (Format format : kGrouped) {
        std::vector<int8_t> codes(64), fastCodes(64);
        std::vector<uint16_t> scales(64 / formatInfo(format).groupSize), fastScales(scales.size());
        ASSERT_TRUE(encodeRowCanonical(format, row, codes, scales).ok());
        ASSERT_TRUE(encodeRowFast(format, row, fastCodes, fastScales).ok());
        EXPECT_EQ(codes, fastCodes) << canonicalName(format) << (flush ? ", flushing" : "");
        EXPECT_EQ(scales, fastScales) << canonicalName(format) << (flush ? ", flushing" : "");
        if (!flush)
          first.emplace_back(codes, scales);
        else
          EXPECT_EQ(first[at], std::pair(codes, scales)) << canonicalName(format);
        ++at;
      }
  });
}

} // namespace
} // namespace ninfer
