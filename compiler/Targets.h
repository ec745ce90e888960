// Target names of the command line -> what passes, code generation and plan need to know. Internal.
#ifndef NINFER_COMPILER_TARGETS_H
#define NINFER_COMPILER_TARGETS_H

#include "codegen/cpu/CpuCodegen.h"
#include "codegen/cuda/Devices.h"
#include "support/Status.h"

#include <optional>
#include <string>
#include <vector>

namespace ninfer {

struct BuildTarget {
  std::string name;             ///< "cpu:x86-64-v3", "cuda:sm_89", "cuda:rtx4090", "reference"; never "cpu:native"
  std::string executor;         ///< "cpu", "cuda", "reference"
  std::optional<CpuTarget> cpu; ///< executor "cpu"
  std::optional<cuda::Device> device; ///< executor "cuda"
};

/// Resolves every name; refuses an empty list, an unknown name and two names of one target
/// (NB0402).
Result<std::vector<BuildTarget>> resolveTargets(const std::vector<std::string> &names);

} // namespace ninfer

#endif // NINFER_COMPILER_TARGETS_H
