// What differs between two artifacts: the directory member by member, and the stored words object
// by object.
#ifndef NINFER_INSPECT_DIFFERENCE_H
#define NINFER_INSPECT_DIFFERENCE_H

#include "artifact/container/Reader.h"
#include "support/Json.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ninfer {

/// One object that is not the same on both sides.
struct ObjectDifference {
  enum class Kind {
    OnlyA,  ///< no object of that id in B
    OnlyB,  ///< no object of that id in A
    Entry,  ///< another kind, shape, format, layout or size; `entry` says which
    Words,  ///< same entry, other words
    Bytes,  ///< a resource with other bytes
    Values, ///< same shape, another format or layout: represented values were compared
  };
  std::string object;
  Kind kind = Kind::Words;
  std::vector<std::string> entry; ///< "format: Q4G64_F16S, Q5G64_F16S"
  // Words: differing codes (direct words), scales and padding bytes. Bytes: `codes`.
  uint64_t codes = 0, scales = 0, padding = 0;
  bool divisor = false;
  // Words and Values: elements whose represented value differs, and by how much.
  uint64_t elements = 0, values = 0;
  double largest = 0;                     ///< |a - b|, finite pairs
  double relativeL2 = 0;                  ///< ||a - b|| / ||a||; 0 when a is zero throughout
  uint64_t firstRow = 0, firstColumn = 0; ///< of the first difference in row order (resource: byte)
};

struct ArtifactDifference {
  std::vector<std::string> directory; ///< "framing: 2, 3"; "bindings 'x': only in A"
  std::vector<ObjectDifference> objects;
  uint64_t comparedObjects = 0, comparedBytes = 0;
  bool equal() const { return directory.empty() && objects.empty(); }
};

struct DiffOptions {
  /// Compare ids, shapes, formats, layouts and words of the objects only, not the rest of the
  /// directory (framing, artifact id, offsets, files, components, bindings, uses, metadata).
  bool wordsOnly = false;
  unsigned threads = 1;
  std::function<void(uint64_t)> onBytes; ///< bytes of A compared; from several threads
};

/// Fails when a part of one of them cannot be read or an object breaks the registry gates.
Result<ArtifactDifference> diffArtifacts(const Artifact &a, const Artifact &b,
                                         const DiffOptions &options = {});

/// "equal: ..." or one line per difference.
std::string diffText(const ArtifactDifference &difference);
Json diffJson(const ArtifactDifference &difference);

} // namespace ninfer

#endif // NINFER_INSPECT_DIFFERENCE_H
