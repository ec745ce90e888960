// Specialisation record of attention_rows.cuh.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_ROWS_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_ROWS_SPEC_CUH

#include "rows_spec.cuh"

namespace ni {

struct AttentionRowsSpec {
  u32 heads, kvHeads;
  u32 dim; ///< of a head, even
  CacheCodec codec = CacheCodec::Bf16;
};
constexpr u32 kAttentionRowsWarps = 4;
constexpr u32 kAttentionRowsThreads = kAttentionRowsWarps * 32;
constexpr u32 attentionRowsShared(const AttentionRowsSpec &s) { return kAttentionRowsWarps * (s.dim + 2) * 4; }
constexpr bool attentionRowsAccepts(const AttentionRowsSpec &s) {
  return s.kvHeads >= 1 && s.heads % s.kvHeads == 0 && s.dim >= 2 && s.dim <= 512 && s.dim % 2 == 0;
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_ROWS_SPEC_CUH
