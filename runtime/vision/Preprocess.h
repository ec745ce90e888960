// From pixels to the patch rows of a vision tower, as preprocessor_config.json says.
#ifndef NINFER_RUNTIME_VISION_PREPROCESS_H
#define NINFER_RUNTIME_VISION_PREPROCESS_H

#include "runtime/vision/Grid.h"

#include <string_view>
#include <vector>

namespace ninfer::vision {

/// 8-bit red, green, blue; rows from the top, pixels from the left.
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels; ///< height * width * 3
};

/// What preprocessor_config.json says of an image.
struct ImageConfig {
  int64_t patchSize = 0;
  int64_t temporalPatchSize = 0;
  int64_t mergeSize = 0;
  int64_t minPixels = 0; ///< of the resized image
  int64_t maxPixels = 0;
  std::array<double, 3> mean{}; ///< per channel, of values in 0..1
  std::array<double, 3> deviation{};

  int64_t patchWidth() const { return 3 * temporalPatchSize * patchSize * patchSize; }
};

/// Reads preprocessor_config.json: patch_size, temporal_patch_size, merge_size, size {shortest_edge, longest_edge} or
/// min_pixels and max_pixels, image_mean, image_std. Members that would change what is done (do_resize, do_rescale,
/// do_normalize, do_convert_rgb false; another rescale_factor or resample) are refused; others are ignored. Errors:
/// NB0720 (BadFile) structure or value, NB0721 (Unsupported) another way of processing.
Result<ImageConfig> parseImageConfig(std::string_view json, const std::string &name);

/// Size of the image after resizing: multiples of patchSize * mergeSize, between minPixels and maxPixels pixels where
/// that can be, the shape kept as well as it goes. `maxPatches` further limits maxPixels. Error: NB0722 (Usage): one side
/// more than 200 times the other, or a size that no choice brings below the limit.
Result<Grid> smartGrid(int64_t height, int64_t width, const ImageConfig &config, int64_t maxPatches);

/// Resizes to the grid's pixels (bicubic, antialiased), normalises, and cuts into patches in the order of patchAt, each
/// channel by channel, the frame repeated temporalPatchSize times: float32 [patches][patchWidth].
std::vector<float> patchRows(const Image &image, const Grid &grid, const ImageConfig &config);

/// Bicubic resampling (a = -0.5) whose kernel widens when the image shrinks, each axis on its own, columns first, rounded
/// to 8 bits in between and at the end.
Image resize(const Image &image, int64_t height, int64_t width);

} // namespace ninfer::vision

#endif // NINFER_RUNTIME_VISION_PREPROCESS_H
