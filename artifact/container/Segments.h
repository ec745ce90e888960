// How a framing 3 payload is divided into an entry file and its parts, and the room that the
// directory text gets in the entry: the two depend on each other.
#ifndef NINFER_ARTIFACT_CONTAINER_SEGMENTS_H
#define NINFER_ARTIFACT_CONTAINER_SEGMENTS_H

#include "artifact/container/Directory.h"
#include "support/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ninfer {

struct Segmentation {
  std::vector<FileEntry> files;
  std::string text;       ///< of the directory with these files
  uint64_t jsonBytes = 0; ///< room of the text in the entry; 32 + jsonBytes is a multiple of 4096
};

/// Without `maxFileBytes`, or when everything fits, one file. Otherwise entry and parts are filled
/// up to the limit in units of 4096 payload bytes; the last part takes the rest. `partName(i)`
/// names file i >= 1, `encode` makes the text for a list of files. NB0111 (Usage): the limit leaves
/// no room for payload, or needs more than kMaxFiles files.
Result<Segmentation>
segmentPayload(uint64_t payloadBytes, std::optional<uint64_t> maxFileBytes,
               const std::function<std::string(size_t)> &partName,
               const std::function<Result<std::string>(const std::vector<FileEntry> &)> &encode);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_SEGMENTS_H
