// Kernels compiled for the emulator, by name. The table is written by EmitHostKernels.cpp.
#ifndef NINFER_TEST_CUDA_HOSTKERNELS_H
#define NINFER_TEST_CUDA_HOSTKERNELS_H

#include <span>

namespace ninfer::cuda {

struct HostKernel {
  const char *name;
  void (*thunk)(void **args);
  const unsigned *threads; ///< launch bound
};

std::span<const HostKernel> hostKernels();

} // namespace ninfer::cuda

#endif // NINFER_TEST_CUDA_HOSTKERNELS_H
