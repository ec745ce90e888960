#include "artifact/layouts/Layout.h"
#include "support/Checked.h"
#include "support/Shape.h"

#include <string>

namespace ninfer {

namespace {

std::string subject(Format format, Layout layout, std::span<const uint64_t> shape) {
  return std::string(canonicalName(format)) + " in " + std::string(canonicalName(layout)) +
         ", shape " + shapeText(shape);
}

/// Adds planes one behind the other; remembers an overflow anywhere.
class Planes {
public:
  explicit Planes(std::vector<PlaneInfo> &planes) : planes_(planes) {}

  /// A plane of rows * rowBytes bytes that starts at the next multiple of `alignment`.
  void add(const char *name, uint64_t alignment, std::optional<uint64_t> rows,
           std::optional<uint64_t> rowBytes) {
    const auto offset = end_ ? checkedAlignUp(*end_, alignment) : std::nullopt;
    const auto bytes = rows && rowBytes ? checkedMul(*rows, *rowBytes) : std::nullopt;
    end_ = offset && bytes ? checkedAdd(*offset, *bytes) : std::nullopt;
    if (end_)
      planes_.push_back({name, *offset, *bytes, *rowBytes});
  }
  std::optional<uint64_t> end() const { return end_; }

private:
  std::vector<PlaneInfo> &planes_;
  std::optional<uint64_t> end_ = 0;
};

constexpr uint64_t kPlaneAlignment = 256;

} // namespace

int EncodedGeometry::findPlane(std::string_view name) const {
  for (size_t i = 0; i < planes.size(); ++i)
    if (planes[i].name == name)
      return int(i);
  return -1;
}

Result<EncodedGeometry> encodedGeometry(Format format, Layout layout,
                                        std::span<const uint64_t> shape) {
  const auto fail = [&](const char *code, const std::string &why) {
    const ErrorKind kind =
        std::string_view(code) == "NB0201" ? ErrorKind::Unsupported : ErrorKind::BadFile;
    return makeError(kind, code, subject(format, layout, shape) + ": " + why);
  };
  if (!isRegisteredPair(format, layout)) {
    Status status = fail("NB0201", "format and layout are not a registered pair");
    status.help("registered pairs: " + listRegisteredPairs());
    return status;
  }
  for (uint64_t dim : shape)
    if (dim == 0)
      return fail("NB0202", "dimensions must be positive");
  const bool direct = layout == Layout::ContiguousLeV1;
  if (!direct && shape.size() != 2)
    return fail("NB0202",
                "the layout accepts rank 2 only, got rank " + std::to_string(shape.size()));

  EncodedGeometry geometry;
  geometry.format = format;
  geometry.layout = layout;
  geometry.alignment = layoutInfo(layout).alignment;
  geometry.groupSize = formatInfo(format).groupSize;
  geometry.k = shape.empty() ? 1 : shape.back();
  geometry.paddedK = geometry.k;
  const auto rows =
      shape.empty() ? std::optional<uint64_t>(1) : checkedProduct(shape.first(shape.size() - 1));
  if (!rows || !checkedMul(*rows, geometry.k))
    return fail("NB0203", "element count exceeds 2^64-1");
  geometry.rows = *rows;

  Planes planes(geometry.planes);
  switch (layout) {
  case Layout::ContiguousLeV1:
    planes.add("words", 1, rows, checkedMul(geometry.k, formatInfo(format).bits / 8));
    break;
  case Layout::RowSplitK128V1: {
    const auto padded = checkedAlignUp(geometry.k, 128);
    if (!padded)
      return fail("NB0203", "padded row length exceeds 2^64-1");
    const uint32_t bits = formatInfo(format).bits;
    const uint64_t groups = *padded / geometry.groupSize;
    geometry.paddedK = *padded;
    geometry.groupsPerRow = groups;
    planes.add("base", kPlaneAlignment, rows, bits == 8 ? *padded : *padded / 2);
    // Where there is no high plane, the scales still start at a multiple of 256.
    if (bits == 5 || bits == 6)
      planes.add("high", kPlaneAlignment, rows, *padded / 8 * (bits - 4));
    planes.add("scales", kPlaneAlignment, rows, checkedMul(groups, 2));
    break;
  }
  case Layout::BlockScaleK16M128x4V1:
    if (geometry.rows % 128 != 0 || geometry.k % 64 != 0)
      return fail("NB0202", "the layout needs N divisible by 128 and K divisible by 64");
    geometry.groupsPerRow = geometry.k / 16;
    planes.add("codes", kPlaneAlignment, rows, geometry.k / 2);
    planes.add("scales", kPlaneAlignment, rows, geometry.groupsPerRow);
    planes.add("divisor", 1, 1, 4);
    if (planes.end())
      geometry.planes.back().rowBytes = 0;
    break;
  case Layout::RowScaleV1:
    planes.add("codes", kPlaneAlignment, rows, geometry.k);
    planes.add("scales", kPlaneAlignment, rows, 2);
    break;
  }
  if (!planes.end())
    return fail("NB0203", "encoded size exceeds 2^64-1");
  geometry.totalBytes = *planes.end();
  return geometry;
}

uint64_t directWordOffset(const EncodedGeometry &geometry, uint64_t index) {
  return index * (formatInfo(geometry.format).bits / 8);
}

uint64_t baseByteOffset(const EncodedGeometry &geometry, uint64_t n, uint64_t k) {
  const PlaneInfo &base = geometry.planes[0];
  return base.offset + n * base.rowBytes + (formatInfo(geometry.format).bits == 8 ? k : k / 2);
}

uint64_t highByteOffset(const EncodedGeometry &geometry, uint64_t n, uint64_t k) {
  const PlaneInfo &high = geometry.planes[1];
  return high.offset + n * high.rowBytes + k * (formatInfo(geometry.format).bits - 4) / 8;
}

uint64_t scaleOffset(const EncodedGeometry &geometry, uint64_t n, uint64_t group) {
  switch (geometry.layout) {
  case Layout::RowSplitK128V1: {
    const PlaneInfo &scales = geometry.planes.back();
    return scales.offset + n * scales.rowBytes + group * 2;
  }
  case Layout::BlockScaleK16M128x4V1:
    // Tiles of 128 rows x 4 groups, 512 bytes each: [n/128][group/4][n%32][n%128/32][group%4].
    return geometry.planes[1].offset + ((n / 128) * (geometry.k / 64) + group / 4) * 512 +
           (n % 32) * 16 + (n % 128 / 32) * 4 + group % 4;
  case Layout::RowScaleV1:
    return geometry.planes[1].offset + n * 2;
  case Layout::ContiguousLeV1:
    break;
  }
  return 0;
}

uint64_t codeByteOffset(const EncodedGeometry &geometry, uint64_t n, uint64_t k) {
  return n * geometry.planes[0].rowBytes +
         (geometry.layout == Layout::BlockScaleK16M128x4V1 ? k / 2 : k);
}

} // namespace ninfer
