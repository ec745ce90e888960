#include "test/unit/reference/Helpers.h"

#include <cmath>

using namespace ninfer;
using namespace ninfer::test;

TEST(Attention, RopeTable) {
  auto table = make("rope_table", {{"capacity", int64_t(3)}, {"pairs", int64_t(2)}, {"inv_freq", std::vector<double>{1.0, 0.25}}});
  float out[12];
  call(*table, {out}, 1);
  for (int p = 0; p < 3; ++p) {
    EXPECT_FLOAT_EQ(out[p * 4], float(std::cos(double(p))));
    EXPECT_FLOAT_EQ(out[p * 4 + 1], float(std::sin(double(p))));
    EXPECT_FLOAT_EQ(out[p * 4 + 2], float(std::cos(0.25 * p)));
    EXPECT_FLOAT_EQ(out[p * 4 + 3], float(std::sin(0.25 * p)));
  }
}

// Every position is within a rounding of its angle's cosine and sine, and does not depend on how threads cut the positions.
TEST(Attention, RopeTableOfManyPositions) {
  constexpr int64_t kPositions = 5000, kPairs = 20; // neither a multiple of the blocks nor of the lanes inside
  std::vector<double> frequencies;
  for (int64_t i = 0; i < kPairs; ++i)
    frequencies.push_back(std::pow(10000.0, -double(i) / double(kPairs)));
  auto table = make("rope_table", {{"capacity", kPositions}, {"pairs", kPairs}, {"inv_freq", frequencies}});
  std::vector<float> whole(size_t(kPositions * kPairs * 2)), parts(whole.size());
  void *one[] = {whole.data()}, *two[] = {parts.data()};
  table->run({one, 1, 0, nullptr}, 0, kPositions);
  for (const auto &[begin, end] : {std::pair<int64_t, int64_t>{0, 45}, {45, 46}, {46, 1000}, {1000, kPositions}})
    table->run({two, 1, 0, nullptr}, begin, end);
  EXPECT_EQ(whole, parts);
  for (int64_t p = 0; p < kPositions; ++p)
    for (int64_t i = 0; i < kPairs; ++i) {
      const double angle = double(p) * frequencies[size_t(i)];
      const float *at = &whole[size_t(p * kPairs + i) * 2];
      // Half a step of float32 below 1; the roundings of the angle there and here; those of cosines, sines, products and sum (below 1).
      const double bound = 0x1p-25 + 2 * std::abs(angle) * 0x1p-53 + 8 * 0x1p-53;
      ASSERT_NEAR(at[0], std::cos(angle), bound) << p << ", " << i;
      ASSERT_NEAR(at[1], std::sin(angle), bound) << p << ", " << i;
    }
}

// Quarter and half turns move whole values: pair i is (x[i], x[i + dim/2]).
TEST(Attention, Rope) {
  auto rope = make("ref.rope", {{"heads", int64_t(2)}, {"dim", int64_t(4)}, {"capacity", int64_t(3)}});
  // cos, sin of pair 0 and pair 1 at positions 0, 1, 2
  float table[] = {1, 0, 1, 0, /*1*/ 0, 1, -1, 0, /*2*/ -1, 0, 0, 1};
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}, y[16];
  call(*rope, {x, table, y}, 2, 1); // rows at positions 1 and 2
  const float expected[] = {-3, -2, 1, -4, -7, -6, 5, -8, -1, -4, -3, 2, -5, -8, -7, 6};
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(y[i], expected[i]) << i;
}

