// Machine code of single kernels kept on disk by the hash of everything that determines its bytes. Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_OBJECTCACHE_H
#define NINFER_CODEGEN_COMMON_OBJECTCACHE_H

#include "support/Status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Key of an object: hash of the fields, each with its length, in order. The first one names the kind of object.
std::string objectKey(std::span<const std::string_view> fields);

/// Where a cache is and what it may cost.
struct CachePlace {
  std::string directory; ///< empty: none
  /// Nobody asked for this cache: what cannot be kept is dropped instead of ending the build.
  bool optional = false;
};

/// Folder of the user's cache: $XDG_CACHE_HOME/ninfer, else $HOME/.cache/ninfer; empty when neither variable is an absolute
/// path.
std::string defaultCacheDirectory();

/// Makes `directory` for its owner alone if it is missing. The empty string when it can be used; else why not: it cannot
/// be made or written, it belongs to another user, or others may write to it (a plan holds the code that is found there).
std::string prepareDefaultCache(const std::string &directory);

/// Removes the oldest files of a cache until it is below `mostBytes`, if it is above. Files that vanish meanwhile are not errors.
void trimCache(const std::string &directory, uint64_t mostBytes);

class ObjectCache {
public:
  /// An empty directory name makes a cache that holds nothing.
  explicit ObjectCache(CachePlace place) : place_(std::move(place)) {}

  /// The object, or nothing when it is absent, its content does not match its recorded digest, or it was kept under another key.
  std::optional<std::vector<char>> find(const std::string &key) const;
  /// Keeps an object, under its name only when complete, whoever writes at the same time. NB0907 when the directory cannot
  /// be made; errors of support/File.h. Neither in an optional cache.
  Status store(const std::string &key, std::span<const char> object) const;

private:
  std::string path(const std::string &key) const { return place_.directory + "/" + key + ".o"; }
  Status keep(const std::string &key, std::span<const char> object) const;
  CachePlace place_;
};

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_OBJECTCACHE_H
