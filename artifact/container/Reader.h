// Opens a .ninfer artifact (framing 3, one file): framing gates, directory gates, then a mapped
// payload. Nothing of the payload is read by open(); object() checks one object against the
// registry when it is first asked for. Source of every rule: docs/container.md.
#ifndef NINFER_ARTIFACT_CONTAINER_READER_H
#define NINFER_ARTIFACT_CONTAINER_READER_H

#include "artifact/container/Directory.h"
#include "artifact/layouts/Layout.h"
#include "support/File.h"
#include "support/Status.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace ninfer {

class Artifact {
public:
  /// Fails with NB0901 (cannot open), NB0101 (not a .ninfer file), NB0102 (framing or feature not
  /// supported by this version), NB0103 (header or file length), NB0104 (JSON), NB0105 (directory
  /// rule). `shownPath` replaces `path` in messages and in the rule that no part may bear the
  /// entry's name.
  static Result<Artifact> open(const std::filesystem::path &path,
                               const std::filesystem::path &shownPath = {});

  const std::filesystem::path &path() const { return path_; }
  const Directory &directory() const { return directory_; }
  /// Directory text as stored, without trailing white space.
  std::string_view directoryText() const { return directoryText_; }
  /// File offset of payload byte 0; a multiple of 4096.
  uint64_t payloadOffset() const { return payloadOffset_; }
  /// Whole logical payload, mapped.
  std::span<const std::byte> payload() const { return payload_; }

  /// Mapped bytes of one object, after checkObject().
  Result<std::span<const std::byte>> object(size_t index) const;
  /// Geometry of a tensor object, after checkObject().
  Result<EncodedGeometry> geometry(size_t index) const;

  void advise(MappedFile::Access access) const { file_.advise(access); }
  /// Drops resident pages of the mapping (MappedFile::release).
  void release() const { file_.release(); }

private:
  std::filesystem::path path_;
  MappedFile file_;
  Directory directory_;
  std::string_view directoryText_;
  uint64_t payloadOffset_ = 0;
  std::span<const std::byte> payload_;
};

/// Gates of the directory text alone (no file needed): JSON, closed members, types, ids, ranges,
/// references. `fileName` is the entry's base name. NB0104, NB0105.
Result<Directory> parseDirectory(std::string_view text, const std::string &fileName);

/// Gates of one object against the registry: format and layout known and a registered pair, or
/// encoding known; `bytes` equals the encoded size; `offset` a multiple of the alignment. NB0106.
Status checkObject(const Directory &directory, size_t index, const std::string &fileName);

/// checkObject for all objects, in order.
Status checkAllObjects(const Directory &directory, const std::string &fileName);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_READER_H
