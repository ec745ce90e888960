// Linear and embedding on planes written out byte by byte from the container specification; no codec is used.
#include "test/unit/reference/Helpers.h"

#include <cmath>
#include <cstring>

using namespace ninfer;
using namespace ninfer::test;

namespace {

reference::AttributeMap matrix(const std::string &format, const std::string &layout, int64_t n, int64_t k) {
  return {{"format", format}, {"layout", layout}, {"n", n}, {"k", k}};
}

void storeWord(std::vector<uint8_t> &plane, size_t at, uint16_t word) {
  plane[at] = uint8_t(word);
  plane[at + 1] = uint8_t(word >> 8);
}

/// Rows of an identity-like input: row r of x picks column r, so out[r][n] = W[n][r].
std::vector<float> columns(const reference::Builtin &linear, std::vector<void *> planes, int64_t n, int64_t k) {
  std::vector<float> x(size_t(k * k), 0.0f), out(size_t(k * n), NAN);
  for (int64_t i = 0; i < k; ++i)
    x[size_t(i * k + i)] = 1;
  std::vector<void *> args = {x.data()};
  args.insert(args.end(), planes.begin(), planes.end());
  args.push_back(out.data());
  call(linear, args, k);
  std::vector<float> w(size_t(n * k));
  for (int64_t r = 0; r < k; ++r)
    for (int64_t j = 0; j < n; ++j)
      w[size_t(j * k + r)] = out[size_t(r * n + j)];
  return w;
}

} // namespace

// Byte examples of the row-split layout: lanes 0..7 of one group (spec/ninfer-container.md 6.2).
TEST(Matrix, RowSplitWordExamples) {
  struct Case {
    const char *format;
    std::vector<uint8_t> base, high;
    std::vector<float> codes;
    size_t groupBytes, highBytes;
  };
  const Case cases[] = {
      {"Q4G64_F16S", {0x10, 0x7f, 0x38, 0x2c}, {}, {0, 1, -1, 7, -8, 3, -4, 2}, 32, 0},
      {"Q5G64_F16S", {0x10, 0xff, 0x70, 0x28}, {0x54}, {0, 1, -1, 15, -16, 7, -8, 2}, 32, 8},
      {"Q6G64_F16S", {0x10, 0xff, 0x10, 0x2e}, {0x70, 0x26}, {0, 1, -1, 31, -32, 17, -18, 2}, 32, 16},
      {"W8G32_F16S", {0x00, 0x01, 0xff, 0x7f, 0x81}, {}, {0, 1, -1, 127, -127}, 32, 0},
  };
  for (const Case &c : cases) {
    const int64_t k = int64_t(c.codes.size());
    const size_t groups = std::string(c.format) == "W8G32_F16S" ? 4 : 2; // K padded to 128
    // Two rows: the second has the same codes at another scale.
    std::vector<uint8_t> base(2 * groups * c.groupBytes), high(2 * groups * c.highBytes + 1), scales(2 * groups * 2);
    for (size_t row = 0; row < 2; ++row) {
      std::copy(c.base.begin(), c.base.end(), base.begin() + ptrdiff_t(row * groups * c.groupBytes));
      std::copy(c.high.begin(), c.high.end(), high.begin() + ptrdiff_t(row * groups * c.highBytes));
      storeWord(scales, row * groups * 2, row ? 0x0001 : 0x3800); // 2^-24 and 0.5
    }
    auto linear = make("ref.linear", matrix(c.format, "row-split-k128-v1", 2, k));
    ASSERT_TRUE(linear);
    std::vector<void *> planes = {base.data()};
    if (c.highBytes)
      planes.push_back(high.data());
    planes.push_back(scales.data());
    const std::vector<float> w = columns(*linear, planes, 2, k);
    for (int64_t i = 0; i < k; ++i) {
      EXPECT_EQ(w[size_t(i)], c.codes[size_t(i)] * 0.5f) << c.format << " lane " << i;
      EXPECT_EQ(w[size_t(k + i)], c.codes[size_t(i)] * 0x1p-24f) << c.format << " lane " << i;
    }
  }
}

// Second and third group of a row have their own scales; K is no multiple of the group.
TEST(Matrix, RowSplitGroups) {
  const int64_t k = 130; // padded to 256: 4 groups of 64
  std::vector<uint8_t> base(4 * 32), scales(8);
  base[32] = 0x03;     // lane 64: code 3
  base[64] = 0x90;     // lane 129: code -7
  storeWord(scales, 0, 0x3c00);
  storeWord(scales, 2, 0x4000); // 2
  storeWord(scales, 4, 0x4200); // 3
  auto linear = make("ref.linear", matrix("Q4G64_F16S", "row-split-k128-v1", 1, k));
  const std::vector<float> w = columns(*linear, {base.data(), scales.data()}, 1, k);
  for (int64_t i = 0; i < k; ++i)
    EXPECT_EQ(w[size_t(i)], i == 64 ? 6.0f : i == 129 ? -21.0f : 0.0f) << i;
}

