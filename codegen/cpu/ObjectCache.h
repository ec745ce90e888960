// Objects of single kernels kept on disk by the hash of everything that determines their bytes.
#ifndef NINFER_CODEGEN_CPU_OBJECTCACHE_H
#define NINFER_CODEGEN_CPU_OBJECTCACHE_H

#include "codegen/cpu/CpuCodegen.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer::cpu {

class ObjectCache {
public:
  /// An empty directory name makes a cache that holds nothing.
  explicit ObjectCache(std::string directory) : directory_(std::move(directory)) {}

  /// Key of an object: LLVM and pipeline version, target, micro-kernel bitcode, LLVM IR of the
  /// kernel.
  static std::string key(std::string_view ir, const CpuTarget &target,
                         std::string_view bitcodeDigest);

  /// The object, or nothing when it is absent or its content does not match its recorded digest.
  std::optional<std::vector<char>> find(const std::string &key) const;
  /// Keeps an object. NB0907 when the directory cannot be made; errors of support/File.h.
  Status store(const std::string &key, const std::vector<char> &object) const;

private:
  std::string path(const std::string &key) const { return directory_ + "/" + key + ".o"; }
  std::string directory_;
};

} // namespace ninfer::cpu

#endif // NINFER_CODEGEN_CPU_OBJECTCACHE_H
