// A vision tower: layer norm, biases, gelu, rotation by two positions, sums of table rows, attention among rows.
#ifndef NINFER_CODEGEN_CPU_KERNELS_VISION_H
#define NINFER_CODEGEN_CPU_KERNELS_VISION_H

#include "codegen/cpu/kernels/Attention.h"
#include "codegen/cpu/kernels/Elementwise.h"

namespace ninfer::micro {

NI_INLINE void layerNorm(const float *x, const uint16_t *w, const uint16_t *b, float eps, int64_t k, float *y) {
  F total = zeroF(), squares = zeroF();
  for (int64_t i = 0; i < k; i += kLanes)
    total = add(total, loadSome(x + i, k - i));
  const F mean = setF(sum(total) / float(k));
  for (int64_t i = 0; i < k; i += kLanes) {
    const F d = selectBelow(k - i, sub(loadSome(x + i, k - i), mean), zeroF());
    squares = fma(d, d, squares);
  }
  const F scale = setF(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(sum(squares) / float(k) + eps))));
  for (int64_t i = 0; i < k; i += kLanes) {
    const int64_t left = k - i;
    const F centred = mul(sub(loadSome(x + i, left), mean), scale);
    storeSome(y + i, left, fma(centred, loadBf16Some(w + i, left), loadBf16Some(b + i, left)));
  }
}

NI_INLINE void addBias(const float *x, const uint16_t *b, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i += kLanes)
    storeSome(out + i, n - i, add(loadSome(x + i, n - i), loadBf16Some(b + i, n - i)));
}

/// x / 2 * (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2 / pi) * (x + 0.044715 x^3).
NI_INLINE F geluTanh(F x) {
  const F minusTwoU = mul(mul(x, setF(-1.5957691216f)), fma(mul(x, x), setF(0.044715f), setF(1.0f)));
  return div(x, add(setF(1.0f), exp(minusTwoU)));
}

/// x / 2 * (1 + erf(x / sqrt(2))) by q = erfc(z) / 2, z = |x| / sqrt(2): x q below 0, x - x q above. erfc(z) exp(z^2) is a
/// polynomial in 1 / (1 + 0.475 z), fitted by least squares on the relative error (1e-8 for z up to 11).
NI_INLINE F geluErf(F x) {
  const F z = mul(max(x, sub(zeroF(), x)), setF(0.70710678f));
  const F t = div(setF(1.0f), fma(z, setF(0.475f), setF(1.0f)));
  F p = setF(-0.055539797991514206f);
  p = fma(p, t, setF(0.30397549271583557f));
  p = fma(p, t, setF(-0.6234602928161621f));
  p = fma(p, t, setF(0.5199041962623596f));
  p = fma(p, t, setF(-0.16989447176456451f));
  p = fma(p, t, setF(0.2692554295063019f));
  p = fma(p, t, setF(0.2170894891023636f));
  p = fma(p, t, setF(0.27090567350387573f));
  p = fma(p, t, setF(0.26775622367858887f));
  p = fma(p, t, setF(8.108178008114919e-06f));
  const F q = mul(mul(p, setF(0.5f)), exp(sub(zeroF(), mul(z, z))));
  return fma(sub(zeroF(), max(x, sub(zeroF(), x))), q, max(x, zeroF())); // max(x, 0) - |x| q
}

template <bool kTanh> NI_INLINE void gelu(const float *x, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const F value = loadSome(x + i, n - i);
    storeSome(out + i, n - i, kTanh ? geluTanh(value) : geluErf(value));
  }
}

NI_INLINE int64_t inTable(int32_t at, int64_t rows) { return at < 0 ? 0 : minOf(at, rows - 1); }

/// Pairs (i, i + 2 pairs), i < pairs, of one head by one row of the table.
NI_INLINE void axialPairs(const float *x, const float *table, int64_t pairs, float *y) {
  for (int64_t i = 0; i < pairs; i += kLanes) {
    const int64_t left = pairs - i;
    const float *t = table + 2 * i;
    F cosines, sines;
    const F first = loadSome(t, 2 * left), second = left * 2 > kLanes ? loadSome(t + kLanes, 2 * left - kLanes) : zeroF();
    deinterleave(first, second, cosines, sines);
    const F low = loadSome(x + i, left), high = loadSome(x + i + 2 * pairs, left);
    storeSome(y + i, left, fnma(high, sines, mul(low, cosines)));
    storeSome(y + i + 2 * pairs, left, fma(low, sines, mul(high, cosines)));
  }
}

