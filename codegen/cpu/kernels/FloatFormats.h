// Every weight format decoded exactly to float, a pair of registers at a time: kPair consecutive elements of a row,
// the even ones in one register and the odd ones in the other (the order of packFloat).
//
// A format F gives
//   Row               what it needs of one weight row: F::row(p0, p1, p2, k, n)
//   decode(row, i)    codes or values of pair i, without scales
//   scale(row, i)     the factor of pair i, lane by lane; kPairsPerScale consecutive aligned pairs have the same one
//   kPairsPerScale    0: no such factor
//   finish(row)       one factor of the whole row; kDivides: divide by it (nvfp4's divisor) instead
//   kPadded           rows are padded to 128 elements with zeros; otherwise a row ends at element k
// and element = code * scale (exact in float32) * or / finish.
#ifndef NINFER_CODEGEN_CPU_KERNELS_FLOATFORMATS_H
#define NINFER_CODEGEN_CPU_KERNELS_FLOATFORMATS_H

#include "codegen/cpu/kernels/Pack.h"

namespace ninfer::micro {

struct Pair {
  F even, odd;
};

/// Low or high four bits of every lane of v as an index into 16 floats.
struct Table16 {
#if defined(__AVX512F__)
  F values;
  NI_INLINE Table16 make(const float (&v)[16]) { return {loadF(v)}; }
  __attribute__((always_inline)) F at(I index) const { return _mm512_permutexvar_ps(index, values); }
#else
  F low, high; ///< by bits 0..2; bit 3 chooses
  NI_INLINE Table16 make(const float (&v)[16]) { return {loadF(v), loadF(v + 8)}; }
  __attribute__((always_inline)) F at(I index) const {
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index), _mm256_permutevar8x32_ps(high, index),
                            castF(sll32<28>(index)));
  }
#endif
};

/// A scale of a group of codes, in every lane.
NI_INLINE F broadcastF16(const uint16_t *p) { return setF(f16ToFloat(*p)); }

template <int bits> struct IntCodes {
  struct Row {
    const uint8_t *base, *high;
    const uint16_t *scales;
  };
  static constexpr bool kPadded = true, kDivides = false, kFinishes = false;
  static constexpr int kGroup = bits == 8 ? 32 : 64;
  static constexpr int kPairsPerScale = kGroup / kPair;
  static constexpr int kPairBytes = bits == 8 ? kPair : kPair / 2, kHighBytes = (bits == 8 ? 0 : bits - 4) * kPair / 8;

  NI_INLINE Row row(const void *p0, const void *p1, const void *p2, int64_t k, int64_t n) {
    constexpr bool high = bits == 5 || bits == 6;
    const int64_t pairs = microRoundUp(k, 128) / kPair * n;
    return {static_cast<const uint8_t *>(p0) + pairs * kPairBytes,
            high ? static_cast<const uint8_t *>(p1) + pairs * kHighBytes : nullptr,
            static_cast<const uint16_t *>(high ? p2 : p1) + pairs / kPairsPerScale};
  }
  /// v's low `bits` bits of every lane as a signed number.
  NI_INLINE F signedLow(I v) { return toFloat(sra32<32 - bits>(sll32<32 - bits>(v))); }
  NI_INLINE Pair decode(const Row &row, int64_t i) {
    if constexpr (bits == 8) {
      const I v = loadS16As32(row.base + i * kPairBytes);
      return {signedLow(v), toFloat(sra32<8>(v))};
    } else {
      const I v = loadU8As32(row.base + i * kPairBytes); // lane d: elements 2d, 2d+1
      if constexpr (bits == 4) {
#if defined(__AVX512F__)
        const Table16 codes = Table16::make({0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1});
        return {codes.at(v), codes.at(srl32<4>(v))};
#else
        return {signedLow(v), signedLow(srl32<4>(v))};
#endif
      } else { // lane d needs the 2 * (bits - 4) bits of the high plane from 2 * (bits - 4) * d on
        constexpr int each = bits - 4;
        const uint8_t *high = row.high + i * kHighBytes;
        const I at = sll32<each>(lanesI()); // 2 * each * d
        I h;
        if constexpr (kHighBytes == 8) { // lanes 8.. continue in the second word
#if defined(__AVX512F__)
          const I words = _mm512_set1_epi64(loadScalar<int64_t>(high));
          h = srlLanes32(_mm512_permutexvar_epi32(srl32<3>(lanesI()), words), at & set32(31));
#endif
        } else if constexpr (kHighBytes == 4) {
          h = srlLanes32(set32(loadScalar<int32_t>(high)), at);
        } else {
          h = srlLanes32(set32(loadScalar<uint16_t>(high)), at);
        }
        return {signedLow((v & set32(15)) | sll32<4>(h)), signedLow(srl32<4>(v) | sll32<4>(srl32<each>(h)))};
      }
    }
  }
  NI_INLINE F scale(const Row &row, int64_t i) { return broadcastF16(row.scales + i / kPairsPerScale); }
  NI_INLINE float finish(const Row &) { return 1.0f; }
};

struct Bf16Words {
  struct Row {
    const uint16_t *words;
  };
  static constexpr bool kPadded = false, kDivides = false, kFinishes = false;
  static constexpr int kPairsPerScale = 0, kPairBytes = kPair * 2;
  NI_INLINE Row row(const void *p0, const void *, const void *, int64_t k, int64_t n) {
    return {static_cast<const uint16_t *>(p0) + n * k};
  }
  NI_INLINE Pair decode(const Row &row, int64_t i) {
    const I v = load(row.words + i * kPair);
    return {castF(sll32<16>(v)), castF(v & set32(int(0xffff0000u)))};
  }
  NI_INLINE F scale(const Row &, int64_t) { return setF(1.0f); }
  NI_INLINE float finish(const Row &) { return 1.0f; }
  NI_INLINE Row tail(const Row &row, int64_t i, int64_t n, uint8_t *buffer) {
    for (int64_t j = 0; j < n; ++j)
      reinterpret_cast<uint16_t *>(buffer)[j] = row.words[i * kPair + j];
    return {reinterpret_cast<const uint16_t *>(buffer) - i * kPair};
  }
};

