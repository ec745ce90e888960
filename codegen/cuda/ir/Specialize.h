// From a kernel of the IR to a specialisation record: which text computes it, how each parameter of a launch is made, and
// how many thread blocks there are. Decides no family; what admission let through and this cannot express is an error.
#ifndef NINFER_CODEGEN_CUDA_IR_SPECIALIZE_H
#define NINFER_CODEGEN_CUDA_IR_SPECIALIZE_H

#include "codegen/cuda/Devices.h"
#include "codegen/cuda/KernelText.h"
#include "dialects/ninfer/NinferDialect.h"
#include "schema/View.h"
#include "support/Status.h"

#include <array>
#include <set>
#include <string>
#include <vector>

namespace ninfer::cuda {

/// A kernel of a plan. Its launch arguments are those of runtime/abi/kernel_abi.h, but one per weight.
struct SpecializedKernel {
  std::string name; ///< symbol of the ninfer.kernel
  KernelText text;
  std::vector<plan::CudaParam> params; ///< one per parameter of the text
  std::array<uint32_t, 3> grid{0, 1, 1}; ///< blocks per axis; the axis with 0 takes the tiles
  uint64_t tilesConst = 0, tilesPerRow = 0; ///< thread blocks of a launch: const + perRow * ceil(rows / rowsPerTile)
  uint32_t rowsPerTile = 1;
  /// Memory of the device that a launch has for itself, as two last arguments: scratch, and counters that are zero before
  /// and after every launch. 0: none.
  uint64_t scratchBytes = 0, counterBytes = 0;
  /// By argument of the ninfer.kernel: a weight that is read in the panel layout.
  std::vector<bool> panels;
};

/// NB0491: no record, naming the kernel and what does not fit.
/// `spilled` has the texts that the compiler found no registers for: smaller tiles then, where there are any.
Result<SpecializedKernel> specialize(KernelOp kernel, const Device &device, const std::set<std::string> &spilled = {});

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_IR_SPECIALIZE_H
