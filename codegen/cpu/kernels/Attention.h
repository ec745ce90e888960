// Softmax attention over a KV cache of one kv head, in blocks of positions with a running maximum.
//
// Queries are taken four at a time: the keys and values of a block are read once for the four. Scores of a block live
// in scratch; the output rows are the accumulators.
#ifndef NINFER_CODEGEN_CPU_KERNELS_ATTENTION_H
#define NINFER_CODEGEN_CPU_KERNELS_ATTENTION_H

#include "codegen/cpu/kernels/MicroKernels.h"
#include "codegen/cpu/kernels/Vec.h"

namespace ninfer::micro {

// The keys or values of one kv head: at(p) is the row of position p, read() its channels from d on (n are left).
struct Bf16Cache {
  const uint16_t *words;
  using Row = const uint16_t *;
  __attribute__((always_inline)) Row at(int64_t p, int64_t dim) const { return words + p * dim; }
  NI_INLINE F read(Row row, int64_t d, int64_t n) { return n >= kLanes ? loadBf16(row + d) : loadBf16Part(row + d, n); }
};
struct F32Cache {
  const float *words;
  using Row = const float *;
  __attribute__((always_inline)) Row at(int64_t p, int64_t dim) const { return words + p * dim; }
  NI_INLINE F read(Row row, int64_t d, int64_t n) { return loadSome(row + d, n); }
};
struct Int8Cache {
  const int8_t *codes;
  const uint16_t *scales;
  struct Row {
    const int8_t *codes;
    const uint16_t *scales;
  };
  __attribute__((always_inline)) Row at(int64_t p, int64_t dim) const {
    return {codes + p * dim, scales + p * (microRoundUp(dim, kMicroKvGroup) / kMicroKvGroup)};
  }
  NI_INLINE F read(const Row &row, int64_t d, int64_t n) {
    return mul(toFloat(loadS8As32(row.codes + d, n)), setF(f16ToFloat(row.scales[d / kMicroKvGroup])));
  }
};

inline constexpr int64_t kPositions = 128; ///< positions per block
inline constexpr float kMasked = -__builtin_inff();

/// Q queries; query i attends positions [0, lengths[i]).
template <class C, int Q>
NI_INLINE void attendQueries(const float *const (&q)[Q], const int64_t (&lengths)[Q], const C &k,
                             const C &v, int64_t dim, float scale, float *const (&out)[Q], float *scores) {
  int64_t longest = 0;
  float top[Q], total[Q];
#pragma unroll
  for (int i = 0; i < Q; ++i) {
    longest = longest > lengths[i] ? longest : lengths[i];
    top[i] = kMasked, total[i] = 0.0f;
    for (int64_t d = 0; d < dim; d += kLanes)
      storeSome(out[i] + d, dim - d, zeroF());
  }
#pragma clang loop unroll(disable)
  for (int64_t p0 = 0; p0 < longest; p0 += kPositions) {
    const int64_t count = minOf(kPositions, longest - p0);
    // scores[i][p] = q_i . k_p
#pragma clang loop unroll(disable)
    for (int64_t p = 0; p < count; p += 4) {
      typename C::Row key[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        key[j] = k.at(p0 + minOf(p + j, count - 1), dim);
      F acc[Q][4];
#pragma unroll
      for (int i = 0; i < Q; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          acc[i][j] = zeroF();
      for (int64_t d = 0; d < dim; d += kLanes) {
        F x[Q];
#pragma unroll
        for (int i = 0; i < Q; ++i)
          x[i] = loadSome(q[i] + d, dim - d);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const F y = C::read(key[j], d, dim - d);
#pragma unroll
          for (int i = 0; i < Q; ++i)
            acc[i][j] = fma(x[i], y, acc[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < Q; ++i)
        _mm_storeu_ps(scores + i * kPositions + p, sum4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]));
    }
    // scores -> weights relative to the running maximum; factor rescales what was summed before
    float factor[Q];
#pragma unroll
    for (int i = 0; i < Q; ++i) {
      float *s = scores + i * kPositions;
      F blockTop = setF(top[i]);
#pragma clang loop unroll(disable)
      for (int64_t p = 0; p < count; p += kLanes) {
        const F value = selectBelow(minOf(lengths[i] - p0, count) - p, mul(loadF(s + p), setF(scale)), setF(kMasked));
        storeF(s + p, value);
        blockTop = max(blockTop, value);
      }
      const float newTop = maxLane(blockTop);
      F blockTotal = zeroF();
#pragma clang loop unroll(disable)
      for (int64_t p = 0; p < count; p += kLanes) {
        const F weight = exp(sub(loadF(s + p), setF(newTop)));
        storeF(s + p, weight);
        blockTotal = add(blockTotal, weight);
      }
      factor[i] = firstLane(exp(setF(top[i] - newTop)));
      total[i] = total[i] * factor[i] + sum(blockTotal);
      top[i] = newTop;
    }
    // out_i = out_i * factor + sum of weight * value
    constexpr int D = kLanes == 16 ? 4 : 2; // registers of the head at a time
#pragma clang loop unroll(disable)
    for (int64_t d0 = 0; d0 < dim; d0 += D * kLanes) {
      F acc[Q][D];
#pragma unroll
      for (int i = 0; i < Q; ++i)
#pragma unroll
        for (int j = 0; j < D; ++j)
          if (const int64_t d = d0 + j * kLanes; d < dim)
            acc[i][j] = mul(loadSome(out[i] + d, dim - d), setF(factor[i]));
          else
            acc[i][j] = zeroF();
#pragma clang loop unroll(disable)
      for (int64_t p = 0; p < count; ++p) {
        const typename C::Row value = v.at(p0 + p, dim);
        F y[D];
#pragma unroll
        for (int j = 0; j < D; ++j)
          if (const int64_t d = d0 + j * kLanes; d < dim)
            y[j] = C::read(value, d, dim - d);
          else
            y[j] = zeroF();
#pragma unroll
        for (int i = 0; i < Q; ++i) {
          const F weight = setF(scores[i * kPositions + p]);
#pragma unroll
          for (int j = 0; j < D; ++j)
            acc[i][j] = fma(weight, y[j], acc[i][j]);
        }
      }
#pragma unroll
      for (int i = 0; i < Q; ++i)
#pragma unroll
        for (int j = 0; j < D; ++j)
          if (const int64_t d = d0 + j * kLanes; d < dim)
            storeSome(out[i] + d, dim - d, acc[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < Q; ++i) {
    const F norm = setF(1.0f / total[i]);
    for (int64_t d = 0; d < dim; d += kLanes)
      storeSome(out[i] + d, dim - d, mul(loadSome(out[i] + d, dim - d), norm));
  }
}

template <class C, int Q>
NI_INLINE int64_t attendFrom(int64_t first, int64_t queries, int64_t heads, const float *q, int64_t qStride,
                             const C &k, const C &v, int64_t length, int64_t dim, float scale, float *out,
                             int64_t outStride, float *scores) {
#pragma clang loop unroll(disable)
  for (; first + Q <= queries; first += Q) {
    const float *qs[Q];
    float *outs[Q];
    int64_t lengths[Q];
#pragma unroll
    for (int i = 0; i < Q; ++i) {
      const int64_t row = (first + i) / heads, head = (first + i) % heads;
      qs[i] = q + row * qStride + head * dim;
      outs[i] = out + row * outStride + head * dim;
      lengths[i] = length + row;
    }
    attendQueries<C, Q>(qs, lengths, k, v, dim, scale, outs, scores);
  }
  return first;
}

template <class C>
NI_INLINE void attention(const float *q, int64_t qStride, int64_t rows, int64_t heads, const C &k, const C &v,
                         int64_t length, int64_t dim, float scale, float *out, int64_t outStride,
                         void *scratch) {
  static_assert(4 * kPositions * 4 <= microAttentionScratchBytes());
  float *scores = static_cast<float *>(scratch);
  const int64_t queries = rows * heads;
  int64_t i = 0;
  i = attendFrom<C, 4>(i, queries, heads, q, qStride, k, v, length, dim, scale, out, outStride, scores);
  i = attendFrom<C, 2>(i, queries, heads, q, qStride, k, v, length, dim, scale, out, outStride, scores);
  attendFrom<C, 1>(i, queries, heads, q, qStride, k, v, length, dim, scale, out, outStride, scores);
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_ATTENTION_H
