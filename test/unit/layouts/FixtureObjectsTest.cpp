// Every tensor object of both golden files: geometry, words, represented values, re-encoding,
// encoders.
#include "artifact/formats/Encode.h"
#include "artifact/layouts/Layout.h"
#include "support/Sha256.h"
#include "test/conformance/FixtureFile.h"

#include <gtest/gtest.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

struct Case {
  std::string file;
  nlohmann::json object;
  std::string bytes;
  int version;
};

std::vector<Case> loadCases() {
  std::vector<Case> cases;
  for (const std::string name : {"v2_nine", "v3_single"}) {
    const nlohmann::json json = readJson(name + ".json");
    const std::string file = readBytes(fixturePath(name + ".ninfer"));
    for (const nlohmann::json &object : json["objects"])
      if (object["kind"] == "tensor")
        cases.push_back(
            {name, object,
             file.substr(json["payload_offset"].get<size_t>() + object["offset"].get<size_t>(),
                         object["bytes"]),
             json["container_version"]});
  }
  return cases;
}

std::span<const std::byte> bytesOf(const std::string &text) {
  return std::as_bytes(std::span(text));
}

EncodedGeometry geometryOf(const Case &test) {
  const std::string format = test.object["format"], layout = test.object["layout"];
  const auto f = test.version == 2 ? formatFromCanonical(format) : formatFromV3(format);
  const auto l = test.version == 2 ? layoutFromCanonical(layout) : layoutFromV3(layout);
  EXPECT_TRUE(f && l) << format << " " << layout;
  Result<EncodedGeometry> geometry =
      encodedGeometry(*f, *l, test.object["shape"].get<std::vector<uint64_t>>());
  EXPECT_TRUE(geometry.ok());
  return geometry.take();
}

std::string hexOf(const std::string &bytes) { return toHex(sha256(bytes)); }

template <typename T>
std::string text(const std::vector<T> &values, size_t bytes) {
  return leBytes(std::vector<uint32_t>(values.begin(), values.end()), bytes);
}

/// Compares `actual` (one word of `digits` per element) with whichever of the three forms the
/// fixture has.
void expectWords(const nlohmann::json &object, const std::string &key, const std::string &hashKey,
                 const std::string &crcKey, const std::string &actual, size_t digits, size_t rows,
                 int &compared) {
  if (object.contains(key)) {
    EXPECT_EQ(actual, leBytes(hexWords(object[key], digits), digits / 2)) << key;
    ++compared;
  }
  if (object.contains(hashKey)) {
    EXPECT_EQ(hexOf(actual), object[hashKey].get<std::string>()) << hashKey;
    ++compared;
  }
  if (object.contains(crcKey)) {
    const size_t rowBytes = actual.size() / rows;
    for (size_t n = 0; n < rows; ++n)
      EXPECT_EQ(crc32(actual.substr(n * rowBytes, rowBytes)),
                uint32_t(std::stoul(object[crcKey][n].get<std::string>(), nullptr, 16)))
          << crcKey << " row " << n;
    ++compared;
  }
}

void checkGeometryAndDigest(const Case &test) {
  const EncodedGeometry geometry = geometryOf(test);
  EXPECT_EQ(geometry.totalBytes, test.object["bytes"].get<uint64_t>());
  EXPECT_EQ(geometry.alignment, 256u);
  EXPECT_EQ(hexOf(test.bytes), test.object["payload_sha256"].get<std::string>());
}

void checkRepresentedValues(const Case &test) {
  const EncodedGeometry geometry = geometryOf(test);
  std::vector<float> values(geometry.rows * geometry.k);
  for (uint64_t n = 0; n < geometry.rows; ++n)
    decodeRow(geometry, bytesOf(test.bytes), n,
              std::span(values).subspan(n * geometry.k, geometry.k));
  if (formatInfo(geometry.format).category == FormatCategory::Direct) {
    // The expected value of a direct word follows from the word itself.
    const size_t wordBytes = formatInfo(geometry.format).bits / 8;
    if (test.object.contains("words")) {
      EXPECT_EQ(test.bytes, leBytes(hexWords(test.object["words"], wordBytes * 2), wordBytes));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t word = 0;
      for (size_t b = 0; b < wordBytes; ++b)
        word |= uint32_t(uint8_t(test.bytes[i * wordBytes + b])) << 8 * b;
      if (geometry.format == Format::I32)
        EXPECT_EQ(values[i], float(int32_t(word)));
      else
        EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), wordBytes == 2 ? word << 16 : word);
    }
    return;
  }
  int compared = 0;
  expectWords(test.object, "dequant_f32", "dequant_f32_le_sha256", "dequant_f32_row_crc32",
              leBytes(floatBits(values), 4), 8, geometry.rows, compared);
  EXPECT_GT(compared, 0);

  std::vector<float> again(values.size());
  decodeElements(geometry, bytesOf(test.bytes), 0, values.size(), again);
  EXPECT_EQ(floatBits(again), floatBits(values));
}

