#include "artifact/formats/Format.h"

namespace ninfer {

const FormatInfo &formatInfo(Format format) { return kFormatTable[size_t(format)]; }
const LayoutInfo &layoutInfo(Layout layout) { return kLayoutTable[size_t(layout)]; }
std::span<const FormatInfo> allFormats() { return kFormatTable; }
std::span<const LayoutInfo> allLayouts() { return kLayoutTable; }

std::string_view canonicalName(Format format) { return formatInfo(format).canonical; }
std::string_view canonicalName(Layout layout) { return layoutInfo(layout).canonical; }
std::string_view canonicalName(ActivationPolicy policy) {
  return kActivationPolicyTable[size_t(policy)].name;
}
std::string_view v3Name(Format format) { return formatInfo(format).v3; }
std::string_view v3Name(Layout layout) { return layoutInfo(layout).v3; }
std::string_view v3Name(ActivationPolicy policy) { return canonicalName(policy); }

std::optional<Format> formatFromCanonical(std::string_view name) {
  for (const FormatInfo &info : kFormatTable)
    if (info.canonical == name)
      return info.format;
  return std::nullopt;
}

std::optional<Format> formatFromV3(std::string_view name) {
  for (const FormatInfo &info : kFormatTable)
    if (info.v3 == name)
      return info.format;
  return std::nullopt;
}

std::optional<Layout> layoutFromCanonical(std::string_view name) {
  for (const LayoutInfo &info : kLayoutTable)
    if (info.canonical == name)
      return info.layout;
  return std::nullopt;
}

std::optional<Layout> layoutFromV3(std::string_view name) {
  for (const LayoutInfo &info : kLayoutTable)
    if (info.v3 == name)
      return info.layout;
  return std::nullopt;
}

std::optional<ActivationPolicy> activationPolicyFromName(std::string_view name) {
  for (const ActivationPolicyInfo &info : kActivationPolicyTable)
    if (info.name == name)
      return info.policy;
  return std::nullopt;
}

bool isRegisteredPair(Format format, Layout layout) {
  return (layoutInfo(layout).formatMask >> uint32_t(format) & 1) != 0;
}

Layout layoutOf(Format format) {
  for (const LayoutInfo &info : kLayoutTable)
    if (isRegisteredPair(format, info.layout))
      return info.layout;
  return Layout::ContiguousLeV1; // not reached: the generator demands one layout per format
}

std::string listRegisteredPairs() {
  std::string out;
  for (const FormatInfo &format : kFormatTable) {
    out += out.empty() ? "" : ", ";
    out.append(format.canonical).append("/").append(canonicalName(layoutOf(format.format)));
  }
  return out;
}

std::string listFormats() {
  std::string out;
  for (const FormatInfo &format : kFormatTable)
    out.append(out.empty() ? "" : ", ").append(format.canonical);
  return out;
}

} // namespace ninfer
