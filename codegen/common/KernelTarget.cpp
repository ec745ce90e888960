#include "codegen/common/KernelTarget.h"

#include <algorithm>

namespace ninfer {

bool KernelTarget::hasFeature(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

Result<KernelTarget> parseKernelTarget(std::string_view name) {
  if (name == "reference")
    return KernelTarget{"reference", "reference", {}};
  if (std::vector<std::string> known; name.starts_with("cuda:sm_"))
    for (uint32_t sm : kCudaArchitectures) {
      known.push_back("sm_" + std::to_string(sm));
      if (name.substr(5) == known.back())
        return KernelTarget{std::string(name), "cuda", known};
    }
  const std::vector<std::string> v3 = {"avx",  "avx2", "bmi",   "bmi2",
                                       "f16c", "fma",  "lzcnt", "movbe"};
  std::vector<std::string> v4 = v3;
  v4.insert(v4.end(), {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  if (name == "cpu:x86-64-v3")
    return KernelTarget{std::string(name), "cpu", v3};
  if (name == "cpu:x86-64-v4")
    return KernelTarget{std::string(name), "cpu", v4};
  if (name == "cpu:znver4") {
    v4.push_back("avx512vnni");
    return KernelTarget{std::string(name), "cpu", v4};
  }
  if (name == "cpu:aarch64")
    return KernelTarget{std::string(name), "cpu", {"neon", "dotprod"}};
  Error error = makeError(ErrorKind::Usage, "NB0401", "unknown target '" + std::string(name) + "'");
  error.help.push_back("targets: reference, cpu:x86-64-v3, cpu:x86-64-v4, cpu:znver4, cpu:aarch64, cuda:sm_N with N one of 75, 80, 86, 89, 90, 100, "
                       "103, 120, 121");
  return error;
}

} // namespace ninfer
