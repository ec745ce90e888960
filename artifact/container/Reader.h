// Opens a .ninfer artifact of framing 1, 2 or 3: framing gates, directory gates, then a mapped
// payload. Nothing of the payload is read by open(), and no part file is touched; object() checks
// one object against the registry and opens the parts it lies in when it is first asked for. Source
// of every rule: docs/container.md.
#ifndef NINFER_ARTIFACT_CONTAINER_READER_H
#define NINFER_ARTIFACT_CONTAINER_READER_H

#include "artifact/container/Directory.h"
#include "artifact/layouts/Layout.h"
#include "support/File.h"
#include "support/Sha256.h"
#include "support/Status.h"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

class PayloadMap;

class Artifact {
public:
  /// Fails with NB0901 (cannot open), NB0101 (not a .ninfer file), NB0102 (newer framing), NB0103
  /// (header or file length), NB0104 (JSON), NB0105 (directory rule), NB0106 (framings 1 and 2: an
  /// object against the registry). `shownPath` replaces `path` in messages and in the rule that no
  /// part may bear the entry's name. `partPaths`, when not empty, says where files[1], [2], ... lie
  /// instead of beside the entry.
  static Result<Artifact> open(const std::filesystem::path &path,
                               const std::filesystem::path &shownPath = {},
                               std::vector<std::filesystem::path> partPaths = {});

  /// To be assigned; no other call is legal before that.
  Artifact();
  Artifact(Artifact &&) noexcept;
  Artifact &operator=(Artifact &&) noexcept;
  ~Artifact();

  const std::filesystem::path &path() const { return path_; }
  const Directory &directory() const { return directory_; }
  /// Directory text as stored, without trailing white space.
  std::string_view directoryText() const { return directoryText_; }
  /// Place of payload byte 0 in the entry file; a multiple of 4096.
  uint64_t payloadOffset() const { return payloadOffset_; }
  /// The entry file before its payload: header, directory and zeros.
  std::span<const std::byte> head() const;
  /// Bytes of the whole logical payload, all parts together. No file is touched.
  uint64_t payloadBytes() const { return payloadBytes_; }

  // The three below open and check the parts they need: NB0901 (a part is missing), NB0110 (it is
  // another artifact's, another index, too short, too long, or lies outside the folder), NB0902. An
  // error names the part file. Spans stay valid as long as the artifact. Calls may run in parallel.

  /// Bytes of one object, after checkObject().
  Result<std::span<const std::byte>> object(size_t index) const;
  /// Bytes [offset, offset + bytes) of the logical payload. NB0105 when they lie outside.
  Result<std::span<const std::byte>> range(uint64_t offset, uint64_t bytes) const;
  /// The whole logical payload as one contiguous span.
  Result<std::span<const std::byte>> payload() const;

  /// Geometry of a tensor object, after checkObject().
  Result<EncodedGeometry> geometry(size_t index) const;

  /// Payload bytes that had to be copied into memory so far: parts that start at a payload offset
  /// which is no multiple of the page size cannot be mapped beside the part before. 0 for one file.
  uint64_t copiedBytes() const;
  /// Hint for what is mapped now.
  void advise(MappedFile::Access access) const;
  /// Drops resident pages of what is mapped (MappedFile::release); copied bytes stay.
  void release() const;

private:
  std::filesystem::path path_;
  std::unique_ptr<PayloadMap> map_;
  Directory directory_;
  std::string_view directoryText_;
  uint64_t payloadOffset_ = 0;
  uint64_t payloadBytes_ = 0;
};

/// SHA-256 of Artifact::head() without the id of the artifact, which differs between two artifacts that are alike but for their weights.
Sha256Digest headDigest(std::span<const std::byte> head);

/// The limit of the directory text (NB0103).
Status checkDirectoryBytes(uint64_t jsonBytes, const std::string &fileName);

/// Gates of a framing 3 directory text alone (no file needed): JSON, closed members, types, ids,
/// ranges, references, limits. `fileName` is the entry's base name. NB0104, NB0105.
Result<Directory> parseDirectory(std::string_view text, const std::string &fileName);

/// Gates of a framing 1 or 2 directory text, objects against the registry included (there they are
/// not lazy). `payloadBytes` is what the file holds behind the directory. NB0104, NB0105, NB0106.
Result<Directory> parseIdentityDirectory(std::string_view text, int framing, uint64_t payloadBytes,
                                         const std::string &fileName);

/// Gates of one object against the registry: format and layout known and a registered pair, or
/// encoding known; `bytes` equals the encoded size; `offset` a multiple of the alignment. NB0106.
Status checkObject(const Directory &directory, size_t index, const std::string &fileName);

/// checkObject for all objects, in order.
Status checkAllObjects(const Directory &directory, const std::string &fileName);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_READER_H
