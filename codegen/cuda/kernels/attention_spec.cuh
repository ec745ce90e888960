// Specialisation records of attention: decode (few rows against a long cache) and prefill (many rows).
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_SPEC_CUH

#include "rows_spec.cuh"

namespace ni {

/// Heads the tensor-core kernels take. In shared memory and registers a head is padded with zeros to a multiple of 64.
constexpr bool headAccepts(u32 dim) { return dim >= 16 && dim <= 256 && dim % 16 == 0; }
constexpr u32 paddedDim(u32 dim) { return roundUp(dim, 64u); }

/// A tile of cache rows in shared memory: keys, values, and what their codes are multiplied by. The strides put the rows that
/// a load touches together into different banks.
struct CacheTileSpec {
  u32 dim; ///< of a head
  CacheCodec codec;
  u32 keys; ///< a multiple of 16
  Operands operands = Operands::Bf16;
};
/// Bytes of a row of the cache, and of the tile.
constexpr u32 cacheRowBytes(const CacheTileSpec &s) { return s.codec == CacheCodec::Bf16 ? s.dim * 2 : s.dim; }
constexpr u32 tileRowBytes(const CacheTileSpec &s) {
  return s.codec == CacheCodec::Bf16 ? paddedDim(s.dim) * 2 : paddedDim(s.dim);
}
constexpr u32 tileKeyStride(const CacheTileSpec &s) { return tileRowBytes(s) + (s.codec == CacheCodec::Bf16 ? 64 : 32); }
constexpr u32 tileValueStride(const CacheTileSpec &s) { return tileRowBytes(s) + 16; }
/// Scales per 64 of dim: the binary16 ones of an int8 cache, with F16 operands floats for either codec.
constexpr u32 tileScaleBytes(const CacheTileSpec &s) {
  return s.keys * cacheGroups(s.dim) * (s.operands == Operands::F16 ? 4 : s.codec == CacheCodec::Int8 ? 2 : 0);
}
constexpr u32 tileBytes(const CacheTileSpec &s) {
  return s.keys * (tileKeyStride(s) + tileValueStride(s)) + 2 * tileScaleBytes(s);
}

struct AttentionDecodeSpec {
  u32 heads, kvHeads;
  u32 dim;      ///< of a head
  u32 rows = 1; ///< capacity; a launch has 1..rows
  CacheCodec codec = CacheCodec::Bf16;
  bool gate = false; ///< multiply by sigmoid(gate)
  Operands operands = Operands::Bf16;
};

constexpr u32 kAttentionWarps = 4;
constexpr u32 kAttentionKeys = 32; ///< keys of one tile: every warp scores 8 of them
/// Tiles in shared memory. sm_75 has no asynchronous copies to fill a second one, and 64 KiB.
constexpr u32 attentionStages(Operands operands) { return operands == Operands::F16 ? 1 : 2; }
/// Shared memory that every block may have: sm_75; sm_80 and later.
constexpr u32 kHalfSharedLimit = 64 * 1024, kSharedLimit = 99 * 1024;

constexpr u32 attentionThreads() { return kAttentionWarps * 32; }
/// Query vectors that share a KV head: (row, head of the group), row first.
constexpr u32 attentionVectors(const AttentionDecodeSpec &s) { return s.rows * (s.heads / s.kvHeads); }
/// Tiles of 16 vectors of the tensor core's A operand.
constexpr u32 attentionTiles(const AttentionDecodeSpec &s) { return divideUp(attentionVectors(s), 16); }

// Shared memory, bytes.
constexpr u32 attentionQueryStride(const AttentionDecodeSpec &s) { return paddedDim(s.dim) * 2 + 64; }
constexpr CacheTileSpec attentionTile(const AttentionDecodeSpec &s) { return {s.dim, s.codec, kAttentionKeys, s.operands}; }
constexpr u32 kScoreStride = kAttentionKeys + 4; ///< floats
/// F16: floats per query vector, one per 64 of dim.
constexpr u32 attentionQueryUnits(const AttentionDecodeSpec &s) { return s.operands == Operands::F16 ? cacheGroups(s.dim) : 0; }
constexpr u32 attentionVectorBytes(const AttentionDecodeSpec &s) {
  return attentionTiles(s) * 16 * (attentionQueryStride(s) + (kScoreStride + 3 + attentionQueryUnits(s)) * 4) + 16;
}
/// Many vectors of large heads leave room for one tile only.
constexpr u32 attentionDecodeStages(const AttentionDecodeSpec &s) {
  return attentionVectorBytes(s) + 2 * tileBytes(attentionTile(s)) <= kSharedLimit ? attentionStages(s.operands) : 1;
}
constexpr u32 attentionShared(const AttentionDecodeSpec &s) {
  return attentionVectorBytes(s) + attentionDecodeStages(s) * tileBytes(attentionTile(s));
}
constexpr bool attentionAccepts(const AttentionDecodeSpec &s) {
  return s.kvHeads >= 1 && s.heads % s.kvHeads == 0 && headAccepts(s.dim) && s.rows >= 1 && attentionTiles(s) <= 4 &&
         attentionShared(s) <= (s.operands == Operands::F16 ? kHalfSharedLimit : kSharedLimit);
}
/// Floats of scratch per KV head and split: sums [vectors][dim], maximum and sum of weights [vectors][2].
constexpr u32 attentionScratch(const AttentionDecodeSpec &s) { return attentionVectors(s) * (s.dim + 2); }

/// Prefill: a warp has 16 rows of one query head.
struct AttentionPrefillSpec {
  u32 heads, kvHeads;
  u32 dim; ///< of a head
  CacheCodec codec = CacheCodec::Bf16;
  bool gate = false; ///< multiply by sigmoid(gate)
  u32 warps = 4;     ///< 4 or 8: 64 or 128 rows share the keys and values a block loads
  Operands operands = Operands::Bf16;
};
constexpr u32 prefillThreads(const AttentionPrefillSpec &s) { return s.warps * 32; }
constexpr u32 prefillRows(const AttentionPrefillSpec &s) { return s.warps * 16; }
/// A lane's sums take dim / 2 registers. Above 128 the queries do not fit beside them and lie in shared memory, which
/// leaves room for tiles of 16 keys.
constexpr bool prefillQueryShared(const AttentionPrefillSpec &s) { return paddedDim(s.dim) > 128; }
constexpr CacheTileSpec prefillTile(const AttentionPrefillSpec &s) {
  return {s.dim, s.codec, prefillQueryShared(s) ? kAttentionKeys / 2 : kAttentionKeys, s.operands};
}
constexpr u32 prefillQueryStride(const AttentionPrefillSpec &s) { return paddedDim(s.dim) * 2 + 64; }
constexpr u32 prefillShared(const AttentionPrefillSpec &s) {
  return attentionStages(s.operands) * tileBytes(prefillTile(s)) +
         (prefillQueryShared(s) ? prefillRows(s) * prefillQueryStride(s) : 16);
}
constexpr bool prefillAccepts(const AttentionPrefillSpec &s) {
  return s.kvHeads >= 1 && s.heads % s.kvHeads == 0 && headAccepts(s.dim) && (s.warps == 4 || s.warps == 8) &&
         prefillShared(s) <= (s.operands == Operands::F16 ? kHalfSharedLimit : kSharedLimit);
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_SPEC_CUH
