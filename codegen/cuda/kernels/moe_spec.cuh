// Specialisation records of sparse mixture of experts. Routes: binary32 [rows][2 topK], expert numbers, then weights.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_MOE_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_MOE_SPEC_CUH

#include "gemm_spec.cuh"
#include "linear_spec.cuh"

namespace ni {

struct MoeRouteSpec {
  u32 experts; ///< up to 1024
  u32 topK;    ///< up to 64
};
constexpr u32 kRouteThreads = 128;
constexpr u32 routeShared(const MoeRouteSpec &s) { return s.experts * 4 + kRouteThreads / 32 * 8 + s.topK * 8; }
constexpr bool routeAccepts(const MoeRouteSpec &s) {
  return s.experts >= 1 && s.experts <= 1024 && s.topK >= 1 && s.topK <= 64 && s.topK <= s.experts;
}

/// First map of the chosen experts: silu(gate) * up. An expert has its gate rows, then its up rows, each a multiple of 16.
struct MoeUpSpec {
  Format format;
  u32 k;
  u32 topK;
  u32 warpsK = 8, depth = 2;
  Operands operands = Operands::Bf16;
};
/// The F1 record that runs for one row and slot. Gate and up of W8 need some registers more than 8 warps twice on an SM
/// leave them (sm_90 spills): 4 warps, three times.
constexpr LinearSpec moeUpLinear(const MoeUpSpec &s) {
  const bool w8 = s.format == Format::W8;
  return {.format = s.format, .rows = 1, .k = s.k, .epilogue = Epilogue::Swiglu, .warpsK = w8 ? smaller(s.warpsK, 4) : s.warpsK,
          .depth = s.depth, .blocksPerSm = w8 ? 3u : 2u, .operands = s.operands};
}

/// Second map, weighted and summed over the slots: one warp per slot.
struct MoeDownSpec {
  Format format;
  u32 k;
  u32 topK; ///< up to 16
  Operands operands = Operands::Bf16;
};
constexpr u32 moeDownThreads(const MoeDownSpec &s) { return s.topK * 32; }
/// A slot: its products, F16: a float per 128 of them, sums.
constexpr u32 moeDownUnits(const MoeDownSpec &s) { return s.operands == Operands::F16 ? panelBlocks(s.k) : 1; }
constexpr u32 moeDownShared(const MoeDownSpec &s) {
  return s.topK * (roundUp(s.k, kBlockK) * 2 + moeDownUnits(s) * 4 + kPanelRows * 4);
}
constexpr bool moeDownAccepts(const MoeDownSpec &s) {
  return hasPanels(s.format) && s.k % 8 == 0 && s.topK >= 1 && s.topK <= 16;
}

/// Both maps for many rows (prefill): a thread block has one expert and takes the entries (row and slot) that chose it, up to
/// gemmRows at a time.
struct MoeGroupedSpec {
  Format format;
  u32 k; ///< a multiple of 8
  u32 topK;
  bool down; ///< the second map, weighted and summed over the slots; else the first with swiglu
  u32 stages = 2;
};
constexpr GemmSpec groupedGemm(const MoeGroupedSpec &s) {
  return {.format = s.format, .k = s.k, .epilogue = s.down ? Epilogue::Store : Epilogue::Swiglu,
          .output = s.down ? OutputType::Float : OutputType::Bf16, .stages = s.stages};
}
constexpr u32 kGroupedWindow = kGemmThreads * 4; ///< entries a block looks through at a time
constexpr u32 groupedShared(const MoeGroupedSpec &s) {
  return gemmShared(groupedGemm(s)) + gemmRows(groupedGemm(s)) * 8 + kGemmThreads / 32 * 4;
}
constexpr u32 groupedBlocksX(const MoeGroupedSpec &s, u32 n) { return gemmBlocksX(groupedGemm(s), n); }
/// Down: floats of scratch, and counters, for calls of up to `rows` rows.
constexpr u64 groupedScratch(const MoeGroupedSpec &s, u32 rows, u32 n) { return static_cast<u64>(rows) * s.topK * n; }
constexpr u32 groupedCounters(const MoeGroupedSpec &s, u32 rows, u32 n) { return rows * groupedBlocksX(s, n); }
constexpr bool groupedAccepts(const MoeGroupedSpec &s) { return gemmAccepts(groupedGemm(s)) && s.topK >= 1 && s.topK <= 64; }

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_MOE_SPEC_CUH
