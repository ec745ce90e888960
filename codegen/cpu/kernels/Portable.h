// The 128 and 256-bit operations of the micro-kernels for targets other than x86: the same names and the same results as
// <immintrin.h> (for inputs that MicroKernels.h allows), written with clang's vector extensions, which the backend turns
// into its own instructions (AArch64: pairs of 128-bit NEON registers). Only what the AVX2 level uses is here.
#ifndef NINFER_CODEGEN_CPU_KERNELS_PORTABLE_H
#define NINFER_CODEGEN_CPU_KERNELS_PORTABLE_H

#include <stdint.h>
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

// NOLINTBEGIN: names of the vendor's interface

typedef float __m128 __attribute__((__vector_size__(16), __aligned__(16)));
typedef long long __m128i __attribute__((__vector_size__(16), __aligned__(16)));
typedef float __m256 __attribute__((__vector_size__(32), __aligned__(32)));
typedef long long __m256i __attribute__((__vector_size__(32), __aligned__(32)));

namespace ninfer::micro::portable {

using S8x16 = int8_t __attribute__((__vector_size__(16)));
using U8x16 = uint8_t __attribute__((__vector_size__(16)));
using S16x8 = int16_t __attribute__((__vector_size__(16)));
using U16x8 = uint16_t __attribute__((__vector_size__(16)));
using S32x4 = int32_t __attribute__((__vector_size__(16)));
using U32x4 = uint32_t __attribute__((__vector_size__(16)));
using H4 = _Float16 __attribute__((__vector_size__(8)));
using S8x8 = int8_t __attribute__((__vector_size__(8)));
using U8x8 = uint8_t __attribute__((__vector_size__(8)));
using S8x32 = int8_t __attribute__((__vector_size__(32)));
using U8x32 = uint8_t __attribute__((__vector_size__(32)));
using S16x16 = int16_t __attribute__((__vector_size__(32)));
using U16x16 = uint16_t __attribute__((__vector_size__(32)));
using S32x8 = int32_t __attribute__((__vector_size__(32)));
using U32x8 = uint32_t __attribute__((__vector_size__(32)));
using S64x4 = int64_t __attribute__((__vector_size__(32)));
using H8 = _Float16 __attribute__((__vector_size__(16)));
using S16x32 = int16_t __attribute__((__vector_size__(64)));
using S32x16 = int32_t __attribute__((__vector_size__(64)));

} // namespace ninfer::micro::portable

#define NI_OP static inline __attribute__((always_inline))

