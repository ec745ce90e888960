// The vector layer of the micro-kernels: one set of names over 256-bit AVX2 and 512-bit AVX-512 registers, chosen by
// the flags the file is compiled with; other architectures take the AVX2 code over Portable.h. kVec bytes hold kLanes 32-bit lanes. Nothing above this file tests the level,
// except for kVnni and kByteDots where another instruction sequence pays.
#ifndef NINFER_CODEGEN_CPU_KERNELS_VEC_H
#define NINFER_CODEGEN_CPU_KERNELS_VEC_H

#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include "codegen/cpu/kernels/Portable.h" // the AVX2 level in other words
#endif

#define NI_INLINE static inline __attribute__((always_inline))

namespace ninfer::micro {

using Half = __m256i; ///< AVX-512: half a register. Packing code uses 256 bits on every level.

#if defined(__AVX512VNNI__)
inline constexpr bool kVnni = true;
#else
inline constexpr bool kVnni = false;
#endif
/// One instruction adds the products of four adjacent bytes to a 32-bit lane (dotBytes).
#if defined(__AVX512VNNI__) || defined(__ARM_FEATURE_DOTPROD)
inline constexpr bool kByteDots = true;
#else
inline constexpr bool kByteDots = false;
#endif

NI_INLINE int64_t minOf(int64_t a, int64_t b) { return a < b ? a : b; }

/// f(Constant<0>), f(Constant<1>), ...: a loop that is unrolled whatever the optimiser thinks of its size. Accumulators
/// in arrays stay in registers only if every loop over them is.
template <int value_> struct Constant { static constexpr int value = value_; };
template <int n, int i = 0, class Body> NI_INLINE void staticFor(const Body &body) {
  if constexpr (i < n) {
    body(Constant<i>{});
    staticFor<n, i + 1>(body);
  }
}

NI_INLINE float f16ToFloat(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }

/// Rounds to nearest even, subnormal results included.
NI_INLINE uint16_t floatToF16(float f) {
  return uint16_t(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_NEAREST_INT)));
}

NI_INLINE float bf16ToFloat(uint16_t h) { return __builtin_bit_cast(float, uint32_t(h) << 16); }

/// Rounds a finite value to nearest even.
NI_INLINE uint16_t floatToBf16(float f) {
  const uint32_t u = __builtin_bit_cast(uint32_t, f);
  return uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

template <class T> NI_INLINE T loadScalar(const void *p) {
  T value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}

NI_INLINE void prefetch(const void *p) { _mm_prefetch(static_cast<const char *>(p), _MM_HINT_T1); }

#if defined(__AVX512F__)

inline constexpr int kVec = 64, kLanes = 16;
using I = __m512i;
using F = __m512;

NI_INLINE I load(const void *p) { return _mm512_loadu_si512(p); }
NI_INLINE void store(void *p, I v) { _mm512_storeu_si512(p, v); }
NI_INLINE I set8(int v) { return _mm512_set1_epi8(char(v)); }
NI_INLINE I set16(int v) { return _mm512_set1_epi16(short(v)); }
NI_INLINE I set32(int v) { return _mm512_set1_epi32(v); }
NI_INLINE I zeroI() { return _mm512_setzero_si512(); }
NI_INLINE I lanesI() { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
template <int n> NI_INLINE I sll16(I v) { return _mm512_slli_epi16(v, n); }
template <int n> NI_INLINE I srl16(I v) { return _mm512_srli_epi16(v, n); }
template <int n> NI_INLINE I sra16(I v) { return _mm512_srai_epi16(v, n); }
template <int n> NI_INLINE I sll32(I v) { return _mm512_slli_epi32(v, n); }
template <int n> NI_INLINE I srl32(I v) { return _mm512_srli_epi32(v, n); }
template <int n> NI_INLINE I sra32(I v) { return _mm512_srai_epi32(v, n); }
NI_INLINE I srlLanes32(I v, I n) { return _mm512_srlv_epi32(v, n); }
NI_INLINE I add32(I a, I b) { return _mm512_add_epi32(a, b); }
NI_INLINE I add16(I a, I b) { return _mm512_add_epi16(a, b); }
NI_INLINE I madd16(I a, I b) { return _mm512_madd_epi16(a, b); }
NI_INLINE I maddU8(I u, I s) { return _mm512_maddubs_epi16(u, s); }
NI_INLINE F toFloat(I v) { return _mm512_cvtepi32_ps(v); }
NI_INLINE I castI(F v) { return _mm512_castps_si512(v); }
NI_INLINE F castF(I v) { return _mm512_castsi512_ps(v); }
/// One lane per byte or word of half, quarter registers in memory.
NI_INLINE I loadU8As32(const void *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i *>(p))); }
NI_INLINE I loadS16As32(const void *p) {
  return _mm512_cvtepi16_epi32(_mm256_loadu_si256(static_cast<const __m256i *>(p)));
}
/// The first n (kLanes at most) lanes to and from signed bytes; the others are 0 and not written.
NI_INLINE I loadS8As32(const int8_t *p, int64_t n) {
  if (n >= kLanes)
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
  return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(__mmask16((1u << n) - 1), p));
}
NI_INLINE void store32As8(int8_t *p, int64_t n, I v) {
  if (n >= kLanes)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm512_cvtepi32_epi8(v));
  else
    _mm_mask_storeu_epi8(p, __mmask16((1u << n) - 1), _mm512_cvtepi32_epi8(v));
}
NI_INLINE F f16HalfToFloat(__m256i v) { return _mm512_cvtph_ps(v); }
NI_INLINE __m256i loadHalfWords(const void *p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
NI_INLINE __m256i loadU8As16Half(const void *p) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i *>(p)));
}

