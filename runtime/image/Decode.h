// Image files to pixels: PNG and JPEG, told apart by their first bytes.
#ifndef NINFER_RUNTIME_IMAGE_DECODE_H
#define NINFER_RUNTIME_IMAGE_DECODE_H

#include "runtime/vision/Preprocess.h"

#include <cstddef>
#include <span>
#include <string>

namespace ninfer::image {

/// Pixels of the largest image that is decoded: 201 MB as RGB. A few bytes of a file can claim any number of them.
inline constexpr int64_t kMostPixels = int64_t(1) << 26;

/// Decodes to 8-bit RGB: palettes and grey are expanded, the upper 8 of 16 bits are taken, an alpha channel is left out as
/// it is; neither gamma, colour profiles nor the orientation of EXIF are applied. `name` is for messages. Errors: NB0723
/// (BadFile) damaged, truncated, or neither PNG nor JPEG; NB0724 (Unsupported) a colour space without a way to RGB, or
/// more than kMostPixels pixels.
Result<vision::Image> decode(std::span<const std::byte> bytes, const std::string &name);

// The two kinds, for bytes that begin as such a file.
Result<vision::Image> decodePng(std::span<const std::byte> bytes, const std::string &name);
Result<vision::Image> decodeJpeg(std::span<const std::byte> bytes, const std::string &name);

/// NB0724 for a size beyond the limit, NB0723 for none.
Status checkSize(uint64_t height, uint64_t width, const std::string &name);

} // namespace ninfer::image

#endif // NINFER_RUNTIME_IMAGE_DECODE_H
