// Offset arithmetic: published sizes, the packing example, bijection and bounds of offsets,
// refusals.
#include "artifact/layouts/Layout.h"

#include <gtest/gtest.h>
#include <set>

using namespace ninfer;

namespace {

EncodedGeometry make(Format format, std::vector<uint64_t> shape) {
  Result<EncodedGeometry> geometry = encodedGeometry(format, layoutOf(format), shape);
  EXPECT_TRUE(geometry.ok()) << (geometry.ok() ? "" : geometry.error().message);
  return geometry.take();
}

struct Published {
  std::vector<uint64_t> shape;
  Format format;
  uint64_t paddedK, groups, base, highOffset, high, scaleOffset, scales, size;
};

TEST(RowSplit, PublishedSizes) {
  using F = Format;
  const Published table[] = {
      {{1, 1}, F::Q4G64_F16S, 128, 2, 64, 256, 0, 256, 4, 260},
      {{2, 130}, F::Q5G64_F16S, 256, 4, 256, 256, 64, 512, 16, 528},
      {{3, 65}, F::Q6G64_F16S, 128, 2, 192, 256, 96, 512, 12, 524},
      {{5, 129}, F::W8G32_F16S, 256, 8, 1280, 1280, 0, 1280, 80, 1360},
      {{1152, 4304}, F::Q5G64_F16S, 4352, 68, 2506752, 2506752, 626688, 3133440, 156672, 3290112},
      {{7168, 5120}, F::Q4G64_F16S, 5120, 80, 18350080, 18350080, 0, 18350080, 1146880, 19496960},
      {{7168, 5120},
       F::Q5G64_F16S,
       5120,
       80,
       18350080,
       18350080,
       4587520,
       22937600,
       1146880,
       24084480},
      {{248320, 5120},
       F::Q6G64_F16S,
       5120,
       80,
       635699200,
       635699200,
       317849600,
       953548800,
       39731200,
       993280000},
      {{248320, 2048},
       F::W8G32_F16S,
       2048,
       64,
       508559360,
       508559360,
       0,
       508559360,
       31784960,
       540344320},
  };
  for (const Published &row : table) {
    const EncodedGeometry geometry = make(row.format, row.shape);
    EXPECT_EQ(geometry.paddedK, row.paddedK);
    EXPECT_EQ(geometry.groupsPerRow, row.groups);
    EXPECT_EQ(geometry.totalBytes, row.size);
    ASSERT_EQ(geometry.planes.size(), row.high ? 3u : 2u);
    EXPECT_EQ(geometry.planes[0].offset, 0u);
    EXPECT_EQ(geometry.planes[0].bytes, row.base);
    if (row.high) {
      EXPECT_EQ(geometry.planes[1].offset, row.highOffset);
      EXPECT_EQ(geometry.planes[1].bytes, row.high);
    }
    EXPECT_EQ(geometry.planes.back().offset, row.scaleOffset);
    EXPECT_EQ(geometry.planes.back().bytes, row.scales);
    EXPECT_EQ(geometry.planes[size_t(geometry.findPlane("scales"))].rowBytes, row.groups * 2);
  }
}

TEST(BlockScale, PublishedSizesAndOffsets) {
  EXPECT_EQ(make(Format::NVFP4, {128, 64}).totalBytes, 4612u);
  EXPECT_EQ(make(Format::NVFP4, {256, 128}).totalBytes, 18436u);
  EXPECT_EQ(make(Format::NVFP4, {14336, 5120}).totalBytes, 41287684u);
  EXPECT_EQ(make(Format::NVFP4, {34816, 5120}).totalBytes, 100270084u);
  const EncodedGeometry small = make(Format::NVFP4, {128, 64}),
                        wide = make(Format::NVFP4, {256, 128});
  EXPECT_EQ(scaleOffset(small, 33, 2) - small.planes[1].offset, 22u);
  EXPECT_EQ(scaleOffset(small, 127, 3) - small.planes[1].offset, 511u);
  EXPECT_EQ(scaleOffset(wide, 5, 4) - wide.planes[1].offset, 592u);
  EXPECT_EQ(scaleOffset(wide, 128, 0) - wide.planes[1].offset, 1024u);
}

TEST(RowScale, PublishedSizes) {
  EXPECT_EQ(make(Format::FP8_E4M3FN_ROW_BF16S, {3, 1}).totalBytes, 262u);
  EXPECT_EQ(make(Format::FP8_E4M3FN_ROW_BF16S, {9, 67}).totalBytes, 786u);
  EXPECT_EQ(make(Format::FP8_E4M3FN_ROW_BF16S, {14336, 5120}).totalBytes, 73428992u);
}

TEST(Contiguous, AnyRank) {
  EXPECT_EQ(make(Format::BF16, {}).totalBytes, 2u);
  EXPECT_EQ(make(Format::BF16, {}).rows, 1u);
  EXPECT_EQ(make(Format::FP32, {7}).rows, 1u);
  EXPECT_EQ(make(Format::I32, {2, 3, 5}).rows, 6u);
  EXPECT_EQ(make(Format::I32, {2, 3, 5}).totalBytes, 120u);
  EXPECT_EQ(directWordOffset(make(Format::BF16, {4, 4}), 5), 10u);
}

TEST(RowSplit, PackingExample) {
  struct Example {
    Format format;
    std::vector<int8_t> codes;
    std::vector<uint8_t> base, high;
  };
  const Example examples[] = {
      {Format::Q4G64_F16S, {0, 1, -1, 7, -8, 3, -4, 2}, {0x10, 0x7f, 0x38, 0x2c}, {}},
      {Format::Q5G64_F16S, {0, 1, -1, 15, -16, 7, -8, 2}, {0x10, 0xff, 0x70, 0x28}, {0x54}},
      {Format::Q6G64_F16S, {0, 1, -1, 31, -32, 17, -18, 2}, {0x10, 0xff, 0x10, 0x2e}, {0x70, 0x26}},
      {Format::W8G32_F16S, {0, 1, -1, 127, -127}, {0x00, 0x01, 0xff, 0x7f, 0x81}, {}},
  };
  for (const Example &example : examples) {
    const EncodedGeometry geometry = make(example.format, {1, example.codes.size()});
    std::vector<std::byte> object(geometry.totalBytes);
    const std::vector<uint16_t> scales = {0x3c00};
    ASSERT_TRUE(encodeRows(geometry, 0, GroupedRows{example.codes, scales}, object).ok());
    for (size_t i = 0; i < example.base.size(); ++i)
      EXPECT_EQ(uint8_t(object[i]), example.base[i])
          << canonicalName(example.format) << " base " << i;
    for (size_t i = 0; i < example.high.size(); ++i)
      EXPECT_EQ(uint8_t(object[geometry.planes[1].offset + i]), example.high[i])
          << canonicalName(example.format) << " high " << i;
    EXPECT_EQ(uint8_t(object[scaleOffset(geometry, 0, 0)]), 0x00);
    EXPECT_EQ(uint8_t(object[scaleOffset(geometry, 0, 0) + 1]), 0x3c);
  }
}

/// Every word offset lies inside its plane, and distinct coordinates own distinct bytes (or bits of
/// bytes).
TEST(Offsets, AreBijectiveAndInBounds) {
  const std::pair<Format, std::vector<uint64_t>> cases[] = {
      {Format::Q4G64_F16S, {5, 200}}, {Format::Q5G64_F16S, {3, 130}},
      {Format::Q6G64_F16S, {4, 65}},  {Format::W8G32_F16S, {3, 129}},
      {Format::NVFP4, {256, 192}},    {Format::FP8_E4M3FN_ROW_BF16S, {7, 33}}};
  for (const auto &[format, shape] : cases) {
    SCOPED_TRACE(canonicalName(format));
    const EncodedGeometry geometry = make(format, shape);
    const uint32_t bits = formatInfo(format).bits;
    const bool grouped = geometry.layout == Layout::RowSplitK128V1;
    std::set<uint64_t> baseBits, highBits, scales;
    const auto inside = [&](const PlaneInfo &plane, uint64_t offset) {
      EXPECT_GE(offset, plane.offset);
      EXPECT_LT(offset, plane.offset + plane.bytes);
    };
    for (uint64_t n = 0; n < geometry.rows; ++n) {
      for (uint64_t k = 0; k < geometry.paddedK; ++k) {
        const uint64_t byte =
            grouped ? baseByteOffset(geometry, n, k) : codeByteOffset(geometry, n, k);
        inside(geometry.planes[0], byte);
        EXPECT_TRUE(baseBits.insert(byte * 8 + (bits == 8 ? 0 : k % 2 * 4)).second)
            << n << "," << k;
        if (grouped && (bits == 5 || bits == 6)) {
          const uint64_t high = highByteOffset(geometry, n, k);
          inside(geometry.planes[1], high);
          EXPECT_TRUE(highBits.insert(high * 8 + (bits == 5 ? k % 8 : k % 4 * 2)).second)
              << n << "," << k;
        }
      }
      const uint64_t groups = geometry.groupsPerRow ? geometry.groupsPerRow : 1;
      for (uint64_t group = 0; group < groups; ++group) {
        const uint64_t offset = scaleOffset(geometry, n, group);
        inside(geometry.planes[size_t(geometry.findPlane("scales"))], offset);
        EXPECT_TRUE(scales.insert(offset).second) << n << "," << group;
      }
    }
    for (size_t i = 0; i + 1 < geometry.planes.size(); ++i)
      EXPECT_LE(geometry.planes[i].offset + geometry.planes[i].bytes,
                geometry.planes[i + 1].offset);
    EXPECT_EQ(geometry.planes.back().offset + geometry.planes.back().bytes, geometry.totalBytes);
  }
}

TEST(Geometry, Refusals) {
  const auto code = [](Format format, Layout layout, std::vector<uint64_t> shape) {
    Result<EncodedGeometry> geometry = encodedGeometry(format, layout, shape);
    return geometry.ok() ? std::string("ok") : geometry.error().code;
  };
  constexpr uint64_t kBig = UINT64_MAX;
  EXPECT_EQ(code(Format::BF16, Layout::RowSplitK128V1, {2, 2}), "NB0201");
  EXPECT_EQ(code(Format::Q4G64_F16S, Layout::ContiguousLeV1, {2, 2}), "NB0201");
  EXPECT_EQ(code(Format::Q4G64_F16S, Layout::RowSplitK128V1, {2}), "NB0202");
  EXPECT_EQ(code(Format::Q4G64_F16S, Layout::RowSplitK128V1, {2, 2, 2}), "NB0202");
  EXPECT_EQ(code(Format::BF16, Layout::ContiguousLeV1, {2, 0}), "NB0202");
  EXPECT_EQ(code(Format::NVFP4, Layout::BlockScaleK16M128x4V1, {64, 64}), "NB0202");
  EXPECT_EQ(code(Format::NVFP4, Layout::BlockScaleK16M128x4V1, {128, 32}), "NB0202");
  EXPECT_EQ(code(Format::FP8_E4M3FN_ROW_BF16S, Layout::RowScaleV1, {4}), "NB0202");
  EXPECT_EQ(code(Format::BF16, Layout::ContiguousLeV1, {uint64_t(1) << 32, uint64_t(1) << 32}),
            "NB0203");
  EXPECT_EQ(code(Format::FP32, Layout::ContiguousLeV1, {kBig}), "NB0203");
  EXPECT_EQ(code(Format::Q4G64_F16S, Layout::RowSplitK128V1, {1, kBig}), "NB0203");
  EXPECT_EQ(code(Format::W8G32_F16S, Layout::RowSplitK128V1, {(uint64_t(1) << 57) - 1, 128}),
            "NB0203");
  EXPECT_EQ(code(Format::FP8_E4M3FN_ROW_BF16S, Layout::RowScaleV1, {uint64_t(1) << 63, 2}),
            "NB0203");
  Result<EncodedGeometry> pair =
      encodedGeometry(Format::BF16, Layout::RowScaleV1, std::vector<uint64_t>{2, 2});
  ASSERT_FALSE(pair.ok());
  ASSERT_EQ(pair.error().help.size(), 1u);
  EXPECT_NE(pair.error().help[0].find("Q4G64_F16S/row-split-k128-v1"), std::string::npos);
}

TEST(EncodeRows, RefusesIllegalWordsAndLeavesTheObjectUnchanged) {
  const EncodedGeometry w8 = make(Format::W8G32_F16S, {2, 40}),
                        q4 = make(Format::Q4G64_F16S, {1, 70});
  std::vector<std::byte> object(w8.totalBytes), small(q4.totalBytes);
  std::vector<int8_t> codes(80, 1);
  std::vector<uint16_t> scales(4, 0x3c00);
  const auto w8Code = [&] {
    Status status = encodeRows(w8, 0, GroupedRows{codes, scales}, object);
    EXPECT_EQ(object, std::vector<std::byte>(w8.totalBytes)) << "written in spite of the error";
    return status.ok() ? std::string("ok") : status.error().code + " " + status.error().message;
  };
  codes[75] = -128;
  EXPECT_EQ(w8Code(), "NB0204 W8G32_F16S: row 1, group 1: code -128 outside [-127,127]");
  codes[75] = 1;
  for (uint16_t bad : {0x8000, 0x8001, 0x7c00, 0x7e00, 0xfc00, 0xbc00}) {
    scales[2] = bad;
    EXPECT_EQ(w8Code().substr(0, 42), "NB0204 W8G32_F16S: row 1, group 0: scale 0") << bad;
  }
  scales[2] = 0;
  EXPECT_EQ(w8Code(), "NB0204 W8G32_F16S: row 1, group 0: zero scale with a nonzero code");

  std::vector<int8_t> q4Codes(70, 0);
  const std::vector<uint16_t> two(2, 0x3c00);
  q4Codes[66] = 8;
  EXPECT_EQ(encodeRows(q4, 0, GroupedRows{q4Codes, two}, small).error().code, "NB0204");
  q4Codes[66] = -8;
  EXPECT_TRUE(encodeRows(q4, 0, GroupedRows{q4Codes, two}, small).ok());
  EXPECT_EQ(encodeRows(q4, 1, GroupedRows{q4Codes, two}, small).error().code, "NB0205");
  EXPECT_EQ(encodeRows(q4, 0, GroupedRows{std::span(q4Codes).first(69), two}, small).error().code,
            "NB0205");
  EXPECT_EQ(encodeRows(q4, 0, GroupedRows{q4Codes, std::span(two).first(1)}, small).error().code,
            "NB0205");
  EXPECT_EQ(encodeRows(q4, 0, GroupedRows{q4Codes, two}, object).error().code, "NB0205");
  EXPECT_EQ(encodeRows(q4, 0, RowScaledRows{}, small).error().code, "NB0205");

  const EncodedGeometry fp8 = make(Format::FP8_E4M3FN_ROW_BF16S, {1, 3});
  std::vector<std::byte> row(fp8.totalBytes);
  const auto fp8Code = [&](std::vector<uint8_t> words, uint16_t scale) {
    const std::vector<uint16_t> one = {scale};
    Status status = encodeRows(fp8, 0, RowScaledRows{words, one}, row);
    return status.ok() ? std::string("ok") : status.error().code;
  };
  EXPECT_EQ(fp8Code({0x7f, 0, 0}, 0x3f80), "NB0204");
  EXPECT_EQ(fp8Code({0, 0, 0xff}, 0x3f80), "NB0204");
  EXPECT_EQ(fp8Code({0, 0x80, 0x01}, 0), "NB0204");
  EXPECT_EQ(fp8Code({0, 0x80, 0x00}, 0), "ok");
  EXPECT_EQ(fp8Code({0, 0x7e, 0xfe}, 0x0001), "ok");
  for (uint16_t bad : {0x8000, 0x7f80, 0x7fc0, 0xbf80})
    EXPECT_EQ(fp8Code({0, 0, 0}, bad), "NB0204") << bad;

  const EncodedGeometry fp4 = make(Format::NVFP4, {128, 64});
  std::vector<std::byte> tile(fp4.totalBytes);
  const auto fp4Code = [&](uint8_t word, uint8_t scale, uint32_t divisor) {
    std::vector<uint8_t> words(128 * 64, word), scaleWords(128 * 4, 0x38);
    scaleWords[77] = scale;
    Status status = encodeRows(fp4, 0, BlockScaledRows{words, scaleWords, divisor}, tile);
    return status.ok() ? std::string("ok") : status.error().code;
  };
  EXPECT_EQ(fp4Code(7, 0x38, 0x40000000), "ok");
  EXPECT_EQ(fp4Code(16, 0x38, 0x40000000), "NB0204");
  for (uint8_t bad : {0x7f, 0xff, 0x80, 0x81, 0xb8})
    EXPECT_EQ(fp4Code(7, bad, 0x40000000), "NB0204") << int(bad);
  for (uint32_t bad : {0x00000000u, 0x80000000u, 0xbf800000u, 0x7f800000u, 0x7fc00000u})
    EXPECT_EQ(fp4Code(7, 0x38, bad), "NB0205") << bad;
  // Codes 6.0, scales 1.0, divisor 2.0.
  ASSERT_EQ(fp4Code(7, 0x38, 0x40000000), "ok");
  std::vector<float> values(64);
  decodeRow(fp4, tile, 127, values);
  EXPECT_EQ(values, std::vector<float>(64, 3.0f));
}

} // namespace
