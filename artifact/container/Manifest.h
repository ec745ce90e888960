// The side manifest MODEL.ninfer.manifest.json: SHA-256 of every object, of the directory and of
// every file, beside what the artifact says about its origin. A digest proves that bytes are those
// the manifest was written for; it says nothing about whether they are right
// (docs/cli/ninfer-inspect.md).
#ifndef NINFER_ARTIFACT_CONTAINER_MANIFEST_H
#define NINFER_ARTIFACT_CONTAINER_MANIFEST_H

#include "artifact/container/Reader.h"
#include "support/Json.h"
#include "support/Status.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ninfer {

struct ManifestOptions {
  unsigned threads = 1;
  /// Mismatches that one error names (the message, then notes).
  size_t maxFindings = 20;
  /// Bytes hashed since the last call; from several threads at once when `threads` > 1.
  std::function<void(uint64_t)> onBytes;
  /// True ends the work with NB0125.
  std::function<bool()> cancelled;
};

/// "<artifact>.manifest.json", beside the entry file.
std::filesystem::path manifestPath(const std::filesystem::path &artifact);

/// Bytes that one run hashes: each object, and each file as a whole.
uint64_t manifestWork(const Artifact &artifact);

/// The manifest of the artifact: a function of its files and `toolVersion` only, so writing it
/// again gives the same text. Fails as Artifact::object() does for parts that cannot be read.
Result<std::string> buildManifest(const Artifact &artifact, const std::string &toolVersion,
                                  const ManifestOptions &options = {});

/// buildManifest, published atomically under manifestPath(); replaces an earlier manifest.
Status writeManifest(const Artifact &artifact, const std::string &toolVersion,
                     const ManifestOptions &options = {});

/// Reads the manifest and compares: NB0122 (missing, too large, not strict JSON), NB0123 (members
/// or types), NB0124 (the artifact is not the one it was written for: names every object, the
/// directory or file that differs with both digests, and every other statement about the artifact
/// that is not true of it). Only the version of the writing tool may be any.
Status checkManifest(const Artifact &artifact, const ManifestOptions &options = {});

/// One state for what checkManifest returned: "agrees", "disagrees", "missing", "a folder", "not a
/// regular file", "too large", "not readable", "not strict JSON", "not a side manifest", or "not
/// compared" (interrupted, or the artifact cannot be read).
std::string manifestState(const Artifact &artifact, const Status &checked);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_MANIFEST_H
