// The folder that `scripts/gpu-check --pack` makes: machine code, plans, and a manifest with the digest of every file.
#ifndef NINFER_TEST_GPU_PACK_H
#define NINFER_TEST_GPU_PACK_H

#include "support/Json.h"
#include "support/Status.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ninfer::gpucheck {

class Pack {
public:
  /// Reads manifest.json of the folder.
  static Result<Pack> open(const std::filesystem::path &folder);

  const Json &manifest() const { return manifest_; }
  std::filesystem::path path(const std::string &name) const { return folder_ / name; }
  /// Compares every file with its digest; the message names the first that differs or is missing.
  Status verify() const;
  /// Architectures with machine code.
  std::vector<uint32_t> architectures() const;
  /// Made for a slow driver: few values, small models.
  bool small() const { return manifest_.value("small", false); }

private:
  std::filesystem::path folder_;
  Json manifest_;
};

} // namespace ninfer::gpucheck

#endif // NINFER_TEST_GPU_PACK_H
