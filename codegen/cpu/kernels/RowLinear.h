// Integer linear maps of one and few activation rows without VNNI: dot products along the weight rows, straight from the
// stored planes. One activation row walks four far weight rows at once; several rows share the unpacking of a weight row.
#ifndef NINFER_CODEGEN_CPU_KERNELS_ROWLINEAR_H
#define NINFER_CODEGEN_CPU_KERNELS_ROWLINEAR_H

#include "codegen/cpu/kernels/Pack.h"

namespace ninfer::micro {

/// R weight rows times T packed activation rows (records `record` bytes apart), result[r][t].
template <int bits, int Bytes, int R, int T>
NI_INLINE void dotRows(const IntRow (&rows)[R], const uint8_t *x, int64_t k, float (&result)[R][T]) {
  using W = IntFormat<bits>;
  using Ops = Operands<bits, Bytes>;
  using L = PackedLayout<W::kGroup, Bytes>;
  constexpr int kOps = Ops::kOps;
  const L l = L::make(k);
  const int64_t units = W::units(k);
  F total[R][T];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int t = 0; t < T; ++t)
      total[r][t] = zeroF();
  for (int64_t u0 = 0; u0 < units; u0 += 8) {
    const int64_t count = minOf(8, units - u0), g0 = u0 * W::kUnitGroups;
    ScaleBank bank[R][T];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const F scales = loadF16(rows[r].scales + g0, count * W::kUnitGroups);
#pragma unroll
      for (int t = 0; t < T; ++t)
        bank[r][t] = ScaleBank::make(
            mul(scales, loadF(reinterpret_cast<const float *>(x + t * l.record + l.steps) + g0)));
    }
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t u = u0 + i;
      const auto cursor = ScaleBank::cursor(i);
      I op[R][kOps];
#pragma unroll
      for (int r = 0; r < R; ++r)
        Ops::unpack(rows[r].base + u * kVec, rows[r].high + u * W::kHighBytes, op[r]);
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const uint8_t *record = x + t * l.record;
        I a[kOps];
#pragma unroll
        for (int j = 0; j < kOps; ++j)
          a[j] = load(record + (u * kOps + j) * kVec);
        I start = zeroI();
        if constexpr (Ops::kOffsetLog != 0)
          start = sll32<Ops::kOffsetLog>(load(record + l.sums + u * kVec));
#pragma unroll
        for (int r = 0; r < R; ++r)
          total[r][t] = fma(toFloat(Ops::dot(start, op[r], a)), bank[r][t].pick(cursor), total[r][t]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int t = 0; t < T; ++t)
      result[r][t] = sum(total[r][t]);
}

/// Weight rows begin + i, + i + stride, ... for i < count, times activation rows [t0, t0 + T).
template <int bits, int Bytes, int R, int T>
NI_INLINE void dotRange(const IntPlanes &w, const uint8_t *packed, int64_t k, int64_t nBegin, int64_t first,
                        int64_t count, int64_t stride, int64_t t0, float *out, int64_t ldOut) {
  using W = IntFormat<bits>;
  const uint8_t *x = packed + t0 * PackedLayout<W::kGroup, Bytes>::make(k).record;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < count; ++i) {
    IntRow rows[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
      rows[r] = W::row(w, k, nBegin + first + i + r * stride);
    float result[R][T];
    dotRows<bits, Bytes, R, T>(rows, x, k, result);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int t = 0; t < T; ++t)
        out[(t0 + t) * ldOut + first + i + r * stride] = result[r][t];
  }
}

template <int bits, int Bytes, int R, int T>
NI_INLINE void dotFar(const IntPlanes &w, const uint8_t *packed, int64_t k, int64_t nBegin, int64_t nEnd, int64_t t0,
                      float *out, int64_t ldOut) {
  const int64_t n = nEnd - nBegin, part = n / R;
  dotRange<bits, Bytes, R, T>(w, packed, k, nBegin, 0, part, part, t0, out, ldOut);
  dotRange<bits, Bytes, 1, T>(w, packed, k, nBegin, part * R, n - part * R, 0, t0, out, ldOut);
}

template <int bits, int Bytes>
NI_INLINE void linearDot(const IntPlanes &w, const uint8_t *packed, int64_t rows, int64_t k, int64_t nBegin,
                         int64_t nEnd, float *out, int64_t ldOut) {
  if (rows == 1) {
    dotFar<bits, Bytes, 4, 1>(w, packed, k, nBegin, nEnd, 0, out, ldOut);
    return;
  }
  constexpr int R = kVec == 64 ? 2 : 1;
  int64_t t = 0;
  for (; t + 4 <= rows; t += 4)
    dotFar<bits, Bytes, R, 4>(w, packed, k, nBegin, nEnd, t, out, ldOut);
  for (; t + 2 <= rows; t += 2)
    dotFar<bits, Bytes, R, 2>(w, packed, k, nBegin, nEnd, t, out, ldOut);
  if (t < rows)
    dotFar<bits, Bytes, R, 1>(w, packed, k, nBegin, nEnd, t, out, ldOut);
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_ROWLINEAR_H
