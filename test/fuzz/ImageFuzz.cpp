// An image file through the decoders and on to patches, and the same bytes as a processor config.
#include "runtime/image/Decode.h"
#include "test/fuzz/Fuzz.h"

using namespace ninfer;
using namespace ninfer::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)accepted(vision::parseImageConfig(textOf(data, size), "preprocessor_config.json"));
  Result<vision::Image> image = image::decode(std::as_bytes(std::span(data, size)), "image");
  if (!accepted(image))
    return 0;
  require(image->height > 0 && image->width > 0 && image->height * image->width <= image::kMostPixels,
          "a decoded image has a size within the limit");
  require(image->pixels.size() == size_t(image->height * image->width * 3), "every pixel has three bytes");
  vision::ImageConfig config{4, 2, 2, 64, 4096, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
  Result<vision::Grid> grid = vision::smartGrid(image->height, image->width, config, 256);
  if (!accepted(grid) || image->height * image->width > 1 << 20)
    return 0;
  const std::vector<float> rows = vision::patchRows(*image, *grid, config);
  require(rows.size() == size_t(grid->patches() * config.patchWidth()), "every patch has its elements");
  for (float value : rows)
    require(value >= -1 && value <= 1, "a normalised pixel lies in -1..1");
  return 0;
}
