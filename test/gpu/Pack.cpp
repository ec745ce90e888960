#include "test/gpu/Pack.h"

#include "support/File.h"
#include "support/Sha256.h"

namespace ninfer::gpucheck {

Result<Pack> Pack::open(const std::filesystem::path &folder) {
  Pack pack;
  pack.folder_ = folder;
  NINFER_ASSIGN_OR_RETURN(const std::string text, readFile(folder / "manifest.json"));
  NINFER_ASSIGN_OR_RETURN(pack.manifest_, parseStrictJson(text, (folder / "manifest.json").string()));
  constexpr uint64_t kVersion = 1;
  if (pack.manifest_.value("version", uint64_t(0)) != kVersion)
    return makeError(ErrorKind::BadFile, "gpu-check",
                     (folder / "manifest.json").string() + ": expected a gpu-check pack of version " + std::to_string(kVersion));
  return pack;
}

Status Pack::verify() const {
  for (const auto &[name, digest] : manifest_.at("files").items()) {
    NINFER_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path(name)));
    const std::string found = toHex(sha256(file.bytes()));
    if (found != digest.get<std::string>())
      return makeError(ErrorKind::BadFile, "gpu-check",
                       path(name).string() + ": expected SHA-256 " + digest.get<std::string>() + ", got " + found);
  }
  return {};
}

std::vector<uint32_t> Pack::architectures() const {
  std::vector<uint32_t> all;
  for (const auto &sm : manifest_.at("architectures"))
    all.push_back(sm.get<uint32_t>());
  return all;
}

} // namespace ninfer::gpucheck
