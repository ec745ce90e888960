// Specialisation record of decode attention: few rows against a long cache.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_SPEC_CUH

#include "rows_spec.cuh"

namespace ni {

struct AttentionDecodeSpec {
  u32 heads, kvHeads;
  u32 dim;      ///< of a head: 64, 128, 192, 256
  u32 rows = 1; ///< capacity; a launch has 1..rows
  CacheCodec codec = CacheCodec::Bf16;
  bool gate = false; ///< multiply by sigmoid(gate)
};

constexpr u32 kAttentionWarps = 4;
constexpr u32 kAttentionKeys = 32; ///< keys of one tile: every warp scores 8 of them
constexpr u32 kAttentionStages = 2;

constexpr u32 attentionThreads() { return kAttentionWarps * 32; }
/// Query vectors that share a KV head: (row, head of the group), row first.
constexpr u32 attentionVectors(const AttentionDecodeSpec &s) { return s.rows * (s.heads / s.kvHeads); }
/// Tiles of 16 vectors of the tensor core's A operand.
constexpr u32 attentionTiles(const AttentionDecodeSpec &s) { return divideUp(attentionVectors(s), 16); }
constexpr bool attentionAccepts(const AttentionDecodeSpec &s) {
  return s.kvHeads >= 1 && s.heads % s.kvHeads == 0 && s.dim >= 64 && s.dim <= 256 && s.dim % 64 == 0 && s.rows >= 1 &&
         attentionTiles(s) <= 4 && (s.codec == CacheCodec::Bf16 || s.dim != 192);
}

// Shared memory, bytes. The strides put the rows a load touches together into different banks.
constexpr u32 attentionQueryStride(const AttentionDecodeSpec &s) { return s.dim * 2 + 64; }
constexpr u32 attentionRowBytes(const AttentionDecodeSpec &s) { return s.codec == CacheCodec::Bf16 ? s.dim * 2 : s.dim; }
constexpr u32 attentionKeyStride(const AttentionDecodeSpec &s) {
  return attentionRowBytes(s) + (s.codec == CacheCodec::Bf16 ? 64 : 32);
}
constexpr u32 attentionValueStride(const AttentionDecodeSpec &s) { return attentionRowBytes(s) + 16; }
constexpr u32 attentionScaleBytes(const AttentionDecodeSpec &s) {
  return s.codec == CacheCodec::Int8 ? kAttentionKeys * cacheGroups(s.dim) * 2 : 0;
}
/// Keys, values, and with int8 the scales of both.
constexpr u32 attentionStageBytes(const AttentionDecodeSpec &s) {
  return kAttentionKeys * (attentionKeyStride(s) + attentionValueStride(s)) + 2 * attentionScaleBytes(s);
}
constexpr u32 kScoreStride = kAttentionKeys + 4; ///< floats
constexpr u32 attentionShared(const AttentionDecodeSpec &s) {
  return attentionTiles(s) * 16 * (attentionQueryStride(s) + kScoreStride * 4 + 3 * 4) +
         kAttentionStages * attentionStageBytes(s) + 16;
}
/// Floats of scratch per KV head and split: sums [vectors][dim], maximum and sum of weights [vectors][2].
constexpr u32 attentionScratch(const AttentionDecodeSpec &s) { return attentionVectors(s) * (s.dim + 2); }

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_SPEC_CUH