NI_INLINE F loadF(const float *p) { return _mm512_loadu_ps(p); }
NI_INLINE void storeF(float *p, F v) { _mm512_storeu_ps(p, v); }
NI_INLINE F loadPart(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p); }
NI_INLINE void storePart(float *p, int64_t n, F v) { _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v); }
NI_INLINE F setF(float v) { return _mm512_set1_ps(v); }
NI_INLINE F zeroF() { return _mm512_setzero_ps(); }
NI_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
NI_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
NI_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
NI_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
NI_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
NI_INLINE F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
NI_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
NI_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
NI_INLINE F roundF(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
NI_INLINE I roundI(F a) { return _mm512_cvtps_epi32(a); }
/// value where x >= bound, else 0
NI_INLINE F keepFrom(F x, F bound, F value) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, bound, _CMP_GE_OQ), value);
}
/// a in lanes below n (any integer), else b
NI_INLINE F selectBelow(int64_t n, F a, F b) {
  return _mm512_mask_blend_ps(_mm512_cmpgt_epi32_mask(set32(int(n)), lanesI()), b, a);
}
/// a in lanes whose `place` is below n, else b
NI_INLINE F selectPlaces(I place, int64_t n, F a, F b) {
  return _mm512_mask_blend_ps(_mm512_cmpgt_epi32_mask(set32(int(n)), place), b, a);
}
NI_INLINE float firstLane(F v) { return _mm512_cvtss_f32(v); }

NI_INLINE F loadBf16(const uint16_t *p) {
  return castF(sll32<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)))));
}
NI_INLINE F loadBf16Part(const uint16_t *p, int64_t n) {
  return castF(sll32<16>(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(__mmask16((1u << n) - 1), p))));
}
/// The upper 16 bits of every lane in place.
NI_INLINE I highWords(I v) { return _mm512_and_si512(v, set32(int(0xffff0000))); }
/// n words of 16 bits (below 2 * kLanes), then zeros.
NI_INLINE I loadWordsPart(const uint16_t *p, int64_t n) { return _mm512_maskz_loadu_epi16((1u << n) - 1, p); }
NI_INLINE void storeBf16(uint16_t *p, F v) {
  const I u = castI(v);
  const I odd = _mm512_and_si512(srl32<16>(u), set32(1));
  const I r = srl32<16>(add32(add32(u, set32(0x7fff)), odd));
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtepi32_epi16(r));
}
NI_INLINE F loadF16(const uint16_t *p, int64_t n) {
  if (n >= kLanes)
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(__mmask16((1u << n) - 1), p));
}

