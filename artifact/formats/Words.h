// Words of the registered formats: exact decode, validity, and rounding of binary32 to the narrow
// float words. Integer arithmetic on bit patterns only, so no result depends on host FP16 hardware,
// rounding mode or flush-to-zero. Source: docs/formats.md, sections "Words" and "Validity".
#ifndef NINFER_ARTIFACT_FORMATS_WORDS_H
#define NINFER_ARTIFACT_FORMATS_WORDS_H

#include <bit>
#include <cstdint>

namespace ninfer {

/// bfloat16 -> binary32, exact (NaN payloads included).
inline float decodeBf16(uint16_t word) { return std::bit_cast<float>(uint32_t(word) << 16); }

/// binary16 -> binary32, exact (subnormals, infinities, NaN payloads included).
inline float decodeF16(uint16_t word) {
  const uint32_t sign = uint32_t(word & 0x8000) << 16;
  const uint32_t exponent = (word >> 10) & 31;
  uint32_t fraction = word & 0x3ff;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0)
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  if (fraction == 0)
    return std::bit_cast<float>(sign);
  const uint32_t shift = uint32_t(std::countl_zero(fraction)) - 21; // leading one to bit 10
  fraction = (fraction << shift) & 0x3ff;
  return std::bit_cast<float>(sign | (113 - shift) << 23 | fraction << 13);
}

/// E4M3FN -> binary32, exact. The two NaN words (0x7f, 0xff) give a quiet NaN of that sign.
inline float decodeE4m3fn(uint8_t word) {
  const uint32_t sign = uint32_t(word & 0x80) << 24;
  const uint32_t exponent = (word >> 3) & 15;
  uint32_t fraction = word & 7;
  if (exponent == 15 && fraction == 7)
    return std::bit_cast<float>(sign | 0x7fc00000);
  if (exponent != 0)
    return std::bit_cast<float>(sign | (exponent + 120) << 23 | fraction << 20);
  if (fraction == 0)
    return std::bit_cast<float>(sign);
  const uint32_t shift = uint32_t(std::countl_zero(fraction)) - 28; // leading one to bit 3
  fraction = (fraction << shift) & 7;
  return std::bit_cast<float>(sign | (121 - shift) << 23 | fraction << 20);
}

/// E2M1 -> binary32, exact. Only the low four bits count.
inline float decodeE2m1(uint8_t word) {
  constexpr float kValues[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const uint32_t magnitude = std::bit_cast<uint32_t>(kValues[word & 7]);
  return std::bit_cast<float>(magnitude | uint32_t(word & 8) << 28);
}

/// Two's-complement code of `bits` bits -> signed value.
inline int32_t signExtend(uint32_t word, uint32_t bits) {
  const uint32_t sign = uint32_t(1) << (bits - 1);
  return int32_t((word & (2 * sign - 1)) ^ sign) - int32_t(sign);
}

/// binary32 -> binary16, round to nearest, ties to even. Overflow gives infinity; NaN gives a quiet
/// NaN that keeps the sign and the upper payload bits.
uint16_t roundToF16(float value);
/// binary32 -> bfloat16, round to nearest, ties to even. Same rules.
uint16_t roundToBf16(float value);
/// binary32 -> E4M3FN, round to nearest, ties to even. Magnitudes above 464 (where 448 would round
/// to the next step) and NaN give the NaN word of that sign.
uint8_t roundToE4m3fn(float value);

// Validity of stored words.

/// Finite, sign bit 0 (positive zero and subnormals included): scale of the grouped integer
/// formats.
inline bool isValidF16Scale(uint16_t word) { return word < 0x7c00; }
/// Finite, sign bit 0: row scale of FP8_E4M3FN_ROW_BF16S.
inline bool isValidBf16Scale(uint16_t word) { return word < 0x7f80; }
/// Finite, sign bit 0: block scale of NVFP4.
inline bool isValidE4m3fnScale(uint8_t word) { return word < 0x7f; }
/// Finite: code of FP8_E4M3FN_ROW_BF16S.
inline bool isValidE4m3fnCode(uint8_t word) { return (word & 0x7f) != 0x7f; }
/// Finite and > 0: divisor of NVFP4.
inline bool isValidDivisor(uint32_t word) { return word != 0 && word < 0x7f800000; }

// Represented values.

/// Grouped integer formats: binary32(scale * code). The product is exact.
inline float reconstructGrouped(uint16_t scaleF16, int32_t code) {
  return decodeF16(scaleF16) * float(code);
}
/// FP8_E4M3FN_ROW_BF16S: binary32(code * scale), one rounding.
inline float reconstructRowScaled(uint16_t scaleBf16, uint8_t code) {
  return decodeE4m3fn(code) * decodeBf16(scaleBf16);
}
/// NVFP4: the exact product code * scale, then one correctly rounded binary32 division by the
/// divisor.
inline float reconstructBlockScaled(uint8_t scaleE4m3, uint8_t codeE2m1, uint32_t divisor) {
  return decodeE2m1(codeE2m1) * decodeE4m3fn(scaleE4m3) / std::bit_cast<float>(divisor);
}

} // namespace ninfer

#endif // NINFER_ARTIFACT_FORMATS_WORDS_H