void checkWordsAndReencoding(const Case &test) {
  const EncodedGeometry geometry = geometryOf(test);
  std::string encoded(geometry.totalBytes, '\0');
  const std::span<std::byte> out = std::as_writable_bytes(std::span(encoded));
  int compared = 0;
  switch (geometry.layout) {
  case Layout::ContiguousLeV1:
    ASSERT_TRUE(encodeRows(geometry, 0, DirectRows{bytesOf(test.bytes)}, out).ok());
    ++compared;
    break;
  case Layout::RowSplitK128V1: {
    std::vector<int8_t> codes;
    std::vector<uint16_t> scales, allScales;
    for (uint64_t n = 0; n < geometry.rows; ++n) {
      std::vector<int8_t> rowCodes(geometry.paddedK);
      std::vector<uint16_t> rowScales(geometry.groupsPerRow);
      readGroupedRow(geometry, bytesOf(test.bytes), n, rowCodes, rowScales);
      codes.insert(codes.end(), rowCodes.begin(), rowCodes.begin() + long(geometry.k));
      scales.insert(scales.end(), rowScales.begin(),
                    rowScales.begin() + long(geometry.logicalGroupsPerRow()));
      allScales.insert(allScales.end(), rowScales.begin(), rowScales.end());
      for (uint64_t k = geometry.k; k < geometry.paddedK; ++k)
        ASSERT_EQ(rowCodes[k], 0);
    }
    expectWords(test.object, "codes_i8", "codes_i8_sha256", "codes_i8_row_crc32", text(codes, 1), 2,
                geometry.rows, compared);
    EXPECT_EQ(test.object["scales_per_row"], geometry.groupsPerRow);
    EXPECT_EQ(text(allScales, 2), leBytes(hexWords(test.object["scales_f16"], 4), 2));
    // The second half of the rows first: calls may come in any order.
    const uint64_t split = geometry.rows / 2, groups = geometry.logicalGroupsPerRow();
    for (const auto &[first, count] :
         {std::pair(split, geometry.rows - split), std::pair(uint64_t(0), split)})
      if (count) {
        ASSERT_TRUE(
            encodeRows(geometry, first,
                       GroupedRows{std::span(codes).subspan(first * geometry.k, count * geometry.k),
                                   std::span(scales).subspan(first * groups, count * groups)},
                       out)
                .ok());
      }
    break;
  }
  case Layout::BlockScaleK16M128x4V1: {
    std::vector<uint8_t> codes(geometry.rows * geometry.k),
        scales(geometry.rows * geometry.groupsPerRow);
    for (uint64_t n = 0; n < geometry.rows; ++n)
      readBlockScaledRow(
          geometry, bytesOf(test.bytes), n, std::span(codes).subspan(n * geometry.k, geometry.k),
          std::span(scales).subspan(n * geometry.groupsPerRow, geometry.groupsPerRow));
    std::string nibbles, packed;
    for (size_t i = 0; i < codes.size(); ++i) {
      nibbles += "0123456789abcdef"[codes[i]];
      if (i % 2)
        packed += char(codes[i - 1] | codes[i] << 4);
    }
    if (test.object.contains("codes_e2m1")) {
      EXPECT_EQ(nibbles, test.object["codes_e2m1"].get<std::string>());
    }
    if (test.object.contains("codes_packed_sha256")) {
      EXPECT_EQ(hexOf(packed), test.object["codes_packed_sha256"].get<std::string>());
    }
    compared += test.object.contains("codes_e2m1") || test.object.contains("codes_packed_sha256");
    EXPECT_EQ(text(scales, 1), leBytes(hexWords(test.object["scales_e4m3"], 2), 1));
    const uint32_t divisor = readDivisor(geometry, bytesOf(test.bytes));
    EXPECT_EQ(divisor,
              uint32_t(std::stoul(test.object["divisor_f32"].get<std::string>(), nullptr, 16)));
    ASSERT_TRUE(encodeRows(geometry, 0, BlockScaledRows{codes, scales, divisor}, out).ok());
    break;
  }
  case Layout::RowScaleV1: {
    std::vector<uint8_t> codes(test.bytes.begin(),
                               test.bytes.begin() + long(geometry.rows * geometry.k));
    std::vector<uint16_t> scales;
    for (uint64_t n = 0; n < geometry.rows; ++n) {
      const size_t at = scaleOffset(geometry, n, 0);
      scales.push_back(uint16_t(uint8_t(test.bytes[at]) | uint8_t(test.bytes[at + 1]) << 8));
    }
    expectWords(test.object, "codes_e4m3", "codes_e4m3_sha256", "codes_e4m3_row_crc32",
                text(codes, 1), 2, geometry.rows, compared);
    EXPECT_EQ(text(scales, 2), leBytes(hexWords(test.object["scales_bf16"], 4), 2));
    ASSERT_TRUE(encodeRows(geometry, 0, RowScaledRows{codes, scales}, out).ok());
    break;
  }
  }
  EXPECT_GT(compared, 0);
  EXPECT_EQ(encoded, test.bytes);
}