TEST(Matrix, DirectWords) {
  uint16_t bf16[] = {0x3f80, 0xc040, 0x0001, 0x7f7f}; // 1, -3, smallest subnormal, largest
  auto linear = make("ref.linear", matrix("BF16", "contiguous-le-v1", 2, 2));
  EXPECT_EQ(columns(*linear, {bf16}, 2, 2), (std::vector<float>{1, -3, 0x1p-133f, 0x1.fep127f}));
  float fp32[] = {1.5f, -2.25f, 0x1p-149f, 3};
  auto exact = make("ref.linear", matrix("FP32", "contiguous-le-v1", 2, 2));
  EXPECT_EQ(columns(*exact, {fp32}, 2, 2), (std::vector<float>{1.5f, -2.25f, 0x1p-149f, 3}));
}

TEST(Matrix, Fp8RowScale) {
  uint8_t codes[] = {0x38, 0xb8, 0x7e, 0x01, 0x40, 0x00}; // 1, -1, 448, 2^-9, 2, 0
  uint16_t scales[] = {0x3f00, 0x4040};                   // 0.5, 3
  auto linear = make("ref.linear", matrix("FP8_E4M3FN_ROW_BF16S", "row-scale-v1", 2, 3));
  EXPECT_EQ(columns(*linear, {codes, scales}, 2, 3), (std::vector<float>{0.5f, -0.5f, 224, 3 * 0x1p-9f, 6, 0}));
}

// The scale of (n, group) lies at a swizzled place; offsets from the specification's examples.
TEST(Matrix, Nvfp4) {
  const int64_t n = 128, k = 64;
  std::vector<uint8_t> codes(size_t(n * k / 2)), scales(size_t(n * k / 16), 0);
  for (uint8_t &byte : codes)
    byte = 0x2f; // even lanes -6, odd lanes 1
  scales[22] = 0x38;  // row 33, group 2: 1.0
  scales[511] = 0x40; // row 127, group 3: 2.0
  float divisor = 0.5f;
  auto linear = make("ref.linear", matrix("NVFP4", "blockscale-k16-m128x4-v1", n, k));
  ASSERT_TRUE(linear);
  const std::vector<float> w = columns(*linear, {codes.data(), scales.data(), &divisor}, n, k);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < k; ++i) {
      const float scale = row == 33 && i / 16 == 2 ? 1 : row == 127 && i / 16 == 3 ? 2 : 0;
      EXPECT_EQ(w[size_t(row * k + i)], (i % 2 ? 1.0f : -6.0f) * scale / 0.5f) << row << " " << i;
    }
}

TEST(Matrix, LinearAccumulatesInDouble) {
  // 1 + 2^-24 * 4 - 1: float32 sums would lose the small terms.
  float w[] = {1, 0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f, -1}, x[] = {1, 1, 1, 1, 1, 1}, out[1];
  auto linear = make("ref.linear", matrix("FP32", "contiguous-le-v1", 1, 6));
  call(*linear, {x, w, out}, 1, 0, 1);
  EXPECT_EQ(out[0], 0x1p-22f);
}

TEST(Matrix, EmbeddingGathersRows) {
  uint16_t table[] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0}; // 1..6
  int32_t tokens[] = {2, 0, 3, -1};
  float out[8];
  auto embedding = make("ref.embedding", matrix("BF16", "contiguous-le-v1", 3, 2));
  EXPECT_EQ(embedding->tokenLimit(), 3);
  call(*embedding, {tokens, table, out}, 4);
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{5, 6, 1, 2}));
  for (int i = 4; i < 8; ++i)
    EXPECT_TRUE(std::isnan(out[i])); // visible, and no stray read
}

TEST(Matrix, ArgumentExtents) {
  auto linear = make("ref.linear", matrix("Q6G64_F16S", "row-split-k128-v1", 3, 65));
  const auto needs = linear->args(2);
  ASSERT_EQ(needs.size(), 5u);
  EXPECT_EQ(needs[0].bytes, 2u * 65 * 4);
  EXPECT_EQ(needs[1].bytes, 192u);
  EXPECT_EQ(needs[2].bytes, 96u);
  EXPECT_EQ(needs[3].bytes, 12u);
  EXPECT_EQ(needs[4].bytes, 2u * 3 * 4);
}
