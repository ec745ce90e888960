// Source encoders. MAXABS_F16_RECIP_RNE_V1 (grouped integer formats) exists twice: a bit-level
// oracle whose every rounding is done in integers, and a fast encoder that tests hold equal to it,
// code for code. MAXABS_BF16S_RECIP_E4M3FN_RNE_V1 encodes FP8_E4M3FN_ROW_BF16S. Source:
// docs/formats.md, section "Encoders".
#ifndef NINFER_ARTIFACT_FORMATS_ENCODE_H
#define NINFER_ARTIFACT_FORMATS_ENCODE_H

#include "artifact/formats/Format.h"
#include "support/Status.h"

#include <cstdint>
#include <span>

namespace ninfer {

inline constexpr const char *kGroupedEncoderProfile = "MAXABS_F16_RECIP_RNE_V1";
inline constexpr const char *kFp8RowEncoderProfile = "MAXABS_BF16S_RECIP_E4M3FN_RNE_V1";

/// The oracle. Encodes one row of K logical values into K signed codes and ceil(K/G) binary16 scale
/// words. Fails with NB0206 (a source value is NaN or infinite: names the element), NB0207 (the
/// scale of a group does not fit binary16: names the group and its largest magnitude), NB0205
/// (wrong span sizes, or not a grouped integer format).
Status encodeRowCanonical(Format format, std::span<const float> row, std::span<int8_t> codes,
                          std::span<uint16_t> scales);

/// The same function, fast: bit-equal codes, scales and errors for every input.
Status encodeRowFast(Format format, std::span<const float> row, std::span<int8_t> codes,
                     std::span<uint16_t> scales);

/// Encodes one row into K E4M3FN words and one bfloat16 row scale. Fails with NB0206 as above, or
/// NB0208 when the row's largest magnitude is nonzero but so small (at most 455 * 2^-128) that the
/// reciprocal of its scale is infinite.
Status encodeFp8Row(std::span<const float> row, std::span<uint8_t> codes, uint16_t &scale);

} // namespace ninfer

#endif // NINFER_ARTIFACT_FORMATS_ENCODE_H
