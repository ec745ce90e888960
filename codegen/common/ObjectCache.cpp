#include "codegen/common/ObjectCache.h"

#include "support/File.h"
#include "support/Sha256.h"

#include <cstring>
#include <filesystem>

namespace ninfer {

std::string objectKey(std::span<const std::string_view> fields) {
  Sha256 hash;
  for (std::string_view field : fields)
    hash.update(std::to_string(field.size()) + ":").update(field);
  return toHex(hash.finish());
}

std::optional<std::vector<char>> ObjectCache::find(const std::string &key) const {
  if (directory_.empty())
    return std::nullopt;
  Result<std::string> text = readFile(path(key));
  constexpr size_t digestBytes = sizeof(Sha256Digest);
  if (!text.ok() || text->size() < digestBytes)
    return std::nullopt;
  std::string_view object = std::string_view(*text).substr(digestBytes);
  Sha256Digest digest = sha256(object);
  if (std::memcmp(digest.data(), text->data(), digestBytes) != 0)
    return std::nullopt;
  return std::vector<char>(object.begin(), object.end());
}

Status ObjectCache::store(const std::string &key, std::span<const char> object) const {
  if (directory_.empty())
    return {};
  std::error_code failed;
  std::filesystem::create_directories(directory_, failed);
  if (failed)
    return makeError(ErrorKind::Failed, "NB0907",
                     directory_ + ": cannot make the cache directory: " + failed.message());
  std::string_view bytes(object.data(), object.size());
  Sha256Digest digest = sha256(bytes);
  std::string text(reinterpret_cast<const char *>(digest.data()), digest.size());
  text += bytes;
  return writeFileAtomically(path(key), std::as_bytes(std::span(text)));
}

} // namespace ninfer
