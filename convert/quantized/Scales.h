// Scale words of quantized checkpoints: from the stored floating type to the word of a registered
// format, only when the value stays the same.
#ifndef NINFER_CONVERT_QUANTIZED_SCALES_H
#define NINFER_CONVERT_QUANTIZED_SCALES_H

#include "convert/quantized/PackedWeight.h"

#include <optional>
#include <string>

namespace ninfer {

/// True for F32, F16 and BF16.
bool isFloatWord(SourceType type);
/// Value of element `index` of little-endian words of a float type; exact.
float floatWord(SourceType type, std::span<const std::byte> words, uint64_t index);

/// The binary16 / bfloat16 word of the same value (zero and sign included), or nothing.
std::optional<uint16_t> exactF16(float value);
std::optional<uint16_t> exactBf16(float value);

/// Where a bad word lies, for messages.
struct ScalePlace {
  const PackedComponent &component;
  uint64_t row = 0;
  std::optional<uint64_t> group; ///< of the row, in the source's groups; nothing for row scales
};

/// The legal scale of a grouped integer format (positive zero or positive, finite, binary16) for a
/// stored value. Errors name file, tensor, row, group and the value: BadFile (NB0326) NaN, infinite
/// or negative; Unsupported (NB0327) not exactly a binary16 value.
Result<uint16_t> groupScale(float value, const ScalePlace &place);
/// The same for the bfloat16 row scale of FP8_E4M3FN_ROW_BF16S ("row scale must be bfloat16").
Result<uint16_t> rowScale(float value, const ScalePlace &place);

/// "model.safetensors: tensor 'x.weight_scale' row 3 group 2".
std::string scaleText(const ScalePlace &place);
/// "0x3f800000 (1.000000e+00)" of a binary32 value, for messages.
std::string valueText(float value);

} // namespace ninfer

#endif // NINFER_CONVERT_QUANTIZED_SCALES_H
