#include "codegen/common/ObjectCache.h"

#include "support/File.h"
#include "support/Sha256.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace ninfer {

std::string objectKey(std::span<const std::string_view> fields) {
  Sha256 hash;
  for (std::string_view field : fields)
    hash.update(std::to_string(field.size()) + ":").update(field);
  return toHex(hash.finish());
}

std::string defaultCacheDirectory() {
  const auto absolute = [](const char *name) -> std::string {
    const char *value = std::getenv(name);
    return value && value[0] == '/' ? value : "";
  };
  if (const std::string cache = absolute("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/ninfer";
  const std::string home = absolute("HOME");
  return home.empty() ? "" : home + "/.cache/ninfer";
}

std::string prepareDefaultCache(const std::string &directory) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), failed);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return std::string("it cannot be made: ") + std::strerror(errno);
  struct stat info = {};
  if (stat(directory.c_str(), &info) != 0)
    return std::string("it cannot be read: ") + std::strerror(errno);
  if (!S_ISDIR(info.st_mode))
    return "it is not a folder";
  if (info.st_uid != geteuid())
    return "it belongs to another user";
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return "other users may write to it";
  if (access(directory.c_str(), W_OK) != 0)
    return std::string("it cannot be written: ") + std::strerror(errno);
  return {};
}

void trimCache(const std::string &directory, uint64_t mostBytes) {
  struct Entry {
    std::filesystem::file_time_type time;
    uint64_t bytes;
    std::filesystem::path path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(directory, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code gone;
    const std::string extension = it->path().extension().string();
    if (!it->is_regular_file(gone) || (extension != ".o" && extension != ".tuning"))
      continue;
    const Entry entry{it->last_write_time(gone), it->file_size(gone), it->path()};
    if (gone)
      continue;
    total += entry.bytes;
    entries.push_back(entry);
  }
  if (total <= mostBytes)
    return;
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) { return a.time < b.time; });
  for (const Entry &entry : entries) {
    if (total <= mostBytes)
      return;
    std::error_code gone;
    std::filesystem::remove(entry.path, gone);
    total -= entry.bytes;
  }
}

namespace {

/// With the key: an object under the name of another one is not that one.
Sha256Digest digestOf(const std::string &key, std::string_view object) { return Sha256().update(key).update(object).finish(); }

} // namespace

std::optional<std::vector<char>> ObjectCache::find(const std::string &key) const {
  if (place_.directory.empty())
    return std::nullopt;
  Result<std::string> text = readFile(path(key));
  constexpr size_t digestBytes = sizeof(Sha256Digest);
  if (!text.ok() || text->size() < digestBytes)
    return std::nullopt;
  std::string_view object = std::string_view(*text).substr(digestBytes);
  Sha256Digest digest = digestOf(key, object);
  if (std::memcmp(digest.data(), text->data(), digestBytes) != 0)
    return std::nullopt;
  return std::vector<char>(object.begin(), object.end());
}

Status ObjectCache::store(const std::string &key, std::span<const char> object) const {
  Status kept = keep(key, object);
  return kept.ok() || place_.optional ? Status() : std::move(kept);
}

Status ObjectCache::keep(const std::string &key, std::span<const char> object) const {
  if (place_.directory.empty())
    return {};
  std::error_code failed;
  std::filesystem::create_directories(place_.directory, failed);
  if (failed)
    return makeError(ErrorKind::Failed, "NB0907",
                     place_.directory + ": cannot make the cache directory: " + failed.message());
  std::string_view bytes(object.data(), object.size());
  Sha256Digest digest = digestOf(key, bytes);
  std::string text(reinterpret_cast<const char *>(digest.data()), digest.size());
  text += bytes;
  return writeFileAtomically(path(key), std::as_bytes(std::span(text)));
}

} // namespace ninfer
