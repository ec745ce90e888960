// Writes a framing 3 artifact in one file: plan all objects, then stream their bytes in order. The
// file appears under its name only after it was synced, reopened through the reader, and verified.
#ifndef NINFER_ARTIFACT_CONTAINER_WRITER_H
#define NINFER_ARTIFACT_CONTAINER_WRITER_H

#include "artifact/container/Directory.h"
#include "artifact/container/Verify.h"
#include "support/File.h"
#include "support/Sha256.h"
#include "support/Status.h"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ninfer {

/// Inventory of an artifact to be written. Objects get their offsets in the order they are added
/// (tensors at multiples of 256). Components, bindings, uses, metadata and provenance are filled in
/// directory() by the caller.
class ArtifactPlan {
public:
  /// Returns the object's index. NB0107: duplicate id; NB02xx: pair or shape not legal.
  Result<uint32_t> addTensor(std::string id, std::vector<uint64_t> shape, Format format,
                             Layout layout);
  Result<uint32_t> addTensor(std::string id, std::vector<uint64_t> shape, Format format) {
    return addTensor(std::move(id), std::move(shape), format, layoutOf(format));
  }
  /// A raw resource of exactly `bytes` (>= 1) bytes.
  Result<uint32_t> addResource(std::string id, uint64_t bytes);

  /// Binds `parameter` to the whole object.
  void bindWhole(const std::string &parameter, uint32_t object);
  /// Binds `parameter` to elements [begin, end) of the object.
  void bindRange(const std::string &parameter, uint32_t object, uint64_t begin, uint64_t end);

  Directory &directory() { return directory_; }
  const Directory &directory() const { return directory_; }
  uint64_t payloadBytes() const { return cursor_; }

private:
  Directory directory_;
  std::map<std::string, uint32_t> ids_;
  uint64_t cursor_ = 0;
};

struct WriterOptions {
  AtomicFile::Existing existing = AtomicFile::Existing::Replace;
  /// Allocate the file's disk blocks before anything is written, so that a full disk is reported at
  /// once.
  bool reserve = true;
  /// Scan every code, scale and padding byte before publishing (verifyArtifact).
  bool verifyContent = true;
  /// Called with the number of payload bytes verified since the last call.
  std::function<void(uint64_t)> onVerified;
};

struct WriteReport {
  std::array<uint8_t, 16>
      artifactId{}; ///< derived from directory and payload: equal content, equal id
  uint64_t fileBytes = 0;
  uint64_t payloadOffset = 0;
  Sha256Digest storageSignature{};
  Sha256Digest payloadSha256{};
};

class ArtifactWriter {
public:
  /// Checks the plan by the reader's own gates, creates the unpublished file and reserves its space
  /// (NB0906 when the disk is full). The plan must live until finish().
  static Result<ArtifactWriter> create(const std::filesystem::path &target,
                                       const ArtifactPlan &plan, WriterOptions options = {});

  /// Next bytes of object `object`. Objects come in index order; each must receive exactly its
  /// planned size, in any number of chunks. NB0108 otherwise.
  Status append(uint32_t object, std::span<const std::byte> chunk);

  /// Every object complete -> sync, reopen through Artifact::open, compare directory and payload
  /// digest, verify, publish. On any failure nothing is left under the target name.
  Result<WriteReport> finish();

  ArtifactWriter(ArtifactWriter &&) noexcept;
  ArtifactWriter &operator=(ArtifactWriter &&) noexcept;
  /// Discards the file unless finish() succeeded.
  ~ArtifactWriter();

private:
  struct Impl;
  explicit ArtifactWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Directory as framing 3 JSON: compact, members in the specified order, maps in key order. NB0107
/// when a text in it is not UTF-8.
Result<std::string> encodeDirectory(const Directory &directory);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_WRITER_H
