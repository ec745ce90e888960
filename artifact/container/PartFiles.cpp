#include "artifact/container/PartFiles.h"

#include "artifact/container/Reader.h"
#include "support/Bytes.h"
#include "support/Sha256.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ninfer {

namespace {

constexpr size_t kHeaderBytes = 32;
constexpr size_t kTokenDigits = 16;

struct Header {
  bool part = false; ///< else an entry
  uint64_t index = 0;
  ArtifactId id{};
};

/// Header of an entry or part of framing 3; nothing for another file.
std::optional<Header> readHeader(const OpenedFile &file, const std::filesystem::path &path) {
  char bytes[kHeaderBytes];
  if (file.size() < sizeof bytes ||
      !file.readAt(0, std::as_writable_bytes(std::span(bytes)), path).ok())
    return std::nullopt;
  Header header;
  header.part = std::memcmp(bytes, "NINPRT\0\x03", 8) == 0;
  if (!header.part && std::memcmp(bytes, "NINFER\0\x03", 8) != 0)
    return std::nullopt;
  header.index = loadLe64(bytes + 8);
  std::memcpy(header.id.data(), bytes + 16, header.id.size());
  return header;
}

/// Ids of all entry files in the folder; nothing when a file could not be looked at.
std::optional<std::set<ArtifactId>> entryIds(const std::filesystem::path &folder) {
  std::set<ArtifactId> ids;
  std::error_code code;
  for (std::filesystem::directory_iterator at(folder, code), end; !code && at != end;
       at.increment(code)) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(at->path(), ignored)) // follows links
      continue;
    const Result<OpenedFile> file = OpenedFile::open(at->path());
    if (!file.ok() && std::filesystem::exists(at->path(), ignored))
      return std::nullopt;
    if (!file.ok())
      continue;
    if (const auto header = readHeader(*file, at->path()); header && !header->part)
      ids.insert(header->id);
  }
  return code ? std::nullopt : std::optional(std::move(ids));
}

bool sameFile(const std::filesystem::path &path, int descriptor) {
  struct stat named, opened;
  return lstat(path.c_str(), &named) == 0 && fstat(descriptor, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

} // namespace

std::string partToken(const ArtifactId &id) { return toHex(std::span(id).first(kTokenDigits / 2)); }

std::string partFileName(const std::string &entryName, const std::string &token, size_t index) {
  std::string number = std::to_string(index);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  return entryName + "." + token + ".part-" + number;
}

std::vector<PartCandidate> strayParts(const std::filesystem::path &target) {
  std::vector<PartCandidate> out;
  const std::string entry = target.filename().string(), prefix = entry + ".";
  std::error_code code;
  for (std::filesystem::directory_iterator at(folderOf(target), code), end; !code && at != end;
       at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.compare(0, prefix.size(), prefix) != 0 || name.find(".part-") == std::string::npos)
      continue;
    const Result<OpenedFile> file = OpenedFile::open(at->path(), false);
    if (!file.ok())
      continue;
    const auto header = readHeader(*file, at->path());
    if (header && header->part && name == partFileName(entry, partToken(header->id), header->index))
      out.push_back({at->path(), header->id, header->index});
  }
  return out;
}

std::vector<PartCandidate> partsOf(const std::filesystem::path &target) {
  std::vector<PartCandidate> out;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(target, ignored))
    return out;
  const Result<Artifact> artifact = Artifact::open(target);
  if (!artifact.ok())
    return out;
  const Directory &directory = artifact->directory();
  for (size_t i = 1; i < directory.files.size(); ++i)
    out.push_back({folderOf(target) / *directory.files[i].path, directory.artifactId, i});
  return out;
}

void removeUnreferencedParts(const std::filesystem::path &folder,
                             const std::vector<PartCandidate> &candidates) {
  if (candidates.empty())
    return;
  const auto referenced = entryIds(folder);
  if (!referenced)
    return;
  for (const PartCandidate &candidate : candidates) {
    const Result<OpenedFile> file = OpenedFile::open(candidate.path, false);
    if (!file.ok() || referenced->count(candidate.id))
      continue;
    const auto header = readHeader(*file, candidate.path);
    if (header && header->part && header->id == candidate.id && header->index == candidate.index &&
        flock(file->descriptor(), LOCK_EX | LOCK_NB) == 0 &&
        sameFile(candidate.path, file->descriptor()))
      unlink(candidate.path.c_str());
  }
}

Status checkPartReplaceable(const PartCandidate &part) {
  std::error_code code;
  if (!std::filesystem::exists(std::filesystem::symlink_status(part.path, code)))
    return {};
  const Result<OpenedFile> file = OpenedFile::open(part.path, false);
  const auto header = file.ok() ? readHeader(*file, part.path) : std::nullopt;
  if (header && header->part && header->id == part.id && header->index == part.index)
    return {};
  return makeError(ErrorKind::Usage, "NB0905",
                   part.path.string() + ": exists and is not this part of this artifact");
}

} // namespace ninfer
