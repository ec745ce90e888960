#include "artifact/formats/Words.h"

namespace ninfer {

namespace {

/// value / 2^shift, to nearest, ties to even; shift in 1..63.
uint32_t shiftRoundEven(uint64_t value, unsigned shift) {
  const uint64_t kept = value >> shift;
  const uint64_t rest = value & ((uint64_t(1) << shift) - 1);
  const uint64_t half = uint64_t(1) << (shift - 1);
  return uint32_t(kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0));
}

/// Magnitude of a finite binary32 -> magnitude bits of a narrower binary format with `fractionBits`
/// and exponent bias `bias`, subnormals included. A carry out of the fraction runs into the
/// exponent, as it must; the result may lie beyond the largest finite word, which the caller
/// judges.
uint32_t roundMagnitude(uint32_t magnitude, unsigned fractionBits, int bias) {
  const uint32_t biased = magnitude >> 23;
  const uint64_t significand = (magnitude & 0x7fffff) | (biased ? 0x800000 : 0);
  const int exponent = biased ? int(biased) - 127 : -126; // value = significand * 2^(exponent - 23)
  const int lowest = 1 - bias; // exponent of the narrow format's subnormals
  const unsigned drop = 23 - fractionBits;
  if (exponent >= lowest) {
    const uint32_t rounded = drop ? shiftRoundEven(significand, drop) : uint32_t(significand);
    // `rounded` holds the hidden bit at position fractionBits unless the binary32 was subnormal
    // itself.
    return (uint32_t(exponent + bias - 1) << fractionBits) + rounded;
  }
  const unsigned shift = drop + unsigned(lowest - exponent);
  return shift > 40 ? 0 : shiftRoundEven(significand, shift);
}

} // namespace

uint16_t roundToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude == 0x7f800000)
    return uint16_t(sign | 0x7c00);
  const uint32_t rounded = roundMagnitude(magnitude, 10, 15);
  return uint16_t(sign | (rounded >= 0x7c00 ? 0x7c00 : rounded));
}

uint16_t roundToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return uint16_t(bits >> 16 | 0x0040);
  // Same exponent range as binary32: rounding is an addition, and the carry may reach infinity.
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint8_t roundToE4m3fn(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 24 & 0x80;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x7f800000)
    return uint8_t(sign | 0x7f);
  const uint32_t rounded = roundMagnitude(magnitude, 3, 7);
  return uint8_t(sign | (rounded >= 0x7f ? 0x7f : rounded));
}

} // namespace ninfer
