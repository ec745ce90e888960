#include "artifact/container/Names.h"

namespace ninfer {

namespace {

/// Framing that introduced a layout; that of a format follows from its layout.
int firstFraming(Layout layout) {
  return layout == Layout::ContiguousLeV1 || layout == Layout::RowSplitK128V1 ? 1 : 2;
}

} // namespace

std::optional<std::string_view> nameInFraming(int framing, Format format) {
  if (framing < firstFraming(layoutOf(format)))
    return std::nullopt;
  return framing >= 3 ? v3Name(format) : canonicalName(format);
}

std::optional<std::string_view> nameInFraming(int framing, Layout layout) {
  if (framing < firstFraming(layout))
    return std::nullopt;
  return framing >= 3 ? v3Name(layout) : canonicalName(layout);
}

std::optional<Format> formatOfName(int framing, std::string_view name) {
  for (const FormatInfo &info : allFormats())
    if (nameInFraming(framing, info.format) == name)
      return info.format;
  return std::nullopt;
}

std::optional<Layout> layoutOfName(int framing, std::string_view name) {
  for (const LayoutInfo &info : allLayouts())
    if (nameInFraming(framing, info.layout) == name)
      return info.layout;
  return std::nullopt;
}

std::string_view rawEncodingName(int framing) {
  return framing >= 3 ? "raw_bytes_v1" : "raw-bytes-v1";
}

std::string listFormatNames(int framing) {
  std::string out;
  for (const FormatInfo &info : allFormats())
    if (const auto name = nameInFraming(framing, info.format))
      out.append(out.empty() ? "" : ", ").append(*name);
  return out;
}

std::string listLayoutNames(int framing) {
  std::string out;
  for (const LayoutInfo &info : allLayouts())
    if (const auto name = nameInFraming(framing, info.layout))
      out.append(out.empty() ? "" : ", ").append(*name);
  return out;
}

} // namespace ninfer
