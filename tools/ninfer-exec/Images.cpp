#include "tools/ninfer-exec/Images.h"

#include "runtime/image/Decode.h"
#include "support/File.h"

#include <algorithm>

namespace ninfer::exec {

namespace {

constexpr const char *kPlaceholder = "<|image_pad|>";

template <typename T>
std::span<const std::byte> bytesOf(const T &values) {
  return std::as_bytes(std::span(values.data(), values.size()));
}

} // namespace

Result<ImageReader> ImageReader::of(const Engine &engine, const std::string &config) {
  ImageReader reader;
  NINFER_ASSIGN_OR_RETURN(reader.tower_, engine.vision());
  const ninfer_vision_info &tower = reader.tower_;
  std::string text, name = config;
  if (!config.empty()) {
    NINFER_ASSIGN_OR_RETURN(text, ninfer::readFile(config, 1 << 20));
  } else {
    name = std::string(engine.info().weights_path) + ": preprocessor_config.json";
    NINFER_ASSIGN_OR_RETURN(const std::string_view stored, engine.resource("preprocessor_config.json"));
    if (stored.empty()) {
      Status status = makeError(ErrorKind::Unsupported, "NB0725", name + ": the artifact has none");
      status.help("give one with --config, or convert again with the file beside the checkpoint");
      return status;
    }
    text = stored;
  }
  NINFER_ASSIGN_OR_RETURN(reader.config_, vision::parseImageConfig(text, name));
  const vision::ImageConfig &c = reader.config_;
  if (c.patchWidth() != tower.patch_width || c.mergeSize != tower.merge)
    return makeError(ErrorKind::BadFile, "NB0720",
                     name + ": patches of " + std::to_string(c.patchWidth()) + " elements, merged " +
                         std::to_string(c.mergeSize) + " by " + std::to_string(c.mergeSize) + "; the tower takes " +
                         std::to_string(tower.patch_width) + " and " + std::to_string(tower.merge));
  return reader;
}

Result<std::shared_ptr<PromptImage>> ImageReader::read(std::span<const std::byte> bytes, const std::string &name) const {
  NINFER_ASSIGN_OR_RETURN(const vision::Image pixels, image::decode(bytes, name));
  auto made = std::make_shared<PromptImage>();
  NINFER_ASSIGN_OR_RETURN(made->grid, vision::smartGrid(pixels.height, pixels.width, config_, tower_.max_patches));
  made->patches = vision::patchRows(pixels, made->grid, config_);
  made->tokens = size_t(made->grid.patches() / (int64_t(tower_.merge) * tower_.merge));
  const std::array<int64_t, 2> sides = {made->grid.height, made->grid.width};
  made->digest = Sha256().update(bytesOf(sides)).update(bytesOf(made->patches)).finish();
  return made;
}

Result<std::shared_ptr<PromptImage>> ImageReader::readFile(const std::string &path) const {
  NINFER_ASSIGN_OR_RETURN(const std::string bytes, ninfer::readFile(path, kMostImageBytes));
  return read(bytesOf(bytes), path);
}

Status checkTakesImages(const Engine &engine, const ninfer_vision_info &tower) {
  if (tower.images_in_text)
    return {};
  return makeError(ErrorKind::Unsupported, "NB0672",
                   std::string(engine.info().plan_path) + ": the target " + engine.info().target +
                       " takes no images in a prompt; targets that do: reference, cpu");
}

Result<PromptImages> readImages(const Engine &engine, const std::vector<std::string> &files) {
  PromptImages images;
  if (files.empty())
    return images;
  NINFER_ASSIGN_OR_RETURN(const ImageReader reader, ImageReader::of(engine));
  NINFER_RETURN_IF_ERROR(checkTakesImages(engine, reader.tower()));
  for (const std::string &file : files) {
    NINFER_ASSIGN_OR_RETURN(std::shared_ptr<PromptImage> image, reader.readFile(file));
    images.push_back(std::move(image));
  }
  return images;
}

Result<Prompt> placeImages(std::vector<int32_t> tokens, const PromptImages &images, const TextModel &text) {
  Prompt prompt;
  if (images.empty()) {
    prompt.tokens = std::move(tokens);
    return prompt;
  }
  NINFER_ASSIGN_OR_RETURN(const Tokenizer *tokenizer, text.tokenizer());
  const std::optional<int32_t> placeholder = tokenizer->find(kPlaceholder);
  if (!placeholder)
    return makeError(ErrorKind::Unsupported, "NB0686",
                     std::string("the tokenizer of the artifact has no ") + kPlaceholder + ": the model takes no images");
  const auto places = size_t(std::count(tokens.begin(), tokens.end(), *placeholder));
  if (places != images.size()) {
    Status status = makeError(ErrorKind::Usage, "NB0685",
                              "the prompt has " + std::to_string(places) + " places for an image (" + kPlaceholder + ") and " +
                                  std::to_string(images.size()) + (images.size() == 1 ? " image" : " images"));
    if (places < images.size())
      status.help("a chat template that knows images makes the places; in a prompt without one write "
                  "<|vision_start|><|image_pad|><|vision_end|>");
    return status;
  }
  size_t next = 0;
  for (int32_t token : tokens) {
    if (token != *placeholder) {
      prompt.tokens.push_back(token);
      continue;
    }
    const auto &image = images[next++];
    prompt.images.push_back({prompt.tokens.size(), image});
    prompt.tokens.insert(prompt.tokens.end(), image->tokens, token);
  }
  return prompt;
}

} // namespace ninfer::exec
