// Causal attention for every head size and number of rows: one thread block per query head and row, without tensor cores.
// It serves what the tuned attention kernels do not take. A warp walks every fourth key with a running maximum and sum;
// the four results meet in shared memory and are added in a fixed order.
//   out = sum over keys j <= position[0] + row of softmax(scale * q . k_j) v_j
// Launch: grid (heads, rows), kAttentionRowsThreads, attentionRowsShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_ROWS_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_ROWS_CUH

#include "attention_rows_spec.cuh"
#include "ni.cuh"

namespace ni {

struct AttentionRowsArgs {
  const u16 *query;        ///< bfloat16 [rows][heads * dim]
  const u8 *keys, *values; ///< cache planes
  u16 *out;                ///< like query
  const u32 *position;     ///< of row 0, in device memory
  u32 capacity;
  float scale; ///< of the scores, times log2(e)
};

template <AttentionRowsSpec S>
struct AttentionRows {
  static_assert(attentionRowsAccepts(S), "attention_rows_spec.cuh: attentionRowsAccepts");
  static constexpr u32 kSteps = divideUp(S.dim, 64); ///< a lane holds elements 64 s + 2 lane, + 1
  static constexpr float kNone = -1e30f; ///< maximum before the first key: finite, so that differences are numbers
  struct Shared {
    float sums[kAttentionRowsWarps][S.dim];
    float maximum[kAttentionRowsWarps], total[kAttentionRowsWarps];
  };
  static_assert(sizeof(Shared) == attentionRowsShared(S));

  NI_FN void run(const AttentionRowsArgs &a, Shared *sm) {
    const u32 head = blockX(), row = blockY(), lane = laneIndex(), warp = warpIndex();
    const u32 kvHead = head / (S.heads / S.kvHeads), length = load(a.position) + row + 1;
    const u64 at = (static_cast<u64>(row) * S.heads + head) * S.dim;
    float q[kSteps][2], sums[kSteps][2], top = kNone, total = 0.0f;
    NI_UNROLL
    for (u32 s = 0; s < kSteps; ++s) {
      const u32 d = 64 * s + 2 * lane;
      const u32 pair = d < S.dim ? load(reinterpret_cast<const u32 *>(a.query + at + d)) : 0u;
      q[s][0] = bf16Low(pair) * a.scale;
      q[s][1] = bf16High(pair) * a.scale;
      sums[s][0] = sums[s][1] = 0.0f;
    }
    NI_NO_UNROLL
    for (u32 j = warp; j < length; j += kAttentionRowsWarps) {
      const u64 key = static_cast<u64>(kvHead) * a.capacity + j;
      float k[kSteps][2], v[kSteps][2], dot = 0.0f;
      read(k, a, a.keys, key, lane);
      read(v, a, a.values, key, lane);
      NI_UNROLL
      for (u32 s = 0; s < kSteps; ++s) {
        dot = fusedMultiplyAdd(q[s][0], k[s][0], dot);
        dot = fusedMultiplyAdd(q[s][1], k[s][1], dot);
      }
      const float score = warpSum(dot), next = maximum(top, score);
      const float rescale = exp2Approx(top - next), weight = exp2Approx(score - next);
      top = next;
      total = fusedMultiplyAdd(total, rescale, weight);
      NI_UNROLL
      for (u32 s = 0; s < kSteps; ++s)
        NI_UNROLL
        for (u32 b = 0; b < 2; ++b)
          sums[s][b] = fusedMultiplyAdd(weight, v[s][b], sums[s][b] * rescale);
    }
    NI_UNROLL
    for (u32 s = 0; s < kSteps; ++s)
      NI_UNROLL
      for (u32 b = 0; b < 2; ++b)
        if (64 * s + 2 * lane + b < S.dim)
          sharedStore(&sm->sums[warp][64 * s + 2 * lane + b], sums[s][b]);
    if (lane == 0) {
      sharedStore(&sm->maximum[warp], top);
      sharedStore(&sm->total[warp], total);
    }
    blockSync();
    combine(a, sm, at);
  }

private:
  /// A row of a cache plane, this lane's elements; zeros beyond dim.
  NI_FN void read(float (&x)[kSteps][2], const AttentionRowsArgs &a, const u8 *plane, u64 row, u32 lane) {
    NI_UNROLL
    for (u32 s = 0; s < kSteps; ++s) {
      const u32 d = 64 * s + 2 * lane;
      x[s][0] = x[s][1] = 0.0f;
      if (d >= S.dim)
        continue;
      if constexpr (S.codec == CacheCodec::Bf16) {
        const u32 pair = load(reinterpret_cast<const u32 *>(plane + (row * S.dim + d) * 2));
        x[s][0] = bf16Low(pair);
        x[s][1] = bf16High(pair);
      } else {
        const u16 codes = load(reinterpret_cast<const u16 *>(plane + row * S.dim + d));
        const u16 *scales = reinterpret_cast<const u16 *>(plane + cacheScalesAt(S.kvHeads, a.capacity, S.dim));
        const float scale = f16ToFloat(load(scales + row * cacheGroups(S.dim) + s));
        x[s][0] = static_cast<float>(static_cast<i8>(codes & 0xffu)) * scale;
        x[s][1] = static_cast<float>(static_cast<i8>(codes >> 8)) * scale;
      }
    }
  }

  NI_FN void combine(const AttentionRowsArgs &a, Shared *sm, u64 at) {
    float top = kNone, weights[kAttentionRowsWarps], total = 0.0f;
    NI_UNROLL
    for (u32 w = 0; w < kAttentionRowsWarps; ++w)
      top = maximum(top, sharedLoad(&sm->maximum[w]));
    NI_UNROLL
    for (u32 w = 0; w < kAttentionRowsWarps; ++w) {
      weights[w] = exp2Approx(sharedLoad(&sm->maximum[w]) - top);
      total = fusedMultiplyAdd(weights[w], sharedLoad(&sm->total[w]), total);
    }
    for (u32 d = threadIndex(); d < S.dim; d += kAttentionRowsThreads) {
      float sum = 0.0f;
      NI_UNROLL
      for (u32 w = 0; w < kAttentionRowsWarps; ++w)
        sum = fusedMultiplyAdd(weights[w], sharedLoad(&sm->sums[w][d]), sum);
      store(a.out + at + d, floatToBf16(divide(sum, total)));
    }
  }
};

} // namespace ni

#define NI_ATTENTION_ROWS(name, ...)                                                                                   \
  namespace ni {                                                                                                       \
  constexpr AttentionRowsSpec name##_spec = __VA_ARGS__;                                                               \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kAttentionRowsThreads, 2)                                                                        \
  (const ni::u16 *query, const ni::u8 *keys, const ni::u8 *values, ni::u16 *out, const ni::u32 *position,              \
   ni::u32 capacity, float scale) {                                                                                    \
    NI_SHARED(ni::AttentionRows<ni::name##_spec>::Shared, shared);                                                     \
    ni::AttentionRows<ni::name##_spec>::run({query, keys, values, out, position, capacity, scale}, shared);            \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_ROWS_CUH
