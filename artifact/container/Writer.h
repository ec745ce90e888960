// Writes an artifact of framing 3, in one or several files, or of framing 2: plan all objects, then
// stream their bytes in order. The artifact appears under its name only after it was synced,
// reopened through the reader, and verified; its parts come before the entry. Source:
// docs/container.md, section "Writing".
#ifndef NINFER_ARTIFACT_CONTAINER_WRITER_H
#define NINFER_ARTIFACT_CONTAINER_WRITER_H

#include "artifact/container/Directory.h"
#include "artifact/container/Verify.h"
#include "support/File.h"
#include "support/Sha256.h"
#include "support/Status.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ninfer {

class Artifact;

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

  /// An object that keeps its offset, which must not lie before the end of the object before. The
  /// gates of the writer decide about the rest. NB0107: duplicate id, empty, overlap.
  Result<uint32_t> addObject(ObjectEntry object);
  /// The payload gets at least that many bytes; those behind the last object are zero.
  void extendPayload(uint64_t bytes) { cursor_ = std::max(cursor_, bytes); }

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
  /// 3, or 2: then the plan's directory has an identity and no component, binding or use.
  int framing = 3;
  /// Framing 3: no file becomes larger; the payload goes into as many parts as that takes. Empty:
  /// one file of any size.
  std::optional<uint64_t> maxFileBytes = {};
  /// Allocate the file's disk blocks before anything is written, so that a full disk is reported at
  /// once.
  bool reserve = true;
  /// Scan every code, scale and padding byte before publishing (verifyArtifact).
  bool verifyContent = true;
  /// Called with the number of payload bytes verified since the last call.
  std::function<void(uint64_t)> onVerified = {};
  /// Called with the reopened, not yet published artifact; an error ends the writing.
  std::function<Status(const Artifact &)> check = {};
};

struct WriteReport {
  std::array<uint8_t, 16>
      artifactId{};       ///< derived from directory and payload: equal content, equal id
  uint64_t fileBytes = 0; ///< of all files together
  std::vector<std::pair<std::string, uint64_t>> files; ///< name and bytes; the entry first
  uint64_t payloadOffset = 0;
  Sha256Digest storageSignature{};
  Sha256Digest payloadSha256{};
};

class ArtifactWriter {
public:
  /// Checks the plan by the reader's own gates and limits, creates the unpublished files and
  /// reserves their space (NB0906 when the disk is full). NB0111: maxFileBytes too small, or given
  /// for framing 2. NB0107: the framing cannot hold the plan. The plan must live until finish().
  static Result<ArtifactWriter> create(const std::filesystem::path &target,
                                       const ArtifactPlan &plan, WriterOptions options = {});

  /// Next bytes of object `object`. Objects come in index order; each must receive exactly its
  /// planned size, in any number of chunks. NB0108 otherwise.
  Status append(uint32_t object, std::span<const std::byte> chunk);

  /// Every object complete -> sync, reopen through Artifact::open, compare directory and payload
  /// digest, verify, publish: first the parts, under names that no part of another artifact has,
  /// then the entry in one step. On any failure the target name holds what it held before, and the
  /// parts are gone. The parts of a replaced artifact go too, unless an entry beside refers to
  /// them.
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

/// Directory as JSON of its framing: compact, members in the specified order, maps in key order.
/// NB0107 when a text in it is not UTF-8.
Result<std::string> encodeDirectory(const Directory &directory);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_WRITER_H
