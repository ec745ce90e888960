// The embedded bitcode: present, distinct per level, and recognisable.
#include "codegen/cpu/kernels/Bitcode.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

TEST(MicroKernelBitcode, EveryLevelIsALlvmModule) {
  for (uint8_t level = 0; level < 3; ++level) {
    const std::string_view code = microKernelBitcode(CpuLevel(level));
    ASSERT_GT(code.size(), 10000u) << int(level);
    EXPECT_EQ(code.substr(0, 4), "BC\xC0\xDE") << int(level);
    EXPECT_EQ(uintptr_t(code.data()) % 16, 0u);
    EXPECT_NE(code.find("ni_linear_q4_a16"), code.npos) << int(level);
  }
}

TEST(MicroKernelBitcode, LevelsDiffer) {
  EXPECT_NE(microKernelBitcode(CpuLevel(0)), microKernelBitcode(CpuLevel(1)));
  EXPECT_NE(microKernelBitcode(CpuLevel(1)), microKernelBitcode(CpuLevel(2)));
}

TEST(MicroKernelBitcode, NamesNoBuildFolder) {
  for (uint8_t level = 0; level < 3; ++level)
    EXPECT_EQ(microKernelBitcode(CpuLevel(level)).find(NINFER_SOURCE_DIR), std::string_view::npos);
}

} // namespace
} // namespace ninfer
