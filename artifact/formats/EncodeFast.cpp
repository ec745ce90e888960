// The production encoders. Plain loops over one group at a time that compilers vectorise, compiled
// once for the baseline CPU and, on x86-64, once more for AVX2. Correct only without value-changing
// float options (no fast-math, no contraction: cmake/NinferLibrary.cmake) and with the default
// floating-point environment.
#include "artifact/formats/Encode.h"
#include "artifact/formats/EncodeChecks.h"
#include "artifact/formats/Words.h"

#include <algorithm>
#include <bit>

namespace ninfer {

namespace {

/// False: some value is not finite or the scale overflows; the caller asks the oracle for the
/// error.
template <int kGroup, int kQmin, int kQmax>
[[gnu::always_inline]] inline bool encodeGroup(const float *__restrict x, int count,
                                               int8_t *__restrict codes, uint16_t *scaleOut) {
  int32_t amaxBits = 0;
  for (int i = 0; i < count; ++i)
    amaxBits = std::max(amaxBits, std::bit_cast<int32_t>(x[i]) & 0x7fffffff);
  if (amaxBits == 0) {
    std::fill_n(codes, count, int8_t(0));
    *scaleOut = 0;
    return true;
  }
  if (amaxBits >= 0x7f800000)
    return false;
  uint16_t scale = roundToF16(std::bit_cast<float>(amaxBits) / float(kQmax));
  if (scale == 0)
    scale = 0x0001;
  if (!isValidF16Scale(scale))
    return false;
  *scaleOut = scale;
  const float inverse = 1.0f / decodeF16(scale);
  // |x * inverse| stays below 2^9, so adding 1.5 * 2^23 leaves the value, rounded to nearest even,
  // in the low bits of the sum.
  constexpr float kMagic = 12582912.0f;
  constexpr int32_t kMagicBits = 0x4b400000;
  for (int i = 0; i < count; ++i) {
    const int32_t rounded = std::bit_cast<int32_t>(x[i] * inverse + kMagic) - kMagicBits;
    codes[i] = int8_t(std::clamp(rounded, kQmin, kQmax));
  }
  return true;
}

template <int kGroup, int kQmin, int kQmax>
[[gnu::always_inline]] inline bool encodeGroups(const float *x, size_t k, int8_t *codes,
                                                uint16_t *scales) {
  for (; k >= kGroup; k -= kGroup, x += kGroup, codes += kGroup)
    if (!encodeGroup<kGroup, kQmin, kQmax>(x, kGroup, codes, scales++))
      return false;
  return k == 0 || encodeGroup<kGroup, kQmin, kQmax>(x, int(k), codes, scales);
}

[[gnu::always_inline]] inline bool encodeRow(Format format, const float *x, size_t k, int8_t *codes,
                                             uint16_t *scales) {
  switch (format) {
  case Format::Q4G64_F16S:
    return encodeGroups<64, -8, 7>(x, k, codes, scales);
  case Format::Q5G64_F16S:
    return encodeGroups<64, -16, 15>(x, k, codes, scales);
  case Format::Q6G64_F16S:
    return encodeGroups<64, -32, 31>(x, k, codes, scales);
  case Format::W8G32_F16S:
    return encodeGroups<32, -127, 127>(x, k, codes, scales);
  default:
    return false; // refused by the argument check before
  }
}

using RowFunction = bool (*)(Format, const float *, size_t, int8_t *, uint16_t *);

/// E4M3FN words of x[i] * inverse, clipped to +-448. Two roundings that do not branch: above 2^-6
/// the fraction of the binary32 word is rounded to three bits, below it the value to multiples of
/// 2^-9.
[[gnu::always_inline]] inline void encodeE4m3fn(const float *__restrict x, size_t count,
                                                float inverse, uint8_t *__restrict codes) {
  for (size_t i = 0; i < count; ++i) {
    const float v = std::clamp(x[i] * inverse, -448.0f, 448.0f);
    const uint32_t bits = std::bit_cast<uint32_t>(v), magnitude = bits & 0x7fffffff;
    const uint32_t rounded = (magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
    const uint32_t normal = rounded - (120u << 3);
    // The unit of 2^14 is 2^-9, so the sum holds the count of units in its low bits.
    constexpr float kMagic = 16384.0f;
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + kMagic) -
                               std::bit_cast<uint32_t>(kMagic);
    const uint32_t code = magnitude < 0x3c800000 ? subnormal : normal;
    codes[i] = uint8_t(code | (bits >> 24 & 0x80));
  }
}

[[gnu::always_inline]] inline uint32_t largestMagnitude(const float *x, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffff);
  return largest;
}

struct RowFunctions {
  RowFunction grouped;
  void (*e4m3fn)(const float *, size_t, float, uint8_t *);
  uint32_t (*largest)(const float *, size_t);
};

bool encodeRowBaseline(Format format, const float *x, size_t k, int8_t *codes, uint16_t *scales) {
  return encodeRow(format, x, k, codes, scales);
}
void encodeE4m3fnBaseline(const float *x, size_t count, float inverse, uint8_t *codes) {
  encodeE4m3fn(x, count, inverse, codes);
}
uint32_t largestBaseline(const float *x, size_t count) { return largestMagnitude(x, count); }

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool encodeRowAvx2(Format format, const float *x, size_t k, int8_t *codes,
                                           uint16_t *scales) {
  return encodeRow(format, x, k, codes, scales);
}
[[gnu::target("avx2")]] void encodeE4m3fnAvx2(const float *x, size_t count, float inverse,
                                              uint8_t *codes) {
  encodeE4m3fn(x, count, inverse, codes);
}
[[gnu::target("avx2")]] uint32_t largestAvx2(const float *x, size_t count) {
  return largestMagnitude(x, count);
}
#endif

const RowFunctions &rowFunctions() {
  static const RowFunctions functions = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
      return RowFunctions{encodeRowAvx2, encodeE4m3fnAvx2, largestAvx2};
#endif
    return RowFunctions{encodeRowBaseline, encodeE4m3fnBaseline, largestBaseline};
  }();
  return functions;
}

} // namespace

