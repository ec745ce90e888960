// A context together with the tokens whose states are in it, so that a prompt that begins like the last one is
// evaluated only from where it differs.
#ifndef NINFER_TOOLS_NINFER_EXEC_PROMPTCACHE_H
#define NINFER_TOOLS_NINFER_EXEC_PROMPTCACHE_H

#include "tools/ninfer-exec/Session.h"

#include <span>
#include <vector>

namespace ninfer::exec {

class PromptCache {
public:
  explicit PromptCache(Context &context) : context_(context) {}

  /// Brings the context to `tokens` (at least one) and evaluates at least the last of them: its logits begin the
  /// answer. Returns how many tokens were there already. After an error (Interrupted included) the cache holds what
  /// the context holds.
  Result<size_t> submit(std::span<const int32_t> tokens);
  /// The answer that generate() drew after submit(): as much of it as the context holds is kept.
  void append(std::span<const int32_t> answer);

private:
  Context &context_;
  std::vector<int32_t> tokens_;
};

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_PROMPTCACHE_H