NI_INLINE float sum(F v) { return _mm512_reduce_add_ps(v); }
NI_INLINE float maxLane(F v) { return _mm512_reduce_max_ps(v); }
NI_INLINE __m128 fold128(F v) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

/// Quarters of the lane sums of four registers: quarter q of the result holds, in order, what quarter q of each sums to.
NI_INLINE F sumQuarters(const F *v) {
  const F a = add(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
  const F b = add(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
  return add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}
/// Lane j: the sum of the lanes of v[j], added in the same order for every j.
NI_INLINE F sumLanes(const F (&v)[16]) {
  const F a = sumQuarters(v), b = sumQuarters(v + 4), c = sumQuarters(v + 8), d = sumQuarters(v + 12);
  const F ab = add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  const F cd = add(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
  return add(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
}
/// Part i of v, of n equal parts, to p + i * stride.
template <int n> NI_INLINE void storeParts(float *p, int64_t stride, F v) {
  if constexpr (n == 1) {
    storeF(p, v);
  } else if constexpr (n == 2) {
    _mm256_storeu_ps(p, _mm512_castps512_ps256(v)), _mm256_storeu_ps(p + stride, _mm512_extractf32x8_ps(v, 1));
  } else {
    static_assert(n == 4);
    _mm_storeu_ps(p, _mm512_castps512_ps128(v)), _mm_storeu_ps(p + stride, _mm512_extractf32x4_ps(v, 1));
    _mm_storeu_ps(p + 2 * stride, _mm512_extractf32x4_ps(v, 2)), _mm_storeu_ps(p + 3 * stride, _mm512_extractf32x4_ps(v, 3));
  }
}

/// [a0 b0 a1 b1 ...] as two registers, and back.
NI_INLINE void interleave(F a, F b, F &lo, F &hi) {
  lo = _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), b);
  hi = _mm512_permutex2var_ps(a, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), b);
}
NI_INLINE void deinterleave(F lo, F hi, F &a, F &b) {
  a = _mm512_permutex2var_ps(lo, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), hi);
  b = _mm512_permutex2var_ps(lo, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), hi);
}

/// A transposition within each quarter of the registers: m[i] word j of a quarter -> m[j] word i.
NI_INLINE void transposeRows(I (&m)[4]) {
  const I a = _mm512_unpacklo_epi32(m[0], m[1]), b = _mm512_unpackhi_epi32(m[0], m[1]);
  const I c = _mm512_unpacklo_epi32(m[2], m[3]), d = _mm512_unpackhi_epi32(m[2], m[3]);
  m[0] = _mm512_unpacklo_epi64(a, c), m[1] = _mm512_unpackhi_epi64(a, c);
  m[2] = _mm512_unpacklo_epi64(b, d), m[3] = _mm512_unpackhi_epi64(b, d);
}
/// 16 bytes at at(q) to quarter q. Masked broadcasts from memory blend; inserts of registers would take a shuffle port.
template <class At> NI_INLINE I loadRows16(const At &at) {
  const auto part = [&](int q) __attribute__((always_inline)) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at(q)));
  };
  I v = _mm512_zextsi128_si512(part(0));
  v = _mm512_mask_broadcast_i32x4(v, 0x00f0, part(1));
  v = _mm512_mask_broadcast_i32x4(v, 0x0f00, part(2));
  return _mm512_mask_broadcast_i32x4(v, 0xf000, part(3));
}
/// 8 bytes at at(r) for every lane r: the first and the second word.
template <class At> NI_INLINE void loadRows8(const At &at, I &first, I &second) {
  const I lanes = lanesI();
  I half[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    I v = zeroI();
#pragma unroll
    for (int r = 0; r < 8; ++r)
      v = _mm512_mask_set1_epi64(v, __mmask8(1 << r), loadScalar<int64_t>(at(8 * h + r)));
    half[h] = v;
  }
  first = _mm512_permutex2var_epi32(half[0], sll32<1>(lanes), half[1]);
  second = _mm512_permutex2var_epi32(half[0], add32(sll32<1>(lanes), set32(1)), half[1]);
}
/// 4 bytes at at(r) for every lane r.
template <class At> NI_INLINE I loadRows4(const At &at) {
  alignas(64) int32_t word[16];
#pragma unroll
  for (int r = 0; r < 16; ++r)
    word[r] = loadScalar<int32_t>(at(r));
  return load(word);
}

