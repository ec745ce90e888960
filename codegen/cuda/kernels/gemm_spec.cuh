// Specialisation record of the F2 linear kernels (many rows: prefill).
#ifndef NINFER_CODEGEN_CUDA_KERNELS_GEMM_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_GEMM_SPEC_CUH

#include "linear_spec.cuh"

namespace ni {

struct GemmSpec {
  Format format;
  u32 k; ///< a multiple of 8
  Epilogue epilogue = Epilogue::Store;
  OutputType output = OutputType::Bf16;
  u32 tiles = 4;  ///< tiles of 8 rows of x per warp: 4, or 8 without groups (with them 255 registers spill)
  u32 stages = 2; ///< blocks of 128 k in flight; 1: copied and multiplied in turn
  u32 blocksPerSm = 1;
  Operands operands = Operands::Bf16;
};

constexpr u32 kGemmWarpsN = 4, kGemmWarpsRows = 2, kGemmThreads = kGemmWarpsN * kGemmWarpsRows * 32;
constexpr u32 kGemmPanels = 2 * kGemmWarpsN; ///< of a thread block: two per warp; Swiglu: gate and up of one number
/// Rows of x and outputs of a thread block.
constexpr u32 gemmRows(const GemmSpec &s) { return kGemmWarpsRows * s.tiles * 8; }
constexpr u32 gemmOutputs(const GemmSpec &s) {
  return kGemmPanels * kPanelRows / (s.epilogue == Epilogue::Swiglu ? 2 : 1);
}
constexpr u32 gemmBlocksX(const GemmSpec &s, u32 n) { return divideUp(n, gemmOutputs(s)); }
constexpr u32 gemmBlocksY(const GemmSpec &s, u32 rows) { return divideUp(rows, gemmRows(s)); }

/// Sums of groups of k are kept apart from the others.
constexpr bool gemmHasGroups(const GemmSpec &s) { return groupSize(s.format) != 0 || s.operands == Operands::F16; }

/// Shared memory, bytes. A stage: 128 k of the rows, then of the panels, block by block, then with F16 a float per row.
constexpr u32 gemmBlockBytes(Format f) { return blockCodeBytes(f) + blockHighBytes(f) + blockScaleBytes(f); }
constexpr u32 gemmStageBytes(const GemmSpec &s) {
  return gemmRows(s) * (kBlockK * 2 + (s.operands == Operands::F16 ? 4 : 0)) + kGemmPanels * gemmBlockBytes(s.format);
}
constexpr u32 gemmResultStride(const GemmSpec &s) { return gemmOutputs(s) + 4; } ///< floats
/// The results pass through the memory of the stages.
constexpr u32 gemmShared(const GemmSpec &s) {
  return larger(s.stages * gemmStageBytes(s), gemmRows(s) * gemmResultStride(s) * 4);
}
constexpr bool gemmAccepts(const GemmSpec &s) {
  return hasPanels(s.format) && s.k >= 8 && s.k <= (1u << 20) && s.k % 8 == 0 && (s.tiles == 4 || (s.tiles == 8 && !gemmHasGroups(s))) &&
         s.stages >= 1 && s.stages <= 4;
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_GEMM_SPEC_CUH