NI_INLINE void axialRope(const float *x, const float *table, int64_t capacity, const int32_t *positions, int64_t heads,
                         int64_t pairs, float *y) {
  for (int64_t axis = 0; axis < 2; ++axis) {
    const float *row = table + inTable(positions[axis], capacity) * 2 * pairs;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = h * 4 * pairs + axis * pairs;
      axialPairs(x + at, row, pairs, y + at);
    }
  }
}

NI_INLINE void gatherBf16(const uint16_t *table, int64_t rows, const int32_t *indices, const float *weights, int64_t taps,
                          int64_t k, float *out) {
  for (int64_t i = 0; i < k; i += kLanes) {
    F total = zeroF();
    for (int64_t t = 0; t < taps; ++t) {
      const uint16_t *row = table + inTable(indices[t], rows) * k;
      total = fma(setF(weights[t]), loadBf16Some(row + i, k - i), total);
    }
    storeSome(out + i, k - i, total);
  }
}

// Attention of all rows to all rows, one head. A block of keys is transposed and a block of values packed once for up to
// kFullQueries queries; a group of queries takes its scores with one key per lane, so nothing is summed across lanes. What
// a query has so far (its largest score, the sum of its weights, the weighted sum of values) waits in memory.

inline constexpr int kFullQueries = kMicroFullQueries, kFullKeys = kMicroFullKeys;
inline constexpr int kFullGroup = kLanes == 16 ? 4 : 3; ///< queries at a time: as many as the register file takes
inline constexpr int kFullRegs = 4;                     ///< registers of scores per query
inline constexpr int kValueRegs = kLanes == 16 ? 5 : 4; ///< registers of the head at a time

struct FullBlock {
  float *keys;   ///< [dim][kFullKeys], zero from `count` on
  float *values; ///< [count][padded]
  float *scores; ///< [kFullGroup][kFullKeys]
  int64_t padded, count, dim;
};

NI_INLINE void packBlock(const float *k, const float *v, int64_t stride, const FullBlock &b) {
#pragma clang loop unroll(disable)
  for (int64_t p = 0; p < kFullKeys; ++p)
#pragma clang loop unroll(disable) vectorize(disable)
    for (int64_t d = 0; d < b.dim; ++d)
      b.keys[d * kFullKeys + p] = p < b.count ? k[p * stride + d] : 0.0f;
#pragma clang loop unroll(disable)
  for (int64_t p = 0; p < b.count; ++p)
    for (int64_t d = 0; d < b.padded; d += kLanes)
      storeF(b.values + p * b.padded + d, loadSome(v + p * stride + d, b.dim > d ? b.dim - d : 0));
}

template <int Q>
NI_INLINE void fullScores(const float *q, int64_t stride, const FullBlock &b, float scale) {
#pragma clang loop unroll(disable)
  for (int64_t p = 0; p < kFullKeys; p += kFullRegs * kLanes) {
    F acc[Q][kFullRegs];
#pragma unroll
    for (int i = 0; i < Q; ++i)
#pragma unroll
      for (int r = 0; r < kFullRegs; ++r)
        acc[i][r] = zeroF();
#pragma clang loop unroll(disable)
    for (int64_t d = 0; d < b.dim; ++d) {
      F x[Q];
#pragma unroll
      for (int i = 0; i < Q; ++i)
        x[i] = setF(q[i * stride + d]);
#pragma unroll
      for (int r = 0; r < kFullRegs; ++r) {
        const F y = loadF(b.keys + d * kFullKeys + p + r * kLanes);
#pragma unroll
        for (int i = 0; i < Q; ++i)
          acc[i][r] = fma(x[i], y, acc[i][r]);
      }
    }
#pragma unroll
    for (int i = 0; i < Q; ++i)
#pragma unroll
      for (int r = 0; r < kFullRegs; ++r) {
        const int64_t at = p + r * kLanes;
        storeF(b.scores + i * kFullKeys + at, selectBelow(b.count - at, mul(acc[i][r], setF(scale)), setF(kMasked)));
      }
  }
}

