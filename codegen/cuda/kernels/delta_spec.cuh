// Specialisation records of gated DeltaNet: causal convolution and the delta rule, row by row.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_DELTA_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_DELTA_SPEC_CUH

#include "types.cuh"

namespace ni {

struct CausalConvSpec {
  u32 taps; ///< 2..8
  u32 queryWidth, keyWidth, valueWidth; ///< channels, even
};
constexpr u32 kConvThreads = 128; ///< each has two channels
constexpr u32 kConvRows = 32;     ///< rows of a thread block
constexpr u32 convChannels(const CausalConvSpec &s) { return s.queryWidth + s.keyWidth + s.valueWidth; }
constexpr u32 convBlocksX(const CausalConvSpec &s) { return divideUp(convChannels(s) / 2, kConvThreads); }
constexpr u32 convBlocksY(u32 rows) { return divideUp(rows, kConvRows); }
constexpr bool convAccepts(const CausalConvSpec &s) {
  return s.taps >= 2 && s.taps <= 8 && s.queryWidth % 2 == 0 && s.keyWidth % 2 == 0 && s.valueWidth % 2 == 0;
}

struct GatedDeltaSpec {
  u32 keyHeads, valueHeads;
  u32 keyDim;   ///< a multiple of 64 up to 256
  u32 valueDim; ///< a multiple of 16
};
constexpr u32 kDeltaWarps = 4, kDeltaRowsPerWarp = 4; ///< rows of the state matrix: one value each
constexpr u32 deltaThreads() { return kDeltaWarps * 32; }
constexpr u32 deltaBlocksX(const GatedDeltaSpec &s) { return s.valueDim / (kDeltaWarps * kDeltaRowsPerWarp); }
constexpr bool deltaAccepts(const GatedDeltaSpec &s) {
  return s.keyHeads >= 1 && s.valueHeads % s.keyHeads == 0 && s.keyDim % 64 == 0 && s.keyDim >= 64 && s.keyDim <= 256 &&
         s.valueDim % 16 == 0 && s.valueDim >= 16;
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_DELTA_SPEC_CUH
