#include "tools/ninfer-exec/PromptCache.h"

#include <algorithm>

namespace ninfer::exec {

std::vector<int32_t> PromptCache::keysOf(const Prompt &prompt) {
  std::vector<int32_t> keys = prompt.tokens;
  for (const auto &[first, image] : prompt.images) {
    const int32_t number = images_.try_emplace(image->digest, -int32_t(images_.size()) - 1).first->second;
    std::fill_n(keys.begin() + std::ptrdiff_t(first), image->tokens, number);
  }
  return keys;
}

Status PromptCache::evaluate(const Prompt &prompt, uint32_t chunk, const std::function<bool()> &wanted) {
  const std::span<const int32_t> tokens = prompt.tokens;
  const auto gone = [] { return makeError(ErrorKind::Interrupted, "NB0653", "nobody waits for the answer any more"); };
  auto next = prompt.images.begin();
  while (next != prompt.images.end() && next->first < context_.position())
    ++next;
  for (size_t begin = context_.position(); begin < tokens.size(); begin = context_.position()) {
    size_t end = std::min(begin + chunk, tokens.size());
    std::vector<ninfer_image_span> spans;
    for (; next != prompt.images.end() && next->first < end; ++next) {
      const auto &[first, image] = *next;
      if (image->embeddings.empty()) {
        if (!wanted())
          return gone();
        NINFER_ASSIGN_OR_RETURN(const std::span<const float> values,
                                context_.encodeImage(image->patches, image->grid.height, image->grid.width));
        image->embeddings.assign(values.begin(), values.end());
        image->patches = {};
      }
      ninfer_image_span span = {};
      span.struct_size = sizeof(span);
      span.first = first - begin;
      span.grid_height = uint32_t(image->grid.height);
      span.grid_width = uint32_t(image->grid.width);
      span.embeddings = image->embeddings.data();
      spans.push_back(span);
      while (end < first + image->tokens) // an image is submitted whole; calls stay those of the prompt at once
        end = std::min(end + chunk, tokens.size());
    }
    if (!wanted())
      return gone();
    NINFER_RETURN_IF_ERROR(context_.submitPrompt(tokens.subspan(begin, end - begin), spans));
  }
  return {};
}

Result<size_t> PromptCache::submit(const Prompt &prompt, uint32_t chunk, const std::function<bool()> &wanted) {
  const std::vector<int32_t> keys = keysOf(prompt);
  // A generation that failed half-way may have left more in the context than append() was told of.
  keys_.resize(std::min<size_t>(keys_.size(), context_.position()));
  const auto differs = std::mismatch(keys_.begin(), keys_.end(), keys.begin(), keys.end());
  size_t cut = std::min(size_t(differs.second - keys.begin()), keys.size() - 1);
  for (const auto &[first, image] : prompt.images) // an image is evaluated whole
    if (first < cut && cut < first + image->tokens)
      cut = first;
  NINFER_RETURN_IF_ERROR(context_.truncate(uint32_t(cut)));
  const size_t kept = context_.position();
  Status evaluated = evaluate(prompt, chunk, wanted);
  keys_.assign(keys.begin(), keys.begin() + std::ptrdiff_t(context_.position()));
  NINFER_RETURN_IF_ERROR(std::move(evaluated));
  return kept;
}

void PromptCache::append(std::span<const int32_t> answer) {
  keys_.insert(keys_.end(), answer.begin(), answer.end());
  keys_.resize(context_.position());
}

} // namespace ninfer::exec
