#include "tools/ninfer-exec/PromptCache.h"

#include <algorithm>

namespace ninfer::exec {

Result<size_t> PromptCache::submit(std::span<const int32_t> tokens) {
  // A generation that failed half-way may have left more in the context than append() was told of.
  tokens_.resize(std::min<size_t>(tokens_.size(), context_.position()));
  const auto differs = std::mismatch(tokens_.begin(), tokens_.end(), tokens.begin(), tokens.end());
  NINFER_RETURN_IF_ERROR(
      context_.truncate(uint32_t(std::min(size_t(differs.second - tokens.begin()), tokens.size() - 1))));
  const size_t kept = context_.position();
  Status submitted = context_.submitPrompt(tokens.subspan(kept));
  tokens_.assign(tokens.begin(), tokens.begin() + std::ptrdiff_t(context_.position()));
  NINFER_RETURN_IF_ERROR(std::move(submitted));
  return kept;
}

void PromptCache::append(std::span<const int32_t> answer) {
  tokens_.insert(tokens_.end(), answer.begin(), answer.end());
  tokens_.resize(context_.position());
}

} // namespace ninfer::exec
