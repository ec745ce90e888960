// The closed registry: formats, layouts, activation policies, their names and the registered pairs.
// The enums and tables are generated from dialects/ninfer/NinferRegistry.td by
// scripts/gen_registry.py into Registry.gen.h. A name is compared exactly; nothing constructs a
// format from bits and group size.
#ifndef NINFER_ARTIFACT_FORMATS_FORMAT_H
#define NINFER_ARTIFACT_FORMATS_FORMAT_H

#include "artifact/formats/Registry.gen.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ninfer {

/// Static facts of one format.
const FormatInfo &formatInfo(Format format);
const LayoutInfo &layoutInfo(Layout layout);
/// All of them, in enum order.
std::span<const FormatInfo> allFormats();
std::span<const LayoutInfo> allLayouts();

/// "Q4G64_F16S", "row-split-k128-v1", "A16Only": IR, plans, reports, framings 1 and 2.
std::string_view canonicalName(Format format);
std::string_view canonicalName(Layout layout);
std::string_view canonicalName(ActivationPolicy policy);
/// "q4_g64_fp16", "row_split_k128_v1": framing 3 directories.
std::string_view v3Name(Format format);
std::string_view v3Name(Layout layout);
std::string_view v3Name(ActivationPolicy policy);

/// Nothing when `name` is not one of the registered spellings.
std::optional<Format> formatFromCanonical(std::string_view name);
std::optional<Format> formatFromV3(std::string_view name);
std::optional<Layout> layoutFromCanonical(std::string_view name);
std::optional<Layout> layoutFromV3(std::string_view name);
std::optional<ActivationPolicy> activationPolicyFromName(std::string_view name);

/// True when `layout` can store `format`.
bool isRegisteredPair(Format format, Layout layout);
/// The one layout registered for the format.
Layout layoutOf(Format format);
/// "BF16/contiguous-le-v1, FP32/contiguous-le-v1, ..." for messages.
std::string listRegisteredPairs();
/// "BF16, FP32, ..." for messages.
std::string listFormats();

} // namespace ninfer

#endif // NINFER_ARTIFACT_FORMATS_FORMAT_H
