#include "test/unit/reference/Helpers.h"

#include <cmath>

using namespace ninfer;
using namespace ninfer::test;

// bfloat16 words: 1 = 0x3f80, 2 = 0x4000, 0.5 = 0x3f00, -3 = 0xc040.

TEST(Rows, RmsNorm) {
  auto norm = make("ref.rms_norm", {{"k", int64_t(2)}, {"eps", 0.5}});
  ASSERT_TRUE(norm);
  float x[] = {3, 4, 0, 1}, y[4];
  uint16_t w[] = {0x3f80, 0x4000};
  call(*norm, {x, w, y}, 2);
  // mean square 12.5 and 0.5
  EXPECT_FLOAT_EQ(y[0], float(3 / std::sqrt(13.0)));
  EXPECT_FLOAT_EQ(y[1], float(2 * 4 / std::sqrt(13.0)));
  EXPECT_FLOAT_EQ(y[2], 0);
  EXPECT_FLOAT_EQ(y[3], 2);
  auto offset = make("ref.rms_norm", {{"k", int64_t(2)}, {"eps", 0.5}, {"unit_offset", int64_t(1)}});
  ASSERT_TRUE(offset);
  call(*offset, {x, w, y}, 2);
  EXPECT_FLOAT_EQ(y[0], float(2 * 3 / std::sqrt(13.0)));
  EXPECT_FLOAT_EQ(y[1], float(3 * 4 / std::sqrt(13.0)));
}

TEST(Rows, HeadNorm) {
  auto norm = make("ref.head_norm", {{"heads", int64_t(2)}, {"dim", int64_t(2)}, {"eps", 0.0}});
  ASSERT_TRUE(norm);
  float x[] = {3, 4, 1, -1, 0.5f, 0.5f, 2, 0}, y[8];
  uint16_t w[] = {0x4000, 0xc040};
  call(*norm, {x, w, y}, 2);
  const float root = float(std::sqrt(12.5)), half = float(std::sqrt(2.0));
  const float expected[] = {2 * 3 / root, -3 * 4 / root, 2, 3, 2, -3, 2 * half, 0};
  for (int i = 0; i < 8; ++i)
    EXPECT_FLOAT_EQ(y[i], expected[i]) << i;
}

// The sum of squares overflows float32 but not double.
TEST(Rows, NormAccumulatesInDouble) {
  auto norm = make("ref.rms_norm", {{"k", int64_t(2)}, {"eps", 0.0}});
  float x[] = {3e30f, 4e30f}, y[2];
  uint16_t w[] = {0x3f80, 0x3f80};
  call(*norm, {x, w, y}, 1);
  EXPECT_FLOAT_EQ(y[0], float(3 / std::sqrt(12.5)));
  EXPECT_FLOAT_EQ(y[1], float(4 / std::sqrt(12.5)));
}

TEST(Rows, Swiglu) {
  auto swiglu = make("ref.swiglu", {{"k", int64_t(3)}});
  float gate[] = {0, 1, -1, 100, -100, 2}, up[] = {5, 2, 4, 3, 3, -1}, y[6];
  call(*swiglu, {gate, up, y}, 2);
  EXPECT_EQ(y[0], 0);
  EXPECT_FLOAT_EQ(y[1], float(2 / (1 + std::exp(-1.0))));
  EXPECT_FLOAT_EQ(y[2], float(-4 / (1 + std::exp(1.0))));
  EXPECT_FLOAT_EQ(y[3], 300);
  EXPECT_NEAR(y[4], 0, 1e-30); // exp(100) must not make a NaN
  EXPECT_FLOAT_EQ(y[5], float(-2 / (1 + std::exp(-2.0))));
}

TEST(Rows, AddAndLastRow) {
  auto add = make("ref.add", {{"k", int64_t(2)}});
  float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40}, y[4];
  call(*add, {a, b, y}, 2);
  EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{11, 22, 33, 44}));
  call(*add, {a, b, a}, 2); // in place
  EXPECT_EQ(std::vector<float>(a, a + 4), (std::vector<float>{11, 22, 33, 44}));

  auto last = make("ref.last_row", {{"k", int64_t(2)}});
  float out[2];
  call(*last, {b, out}, 2);
  EXPECT_EQ(std::vector<float>(out, out + 2), (std::vector<float>{30, 40}));
  call(*last, {b, out}, 1);
  EXPECT_EQ(std::vector<float>(out, out + 2), (std::vector<float>{10, 20}));
}

TEST(Rows, FixedRowsIgnoreTheCall) {
  auto add = make("ref.add", {{"k", int64_t(2)}, {"rows", int64_t(1)}});
  float a[] = {1, 2}, b[] = {10, 20}, y[] = {0, 0, 77, 77};
  EXPECT_EQ(add->args(8)[0].bytes, 8u);
  call(*add, {a, b, y}, 8);
  EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{11, 22, 77, 77}));
}
