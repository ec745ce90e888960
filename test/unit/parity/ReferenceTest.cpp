// The independent readers of the parity ladder against what is known from elsewhere: the golden
// objects, the vectors of the reference GGUF package, and, word by word, artifact/formats.
#include "artifact/formats/Encode.h"
#include "artifact/formats/Words.h"
#include "inspect/ReferenceDecoder.h"
#include "inspect/ReferenceEncoder.h"
#include "inspect/ReferenceSource.h"
#include "support/Sha256.h"
#include "test/conformance/FixtureFile.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace ninfer {
namespace {

using namespace test;

bool sameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

TEST(Reference, EveryNarrowWordHasTheSameValueAsInFormats) {
  for (uint32_t word = 0; word < 65536; ++word) {
    ASSERT_TRUE(sameBits(float(referenceF16(word)), decodeF16(uint16_t(word)))) << word;
    ASSERT_TRUE(sameBits(referenceBf16(word), decodeBf16(uint16_t(word)))) << word;
  }
  for (uint32_t word = 0; word < 256; ++word)
    ASSERT_TRUE(sameBits(float(referenceE4m3(word)), decodeE4m3fn(uint8_t(word)))) << word;
  for (uint32_t word = 0; word < 16; ++word)
    ASSERT_TRUE(sameBits(float(referenceE2m1(word)), decodeE2m1(uint8_t(word)))) << word;
}

TEST(Reference, ReadsTheGoldenObjects) {
  size_t objects = 0, compared = 0;
  for (const std::string name : {"v2_nine", "v3_single"}) {
    const nlohmann::json json = readJson(name + ".json");
    const std::string file = readBytes(fixturePath(name + ".ninfer"));
    for (const nlohmann::json &object : json["objects"]) {
      if (object["kind"] != "tensor")
        continue;
      const std::string format = object["format"];
      const auto f =
          json["container_version"] == 2 ? formatFromCanonical(format) : formatFromV3(format);
      ASSERT_TRUE(f);
      const auto layout = referenceLayout(*f, object["shape"].get<std::vector<uint64_t>>());
      ASSERT_TRUE(layout);
      ASSERT_EQ(layout->bytes, object["bytes"].get<uint64_t>()) << object["name"];
      const std::string bytes =
          file.substr(json["payload_offset"].get<size_t>() + object["offset"].get<size_t>(),
                      object["bytes"].get<size_t>());
      const auto span = std::as_bytes(std::span(bytes));
      ++objects;
      std::vector<float> values(layout->columns);
      std::string all;
      ReferenceRow row;
      for (uint64_t n = 0; n < layout->rows; ++n) {
        readReferenceRow(*layout, span, n, row);
        referenceValues(*layout, row, values);
        for (float v : values)
          for (int i = 0; i < 4; ++i)
            all += char(std::bit_cast<uint32_t>(v) >> (8 * i));
      }
      EXPECT_FALSE(firstGapByte(*layout, span)) << object["name"];
      if (object.contains("dequant_f32")) {
        ++compared;
        EXPECT_EQ(all, leBytes(hexWords(object["dequant_f32"], 8), 4)) << object["name"];
      } else if (object.contains("dequant_f32_le_sha256")) {
        ++compared;
        EXPECT_EQ(toHex(sha256(all)), object["dequant_f32_le_sha256"].get<std::string>())
            << object["name"];
      }
    }
  }
  EXPECT_GT(objects, 40u);
  EXPECT_GT(compared, 30u);
}

std::vector<std::byte> fromHex(const std::string &hex) {
  std::vector<std::byte> out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(std::byte(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return out;
}

TEST(Reference, SourceBlocksGiveTheValuesOfTheReferencePackage) {
  const nlohmann::json vectors =
      nlohmann::json::parse(readBytes(NINFER_SOURCE_DIR "/test/vectors/ggml/blocks.json"));
  size_t types = 0;
  for (SourceType type :
       {SourceType::Q8_0, SourceType::Q4_0, SourceType::Q5_0, SourceType::IQ4_NL, SourceType::Q4_1,
        SourceType::Q5_1, SourceType::Q2_K, SourceType::Q3_K, SourceType::Q4_K, SourceType::Q5_K,
        SourceType::Q6_K, SourceType::IQ4_XS}) {
    const nlohmann::json &entry = vectors["types"].at(sourceTypeInfo(type).name);
    const std::vector<std::byte> row = fromHex(entry["blocks"]);
    std::vector<float> values(entry["columns"].get<size_t>());
    referenceSourceRow(type, row, values);
    const std::string expected = entry["values"];
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]),
                std::stoul(expected.substr(8 * i, 8), nullptr, 16))
          << sourceTypeInfo(type).name << " element " << i;
    ++types;
  }
  EXPECT_EQ(types, 12u);
}

