// The four storage layouts: where each logical word of a tensor lies inside its encoded object.
// Pure offset arithmetic plus encode/decode of rows. Meanings of words: artifact/formats. Byte
// tables: docs/formats.md. A "row" is one leading coordinate: shape [D0..Dr-2, K] has
// product(D0..Dr-2) rows of K; rank 0 is one row of 1.
#ifndef NINFER_ARTIFACT_LAYOUTS_LAYOUT_H
#define NINFER_ARTIFACT_LAYOUTS_LAYOUT_H

#include "artifact/formats/Format.h"
#include "support/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ninfer {

/// One plane of an object: a contiguous byte range in which every row takes the same number of
/// bytes, in row order. Exception: the block scale plane is ordered by tiles of 128 rows (rowBytes
/// is then the mean, and a slice that starts and ends on multiples of 128 rows is contiguous); the
/// divisor plane has rowBytes 0.
struct PlaneInfo {
  const char *name = ""; ///< "words", "base", "high", "scales", "codes", "divisor"
  uint64_t offset = 0;   ///< from the start of the object
  uint64_t bytes = 0;
  uint64_t rowBytes = 0;
};

struct EncodedGeometry {
  Format format = Format::BF16;
  Layout layout = Layout::ContiguousLeV1;
  uint64_t rows = 0;
  uint64_t k = 0;         ///< logical elements per row
  uint64_t paddedK = 0;   ///< stored elements per row
  uint64_t groupSize = 0; ///< 0 when the format has no groups
  uint64_t groupsPerRow =
      0; ///< stored groups, padding groups included; 0 when the format has no groups
  uint64_t totalBytes = 0;       ///< of the object
  uint64_t alignment = 0;        ///< of the object's offset in the payload
  std::vector<PlaneInfo> planes; ///< in the order of runtime/abi/kernel_abi.h

  /// Groups that hold at least one logical element: ceil(k / groupSize).
  uint64_t logicalGroupsPerRow() const { return groupSize ? (k + groupSize - 1) / groupSize : 0; }
  /// Index into `planes`, or -1.
  int findPlane(std::string_view name) const;
};

/// Geometry of one tensor. Fails with NB0201 (unregistered pair, lists the registered ones), NB0202
/// (rank or divisibility the layout does not accept) or NB0203 (a size exceeds 2^64-1).
Result<EncodedGeometry> encodedGeometry(Format format, Layout layout,
                                        std::span<const uint64_t> shape);

// Offsets of single words, from the start of the object. Coordinates must be in range.

/// contiguous-le-v1: word of element `index` in C order.
uint64_t directWordOffset(const EncodedGeometry &geometry, uint64_t index);
/// row-split-k128-v1: byte that holds bits 0..3 (4, 5, 6 bit; shift 0 or 4) or all 8 bits of code
/// (n, k).
uint64_t baseByteOffset(const EncodedGeometry &geometry, uint64_t n, uint64_t k);
/// row-split-k128-v1, 5 and 6 bit: byte that holds the remaining upper bits of code (n, k).
uint64_t highByteOffset(const EncodedGeometry &geometry, uint64_t n, uint64_t k);
/// All grouped and scaled layouts: first byte of the scale word of group `group` of row n
/// (row-scale: group 0).
uint64_t scaleOffset(const EncodedGeometry &geometry, uint64_t n, uint64_t group);
/// blockscale and row-scale: byte that holds code (n, k) (blockscale: low nibble for even k).
uint64_t codeByteOffset(const EncodedGeometry &geometry, uint64_t n, uint64_t k);

// Words of consecutive rows in natural order, for encodeRows.

struct DirectRows {
  std::span<const std::byte> words; ///< little-endian, rows * k words
};
struct GroupedRows {
  std::span<const int8_t> codes;    ///< rows * k
  std::span<const uint16_t> scales; ///< binary16 words, rows * logicalGroupsPerRow()
};
struct RowScaledRows {
  std::span<const uint8_t> codes;   ///< E4M3FN words, rows * k
  std::span<const uint16_t> scales; ///< bfloat16 words, one per row
};
struct BlockScaledRows {
  std::span<const uint8_t> codes;  ///< E2M1 words, one per byte, rows * k
  std::span<const uint8_t> scales; ///< E4M3FN words, rows * k/16
  uint32_t divisor = 0;            ///< binary32 word d_w, the same in every call for one object
};

/// Stores rows [firstRow, firstRow + count) into `object` (totalBytes bytes, zero before the first
/// call, so gaps between planes and padding groups stay zero). The words are checked by the rules
/// of the format first; a violation (NB0204) names row, group and rule and leaves `object`
/// unchanged. `count` follows from the spans; NB0205 when the spans do not agree with each other or
/// the geometry. Calls on disjoint rows may run in parallel.
Status encodeRows(const EncodedGeometry &geometry, uint64_t firstRow, const DirectRows &rows,
                  std::span<std::byte> object);
Status encodeRows(const EncodedGeometry &geometry, uint64_t firstRow, const GroupedRows &rows,
                  std::span<std::byte> object);
Status encodeRows(const EncodedGeometry &geometry, uint64_t firstRow, const RowScaledRows &rows,
                  std::span<std::byte> object);
Status encodeRows(const EncodedGeometry &geometry, uint64_t firstRow, const BlockScaledRows &rows,
                  std::span<std::byte> object);

// Reading. `object` is the encoded object (at least totalBytes bytes), n < rows.

/// Represented values of row n as binary32, by the reconstruction rule of the format (I32: nearest
/// binary32). `out` has k elements.
void decodeRow(const EncodedGeometry &geometry, std::span<const std::byte> object, uint64_t n,
               std::span<float> out);
/// Represented values of elements [begin, end) in C order; `out` has end - begin elements.
void decodeElements(const EncodedGeometry &geometry, std::span<const std::byte> object,
                    uint64_t begin, uint64_t end, std::span<float> out);
/// Signed codes of row n including padding lanes (paddedK) and scale words of all stored groups.
/// Grouped integer formats.
void readGroupedRow(const EncodedGeometry &geometry, std::span<const std::byte> object, uint64_t n,
                    std::span<int8_t> codes, std::span<uint16_t> scales);
/// E2M1 words (one per byte) and E4M3FN scale words of row n. NVFP4.
void readBlockScaledRow(const EncodedGeometry &geometry, std::span<const std::byte> object,
                        uint64_t n, std::span<uint8_t> codes, std::span<uint8_t> scales);
/// Divisor word of an NVFP4 object.
uint32_t readDivisor(const EncodedGeometry &geometry, std::span<const std::byte> object);

} // namespace ninfer

#endif // NINFER_ARTIFACT_LAYOUTS_LAYOUT_H
