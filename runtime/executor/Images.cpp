// The part of a context with images in the text: embeddings in place of placeholders, and rotary angles by positions of three
// axes. The layers read the rope table by the number of a token; the phase Place writes the rows of tokens whose positions
// are not their numbers, before the call that evaluates them.
#include "runtime/executor/Context.h"

#include "runtime/executor/Ports.h"
#include "runtime/executor/Tower.h"

#include <algorithm>

namespace ninfer {

Status Context::prepareImages() {
  const auto foreign = [&](const ProgramPhase &phase, const std::string &what) {
    return makeError(ErrorKind::BadFile, "NB0677",
                     engine_->planPath().string() + ": " + phase.source->name()->str() + ": " + what);
  };
  // Embeddings and choice of a phase that has inputs; width 0: any.
  const auto find = [&](const ProgramPhase &phase, uint32_t width, const plan::Port *&embeddings,
                        const plan::Port *&from) -> Status {
    const auto *inputs = phase.source->inputs();
    if (!inputs || inputs->size() == 0)
      return {};
    embeddings = findPort(inputs, "embeddings", plan::ElementType::F32, width);
    from = findPort(inputs, "from_embeddings", plan::ElementType::I32, 1);
    if (!embeddings || !from || inputs->size() != 2)
      return foreign(phase, "expected the inputs 'embeddings' of F32" +
                                (width ? " and width " + std::to_string(width) : std::string()) +
                                " and 'from_embeddings' of I32 and width 1, or none");
    if (phase.minRows != 1)
      return foreign(phase, "expected calls of 1 row and more, since it takes images, got at least " +
                                std::to_string(phase.minRows));
    return {};
  };
  for (const ProgramPhase *phase : {phases_.decode, phases_.verify, phases_.draftNext})
    if (phase && phase->source->inputs() && phase->source->inputs()->size() != 0)
      return foreign(*phase, "expected no inputs beside the tokens");
  NINFER_RETURN_IF_ERROR(find(*phases_.prefill, 0, imagePorts_.prefill, imagePorts_.prefillFrom));
  const uint32_t width = imagePorts_.prefill ? imagePorts_.prefill->width() : 0;
  if (phases_.draft)
    NINFER_RETURN_IF_ERROR(find(*phases_.draft, width, imagePorts_.draft, imagePorts_.draftFrom));
  if (phases_.draft && (imagePorts_.draft != nullptr) != takesImages())
    return foreign(*phases_.draft, "expected the inputs of the prefill phase");
  if (phases_.place) {
    const ProgramPhase &phase = *phases_.place;
    imagePorts_.positions = findPort(phase.source->inputs(), "positions", plan::ElementType::I32, 3);
    const int64_t most = std::max(phases_.prefill->maxRows, phases_.verify ? phases_.verify->maxRows : 1);
    if (!imagePorts_.positions || phase.source->inputs()->size() != 1 || phase.minRows != 1 || phase.maxRows < most)
      return foreign(phase, "expected the one input 'positions' of I32 and width 3, and calls of 1 to " +
                                std::to_string(most) + " rows");
  }
  if (!takesImages())
    return {};
  NINFER_ASSIGN_OR_RETURN(const Tower tower, Tower::of(*engine_));
  if (tower.embeddingWidth() != int64_t(width))
    return foreign(*phases_.prefill, "takes embeddings of " + std::to_string(width) + " elements, the tower makes " +
                                         std::to_string(tower.embeddingWidth()));
  imagePorts_.width = tower.embeddingWidth();
  imagePorts_.merge = tower.merge();
  rowEmbeddings_.reserve(size_t(phases_.prefill->maxRows));
  return {};
}

Status Context::checkImages(size_t tokens, std::span<const ImageSpan> images) const {
  if (images.empty())
    return {};
  NINFER_ASSIGN_OR_RETURN(const Tower tower, Tower::of(*engine_));
  if (!takesImages())
    return makeError(ErrorKind::Unsupported, "NB0672",
                     engine_->planPath().string() + ": the target " + engine_->target().name()->str() +
                         " takes no images in a prompt; targets that do: reference, cpu");
  size_t end = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    const ImageSpan &image = images[i];
    NINFER_RETURN_IF_ERROR(vision::checkGrid(image.grid, tower.merge(), tower.maxPatches()));
    const auto count = size_t(image.grid.patches() / (tower.merge() * tower.merge()));
    if (image.first < end || image.first > tokens || count > tokens - image.first || !image.embeddings)
      return makeError(ErrorKind::Usage, "NB0673",
                       "image " + std::to_string(i) + " takes the tokens " + std::to_string(image.first) + " to " +
                           std::to_string(image.first + count - 1) + (image.embeddings ? "" : " and has no embeddings") +
                           ", expected " + std::to_string(count) + " of the tokens " + std::to_string(end) + " to " +
                           std::to_string(tokens) + " (exclusive), behind the image before");
    if (tower.isOutput(*executor_, image.embeddings))
      return makeError(ErrorKind::Usage, "NB0673",
                       "image " + std::to_string(i) +
                           ": its embeddings are still where the tower left them, in memory that the next call uses; copy them first");
    end = image.first + count;
  }
  return {};
}

std::span<const float *const> Context::embeddingsOf(size_t first, size_t rows, std::span<const ImageSpan> images) {
  if (images.empty())
    return {};
  rowEmbeddings_.assign(rows, nullptr);
  for (const ImageSpan &image : images) {
    const auto count = size_t(image.grid.patches() / (imagePorts_.merge * imagePorts_.merge));
    const size_t begin = std::max(first, image.first), end = std::min(first + rows, image.first + count);
    for (size_t token = begin; token < end; ++token)
      rowEmbeddings_[token - first] = image.embeddings + (token - image.first) * size_t(imagePorts_.width);
  }
  return rowEmbeddings_;
}

bool Context::place(int64_t position, int64_t rows) {
  const bool text = position + rows <= positions_.firstMedia(); // whose positions are their numbers
  if (!phases_.place || (text && position >= placedEnd_))
    return true;
  auto *to = reinterpret_cast<int32_t *>(executor_->memoryOf(*imagePorts_.positions));
  for (int64_t row = 0; row < rows; ++row)
    for (int32_t at : positions_.of(position + row))
      *to++ = at;
  if (!text)
    placedEnd_ = std::max(placedEnd_, position + rows);
  return runPhase(*phases_.place, rows, position, never_);
}

void Context::writeEmbeddings(const ProgramPhase &phase, size_t rows, std::span<const float *const> embeddings) {
  const bool draft = &phase == phases_.draft;
  const plan::Port *port = draft ? imagePorts_.draft : &phase == phases_.prefill ? imagePorts_.prefill : nullptr;
  if (!port)
    return;
  auto *from = reinterpret_cast<int32_t *>(executor_->memoryOf(draft ? *imagePorts_.draftFrom : *imagePorts_.prefillFrom));
  auto *values = reinterpret_cast<float *>(executor_->memoryOf(*port));
  for (size_t row = 0; row < rows; ++row) {
    const float *embedding = row < embeddings.size() ? embeddings[row] : nullptr;
    from[row] = embedding ? 1 : 0;
    if (embedding)
      std::copy_n(embedding, imagePorts_.width, values + row * size_t(imagePorts_.width));
  }
}

} // namespace ninfer