template <int Q>
NI_INLINE void fullGroup(const float *q, int64_t stride, const FullBlock &b, float scale, float *top, float *total,
                         float *out) {
  fullScores<Q>(q, stride, b, scale);
  float factor[Q];
#pragma unroll
  for (int i = 0; i < Q; ++i)
    factor[i] = softmaxBlock(b.scores + i * kFullKeys, kFullKeys, top[i], total[i]);
#pragma clang loop unroll(disable)
  for (int64_t d0 = 0; d0 < b.padded; d0 += kValueRegs * kLanes) {
    F acc[Q][kValueRegs];
#pragma unroll
    for (int i = 0; i < Q; ++i)
#pragma unroll
      for (int j = 0; j < kValueRegs; ++j)
        if (const int64_t d = d0 + j * kLanes; d < b.dim)
          acc[i][j] = mul(loadSome(out + i * stride + d, b.dim - d), setF(factor[i]));
        else
          acc[i][j] = zeroF();
#pragma clang loop unroll(disable)
    for (int64_t p = 0; p < b.count; ++p) {
      F weight[Q];
#pragma unroll
      for (int i = 0; i < Q; ++i)
        weight[i] = setF(b.scores[i * kFullKeys + p]);
#pragma unroll
      for (int j = 0; j < kValueRegs; ++j) {
        const F y = loadF(b.values + p * b.padded + d0 + j * kLanes);
#pragma unroll
        for (int i = 0; i < Q; ++i)
          acc[i][j] = fma(weight[i], y, acc[i][j]);
      }
    }
#pragma unroll
    for (int i = 0; i < Q; ++i)
#pragma unroll
      for (int j = 0; j < kValueRegs; ++j)
        if (const int64_t d = d0 + j * kLanes; d < b.dim)
          storeSome(out + i * stride + d, b.dim - d, acc[i][j]);
  }
}

NI_INLINE void fullAttention(const float *q, const float *k, const float *v, int64_t stride, int64_t rows, int64_t length,
                             int64_t dim, float scale, float *out, void *scratch) {
  static_assert(kFullKeys % (kFullRegs * kLanes) == 0 && kMicroFullPad % (kValueRegs * kLanes) == 0);
  static_assert(kFullGroup <= kMicroFullGroup);
  FullBlock b;
  b.dim = dim;
  b.padded = microRoundUp(dim, kValueRegs * kLanes);
  b.keys = static_cast<float *>(scratch);
  b.values = b.keys + dim * kFullKeys;
  b.scores = b.values + b.padded * kFullKeys;
  float *top = b.scores + kMicroFullGroup * kFullKeys, *total = top + kFullQueries;
#pragma clang loop unroll(disable)
  for (int64_t first = 0; first < rows; first += kFullQueries) {
    const int64_t queries = minOf(kFullQueries, rows - first);
    const float *qs = q + first * stride;
    float *outs = out + first * stride;
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < queries; ++i) {
      top[i] = kMasked, total[i] = 0.0f;
      for (int64_t d = 0; d < dim; d += kLanes)
        storeSome(outs + i * stride + d, dim - d, zeroF());
    }
#pragma clang loop unroll(disable)
    for (int64_t p = 0; p < length; p += kFullKeys) {
      b.count = minOf(kFullKeys, length - p);
      packBlock(k + p * stride, v + p * stride, stride, b);
      int64_t i = 0;
#pragma clang loop unroll(disable)
      for (; i + kFullGroup <= queries; i += kFullGroup)
        fullGroup<kFullGroup>(qs + i * stride, stride, b, scale, top + i, total + i, outs + i * stride);
#pragma clang loop unroll(disable)
      for (; i < queries; ++i)
        fullGroup<1>(qs + i * stride, stride, b, scale, top + i, total + i, outs + i * stride);
    }
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < queries; ++i) {
      const F norm = setF(1.0f / total[i]);
      for (int64_t d = 0; d < dim; d += kLanes)
        storeSome(outs + i * stride + d, dim - d, mul(loadSome(outs + i * stride + d, dim - d), norm));
    }
  }
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_VISION_H
