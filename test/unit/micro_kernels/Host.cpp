// Whether this machine can run the level under test.
#include "test/unit/micro_kernels/Support.h"

namespace ninfer::test {

const char *levelName() { return NINFER_TEST_LEVEL; }

bool hostRunsLevel() {
  const std::string_view level = NINFER_TEST_LEVEL;
#if defined(__aarch64__)
  return level == "aarch64"; // armv8.2-a: whoever runs this chose a machine that has it
#else
  bool ok = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (level != "v3")
    ok = ok && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (level == "v4vnni")
    ok = ok && __builtin_cpu_supports("avx512vnni");
  return ok;
#endif
}

} // namespace ninfer::test
