// The rules about the words of one encoded object. A block of rows is first scanned plane by plane
// with vectorisable loops that only answer "clean or not"; a block that is not clean is walked word
// by word to name every fault.
#ifndef NINFER_ARTIFACT_CONTAINER_SCANOBJECT_H
#define NINFER_ARTIFACT_CONTAINER_SCANOBJECT_H

#include "artifact/container/Verify.h"
#include "artifact/layouts/Layout.h"

#include <cstdint>
#include <vector>

namespace ninfer {

/// First nonzero byte of [begin, end), or end.
uint64_t firstNonzero(const uint8_t *bytes, uint64_t begin, uint64_t end);

class ObjectScan {
public:
  /// `bytes` has geometry.totalBytes bytes. Keeps at most `maxFindings` findings and counts all.
  ObjectScan(const ObjectEntry &object, const EncodedGeometry &geometry, const uint8_t *bytes,
             size_t maxFindings)
      : object_(object), geometry_(geometry), bytes_(bytes), maxFindings_(maxFindings) {}

  /// Rows per block: about 1 MiB of the object, a multiple of 128 for the tiled layout; at least
  /// one row.
  static uint64_t blockRows(const EncodedGeometry &geometry);

  /// Rules of rows [first, first + count): a block as blockRows() cuts them.
  void scanRows(uint64_t first, uint64_t count);
  /// Rules about the object as a whole: divisor, bytes between planes.
  void scanRest();

  uint64_t violations = 0;
  uint64_t scanned = 0; ///< bytes read
  std::vector<Finding> findings;

private:
  void add(const char *rule, std::string message, uint64_t byte,
           std::optional<uint64_t> row = std::nullopt, std::optional<uint64_t> group = std::nullopt,
           std::optional<uint64_t> lane = std::nullopt);
  const uint8_t *row(size_t plane, uint64_t n) const {
    return bytes_ + geometry_.planes[plane].offset + n * geometry_.planes[plane].rowBytes;
  }
  bool groupedBlockClean(uint64_t first, uint64_t count);
  bool paddingLanesClean(uint64_t first, uint64_t count);
  bool zeroScalesClean(uint64_t first, uint64_t count) const;
  bool rowScaledBlockClean(uint64_t first, uint64_t count);
  bool blockScaledBlockClean(uint64_t first, uint64_t count);
  void groupedRow(uint64_t n);
  void blockScaledRow(uint64_t n);
  void rowScaledRow(uint64_t n);
  /// Byte that holds the nonzero bits of a code that is not zero.
  uint64_t codeByte(uint64_t n, uint64_t k) const;

  const ObjectEntry &object_;
  const EncodedGeometry &geometry_;
  const uint8_t *bytes_;
  size_t maxFindings_;
};

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_SCANOBJECT_H
