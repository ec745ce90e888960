// ninfer-exec embed PLAN IMAGE: the embeddings that the vision tower makes of an image.
#include "tools/ninfer-exec/Options.h"

#include "support/File.h"
#include "tools/ninfer-exec/Images.h"
#include "tools/ninfer-exec/Report.h"

#include <charconv>
#include <cstring>

namespace ninfer::exec {

namespace {

struct EmbedOptions {
  CommonOptions common;
  std::string image, patches, grid, config;
  std::string format = "json", out;
};

/// "ROWSxCOLUMNS" of patches.
Result<vision::Grid> parseGrid(const std::string &text) {
  vision::Grid grid;
  const char *at = text.data(), *end = at + text.size();
  auto rows = std::from_chars(at, end, grid.height);
  if (rows.ec == std::errc() && rows.ptr != end && *rows.ptr == 'x') {
    auto columns = std::from_chars(rows.ptr + 1, end, grid.width);
    if (columns.ec == std::errc() && columns.ptr == end && grid.height > 0 && grid.width > 0 &&
        grid.height <= UINT32_MAX && grid.width <= UINT32_MAX)
      return grid;
  }
  return makeError(ErrorKind::Usage, "NB0900", "--grid: expected ROWSxCOLUMNS of patches, got '" + text + "'");
}

Result<std::vector<float>> readPatches(const std::string &path) {
  NINFER_ASSIGN_OR_RETURN(const std::string bytes, readFile(path, kMostImageBytes));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::string render(std::span<const float> values, const vision::Grid &grid, const ninfer_vision_info &tower,
                   const std::string &format) {
  if (format == "raw")
    return std::string(reinterpret_cast<const char *>(values.data()), values.size_bytes());
  Row root;
  root["grid"] = {grid.height, grid.width};
  root["embeddings"] = Row::array();
  for (size_t at = 0; at < values.size(); at += tower.embedding_width) {
    Row row = Row::array();
    for (float value : values.subspan(at, tower.embedding_width))
      row.push_back(exactNumber(value));
    root["embeddings"].push_back(std::move(row));
  }
  return root.dump() + "\n";
}

Result<int> run(const EmbedOptions &options) {
  if (options.image.empty() == options.patches.empty())
    return makeError(ErrorKind::Usage, "NB0900", "expected an image or --patches with --grid");
  vision::Grid grid;
  if (!options.patches.empty()) {
    NINFER_ASSIGN_OR_RETURN(grid, parseGrid(options.grid));
  }
  NINFER_ASSIGN_OR_RETURN(Engine engine, Engine::open(options.common));
  NINFER_RETURN_IF_ERROR(checkOutput(options.out, {options.common.plan, engine.info().weights_path, options.common.prepacked, options.image,
                                                   options.config, options.patches}));
  NINFER_ASSIGN_OR_RETURN(const ninfer_vision_info tower, engine.vision());
  std::vector<float> patches;
  if (!options.patches.empty()) {
    NINFER_ASSIGN_OR_RETURN(patches, readPatches(options.patches));
  } else {
    NINFER_ASSIGN_OR_RETURN(const ImageReader reader, ImageReader::of(engine, options.config));
    NINFER_ASSIGN_OR_RETURN(const std::shared_ptr<PromptImage> image, reader.readFile(options.image));
    grid = image->grid;
    patches = std::move(image->patches);
  }
  if (patches.size() / tower.patch_width != size_t(grid.patches()) || patches.size() % tower.patch_width != 0)
    return makeError(ErrorKind::Usage, "NB0676",
                     "patches: expected " + std::to_string(grid.patches()) + " of " +
                         std::to_string(tower.patch_width) + " elements, got " + std::to_string(patches.size()) +
                         " elements");
  NINFER_ASSIGN_OR_RETURN(Context context, Context::create(engine, options.common, false));
  NINFER_ASSIGN_OR_RETURN(const std::span<const float> values, context.encodeImage(patches, grid.height, grid.width));
  const std::string bytes = render(values, grid, tower, options.format);
  NINFER_RETURN_IF_ERROR(writeText(options.out, bytes));
  if (options.common.stats) {
    const ninfer_stats stats = context.stats();
    std::fprintf(stderr, "image: %lld x %lld patches, %zu embeddings of %u in %.1f ms\n", (long long)grid.height,
                 (long long)grid.width, values.size() / tower.embedding_width, tower.embedding_width,
                 double(stats.encode_ns) / 1e6);
  }
  printAsked(engine, options.common, context, {});
  return 0;
}

} // namespace

int embedCommand(int argc, char **argv) {
  EmbedOptions options;
  CLI::App app("Print the embeddings that the vision tower makes of an image.", "ninfer-exec embed");
  addCommonOptions(app, options.common);
  app.add_option("image", options.image, "PNG or JPEG file")->type_name("IMAGE");
  app.add_option("--config", options.config, "preprocessor_config.json (default: the artifact's)")->type_name("FILE");
  auto *patches = app.add_option("--patches", options.patches,
                                 "Patch rows instead of an image: float32, little-endian, in the order of the tower")
                      ->type_name("FILE");
  auto *grid = app.add_option("--grid", options.grid, "With --patches: rows and columns of patches, as 10x8")
                   ->type_name("RxC");
  patches->needs(grid);
  grid->needs(patches);
  app.add_option("-o,--output", options.format, "json (default), raw (float32, little-endian, row by row)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"json", "raw"}));
  app.add_option("--out", options.out, "Write to this file instead of stdout")->type_name("FILE");
  if (int code = parse(app, argc, argv); code >= 0)
    return code;
  return report(run(options));
}

} // namespace ninfer::exec
