// Integer linear maps of few activation rows (2 to kMicroDotRows) with VNNI: weight rows in lanes.
//
// A block is kLanes adjacent weight rows. Their stored bits are transposed a unit at a time, so
// that word d holds the same 32 bits of every row; words are unpacked in registers and multiplied
// with one broadcast word of each activation row. What is unpacked serves up to kLaneRows
// activation rows, and a group of codes costs one conversion and one multiply-add in float per
// activation row. The next unit is transposed between the products of this one: shuffles and
// products use different ports, but overlap only where they alternate within the reach of the
// scheduler (about a hundred instructions). The order of the sums is that of TreeLinear.h.
#ifndef NINFER_CODEGEN_CPU_KERNELS_LANELINEAR_H
#define NINFER_CODEGEN_CPU_KERNELS_LANELINEAR_H

#include "codegen/cpu/kernels/TreeLinear.h"

namespace ninfer::micro {

/// Activation rows that one pass over a block takes at most: their sums stay in registers.
inline constexpr int kLaneRows = 8;
static_assert(kMicroDotRows == 2 * kLaneRows);

/// Offset codes of word d (0..7) of a group of kLanes rows: v holds the 32 stored bits of every row, high the words of the
/// high plane that belong to the group.
template <int bits> NI_INLINE void unpackWordBytes(I v, const I *high, int d, I &lo, I &hi) {
  constexpr int flip = bits == 4 ? 0x08 : 0;
  lo = (v ^ set8(flip * 0x11)) & set8(0x0f);
  hi = (srl16<4>(v) ^ set8(flip)) & set8(0x0f);
  if constexpr (bits == 5) {
    const I bits5 = shuffleInWords(high[d / 4], 0x01010101 * (d % 4)); // byte d of the row's 8, in all four
    lo = addWhereClear(lo, bits5, set32(0x40100401), set8(16));
    hi = addWhereClear(hi, bits5, set32(int(0x80200802u)), set8(16));
  }
  if constexpr (bits == 6) {
    const I p = shuffleInWords(high[d / 2], int(0x80018000u) + 0x00020002 * (d % 2)); // bytes 2d and 2d + 1, as words
    const I pairs = (p | sll16<4>(p)) ^ set8(0x0a);
    lo |= sll16<4>(pairs) & set8(0x30);
    hi |= sll16<2>(pairs) & set8(0x30);
  }
}

/// The operands (IntFormats.h) of word d of a group of kLanes rows.
template <int bits, int Bytes>
NI_INLINE void unpackWord(I v, const I *high, int d, I (&op)[Operands<bits, Bytes>::kOps]) {
  using Ops = Operands<bits, Bytes>;
  if constexpr (bits == 8) {
    Ops::split(v, op);
  } else {
    I lo, hi;
    unpackWordBytes<bits>(v, high, d, lo, hi);
    if constexpr (Bytes == 2)
      Ops::split(lo, hi, op);
    else
      op[0] = lo, op[1] = hi;
  }
}

/// acc + the products of one operand, summed within 32-bit lanes.
template <int Bytes> NI_INLINE I dotOperand(I acc, I op, I x) {
  return Bytes == 2 ? dot16(acc, op, x) : dotBytes(acc, op, x);
}

/// Prefetches the lines of `bytes` bytes.
template <int bytes>
NI_INLINE void ahead(const uint8_t *from) {
#pragma unroll
  for (int i = 0; i < bytes; i += 64)
    prefetch(from + i);
}

/// 16 bytes of each of kLanes weight rows `stride` bytes apart, transposed: word[d] lane r = bytes 4d..4d+3 of row r.
NI_INLINE void stageWords(const uint8_t *from, int64_t stride, I *word) {
  I m[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    m[i] = loadRows16([&](int q) __attribute__((always_inline)) { return from + (4 * q + i) * stride; });
  transposeRows(m);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    word[i] = m[i];
}
/// 8 bytes of each, likewise: two words.
NI_INLINE void stagePairs(const uint8_t *from, int64_t stride, I *word) {
  loadRows8([&](int r) __attribute__((always_inline)) { return from + r * stride; }, word[0], word[1]);
}

/// The stored bits of one unit of kLanes rows.
template <int bits>
struct LaneUnit {
  static constexpr int kPieces = kVec / 16; ///< steps in which it is filled
  static constexpr int kHighWords = IntFormat<bits>::kHighBytes / 4;
  I codes[kLanes], high[kHighWords ? kHighWords : 1];

  /// Piece p of unit u of the rows that begin at `row`.
  template <int p>
  __attribute__((always_inline)) void fill(const IntRow &row, int64_t u, int64_t units) {
    using W = IntFormat<bits>;
    // The hardware does not follow kLanes rows in step, so: one linear stream, a block and a page
    // ahead, to the second level (to the first it is several times slower). Measured on Zen 4.
    ahead<kLanes * 16>(row.base + kLanes * (units + u) * kVec + p * (kLanes * 16) + 4096);
    if constexpr (kHighWords != 0)
      ahead<kLanes * W::kHighBytes / kPieces>(row.high + kLanes * (units + u) * W::kHighBytes +
                                              p * (kLanes * W::kHighBytes / kPieces) + 2048);
    stageWords(row.base + u * kVec + p * 16, units * kVec, codes + 4 * p);
    if constexpr (kHighWords >= 4 * p + 4)
      stageWords(row.high + u * W::kHighBytes + p * 16, units * W::kHighBytes,
                       high + 4 * p);
    if constexpr (kHighWords == 2 && p == 0)
      stagePairs(row.high + u * W::kHighBytes, units * W::kHighBytes, high);
  }
};

/// Exact integer sums of one group of a block with T activation rows. codes: the 8 words of the
/// group; high: the words of the high plane. x: operands of the group in row 0; sums: likewise.
/// between(i) is called after every fourth word, i = 0, 1.
template <int bits, int Bytes, int T, class Between>
NI_INLINE void laneGroup(const I *codes, const I *high, const uint8_t *x, int64_t record,
                         const uint8_t *sums, I (&sum)[T], const Between &between) {
  using Ops = Operands<bits, Bytes>;
  constexpr int kOps = Ops::kOps;
  constexpr int kHighHalf =
      IntFormat<bits>::kHighBytes / IntFormat<bits>::kUnitGroups / 8; ///< words of half a group
#pragma unroll
  for (int t = 0; t < T; ++t) {
    sum[t] = zeroI();
    if constexpr (Ops::kOffsetLog != 0)
      sum[t] = sll32<Ops::kOffsetLog>(broadcast32(sums + t * record));
  }
  // A fused multiply-add chain per output is as long as its latency: few rows need several.
  constexpr int kChains = T > 3 ? 1 : kOps < 2 ? kOps : 2;
  I acc[T][kChains];
#pragma unroll
  for (int t = 0; t < T; ++t)
#pragma unroll
    for (int c = 0; c < kChains; ++c)
      acc[t][c] = c ? zeroI() : sum[t];
  staticFor<8>([&](auto word) __attribute__((always_inline)) {
    constexpr int d = word.value;
    I op[kOps];
    unpackWord<bits, Bytes>(codes[d], high + d / 4 * kHighHalf, d % 4, op);
#pragma unroll
    for (int j = 0; j < kOps; ++j)
#pragma unroll
      for (int t = 0; t < T; ++t)
        acc[t][j % kChains] = dotOperand<Bytes>(acc[t][j % kChains], op[j], broadcast32(x + t * record + j * kVec + d * 4));
    if constexpr (d % 4 == 3)
      between(Constant<d / 4>{});
  });
#pragma unroll
  for (int t = 0; t < T; ++t) {
    sum[t] = acc[t][0];
#pragma unroll
    for (int c = 1; c < kChains; ++c)
      sum[t] = add32(sum[t], acc[t][c]);
  }
}

/// Groups whose scales are staged together: those of 128 codes, which rows are whole multiples of.
template <int bits>
inline constexpr int kStagedGroups = 128 / IntFormat<bits>::kGroup;

/// Their scales in kLanes rows, `stride` scales apart.
template <int bits>
NI_INLINE void stageScales(const uint16_t *from, int64_t stride, F *scale) {
  const auto at = [&](int r) __attribute__((always_inline)) {
    return reinterpret_cast<const uint8_t *>(from + r * stride);
  };
  if constexpr (bits == 8) {
    I word[2];
    loadRows8(at, word[0], word[1]);
    loadF16Pairs(word[0], scale[0], scale[1]);
    loadF16Pairs(word[1], scale[2], scale[3]);
  } else {
    loadF16Pairs(loadRows4(at), scale[0], scale[1]);
  }
}

/// Activation rows [0, T) of x times weight rows [nBegin, nEnd), kLanes of them at least.
template <int bits, int Bytes, int T>
NI_INLINE void laneRange(const IntPlanes &w, const uint8_t *x, int64_t k, int64_t nBegin,
                         int64_t nEnd, float *out, int64_t ldOut) {
  using W = IntFormat<bits>;
  using Ops = Operands<bits, Bytes>;
  using L = PackedLayout<W::kGroup, Bytes>;
  const L l = L::make(k);
  const int64_t units = W::units(k);
  constexpr int kGroups = W::kUnitGroups, kStaged = kStagedGroups<bits>;
  static_assert(kGroups == 2); // even and odd groups have sums of their own
  const auto blockAt = [&](int64_t n)
      __attribute__((always_inline)) { // the last block may overlap the one before: equal bits
    return W::row(w, k, minOf(n, nEnd - kLanes));
  };
  LaneUnit<bits> buffer[2]; // one in use, one filling
  F scale[kStaged];
  int turn = 0;
  IntRow row = blockAt(nBegin);
  staticFor<LaneUnit<bits>::kPieces>([&](auto piece) __attribute__((always_inline)) {
    buffer[0].template fill<piece.value>(row, 0, units);
  });
#pragma clang loop unroll(disable)
  for (int64_t n = nBegin; n < nEnd; n += kLanes) {
    const IntRow next = blockAt(n + kLanes);
    F total[T][kGroups];
#pragma unroll
    for (int t = 0; t < T; ++t)
      total[t][0] = total[t][1] = zeroF();
#pragma clang loop unroll(disable)
    for (int64_t u = 0; u < units; ++u) {
      if (u % (kStaged / kGroups) == 0)
        stageScales<bits>(row.scales + u * kGroups, units * kGroups, scale);
      const bool more = u + 1 < units;
      const IntRow &nextRow = more ? row : next;
      const int64_t nextUnit = more ? u + 1 : 0;
      const LaneUnit<bits> &now = buffer[turn];
      LaneUnit<bits> &then = buffer[1 - turn];
      staticFor<kGroups>([&](auto half) __attribute__((always_inline)) {
        constexpr int g = half.value;
        const int64_t group = u * kGroups + g;
        I sum[T];
        laneGroup<bits, Bytes, T>(
            now.codes + 8 * g, now.high + g * (W::kHighBytes / 4 / kGroups),
            x + u * (Ops::kOps * kVec) + g * 32, l.record, x + l.sums + group * 4,
            sum, [&](auto step) __attribute__((always_inline)) {
              then.template fill<g * 2 + step.value>(nextRow, nextUnit, units);
            });
        const F s = scale[group % kStaged];
#pragma unroll
        for (int t = 0; t < T; ++t) {
          const F step = setF(loadScalar<float>(x + t * l.record + l.steps + group * 4));
          total[t][g] = fma(toFloat(sum[t]), mul(s, step), total[t][g]);
        }
      });
      turn ^= 1;
    }
#pragma unroll
    for (int t = 0; t < T; ++t)
      storeF(out + t * ldOut + minOf(n, nEnd - kLanes) - nBegin, add(total[t][0], total[t][1]));
    row = next;
  }
}

template <int bits, int Bytes>
NI_INLINE void linearLanes(const IntPlanes &w, const uint8_t *packed, int64_t rows, int64_t k,
                           int64_t nBegin, int64_t nEnd, float *out, int64_t ldOut) {
  const int64_t record = PackedLayout<IntFormat<bits>::kGroup, Bytes>::make(k).record;
  if (rows == 1 || nEnd - nBegin < kLanes) { // one row, or less than a block
#pragma clang loop unroll(disable)
    for (int64_t t = 0; t < rows; ++t)
      linearTree<bits, Bytes, 1>(w, packed + t * record, k, nBegin, nEnd, out + t * ldOut, ldOut);
    return;
  }
  if ((bits == 6 || bits == 8) && rows == 2) // q6 10 to 20 %, w8 40 % faster than lanes; q4 and q5 are not
    return linearTree<bits, Bytes, 2>(w, packed, k, nBegin, nEnd, out, ldOut);
  const int64_t most = rows <= kLaneRows ? rows : (rows + 1) / 2; // two passes of nearly equal size
#pragma clang loop unroll(disable)
  for (int64_t t = 0; t < rows; t += most) {
    const int64_t count = minOf(most, rows - t);
    const uint8_t *x = packed + t * record;
    float *to = out + t * ldOut;
    switch (count) {
    case 2:
      laneRange<bits, Bytes, 2>(w, x, k, nBegin, nEnd, to, ldOut);
      break;
    case 3:
      laneRange<bits, Bytes, 3>(w, x, k, nBegin, nEnd, to, ldOut);
      break;
    case 4:
      laneRange<bits, Bytes, 4>(w, x, k, nBegin, nEnd, to, ldOut);
      break;
    case 5:
      laneRange<bits, Bytes, 5>(w, x, k, nBegin, nEnd, to, ldOut);
      break;
    case 6:
      laneRange<bits, Bytes, 6>(w, x, k, nBegin, nEnd, to, ldOut);
      break;
    case 7:
      laneRange<bits, Bytes, 7>(w, x, k, nBegin, nEnd, to, ldOut);
      break;
    case 8:
      laneRange<bits, Bytes, 8>(w, x, k, nBegin, nEnd, to, ldOut);
      break;
    default:
      __builtin_unreachable(); // this kernel has 2 to kMicroDotRows rows
    }
  }
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_LANELINEAR_H
