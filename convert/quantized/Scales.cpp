#include "convert/quantized/Scales.h"

#include "artifact/formats/Words.h"
#include "support/Bytes.h"

#include <bit>
#include <cmath>
#include <cstdio>

namespace ninfer {

namespace {

/// Faults no reader of the checkpoint could accept either.
Status checkScaleValue(float value, const ScalePlace &place) {
  const char *fault = std::isnan(value)       ? "NaN"
                      : std::isinf(value)     ? "infinite"
                      : std::signbit(value)   ? "negative"
                                              : nullptr;
  if (!fault)
    return Status();
  return makeError(ErrorKind::BadFile, "NB0326",
                   scaleText(place) + ": scale " + valueText(value) + " is " + fault);
}

Error inexact(float value, const ScalePlace &place, const char *rule) {
  return makeError(ErrorKind::Unsupported, "NB0327",
                   scaleText(place) + ": scale " + valueText(value) + ": refused (" + rule + ")");
}

} // namespace

bool isFloatWord(SourceType type) {
  return type == SourceType::F32 || type == SourceType::F16 || type == SourceType::BF16;
}

float floatWord(SourceType type, std::span<const std::byte> words, uint64_t index) {
  switch (type) {
  case SourceType::F32:
    return std::bit_cast<float>(loadLe32(words.data() + 4 * index));
  case SourceType::F16:
    return decodeF16(loadLe16(words.data() + 2 * index));
  default:
    return decodeBf16(loadLe16(words.data() + 2 * index));
  }
}

std::optional<uint16_t> exactF16(float value) {
  const uint16_t word = roundToF16(value);
  if (std::bit_cast<uint32_t>(decodeF16(word)) != std::bit_cast<uint32_t>(value))
    return std::nullopt;
  return word;
}

std::optional<uint16_t> exactBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (bits & 0xffff)
    return std::nullopt;
  return static_cast<uint16_t>(bits >> 16);
}

Result<uint16_t> groupScale(float value, const ScalePlace &place) {
  NINFER_RETURN_IF_ERROR(checkScaleValue(value, place));
  if (std::optional<uint16_t> word = exactF16(value))
    return *word;
  return inexact(value, place, "group scale must be binary16, and this value is none");
}

Result<uint16_t> rowScale(float value, const ScalePlace &place) {
  NINFER_RETURN_IF_ERROR(checkScaleValue(value, place));
  if (std::optional<uint16_t> word = exactBf16(value))
    return *word;
  return inexact(value, place, "row scale must be bfloat16");
}

std::string scaleText(const ScalePlace &place) {
  std::string out = place.component.place() + " row " + std::to_string(place.row);
  return place.group ? out + " group " + std::to_string(*place.group) : out;
}

std::string valueText(float value) {
  char text[64];
  std::snprintf(text, sizeof text, "0x%08x (%.9g)", std::bit_cast<uint32_t>(value),
                static_cast<double>(value));
  return text;
}

} // namespace ninfer
