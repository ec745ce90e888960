// Softmax attention of many rows over a KV cache of one kv head (a prefill).
//
// A block of positions is decoded once for up to kMicroManyQueries queries: keys transposed, so that scores have positions
// in lanes and nothing is summed across lanes, values row by row. Tiles of queries then take the block in turn, those that
// end before it not at all; what a query has so far (largest score, sum of weights, weighted sum of values) waits in memory.
#ifndef NINFER_CODEGEN_CPU_KERNELS_MANYATTENTION_H
#define NINFER_CODEGEN_CPU_KERNELS_MANYATTENTION_H

#include "codegen/cpu/kernels/MicroKernels.h"
#include "codegen/cpu/kernels/Vec.h"

namespace ninfer::micro {

inline constexpr int64_t kManyKeys = kMicroManyKeys;
inline constexpr int kManyTile = kLanes == 16 ? 12 : 6; ///< queries of a tile: with two registers each they fill the file
inline constexpr float kManyMasked = -__builtin_inff();

// Rows of the keys or values of one kv head: kLanes channels of position p from d on, zero from `dim` on.
struct Bf16Rows {
  const uint16_t *words;
  __attribute__((always_inline)) F read(int64_t p, int64_t d, int64_t dim) const {
    const uint16_t *at = words + p * dim + d;
    return dim - d >= kLanes ? loadBf16(at) : loadBf16Part(at, dim - d);
  }
};
struct F32Rows {
  const float *words;
  __attribute__((always_inline)) F read(int64_t p, int64_t d, int64_t dim) const { return loadSome(words + p * dim + d, dim - d); }
};
struct Int8Rows {
  const int8_t *codes;
  const uint16_t *scales;
  __attribute__((always_inline)) F read(int64_t p, int64_t d, int64_t dim) const {
    const int64_t groups = microRoundUp(dim, kMicroKvGroup) / kMicroKvGroup;
    return mul(toFloat(loadS8As32(codes + p * dim + d, dim - d)),
               setF(f16ToFloat(scales[p * groups + d / kMicroKvGroup])));
  }
};

struct ManyBlock {
  float *keys;    ///< [padded][kManyKeys]; positions from `count` on repeat the last
  float *values;  ///< [kManyKeys][padded], zero from dim on
  float *queries; ///< of a tile: [kManyTile][padded], scaled
  float *scores;  ///< of a tile: [kManyTile][kManyKeys]
  int64_t dim, padded, count;
};

template <class C> NI_INLINE void decodeBlock(const C &k, const C &v, int64_t p0, const ManyBlock &b) {
#pragma clang loop unroll(disable)
  for (int64_t p = 0; p < microRoundUp(b.count, kLanes); p += kLanes)
#pragma clang loop unroll(disable)
    for (int64_t d = 0; d < b.dim; d += kLanes) {
      I m[kLanes];
#pragma unroll
      for (int i = 0; i < kLanes; ++i)
        m[i] = castI(k.read(p0 + minOf(p + i, b.count - 1), d, b.dim));
      transpose(m);
#pragma unroll
      for (int i = 0; i < kLanes; ++i)
        storeF(b.keys + (d + i) * kManyKeys + p, castF(m[i]));
    }
#pragma clang loop unroll(disable)
  for (int64_t p = 0; p < b.count; ++p)
#pragma clang loop unroll(disable)
    for (int64_t d = 0; d < b.padded; d += kLanes)
      storeF(b.values + p * b.padded + d, d < b.dim ? v.read(p0 + p, d, b.dim) : zeroF());
}

/// Scores of Q queries with positions [p, p + R * kLanes) of the block.
template <int Q, int R> NI_INLINE void manyScores(const ManyBlock &b, int64_t p) {
  F acc[Q][R];
#pragma unroll
  for (int i = 0; i < Q; ++i)
#pragma unroll
    for (int j = 0; j < R; ++j)
      acc[i][j] = zeroF();
  const float *key = b.keys + p;
#pragma clang loop unroll_count(2)
  for (int64_t d = 0; d < b.dim; ++d, key += kManyKeys) {
    F y[R];
#pragma unroll
    for (int j = 0; j < R; ++j)
      y[j] = loadF(key + j * kLanes);
#pragma unroll
    for (int i = 0; i < Q; ++i) {
      const F x = setF(b.queries[i * b.padded + d]);
#pragma unroll
      for (int j = 0; j < R; ++j)
        acc[i][j] = fma(x, y[j], acc[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < Q; ++i)
#pragma unroll
    for (int j = 0; j < R; ++j)
      storeF(b.scores + i * kManyKeys + p + j * kLanes, acc[i][j]);
}

/// Scores of one query, which attends the first `length` (1 at least) of `count` positions, to weights relative to the
/// largest score so far; the factor that what was summed before must shrink by.
NI_INLINE float manyWeights(float *scores, int64_t length, int64_t count, float &top, float &total) {
  if (length < microRoundUp(count, kLanes)) {
#pragma clang loop unroll(disable)
    for (int64_t p = 0; p < count; p += kLanes)
      storeF(scores + p, selectBelow(length - p, loadF(scores + p), setF(kManyMasked)));
  }
  return softmaxBlock(scores, count, top, total);
}

/// Where the queries of a call are: query i is head i % heads of row i / heads.
struct ManyRows {
  const float *q;
  float *out;
  int64_t qStride, outStride, heads, length; ///< length: positions that row 0 attends
  float scale;
  float *top, *total; ///< of each query
};

/// Queries i .. i + Q - 1 take the block that begins at p0.
template <int Q> NI_INLINE void manyTile(const ManyRows &r, const ManyBlock &b, int64_t i, int64_t p0) {
  const int64_t firstRow = i / r.heads, lastRow = (i + Q - 1) / r.heads;
  const int64_t count = minOf(b.count, r.length + lastRow - p0);
  if (count <= 0)
    return;
  float *outs[Q];
  int64_t lengths[Q];
  int64_t row = firstRow, head = i % r.heads;
#pragma unroll
  for (int j = 0; j < Q; ++j) {
    const float *from = r.q + row * r.qStride + head * b.dim;
    outs[j] = r.out + row * r.outStride + head * b.dim;
    lengths[j] = r.length + row - p0;
#pragma clang loop unroll(disable)
    for (int64_t d = 0; d < b.dim; d += kLanes)
      storeF(b.queries + j * b.padded + d, mul(loadSome(from + d, b.dim - d), setF(r.scale)));
    if (++head == r.heads)
      head = 0, ++row;
  }
  int64_t p = 0;
#pragma clang loop unroll(disable)
  for (; p + kLanes < count; p += 2 * kLanes)
    manyScores<Q, 2>(b, p);
  if (p < count)
    manyScores<Q, 1>(b, p);
  float factor[Q];
#pragma unroll
  for (int j = 0; j < Q; ++j) {
    factor[j] = 1.0f;
    if (lengths[j] > 0)
      factor[j] = manyWeights(b.scores + j * kManyKeys, lengths[j], count, r.top[i + j], r.total[i + j]);
    else // all of the block is after this query
      for (int64_t p = 0; p < count; p += kLanes)
        storeF(b.scores + j * kManyKeys + p, zeroF());
  }
#pragma clang loop unroll(disable)
  for (int64_t d = 0; d < b.dim; d += 2 * kLanes) {
    const int64_t left = b.dim - d;
    F acc[Q][2];
#pragma unroll
    for (int j = 0; j < Q; ++j) {
      acc[j][0] = mul(loadSome(outs[j] + d, left), setF(factor[j]));
      acc[j][1] = left > kLanes ? mul(loadSome(outs[j] + d + kLanes, left - kLanes), setF(factor[j])) : zeroF();
    }
    const float *value = b.values + d;
#pragma clang loop unroll_count(2)
    for (int64_t p = 0; p < count; ++p, value += b.padded) {
      const F y0 = loadF(value), y1 = loadF(value + kLanes);
#pragma unroll
      for (int j = 0; j < Q; ++j) {
        const F x = setF(b.scores[j * kManyKeys + p]);
        acc[j][0] = fma(x, y0, acc[j][0]), acc[j][1] = fma(x, y1, acc[j][1]);
      }
    }
#pragma unroll
    for (int j = 0; j < Q; ++j) {
      storeSome(outs[j] + d, left, acc[j][0]);
      if (left > kLanes)
        storeSome(outs[j] + d + kLanes, left - kLanes, acc[j][1]);
    }
  }
}

/// `queries` queries that share a decoded block.
template <class C>
NI_INLINE void manyQueries(const ManyRows &r, int64_t queries, const C &k, const C &v, ManyBlock &b) {
  const auto each = [&](const auto &body) __attribute__((always_inline)) { // element d of query i, channels that are left
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < queries; ++i) {
      float *out = r.out + i / r.heads * r.outStride + i % r.heads * b.dim;
      for (int64_t d = 0; d < b.dim; d += kLanes)
        body(i, out + d, b.dim - d);
    }
  };
  each([&](int64_t i, float *out, int64_t left) __attribute__((always_inline)) {
    r.top[i] = kManyMasked, r.total[i] = 0.0f;
    storeSome(out, left, zeroF());
  });
  const int64_t longest = r.length + (queries - 1) / r.heads;
#pragma clang loop unroll(disable)
  for (int64_t p0 = 0; p0 < longest; p0 += kManyKeys) {
    b.count = minOf(kManyKeys, longest - p0);
    decodeBlock(k, v, p0, b);
    int64_t i = 0;
#pragma clang loop unroll(disable)
    for (; i + kManyTile <= queries; i += kManyTile)
      manyTile<kManyTile>(r, b, i, p0);
#pragma clang loop unroll(disable)
    for (; i + 3 <= queries; i += 3)
      manyTile<3>(r, b, i, p0);
#pragma clang loop unroll(disable)
    for (; i < queries; ++i)
      manyTile<1>(r, b, i, p0);
  }
  each([&](int64_t i, float *out, int64_t left) __attribute__((always_inline)) {
    storeSome(out, left, mul(loadSome(out, left), setF(1.0f / r.total[i])));
  });
}

template <class C>
NI_INLINE void manyAttention(const float *q, int64_t qStride, int64_t rows, int64_t heads, const C &k, const C &v,
                             int64_t length, int64_t dim, float scale, float *out, int64_t outStride, void *scratch) {
  static_assert(kMicroManyPad % (2 * kLanes) == 0 && kManyKeys % (2 * kLanes) == 0 && kManyTile <= kMicroManyTile);
  ManyBlock b;
  b.dim = dim, b.padded = microRoundUp(dim, kMicroManyPad);
  b.keys = static_cast<float *>(scratch);
  b.values = b.keys + kManyKeys * b.padded;
  b.queries = b.values + kManyKeys * b.padded;
  b.scores = b.queries + kMicroManyTile * b.padded;
  float *top = b.scores + kMicroManyTile * kManyKeys, *total = top + kMicroManyQueries;
  const int64_t together = kMicroManyQueries / heads;
#pragma clang loop unroll(disable)
  for (int64_t row = 0; row < rows; row += together)
    manyQueries(ManyRows{q + row * qStride, out + row * outStride, qStride, outStride, heads, length + row, scale, top, total},
                minOf(together, rows - row) * heads, k, v, b);
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_MANYATTENTION_H
