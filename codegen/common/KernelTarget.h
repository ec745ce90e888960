// A build target as admission sees it: a name, the executor whose kernels are asked, and CPU
// features. How a level maps to LLVM's CPU names is codegen/cpu's business. Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_KERNELTARGET_H
#define NINFER_CODEGEN_COMMON_KERNELTARGET_H

#include "support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

struct KernelTarget {
  std::string name;     ///< as printed: "cpu:x86-64-v3", "reference"
  std::string executor; ///< "cpu", "reference"
  std::vector<std::string>
      features; ///< LLVM spelling: "avx2", "fma", "f16c", ...; empty for "reference"

  bool hasFeature(std::string_view feature) const;
};

/// "reference", or "cpu:LEVEL" with LEVEL in x86-64-v3, x86-64-v4, znver4 and the features of that
/// level. A driver that resolved "cpu:native" fills KernelTarget itself. NB0401 for any other name.
Result<KernelTarget> parseKernelTarget(std::string_view name);

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_KERNELTARGET_H
