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

bool encodeRowBaseline(Format format, const float *x, size_t k, int8_t *codes, uint16_t *scales) {
  return encodeRow(format, x, k, codes, scales);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool encodeRowAvx2(Format format, const float *x, size_t k, int8_t *codes,
                                           uint16_t *scales) {
  return encodeRow(format, x, k, codes, scales);
}
#endif

RowFunction selectRowFunction() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return encodeRowAvx2;
#endif
  return encodeRowBaseline;
}

} // namespace

Status encodeRowFast(Format format, std::span<const float> row, std::span<int8_t> codes,
                     std::span<uint16_t> scales) {
  static const RowFunction function = selectRowFunction();
  NINFER_RETURN_IF_ERROR(
      encode_checks::groupedArguments(format, row.size(), codes.size(), scales.size()));
  if (function(format, row.data(), row.size(), codes.data(), scales.data()))
    return {};
  return encodeRowCanonical(format, row, codes, scales);
}

Status encodeFp8Row(std::span<const float> row, std::span<uint8_t> codes, uint16_t &scale) {
  const std::string_view name = canonicalName(Format::FP8_E4M3FN_ROW_BF16S);
  if (row.empty() || codes.size() != row.size())
    return makeError(ErrorKind::Failed, "NB0205",
                     std::string(name) + ": row of " + std::to_string(row.size()) +
                         " values needs as many codes, got " + std::to_string(codes.size()));
  uint32_t amaxBits = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(row[i]);
    if ((bits & 0x7fffffff) >= 0x7f800000)
      return encode_checks::nonFiniteSource(name, i, bits);
    amaxBits = std::max(amaxBits, bits & 0x7fffffff);
  }
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
  for (size_t i = 0; i < row.size(); ++i)
    codes[i] = roundToE4m3fn(std::clamp(row[i] * inverse, -448.0f, 448.0f));
  return {};
}

} // namespace ninfer
