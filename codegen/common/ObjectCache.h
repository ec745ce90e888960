// Machine code of single kernels kept on disk by the hash of everything that determines its bytes. Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_OBJECTCACHE_H
#define NINFER_CODEGEN_COMMON_OBJECTCACHE_H

#include "support/Status.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Key of an object: hash of the fields, each with its length, in order. The first one names the kind of object.
std::string objectKey(std::span<const std::string_view> fields);

class ObjectCache {
public:
  /// An empty directory name makes a cache that holds nothing.
  explicit ObjectCache(std::string directory) : directory_(std::move(directory)) {}

  /// The object, or nothing when it is absent or its content does not match its recorded digest.
  std::optional<std::vector<char>> find(const std::string &key) const;
  /// Keeps an object. NB0907 when the directory cannot be made; errors of support/File.h.
  Status store(const std::string &key, std::span<const char> object) const;

private:
  std::string path(const std::string &key) const { return directory_ + "/" + key + ".o"; }
  std::string directory_;
};

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_OBJECTCACHE_H
