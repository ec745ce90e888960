#include "inspect/ReferenceEncoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ninfer {

namespace {

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Word of a nonnegative value in a format with `fractionBits` and the exponent bias `bias`,
/// rounded to nearest, ties to even. Beyond the largest exponent the result keeps counting; callers
/// compare.
uint32_t nearestWord(double value, int fractionBits, int bias) {
  if (value == 0)
    return 0;
  const int lowest = 1 - bias; // exponent of the smallest normal number and of all subnormals
  const int exponent = std::max(std::ilogb(value), lowest);
  const double unit = std::ldexp(1.0, exponent - fractionBits);
  const auto steps = uint32_t(std::nearbyint(value / unit)); // ties to even: the default mode
  // A significand that rounds up to the next power of two carries into the exponent by itself.
  return uint32_t(exponent - lowest) * (1u << fractionBits) + steps;
}

bool groupedRow(const ReferenceLayout &layout, std::span<const float> x, int qmin, int qmax,
                ReferenceRow &out) {
  for (uint64_t g = 0; g < layout.groups; ++g) {
    const uint64_t first = g * layout.groupColumns;
    const uint64_t last = std::min(first + layout.groupColumns, layout.columns);
    float amax = 0;
    for (uint64_t k = first; k < last; ++k) {
      if (!std::isfinite(x[k]))
        return false;
      amax = std::max(amax, std::fabs(x[k]));
    }
    if (amax == 0) {
      out.scales[g] = 0;
      std::fill(out.codes.begin() + int64_t(first), out.codes.begin() + int64_t(last), 0);
      continue;
    }
    const float raw = amax / float(qmax);
    const uint32_t scale = std::max(nearestWord(double(raw), 10, 15), 1u);
    if (scale >= 0x7c00)
      return false;
    out.scales[g] = scale;
    const auto inverse = float(1.0 / referenceF16(scale)); // a quotient rounded once, see above
    for (uint64_t k = first; k < last; ++k) {
      const float product = x[k] * inverse;
      out.codes[k] = int32_t(std::clamp(std::nearbyint(product), float(qmin), float(qmax)));
    }
  }
  return true;
}

bool fp8Row(std::span<const float> x, ReferenceRow &out) {
  float amax = 0;
  for (float v : x) {
    if (!std::isfinite(v))
      return false;
    amax = std::max(amax, std::fabs(v));
  }
  if (amax == 0) {
    out.scales[0] = 0;
    std::fill(out.codes.begin(), out.codes.end(), 0);
    return true;
  }
  const uint32_t scale = std::max(nearestWord(double(amax / 448.0f), 7, 127), 1u);
  const float inverse = 1.0f / referenceBf16(scale);
  if (!std::isfinite(inverse))
    return false;
  out.scales[0] = scale;
  for (size_t k = 0; k < x.size(); ++k) {
    const float v = std::clamp(x[k] * inverse, -448.0f, 448.0f);
    const uint32_t sign = std::signbit(v) ? 0x80 : 0;
    out.codes[k] = int32_t(sign + nearestWord(std::fabs(double(v)), 3, 7));
  }
  return true;
}

bool directRow(Format format, std::span<const float> x, ReferenceRow &out) {
  for (size_t k = 0; k < x.size(); ++k) {
    if (!std::isfinite(x[k]))
      return false;
    if (format == Format::FP32) {
      out.codes[k] = int32_t(bitsOf(x[k]));
      continue;
    }
    const uint32_t word = nearestWord(std::fabs(double(x[k])), 7, 127);
    if (word >= 0x7f80)
      return false;
    out.codes[k] = int32_t((std::signbit(x[k]) ? 0x8000u : 0u) + word);
  }
  return true;
}

} // namespace

bool prescribedRow(const ReferenceLayout &layout, std::span<const float> values,
                   ReferenceRow &out) {
  out.codes.resize(layout.columns);
  out.scales.resize(layout.groups);
  out.divisor = 0;
  switch (layout.format) {
  case Format::Q4G64_F16S:
    return groupedRow(layout, values, -8, 7, out);
  case Format::Q5G64_F16S:
    return groupedRow(layout, values, -16, 15, out);
  case Format::Q6G64_F16S:
    return groupedRow(layout, values, -32, 31, out);
  case Format::W8G32_F16S:
    return groupedRow(layout, values, -127, 127, out);
  case Format::FP8_E4M3FN_ROW_BF16S:
    return fp8Row(values, out);
  case Format::BF16:
  case Format::FP32:
    return directRow(layout.format, values, out);
  default:
    return false;
  }
}

bool movedRow(SourceType type, std::span<const std::byte> row, ReferenceRow &out) {
  constexpr size_t kBlock = 32;
  const size_t blocks = out.codes.size() / kBlock, bytes = row.size() / blocks;
  out.scales.resize(blocks);
  out.divisor = 0;
  for (size_t b = 0; b < blocks; ++b) {
    const ReferenceBlock words = referenceBlock(type, row.subspan(b * bytes, bytes));
    const bool negative = words.scale >= 0x8000;
    out.scales[b] = words.scale % 0x8000;
    if (out.scales[b] >= 0x7c00 || words.scale == 0x8000)
      return false;
    for (size_t i = 0; i < kBlock; ++i) {
      const int32_t code = words.scale == 0 ? 0 : negative ? -words.codes[i] : words.codes[i];
      if (code < -127 || code > 127)
        return false;
      out.codes[b * kBlock + i] = code;
    }
  }
  return true;
}

} // namespace ninfer
