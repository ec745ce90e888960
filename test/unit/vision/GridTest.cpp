// Places of patches and positions of text around media, against the library's and against the formulas.
#include "runtime/vision/Grid.h"

#include "Vectors.h"

#include <cmath>
#include <set>

namespace ninfer::vision {
namespace {

using test::visionVectors;

struct Places {
  std::vector<int32_t> positions, indices;
  std::vector<float> weights;
};

Places placesOf(const Grid &grid, int64_t merge, int64_t side) {
  const auto n = size_t(grid.patches());
  Places p{std::vector<int32_t>(2 * n), std::vector<int32_t>(4 * n), std::vector<float>(4 * n)};
  patchPlaces(grid, merge, side, p.positions, p.indices, p.weights);
  return p;
}

TEST(Grid, PlacesAreThoseOfTheLibrary) {
  ASSERT_GE(visionVectors()["places"].size(), 6u);
  for (const auto &c : visionVectors()["places"]) {
    const Grid grid{c["grid"][0], c["grid"][1]};
    SCOPED_TRACE(c["grid"].dump() + ", side " + c["side"].dump());
    const Places got = placesOf(grid, c["merge"], c["side"]);
    EXPECT_EQ(got.positions, c["positions"].get<std::vector<int32_t>>());
    EXPECT_EQ(got.indices, c["indices"].get<std::vector<int32_t>>());
    const auto weights = c["weights"].get<std::vector<double>>();
    ASSERT_EQ(weights.size(), got.weights.size());
    for (size_t i = 0; i < weights.size(); ++i) // rounded once
      ASSERT_NEAR(got.weights[i], weights[i], 0x1p-24) << i;
  }
}

// Bilinear weights reproduce a linear function of row and column; the corners of the grid are those of the table.
TEST(Grid, WeightsReproduceLinearFunctions) {
  for (const Grid &grid : {Grid{2, 6}, Grid{34, 4}, Grid{48, 48}, Grid{2, 2}}) {
    constexpr int64_t side = 48;
    const Places p = placesOf(grid, 2, side);
    std::set<std::pair<int32_t, int32_t>> seen;
    for (size_t i = 0; i < size_t(grid.patches()); ++i) {
      const int32_t row = p.positions[2 * i], column = p.positions[2 * i + 1];
      EXPECT_TRUE(seen.insert({row, column}).second);
      double sum = 0, y = 0, x = 0;
      for (size_t t = 4 * i; t < 4 * i + 4; ++t) {
        EXPECT_GE(p.indices[t], 0);
        EXPECT_LT(p.indices[t], side * side);
        sum += p.weights[t];
        y += p.weights[t] * double(p.indices[t] / side);
        x += p.weights[t] * double(p.indices[t] % side);
      }
      EXPECT_NEAR(sum, 1, 1e-6);
      EXPECT_NEAR(y, double(row) * 47 / double(grid.height - 1), 1e-5);
      EXPECT_NEAR(x, double(column) * 47 / double(grid.width - 1), 1e-5);
    }
    EXPECT_EQ(seen.size(), size_t(grid.patches()));
  }
}

TEST(Grid, PatchesOfASquareFollowOneAnother) {
  const Grid grid{6, 9};
  for (int64_t i = 0; i < grid.patches(); ++i) {
    const auto [row, column] = patchAt(grid, 3, i);
    const auto [firstRow, firstColumn] = patchAt(grid, 3, i / 9 * 9);
    EXPECT_EQ(row / 3, firstRow / 3);
    EXPECT_EQ(column / 3, firstColumn / 3);
  }
  EXPECT_EQ(patchAt(grid, 3, 4), (std::array<int64_t, 2>{1, 1}));
  EXPECT_EQ(patchAt(grid, 3, 9), (std::array<int64_t, 2>{0, 3}));
}

TEST(Grid, Checks) {
  EXPECT_TRUE(checkGrid({2, 4}, 2, 8).ok());
  for (const Grid &grid : {Grid{0, 2}, Grid{2, -2}, Grid{3, 2}, Grid{2, 5}, Grid{2, 6}, Grid{INT64_MAX - 1, 2},
                           Grid{int64_t(1) << 40, int64_t(1) << 40}}) {
    const Status status = checkGrid(grid, 2, 8);
    ASSERT_FALSE(status.ok()) << grid.height << " x " << grid.width;
    EXPECT_EQ(status.error().code, "NB0676");
  }
}

TEST(TextPositions, AreThoseOfTheLibrary) {
  ASSERT_GE(visionVectors()["sequences"].size(), 5u);
  for (const auto &c : visionVectors()["sequences"]) {
    std::vector<Span> spans;
    for (const auto &span : c["spans"])
      spans.push_back(span.is_number() ? Span{span, std::nullopt} : Span{0, Grid{span[0], span[1]}});
    const auto got = textPositions(spans, c["merge"]);
    ASSERT_TRUE(got.ok());
    std::vector<int32_t> flat;
    for (const auto &position : got->positions)
      flat.insert(flat.end(), position.begin(), position.end());
    EXPECT_EQ(flat, c["positions"].get<std::vector<int32_t>>()) << c["spans"];
    EXPECT_EQ(got->ropeDelta, c["rope_delta"].get<int64_t>()) << c["spans"];
  }
}

// start + (t, h, w); behind it start + max(h, w); delta = largest + 1 - tokens.
TEST(TextPositions, FollowTheFormula) {
  const Span spans[] = {{3, std::nullopt}, {0, Grid{4, 8}}, {1, std::nullopt}};
  const auto got = textPositions(spans, 2);
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->positions.size(), 3u + 8 + 1);
  EXPECT_EQ(got->positions[2], (std::array<int32_t, 3>{2, 2, 2}));
  EXPECT_EQ(got->positions[3], (std::array<int32_t, 3>{3, 3, 3}));
  EXPECT_EQ(got->positions[3 + 7], (std::array<int32_t, 3>{3, 4, 6}));
  EXPECT_EQ(got->positions[11], (std::array<int32_t, 3>{7, 7, 7}));
  EXPECT_EQ(got->ropeDelta, 7 + 1 - 12);
  EXPECT_EQ(textPositions({}, 2)->ropeDelta, 0);
  const Span odd[] = {{0, Grid{3, 2}}}, endless[] = {{5, std::nullopt}, {int64_t(1) << 31, std::nullopt}};
  for (std::span<const Span> bad : {std::span<const Span>(odd), std::span<const Span>(endless)}) {
    const auto refused = textPositions(bad, 2);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, "NB0676");
  }
}

} // namespace
} // namespace ninfer::vision
