// The integer-code weight formats as the integer kernels see them: one register of the base plane at a time.
//
// A unit is the codes whose base-plane bytes fill one register: 64 codes per 32 bytes (q4, q5, q6; two codes a byte)
// or 32 codes per 32 bytes (w8). A 256-bit unit is one scale group, a 512-bit unit is two. Rows are padded to 128
// codes, so a row is a whole number of units on every level.
//
// unpack() turns a unit into kOps operand registers, and packed activations have the same lane order (Pack.h): 32-bit
// lane d of a unit holds codes 8d..8d+7 (w8: 4d..4d+3), and within that lane operand j holds
//   q4 q5 q6, int16: codes 8d+j and 8d+4+j, j = 0..3, unsigned: code + 2^kBits-1
//   q4 q5 q6, int8:  codes 8d+j, +2, +4, +6, j = 0..1, unsigned likewise
//   w8, int16:       codes 4d+j and 4d+2+j, j = 0..1, signed
//   w8, int8:        codes 4d..4d+3; VNNI unsigned: code + 128, Arm's dot product signed
// Unsigned operands are off by a constant, so a kernel starts its sums at -constant * (sum of the activations).
#ifndef NINFER_CODEGEN_CPU_KERNELS_INTFORMATS_H
#define NINFER_CODEGEN_CPU_KERNELS_INTFORMATS_H

#include "codegen/cpu/kernels/Vec.h"

namespace ninfer::micro {

/// Rows are given by plane pointers of their first byte.
struct IntRow {
  const uint8_t *base, *high;
  const uint16_t *scales;
};

struct IntPlanes {
  const uint8_t *base, *high;
  const uint16_t *scales;
};

template <int bits> struct IntFormat {
  static constexpr int kBits = bits;
  static constexpr int kGroup = bits == 8 ? 32 : 64;
  static constexpr int kUnitCodes = kGroup * (kVec / 32);
  static constexpr int kUnitGroups = kVec / 32;
  static constexpr int kHighBytes = bits == 5 ? kVec / 4 : bits == 6 ? kVec / 2 : 0; ///< per unit

  static constexpr int64_t paddedK(int64_t k) { return (k + 127) / 128 * 128; }
  static constexpr int64_t units(int64_t k) { return paddedK(k) / kUnitCodes; }

  NI_INLINE IntPlanes planes(const void *p0, const void *p1, const void *p2) {
    constexpr bool high = bits == 5 || bits == 6;
    return {static_cast<const uint8_t *>(p0), high ? static_cast<const uint8_t *>(p1) : nullptr,
            static_cast<const uint16_t *>(high ? p2 : p1)};
  }
  NI_INLINE IntRow row(const IntPlanes &p, int64_t k, int64_t n) {
    const int64_t u = units(k) * n;
    return {p.base + u * kVec, kHighBytes ? p.high + u * kHighBytes : nullptr, p.scales + u * kUnitGroups};
  }
};

/// Offset codes of a unit as bytes: even codes in lo, odd codes in hi.
template <int bits> NI_INLINE void unpackBytes(const uint8_t *base, const uint8_t *high, I &lo, I &hi) {
  const I v = load(base);
  constexpr int flip = bits == 4 ? 0x08 : 0;
  lo = (v ^ set8(flip * 0x11)) & set8(0x0f);
  hi = (srl16<4>(v) ^ set8(flip)) & set8(0x0f);
  if constexpr (bits == 5) { // byte i of lo wants bit 2i of the high plane, hi bit 2i+1; a clear bit sets 16
#if defined(__AVX512F__)
    const I spread = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i *>(high)));
    const I quads = _mm512_set_epi8(15, 15, 15, 15, 14, 14, 14, 14, 13, 13, 13, 13, 12, 12, 12, 12, 11, 11, 11, 11, 10,
                                    10, 10, 10, 9, 9, 9, 9, 8, 8, 8, 8, 7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4,
                                    3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const I bits5 = _mm512_shuffle_epi8(spread, quads);
    const __mmask64 even = _mm512_testn_epi8_mask(bits5, set32(0x40100401));
    const __mmask64 odd = _mm512_testn_epi8_mask(bits5, set32(int(0x80200802u)));
    lo = _mm512_mask_add_epi8(lo, even, lo, set8(16));
    hi = _mm512_mask_add_epi8(hi, odd, hi, set8(16));
#else
    const I spread = _mm256_set1_epi64x(loadScalar<int64_t>(high));
    const I quads = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6,
                                     7, 7, 7, 7);
    const I bits5 = _mm256_shuffle_epi8(spread, quads);
    const I even = _mm256_cmpeq_epi8(bits5 & set32(0x40100401), zeroI());
    const I odd = _mm256_cmpeq_epi8(bits5 & set32(int(0x80200802u)), zeroI());
    lo |= even & set8(16);
    hi |= odd & set8(16);
#endif
  }
  if constexpr (bits == 6) { // word w has codes 4w..4w+3; byte w of the high plane has their bits 4..5
#if defined(__AVX512F__)
    const I p = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(high)));
