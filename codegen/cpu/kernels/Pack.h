// Activation packing: float rows -> the operand order of the integer kernels (IntFormats.h) or of the float kernels.
//
// Integer, up to kMicroDotRows rows: one record per row, records microPackedRowBytes + 64 apart:
//   codes   [unit][operand][register]             the operands of every unit
//   sums    [unit][register of int32]             -(sum of the activations of each 32-bit lane); absent if signed;
//           with VNNI [group] int32, in as much room, -(sum of the group)
//   steps   [group] float                         quantisation step of each group
// Integer, more rows: K in chunks (BlockLayout), in each a record per block of kBlock rows, one behind the other, as a panel
// of weights reads them:
//   codes   [group][8 lanes][operand][row]        32-bit words
//   sums    [group][row] int32                    -(sum of the group); absent if signed
//   steps   [group][row] float
//   rows past the end have code 0 and step 0.
// Float: one record per row, kp * 4 + 64 bytes apart: [pair of registers][even elements, odd elements].
#ifndef NINFER_CODEGEN_CPU_KERNELS_PACK_H
#define NINFER_CODEGEN_CPU_KERNELS_PACK_H

#include "codegen/cpu/kernels/IntFormats.h"
#include "codegen/cpu/kernels/MicroKernels.h"

namespace ninfer::micro {

/// Activation rows per block record: what one register tile of the panel product takes.
inline constexpr int kBlock = 4;

/// Where the parts of a record are; Group 64 (q4 q5 q6) or 32 (w8), Bytes per activation.
template <int Group, int Bytes> struct PackedLayout {
  using Ops = Operands<Group == 64 ? 4 : 8, Bytes>;
  static constexpr int kOps = Ops::kOps;
  static constexpr bool kSums = Ops::kOffsetLog != 0;
  static constexpr MicroPack kPack = Group == 64 ? (Bytes == 2 ? MicroPack::A16G64 : MicroPack::A8G64)
                                                 : (Bytes == 2 ? MicroPack::A16G32 : MicroPack::A8G32);
  int64_t kp, record, sums, steps; ///< record: bytes per row

  NI_INLINE PackedLayout make(int64_t k) {
    PackedLayout l;
    l.kp = microRoundUp(k, 128);
    l.record = microPackedRowBytes(kPack, k) + 64;
    l.sums = l.kp * Bytes;
    l.steps = l.sums + (kSums ? l.kp / Group * 32 : 0);
    return l;
  }
};

/// Where the block records of more than kMicroDotRows rows are. Chunks are about equal, so that none is too short to pay for
/// fetching and storing what it adds to.
template <int Group, int Bytes> struct BlockLayout {
  static constexpr bool kSums = PackedLayout<Group, Bytes>::kSums;
  int64_t kp, chunk, blocks; ///< padded K; elements of K per chunk, the last may be shorter; blocks of rows

  NI_INLINE BlockLayout make(int64_t k, int64_t rows) {
    constexpr int64_t most = kMicroPanelK / Bytes;
    BlockLayout l;
    l.kp = microRoundUp(k, 128);
    l.chunk = microRoundUp(l.kp / ((l.kp + most - 1) / most), 128);
    l.blocks = (rows + kBlock - 1) / kBlock;
    return l;
  }
  int64_t length(int64_t k0) const { return minOf(chunk, kp - k0); }
  /// Parts of a record of `length` elements of K.
  NI_INLINE int64_t sums(int64_t length) { return length * Bytes * kBlock; }
  NI_INLINE int64_t steps(int64_t length) { return sums(length) + (kSums ? length / Group * 4 * kBlock : 0); }
  NI_INLINE int64_t bytes(int64_t length) { return steps(length) + length / Group * 4 * kBlock; }
  /// Record of a block in the chunk that begins at k0.
  int64_t at(int64_t k0, int64_t block) const { return blocks * bytes(k0) + block * bytes(length(k0)); }
};

NI_INLINE __m256 loadPart8(const float *p, int64_t n) {
  if (n >= 8)
    return _mm256_loadu_ps(p);
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n)), lanes));
}

NI_INLINE float maxLane8(__m256 v) {
  __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

NI_INLINE int32_t sumLanes8(__m256i v) {
  __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
}

/// 64 activations quantised and in operand order: op[group of the 64][operand], the negated lane sums (with VNNI and 8 bits
/// any lanes with the same total), the steps.
template <int Group, int Bytes> struct Quantised {
  static constexpr int kGroups = 64 / Group, kOps = PackedLayout<Group, Bytes>::kOps;
  Half op[kGroups][kOps];
  Half sums[kGroups];
  float step[kGroups];
};

NI_INLINE Half pairWords(Half low, Half high) { return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa); }

