#include "test/unit/reference/Helpers.h"

#include <cmath>

using namespace ninfer;
using namespace ninfer::test;

namespace {

std::string refusal(const std::string &symbol, const reference::AttributeMap &attributes) {
  auto builtin = reference::makeBuiltin(symbol, attributes, "the_kernel");
  EXPECT_FALSE(builtin.ok());
  return builtin.ok() ? "" : builtin.error().message;
}

} // namespace

TEST(Factory, UnknownSymbol) {
  auto builtin = reference::makeBuiltin("ref.linearr", {}, "the_kernel");
  ASSERT_FALSE(builtin.ok());
  EXPECT_EQ(builtin.error().kind, ErrorKind::TargetMismatch);
  EXPECT_EQ(builtin.error().message, "kernel 'the_kernel' needs the built-in 'ref.linearr', which this build does not have");
  ASSERT_EQ(builtin.error().notes.size(), 1u);
  for (const std::string &symbol : reference::builtinSymbols())
    EXPECT_NE(builtin.error().notes[0].find(symbol), std::string::npos);
}

TEST(Factory, AttributesAreClosedAndChecked) {
  const std::string prefix = "kernel 'the_kernel': built-in ref.rms_norm: attribute ";
  EXPECT_EQ(refusal("ref.rms_norm", {{"k", int64_t(4)}}), prefix + "'eps' is missing");
  EXPECT_EQ(refusal("ref.rms_norm", {{"k", int64_t(4)}, {"eps", 1e-5}, {"color", int64_t(3)}}),
            prefix + "'color' is not known to this build");
  EXPECT_EQ(refusal("ref.rms_norm", {{"k", 4.0}, {"eps", 1e-5}}), prefix + "'k' is not an integer");
  EXPECT_EQ(refusal("ref.rms_norm", {{"k", int64_t(4)}, {"eps", -1.0}}), prefix + "'eps' is negative");
  EXPECT_EQ(refusal("ref.rms_norm", {{"k", int64_t(4)}, {"eps", double(NAN)}}), prefix + "'eps' is not a finite number");
  EXPECT_EQ(refusal("ref.rms_norm", {{"k", int64_t(4)}, {"eps", 0.0}, {"unit_offset", int64_t(2)}}),
            prefix + "'unit_offset' is neither 0 nor 1");
  for (int64_t k : {int64_t(0), int64_t(-1), int64_t(1) << 40, INT64_MIN, INT64_MAX})
    EXPECT_EQ(refusal("ref.rms_norm", {{"k", k}, {"eps", 0.0}}),
              prefix + "'k' is " + std::to_string(k) + ", expected 1..268435456");
  EXPECT_EQ(refusal("ref.rms_norm", {{"k", int64_t(4)}, {"eps", 0.0}, {"rows", int64_t(0)}}),
            prefix + "'rows' is 0, expected 1..268435456");
}

TEST(Factory, RulesAcrossAttributes) {
  EXPECT_NE(refusal("ref.rope", {{"heads", int64_t(1)}, {"dim", int64_t(5)}, {"capacity", int64_t(8)}}).find("even"),
            std::string::npos);
  EXPECT_NE(refusal("rope_table", {{"capacity", int64_t(8)}, {"pairs", int64_t(2)}, {"inv_freq", std::vector<double>{1.0}}})
                .find("has 1 values, expected 2"),
            std::string::npos);
  EXPECT_NE(refusal("ref.attention", {{"heads", int64_t(5)},
                                      {"kv_heads", int64_t(2)},
                                      {"dim", int64_t(4)},
                                      {"capacity", int64_t(8)},
                                      {"codec", std::string("bf16")},
                                      {"scale", 1.0}})
                .find("multiple of kv_heads 2"),
            std::string::npos);
  EXPECT_NE(refusal("ref.kv_append", {{"kv_heads", int64_t(2)},
                                      {"dim", int64_t(4)},
                                      {"capacity", int64_t(8)},
                                      {"codec", std::string("int4")}})
                .find("attribute 'codec' is 'int4', expected bf16, f32 or int8"),
            std::string::npos);
}

TEST(Factory, OnlyRegisteredRepresentations) {
  const auto matrix = [](const char *format, const char *layout, int64_t n, int64_t k) {
    return reference::AttributeMap{{"format", std::string(format)}, {"layout", std::string(layout)}, {"n", n}, {"k", k}};
  };
  EXPECT_NE(refusal("ref.linear", matrix("Q4G32_F16S", "row-split-k128-v1", 8, 8)).find("not a registered format"),
            std::string::npos);
  EXPECT_NE(refusal("ref.linear", matrix("Q4G64_F16S", "row_split_k128_v1", 8, 8)).find("not a registered layout"),
            std::string::npos);
  EXPECT_FALSE(refusal("ref.linear", matrix("BF16", "row-split-k128-v1", 8, 8)).empty());
  EXPECT_FALSE(refusal("ref.linear", matrix("NVFP4", "blockscale-k16-m128x4-v1", 100, 64)).empty());
}

// Extents whose product leaves 64 bits ask for more memory than any launch has.
TEST(Factory, HugeExtentsDoNotWrap) {
  auto attention = make("ref.attention", {{"heads", int64_t(1) << 28},
                                          {"kv_heads", int64_t(1) << 28},
                                          {"dim", int64_t(1) << 28},
                                          {"capacity", int64_t(1) << 28},
                                          {"codec", std::string("bf16")},
                                          {"scale", 1.0}});
  ASSERT_TRUE(attention);
  for (const auto &need : attention->args(1))
    EXPECT_GE(need.bytes, uint64_t(1) << 58) << need.name;
  EXPECT_EQ(attention->args(1)[1].bytes, UINT64_MAX);
}