#else
    const I p = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(high)));
#endif
    const I pairs = (p | sll16<4>(p)) ^ set8(0x0a); // each byte: bits 0..1 even, bits 2..3 odd code, sign flipped
    lo |= sll16<4>(pairs) & set8(0x30);
    hi |= sll16<2>(pairs) & set8(0x30);
  }
}

/// One unit as operands for 16-bit products (Bytes = 2) or 8-bit products (Bytes = 1).
template <int bits, int Bytes> struct Operands;

template <int bits> struct Operands<bits, 2> {
  static constexpr int kOps = 4;
  static constexpr int kOffsetLog = bits - 1; ///< operands are codes + 2^kOffsetLog; 0: signed codes
  NI_INLINE void unpack(const uint8_t *base, const uint8_t *high, I (&op)[kOps]) {
    I lo, hi;
    unpackBytes<bits>(base, high, lo, hi);
    split(lo, hi, op);
  }
  NI_INLINE void split(I lo, I hi, I (&op)[kOps]) {
    op[0] = lo & set16(0xff), op[1] = hi & set16(0xff);
    op[2] = srl16<8>(lo), op[3] = srl16<8>(hi);
  }
  NI_INLINE I dot(I acc, const I (&op)[kOps], const I (&x)[kOps]) {
    return dot16(dot16(dot16(dot16(acc, op[0], x[0]), op[1], x[1]), op[2], x[2]), op[3], x[3]);
  }
};

template <int bits> struct Operands<bits, 1> {
  static constexpr int kOps = 2;
  static constexpr int kOffsetLog = bits - 1;
  NI_INLINE void unpack(const uint8_t *base, const uint8_t *high, I (&op)[kOps]) {
    unpackBytes<bits>(base, high, op[0], op[1]);
  }
  NI_INLINE I dot(I acc, const I (&op)[kOps], const I (&x)[kOps]) { return dotU8Twice(acc, op[0], x[0], op[1], x[1]); }
};

template <> struct Operands<8, 2> {
  static constexpr int kOps = 2;
  static constexpr int kOffsetLog = 0;
  NI_INLINE void unpack(const uint8_t *base, const uint8_t *, I (&op)[kOps]) { split(load(base), op); }
  NI_INLINE void split(I v, I (&op)[kOps]) { op[0] = sra16<8>(sll16<8>(v)), op[1] = sra16<8>(v); }
  NI_INLINE I dot(I acc, const I (&op)[kOps], const I (&x)[kOps]) {
    return dot16(dot16(acc, op[0], x[0]), op[1], x[1]);
  }
};

/// Only where kByteDots.
template <> struct Operands<8, 1> {
  static constexpr int kOps = 1;
  static constexpr int kOffsetLog = kVnni ? 7 : 0;
  NI_INLINE void unpack(const uint8_t *base, const uint8_t *, I (&op)[kOps]) { split(load(base), op); }
  NI_INLINE void split(I v, I (&op)[kOps]) { op[0] = kVnni ? v ^ set8(0x80) : v; }
  NI_INLINE I dot(I acc, const I (&op)[kOps], const I (&x)[kOps]) { return dotBytes(acc, op[0], x[0]); }
};

/// Bytes per activation of profile a8 for w8: on AVX2 and AVX-512 without VNNI 8-bit products need a detour through absolute values
/// that costs more than 16-bit products, so a8 runs as a16 there (finer than asked for).
inline constexpr int kA8BytesForW8 = kByteDots ? 1 : 2;

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_INTFORMATS_H