/// Counts the objects whose source the fixture holds.
void checkSourceEncoder(const Case &test, int &objects) {
  const EncodedGeometry geometry = geometryOf(test);
  const std::vector<float> source = sourceValues(test.object, geometry.rows * geometry.k);
  if (source.empty() || formatInfo(geometry.format).category == FormatCategory::Direct)
    return; // words chosen by the fixture's author, no encoder involved
  ASSERT_EQ(source.size(), geometry.rows * geometry.k);
  ++objects;
  std::string encoded(geometry.totalBytes, '\0'), encodedFast = encoded;
  for (uint64_t n = 0; n < geometry.rows; ++n) {
    const std::span<const float> row(source.data() + n * geometry.k, geometry.k);
    if (geometry.layout == Layout::RowScaleV1) {
      std::vector<uint8_t> codes(geometry.k);
      std::vector<uint16_t> scale(1);
      ASSERT_TRUE(encodeFp8Row(row, codes, scale[0]).ok());
      ASSERT_TRUE(encodeRows(geometry, n, RowScaledRows{codes, scale},
                             std::as_writable_bytes(std::span(encoded)))
                      .ok());
      encodedFast = encoded;
      continue;
    }
    for (const auto &[encode, out] :
         {std::pair(&encodeRowCanonical, &encoded), std::pair(&encodeRowFast, &encodedFast)}) {
      std::vector<int8_t> codes(geometry.k);
      std::vector<uint16_t> scales(geometry.logicalGroupsPerRow());
      ASSERT_TRUE(encode(geometry.format, row, codes, scales).ok());
      ASSERT_TRUE(encodeRows(geometry, n, GroupedRows{codes, scales},
                             std::as_writable_bytes(std::span(*out)))
                      .ok());
    }
  }
  EXPECT_EQ(encoded, test.bytes);
  EXPECT_EQ(encodedFast, test.bytes);
}

template <typename Check>
void forEachObject(Check check) {
  for (const Case &test : loadCases()) {
    SCOPED_TRACE(test.file + ": " +
                 (test.object.contains("name") ? test.object["name"] : test.object["id"])
                     .get<std::string>());
    check(test);
  }
}

TEST(Fixtures, GeometryAndDigest) { forEachObject(checkGeometryAndDigest); }
TEST(Fixtures, RepresentedValues) { forEachObject(checkRepresentedValues); }
TEST(Fixtures, WordsAndReencoding) { forEachObject(checkWordsAndReencoding); }
TEST(Fixtures, SourceEncoders) {
  int objects = 0;
  forEachObject([&](const Case &test) { checkSourceEncoder(test, objects); });
  EXPECT_EQ(objects, 44);
}

TEST(Fixtures, HaveTheExpectedNumberOfObjects) {
  EXPECT_EQ(readJson("v2_nine.json")["objects"].size(), 42u);
  EXPECT_EQ(readJson("v3_single.json")["objects"].size(), 49u);
}

} // namespace
