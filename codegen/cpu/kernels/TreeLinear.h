// Integer linear maps of one activation row (q6 and w8: of two as well) with VNNI.
//
// The products of a unit leave sums in eight lanes per group. A tree of shuffles adds those of eight units up at once and
// leaves one register of sixteen group sums, so that a conversion, a multiply-add in float and a register of scales serve eight
// units. The eight are two units of four far rows in step: the hardware follows four streams, and not the eight or more of eight
// rows. Measured on Zen 4, as is what to prefetch: any other choice is 3 to 20 % slower.
//
// Order of the sums, shared with LaneLinear.h: integer sums of a group are exact; even groups add sum * (scale * step) in rising
// order to one float, odd groups to another, and the two are added at the end. So an output has the same bits with 1 to
// kMicroDotRows activation rows, whatever rows are beside it and however outputs are cut.
#ifndef NINFER_CODEGEN_CPU_KERNELS_TREELINEAR_H
#define NINFER_CODEGEN_CPU_KERNELS_TREELINEAR_H

#include "codegen/cpu/kernels/Pack.h"

namespace ninfer::micro {

/// Units that a tree adds up.
inline constexpr int kTree = 8;
/// Weight rows that they belong to, and units of each.
inline constexpr int kTreeRows = 4, kTreeUnits = kTree / kTreeRows;
/// Bytes that a prefetch is ahead in the base plane, to the second-level cache, for T activation rows. 0: none, which is as fast
/// where the reads of a few trees fit into the reach of out-of-order execution; half or twice as far is 5 % slower or the same.
template <int bits, int Bytes, int T>
inline constexpr int64_t kTreeAhead = bits == 8 ? (T == 1 ? 0 : 4096) : bits == 4 && Bytes == 1 && T == 1 ? 1024 : 2048;

/// Per quarter of the register: the sums of the lanes of that quarter of a, b, c, d.
NI_INLINE I quarterSums(I a, I b, I c, I d) {
  const I ab = add32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const I cd = add32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return add32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

/// Sums of the two groups (halves) of eight units from the quarterSums of the first and the last four:
/// [even group of units 0..3, odd group of 0..3, even of 4..7, odd of 4..7].
NI_INLINE I treeSums(I a, I b) {
  return add32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/// Four registers of four blocks of 128 bits: v[i] block j -> v[j] block i.
NI_INLINE void transposeBlocks(I &a, I &b, I &c, I &d) {
  const I p = _mm512_shuffle_i32x4(a, b, 0x44), q = _mm512_shuffle_i32x4(a, b, 0xee);
  const I r = _mm512_shuffle_i32x4(c, d, 0x44), s = _mm512_shuffle_i32x4(c, d, 0xee);
  a = _mm512_shuffle_i32x4(p, r, 0x88), b = _mm512_shuffle_i32x4(p, r, 0xdd);
  c = _mm512_shuffle_i32x4(q, s, 0x88), d = _mm512_shuffle_i32x4(q, s, 0xdd);
}

/// v[r] lane g (row r, group g of sixteen) -> v[i] in the order of treeSums for the i-th tree of the eight units.
NI_INLINE void spreadScales(I (&v)[kTreeRows]) { // groups 4i .. 4i + 3
  transposeRows(v);
  transposeBlocks(v[0], v[1], v[2], v[3]);
}

/// kTreeRows weight rows times T packed activation rows (records PackedLayout::record bytes apart): result[t][r].
template <int bits, int Bytes, int T>
NI_INLINE void treeRows(const IntRow (&rows)[kTreeRows], const uint8_t *x, int64_t k, float (&result)[T][kTreeRows]) {
  using W = IntFormat<bits>;
  using Ops = Operands<bits, Bytes>;
  using L = PackedLayout<W::kGroup, Bytes>;
  constexpr int kOps = Ops::kOps, R = kTreeRows, kUnits = kTreeUnits;
  constexpr int64_t ahead = kTreeAhead<bits, Bytes, T>;
  const L l = L::make(k);
  const int64_t units = W::units(k);
  F total[T]; // lower half [even groups, odd groups]
#pragma unroll
  for (int t = 0; t < T; ++t)
    total[t] = zeroF();
#pragma clang loop unroll(disable)
  for (int64_t u0 = 0; u0 < units; u0 += 8) {
    const int64_t count = minOf(8, units - u0), g0 = u0 * W::kUnitGroups, groups = count * W::kUnitGroups;
    alignas(64) float bank[T][R][kLanes];
    F scales[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      scales[r] = loadF16(rows[r].scales + g0, groups);
      if constexpr (ahead != 0) {
        prefetch(rows[r].scales + g0 + 64);
#pragma unroll
        for (int i = 0; i < W::kHighBytes / 8; ++i)
          prefetch(rows[r].high + u0 * W::kHighBytes + ahead / 2 + i * 64);
      }
    }
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const F steps = loadPart(reinterpret_cast<const float *>(x + t * l.record + l.steps) + g0, groups);
      I spread[R];
#pragma unroll
      for (int r = 0; r < R; ++r)
        spread[r] = castI(mul(scales[r], steps));
      spreadScales(spread);
#pragma unroll
      for (int i = 0; i < R; ++i)
        store(bank[t][i], spread[i]);
    }
    const auto tree = [&](int64_t i, auto present) __attribute__((always_inline)) { // units i.. of the eight
      I four[T][2];
#pragma unroll
      for (int h = 0; h < kUnits; ++h) {
        if (h >= present.value) {
#pragma unroll
          for (int t = 0; t < T; ++t)
            four[t][h] = zeroI();
          continue;
        }
        const int64_t u = u0 + i + h;
        I sums[T][R];
#pragma unroll
        for (int q = 0; q < R; ++q) {
          const IntRow &row = rows[q];
          const uint8_t *base = row.base + u * kVec;
          if constexpr (ahead != 0)
            prefetch(base + ahead);
          I op[kOps];
          Ops::unpack(base, row.high + u * W::kHighBytes, op);
#pragma unroll
          for (int t = 0; t < T; ++t) {
            I a[kOps];
#pragma unroll
            for (int j = 0; j < kOps; ++j)
              a[j] = load(x + t * l.record + (u * kOps + j) * kVec);
            sums[t][q] = Ops::dot(zeroI(), op, a);
          }
        }
#pragma unroll
        for (int t = 0; t < T; ++t)
          four[t][h] = quarterSums(sums[t][0], sums[t][1], sums[t][2], sums[t][3]);
      }
#pragma unroll
      for (int t = 0; t < T; ++t) {
        I sum = treeSums(four[t][0], four[t][1]);
        if constexpr (Ops::kOffsetLog != 0) { // of the groups of the tree
          const __m128i starts = _mm_maskz_loadu_epi32(__mmask8((1 << present.value * W::kUnitGroups) - 1),
                                                       x + t * l.record + l.sums + (u0 + i) * (W::kUnitGroups * 4));
          const I order = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
          sum = add32(sum, sll32<Ops::kOffsetLog>(_mm512_permutexvar_epi32(order, _mm512_castsi128_si512(starts))));
        }
        const F value = toFloat(sum), scale = loadF(bank[t][i / kUnits]);
        total[t] = fma(value, scale, total[t]);
        // The lower half continues with the groups of the second unit; the upper half is not used.
        total[t] = fma(_mm512_shuffle_f32x4(value, value, 0xee), _mm512_shuffle_f32x4(scale, scale, 0xee), total[t]);
      }
    };
    int64_t i = 0;
#pragma clang loop unroll(disable)
    for (; i + kUnits <= count; i += kUnits)
      tree(i, Constant<kUnits>{});
    if (i < count)
      tree(i, Constant<1>{});
  }
#pragma unroll
  for (int t = 0; t < T; ++t) {
    const F v = total[t];
    const F both = add(v, _mm512_shuffle_f32x4(v, v, 0x55));
#pragma unroll
    for (int r = 0; r < R; ++r)
      result[t][r] = both[r];
  }
}

/// Activation rows [0, T) of x times the weight rows [nBegin, nEnd): far rows in step, the rest among the last rows once more.
template <int bits, int Bytes, int T>
NI_INLINE void linearTree(const IntPlanes &w, const uint8_t *x, int64_t k, int64_t nBegin, int64_t nEnd, float *out,
                          int64_t ldOut) {
  constexpr int R = kTreeRows;
  const int64_t n = nEnd - nBegin, part = n / R;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < part + (n % R != 0); ++i) {
    const bool far = i < part;
    const int64_t first = far ? i : n < R ? 0 : n - R, stride = far ? part : 1;
    IntRow rows[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
      rows[r] = IntFormat<bits>::row(w, k, nBegin + minOf(first + r * stride, n - 1));
    float result[T][R];
    treeRows<bits, Bytes>(rows, x, k, result);
#pragma unroll
    for (int r = 0; r < R; ++r)
      if (first + r * stride < n)
#pragma unroll
        for (int t = 0; t < T; ++t)
          out[t * ldOut + first + r * stride] = result[t][r];
  }
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_TREELINEAR_H