/// Each 32-bit lane with its own bytes in the order of `bytes` (index 0..3, or 0x80: zero).
NI_INLINE I shuffleInWords(I v, int bytes) {
  return _mm512_shuffle_epi8(v, add32(_mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c)), set32(bytes)));
}
/// a + b in the bytes where v & mask is 0, else a.
NI_INLINE I addWhereClear(I a, I v, I mask, I b) { return _mm512_mask_add_epi8(a, _mm512_testn_epi8_mask(v, mask), a, b); }
/// The two binary16 numbers of every lane.
NI_INLINE void loadF16Pairs(I words, F &low, F &high) {
  low = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
  high = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(srl32<16>(words)));
}

/// The scales of eight units (two groups each), kept in a register; pick(u) spreads those of unit u.
struct ScaleBank {
  F scales;
  NI_INLINE ScaleBank make(F v) { return {v}; }
  NI_INLINE I cursor(int64_t unit) {
    return add32(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), set32(int(2 * unit)));
  }
  __attribute__((always_inline)) F pick(I cursor) const { return _mm512_permutexvar_ps(cursor, scales); }
};

#else // AVX2

inline constexpr int kVec = 32, kLanes = 8;
using I = __m256i;
using F = __m256;

NI_INLINE I load(const void *p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
NI_INLINE void store(void *p, I v) { _mm256_storeu_si256(static_cast<__m256i *>(p), v); }
NI_INLINE I set8(int v) { return _mm256_set1_epi8(char(v)); }
NI_INLINE I set16(int v) { return _mm256_set1_epi16(short(v)); }
NI_INLINE I set32(int v) { return _mm256_set1_epi32(v); }
NI_INLINE I zeroI() { return _mm256_setzero_si256(); }
NI_INLINE I lanesI() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
template <int n> NI_INLINE I sll16(I v) { return _mm256_slli_epi16(v, n); }
template <int n> NI_INLINE I srl16(I v) { return _mm256_srli_epi16(v, n); }
template <int n> NI_INLINE I sra16(I v) { return _mm256_srai_epi16(v, n); }
template <int n> NI_INLINE I sll32(I v) { return _mm256_slli_epi32(v, n); }
template <int n> NI_INLINE I srl32(I v) { return _mm256_srli_epi32(v, n); }
template <int n> NI_INLINE I sra32(I v) { return _mm256_srai_epi32(v, n); }
NI_INLINE I srlLanes32(I v, I n) { return _mm256_srlv_epi32(v, n); }
NI_INLINE I add32(I a, I b) { return _mm256_add_epi32(a, b); }
NI_INLINE I add16(I a, I b) { return _mm256_add_epi16(a, b); }
NI_INLINE I madd16(I a, I b) { return _mm256_madd_epi16(a, b); }
NI_INLINE I maddU8(I u, I s) { return _mm256_maddubs_epi16(u, s); }
NI_INLINE F toFloat(I v) { return _mm256_cvtepi32_ps(v); }
NI_INLINE I castI(F v) { return _mm256_castps_si256(v); }
NI_INLINE F castF(I v) { return _mm256_castsi256_ps(v); }
NI_INLINE I loadU8As32(const void *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i *>(p))); }
NI_INLINE I loadS16As32(const void *p) { return _mm256_cvtepi16_epi32(_mm_loadu_si128(static_cast<const __m128i *>(p))); }
NI_INLINE I loadS8As32(const int8_t *p, int64_t n) {
  if (n >= kLanes)
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p)));
  alignas(8) int8_t bytes[8] = {};
  for (int64_t i = 0; i < n; ++i)
    bytes[i] = p[i];
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(bytes)));
}
NI_INLINE void store32As8(int8_t *p, int64_t n, I v) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i packed = _mm_packs_epi16(words, words);
  if (n >= kLanes)
    return _mm_storel_epi64(reinterpret_cast<__m128i *>(p), packed);
  alignas(8) int8_t bytes[8];
  _mm_storel_epi64(reinterpret_cast<__m128i *>(bytes), packed);
  for (int64_t i = 0; i < n; ++i)
    p[i] = bytes[i];
}
NI_INLINE F f16HalfToFloat(__m128i v) { return _mm256_cvtph_ps(v); }
NI_INLINE __m128i loadHalfWords(const void *p) { return _mm_loadu_si128(static_cast<const __m128i *>(p)); }
NI_INLINE __m128i loadU8As16Half(const void *p) {
  return _mm_cvtepu8_epi16(_mm_loadl_epi64(static_cast<const __m128i *>(p)));
}