namespace ninfer::micro {

using namespace portable;

template <class V> NI_OP V niLoad(const void *p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class V> NI_OP void niStore(void *p, V v) { __builtin_memcpy(p, &v, sizeof v); }

enum { _MM_FROUND_TO_NEAREST_INT = 0, _MM_FROUND_NO_EXC = 8, _CMP_GE_OQ = 29, _MM_HINT_T1 = 2 };

NI_OP void _mm_prefetch(const char *p, int) { __builtin_prefetch(p, 0, 2); }

// --- memory

NI_OP __m128 _mm_loadu_ps(const float *p) { return niLoad<__m128>(p); }
NI_OP __m256 _mm256_loadu_ps(const float *p) { return niLoad<__m256>(p); }
NI_OP __m128i _mm_loadu_si128(const __m128i *p) { return niLoad<__m128i>(p); }
NI_OP __m256i _mm256_loadu_si256(const __m256i *p) { return niLoad<__m256i>(p); }
NI_OP __m128i _mm_loadl_epi64(const __m128i *p) { return __m128i{niLoad<long long>(p), 0}; }
NI_OP __m128 _mm_load_ss(const float *p) { return __m128{*p, 0, 0, 0}; }
NI_OP __m256 _mm256_broadcast_ss(const float *p) { return __m256{} + *p; }
NI_OP void _mm_storeu_ps(float *p, __m128 v) { niStore(p, v); }
NI_OP void _mm_store_ps(float *p, __m128 v) { niStore(p, v); }
NI_OP void _mm_store_ss(float *p, __m128 v) { *p = v[0]; }
NI_OP void _mm256_storeu_ps(float *p, __m256 v) { niStore(p, v); }
NI_OP void _mm256_store_ps(float *p, __m256 v) { niStore(p, v); }
NI_OP void _mm_storeu_si128(__m128i *p, __m128i v) { niStore(p, v); }
NI_OP void _mm256_storeu_si256(__m256i *p, __m256i v) { niStore(p, v); }
NI_OP void _mm_storel_epi64(__m128i *p, __m128i v) { niStore(p, (long long)v[0]); }
// Lanes whose mask has its sign bit set; the others are not touched, since they may lie beyond a page.
NI_OP __m256 _mm256_maskload_ps(const float *p, __m256i mask) {
  const S32x8 m = (S32x8)mask;
  __m256 v = {};
  for (int i = 0; i < 8; ++i)
    if (m[i] < 0)
      v[i] = p[i];
  return v;
}
NI_OP void _mm256_maskstore_ps(float *p, __m256i mask, __m256 v) {
  const S32x8 m = (S32x8)mask;
  for (int i = 0; i < 8; ++i)
    if (m[i] < 0)
      p[i] = v[i];
}
NI_OP __m128i _mm_maskload_epi32(const int *p, __m128i mask) {
  const S32x4 m = (S32x4)mask;
  S32x4 v = {};
  for (int i = 0; i < 4; ++i)
    if (m[i] < 0)
      v[i] = niLoad<int32_t>(p + i);
  return (__m128i)v;
}

// --- constants and casts

NI_OP __m128 _mm_set1_ps(float v) { return __m128{v, v, v, v}; }
NI_OP __m128 _mm_set_ss(float v) { return __m128{v, 0, 0, 0}; }
NI_OP __m128i _mm_set1_epi16(short v) { return (__m128i)(S16x8{v, v, v, v, v, v, v, v}); }
NI_OP __m128i _mm_set1_epi32(int v) { return (__m128i)(S32x4{v, v, v, v}); }
NI_OP __m128i _mm_setr_epi32(int a, int b, int c, int d) { return (__m128i)(S32x4{a, b, c, d}); }
NI_OP __m128i _mm_set_epi64x(long long high, long long low) { return __m128i{low, high}; }
NI_OP __m128i _mm_cvtsi32_si128(int v) { return (__m128i)(S32x4{v, 0, 0, 0}); }
NI_OP int _mm_cvtsi128_si32(__m128i v) { return ((S32x4)v)[0]; }
NI_OP float _mm_cvtss_f32(__m128 v) { return v[0]; }
NI_OP __m256 _mm256_set1_ps(float v) { return __m256{v, v, v, v, v, v, v, v}; }
NI_OP __m256 _mm256_setzero_ps() { return __m256{}; }
NI_OP __m256i _mm256_setzero_si256() { return __m256i{}; }
NI_OP __m256i _mm256_set1_epi8(char v) { return (__m256i)(S8x32{} + (int8_t)v); }
NI_OP __m256i _mm256_set1_epi16(short v) { return (__m256i)(S16x16{} + v); }
NI_OP __m256i _mm256_set1_epi32(int v) { return (__m256i)(S32x8{} + v); }
NI_OP __m256i _mm256_set1_epi64x(long long v) { return __m256i{v, v, v, v}; }
NI_OP __m256i _mm256_setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h) {
  return (__m256i)(S32x8{a, b, c, d, e, f, g, h});
}
template <class... T> NI_OP __m256i _mm256_setr_epi8(T... v) { return (__m256i)(S8x32{(int8_t)v...}); }
NI_OP __m128 _mm256_castps256_ps128(__m256 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
NI_OP __m128i _mm256_castsi256_si128(__m256i v) { return __builtin_shufflevector(v, v, 0, 1); }
NI_OP __m256i _mm256_castsi128_si256(__m128i v) { return __builtin_shufflevector(v, v, 0, 1, 0, 1); }
NI_OP __m256i _mm256_castps_si256(__m256 v) { return (__m256i)v; }
NI_OP __m256 _mm256_castsi256_ps(__m256i v) { return (__m256)v; }
NI_OP float _mm256_cvtss_f32(__m256 v) { return v[0]; }
#define _mm256_extractf128_ps(v, half) ((half) ? __builtin_shufflevector(v, v, 4, 5, 6, 7) : __builtin_shufflevector(v, v, 0, 1, 2, 3))
#define _mm256_extracti128_si256(v, half) ((half) ? __builtin_shufflevector(v, v, 2, 3) : __builtin_shufflevector(v, v, 0, 1))
NI_OP __m256i _mm256_inserti128_si256(__m256i v, __m128i part, int half) {
  return half ? __m256i{v[0], v[1], part[0], part[1]} : __m256i{part[0], part[1], v[2], v[3]};
}
NI_OP __m256i _mm256_broadcastsi128_si256(__m128i v) { return __builtin_shufflevector(v, v, 0, 1, 0, 1); }

// --- floating point

NI_OP __m128 _mm_add_ps(__m128 a, __m128 b) { return a + b; }
NI_OP __m128 _mm_sub_ps(__m128 a, __m128 b) { return a - b; }
NI_OP __m128 _mm_mul_ps(__m128 a, __m128 b) { return a * b; }
NI_OP __m128 _mm_max_ps(__m128 a, __m128 b) { return a > b ? a : b; }
NI_OP __m128 _mm_add_ss(__m128 a, __m128 b) { return __m128{a[0] + b[0], a[1], a[2], a[3]}; }
NI_OP __m128 _mm_max_ss(__m128 a, __m128 b) { return __m128{a[0] > b[0] ? a[0] : b[0], a[1], a[2], a[3]}; }
NI_OP __m128 _mm_sqrt_ss(__m128 a) { return __m128{__builtin_elementwise_sqrt(a[0]), a[1], a[2], a[3]}; }
NI_OP __m256 _mm256_add_ps(__m256 a, __m256 b) { return a + b; }
NI_OP __m256 _mm256_sub_ps(__m256 a, __m256 b) { return a - b; }
NI_OP __m256 _mm256_mul_ps(__m256 a, __m256 b) { return a * b; }
NI_OP __m256 _mm256_div_ps(__m256 a, __m256 b) { return a / b; }
NI_OP __m256 _mm256_fmadd_ps(__m256 a, __m256 b, __m256 c) { return __builtin_elementwise_fma(a, b, c); }
NI_OP __m256 _mm256_fnmadd_ps(__m256 a, __m256 b, __m256 c) { return __builtin_elementwise_fma(-a, b, c); }
NI_OP __m256 _mm256_max_ps(__m256 a, __m256 b) { return a > b ? a : b; }
NI_OP __m256 _mm256_min_ps(__m256 a, __m256 b) { return a < b ? a : b; }
NI_OP __m256 _mm256_and_ps(__m256 a, __m256 b) { return (__m256)((S32x8)a & (S32x8)b); }
NI_OP __m256 _mm256_andnot_ps(__m256 a, __m256 b) { return (__m256)(~(S32x8)a & (S32x8)b); }
/// To nearest even, which is the only mode asked for.
NI_OP __m256 _mm256_round_ps(__m256 a, int) { return __builtin_elementwise_roundeven(a); }
NI_OP __m256i _mm256_cvtps_epi32(__m256 a) {
  return (__m256i)__builtin_convertvector(__builtin_elementwise_roundeven(a), S32x8);
}
NI_OP __m256 _mm256_cvtepi32_ps(__m256i a) { return __builtin_convertvector((S32x8)a, __m256); }
/// a >= b, the only comparison asked for.
NI_OP __m256 _mm256_cmp_ps(__m256 a, __m256 b, int) { return (__m256)(S32x8)(a >= b); }
NI_OP __m256 _mm256_blendv_ps(__m256 a, __m256 b, __m256 mask) { return ((S32x8)mask < 0) ? b : a; }
NI_OP __m128 _mm_cvtph_ps(__m128i v) {
  return __builtin_convertvector((H4)__builtin_shufflevector(v, v, 0), __m128);
}
NI_OP __m256 _mm256_cvtph_ps(__m128i v) { return __builtin_convertvector((H8)v, __m256); }
NI_OP __m128i _mm_cvtps_ph(__m128 v, int) {
  return __m128i{(long long)__builtin_convertvector(v, H4), 0};
}

// --- integers

NI_OP __m128i _mm_add_epi32(__m128i a, __m128i b) { return (__m128i)((U32x4)a + (U32x4)b); }
NI_OP __m128i _mm_and_si128(__m128i a, __m128i b) { return a & b; }
NI_OP __m128i _mm_cmpgt_epi32(__m128i a, __m128i b) { return (__m128i)((S32x4)a > (S32x4)b); }
NI_OP __m128i _mm_slli_epi16(__m128i a, int n) { return (__m128i)((U16x8)a << (uint16_t)n); }
NI_OP __m128i _mm_srai_epi16(__m128i a, int n) { return (__m128i)((S16x8)a >> (int16_t)n); }
NI_OP __m256i _mm256_add_epi8(__m256i a, __m256i b) { return (__m256i)((U8x32)a + (U8x32)b); }
NI_OP __m256i _mm256_add_epi16(__m256i a, __m256i b) { return (__m256i)((U16x16)a + (U16x16)b); }
NI_OP __m256i _mm256_add_epi32(__m256i a, __m256i b) { return (__m256i)((U32x8)a + (U32x8)b); }
NI_OP __m256i _mm256_sub_epi32(__m256i a, __m256i b) { return (__m256i)((U32x8)a - (U32x8)b); }
NI_OP __m256i _mm256_and_si256(__m256i a, __m256i b) { return a & b; }
NI_OP __m256i _mm256_or_si256(__m256i a, __m256i b) { return a | b; }
NI_OP __m256i _mm256_cmpeq_epi8(__m256i a, __m256i b) { return (__m256i)((S8x32)a == (S8x32)b); }
NI_OP __m256i _mm256_cmpgt_epi32(__m256i a, __m256i b) { return (__m256i)((S32x8)a > (S32x8)b); }
NI_OP __m256i _mm256_slli_epi16(__m256i a, int n) { return (__m256i)((U16x16)a << (uint16_t)n); }
NI_OP __m256i _mm256_srli_epi16(__m256i a, int n) { return (__m256i)((U16x16)a >> (uint16_t)n); }
NI_OP __m256i _mm256_srai_epi16(__m256i a, int n) { return (__m256i)((S16x16)a >> (int16_t)n); }
NI_OP __m256i _mm256_slli_epi32(__m256i a, int n) { return (__m256i)((U32x8)a << (uint32_t)n); }
NI_OP __m256i _mm256_srli_epi32(__m256i a, int n) { return (__m256i)((U32x8)a >> (uint32_t)n); }
NI_OP __m256i _mm256_srai_epi32(__m256i a, int n) { return (__m256i)((S32x8)a >> n); }
/// A count of 32 or more gives 0.
NI_OP __m256i _mm256_srlv_epi32(__m256i a, __m256i n) {
  const U32x8 count = (U32x8)n;
  return (__m256i)((count < 32) ? (U32x8)a >> (count & 31) : U32x8{});
}
/// Sums of the products of adjacent int16 pairs, int32.
NI_OP __m256i _mm256_madd_epi16(__m256i a, __m256i b) {
  const S32x16 p = __builtin_convertvector((S16x16)a, S32x16) * __builtin_convertvector((S16x16)b, S32x16);
  return (__m256i)((U32x8)__builtin_shufflevector(p, p, 0, 2, 4, 6, 8, 10, 12, 14) +
                   (U32x8)__builtin_shufflevector(p, p, 1, 3, 5, 7, 9, 11, 13, 15));
}
/// Sums of the products of adjacent pairs of unsigned and signed bytes, int16. The callers keep them below 2^15, where
/// saturation does not happen.
NI_OP __m256i _mm256_maddubs_epi16(__m256i u, __m256i s) {
  const S16x32 p = __builtin_convertvector((U8x32)u, S16x32) * __builtin_convertvector((S8x32)s, S16x32);
  return (__m256i)(__builtin_shufflevector(p, p, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
                   __builtin_shufflevector(p, p, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
}
#if defined(__ARM_FEATURE_DOTPROD)
/// acc + the dot products of adjacent quadruples of signed bytes (SDOT). Not a name of <immintrin.h>: Vec.h has it for dotBytes.
NI_OP __m256i niDotS8(__m256i acc, __m256i a, __m256i b) {
  const auto half = [](__m128i c, __m128i x, __m128i y) __attribute__((always_inline)) {
    return __builtin_bit_cast(__m128i, vdotq_s32(__builtin_bit_cast(int32x4_t, c), __builtin_bit_cast(int8x16_t, x),
                                                 __builtin_bit_cast(int8x16_t, y)));
  };
  const __m128i low = half(_mm256_castsi256_si128(acc), _mm256_castsi256_si128(a), _mm256_castsi256_si128(b));
  const __m128i high = half(_mm256_extracti128_si256(acc, 1), _mm256_extracti128_si256(a, 1), _mm256_extracti128_si256(b, 1));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3);
}
#endif
NI_OP __m256i _mm256_cvtepu8_epi32(__m128i v) {
  return (__m256i)__builtin_convertvector((U8x8)__builtin_shufflevector(v, v, 0), S32x8);
}
NI_OP __m256i _mm256_cvtepi8_epi32(__m128i v) {
  return (__m256i)__builtin_convertvector((S8x8)__builtin_shufflevector(v, v, 0), S32x8);
}
NI_OP __m256i _mm256_cvtepi16_epi32(__m128i v) { return (__m256i)__builtin_convertvector((S16x8)v, S32x8); }
NI_OP __m256i _mm256_cvtepu16_epi32(__m128i v) { return (__m256i)__builtin_convertvector((U16x8)v, S32x8); }
NI_OP __m256i _mm256_cvtepu8_epi16(__m128i v) { return (__m256i)__builtin_convertvector((U8x16)v, S16x16); }
NI_OP __m128i _mm_cvtepu8_epi16(__m128i v) {
  return (__m128i)__builtin_convertvector((U8x8)__builtin_shufflevector(v, v, 0), S16x8);
}

template <class V> NI_OP V niClamp(V v, int low, int high) {
  v = v < low ? V{} + low : v;
  return v > high ? V{} + high : v;
}
/// Signed saturation of a then b.
NI_OP __m128i _mm_packs_epi32(__m128i a, __m128i b) {
  const S32x8 v = __builtin_shufflevector((S32x4)a, (S32x4)b, 0, 1, 2, 3, 4, 5, 6, 7);
  return (__m128i)__builtin_convertvector(niClamp(v, -32768, 32767), S16x8);
}
NI_OP __m128i _mm_packs_epi16(__m128i a, __m128i b) {
  const S16x16 v = __builtin_shufflevector((S16x8)a, (S16x8)b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const S32x16 wide = __builtin_convertvector(v, S32x16);
  return (__m128i)__builtin_convertvector(niClamp(wide, -128, 127), S8x16);
}
/// Unsigned saturation, a and b in turn for each half.
NI_OP __m256i _mm256_packus_epi32(__m256i a, __m256i b) {
  const S32x16 v = __builtin_shufflevector((S32x8)a, (S32x8)b, 0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15);
  return (__m256i)__builtin_convertvector(niClamp(v, 0, 65535), U16x16);
}

// --- orders of lanes

NI_OP __m128 _mm_unpacklo_ps(__m128 a, __m128 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
NI_OP __m128 _mm_unpackhi_ps(__m128 a, __m128 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
NI_OP __m128 _mm_movelh_ps(__m128 a, __m128 b) { return __builtin_shufflevector(a, b, 0, 1, 4, 5); }
NI_OP __m128 _mm_movehl_ps(__m128 a, __m128 b) { return __builtin_shufflevector(a, b, 6, 7, 2, 3); }
NI_OP __m128 _mm_movehdup_ps(__m128 a) { return __builtin_shufflevector(a, a, 1, 1, 3, 3); }
#define _mm_shuffle_epi32(a, order)                                                                                    \
  ((__m128i)__builtin_shufflevector((::ninfer::micro::S32x4)(a), (::ninfer::micro::S32x4)(a), (order) & 3, (order) >> 2 & 3, (order) >> 4 & 3, (order) >> 6 & 3))
NI_OP __m256 _mm256_unpacklo_ps(__m256 a, __m256 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13); }
NI_OP __m256 _mm256_unpackhi_ps(__m256 a, __m256 b) { return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15); }
NI_OP __m256i _mm256_unpacklo_epi32(__m256i a, __m256i b) { return (__m256i)_mm256_unpacklo_ps((__m256)a, (__m256)b); }
NI_OP __m256i _mm256_unpackhi_epi32(__m256i a, __m256i b) { return (__m256i)_mm256_unpackhi_ps((__m256)a, (__m256)b); }
NI_OP __m256i _mm256_unpacklo_epi64(__m256i a, __m256i b) { return __builtin_shufflevector(a, b, 0, 4, 2, 6); }
NI_OP __m256i _mm256_unpackhi_epi64(__m256i a, __m256i b) { return __builtin_shufflevector(a, b, 1, 5, 3, 7); }
/// Halves by number: 0, 1 of a, 2, 3 of b. Zeroing is not asked for.
#define _mm256_permute2x128_si256(a, b, order)                                                                         \
  __builtin_shufflevector(a, b, ((order) & 3) * 2, ((order) & 3) * 2 + 1, ((order) >> 4 & 3) * 2, ((order) >> 4 & 3) * 2 + 1)
#define _mm256_permute2f128_ps(a, b, order)                                                                            \
  ((__m256)_mm256_permute2x128_si256((__m256i)(a), (__m256i)(b), order))
#define _mm256_permute4x64_epi64(a, order)                                                                             \
  __builtin_shufflevector(a, a, (order) & 3, (order) >> 2 & 3, (order) >> 4 & 3, (order) >> 6 & 3)
/// Within each half: two lanes of a, then two of b.
#define _mm256_shuffle_ps(a, b, order)                                                                                 \
  __builtin_shufflevector(a, b, (order) & 3, (order) >> 2 & 3, 8 + ((order) >> 4 & 3), 8 + ((order) >> 6 & 3),        \
                          4 + ((order) & 3), 4 + ((order) >> 2 & 3), 12 + ((order) >> 4 & 3), 12 + ((order) >> 6 & 3))
#define NI_BLEND16(i, order) (((order) >> ((i) % 8) & 1) ? 16 + (i) : (i))
#define _mm256_blend_epi16(a, b, order)                                                                                \
  ((__m256i)__builtin_shufflevector(                                                                                   \
      (::ninfer::micro::S16x16)(a), (::ninfer::micro::S16x16)(b), NI_BLEND16(0, order), NI_BLEND16(1, order),          \
      NI_BLEND16(2, order), NI_BLEND16(3, order), NI_BLEND16(4, order), NI_BLEND16(5, order), NI_BLEND16(6, order),    \
      NI_BLEND16(7, order), NI_BLEND16(8, order), NI_BLEND16(9, order), NI_BLEND16(10, order), NI_BLEND16(11, order),  \
      NI_BLEND16(12, order), NI_BLEND16(13, order), NI_BLEND16(14, order), NI_BLEND16(15, order)))
/// Bytes of each half by the low four bits of `order`, 0 where its sign bit is set.
NI_OP __m256i _mm256_shuffle_epi8(__m256i v, __m256i order) {
  const U8x32 from = (U8x32)v, at = (U8x32)order;
  U8x32 out;
#if defined(__aarch64__)
  // NEON's table look-up gives 0 beyond 15, so one mask makes both rules.
  const U8x32 index = at & (uint8_t)0x8f;
  const auto half = [](U8x16 table, U8x16 i) __attribute__((always_inline)) {
    return __builtin_bit_cast(U8x16, vqtbl1q_u8(__builtin_bit_cast(uint8x16_t, table), __builtin_bit_cast(uint8x16_t, i)));
  };
  const U8x16 low = half(__builtin_shufflevector(from, from, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         __builtin_shufflevector(index, index, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  const U8x16 high = half(__builtin_shufflevector(from, from, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31),
                          __builtin_shufflevector(index, index, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31));
  out = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
                                26, 27, 28, 29, 30, 31);
#else
  for (int i = 0; i < 32; ++i)
    out[i] = at[i] & 0x80 ? uint8_t(0) : from[(i & 16) + (at[i] & 15)];
#endif
  return (__m256i)out;
}
/// Lanes of v by the low three bits of `order`.
NI_OP __m256 _mm256_permutevar8x32_ps(__m256 v, __m256i order) {
  const U32x8 at = (U32x8)order;
  alignas(32) float from[8];
  niStore(from, v);
  __m256 out;
  for (int i = 0; i < 8; ++i)
    out[i] = from[at[i] & 7];
  return out;
}

} // namespace ninfer::micro

#undef NI_OP

// NOLINTEND

#endif // NINFER_CODEGEN_CPU_KERNELS_PORTABLE_H
