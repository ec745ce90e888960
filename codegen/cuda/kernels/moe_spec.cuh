// Specialisation records of sparse mixture of experts. Routes: binary32 [rows][2 topK], expert numbers, then weights.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_MOE_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_MOE_SPEC_CUH

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
/// The F1 record that runs for one row and slot.
constexpr LinearSpec moeUpLinear(const MoeUpSpec &s) {
  return {.format = s.format, .rows = 1, .k = s.k, .epilogue = Epilogue::Swiglu, .warpsK = s.warpsK, .depth = s.depth,
          .operands = s.operands};
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

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_MOE_SPEC_CUH