NI_INLINE I firstLanes(int64_t n) { return _mm256_cmpgt_epi32(set32(int(n)), lanesI()); }
NI_INLINE F loadF(const float *p) { return _mm256_loadu_ps(p); }
NI_INLINE void storeF(float *p, F v) { _mm256_storeu_ps(p, v); }
NI_INLINE F loadPart(const float *p, int64_t n) { return _mm256_maskload_ps(p, firstLanes(n)); }
NI_INLINE void storePart(float *p, int64_t n, F v) { _mm256_maskstore_ps(p, firstLanes(n), v); }
NI_INLINE F setF(float v) { return _mm256_set1_ps(v); }
NI_INLINE F zeroF() { return _mm256_setzero_ps(); }
NI_INLINE F add(F a, F b) { return _mm256_add_ps(a, b); }
NI_INLINE F sub(F a, F b) { return _mm256_sub_ps(a, b); }
NI_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
NI_INLINE F div(F a, F b) { return _mm256_div_ps(a, b); }
NI_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
NI_INLINE F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
NI_INLINE F max(F a, F b) { return _mm256_max_ps(a, b); }
NI_INLINE F min(F a, F b) { return _mm256_min_ps(a, b); }
NI_INLINE F roundF(F a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
NI_INLINE I roundI(F a) { return _mm256_cvtps_epi32(a); }
NI_INLINE F keepFrom(F x, F bound, F value) { return _mm256_and_ps(_mm256_cmp_ps(x, bound, _CMP_GE_OQ), value); }
NI_INLINE F selectBelow(int64_t n, F a, F b) { return _mm256_blendv_ps(b, a, castF(firstLanes(n))); }
NI_INLINE F selectPlaces(I place, int64_t n, F a, F b) {
  return _mm256_blendv_ps(b, a, castF(_mm256_cmpgt_epi32(set32(int(n)), place)));
}
NI_INLINE float firstLane(F v) { return _mm256_cvtss_f32(v); }

NI_INLINE F loadBf16(const uint16_t *p) {
  return castF(sll32<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)))));
}
NI_INLINE F loadBf16Part(const uint16_t *p, int64_t n) {
  alignas(16) uint16_t words[8] = {};
  for (int64_t i = 0; i < n; ++i)
    words[i] = p[i];
  return loadBf16(words);
}
NI_INLINE I highWords(I v) { return _mm256_and_si256(v, set32(int(0xffff0000))); }
NI_INLINE I loadWordsPart(const uint16_t *p, int64_t n) {
  alignas(32) uint16_t words[16] = {};
  for (int64_t i = 0; i < n; ++i)
    words[i] = p[i];
  return load(words);
}
NI_INLINE void storeBf16(uint16_t *p, F v) {
  const I u = castI(v);
  const I odd = _mm256_and_si256(srl32<16>(u), set32(1));
  const I r = srl32<16>(add32(add32(u, set32(0x7fff)), odd));
  const I packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_castsi256_si128(packed));
}
/// n is even below kLanes.
NI_INLINE F loadF16(const uint16_t *p, int64_t n) {
  if (n >= kLanes)
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
  const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32(int(n / 2)), _mm_setr_epi32(0, 1, 2, 3));
  return _mm256_cvtph_ps(_mm_maskload_epi32(reinterpret_cast<const int *>(p), mask));
}

