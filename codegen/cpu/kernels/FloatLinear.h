// Linear layers with float activations and exactly decoded weights (profile f32), and embedding rows.
//
// One activation row: four far weight rows are decoded and multiplied in registers. More: panels of weight rows are
// decoded into scratch in the order of the packed activations and multiplied in tiles of dot products.
#ifndef NINFER_CODEGEN_CPU_KERNELS_FLOATLINEAR_H
#define NINFER_CODEGEN_CPU_KERNELS_FLOATLINEAR_H

#include "codegen/cpu/kernels/FloatFormats.h"

namespace ninfer::micro {

/// R weight rows times one packed activation row.
template <class W, int R>
NI_INLINE void floatDot(const typename W::Row (&rows)[R], const float *x, int64_t k, float (&result)[R]) {
  const int64_t pairs = pairsOf<W>(k);
  constexpr int step = W::kPairsPerScale > 1 ? W::kPairsPerScale : 1;
  F even[R], odd[R];
#pragma unroll
  for (int r = 0; r < R; ++r)
    even[r] = odd[r] = zeroF();
#pragma clang loop unroll_count(2)
  for (int64_t i = 0; i < pairs; i += step) {
    F sums[R];
#pragma unroll
    for (int j = 0; j < step; ++j) {
      const F xe = loadF(x + (i + j) * kPair), xo = loadF(x + (i + j) * kPair + kLanes);
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const Pair w = W::decode(rows[r], i + j);
        if constexpr (W::kPairsPerScale == 0) {
          even[r] = fma(w.even, xe, even[r]), odd[r] = fma(w.odd, xo, odd[r]);
        } else {
          const F first = j ? fma(w.even, xe, sums[r]) : mul(w.even, xe);
          sums[r] = fma(w.odd, xo, first);
        }
      }
    }
    if constexpr (W::kPairsPerScale != 0)
#pragma unroll
      for (int r = 0; r < R; ++r)
        even[r] = fma(sums[r], W::scale(rows[r], i), even[r]);
  }
  if constexpr (!W::kPadded)
    if (const int64_t left = leftOf<W>(k); left != 0)
#pragma unroll
      for (int r = 0; r < R; ++r) {
        alignas(64) uint8_t buffer[kPair * 4] = {};
        const Pair w = W::decode(W::tail(rows[r], pairs, left, buffer), pairs);
        even[r] = fma(w.even, loadF(x + pairs * kPair), even[r]);
        odd[r] = fma(w.odd, loadF(x + pairs * kPair + kLanes), odd[r]);
      }
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const float total = sum(add(even[r], odd[r]));
    result[r] = !W::kFinishes ? total : W::kDivides ? total / W::finish(rows[r]) : total * W::finish(rows[r]);
  }
}

template <class W, int R>
NI_INLINE void floatDotRange(const void *p0, const void *p1, const void *p2, const float *x, int64_t k, int64_t nBegin,
                             int64_t first, int64_t count, int64_t stride, float *out) {
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < count; ++i) {
    typename W::Row rows[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
      rows[r] = W::row(p0, p1, p2, k, nBegin + first + i + r * stride);
    float result[R];
    floatDot<W, R>(rows, x, k, result);
#pragma unroll
    for (int r = 0; r < R; ++r)
      out[first + i + r * stride] = result[r];
  }
}

inline constexpr int kFloatPanelRows = 32;

/// Elements [i0 * kPair, ...) of one weight row, scaled but not finished, zero beyond k.
template <class W>
NI_INLINE void decodeRow(const typename W::Row &row, int64_t k, int64_t i0, int64_t count, float *out) {
  const int64_t pairs = pairsOf<W>(k), whole = minOf(count, pairs - i0);
#pragma clang loop unroll_count(2)
  for (int64_t i = 0; i < whole; ++i) {
    Pair w = W::decode(row, i0 + i);
    if constexpr (W::kPairsPerScale != 0) {
      const F s = W::scale(row, i0 + i);
      w.even = mul(w.even, s), w.odd = mul(w.odd, s);
    }
    storeF(out + i * kPair, w.even);
    storeF(out + i * kPair + kLanes, w.odd);
  }
  if constexpr (!W::kPadded)
    if (whole < count) {
      alignas(64) uint8_t buffer[kPair * 4] = {};
      const Pair w = W::decode(W::tail(row, i0 + whole, leftOf<W>(k), buffer), i0 + whole);
      storeF(out + whole * kPair, w.even);
      storeF(out + whole * kPair + kLanes, w.odd);
    }
}

/// totals[t][4 rows] += the products of 4 panel rows (`ldPanel` floats apart) and T activation rows (`ldX` apart).
template <int T>
NI_INLINE void floatTile(const float *panel, int64_t ldPanel, const float *x, int64_t ldX, int64_t length,
                         float *totals) {
  F acc[T][4];
#pragma unroll
  for (int t = 0; t < T; ++t)
#pragma unroll
    for (int r = 0; r < 4; ++r)
      acc[t][r] = zeroF();
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < length; i += kLanes) {
    F v[T];
#pragma unroll
    for (int t = 0; t < T; ++t)
      v[t] = loadF(x + t * ldX + i);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const F w = loadF(panel + r * ldPanel + i);
#pragma unroll
      for (int t = 0; t < T; ++t)
        acc[t][r] = fma(w, v[t], acc[t][r]);
    }
  }
