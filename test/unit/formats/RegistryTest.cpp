#include "artifact/formats/Format.h"

#include <gtest/gtest.h>

using namespace ninfer;

namespace {

TEST(Registry, NamesAreClosed) {
  EXPECT_EQ(allFormats().size(), 9u);
  EXPECT_EQ(allLayouts().size(), 4u);
  for (const FormatInfo &info : allFormats()) {
    EXPECT_EQ(formatFromCanonical(info.canonical), info.format);
    EXPECT_EQ(formatFromV3(info.v3), info.format);
    EXPECT_EQ(canonicalName(info.format), info.canonical);
    EXPECT_EQ(v3Name(info.format), info.v3);
    EXPECT_FALSE(formatFromCanonical(info.v3)) << "the other revision's spelling is unknown";
    EXPECT_FALSE(formatFromV3(info.canonical));
  }
  for (const LayoutInfo &info : allLayouts()) {
    EXPECT_EQ(layoutFromCanonical(info.canonical), info.layout);
    EXPECT_EQ(layoutFromV3(info.v3), info.layout);
  }
  for (const char *name : {"Q4G32_F16S", "Q6G128_F16S", "W8G64_F16S", "FP16", "I64", "INT32", "Q4",
                           "", "bf16 ", "q4g64_f16s", "FP8_E4M3FN", "BF16_CTRL", "Q3G64_F16S"})
    EXPECT_FALSE(formatFromCanonical(name)) << name;
  EXPECT_EQ(activationPolicyFromName("AllowA8"), ActivationPolicy::AllowA8);
  EXPECT_FALSE(activationPolicyFromName("AllowA16"));
}

TEST(Registry, PairsAndFacts) {
  size_t pairs = 0;
  for (const FormatInfo &format : allFormats()) {
    for (const LayoutInfo &layout : allLayouts())
      pairs += isRegisteredPair(format.format, layout.layout);
    EXPECT_TRUE(isRegisteredPair(format.format, layoutOf(format.format)));
  }
  EXPECT_EQ(pairs, 9u);
  EXPECT_EQ(formatInfo(Format::W8G32_F16S).qmin, -127);
  EXPECT_EQ(formatInfo(Format::Q4G64_F16S).qmin, -8);
  EXPECT_EQ(formatInfo(Format::Q6G64_F16S).groupSize, 64u);
  EXPECT_EQ(layoutOf(Format::NVFP4), Layout::BlockScaleK16M128x4V1);
  EXPECT_NE(listRegisteredPairs().find("NVFP4/blockscale-k16-m128x4-v1"), std::string::npos);
}

} // namespace
