// Attention of every row to every row, per head: softmax over j of scale * q[r] . k[j], times v[j]. A warp has four queries; tiles of
// 32 keys and values are in shared memory: a lane scores one key, then sums every 32nd element of the values. Running maximum
// and sum, no tensor cores. Launch: grid (heads, fullBlocksY(rows)), kFullThreads, fullShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_FULL_ATTENTION_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_FULL_ATTENTION_CUH

#include "ni.cuh"
#include "vision_spec.cuh"

namespace ni {

struct FullAttentionArgs {
  const u16 *query, *key, *value; ///< bfloat16 [rows][heads * dim]
  u16 *out;                       ///< like query; not an input
  u32 rows;
  float scale; ///< of the scores, times log2(e)
};

template <FullAttentionSpec S>
struct FullAttention {
  static_assert(fullAccepts(S), "vision_spec.cuh: fullAccepts");
  static constexpr u32 kStride = fullStride(S), kPerLane = divideUp(S.dim, 32), kWidth = S.heads * S.dim;
  struct Shared {
    float query[kFullRows * S.dim]; ///< times scale
    u16 keys[kFullKeys * kStride], values[kFullKeys * kStride];
  };
  static_assert(sizeof(Shared) == fullShared(S), "vision_spec.cuh: fullShared");
  struct Row {
    float top, total, sum[kPerLane]; ///< elements lane + 32 d
  };

  NI_FN void run(const FullAttentionArgs &a, Shared *sm) {
    const u32 first = blockY() * kFullRows, head = blockX() * S.dim;
    for (u32 i = threadIndex(); i < kFullRows * S.dim; i += kFullThreads) {
      const u32 row = first + i / S.dim;
      const float q = row < a.rows ? bf16ToFloat(load(a.query + static_cast<u64>(row) * kWidth + head + i % S.dim)) : 0.0f;
      sharedStore(&sm->query[i], q * a.scale);
    }
    Row rows[kFullRowsPerWarp];
    NI_UNROLL
    for (u32 r = 0; r < kFullRowsPerWarp; ++r) {
      rows[r].top = kNone;
      rows[r].total = 0.0f;
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; ++d)
        rows[r].sum[d] = 0.0f;
    }
    NI_NO_UNROLL
    for (u32 tile = 0; tile < a.rows; tile += kFullKeys) {
      blockSync(); // nobody reads the tile before any more
      for (u32 i = threadIndex(); i < kFullKeys * (S.dim / 2); i += kFullThreads) {
        const u32 key = i / (S.dim / 2), pair = i % (S.dim / 2) * 2;
        const bool here = tile + key < a.rows;
        const u64 at = static_cast<u64>(here ? tile + key : 0) * kWidth + head + pair;
        const u32 k = load(reinterpret_cast<const u32 *>(a.key + at)), v = load(reinterpret_cast<const u32 *>(a.value + at));
        sharedStore(reinterpret_cast<u32 *>(sm->keys + key * kStride + pair), here ? k : 0u);
        sharedStore(reinterpret_cast<u32 *>(sm->values + key * kStride + pair), here ? v : 0u);
      }
      blockSync();
      NI_UNROLL
      for (u32 r = 0; r < kFullRowsPerWarp; ++r)
        add(sm, sm->query + (warpIndex() * kFullRowsPerWarp + r) * S.dim, tile + laneIndex() < a.rows, rows[r]);
    }
    NI_UNROLL
    for (u32 r = 0; r < kFullRowsPerWarp; ++r) {
      const u32 row = first + warpIndex() * kFullRowsPerWarp + r;
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; ++d)
        if (row < a.rows && element(d) < S.dim)
          store(a.out + static_cast<u64>(row) * kWidth + head + element(d), floatToBf16(divide(rows[r].sum[d], rows[r].total)));
    }
  }

private:
  static constexpr u32 kAtOnce = 4; ///< values in flight: all 32 of them take more registers than there are
  static constexpr float kNone = -1e30f; ///< below every score, and finite, so that differences are numbers

  NI_FN u32 element(u32 d) { return laneIndex() + 32 * d; }
  NI_FN void add(const Shared *sm, const float *query, bool here, Row &row) {
    const u16 *key = sm->keys + laneIndex() * kStride;
    float score = 0.0f;
    NI_UNROLL
    for (u32 d = 0; d < S.dim; d += 2) {
      const u32 pair = sharedLoad(reinterpret_cast<const u32 *>(key + d));
      score = fusedMultiplyAdd(sharedLoad(query + d), bf16Low(pair), score);
      score = fusedMultiplyAdd(sharedLoad(query + d + 1), bf16High(pair), score);
    }
    const float top = maximum(row.top, warpMaximum(here ? score : kNone)), rescale = exp2Approx(row.top - top);
    const float weight = here ? exp2Approx(score - top) : 0.0f;
    row.top = top;
    row.total = fusedMultiplyAdd(row.total, rescale, warpSum(weight));
    NI_UNROLL
    for (u32 d = 0; d < kPerLane; ++d)
      row.sum[d] *= rescale;
    NI_NO_UNROLL
    for (u32 first = 0; first < kFullKeys; first += kAtOnce) {
      NI_UNROLL
      for (u32 j = first; j < first + kAtOnce; ++j) {
        const float w = shuffle(weight, j);
        NI_UNROLL
        for (u32 d = 0; d < kPerLane; ++d)
          if (element(d) < S.dim)
            row.sum[d] = fusedMultiplyAdd(w, bf16ToFloat(sharedLoad(sm->values + j * kStride + element(d))), row.sum[d]);
      }
    }
  }
};

} // namespace ni

#define NI_FULL_ATTENTION(name, ...)                                                                                   \
  namespace ni {                                                                                                       \
  constexpr FullAttentionSpec name##_spec = __VA_ARGS__;                                                               \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kFullThreads, 2)                                                                                 \
  (const ni::u16 *query, const ni::u16 *key, const ni::u16 *value, ni::u16 *out, ni::u32 rows, float scale) {          \
    NI_SHARED(ni::FullAttention<ni::name##_spec>::Shared, shared);                                                     \
    ni::FullAttention<ni::name##_spec>::run({query, key, value, out, rows, scale}, shared);                            \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_FULL_ATTENTION_CUH