#pragma unroll
  for (int t = 0; t < T; ++t) {
    float *to = totals + t * kFloatPanelRows;
    _mm_storeu_ps(to, _mm_add_ps(_mm_loadu_ps(to), sum4(acc[t][0], acc[t][1], acc[t][2], acc[t][3])));
  }
}

template <int T>
NI_INLINE int64_t floatTiles(const float *panel, int64_t ldPanel, const float *x, int64_t ldX, int64_t length,
                             int64_t t, int64_t rows, float *totals) {
  for (; t + T <= rows; t += T)
#pragma clang loop unroll(disable)
    for (int r = 0; r < kFloatPanelRows; r += 4)
      floatTile<T>(panel + r * ldPanel, ldPanel, x + t * ldX, ldX, length, totals + t * kFloatPanelRows + r);
  return t;
}

template <class W>
NI_INLINE void linearFloat(const void *p0, const void *p1, const void *p2, const void *packed, int64_t rows, int64_t k,
                           int64_t nBegin, int64_t nEnd, float *out, int64_t ldOut, void *scratch) {
  const float *x = static_cast<const float *>(packed);
  if (rows == 1) {
    const int64_t n = nEnd - nBegin, part = n / 4;
    floatDotRange<W, 4>(p0, p1, p2, x, k, nBegin, 0, part, part, out);
    floatDotRange<W, 1>(p0, p1, p2, x, k, nBegin, 4 * part, n - 4 * part, 0, out);
    return;
  }
  static_assert(kFloatPanelRows == kMicroPanelRows);
  float *panel = static_cast<float *>(scratch), *totals = panel + kFloatPanelRows * kMicroPanelK;
  const int64_t ldX = floatRecord(k) / 4, pairs = pairsOf<W>(k) + (leftOf<W>(k) != 0);
#pragma clang loop unroll(disable)
  for (int64_t n = nBegin; n < nEnd; n += kFloatPanelRows) {
    for (int64_t i = 0; i < rows * kFloatPanelRows; i += kLanes)
      storeF(totals + i, zeroF());
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < pairs; i += kMicroPanelK / kPair) {
      const int64_t count = minOf(kMicroPanelK / kPair, pairs - i), ldPanel = count * kPair;
#pragma clang loop unroll(disable)
      for (int r = 0; r < kFloatPanelRows; ++r)
        decodeRow<W>(W::row(p0, p1, p2, k, minOf(n + r, nEnd - 1)), k, i, count, panel + r * ldPanel);
      const float *xi = x + i * kPair;
      constexpr int T = kLanes == 16 ? 6 : 3; // as many accumulators as the register file takes
      int64_t t = floatTiles<T>(panel, ldPanel, xi, ldX, ldPanel, 0, rows, totals);
      if constexpr (T == 6)
        t = floatTiles<2>(panel, ldPanel, xi, ldX, ldPanel, t, rows, totals);
      floatTiles<1>(panel, ldPanel, xi, ldX, ldPanel, t, rows, totals);
    }
    const int64_t valid = minOf(kFloatPanelRows, nEnd - n);
#pragma clang loop unroll(disable)
    for (int64_t r = 0; r < valid; r += kLanes) {
      F finish = setF(1.0f);
      if constexpr (W::kFinishes) {
        alignas(64) float factors[kLanes];
        for (int j = 0; j < kLanes; ++j)
          factors[j] = W::finish(W::row(p0, p1, p2, k, minOf(n + r + j, nEnd - 1)));
        finish = loadF(factors);
      }
      for (int64_t t = 0; t < rows; ++t) {
        F v = loadF(totals + t * kFloatPanelRows + r);
        if constexpr (W::kFinishes)
          v = W::kDivides ? div(v, finish) : mul(v, finish);
        storeSome(out + t * ldOut + (n - nBegin) + r, valid - r, v);
      }
    }
  }
}

/// One decoded row in natural order.
template <class W>
NI_INLINE void embedRow(const void *p0, const void *p1, const void *p2, int32_t token, int64_t k, float *out) {
  const typename W::Row row = W::row(p0, p1, p2, k, token);
  const int64_t pairs = (k + kPair - 1) / kPair;
  [[maybe_unused]] const F finish = setF(W::finish(row));
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t left = k - i * kPair;
    Pair w;
    if constexpr (W::kPadded) {
      w = W::decode(row, i);
    } else {
      alignas(64) uint8_t buffer[kPair * 4] = {};
      w = W::decode(left >= kPair ? row : W::tail(row, i, left, buffer), i);
    }
    if constexpr (W::kPairsPerScale != 0) {
      const F s = W::scale(row, i);
      w.even = mul(w.even, s), w.odd = mul(w.odd, s);
    }
    if constexpr (W::kFinishes) {
      w.even = W::kDivides ? div(w.even, finish) : mul(w.even, finish);
      w.odd = W::kDivides ? div(w.odd, finish) : mul(w.odd, finish);
    }
    F lo, hi;
    interleave(w.even, w.odd, lo, hi);
    storeSome(out + i * kPair, left, lo);
    if (left > kLanes)
      storeSome(out + i * kPair + kLanes, left - kLanes, hi);
  }
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_FLOATLINEAR_H
