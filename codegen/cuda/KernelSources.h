// The text of kernels/*.cuh, carried by the program: NVRTC gets its headers from here, never from the disk.
#ifndef NINFER_CODEGEN_CUDA_KERNELSOURCES_H
#define NINFER_CODEGEN_CUDA_KERNELSOURCES_H

#include <span>
#include <string_view>

namespace ninfer::cuda {

struct KernelHeader {
  const char *name; ///< as a kernel includes it: "linear.cuh"
  const char *text; ///< zero-terminated
};

/// All of them, sorted by name.
std::span<const KernelHeader> kernelHeaders();

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_KERNELSOURCES_H
