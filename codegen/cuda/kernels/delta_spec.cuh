// Specialisation records of gated DeltaNet: causal convolution, the delta rule row by row, the delta rule in chunks of rows.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_DELTA_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_DELTA_SPEC_CUH

#include "types.cuh"

namespace ni {

struct CausalConvSpec {
  u32 taps; ///< 2..8
  u32 queryWidth, keyWidth, valueWidth; ///< channels, even
  bool peek = false; ///< the tail stays as it was
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
  u32 keyDim;   ///< a multiple of 32 up to 256
  u32 valueDim; ///< a multiple of 16
  bool peek = false; ///< the state stays as it was
};
constexpr u32 kDeltaWarps = 4, kDeltaRowsPerWarp = 4; ///< rows of the state matrix: one value each
constexpr u32 deltaThreads() { return kDeltaWarps * 32; }
constexpr u32 deltaBlocksX(const GatedDeltaSpec &s) { return s.valueDim / (kDeltaWarps * kDeltaRowsPerWarp); }
constexpr bool deltaAccepts(const GatedDeltaSpec &s) {
  return s.keyHeads >= 1 && s.valueHeads % s.keyHeads == 0 && s.keyDim % 32 == 0 && s.keyDim >= 32 && s.keyDim <= 256 &&
         s.valueDim % 16 == 0 && s.valueDim >= 16;
}

/// The delta rule for many rows (prefill): a thread block has `values` rows of the state matrix of one head and takes
/// `16 * warps` rows at a time.
struct DeltaChunkedSpec {
  u32 keyHeads, valueHeads;
  u32 keyDim;   ///< a multiple of 32 and of 16 * warps, up to 256
  u32 valueDim; ///< a multiple of `values`
  u32 values;   ///< 16 or 32
  u32 warps;    ///< 2 or 4
};
constexpr u32 deltaChunk(const DeltaChunkedSpec &s) { return 16 * s.warps; }
constexpr u32 deltaChunkedThreads(const DeltaChunkedSpec &s) { return 32 * s.warps; }
constexpr u32 deltaChunkedBlocksX(const DeltaChunkedSpec &s) { return s.valueDim / s.values; }
/// Rows of a matrix in shared memory are 16 bytes longer than their elements: eight of them start in different banks.
constexpr u32 deltaKeyStride(const DeltaChunkedSpec &s) { return s.keyDim + 8; }
constexpr u32 deltaChunkStride(const DeltaChunkedSpec &s) { return deltaChunk(s) + 8; }
constexpr u32 deltaChunkedShared(const DeltaChunkedSpec &s) {
  const u32 chunk = deltaChunk(s);
  return (2 * chunk + 2 * s.values) * deltaKeyStride(s) * 2                                // key, query, state
         + larger(chunk * 4, s.values * 8) * deltaChunkStride(s)                           // lower triangle, then changes
         + s.values * (chunk + 4) * 4 + 6 * chunk * 4; // right hand side, scalars of the rows
}
constexpr bool deltaChunkedAccepts(const DeltaChunkedSpec &s) {
  return s.keyHeads >= 1 && s.valueHeads % s.keyHeads == 0 && (s.warps == 2 || s.warps == 4) &&
         (s.values == 16 || s.values == 32) && s.keyDim % 32 == 0 && s.keyDim % (16 * s.warps) == 0 && s.keyDim >= 32 &&
         s.keyDim <= 256 && s.valueDim >= s.values && s.valueDim % s.values == 0;
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_DELTA_SPEC_CUH
