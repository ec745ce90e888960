// The named CPU levels: what LLVM may emit and what the loader must find.
#include "codegen/cpu/CpuCodegen.h"

#include "llvm/TargetParser/Host.h"

#include <algorithm>

namespace ninfer {

std::string_view cpuLevelName(CpuLevel level) {
  switch (level) {
  case CpuLevel::V3:
    return "v3";
  case CpuLevel::V4:
    return "v4";
  case CpuLevel::V4Vnni:
    return "v4vnni";
  case CpuLevel::Aarch64:
    return "aarch64";
  }
  return "";
}

namespace {

// The x86-64 psABI's level 3 on top of SSE2, without osxsave: the loader asks the operating system
// instead.
constexpr std::string_view v3Features[] = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt",
                                           "cx16", "sahf",  "movbe",  "avx",    "avx2",
                                           "fma",  "f16c",  "bmi",    "bmi2",   "lzcnt"};
constexpr std::string_view v4Features[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq",
                                           "avx512vl"};
constexpr std::string_view vnniFeatures[] = {"avx512vnni"};
// What LLVM may use under +v8.2a,+dotprod (the system's part of v8.2a is no business of kernels).
constexpr std::string_view armFeatures[] = {"fp-armv8", "neon", "crc", "lse", "rdm", "dotprod"};

CpuTarget makeTarget(CpuLevel level) {
  CpuTarget target;
  target.level = level;
  if (level == CpuLevel::Aarch64) {
    target.name = "aarch64";
    target.llvmCpu = "generic";
    target.llvmFeatures = "+v8.2a,+dotprod";
    target.vectorWidth = 128;
    target.features.assign(std::begin(armFeatures), std::end(armFeatures));
    return target;
  }
  target.features.assign(std::begin(v3Features), std::end(v3Features));
  switch (level) {
  case CpuLevel::Aarch64:
    break;
  case CpuLevel::V3:
    target.name = target.llvmCpu = "x86-64-v3";
    return target;
  case CpuLevel::V4:
    target.name = "x86-64-v4";
    break;
  case CpuLevel::V4Vnni:
    // Not LLVM's znver4: code for it would also use what no other AVX-512 VNNI machine has (SSE4A,
    // CLZERO), and the level is meant for all of them. Only the scheduling model is Zen 4's.
    target.name = target.llvmTune = "znver4";
    target.llvmFeatures = "+avx512vnni";
    target.features.insert(target.features.end(), std::begin(vnniFeatures), std::end(vnniFeatures));
    break;
  }
  target.llvmCpu = "x86-64-v4";
  target.vectorWidth = 512;
  target.features.insert(target.features.begin() + std::size(v3Features), std::begin(v4Features),
                         std::end(v4Features));
  return target;
}

std::string missingFrom(const std::vector<std::string> &host, const CpuTarget &target) {
  std::string missing;
  for (const std::string &feature : target.features)
    if (std::find(host.begin(), host.end(), feature) == host.end())
      missing += (missing.empty() ? "" : ", ") + feature;
  return missing;
}

} // namespace

Result<CpuTarget> bestCpuTarget(const std::vector<std::string> &hostFeatures) {
  for (CpuLevel level : {CpuLevel::V4Vnni, CpuLevel::V4, CpuLevel::V3}) {
    CpuTarget target = makeTarget(level);
    std::string missing = missingFrom(hostFeatures, target);
    if (missing.empty())
      return target;
    if (level == CpuLevel::V3)
      return makeError(ErrorKind::TargetMismatch, "NB0481",
                       "this cpu is below x86-64-v3, the lowest supported level: it lacks " +
                           missing);
  }
  return makeError(ErrorKind::Failed, "NB0481", "no cpu level is defined");
}

Result<CpuTarget> resolveCpuTarget(std::string_view name) {
  for (CpuLevel level : {CpuLevel::V3, CpuLevel::V4, CpuLevel::V4Vnni, CpuLevel::Aarch64})
    if (CpuTarget target = makeTarget(level); target.name == name)
      return target;
  if (name == "native") {
    std::vector<std::string> host;
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      if (feature.second)
        host.push_back(feature.first().str());
    return bestCpuTarget(host);
  }
  Error error =
      makeError(ErrorKind::Usage, "NB0480", "unknown cpu target '" + std::string(name) + "'");
  error.help.push_back("cpu targets are x86-64-v3, x86-64-v4, znver4, aarch64 and native");
  return error;
}

} // namespace ninfer
