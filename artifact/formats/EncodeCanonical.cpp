// The oracle of MAXABS_F16_RECIP_RNE_V1: the ordered algorithm of docs/formats.md with every
// operation done on integers. It uses no floating-point instruction and shares no arithmetic with
// the fast encoder or with Words.h, so a fault of host, compiler flags or those files shows as a
// difference in the tests.
#include "artifact/formats/Encode.h"
#include "artifact/formats/EncodeChecks.h"

#include <bit>

namespace ninfer {

namespace {

/// A nonnegative finite number significand * 2^exponent.
struct Magnitude {
  uint64_t significand = 0;
  int exponent = 0;
};

Magnitude fromBinary32(uint32_t magnitudeBits) {
  const uint32_t biased = magnitudeBits >> 23;
  if (biased == 0)
    return {magnitudeBits, -149};
  return {(magnitudeBits & 0x7fffff) | 0x800000, int(biased) - 150};
}

Magnitude fromBinary16(uint16_t magnitudeBits) {
  const uint32_t biased = magnitudeBits >> 10;
  if (biased == 0)
    return {magnitudeBits, -24};
  return {uint64_t(magnitudeBits & 0x3ff) | 0x400, int(biased) - 25};
}

/// floor(value / 2^shift) and what the dropped part says about rounding to nearest, ties to even.
uint64_t dropBits(uint64_t value, int shift, bool sticky) {
  if (shift <= 0)
    return value << -shift; // callers shift left only within 64 bits, and then nothing is dropped
  if (shift > 64)
    return 0;
  const bool half = (value >> (shift - 1)) & 1;
  const bool below = sticky || (shift > 1 && (value << (65 - shift)) != 0);
  const uint64_t kept = shift == 64 ? 0 : value >> shift;
  return kept + (half && (below || (kept & 1)) ? 1 : 0);
}

/// Rounds to a binary format with `precision` significand bits (hidden bit included), lowest unit
/// 2^minExponent (that of the subnormals). `sticky` says that the true value exceeds `value` by
/// less than one unit of its last place. Returns the rounded number; the significand is at most
/// 2^precision.
Magnitude roundTo(Magnitude value, bool sticky, int precision, int minExponent) {
  if (value.significand == 0)
    return {0, minExponent};
  const int width = 64 - std::countl_zero(value.significand);
  int exponent = value.exponent + width - precision;
  if (exponent < minExponent)
    exponent = minExponent;
  return {dropBits(value.significand, exponent - value.exponent, sticky), exponent};
}

constexpr int kPrecision32 = 24, kMinExponent32 = -149;
constexpr int kPrecision16 = 11, kMinExponent16 = -24;

Magnitude multiply32(Magnitude a, Magnitude b) {
  // At most 24 + 24 bits: exact in 64.
  return roundTo({a.significand * b.significand, a.exponent + b.exponent}, false, kPrecision32,
                 kMinExponent32);
}

Magnitude divide32(Magnitude a, Magnitude b) {
  // Quotient with more than 24 significant bits; the remainder decides what lies below.
  const int lift = std::countl_zero(a.significand);
  const uint64_t dividend = a.significand << lift;
  return roundTo({dividend / b.significand, a.exponent - lift - b.exponent},
                 dividend % b.significand != 0, kPrecision32, kMinExponent32);
}

/// Word of a magnitude already rounded to binary16 precision; 0x7c00 when it lies beyond the finite
/// range.
uint16_t toBinary16Word(Magnitude value) {
  uint64_t significand = value.significand;
  int exponent = value.exponent;
  if (significand == uint64_t(1) << kPrecision16) { // rounded up to the next power of two
    significand >>= 1;
    ++exponent;
  }
  if (significand < 0x400)
    return uint16_t(significand); // zero or subnormal: the unit is 2^-24
  const int biased = exponent + 25;
  return biased >= 31 ? 0x7c00 : uint16_t(biased << 10 | int(significand & 0x3ff));
}

int32_t encodeOne(uint32_t bits, Magnitude inverse, int32_t qmin, int32_t qmax) {
  const Magnitude normalized = multiply32(fromBinary32(bits & 0x7fffffff), inverse);
  // |x| <= amax, and the scale is at least 2/3 of amax / qmax, so the result is below 2 * qmax and
  // its unit below 1.
  int32_t rounded = int32_t(dropBits(normalized.significand, -normalized.exponent, false));
  if (bits >> 31)
    rounded = -rounded;
  return rounded < qmin ? qmin : rounded > qmax ? qmax : rounded;
}

} // namespace

Status encodeRowCanonical(Format format, std::span<const float> row, std::span<int8_t> codes,
                          std::span<uint16_t> scales) {
  NINFER_RETURN_IF_ERROR(
      encode_checks::groupedArguments(format, row.size(), codes.size(), scales.size()));
  const FormatInfo &info = formatInfo(format);
  for (size_t group = 0, first = 0; first < row.size(); ++group, first += info.groupSize) {
    const size_t last = first + info.groupSize < row.size() ? first + info.groupSize : row.size();
    uint32_t amax = 0; // magnitudes of finite binary32 values order like their bit patterns
    for (size_t i = first; i < last; ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(row[i]);
      const uint32_t magnitude = bits & 0x7fffffff;
      if (magnitude >= 0x7f800000)
        return encode_checks::nonFiniteSource(info.canonical, i, bits);
      amax = magnitude > amax ? magnitude : amax;
    }
    if (amax == 0) {
      scales[group] = 0;
      for (size_t i = first; i < last; ++i)
        codes[i] = 0;
      continue;
    }
    const Magnitude raw = divide32(fromBinary32(amax), {uint64_t(info.qmax), 0});
    uint16_t scale = toBinary16Word(roundTo(raw, false, kPrecision16, kMinExponent16));
    if (scale == 0)
      scale = 0x0001;
    if (scale >= 0x7c00)
      return encode_checks::scaleOverflow(info.canonical, group, amax);
    scales[group] = scale;
    const Magnitude inverse = divide32({1, 0}, fromBinary16(scale));
    for (size_t i = first; i < last; ++i)
      codes[i] = int8_t(encodeOne(std::bit_cast<uint32_t>(row[i]), inverse, info.qmin, info.qmax));
  }
  return {};
}

} // namespace ninfer
