// Specialisation records of the kernels that treat rows on their own: norms, elementwise operators, embedding, argmax,
// rope and cache append.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ROWS_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ROWS_SPEC_CUH

#include "panel.cuh"

namespace ni {

enum class NormKind : u32 { Plain, UnitOffset, Gated };

/// Norm of vectors of `width` numbers: whole rows, or heads of rows.
struct NormSpec {
  u32 width;
  NormKind kind = NormKind::Plain;
};
constexpr u32 kNormThreads = 128;
/// Warps that share one vector: short ones take one, so that a block norms four heads.
constexpr u32 normWarps(const NormSpec &s) { return s.width <= 512 ? 1 : 4; }
constexpr u32 normShared(const NormSpec &s) { return normWarps(s) == 1 ? 0 : 16; }
constexpr u32 normBlocks(const NormSpec &s, u32 vectors) { return divideUp(vectors, 4 / normWarps(s)); }

enum class ElementwiseOp : u32 { Add, Swiglu, SigmoidGate, SigmoidRowGate };
struct ElementwiseSpec {
  ElementwiseOp op;
};
constexpr u32 kElementwiseThreads = 256;
constexpr u32 kElementwisePerThread = 8;

struct EmbeddingSpec {
  Format format; ///< of the packed table
  u32 k;
};
constexpr u32 kEmbeddingThreads = 128;

struct ArgmaxSpec {
  u32 blocks; ///< thread blocks per row
};
constexpr u32 kArgmaxThreads = 256;
constexpr u32 kArgmaxShared = kArgmaxThreads / 32 * 8 + 4;

enum class CacheCodec : u32 { Bf16, Int8 };
constexpr u32 kCacheGroup = 64; ///< values of an int8 cache row that share a binary16 scale

enum class HeadNorm : u32 { None, Plain, UnitOffset };
struct RopeAppendSpec {
  u32 heads;   ///< query heads
  u32 kvHeads;
  u32 dim;     ///< of a head, even
  u32 pairs;   ///< rotated pairs (i, i + pairs); 0: no rotation
  CacheCodec codec = CacheCodec::Bf16;
  HeadNorm norm = HeadNorm::None; ///< of query and key heads, before the rotation
};
constexpr u32 kRopeWarps = 4;
constexpr u32 ropeShared(const RopeAppendSpec &s) { return kRopeWarps * s.dim * 4; }
constexpr u32 ropeItems(const RopeAppendSpec &s) { return s.heads + 2 * s.kvHeads; }
constexpr u32 ropeBlocks(const RopeAppendSpec &s, u32 rows) { return divideUp(rows * ropeItems(s), kRopeWarps); }
constexpr bool ropeAccepts(const RopeAppendSpec &s) {
  return s.heads >= 1 && s.kvHeads >= 1 && s.dim >= 2 && s.dim <= 512 && s.dim % 2 == 0 && 2 * s.pairs <= s.dim;
}

/// Bytes of a plane (keys or values) of a cache before its scales; scales are binary16 [kvHeads][capacity][groups].
constexpr u64 cacheScalesAt(u32 kvHeads, u32 capacity, u32 dim) {
  return roundUp(static_cast<u64>(kvHeads) * capacity * dim, static_cast<u64>(64));
}
constexpr u32 cacheGroups(u32 dim) { return divideUp(dim, kCacheGroup); }

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_ROWS_SPEC_CUH