struct Fp32Words {
  struct Row {
    const float *words;
  };
  static constexpr bool kPadded = false, kDivides = false, kFinishes = false;
  static constexpr int kPairsPerScale = 0;
  NI_INLINE Row row(const void *p0, const void *, const void *, int64_t k, int64_t n) {
    return {static_cast<const float *>(p0) + n * k};
  }
  NI_INLINE Pair decode(const Row &row, int64_t i) {
    Pair p;
    deinterleave(loadF(row.words + i * kPair), loadF(row.words + i * kPair + kLanes), p.even, p.odd);
    return p;
  }
  NI_INLINE F scale(const Row &, int64_t) { return setF(1.0f); }
  NI_INLINE float finish(const Row &) { return 1.0f; }
  NI_INLINE Row tail(const Row &row, int64_t i, int64_t n, uint8_t *buffer) {
    for (int64_t j = 0; j < n; ++j)
      reinterpret_cast<float *>(buffer)[j] = row.words[i * kPair + j];
    return {reinterpret_cast<const float *>(buffer) - i * kPair};
  }
};

/// E4M3FN through binary16, whose exponent has one bit more and a bias larger by 8: value = half * 2^8.
struct Fp8Row {
  struct Row {
    const uint8_t *codes;
    const uint16_t *scale;
  };
  static constexpr bool kPadded = false, kDivides = false, kFinishes = true;
  static constexpr int kPairsPerScale = 0;
  NI_INLINE Row row(const void *p0, const void *p1, const void *, int64_t k, int64_t n) {
    return {static_cast<const uint8_t *>(p0) + n * k, static_cast<const uint16_t *>(p1) + n};
  }
  NI_INLINE Pair decode(const Row &row, int64_t i) {
    const auto v = loadHalfWords(row.codes + i * kPair); // word: element 2d low, 2d+1 high
    return {widen(sll8(v)), widen(v)};
  }
#if defined(__AVX512F__)
  NI_INLINE __m256i sll8(__m256i v) { return _mm256_slli_epi16(v, 8); }
  /// seeeemmm in the high byte of a word -> s0eeeemmm0000000
  NI_INLINE F widen(__m256i v) {
    return mul(f16HalfToFloat(_mm256_and_si256(_mm256_srai_epi16(v, 1), _mm256_set1_epi16(short(0xbf80)))), setF(256));
  }
#else
  NI_INLINE __m128i sll8(__m128i v) { return _mm_slli_epi16(v, 8); }
  NI_INLINE F widen(__m128i v) {
    return mul(f16HalfToFloat(_mm_and_si128(_mm_srai_epi16(v, 1), _mm_set1_epi16(short(0xbf80)))), setF(256));
  }
#endif
  NI_INLINE F scale(const Row &, int64_t) { return setF(1.0f); }
  NI_INLINE float finish(const Row &row) { return bf16ToFloat(*row.scale); }
  NI_INLINE Row tail(const Row &row, int64_t i, int64_t n, uint8_t *buffer) {
    for (int64_t j = 0; j < n; ++j)
      buffer[j] = row.codes[i * kPair + j];
    return {buffer - i * kPair, row.scale};
  }
};

/// E2M1 by table; E4M3 block scales of 16 elements, as for Fp8Row. K is a multiple of 64.
struct Nvfp4 {
  struct Row {
    const uint8_t *codes;
    const uint8_t *scales; ///< of group 0; group j is at (j / 4) * 512 + j % 4
    const float *divisor;
  };
  static constexpr bool kPadded = false, kDivides = true, kFinishes = true;
  static constexpr int kPairsPerScale = 1;
  NI_INLINE Row row(const void *p0, const void *p1, const void *p2, int64_t k, int64_t n) {
    return {static_cast<const uint8_t *>(p0) + n * (k / 2),
            static_cast<const uint8_t *>(p1) + (n / 128) * (k / 64) * 512 + (n % 32) * 16 + (n % 128) / 32 * 4,
            static_cast<const float *>(p2)};
  }
  NI_INLINE Pair decode(const Row &row, int64_t i) {
    const Table16 codes = Table16::make({0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6});
    const I v = loadU8As32(row.codes + i * (kPair / 2));
    return {codes.at(v), codes.at(srl32<4>(v))};
  }
  NI_INLINE float e4m3(uint8_t word) { return f16ToFloat(uint16_t(word << 7)) * 256.0f; }
  NI_INLINE F scale(const Row &row, int64_t i) {
    const int64_t j = i * kPair / 16;
    const uint8_t *s = row.scales + j / 4 * 512 + j % 4;
    if constexpr (kPair == 16)
      return setF(e4m3(*s));
    return selectBelow(8, setF(e4m3(s[0])), setF(e4m3(s[1])));
  }
  NI_INLINE float finish(const Row &row) { return *row.divisor; }
  NI_INLINE Row tail(const Row &row, int64_t, int64_t, uint8_t *) { return row; } // never: K is a multiple of kPair
};

/// Pairs of a row, and elements left over after the whole pairs.
template <class W> NI_INLINE int64_t pairsOf(int64_t k) { return (W::kPadded ? microRoundUp(k, 128) : k) / kPair; }
template <class W> NI_INLINE int64_t leftOf(int64_t k) { return W::kPadded ? 0 : k % kPair; }

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_FLOATFORMATS_H
