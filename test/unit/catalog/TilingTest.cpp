// Tiles cover every output exactly once, whatever the split, and do not span segments.
#include "Requests.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

TEST(Tiling, LinearTilesCoverEveryOutputOnce) {
  const std::vector<std::vector<int64_t>> cases = {
      {1},       {7},       {8},          {9},     {15},
      {16},      {17},      {31},         {192},   {2047},
      {2048},    {2049},    {5120},       {49152}, {576, 192, 192},
      {1, 1, 1}, {2048, 7}, {33, 2049, 5}};
  for (const auto &n : cases)
    for (int64_t rows : {1, 2, 512}) {
      const int64_t granule = linearGranule(n, rows);
      ASSERT_TRUE(granule == 8 || granule == 16 || granule == 32);
      const std::vector<int64_t> first = segmentFirstTiles(n, granule);
      ASSERT_EQ(first.size(), n.size() + 1);
      for (size_t s = 0; s < n.size(); ++s) {
        std::vector<int> covered(static_cast<size_t>(n[s]), 0);
        for (int64_t tile = first[s]; tile < first[s + 1]; ++tile) {
          int64_t begin = (tile - first[s]) * granule, end = std::min(begin + granule, n[s]);
          EXPECT_LT(begin, end) << "an empty tile";
          for (int64_t row = begin; row < end; ++row)
            ++covered[static_cast<size_t>(row)];
        }
        EXPECT_EQ(std::count(covered.begin(), covered.end(), 1), n[s]);
      }
    }
}

TEST(Tiling, SwigluCountsPairs) {
  KernelSignature s = test::linear(Format::Q4G64_F16S, 1536, 576);
  s.weights.push_back(s.weights.front());
  s.epilogue = KernelEpilogue::Swiglu;
  EXPECT_EQ(tilingFor(s, "cpu"), (Tiling{192, 0, 8}));
  s.epilogue = KernelEpilogue::Store;
  EXPECT_EQ(tilingFor(s, "cpu"), (Tiling{192, 0, 16})); // 3072 outputs
}

TEST(Tiling, ManyTilesPerThread) {
  // The head of a small model and its smallest projection group, over up to 16 threads.
  EXPECT_EQ(tilingFor(test::linear(Format::W8G32_F16S, 49152, 576), "cpu").tilesConst, 3072);
  EXPECT_EQ(tilingFor(test::linear(Format::Q6G64_F16S, 192, 576), "cpu").tilesConst, 24);
}

TEST(Tiling, RowsOfTheCallOrStaticRows) {
  KernelSignature s = test::request(OpKind::RopeAppend);
  EXPECT_EQ(tilingFor(s, "cpu"), (Tiling{12, 0, 0})); // one row: 9 query heads and 3 KV heads
  s.rows = s.inputRows = {1, 512};
  EXPECT_EQ(tilingFor(s, "cpu"), (Tiling{0, 12, 0}));
  s = test::request(OpKind::Attention);
  s.rows = s.inputRows = {1, 512};
  EXPECT_EQ(tilingFor(s, "cpu"), (Tiling{0, 9, 0}));
  EXPECT_EQ(tilingFor(s, "reference"), (Tiling{0, 1, 0}));
  s = test::request(OpKind::LastRow);
  s.inputRows = {1, 512};
  EXPECT_EQ(tilingFor(s, "cpu"), (Tiling{1, 0, 0}));
  // Behind last_row a kernel has one row while the call has many.
  EXPECT_EQ(tilingFor(test::request(OpKind::RmsNorm), "cpu"), (Tiling{1, 0, 0}));
}

} // namespace
} // namespace ninfer
