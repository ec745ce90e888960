#include "runtime/image/Decode.h"

#include <cstring>

namespace ninfer::image {

namespace {

bool begins(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

} // namespace

Status checkSize(uint64_t height, uint64_t width, const std::string &name) {
  if (height == 0 || width == 0)
    return makeError(ErrorKind::BadFile, "NB0723", name + ": an image without pixels");
  if (height > uint64_t(kMostPixels) / width)
    return makeError(ErrorKind::Unsupported, "NB0724",
                     name + ": " + std::to_string(width) + " x " + std::to_string(height) +
                         " pixels, at most " + std::to_string(kMostPixels) + " are decoded");
  return {};
}

Result<vision::Image> decode(std::span<const std::byte> bytes, const std::string &name) {
  if (begins(bytes, {"\x89PNG\r\n\x1a\n", 8}))
    return decodePng(bytes, name);
  if (begins(bytes, {"\xff\xd8\xff", 3}))
    return decodeJpeg(bytes, name);
  return makeError(ErrorKind::BadFile, "NB0723", name + ": neither a PNG nor a JPEG file");
}

} // namespace ninfer::image
