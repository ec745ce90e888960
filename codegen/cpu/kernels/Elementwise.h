// Norms, rotary embedding, KV store, SiLU product and addition.
#ifndef NINFER_CODEGEN_CPU_KERNELS_ELEMENTWISE_H
#define NINFER_CODEGEN_CPU_KERNELS_ELEMENTWISE_H

#include "codegen/cpu/kernels/MicroKernels.h"
#include "codegen/cpu/kernels/Vec.h"

namespace ninfer::micro {

NI_INLINE F loadBf16Some(const uint16_t *p, int64_t n) { return n >= kLanes ? loadBf16(p) : loadBf16Part(p, n); }

/// 1 / sqrt(mean(x^2) + eps)
NI_INLINE float inverseRms(const float *x, float eps, int64_t k) {
  F squares[2] = {zeroF(), zeroF()};
  int64_t i = 0;
  for (; i + 2 * kLanes <= k; i += 2 * kLanes) {
    const F a = loadF(x + i), b = loadF(x + i + kLanes);
    squares[0] = fma(a, a, squares[0]), squares[1] = fma(b, b, squares[1]);
  }
  for (; i < k; i += kLanes) {
    const F a = loadSome(x + i, k - i);
    squares[0] = fma(a, a, squares[0]);
  }
  const float mean = sum(add(squares[0], squares[1])) / float(k);
  return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps)));
}

NI_INLINE void rmsNorm(const float *x, const uint16_t *w, float unitOffset, float eps, int64_t k, float *y) {
  const F norm = setF(inverseRms(x, eps, k)), offset = setF(unitOffset);
  for (int64_t i = 0; i < k; i += kLanes) {
    const F weight = add(loadBf16Some(w + i, k - i), offset);
    storeSome(y + i, k - i, mul(mul(loadSome(x + i, k - i), norm), weight));
  }
}

NI_INLINE void rope(const float *x, const float *table, int64_t heads, int64_t dim, int64_t pairs, float *y) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < pairs; i += kLanes) {
      const float *a = x + h * dim + i, *t = table + 2 * i;
      float *out = y + h * dim + i;
      const int64_t left = pairs - i;
      F cosines, sines;
      const F first = loadSome(t, 2 * left), second = left * 2 > kLanes ? loadSome(t + kLanes, 2 * left - kLanes) : zeroF();
      deinterleave(first, second, cosines, sines);
      const F low = loadSome(a, left), high = loadSome(a + pairs, left);
      storeSome(out, left, fnma(high, sines, mul(low, cosines)));
      storeSome(out + pairs, left, fma(low, sines, mul(high, cosines)));
    }
    for (int64_t i = 2 * pairs; i < dim; i += kLanes)
      storeSome(y + h * dim + i, dim - i, loadSome(x + h * dim + i, dim - i));
  }
}

NI_INLINE void storeCacheRow(const float *x, int64_t dim, uint16_t *to) {
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes)
    storeBf16(to + i, loadF(x + i));
  for (; i < dim; ++i)
    to[i] = floatToBf16(x[i]);
}
NI_INLINE void storeCacheRow(const float *x, int64_t dim, float *to) {
  for (int64_t i = 0; i < dim; i += kLanes)
    storeSome(to + i, dim - i, loadSome(x + i, dim - i));
}

/// One head of an int8 cache; the formula is that of ni_kv_store_int8.
NI_INLINE void storeInt8Row(const float *x, int64_t dim, int8_t *codes, uint16_t *scales) {
  for (int64_t g = 0; g < dim; g += kMicroKvGroup) {
    const int64_t size = minOf(kMicroKvGroup, dim - g);
    F top = zeroF();
    for (int64_t i = 0; i < size; i += kLanes) {
      const F value = loadSome(x + g + i, size - i);
      top = max(top, max(value, sub(zeroF(), value)));
    }
    const float step = maxLane(top) / 127.0f;
    const uint16_t word = floatToF16(step < 65504.0f ? step : 65504.0f);
    const F inverse = setF(word ? 1.0f / f16ToFloat(word) : 0.0f);
    for (int64_t i = 0; i < size; i += kLanes) {
      const F scaled = mul(loadSome(x + g + i, size - i), inverse);
      store32As8(codes + g + i, size - i, roundI(min(max(scaled, setF(-127.0f)), setF(127.0f))));
    }
    scales[g / kMicroKvGroup] = word;
  }
}

NI_INLINE void kvStoreInt8(const float *x, int64_t kvHeads, int64_t dim, int64_t capacity, int64_t position,
                           int8_t *codes, uint16_t *scales) {
  const int64_t groups = microRoundUp(dim, kMicroKvGroup) / kMicroKvGroup;
  for (int64_t h = 0; h < kvHeads; ++h) {
    const int64_t row = h * capacity + position;
    storeInt8Row(x + h * dim, dim, codes + row * dim, scales + row * groups);
  }
}

template <class Word>
NI_INLINE void kvStore(const float *x, int64_t kvHeads, int64_t dim, int64_t capacity, int64_t position, void *cache) {
  for (int64_t h = 0; h < kvHeads; ++h)
    storeCacheRow(x + h * dim, dim, static_cast<Word *>(cache) + (h * capacity + position) * dim);
}

NI_INLINE void siluMul(const float *gate, const float *up, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const F g = loadSome(gate + i, n - i), u = loadSome(up + i, n - i);
    storeSome(out + i, n - i, mul(div(g, add(setF(1.0f), exp(sub(zeroF(), g)))), u));
  }
}

NI_INLINE void addRows(const float *a, const float *b, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i += kLanes)
    storeSome(out + i, n - i, add(loadSome(a + i, n - i), loadSome(b + i, n - i)));
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_ELEMENTWISE_H
