// Specialisation records of attention: decode (few rows against a long cache) and prefill (many rows).
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_SPEC_CUH

#include "rows_spec.cuh"

namespace ni {

/// A tile of cache rows in shared memory: keys, values, and with int8 their scales. The strides put the rows that a load
/// touches together into different banks.
struct CacheTileSpec {
  u32 dim; ///< of a head, a multiple of 64 up to 256
  CacheCodec codec;
  u32 keys; ///< a multiple of 16
};
constexpr u32 tileRowBytes(const CacheTileSpec &s) { return s.codec == CacheCodec::Bf16 ? s.dim * 2 : s.dim; }
constexpr u32 tileKeyStride(const CacheTileSpec &s) { return tileRowBytes(s) + (s.codec == CacheCodec::Bf16 ? 64 : 32); }
constexpr u32 tileValueStride(const CacheTileSpec &s) { return tileRowBytes(s) + 16; }
constexpr u32 tileScaleBytes(const CacheTileSpec &s) {
  return s.codec == CacheCodec::Int8 ? s.keys * cacheGroups(s.dim) * 2 : 0;
}
constexpr u32 tileBytes(const CacheTileSpec &s) {
  return s.keys * (tileKeyStride(s) + tileValueStride(s)) + 2 * tileScaleBytes(s);
}

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

// Shared memory, bytes.
constexpr u32 attentionQueryStride(const AttentionDecodeSpec &s) { return s.dim * 2 + 64; }
constexpr CacheTileSpec attentionTile(const AttentionDecodeSpec &s) { return {s.dim, s.codec, kAttentionKeys}; }
constexpr u32 kScoreStride = kAttentionKeys + 4; ///< floats
constexpr u32 attentionShared(const AttentionDecodeSpec &s) {
  return attentionTiles(s) * 16 * (attentionQueryStride(s) + kScoreStride * 4 + 3 * 4) +
         kAttentionStages * tileBytes(attentionTile(s)) + 16;
}
/// Floats of scratch per KV head and split: sums [vectors][dim], maximum and sum of weights [vectors][2].
constexpr u32 attentionScratch(const AttentionDecodeSpec &s) { return attentionVectors(s) * (s.dim + 2); }

/// Prefill: a warp has 16 rows of one query head.
struct AttentionPrefillSpec {
  u32 heads, kvHeads;
  u32 dim; ///< of a head: 64, 128, 192, 256
  CacheCodec codec = CacheCodec::Bf16;
  bool gate = false; ///< multiply by sigmoid(gate)
  u32 warps = 4;     ///< 4 or 8: 64 or 128 rows share the keys and values a block loads
};
constexpr u32 prefillThreads(const AttentionPrefillSpec &s) { return s.warps * 32; }
constexpr u32 prefillRows(const AttentionPrefillSpec &s) { return s.warps * 16; }
/// A lane's sums take dim / 2 registers. Above 128 the queries do not fit beside them and lie in shared memory, which
/// leaves room for tiles of 16 keys.
constexpr bool prefillQueryShared(const AttentionPrefillSpec &s) { return s.dim > 128; }
constexpr CacheTileSpec prefillTile(const AttentionPrefillSpec &s) {
  return {s.dim, s.codec, prefillQueryShared(s) ? kAttentionKeys / 2 : kAttentionKeys};
}
constexpr u32 prefillQueryStride(const AttentionPrefillSpec &s) { return s.dim * 2 + 64; }
constexpr u32 prefillShared(const AttentionPrefillSpec &s) {
  return kAttentionStages * tileBytes(prefillTile(s)) +
         (prefillQueryShared(s) ? prefillRows(s) * prefillQueryStride(s) : 16);
}
constexpr bool prefillAccepts(const AttentionPrefillSpec &s) {
  return s.kvHeads >= 1 && s.heads % s.kvHeads == 0 && s.dim >= 64 && s.dim <= 256 && s.dim % 64 == 0 &&
         (s.warps == 4 || s.warps == 8);
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_SPEC_CUH
