// Facts of a cubin (the ELF file ptxas writes): registers, stack frame, shared memory, parameter table. Read from the
// sections .nv.info and .nv.info.<kernel>, without NVIDIA tools; every offset is checked.
#ifndef NINFER_CODEGEN_CUDA_CUBIN_H
#define NINFER_CODEGEN_CUDA_CUBIN_H

#include "codegen/cuda/KernelText.h"
#include "support/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ninfer::cuda {

struct CubinParam {
  uint32_t offset = 0; ///< in the parameter block, bytes
  uint32_t bytes = 0;
};

struct CubinKernel {
  std::string name;
  uint32_t registers = 0;
  uint32_t frameBytes = 0;        ///< stack per thread: register spills and arrays with run-time index
  uint32_t staticSharedBytes = 0; ///< from sm_90 on 1024 bytes are the system's
  uint32_t maxThreads = 0;        ///< launch bound; 0: none
  uint32_t codeBytes = 0;
  std::vector<CubinParam> params; ///< by ordinal
};

struct CubinFacts {
  uint32_t sm = 0;
  std::vector<CubinKernel> kernels;
};

/// Fails with NB0488 (not a cubin, or damaged: says which rule).
Result<CubinFacts> readCubin(std::span<const uint8_t> cubin);

/// What a plan may rely on: one kernel of that name, for `sm`, no stack frame, the parameters of the text in order, no
/// static shared memory beyond the system's. Fails with NB0489, naming the rule, what is expected and what is there.
Result<CubinKernel> checkCubin(std::span<const uint8_t> cubin, const KernelText &text, uint32_t sm);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_CUBIN_H
