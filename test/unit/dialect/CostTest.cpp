// The cost interface against figures worked out by hand.
#include "dialects/ninfer/NinferDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace ninfer;

namespace {

class Cost : public ::testing::Test {
protected:
  Cost() { context.loadDialect<NinferDialect, mlir::func::FuncDialect>(); }

  /// The first operation of type OpT in a function with the given arguments and body.
  template <typename OpT>
  OpT parse(const std::string &arguments, const std::string &body) {
    module = mlir::parseSourceString<mlir::ModuleOp>(
        "func.func @f(" + arguments + ") {\n" + body + "\nreturn }", &context);
    OpT found;
    if (module)
      module->walk([&](OpT op) {
        if (!found)
          found = op;
      });
    return found;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// 192 rows of 576 codes, padded to 640: 320 bytes of nibbles and 10 scales of 2 bytes.
constexpr int64_t kQ4Bytes = 192 * (320 + 10 * 2);
const char *const kQ4 = "!ninfer.weight<192x576, Q4G64_F16S, \"row-split-k128-v1\">";

TEST_F(Cost, LinearReadsTheWholeWeightOnce) {
  auto linear = parse<LinearOp>(
      std::string("%x: tensor<?x576xf32>, %w: ") + kQ4,
      std::string("%0 = ninfer.linear %x, %w policy<A16Only> : tensor<?x576xf32>, ") + kQ4 +
          " -> tensor<?x192xf32>");
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear.bytesRead(1), kQ4Bytes + 576 * 4);
  EXPECT_EQ(linear.bytesRead(16), kQ4Bytes + 16 * 576 * 4);
  EXPECT_EQ(linear.bytesWritten(16), 16 * 192 * 4);
  EXPECT_EQ(linear.flops(16), int64_t(2) * 16 * 192 * 576);
}

TEST_F(Cost, StaticRowsWin) {
  auto linear = parse<LinearOp>(
      std::string("%x: tensor<1x576xf32>, %w: ") + kQ4,
      std::string("%0 = ninfer.linear %x, %w policy<A16Only> : tensor<1x576xf32>, ") + kQ4 +
          " -> tensor<1x192xf32>");
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear.flops(16), 2 * 192 * 576);
}

TEST_F(Cost, EmbeddingReadsOneRowPerToken) {
  auto embedding = parse<EmbeddingOp>(
      "%t: tensor<?xi32>, %w: !ninfer.weight<64x128, BF16, \"contiguous-le-v1\">",
      "%0 = ninfer.embedding %t, %w : tensor<?xi32>, !ninfer.weight<64x128, BF16, "
      "\"contiguous-le-v1\"> -> tensor<?x128xf32>");
  ASSERT_TRUE(embedding);
  EXPECT_EQ(embedding.bytesRead(3), 3 * 4 + 3 * 128 * 2);
  EXPECT_EQ(embedding.bytesWritten(3), 3 * 128 * 4);
  EXPECT_EQ(embedding.flops(3), 0);
}

TEST_F(Cost, AttentionCountsTheCacheAtCapacity) {
  const std::string cache = "!ninfer.kv_cache<2x64x32, bf16>";
  auto attention = parse<AttentionOp>("%q: tensor<?x128xf32>, %c: " + cache + ", %p: index",
                                      "%0 = ninfer.attention %q, %c, %p {heads = 4, kv_heads = 2, "
                                      "scale = 0.125} : tensor<?x128xf32>, " +
                                          cache);
  ASSERT_TRUE(attention);
  EXPECT_EQ(attention.bytesRead(2), 2 * 128 * 4 + 2 * 2 * 64 * 32 * 2);
  EXPECT_EQ(attention.flops(2), 4 * 2 * 128 * 64);
}

TEST_F(Cost, AppendWritesWordsOfTheCacheAndReadsNone) {
  const std::string cache = "!ninfer.kv_cache<2x64x32, bf16>";
  auto append = parse<KvAppendOp>("%k: tensor<?x64xf32>, %c: " + cache + ", %p: index",
                                  "ninfer.kv_append %k, %k, %c, %p : tensor<?x64xf32>, " + cache);
  ASSERT_TRUE(append);
  EXPECT_EQ(append.bytesRead(3), 2 * 3 * 64 * 4);
  EXPECT_EQ(append.bytesWritten(3), 2 * 3 * 64 * 2);
}

TEST_F(Cost, RowOperations) {
  const std::string table = "!ninfer.rope_table<64x16>";
  auto rope =
      parse<RopeOp>("%x: tensor<?x128xf32>, %t: " + table + ", %p: index",
                    "%0 = ninfer.rope %x, %t, %p {heads = 4} : tensor<?x128xf32>, " + table);
  ASSERT_TRUE(rope);
  EXPECT_EQ(rope.bytesRead(2), 2 * 128 * 4 + 2 * 16 * 2 * 4);
  EXPECT_EQ(rope.flops(2), 3 * 2 * 128);

  auto last = parse<LastRowOp>("%x: tensor<?x128xf32>",
                               "%0 = ninfer.last_row %x : tensor<?x128xf32> -> tensor<1x128xf32>");
  ASSERT_TRUE(last);
  EXPECT_EQ(last.bytesRead(100), 128 * 4);
  EXPECT_EQ(last.bytesWritten(100), 128 * 4);

  auto swiglu =
      parse<SwigluOp>("%x: tensor<?x128xf32>", "%0 = ninfer.swiglu %x, %x : tensor<?x128xf32>");
  ASSERT_TRUE(swiglu);
  EXPECT_EQ(swiglu.bytesRead(1), 2 * 128 * 4);
  EXPECT_EQ(swiglu.flops(1), 4 * 128);
}

TEST_F(Cost, FusedCountsSharedInputsOnceAndNothingInside) {
  const std::string q4 = kQ4;
  auto fused = parse<FusedOp>(
      "%x: tensor<?x576xf32>, %n: !ninfer.weight<576, BF16, \"contiguous-le-v1\">, %u: " + q4 +
          ", %v: " + q4,
      "%0:2 = ninfer.fused \"linear\" (%a = %x : tensor<?x576xf32>, %m = %n : !ninfer.weight<576, "
      "BF16, "
      "\"contiguous-le-v1\">, %b = %u : " +
          q4 + ", %c = %v : " + q4 +
          ") -> (tensor<?x192xf32>, tensor<?x192xf32>) {\n"
          "%1 = ninfer.rms_norm %a, %m {eps = 1.0e-5} : tensor<?x576xf32>, !ninfer.weight<576, "
          "BF16, "
          "\"contiguous-le-v1\">\n"
          "%2 = ninfer.linear %1, %b policy<A16Only> : tensor<?x576xf32>, " +
          q4 +
          " -> tensor<?x192xf32>\n"
          "%3 = ninfer.linear %1, %c policy<A16Only> : tensor<?x576xf32>, " +
          q4 +
          " -> tensor<?x192xf32>\n"
          "ninfer.yield %2, %3 : tensor<?x192xf32>, tensor<?x192xf32>\n}");
  ASSERT_TRUE(fused);
  EXPECT_EQ(fused.bytesRead(4), 4 * 576 * 4 + 576 * 2 + 2 * kQ4Bytes);
  EXPECT_EQ(fused.bytesWritten(4), 2 * 4 * 192 * 4);
  EXPECT_EQ(fused.flops(4), int64_t(4) * 4 * 576 + int64_t(2) * 2 * 4 * 192 * 576);
}

TEST_F(Cost, FusedAppendWritesTheCache) {
  const std::string cache = "!ninfer.kv_cache<2x64x32, f32>";
  auto fused = parse<FusedOp>(
      "%k: tensor<?x64xf32>, %c: " + cache + ", %p: index",
      "ninfer.fused \"append\" (%a = %k : tensor<?x64xf32>, %d = %c : " + cache +
          ", %q = %p : index) {\nninfer.kv_append %a, %a, %d, %q : tensor<?x64xf32>, " + cache +
          "\nninfer.yield\n}");
  ASSERT_TRUE(fused);
  EXPECT_EQ(fused.bytesRead(3), 3 * 64 * 4);
  EXPECT_EQ(fused.bytesWritten(3), 2 * 3 * 64 * 4);
}

// A recurrent state is read and written whole; a bank is read for the chosen experts only.
TEST_F(Cost, DeltaStateIsReadAndWritten) {
  const std::string v = "!ninfer.weight<4, FP32, \"contiguous-le-v1\">", s = "!ninfer.delta_state<4x8x16>";
  auto op = parse<GatedDeltaOp>(
      "%q: tensor<?x32xf32>, %v: tensor<?x32xf32>, %a: tensor<?x4xf32>, %w: " + v + ", %s: " + s,
      "%0 = ninfer.gated_delta %q, %q, %v, %a, %a, %w, %w, %s {key_heads = 2} : tensor<?x32xf32>, "
      "tensor<?x32xf32>, tensor<?x4xf32>, " + v + ", " + v + ", " + s);
  ASSERT_TRUE(op);
  constexpr int64_t state = 4 * 8 * 16 * 4, perRow = (3 * 32 + 2 * 4) * 4;
  EXPECT_EQ(op.bytesRead(3), state + 2 * 4 * 4 + 3 * perRow);
  EXPECT_EQ(op.bytesWritten(3), state + 3 * 32 * 4);
  EXPECT_EQ(op.flops(3), 3 * 7 * 4 * 8 * 16);
}

TEST_F(Cost, BanksAreReadForChosenExperts) {
  const std::string bank = "!ninfer.weight<80x128, BF16, \"contiguous-le-v1\">"; // 5 experts of 2 x 8 rows
  auto op = parse<MoeUpOp>("%x: tensor<?x128xf32>, %r: tensor<?x4xf32>, %w: " + bank,
                           "%0 = ninfer.moe_up %x, %r, %w policy<A16Only> {experts = 5, top_k = 2} : "
                           "tensor<?x128xf32>, tensor<?x4xf32>, " + bank + " -> tensor<?x16xf32>");
  ASSERT_TRUE(op);
  constexpr int64_t expert = 16 * 128 * 2, perRow = (128 + 4) * 4;
  EXPECT_EQ(op.bytesRead(1), 2 * expert + perRow);
  EXPECT_EQ(op.bytesRead(2), 4 * expert + 2 * perRow);
  EXPECT_EQ(op.bytesRead(9), 5 * expert + 9 * perRow); // each at most once
  EXPECT_EQ(op.flops(1), 16 * (4 * 128 + 4));
}

// Rows of the tables that a call looks at and writes; a replaced row is read once, from one of both.
TEST_F(Cost, ImagesInText) {
  const std::string table = "!ninfer.rope_table<64x3>";
  auto place = parse<PlaceAnglesOp>("%p: tensor<?x3xi32>, %t: " + table + ", %u: " + table + ", %at: index",
                                    "ninfer.place_angles %p, %t, %u, %at {axes = array<i64: 0, 1, 2>} : tensor<?x3xi32>, " +
                                        table + ", " + table);
  ASSERT_TRUE(place);
  EXPECT_EQ(place.bytesRead(5), 5 * (3 * 4 + 3 * 2 * 4));
  EXPECT_EQ(place.bytesWritten(5), 5 * 3 * 2 * 4);
  EXPECT_EQ(place.flops(5), 0);
  auto replace = parse<ReplaceRowsOp>("%x: tensor<?x48xf32>, %w: tensor<?x1xi32>",
                                      "%0 = ninfer.replace_rows %x, %x, %w : tensor<?x48xf32>, tensor<?x1xi32>");
  ASSERT_TRUE(replace);
  EXPECT_EQ(replace.bytesRead(5), 5 * (48 * 4 + 4));
  EXPECT_EQ(replace.bytesWritten(5), 5 * 48 * 4);
  EXPECT_EQ(replace.flops(5), 0);
}

// A table is read where it is looked at; attention among the rows grows with their square.
TEST_F(Cost, VisionOperations) {
  const std::string table = "!ninfer.rope_table<64x3>", words = "!ninfer.weight<49x48, BF16, \"contiguous-le-v1\">";
  auto rope = parse<AxialRopeOp>("%x: tensor<?x48xf32>, %t: " + table + ", %p: tensor<?x2xi32>",
                                 "%0 = ninfer.axial_rope %x, %t, %p {heads = 4} : tensor<?x48xf32>, " +
                                     table + ", tensor<?x2xi32>");
  ASSERT_TRUE(rope);
  EXPECT_EQ(rope.bytesRead(5), 5 * (48 * 4 + 2 * 4 + 2 * 3 * 2 * 4));
  EXPECT_EQ(rope.flops(5), 3 * 5 * 48);

  auto sum = parse<InterpolateOp>("%i: tensor<?x4xi32>, %w: tensor<?x4xf32>, %t: " + words,
                                  "%0 = ninfer.interpolate %i, %w, %t : tensor<?x4xi32>, tensor<?x4xf32>, " +
                                      words + " -> tensor<?x48xf32>");
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum.bytesRead(5), 5 * (4 * 4 + 4 * 4 + 4 * 48 * 2));
  EXPECT_EQ(sum.flops(5), 2 * 5 * 4 * 48);

