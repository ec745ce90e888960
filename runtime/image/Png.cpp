// libpng reports errors by a jump. What the jump leaves behind is plain data in one struct outside of it.
#include "runtime/image/Decode.h"

#include <csetjmp>
#include <cstring>
#include <png.h>

namespace ninfer::image {

namespace {

struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> bytes;
  size_t at = 0;
  char message[128] = "unknown error";
  png_uint_32 height = 0, width = 0;
  bool rgb = false; ///< rows are what the caller expects

  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }

  bool open();
  bool readHeader();
  bool readRows(png_bytep *rows);
};

void onError(png_structp png, png_const_charp text) {
  auto *reader = static_cast<Reader *>(png_get_error_ptr(png));
  std::strncpy(reader->message, text, sizeof(reader->message) - 1);
  png_longjmp(png, 1);
}

void onWarning(png_structp, png_const_charp) {} // of ancillary chunks; the pixels have their own checks

void onRead(png_structp png, png_bytep to, size_t count) {
  auto *reader = static_cast<Reader *>(png_get_io_ptr(png));
  if (count > reader->bytes.size() - reader->at)
    png_error(png, "the file ends early");
  std::memcpy(to, reader->bytes.data() + reader->at, count);
  reader->at += count;
}

bool Reader::open() {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, onError, onWarning);
  if (png)
    info = png_create_info_struct(png);
  return info != nullptr;
}

bool Reader::readHeader() {
  if (setjmp(png_jmpbuf(png)))
    return false;
  png_set_read_fn(png, this, onRead);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff); // the caller checks the product
  png_set_chunk_cache_max(png, 128);
  png_set_chunk_malloc_max(png, 8u << 20); // of an ancillary chunk, decompressed
  png_read_info(png, info);
  height = png_get_image_height(png, info);
  width = png_get_image_width(png, info);
  return true;
}

bool Reader::readRows(png_bytep *rows) {
  if (setjmp(png_jmpbuf(png)))
    return false;
  png_set_expand(png); // palettes and few bits to 8 bits
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  rgb = png_get_rowbytes(png, info) == size_t(width) * 3;
  if (!rgb)
    return true;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

} // namespace

Result<vision::Image> decodePng(std::span<const std::byte> bytes, const std::string &name) {
  Reader reader;
  reader.bytes = bytes;
  const auto damaged = [&] {
    return makeError(ErrorKind::BadFile, "NB0723", name + ": PNG: " + reader.message);
  };
  if (!reader.open() || !reader.readHeader())
    return damaged();
  NINFER_RETURN_IF_ERROR(checkSize(reader.height, reader.width, name));
  vision::Image image{reader.height, reader.width, {}};
  image.pixels.resize(size_t(reader.height) * reader.width * 3);
  std::vector<png_bytep> rows(reader.height);
  for (size_t y = 0; y < rows.size(); ++y)
    rows[y] = image.pixels.data() + y * reader.width * 3;
  if (!reader.readRows(rows.data()))
    return damaged();
  if (!reader.rgb)
    return makeError(ErrorKind::Unsupported, "NB0724", name + ": PNG: no way to 8-bit RGB");
  return image;
}

} // namespace ninfer::image
