// Built-ins of a vision tower, against numbers worked out by hand or by the formula in this file.
#include "test/unit/reference/Helpers.h"

#include <cmath>

using namespace ninfer;
using namespace ninfer::test;

// bfloat16 words: 1 = 0x3f80, 2 = 0x4000, 0.5 = 0x3f00, -3 = 0xc040.

TEST(Vision, LayerNorm) {
  auto norm = make("ref.layer_norm", {{"k", int64_t(2)}, {"eps", 0.75}});
  ASSERT_TRUE(norm);
  float x[] = {3, 4, -7, 1}, y[4];
  uint16_t w[] = {0x3f80, 0x4000}, b[] = {0x3f00, 0xc040};
  call(*norm, {x, w, b, y}, 2);
  // means 3.5 and -3, variances 0.25 and 16
  EXPECT_FLOAT_EQ(y[0], -0.5f + 0.5f);
  EXPECT_FLOAT_EQ(y[1], 2 * 0.5f - 3);
  EXPECT_FLOAT_EQ(y[2], float(-4 / std::sqrt(16.75) + 0.5));
  EXPECT_FLOAT_EQ(y[3], float(2 * 4 / std::sqrt(16.75) - 3));
}

TEST(Vision, BiasCoversAGroupOfRows) {
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8];
  uint16_t b[] = {0x3f80, 0x4000, 0x3f00, 0xc040};
  auto plain = make("ref.bias", {{"k", int64_t(2)}});
  call(*plain, {x, b, y}, 4);
  EXPECT_EQ(std::vector<float>(y, y + 8), (std::vector<float>{2, 4, 4, 6, 6, 8, 8, 10}));
  auto grouped = make("ref.bias", {{"k", int64_t(2)}, {"row_group", int64_t(2)}});
  EXPECT_EQ(grouped->args(4)[1].bytes, 8u);
  call(*grouped, {x, b, y}, 4);
  EXPECT_EQ(std::vector<float>(y, y + 8), (std::vector<float>{2, 4, 3.5, 1, 6, 8, 7.5, 5}));
}

TEST(Vision, Gelu) {
  float x[] = {0, 1, -1, 3, -3, 30, -30, 0.5f}, y[8];
  auto exact = make("ref.gelu", {{"k", int64_t(4)}});
  call(*exact, {x, y}, 2);
  for (int i = 0; i < 8; ++i)
    EXPECT_NEAR(y[i], x[i] / 2 * (1 + std::erf(x[i] / std::sqrt(2.0))), 1e-7 * std::abs(x[i]) + 1e-30) << x[i];
  auto tanh = make("ref.gelu", {{"k", int64_t(4)}, {"tanh", int64_t(1)}});
  call(*tanh, {x, y}, 2);
  for (int i = 0; i < 8; ++i) {
    const double v = x[i], u = 0.7978845608028654 * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(y[i], v / 2 * (1 + std::tanh(u)), 1e-7 * std::abs(v) + 1e-30) << v;
  }
}

TEST(Vision, AxialRopeTurnsHalfByEachPosition) {
  auto rope = make("ref.axial_rope", {{"heads", int64_t(1)}, {"pairs", int64_t(1)}, {"capacity", int64_t(2)}});
  ASSERT_TRUE(rope);
  float x[] = {1, 2, 3, 4, 1, 2, 3, 4}, y[8];
  float table[] = {1, 0, 0, 1};          // position 0: as it is; position 1: a quarter turn
  int32_t positions[] = {1, 0, 0, 1};    // row 0 turns its first pair, row 1 its second
  call(*rope, {x, table, positions, y}, 2);
  EXPECT_EQ(std::vector<float>(y, y + 8), (std::vector<float>{-3, 2, 1, 4, 1, -4, 3, 2}));
  int32_t outside[] = {2, 0, 0, -1};
  call(*rope, {x, table, outside, y}, 2);
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[2]) && std::isnan(y[5]) && std::isnan(y[7]));
  EXPECT_EQ(y[1], 2);
  EXPECT_EQ(y[4], 1);
}

TEST(Vision, ReplaceRowsTakesThoseThatAreMarked) {
  auto replace = make("ref.replace_rows", {{"k", int64_t(2)}});
  ASSERT_TRUE(replace);
  float x[] = {1, 2, 3, 4, 5, 6}, by[] = {11, 12, 13, 14, 15, 16}, y[6];
  int32_t where[] = {0, 1, -1};
  call(*replace, {x, by, where, y}, 3);
  EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{1, 2, 13, 14, 5, 6}));
}