NI_INLINE __m128 fold128(F v) { return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)); }
NI_INLINE float sum(F v) {
  __m128 a = fold128(v);
  a = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
NI_INLINE float maxLane(F v) {
  __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}

NI_INLINE F sumQuarters(const F *v) {
  const F a = add(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1]));
  const F b = add(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3]));
  return add(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
}
NI_INLINE F sumLanes(const F (&v)[8]) {
  const F a = sumQuarters(v), b = sumQuarters(v + 4);
  return add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
template <int n> NI_INLINE void storeParts(float *p, int64_t stride, F v) {
  const __m128 low = _mm256_castps256_ps128(v), high = _mm256_extractf128_ps(v, 1);
  if constexpr (n == 1) {
    storeF(p, v);
  } else if constexpr (n == 2) {
    _mm_storeu_ps(p, low), _mm_storeu_ps(p + stride, high);
  } else {
    static_assert(n == 4);
    const auto pair = [](float *to, __m128 from)
                          __attribute__((always_inline)) { _mm_storel_epi64(reinterpret_cast<__m128i *>(to), __builtin_bit_cast(__m128i, from)); };
    pair(p, low), pair(p + stride, _mm_movehl_ps(low, low));
    pair(p + 2 * stride, high), pair(p + 3 * stride, _mm_movehl_ps(high, high));
  }
}

NI_INLINE void interleave(F a, F b, F &lo, F &hi) {
  const F l = _mm256_unpacklo_ps(a, b), h = _mm256_unpackhi_ps(a, b);
  lo = _mm256_permute2f128_ps(l, h, 0x20), hi = _mm256_permute2f128_ps(l, h, 0x31);
}
NI_INLINE void deinterleave(F lo, F hi, F &a, F &b) {
  const F l = _mm256_permute2f128_ps(lo, hi, 0x20), h = _mm256_permute2f128_ps(lo, hi, 0x31);
  a = _mm256_shuffle_ps(l, h, 0x88), b = _mm256_shuffle_ps(l, h, 0xdd);
}

struct ScaleBank {
  alignas(32) float scales[8];
  NI_INLINE ScaleBank make(F v) {
    ScaleBank bank;
    _mm256_store_ps(bank.scales, v);
    return bank;
  }
  NI_INLINE int64_t cursor(int64_t unit) { return unit; }
  __attribute__((always_inline)) F pick(int64_t cursor) const { return _mm256_broadcast_ss(scales + cursor); }
};

#endif

/// m[r] lane d -> m[d] lane r, eight 256-bit registers.
NI_INLINE void transpose8(Half (&m)[8]) {
  Half t[8];
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    const Half a = _mm256_unpacklo_epi32(m[i], m[i + 1]), b = _mm256_unpackhi_epi32(m[i], m[i + 1]);
    const Half c = _mm256_unpacklo_epi32(m[i + 2], m[i + 3]), d = _mm256_unpackhi_epi32(m[i + 2], m[i + 3]);
    t[i] = _mm256_unpacklo_epi64(a, c), t[i + 1] = _mm256_unpackhi_epi64(a, c);
    t[i + 2] = _mm256_unpacklo_epi64(b, d), t[i + 3] = _mm256_unpackhi_epi64(b, d);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    m[j] = _mm256_permute2x128_si256(t[j], t[4 + j], 0x20);
    m[4 + j] = _mm256_permute2x128_si256(t[j], t[4 + j], 0x31);
  }
}
#if !defined(__AVX512F__)
NI_INLINE void transpose(I (&m)[kLanes]) { transpose8(m); }
#else
/// m[r] lane d -> m[d] lane r.
NI_INLINE void transpose(I (&m)[kLanes]) {
  I t[16];
#pragma unroll
  for (int i = 0; i < 16; i += 4) {
    I four[4] = {m[i], m[i + 1], m[i + 2], m[i + 3]};
    transposeRows(four);
    t[i] = four[0], t[i + 1] = four[1], t[i + 2] = four[2], t[i + 3] = four[3];
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) { // t[4*g+j]: rows 4g..4g+3 of columns j, j+4, j+8, j+12
    const I a = _mm512_shuffle_i32x4(t[j], t[4 + j], 0x88), b = _mm512_shuffle_i32x4(t[j], t[4 + j], 0xdd);
    const I c = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0x88), d = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0xdd);
    m[j] = _mm512_shuffle_i32x4(a, c, 0x88), m[8 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
    m[4 + j] = _mm512_shuffle_i32x4(b, d, 0x88), m[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
}
#endif

/// The four lane sums of four registers, in order.
NI_INLINE __m128 sum4(F a, F b, F c, F d) {
  const __m128 w = fold128(a), x = fold128(b), y = fold128(c), z = fold128(d);
  const __m128 p = _mm_add_ps(_mm_unpacklo_ps(w, x), _mm_unpackhi_ps(w, x));
  const __m128 q = _mm_add_ps(_mm_unpacklo_ps(y, z), _mm_unpackhi_ps(y, z));
  return _mm_add_ps(_mm_movelh_ps(p, q), _mm_movehl_ps(q, p));
}

NI_INLINE I broadcast32(const uint8_t *p) { return set32(loadScalar<int32_t>(p)); }

/// acc + the dot products of adjacent int16 pairs.
NI_INLINE I dot16(I acc, I a, I b) {
#if defined(__AVX512VNNI__)
  return _mm512_dpwssd_epi32(acc, a, b);
#else
  return add32(acc, madd16(a, b));
#endif
}

/// acc + the dot products of adjacent quadruples of bytes, exact. VNNI: a unsigned, b signed; Arm: both signed, which is the same
/// for a below 128. Only where kByteDots.
NI_INLINE I dotBytes(I acc, I a, I b) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(acc, a, b);
#elif defined(__ARM_FEATURE_DOTPROD)
  return niDotS8(acc, a, b);
#else
  return (void)a, (void)b, acc;
#endif
}

