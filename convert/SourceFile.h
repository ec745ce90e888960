// Read-only source file with bounded positional reads. Unlike a mapping it keeps no pages of the
// model resident and answers a file that shrinks meanwhile with an error instead of a signal.
#ifndef NINFER_CONVERT_SOURCEFILE_H
#define NINFER_CONVERT_SOURCEFILE_H

#include "support/Status.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace ninfer {

class SourceFile {
public:
  /// Opens a regular file. NB0901 when it cannot be opened or is no regular file. `name` replaces
  /// the base name of `path` (a link in a hub cache resolves to a digest, which tells the user
  /// nothing).
  static Result<SourceFile> open(const std::filesystem::path &path, const std::string &name = "");

  SourceFile(SourceFile &&other) noexcept;
  SourceFile &operator=(SourceFile &&other) noexcept;
  SourceFile(const SourceFile &) = delete;
  ~SourceFile();

  const std::string &name() const { return name_; } ///< base name, for messages and provenance
  const std::filesystem::path &path() const { return path_; }
  uint64_t size() const { return size_; }

  /// Fills `out` from absolute offset `offset`; NB0903 when the file ends before. Thread-safe.
  Status read(uint64_t offset, std::span<std::byte> out) const;

private:
  SourceFile() = default;
  int fd_ = -1;
  uint64_t size_ = 0;
  std::filesystem::path path_;
  std::string name_;
};

} // namespace ninfer

#endif // NINFER_CONVERT_SOURCEFILE_H