TEST(Vision, PlaceAnglesTakesEachPairByItsAxis) {
  auto place = make("ref.place_angles", {{"capacity", int64_t(4)},
                                         {"positions", int64_t(3)},
                                         {"width", int64_t(3)},
                                         {"axes", std::vector<double>{0, 2}}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->positionLimit(), 4);
  float angles[12], placed[16];
  for (int i = 0; i < 12; ++i)
    angles[i] = float(i); // row p, pair i: 4 p + 2 i, and one more
  std::fill(placed, placed + 16, -1.0f);
  int32_t positions[] = {0, 9, 2, 1, 9, 0}; // the axis in the middle has no pair
  call(*place, {positions, angles, placed}, 2, 1);
  EXPECT_EQ(std::vector<float>(placed, placed + 16),
            (std::vector<float>{-1, -1, -1, -1, 0, 1, 10, 11, 4, 5, 2, 3, -1, -1, -1, -1}));
  int32_t outside[] = {3, 0, -1};
  call(*place, {outside, angles, placed}, 1, 0);
  EXPECT_TRUE(std::isnan(placed[0]) && std::isnan(placed[1]) && std::isnan(placed[2]) && std::isnan(placed[3]));
  for (const std::vector<double> &axes : {std::vector<double>{3}, std::vector<double>{-1}, std::vector<double>{0.5}})
    EXPECT_EQ(reference::makeBuiltin("ref.place_angles",
                                     {{"capacity", int64_t(4)}, {"positions", int64_t(3)}, {"width", int64_t(3)}, {"axes", axes}},
                                     "test")
                  .error()
                  .code,
              "NB0621");
}

TEST(Vision, FullAttentionSeesEveryRow) {
  auto attention =
      make("ref.full_attention", {{"heads", int64_t(2)}, {"dim", int64_t(1)}, {"scale", 0.5}});
  ASSERT_TRUE(attention);
  const double ln3 = std::log(3.0);
  float q[] = {float(2 * ln3), 0, 0, 1000}, k[] = {1, 2, 0, 5}, v[] = {4, 8, 8, 16}, y[4];
  call(*attention, {q, k, v, y}, 2);
  EXPECT_FLOAT_EQ(y[0], 5);  // head 0: weights 3/4 and 1/4 in row 0, equal ones in row 1
  EXPECT_FLOAT_EQ(y[2], 6);
  EXPECT_FLOAT_EQ(y[1], 12); // head 1: equal ones; then the second key by far
  EXPECT_FLOAT_EQ(y[3], 16);
}

TEST(Vision, Interpolate) {
  auto sum = make("ref.interpolate", {{"format", std::string("BF16")},
                                      {"layout", std::string("contiguous-le-v1")},
                                      {"n", int64_t(3)},
                                      {"k", int64_t(2)},
                                      {"taps", int64_t(2)}});
  ASSERT_TRUE(sum);
  alignas(64) uint16_t table[] = {0x3f80, 0x4000, 0x3f00, 0xc040, 0x4000, 0x3f80};
  int32_t indices[] = {2, 0, 1, 1};
  float weights[] = {0.5f, 0.25f, 1, 1}, y[4];
  call(*sum, {indices, weights, table, y}, 2);
  EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{1.25f, 1, 1, -6}));
  int32_t outside[] = {3, 0, -1, 1};
  call(*sum, {outside, weights, table, y}, 2);
  for (float value : y)
    EXPECT_TRUE(std::isnan(value));
}

TEST(Vision, GroupedLinearTakesRowsEndToEnd) {
  auto linear = make("ref.linear", {{"format", std::string("BF16")},
                                    {"layout", std::string("contiguous-le-v1")},
                                    {"n", int64_t(2)},
                                    {"k", int64_t(4)},
                                    {"row_group", int64_t(2)}});
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->args(6)[0].bytes, 3u * 4 * 4);
  EXPECT_EQ(linear->args(6)[2].bytes, 3u * 2 * 4);
  alignas(64) uint16_t w[] = {0x3f80, 0, 0, 0x4000, 0, 0x3f80, 0x3f80, 0};
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, y[] = {0, 0, 0, 0, 77};
  call(*linear, {x, w, y}, 4);
  EXPECT_EQ(std::vector<float>(y, y + 5), (std::vector<float>{9, 5, 21, 13, 77}));
}
