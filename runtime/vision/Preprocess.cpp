#include "runtime/vision/Preprocess.h"

#include "support/Json.h"

#include <algorithm>
#include <cmath>

namespace ninfer::vision {

namespace {

const char *const kCode = "NB0720";
constexpr int64_t kMostPixels = int64_t(1) << 40;
constexpr int64_t kBicubic = 3; ///< its number in Pillow

Error badConfig(const std::string &name, const std::string &text) {
  return makeError(ErrorKind::BadFile, kCode, name + ": " + text);
}

/// The three numbers of a channel statistic.
Result<std::array<double, 3>> channels(const Json &json, const char *member,
                                       const std::string &name) {
  std::array<double, 3> out{};
  auto it = json.find(member);
  if (it == json.end() || !it->is_array() || it->size() != 3)
    return badConfig(name, std::string(member) + " must be an array of 3 numbers");
  for (size_t i = 0; i < 3; ++i) {
    NINFER_ASSIGN_OR_RETURN(out[i], jsonNumber((*it)[i], name + ": " + member, kCode));
  }
  return out;
}

Result<int64_t> integer(const Json &json, const char *member, int64_t most,
                        const std::string &name) {
  auto it = json.find(member);
  if (it == json.end())
    return badConfig(name, "member " + std::string(member) + " is missing");
  return jsonInteger(*it, 1, most, name + ": " + member, kCode);
}

/// A member that, when it is there, must have the value that this code implements.
Status expect(const Json &json, const char *member, const Json &wanted, const std::string &name) {
  auto it = json.find(member);
  if (it == json.end() || it->is_null() || *it == wanted)
    return {};
  return makeError(ErrorKind::Unsupported, "NB0721",
                   name + ": " + member + " is " + jsonExcerpt(*it) + ", only " + wanted.dump() +
                       " is supported");
}

/// The nearest integer, ties to even: the rounding of the reference's language.
int64_t roundEven(double value) { return int64_t(std::nearbyint(value)); }

} // namespace

Result<ImageConfig> parseImageConfig(std::string_view text, const std::string &name) {
  NINFER_ASSIGN_OR_RETURN(const Json json, parseStrictJson(text, name, kCode));
  if (!json.is_object())
    return badConfig(name, "must be a JSON object");
  for (const char *step : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    NINFER_RETURN_IF_ERROR(expect(json, step, true, name));
  NINFER_RETURN_IF_ERROR(expect(json, "resample", kBicubic, name));
  ImageConfig config;
  if (auto factor = json.find("rescale_factor"); factor != json.end() && !factor->is_null()) {
    NINFER_ASSIGN_OR_RETURN(const double value,
                            jsonNumber(*factor, name + ": rescale_factor", kCode));
    if (std::fabs(value * 255 - 1) > 1e-6)
      return makeError(ErrorKind::Unsupported, "NB0721",
                       name + ": rescale_factor is " + jsonExcerpt(*factor) +
                           ", only 1/255 is supported");
  }
  NINFER_ASSIGN_OR_RETURN(config.patchSize, integer(json, "patch_size", 1024, name));
  NINFER_ASSIGN_OR_RETURN(config.temporalPatchSize, integer(json, "temporal_patch_size", 64, name));
  NINFER_ASSIGN_OR_RETURN(config.mergeSize, integer(json, "merge_size", 64, name));
  // Older files name the limits, newer ones put them under the edges of `size`.
  auto size = json.find("size");
  const bool edges = size != json.end() && size->is_object() && size->contains("shortest_edge");
  const Json &limits = edges ? *size : json;
  NINFER_ASSIGN_OR_RETURN(
      config.minPixels, integer(limits, edges ? "shortest_edge" : "min_pixels", kMostPixels, name));
  NINFER_ASSIGN_OR_RETURN(
      config.maxPixels, integer(limits, edges ? "longest_edge" : "max_pixels", kMostPixels, name));
  if (config.minPixels > config.maxPixels)
    return badConfig(name, "the fewest pixels (" + std::to_string(config.minPixels) +
                               ") exceed the most (" + std::to_string(config.maxPixels) + ")");
  NINFER_ASSIGN_OR_RETURN(config.mean, channels(json, "image_mean", name));
  NINFER_ASSIGN_OR_RETURN(config.deviation, channels(json, "image_std", name));
  for (double deviation : config.deviation)
    if (!(deviation > 0))
      return badConfig(name, "image_std must be positive");
  return config;
}

Result<Grid> smartGrid(int64_t height, int64_t width, const ImageConfig &config,
                       int64_t maxPatches) {
  const std::string what =
      "image of " + std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (height < 1 || width < 1 || height > kMostPixels / width)
    return makeError(ErrorKind::Usage, "NB0722", what + ": no size that can be resized");
  const double longer = double(std::max(height, width)), shorter = double(std::min(height, width));
  if (longer / shorter > 200)
    return makeError(ErrorKind::Usage, "NB0722",
                     what + ": one side is more than 200 times the other");
  const int64_t factor = config.patchSize * config.mergeSize;
  const int64_t most = std::min(config.maxPixels, maxPatches * config.patchSize * config.patchSize);
  const double f = double(factor), h = double(height), w = double(width);
  int64_t rows = roundEven(h / f), columns = roundEven(w / f); // in merged squares
  const double square = f * f;
  if (double(rows) * double(columns) * square > double(most)) {
    const double beta = std::sqrt(h * w / double(most));
    rows = std::max<int64_t>(1, int64_t(std::floor(h / beta / f)));
    columns = std::max<int64_t>(1, int64_t(std::floor(w / beta / f)));
  } else if (double(rows) * double(columns) * square < double(config.minPixels)) {
    const double beta = std::sqrt(double(config.minPixels) / (h * w));
    rows = int64_t(std::ceil(h * beta / f));
    columns = int64_t(std::ceil(w * beta / f));
  }
  const Grid grid{rows * config.mergeSize, columns * config.mergeSize};
  if (rows < 1 || columns < 1 || grid.patches() > maxPatches || most < config.minPixels) {
    const std::string takes =
        most < config.minPixels ? "an image has at least " + std::to_string(config.minPixels) +
                                      " pixels in patches of " + std::to_string(config.patchSize) +
                                      " x " + std::to_string(config.patchSize)
                                : "takes " + std::to_string(grid.height) + " x " +
                                      std::to_string(grid.width) + " patches";
    Status status = makeError(ErrorKind::Usage, "NB0722",
                              what + ": " + takes + ", the plan has room for " +
                                  std::to_string(maxPatches) + " patches");
    status.help("build the plan with a larger --vision-max-patches");
    return status;
  }
  return grid;
}

std::vector<float> patchRows(const Image &image, const Grid &grid, const ImageConfig &config) {
  const int64_t p = config.patchSize, frames = config.temporalPatchSize;
  const int64_t height = grid.height * p, width = grid.width * p;
  const Image sized =
      image.height == height && image.width == width ? image : resize(image, height, width);
  std::array<std::array<float, 256>, 3> value{}; // of every byte, per channel
  for (size_t c = 0; c < 3; ++c)
    for (size_t byte = 0; byte < 256; ++byte)
      value[c][byte] = float((double(byte) / 255 - config.mean[c]) / config.deviation[c]);
  std::vector<float> out(size_t(grid.patches() * config.patchWidth()));
  for (int64_t i = 0; i < grid.patches(); ++i) {
    const auto [row, column] = patchAt(grid, config.mergeSize, i);
    float *patch = out.data() + i * config.patchWidth();
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t t = 0; t < frames; ++t)
        for (int64_t y = 0; y < p; ++y) {
          const uint8_t *from = sized.pixels.data() + ((row * p + y) * width + column * p) * 3 + c;
          for (int64_t x = 0; x < p; ++x)
            *patch++ = value[size_t(c)][from[3 * x]];
        }
  }
  return out;
}

} // namespace ninfer::vision