TEST(Attention, KvAppendPlacesAndRounds) {
  // Two KV heads, capacity 4, dim 2; two rows from position 1.
  float key[] = {1, 2, 3, 4, 5, 6, 7, 8}, value[] = {-1, -2, -3, -4, -5, -6, -7, -8};
  std::vector<float> keys(16, 99), values(16, 99);
  const reference::AttributeMap shape = {{"kv_heads", int64_t(2)}, {"dim", int64_t(2)}, {"capacity", int64_t(4)}};
  auto attributes = shape;
  attributes["codec"] = std::string("f32");
  auto append = make("ref.kv_append", attributes);
  call(*append, {key, value, keys.data(), values.data()}, 2, 1);
  EXPECT_EQ(keys, (std::vector<float>{99, 99, 1, 2, 5, 6, 99, 99, 99, 99, 3, 4, 7, 8, 99, 99}));
  EXPECT_EQ(values, (std::vector<float>{99, 99, -1, -2, -5, -6, 99, 99, 99, 99, -3, -4, -7, -8, 99, 99}));

  // bfloat16: ties to even, both ways, and a carry into the exponent.
  attributes["codec"] = std::string("bf16");
  auto rounded = make("ref.kv_append", attributes);
  float exact[] = {1.00390625f, 1.01171875f, 1.9990234375f, -0.0f}; // 1 + 2^-8, 1 + 3 * 2^-8, 2 - 2^-10, -0
  std::vector<uint16_t> words(16, 7), other(16, 7);
  call(*rounded, {exact, value, words.data(), other.data()}, 1, 0);
  EXPECT_EQ(words[0], 0x3f80);
  EXPECT_EQ(words[1], 0x3f82);
  EXPECT_EQ(words[8], 0x4000);
  EXPECT_EQ(words[9], 0x8000);
  EXPECT_EQ(words[2], 7);
}

TEST(Attention, CausalSoftmaxOverTheCache) {
  // Four query heads on two KV heads, dim 2, capacity 3; rows at positions 1 and 2.
  auto attention = make("ref.attention", {{"heads", int64_t(4)},
                                          {"kv_heads", int64_t(2)},
                                          {"dim", int64_t(2)},
                                          {"capacity", int64_t(3)},
                                          {"codec", std::string("f32")},
                                          {"scale", 0.5}});
  ASSERT_TRUE(attention);
  float keys[] = {2, 0, 0, 2, 0, 0, /*head 1*/ 0, 0, 0, 0, 4, 0};
  float values[] = {1, 10, 2, 20, 4, 40, /*head 1*/ 8, 80, 16, 160, 32, 320};
  std::vector<float> query(16, 0.0f), out(16, NAN);
  query[0] = 1;  // row 0, head 0: scores of positions 0, 1 are 0.5 * 2 and 0
  query[8 + 4] = 2; // row 1, head 2 (KV head 1): scores 0, 0, 0.5 * 8
  call(*attention, {query.data(), keys, values, out.data()}, 2, 1, 5);
  const double e = std::exp(1.0), f = std::exp(4.0);
  EXPECT_FLOAT_EQ(out[0], float((e * 1 + 2) / (e + 1)));
  EXPECT_FLOAT_EQ(out[1], float((e * 10 + 20) / (e + 1)));
  // Row 0 sees positions 0 and 1 only: equal scores give the mean of two values.
  EXPECT_FLOAT_EQ(out[2], 1.5f);
  EXPECT_FLOAT_EQ(out[4], 12.0f);
  EXPECT_FLOAT_EQ(out[7], 120.0f);
  // Row 1 sees three.
  EXPECT_FLOAT_EQ(out[8], float(7.0 / 3));
  EXPECT_FLOAT_EQ(out[8 + 4], float((8 + 16 + f * 32) / (2 + f)));
  EXPECT_FLOAT_EQ(out[8 + 5], float((80 + 160 + f * 320) / (2 + f)));
  EXPECT_FLOAT_EQ(out[8 + 6], float(56.0 / 3));
}

// Scores of +-1000 would overflow a plain exponential.
TEST(Attention, LargeScoresStayFinite) {
  auto attention = make("ref.attention", {{"heads", int64_t(1)},
                                          {"kv_heads", int64_t(1)},
                                          {"dim", int64_t(2)},
                                          {"capacity", int64_t(2)},
                                          {"codec", std::string("bf16")},
                                          {"scale", 1.0}});
  uint16_t keys[] = {0x3f80, 0, 0xbf80, 0}, values[] = {0x4040, 0, 0x4080, 0}; // +1, -1; 3, 4
  float query[] = {1000, 0}, out[2];
  call(*attention, {query, keys, values, out}, 1, 1);
  EXPECT_EQ(out[0], 3);
}