/// acc + the dot products of adjacent quadruples of unsigned times signed bytes, of two register pairs. Without kByteDots
/// the sums of two pairs are formed in int16: |u| <= 63 keeps them exact (63 * 127 * 4 = 32004).
NI_INLINE I dotU8Twice(I acc, I u0, I s0, I u1, I s1) {
  if constexpr (kByteDots)
    return dotBytes(dotBytes(acc, u0, s0), u1, s1);
  else
    return add32(acc, madd16(add16(maddU8(u0, s0), maddU8(u1, s1)), set16(1)));
}

NI_INLINE F loadSome(const float *p, int64_t n) { return n >= kLanes ? loadF(p) : loadPart(p, n); }
NI_INLINE void storeSome(float *p, int64_t n, F v) {
  if (n >= kLanes)
    storeF(p, v);
  else
    storePart(p, n, v);
}

/// exp(x), relative error below 3e-7 for x in [-87, 88]; 0 below, clamped above.
NI_INLINE F exp(F x) {
  const F low = setF(-87.0f);
  const F y = min(max(x, low), setF(88.0f));
  const F n = roundF(mul(y, setF(0x1.715476p+0f)));                          // 1 / ln 2
  const F r = fnma(n, setF(-0x1.05c610p-29f), fnma(n, setF(0x1.62e430p-1f), y)); // ln 2 in two parts
  F p = setF(1.0f / 5040);
  p = fma(p, r, setF(1.0f / 720));
  p = fma(p, r, setF(1.0f / 120));
  p = fma(p, r, setF(1.0f / 24));
  p = fma(p, r, setF(1.0f / 6));
  p = fma(p, r, setF(0.5f));
  p = fma(p, r, setF(1.0f));
  p = fma(p, r, setF(1.0f));
  const F power = castF(sll32<23>(add32(roundI(n), set32(127))));
  return keepFrom(x, low, mul(p, power));
}

/// A block of an online softmax: `count` scores (whole registers are read; those beyond are masked by the caller) become weights
/// relative to the largest score so far. Returns the factor by which what was summed before must shrink.
NI_INLINE float softmaxBlock(float *scores, int64_t count, float &top, float &total) {
  F largest = setF(top);
#pragma clang loop unroll(disable)
  for (int64_t p = 0; p < count; p += kLanes)
    largest = max(largest, loadF(scores + p));
  const float newTop = maxLane(largest);
  F sums = zeroF();
#pragma clang loop unroll(disable)
  for (int64_t p = 0; p < count; p += kLanes) {
    const F weight = exp(sub(loadF(scores + p), setF(newTop)));
    storeF(scores + p, weight);
    sums = add(sums, weight);
  }
  const float factor = firstLane(exp(setF(top - newTop)));
  total = total * factor + sum(sums);
  top = newTop;
  return factor;
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_VEC_H