  auto attention = parse<FullAttentionOp>(
      "%q: tensor<?x48xf32>", "%0 = ninfer.full_attention %q, %q, %q {heads = 4, scale = 0.25} : tensor<?x48xf32>");
  ASSERT_TRUE(attention);
  EXPECT_EQ(attention.bytesRead(5), 3 * 5 * 48 * 4);
  EXPECT_EQ(attention.flops(5), 4 * 5 * 5 * 48);

  const std::string vector = "!ninfer.weight<48, BF16, \"contiguous-le-v1\">";
  auto norm = parse<LayerNormOp>("%x: tensor<?x48xf32>, %w: " + vector,
                                 "%0 = ninfer.layer_norm %x, %w, %w {eps = 1.0e-6} : tensor<?x48xf32>, " +
                                     vector + ", " + vector);
  ASSERT_TRUE(norm);
  EXPECT_EQ(norm.bytesRead(5), 5 * 48 * 4 + 2 * 48 * 2);
  EXPECT_EQ(norm.flops(5), 7 * 5 * 48);
}

TEST_F(Cost, GroupedLinearComputesOneRowPerGroup) {
  const std::string words = "!ninfer.weight<192x192, BF16, \"contiguous-le-v1\">";
  auto linear = parse<LinearOp>("%x: tensor<?x48xf32>, %w: " + words,
                                "%0 = ninfer.linear %x, %w policy<A16Only> {row_group = 4 : i64} : "
                                "tensor<?x48xf32>, " + words + " -> tensor<?x48xf32>");
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear.flops(8), 2 * (8 / 4) * 192 * 192);
  EXPECT_EQ(linear.bytesRead(8), 192 * 192 * 2 + 8 * 48 * 4);
  EXPECT_EQ(linear.bytesWritten(8), 8 * 48 * 4);
}

} // namespace
