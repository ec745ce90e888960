// Spellings of formats, layouts and encodings per framing. The closed registry
// (artifact/formats/Format.h) is the one table; this says which of its names a framing knows.
// Compared exactly: the spelling of another framing is an unknown name.
#ifndef NINFER_ARTIFACT_CONTAINER_NAMES_H
#define NINFER_ARTIFACT_CONTAINER_NAMES_H

#include "artifact/formats/Format.h"

#include <optional>
#include <string>
#include <string_view>

namespace ninfer {

/// Framing 1 knows the seven formats without FP4 and FP8 and their two layouts; framing 2 all, both
/// in canonical spelling; framing 3 all in its own spelling. Nothing for another name.
std::optional<Format> formatOfName(int framing, std::string_view name);
std::optional<Layout> layoutOfName(int framing, std::string_view name);

/// How a framing spells them. Nothing when it does not know the format or layout.
std::optional<std::string_view> nameInFraming(int framing, Format format);
std::optional<std::string_view> nameInFraming(int framing, Layout layout);

/// Encoding of resources: "raw-bytes-v1" in framings 1 and 2, "raw_bytes_v1" in 3.
std::string_view rawEncodingName(int framing);

/// "BF16, FP32, ..." as the framing spells them, for messages.
std::string listFormatNames(int framing);
std::string listLayoutNames(int framing);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_NAMES_H