/// Rows that reach every branch: zeros, subnormals, ties, one large value among small ones.
std::vector<float> row(std::mt19937 &random, size_t columns, int kind) {
  std::vector<float> out(columns);
  for (float &v : out) {
    switch (kind % 5) {
    case 0:
      v = std::ldexp(float(int(random() % 511) - 255), -8); // ties
      break;
    case 1: {
      const uint32_t bits = (random() & 0x807fffffu) | ((random() % 30 + 100) << 23);
      v = std::bit_cast<float>(bits);
      break;
    }
    case 2:
      v = std::ldexp(float(int(random() % 5) - 2), -140 - int(random() % 9)); // subnormal
      break;
    case 3:
      v = random() % 9 == 0 ? 900.0f : std::ldexp(float(int(random() % 99) - 49), -20);
      break;
    default:
      v = random() % 3 == 0 ? -0.0f : 0.0f;
    }
  }
  return out;
}

TEST(Reference, EncoderGivesTheWordsOfTheCanonicalEncoder) {
  std::mt19937 random(7);
  for (Format format :
       {Format::Q4G64_F16S, Format::Q5G64_F16S, Format::Q6G64_F16S, Format::W8G32_F16S})
    for (int i = 0; i < 400; ++i) {
      const size_t columns = 1 + random() % 200;
      const auto layout = referenceLayout(format, std::vector<uint64_t>{1, columns});
      const std::vector<float> values = row(random, columns, i);
      std::vector<int8_t> codes(columns);
      std::vector<uint16_t> scales(layout->groups);
      ASSERT_TRUE(encodeRowCanonical(format, values, codes, scales).ok());
      ReferenceRow out;
      ASSERT_TRUE(prescribedRow(*layout, values, out));
      ASSERT_EQ(out.codes, std::vector<int32_t>(codes.begin(), codes.end())) << i;
      ASSERT_EQ(out.scales, std::vector<uint32_t>(scales.begin(), scales.end())) << i;
    }
}

TEST(Reference, EncoderOfFp8RowsAndRounding) {
  std::mt19937 random(8);
  const auto fp8 = referenceLayout(Format::FP8_E4M3FN_ROW_BF16S, std::vector<uint64_t>{1, 150});
  const auto bf16 = referenceLayout(Format::BF16, std::vector<uint64_t>{1, 150});
  size_t refused = 0;
  for (int i = 0; i < 500; ++i) {
    const std::vector<float> values = row(random, 150, i);
    std::vector<uint8_t> codes(150);
    uint16_t scale = 0;
    ReferenceRow out;
    const bool ok = encodeFp8Row(values, codes, scale).ok();
    ASSERT_EQ(prescribedRow(*fp8, values, out), ok);
    refused += !ok;
    if (ok) {
      ASSERT_EQ(out.codes, std::vector<int32_t>(codes.begin(), codes.end())) << i;
      ASSERT_EQ(out.scales[0], scale);
    }
    ASSERT_TRUE(prescribedRow(*bf16, values, out));
    for (size_t k = 0; k < values.size(); ++k)
      ASSERT_EQ(uint32_t(out.codes[k]), roundToBf16(values[k]));
  }
  EXPECT_GT(refused, 0u) << "rows without a finite reciprocal were not reached";
  EXPECT_LT(refused, 200u);
}

TEST(Reference, Fp8CodesAreTheNearestWords) {
  // A largest magnitude of 448 gives the scale 1, so the codes are the values, rounded: every upper
  // half of a binary32 word up to 448 with ties, their neighbours and random lower halves.
  std::mt19937 random(9);
  for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, uint32_t(random() & 0xffffu)}) {
    std::vector<float> values = {448.0f};
    for (uint32_t upper = 0; upper < 0x43e0; ++upper)
      for (uint32_t sign : {0u, 0x80000000u})
        values.push_back(std::bit_cast<float>(sign | upper << 16 | lower));
    std::vector<uint8_t> codes(values.size());
    uint16_t scale = 0;
    ASSERT_TRUE(encodeFp8Row(values, codes, scale).ok());
    ASSERT_EQ(scale, 0x3f80);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(codes[i], roundToE4m3fn(values[i])) << values[i];
  }
}

TEST(Reference, ValuesThatHaveNoWords) {
  const auto layout = referenceLayout(Format::Q4G64_F16S, std::vector<uint64_t>{1, 3});
  ReferenceRow out;
  EXPECT_FALSE(prescribedRow(*layout, std::vector<float>{0, NAN, 1}, out));
  EXPECT_FALSE(
      prescribedRow(*layout, std::vector<float>{0, 1e9f, 1}, out)); // scale beyond binary16
  EXPECT_FALSE(referenceLayout(Format::NVFP4, std::vector<uint64_t>{64, 64}));
  EXPECT_FALSE(referenceLayout(Format::Q4G64_F16S, std::vector<uint64_t>{3}));
  EXPECT_FALSE(referenceLayout(Format::BF16, std::vector<uint64_t>{uint64_t(1) << 40, 1u << 30}));
}

} // namespace
} // namespace ninfer
