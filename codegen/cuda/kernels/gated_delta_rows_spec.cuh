// Launch shape and limits of the delta rule of any head size; its record is that of delta_spec.cuh.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_GATED_DELTA_ROWS_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_GATED_DELTA_ROWS_SPEC_CUH

#include "delta_spec.cuh"

namespace ni {

constexpr u32 kDeltaRowsWarps = 4, kDeltaRowsThreads = kDeltaRowsWarps * 32;
constexpr u32 deltaRowsBlocksX(const GatedDeltaSpec &s) { return divideUp(s.valueDim, kDeltaRowsWarps); }
constexpr bool deltaRowsAccepts(const GatedDeltaSpec &s) {
  return s.keyHeads >= 1 && s.valueHeads % s.keyHeads == 0 && s.keyDim >= 1 && s.keyDim <= 256 && s.valueDim >= 1;
}
/// 1 / sqrt(n) by Newton's method, from below: each step multiplies a small value by nearly 1.5.
constexpr double rootReciprocal(u32 n) {
  double r = 1.0 / n;
  for (int step = 0; step < 40; ++step)
    r *= 1.5 - 0.5 * n * r * r;
  return r;
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_GATED_DELTA_ROWS_SPEC_CUH
