// A context together with the tokens whose states are in it, so that a prompt that begins like the last one is
// evaluated only from where it differs.
#ifndef NINFER_TOOLS_NINFER_EXEC_PROMPTCACHE_H
#define NINFER_TOOLS_NINFER_EXEC_PROMPTCACHE_H

#include "tools/ninfer-exec/Images.h"

#include <functional>
#include <map>
#include <span>
#include <vector>

namespace ninfer::exec {

class PromptCache {
public:
  explicit PromptCache(Context &context) : context_(context) {}

  /// Brings the context to the tokens of `prompt` (at least one) and evaluates at least the last of them: its logits begin
  /// the answer. Encodes the images that are to be evaluated and have no embeddings yet. Returns how many tokens were there
  /// already. Between calls of `chunk` tokens (the plan's prefill_chunk) it asks `wanted`; once that is false, NB0653
  /// (Interrupted). After an error the cache holds what the context holds.
  Result<size_t> submit(const Prompt &prompt, uint32_t chunk = UINT32_MAX,
                        const std::function<bool()> &wanted = [] { return true; });
  /// The answer that generate() drew after submit(): as much of it as the context holds is kept.
  void append(std::span<const int32_t> answer);

private:
  /// The tokens as they are compared: those of an image are a negative number of its own, since all images have one
  /// placeholder.
  std::vector<int32_t> keysOf(const Prompt &prompt);
  /// Evaluates the rest of the prompt, from the context's position on.
  Status evaluate(const Prompt &prompt, uint32_t chunk, const std::function<bool()> &wanted);

  Context &context_;
  std::vector<int32_t> keys_; ///< of what is in the context
  std::map<Sha256Digest, int32_t> images_; ///< numbers of the images seen
};

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_PROMPTCACHE_H