NI_INLINE Half quadBytes(Half a, Half b, Half c, Half d) {
  const Half mask = _mm256_set1_epi32(0xff);
  const Half ab = _mm256_or_si256(_mm256_and_si256(a, mask), _mm256_slli_epi32(_mm256_and_si256(b, mask), 8));
  const Half cd = _mm256_or_si256(_mm256_and_si256(c, mask), _mm256_slli_epi32(d, 8));
  return _mm256_blend_epi16(ab, _mm256_slli_epi32(cd, 16), 0xaa);
}

/// [a0 b0 a1 b1 ...] split after lane 7.
NI_INLINE void weave(Half a, Half b, Half &first, Half &second) {
  const Half l = _mm256_unpacklo_epi32(a, b), h = _mm256_unpackhi_epi32(a, b);
  first = _mm256_permute2x128_si256(l, h, 0x20), second = _mm256_permute2x128_si256(l, h, 0x31);
}

#if defined(__AVX512VNNI__)
/// quantise64 with 8 bits, the same results: four registers, whose codes are bytes in order at once.
template <int Group> NI_INLINE void quantiseBytes64(const float *x, int64_t n, Quantised<Group, 1> &out) {
  __m512 v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    v[i] = n >= 64 ? _mm512_loadu_ps(x + 16 * i) : n > 16 * i ? loadSome(x + 16 * i, n - 16 * i) : _mm512_setzero_ps();
  __m128i bytes[4];
#pragma unroll
  for (int g = 0; g < 64 / Group; ++g) {
    constexpr int perGroup = Group / 16;
    __m512 top = _mm512_abs_ps(v[g * perGroup]);
#pragma unroll
    for (int i = 1; i < perGroup; ++i)
      top = _mm512_max_ps(top, _mm512_abs_ps(v[g * perGroup + i]));
    const float amax = _mm512_reduce_max_ps(top);
    const bool some = amax > 1e-30f;
    out.step[g] = some ? amax / 127.0f : 0.0f;
    const __m512 inverse = _mm512_set1_ps(some ? 127.0f / amax : 0.0f);
#pragma unroll
    for (int i = 0; i < perGroup; ++i)
      bytes[g * perGroup + i] =
          _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(v[g * perGroup + i], inverse)));
  }
  const __m512i codes =
      _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set_m128i(bytes[1], bytes[0])), _mm256_set_m128i(bytes[3], bytes[2]), 1);
  const __m512i sums = _mm512_sub_epi32(_mm512_setzero_si512(),
                                        _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), codes));
  const Half low = _mm512_castsi512_si256(sums), high = _mm512_extracti64x4_epi64(sums, 1);
  if constexpr (Group == 64) { // even and odd codes of every eight
    const __m512i pairs = _mm512_shuffle_epi8(
        codes, _mm512_broadcast_i32x4(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)));
    const __m512i split = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), pairs);
    out.op[0][0] = _mm512_castsi512_si256(split), out.op[0][1] = _mm512_extracti64x4_epi64(split, 1);
    out.sums[0] = _mm256_add_epi32(low, high);
  } else {
    out.op[0][0] = _mm512_castsi512_si256(codes), out.op[1][0] = _mm512_extracti64x4_epi64(codes, 1);
    out.sums[0] = low, out.sums[1] = high;
  }
}
#endif

