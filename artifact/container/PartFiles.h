// Part files in a folder: their names, and the removal of those that nothing refers to. A file is
// removed only when its header and its name prove that it is a part of an artifact that is no
// longer there.
#ifndef NINFER_ARTIFACT_CONTAINER_PARTFILES_H
#define NINFER_ARTIFACT_CONTAINER_PARTFILES_H

#include "support/Status.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ninfer {

using ArtifactId = std::array<uint8_t, 16>;

/// 16 hexadecimal digits: the first eight bytes of the id. Part names hold it, so that parts of
/// different artifacts under one entry name never collide.
std::string partToken(const ArtifactId &id);

/// "<entry>.<token>.part-0001"; four digits at least.
std::string partFileName(const std::string &entryName, const std::string &token, size_t index);

/// A file that may be a part of an artifact which is gone.
struct PartCandidate {
  std::filesystem::path path;
  ArtifactId id; ///< expected in its header
  uint64_t index = 0;
};

/// Parts that a writer of the entry `target` published before it was killed: files of the form of
/// partFileName whose header agrees with the name.
std::vector<PartCandidate> strayParts(const std::filesystem::path &target);

/// Parts that the artifact of several files at `target` refers to now; none when there is no such
/// artifact.
std::vector<PartCandidate> partsOf(const std::filesystem::path &target);

/// Removes those candidates that are regular files with the expected header, that no live writer
/// holds locked, and whose artifact id no entry file in the folder has (an entry may have been
/// renamed). Keeps everything when some file of the folder cannot be read. Call with the folder
/// locked.
void removeUnreferencedParts(const std::filesystem::path &folder,
                             const std::vector<PartCandidate> &candidates);

/// Empty when nothing is at `path`, or a part with that id and index which may be replaced by one
/// of equal content; NB0905 otherwise.
Status checkPartReplaceable(const PartCandidate &part);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_PARTFILES_H
