// Images of a prompt: from files to patches, and the tokens that stand for them.
#ifndef NINFER_TOOLS_NINFER_EXEC_IMAGES_H
#define NINFER_TOOLS_NINFER_EXEC_IMAGES_H

#include "runtime/vision/Preprocess.h"
#include "support/Sha256.h"
#include "tools/ninfer-exec/TextModel.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ninfer::exec {

inline constexpr uint64_t kMostImageBytes = uint64_t(1) << 28; ///< of an image file

/// An image on its way into a prompt. `embeddings` is filled, and `patches` emptied, by the thread of the context.
struct PromptImage {
  vision::Grid grid;
  size_t tokens = 0; ///< merged squares, each a token
  Sha256Digest digest; ///< of grid and patches: equal ones have equal embeddings
  std::vector<float> patches, embeddings;
};
using PromptImages = std::vector<std::shared_ptr<PromptImage>>;

/// Tokens of a prompt, in which an image is as many placeholders as it has embeddings.
struct Prompt {
  struct Place {
    size_t first; ///< index of its first token
    std::shared_ptr<PromptImage> image;
  };
  std::vector<int32_t> tokens;
  std::vector<Place> images;
};

class ImageReader {
public:
  /// For the tower of the plan; `config` is a preprocessor_config.json instead of the artifact's, or empty. NB0675 no tower,
  /// NB0725 no preprocessor_config.json (Unsupported), NB0720 (BadFile) one that does not agree with the tower.
  static Result<ImageReader> of(const Engine &engine, const std::string &config = {});

  /// Patches of a PNG or JPEG file. `name` is for messages.
  Result<std::shared_ptr<PromptImage>> read(std::span<const std::byte> bytes, const std::string &name) const;
  Result<std::shared_ptr<PromptImage>> readFile(const std::string &path) const;
  const ninfer_vision_info &tower() const { return tower_; }

private:
  ninfer_vision_info tower_ = {};
  vision::ImageConfig config_;
};

/// NB0672 (Unsupported) when the target of the plan takes no images in a prompt.
Status checkTakesImages(const Engine &engine, const ninfer_vision_info &tower);

/// The files as images of a prompt for that plan; none for none, whatever the plan. Errors of ImageReader and checkTakesImages.
Result<PromptImages> readImages(const Engine &engine, const std::vector<std::string> &files);

/// Makes each placeholder (<|image_pad|>) among `tokens` as many as its image has tokens, in order. NB0686 (Unsupported): the
/// tokenizer has none; NB0685 (Usage): not as many placeholders as images. Without images the tokens stay, whatever they are.
Result<Prompt> placeImages(std::vector<int32_t> tokens, const PromptImages &images, const TextModel &text);

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_IMAGES_H