/// x: n (0..64) activations, zero beyond.
template <int Group, int Bytes> NI_INLINE void quantise64(const float *x, int64_t n, Quantised<Group, Bytes> &out) {
#if defined(__AVX512VNNI__)
  if constexpr (Bytes == 1) {
    quantiseBytes64<Group>(x, n, out);
    return;
  }
#endif
  constexpr int perGroup = Group / 8;
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 v[8];
  Half m[8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
    v[i] = n >= 8 * (i + 1) ? _mm256_loadu_ps(x + 8 * i)
                            : n > 8 * i ? loadPart8(x + 8 * i, n - 8 * i) : _mm256_setzero_ps();
#pragma unroll
  for (int g = 0; g < 64 / Group; ++g) {
    __m256 top = _mm256_setzero_ps();
#pragma unroll
    for (int i = 0; i < perGroup; ++i)
      top = _mm256_max_ps(top, _mm256_andnot_ps(sign, v[g * perGroup + i]));
    const float amax = maxLane8(top);
    constexpr float levels = Bytes == 2 ? 32767.0f : 127.0f;
    const bool some = amax > 1e-30f; // anything smaller is nothing
    out.step[g] = some ? amax / levels : 0.0f;
    const __m256 inverse = _mm256_set1_ps(some ? levels / amax : 0.0f);
#pragma unroll
    for (int i = 0; i < perGroup; ++i)
      m[g * perGroup + i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[g * perGroup + i], inverse));
  }
  transpose8(m); // m[j] lane d = code 8d+j
  const Half zero = _mm256_setzero_si256();
  const Half low = _mm256_add_epi32(_mm256_add_epi32(m[0], m[1]), _mm256_add_epi32(m[2], m[3]));
  const Half high = _mm256_add_epi32(_mm256_add_epi32(m[4], m[5]), _mm256_add_epi32(m[6], m[7]));
  if constexpr (Group == 64) {
    out.sums[0] = _mm256_sub_epi32(zero, _mm256_add_epi32(low, high));
    if constexpr (Bytes == 2) {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        out.op[0][j] = pairWords(m[j], m[4 + j]);
    } else {
      out.op[0][0] = quadBytes(m[0], m[2], m[4], m[6]);
      out.op[0][1] = quadBytes(m[1], m[3], m[5], m[7]);
    }
  } else {
    weave(_mm256_sub_epi32(zero, low), _mm256_sub_epi32(zero, high), out.sums[0], out.sums[1]);
    if constexpr (Bytes == 2) {
#pragma unroll
      for (int j = 0; j < 2; ++j)
        weave(pairWords(m[j], m[2 + j]), pairWords(m[4 + j], m[6 + j]), out.op[0][j], out.op[1][j]);
    } else {
      weave(quadBytes(m[0], m[1], m[2], m[3]), quadBytes(m[4], m[5], m[6], m[7]), out.op[0][0], out.op[1][0]);
    }
  }
}

template <int Group, int Bytes> NI_INLINE void packRow(const float *x, int64_t k, uint8_t *record) {
  using L = PackedLayout<Group, Bytes>;
  constexpr int kOps = L::kOps, kHalves = kVec / 32;
  const L l = L::make(k);
  int32_t *sums = reinterpret_cast<int32_t *>(record + l.sums);
  float *steps = reinterpret_cast<float *>(record + l.steps);
  for (int64_t k0 = 0; k0 < l.kp; k0 += 64) {
    Quantised<Group, Bytes> q;
    quantise64<Group, Bytes>(x + k0, k - k0, q);
#pragma unroll
    for (int i = 0; i < 64 / Group; ++i) {
      const int64_t g = k0 / Group + i, unit = g / kHalves, half = g % kHalves;
      steps[g] = q.step[i];
#pragma unroll
      for (int j = 0; j < kOps; ++j)
        _mm256_storeu_si256(reinterpret_cast<Half *>(record + (unit * kOps + j) * kVec + half * 32), q.op[i][j]);
      if constexpr (L::kSums) {
        if constexpr (!kVnni)
          _mm256_storeu_si256(reinterpret_cast<Half *>(record + l.sums + unit * kVec + half * 32), q.sums[i]);
        else
          sums[g] = sumLanes8(q.sums[i]);
      }
    }
  }
}

/// Lane d of four registers to four adjacent words at to + d * stride.
NI_INLINE void scatterLanes(Half v0, Half v1, Half v2, Half v3, uint8_t *to, int64_t stride) {
  const Half a = _mm256_unpacklo_epi32(v0, v1), b = _mm256_unpackhi_epi32(v0, v1);
  const Half c = _mm256_unpacklo_epi32(v2, v3), d = _mm256_unpackhi_epi32(v2, v3);
  const Half lanes[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
                         _mm256_unpackhi_epi64(b, d)}; // lanes[s]: lane s, then s + 4, of the four
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + s * stride), _mm256_castsi256_si128(lanes[s]));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + (s + 4) * stride), _mm256_extracti128_si256(lanes[s], 1));
  }
}

