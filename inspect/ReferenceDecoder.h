// A slow, explicit reader of stored tensor objects, written from the tables of docs/formats.md
// alone. It exists to be compared with artifact/formats and artifact/layouts, so it shares no code
// with them beyond the names of the formats: own offsets, own bit order, own word arithmetic.
#ifndef NINFER_INSPECT_REFERENCEDECODER_H
#define NINFER_INSPECT_REFERENCEDECODER_H

#include "artifact/formats/Registry.gen.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace ninfer {

/// Sizes and plane positions of one object, in elements and in bytes from its start.
struct ReferenceLayout {
  Format format = Format::BF16;
  uint64_t rows = 0, columns = 0;
  uint64_t paddedColumns = 0; ///< stored per row
  uint64_t groupColumns = 0;  ///< elements per scale; 0: none; a row scale has all columns
  uint64_t groups = 0;        ///< scales of one row that cover at least one element
  uint64_t storedGroups = 0;  ///< with the padding ones
  struct Plane {
    uint64_t offset = 0, bytes = 0;
  };
  std::array<Plane, 3>
      planes; ///< words | base, high, scales | codes, scales, divisor | codes, scales
  uint64_t bytes = 0;
};

/// Nothing when the format cannot store the shape or a size exceeds 2^62.
std::optional<ReferenceLayout> referenceLayout(Format format, std::span<const uint64_t> shape);

/// Words of one row in natural order, padding left out.
struct ReferenceRow {
  /// Direct formats: the word's bits. Grouped: the signed code. NVFP4: E2M1. FP8 row: E4M3FN.
  std::vector<int32_t> codes;
  std::vector<uint32_t> scales; ///< words; empty for the direct formats
  uint32_t divisor = 0;         ///< NVFP4
  bool operator==(const ReferenceRow &) const = default;
};

/// `object` holds layout.bytes bytes; n < rows.
void readReferenceRow(const ReferenceLayout &layout, std::span<const std::byte> object, uint64_t n,
                      ReferenceRow &row);
/// Represented values as binary32 (I32: nearest).
void referenceValues(const ReferenceLayout &layout, const ReferenceRow &row, std::span<float> out);

/// First nonzero byte between planes, or nothing.
std::optional<uint64_t> firstGapByte(const ReferenceLayout &layout,
                                     std::span<const std::byte> object);

// Words by their definition: sign * significand * 2^exponent.

double referenceF16(uint32_t word); ///< binary16
float referenceBf16(uint32_t word); ///< bfloat16, NaN payload kept
double referenceE4m3(uint32_t word);
double referenceE2m1(uint32_t word);

} // namespace ninfer

#endif // NINFER_INSPECT_REFERENCEDECODER_H
