// libjpeg reports errors by a jump. What the jump leaves behind is plain data in one struct outside of it.
#include "runtime/image/Decode.h"

#include <csetjmp>
#include <cstdio>
#include <jpeglib.h>

namespace ninfer::image {

namespace {

constexpr int kMostScans = 200; ///< of a progressive file; each costs a pass over the image

struct Reader {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = "unknown error";
  bool created = false;

  ~Reader() {
    if (created)
      jpeg_destroy_decompress(&jpeg);
  }

  bool readHeader(std::span<const std::byte> bytes);
  bool readRows(uint8_t *pixels);
};

void onError(j_common_ptr jpeg) {
  auto *reader = static_cast<Reader *>(jpeg->client_data);
  (*jpeg->err->format_message)(jpeg, reader->message);
  longjmp(reader->jump, 1);
}

/// Damage that libjpeg would paint over.
void onMessage(j_common_ptr jpeg, int level) {
  if (level < 0)
    onError(jpeg);
}

void onProgress(j_common_ptr jpeg) {
  auto *reader = static_cast<Reader *>(jpeg->client_data);
  if (reader->jpeg.input_scan_number <= kMostScans)
    return;
  std::snprintf(reader->message, sizeof(reader->message), "more than %d scans", kMostScans);
  longjmp(reader->jump, 1);
}

bool Reader::readHeader(std::span<const std::byte> bytes) {
  jpeg.err = jpeg_std_error(&errors);
  errors.error_exit = onError;
  errors.emit_message = onMessage;
  jpeg.client_data = this;
  if (setjmp(jump))
    return false;
  jpeg_create_decompress(&jpeg);
  created = true;
  jpeg.client_data = this; // creation clears what follows the error manager
  progress.progress_monitor = onProgress;
  jpeg.progress = &progress;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char *>(bytes.data()), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&jpeg, TRUE);
  return true;
}

bool Reader::readRows(uint8_t *pixels) {
  if (setjmp(jump))
    return false;
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + size_t(jpeg.output_scanline) * jpeg.output_width * 3;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

} // namespace

Result<vision::Image> decodeJpeg(std::span<const std::byte> bytes, const std::string &name) {
  Reader reader;
  const auto damaged = [&] {
    return makeError(ErrorKind::BadFile, "NB0723", name + ": JPEG: " + reader.message);
  };
  if (!reader.readHeader(bytes))
    return damaged();
  NINFER_RETURN_IF_ERROR(checkSize(reader.jpeg.image_height, reader.jpeg.image_width, name));
  if (reader.jpeg.jpeg_color_space == JCS_CMYK || reader.jpeg.jpeg_color_space == JCS_YCCK)
    return makeError(ErrorKind::Unsupported, "NB0724", name + ": JPEG: CMYK has no single way to RGB");
  vision::Image image{int64_t(reader.jpeg.image_height), int64_t(reader.jpeg.image_width), {}};
  image.pixels.resize(size_t(image.height * image.width * 3));
  if (!reader.readRows(image.pixels.data()))
    return damaged();
  return image;
}

} // namespace ninfer::image