Status encodeRowFast(Format format, std::span<const float> row, std::span<int8_t> codes,
                     std::span<uint16_t> scales) {
  NINFER_RETURN_IF_ERROR(
      encode_checks::groupedArguments(format, row.size(), codes.size(), scales.size()));
  if (rowFunctions().grouped(format, row.data(), row.size(), codes.data(), scales.data()))
    return {};
  return encodeRowCanonical(format, row, codes, scales);
}

Status encodeFp8Row(std::span<const float> row, std::span<uint8_t> codes, uint16_t &scale) {
  const std::string_view name = canonicalName(Format::FP8_E4M3FN_ROW_BF16S);
  if (row.empty() || codes.size() != row.size())
    return makeError(ErrorKind::Failed, "NB0205",
                     std::string(name) + ": row of " + std::to_string(row.size()) +
                         " values needs as many codes, got " + std::to_string(codes.size()));
  const uint32_t amaxBits = rowFunctions().largest(row.data(), row.size());
  if (amaxBits >= 0x7f800000)
    for (size_t i = 0; i < row.size(); ++i)
      if (const uint32_t bits = std::bit_cast<uint32_t>(row[i]); (bits & 0x7fffffff) >= 0x7f800000)
        return encode_checks::nonFiniteSource(name, i, bits);
  if (amaxBits == 0) {
    scale = 0;
    std::fill(codes.begin(), codes.end(), uint8_t(0));
    return {};
  }
  const uint16_t rounded = roundToBf16(std::bit_cast<float>(amaxBits) / 448.0f);
  scale = rounded == 0 ? 0x0001 : rounded;
  const float inverse = 1.0f / decodeBf16(scale);
  if ((std::bit_cast<uint32_t>(inverse) & 0x7fffffff) >= 0x7f800000) {
    char word[16];
    std::snprintf(word, sizeof word, "0x%08x", amaxBits);
    return makeError(ErrorKind::BadFile, "NB0208",
                     std::string(name) + ": largest magnitude of the row, binary32 " + word +
                         ", is too small: the reciprocal of its scale is infinite");
  }
  rowFunctions().e4m3fn(row.data(), row.size(), inverse, codes.data());
  return {};
}

} // namespace ninfer
