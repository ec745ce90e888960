// gemm.cuh where a row of x is `group` rows of the call side by side, as the merger of a vision tower has them: the kernel is told
// rows of the call, whose number is a multiple of the group.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_GEMM_GROUPED_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_GEMM_GROUPED_CUH

#include "gemm.cuh"

#define NI_GEMM_GROUPED(name, group, ...)                                                                              \
  namespace ni {                                                                                                       \
  constexpr GemmSpec name##_spec = __VA_ARGS__;                                                                        \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kGemmThreads, ni::name##_spec.blocksPerSm)                                                       \
  (const ni::u8 *weight, const ni::u8 *up, const ni::u16 *x, const ni::u16 *residual, void *out, ni::u32 n,            \
   ni::u32 rows) {                                                                                                     \
    NI_SHARED(ni::Gemm<ni::name##_spec>::Shared, shared);                                                              \
    ni::Gemm<ni::name##_spec>::run({weight, up, x, residual, out, n, rows / group}, shared);                           \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_GEMM_GROUPED_CUH
