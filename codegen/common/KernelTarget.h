// A build target as admission sees it: a name, the executor whose kernels are asked, and what its
// processor has. How a level maps to LLVM's CPU names is codegen/cpu's business. Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_KERNELTARGET_H
#define NINFER_CODEGEN_COMMON_KERNELTARGET_H

#include "support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

struct KernelTarget {
  std::string name;     ///< as printed: "cpu:x86-64-v3", "reference"
  std::string executor; ///< "cpu", "cuda", "reference"
  /// cpu: LLVM spelling, "avx2", "fma", "f16c", ...; cuda: every architecture whose instructions
  /// it has, "sm_75", "sm_80", ... up to its own; empty for "reference".
  std::vector<std::string> features;

  bool hasFeature(std::string_view feature) const;
  /// Activations are stored in bfloat16, and what the caller reads in float32: a kernel must know which of
  /// the two it stores. Elsewhere everything is float32.
  bool storesBf16() const { return executor == "cuda"; }
};

/// NVIDIA architectures that plans are made for, ascending: 89 is compute capability 8.9.
inline constexpr uint32_t kCudaArchitectures[] = {75, 80, 86, 89, 90, 100, 103, 120, 121};

/// "reference", "cuda:sm_N" with N in kCudaArchitectures, or "cpu:LEVEL" with LEVEL in x86-64-v3,
/// x86-64-v4, znver4 and the features of that level. A driver that resolved "cpu:native" fills KernelTarget itself. NB0401 for any other name.
Result<KernelTarget> parseKernelTarget(std::string_view name);

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_KERNELTARGET_H
