// Rows moved between activations and row buffers: every byte of the columns is there, every other byte untouched.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

class CopyRows : public testing::TestWithParam<ni::CopyRowsSpec> {};

TEST_P(CopyRows, MovesTheColumnsAndNothingElse) {
  const uint32_t piece = GetParam().bytes;
  const KernelText text = copyRowsKernel(GetParam(), 0);
  struct Shape {
    uint32_t rows, a, b, column, outStride; // in pieces
  };
  for (const Shape &shape : {Shape{1, 1, 0, 0, 1}, Shape{3, 129, 0, 0, 129}, Shape{4, 5, 0, 7, 13}, Shape{5, 128, 33, 0, 161},
                             Shape{2, 1, 255, 1, 258}}) {
    const uint32_t aStride = shape.a + 2, bStride = shape.b + 1;
    std::mt19937_64 random(shape.rows);
    const auto bytes = [&](size_t pieces) {
      std::vector<uint8_t> v(pieces * piece);
      for (uint8_t &byte : v)
        byte = uint8_t(random() % 251); // never the 0xff of what was not written
      return v;
    };
    const std::vector<uint8_t> a = bytes(size_t(shape.rows) * aStride), b = bytes(size_t(shape.rows) * bStride);
    std::vector<uint8_t> expected(size_t(shape.rows) * shape.outStride * piece, 0xff);
    for (uint32_t r = 0; r < shape.rows; ++r)
      for (uint32_t i = 0; i < (shape.a + shape.b) * piece; ++i) {
        const uint32_t at = i - shape.a * piece;
        expected[(size_t(r) * shape.outStride + shape.column) * piece + i] =
            i < shape.a * piece ? a[size_t(r) * aStride * piece + i] : b[size_t(r) * bStride * piece + at];
      }
    Array as(a, "a"), bs(b, "b"), out(expected.size(), true, "out");
    for (const emulator::Options &mode : threadOrders()) {
      out.poison();
      Arguments args;
      args.pointer(as);
      shape.b ? args.pointer(bs) : args.null();
      args.pointer(out).u32(shape.a).u32(shape.b).u32(aStride).u32(bStride).u32(shape.outStride);
      *static_cast<uint64_t *>(args.pointers()[2]) += shape.column * piece;
      ASSERT_EQ(launch(text, {ni::copyRowsBlocks(shape.a + shape.b), shape.rows}, args, mode), "") << describe(mode);
      ASSERT_EQ(std::vector<uint8_t>(out.data(), out.data() + expected.size()), expected) << describe(mode);
    }
  }
}

TEST(CopyRowsPiece, IsTheLargestThatDividesAll) {
  EXPECT_EQ(ni::copyRowsPiece(32, 64, 16, 0), 16u);
  EXPECT_EQ(ni::copyRowsPiece(32, 64, 8, 0), 8u);
  EXPECT_EQ(ni::copyRowsPiece(4, 64, 8, 0), 4u);
  EXPECT_EQ(ni::copyRowsPiece(32, 64, 16, 2), 2u);
}

std::string nameOf(const testing::TestParamInfo<ni::CopyRowsSpec> &info) { return copyRowsKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, CopyRows, testing::ValuesIn(keys::copyRows()), nameOf);

} // namespace
} // namespace ninfer::cuda
