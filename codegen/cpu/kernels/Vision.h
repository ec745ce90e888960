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

/// The rows of one head inside rows of several heads.
struct StridedRows {
  const float *words;
  int64_t stride;
  using Row = const float *;
  __attribute__((always_inline)) Row at(int64_t p, int64_t) const { return words + p * stride; }
  NI_INLINE F read(Row row, int64_t d, int64_t n) { return loadSome(row + d, n); }
};

template <int Q>
NI_INLINE int64_t attendAll(int64_t first, int64_t rows, const float *q, const StridedRows &k, const StridedRows &v,
                            int64_t length, int64_t dim, float scale, float *out, float *scores) {
#pragma clang loop unroll(disable)
  for (; first + Q <= rows; first += Q) {
    const float *qs[Q];
    float *outs[Q];
    int64_t lengths[Q];
#pragma unroll
    for (int i = 0; i < Q; ++i) {
      qs[i] = q + (first + i) * k.stride;
      outs[i] = out + (first + i) * k.stride;
      lengths[i] = length;
    }
    attendQueries<StridedRows, Q>(qs, lengths, k, v, dim, scale, outs, scores);
  }
  return first;
}

NI_INLINE void fullAttention(const float *q, const float *k, const float *v, int64_t stride, int64_t rows, int64_t length,
                             int64_t dim, float scale, float *out, void *scratch) {
  float *scores = static_cast<float *>(scratch);
  const StridedRows keys{k, stride}, values{v, stride};
  int64_t i = attendAll<4>(0, rows, q, keys, values, length, dim, scale, out, scores);
  i = attendAll<2>(i, rows, q, keys, values, length, dim, scale, out, scores);
  attendAll<1>(i, rows, q, keys, values, length, dim, scale, out, scores);
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_VISION_H