/// kBlock rows, `rows` of them real, to their block records.
template <int Group, int Bytes>
NI_INLINE void packBlock(const float *x, int64_t rows, int64_t k, const BlockLayout<Group, Bytes> &l, int64_t block,
                         uint8_t *packed) {
  using L = BlockLayout<Group, Bytes>;
  constexpr int kOps = PackedLayout<Group, Bytes>::kOps;
  static_assert(kBlock == 4);
#pragma clang loop unroll(disable)
  for (int64_t c = 0; c < l.kp; c += l.chunk) {
    const int64_t length = l.length(c);
    uint8_t *record = packed + l.at(c, block);
    int32_t *sums = reinterpret_cast<int32_t *>(record + L::sums(length));
    float *steps = reinterpret_cast<float *>(record + L::steps(length));
#pragma clang loop unroll(disable)
    for (int64_t k0 = 0; k0 < length; k0 += 64) {
      Quantised<Group, Bytes> q[kBlock];
#pragma clang loop unroll(disable)
      for (int t = 0; t < kBlock; ++t)
        quantise64<Group, Bytes>(x + (t < rows ? t * k : 0) + c + k0, t < rows ? k - c - k0 : 0, q[t]);
#pragma unroll
      for (int i = 0; i < 64 / Group; ++i) {
        const int64_t g = k0 / Group + i;
        uint8_t *codes = record + g * (Group * Bytes * kBlock);
#pragma unroll
        for (int j = 0; j < kOps; ++j)
          scatterLanes(q[0].op[i][j], q[1].op[i][j], q[2].op[i][j], q[3].op[i][j], codes + j * (4 * kBlock),
                       kOps * 4 * kBlock);
#pragma unroll
        for (int t = 0; t < kBlock; ++t) {
          steps[g * kBlock + t] = q[t].step[i];
          if constexpr (L::kSums)
            sums[g * kBlock + t] = sumLanes8(q[t].sums[i]);
        }
      }
    }
  }
}

/// Rows [first, first + kMicroPackRows) of `rows`; x is row `first`.
template <int Group, int Bytes>
NI_INLINE void packIntPart(const float *x, int64_t first, int64_t rows, int64_t k, void *packed) {
  uint8_t *out = static_cast<uint8_t *>(packed);
  const int64_t count = minOf(kMicroPackRows, rows - first);
  if (rows <= kMicroDotRows) {
    const int64_t record = PackedLayout<Group, Bytes>::make(k).record;
    for (int64_t t = 0; t < count; ++t)
      packRow<Group, Bytes>(x + t * k, k, out + (first + t) * record);
    return;
  }
  const auto l = BlockLayout<Group, Bytes>::make(k, rows);
#pragma clang loop unroll(disable)
  for (int64_t t = 0; t < count; t += kBlock)
    packBlock<Group, Bytes>(x + t * k, count - t, k, l, (first + t) / kBlock, out);
}

template <int Group, int Bytes> NI_INLINE void packInt(const float *x, int64_t rows, int64_t k, void *packed) {
#pragma clang loop unroll(disable)
  for (int64_t first = 0; first < rows; first += kMicroPackRows)
    packIntPart<Group, Bytes>(x + first * k, first, rows, k, packed);
}

inline constexpr int kPair = 2 * kLanes; ///< elements of a pair of registers

NI_INLINE int64_t floatRecord(int64_t k) { return microPackedRowBytes(MicroPack::F32, k) + 64; }

NI_INLINE void packFloatPart(const float *x, int64_t first, int64_t rows, int64_t k, void *packed) {
  const int64_t count = minOf(kMicroPackRows, rows - first);
  for (int64_t t = 0; t < count; ++t) {
    float *out = reinterpret_cast<float *>(static_cast<uint8_t *>(packed) + (first + t) * floatRecord(k));
    const float *in = x + t * k;
    for (int64_t i = 0; i < microRoundUp(k, 128); i += kPair) {
      const int64_t left = k - i;
      F lo = zeroF(), hi = zeroF(), even, odd;
      if (left > 0)
        lo = loadSome(in + i, left);
      if (left > kLanes)
        hi = loadSome(in + i + kLanes, left - kLanes);
      deinterleave(lo, hi, even, odd);
      storeF(out + i, even);
      storeF(out + i + kLanes, odd);
    }
  }
}

NI_INLINE void packFloat(const float *x, int64_t rows, int64_t k, void *packed) {
#pragma clang loop unroll(disable)
  for (int64_t first = 0; first < rows; first += kMicroPackRows)
    packFloatPart(x + first * k, first, rows, k, packed);
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_PACK_H
