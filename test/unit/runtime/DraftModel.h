// A model with a draft layer for tests of speculative decoding: kernels of draft_fixture.c, whose every result can be
// computed here, over the artifact of TinyModel. 32 positions, prefill of 8 rows, at most 3 drafts.
#ifndef NINFER_TEST_UNIT_RUNTIME_DRAFTMODEL_H
#define NINFER_TEST_UNIT_RUNTIME_DRAFTMODEL_H

#include "runtime/executor/Context.h"
#include "test/unit/runtime/TinyModel.h"

namespace ninfer::test {

struct DraftOptions {
  bool recurrent = false; ///< a state that is no cache, and a Commit phase
  bool proposals = false; ///< the draft layer proposes the even tokens below 200 only
  uint32_t pauses = 0;    ///< launches that only take time: last in calls with tokens, first in the others
  uint32_t badId = 0;     ///< put in the list of proposals if not 0
  uint32_t maxContext = 32;
  uint32_t chunk = 8;     ///< rows of a prefill call; calls of more than 8 do not fit the log
};

class DraftModel {
public:
  static constexpr uint32_t kProposals = 100;

  explicit DraftModel(const DraftOptions &options = {});

  /// Writes draft.ninfer and draft.plan; returns the path of the plan.
  std::filesystem::path write(const TemporaryFolder &folder);
  plan::PlanT plan();
  static PlanBlob code();

  // The oracle.
  static uint32_t hash(const std::vector<int32_t> &tokens);
  static std::vector<float> logits(const std::vector<int32_t> &tokens);
  /// The most likely token after `tokens`.
  static int32_t best(const std::vector<int32_t> &tokens);
  /// What the draft layer proposes after `tokens`, the last of which is not submitted.
  int32_t proposal(const std::vector<int32_t> &tokens) const;

private:
  DraftOptions options_;
  TinyModel tiny_;
};

/// One line per call of a phase since the context was made (since truncate(0), with recurrent states):
/// "text @0: 1 2 3", "draft @0: ...", "next @3: 7", "verify @3: ...", "commit @3: 2 rows".
std::vector<std::string> callsOf(const Context &context);
/// Words of the draft layer's cache.
const uint32_t *draftCacheOf(const Context &context);

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_RUNTIME_DRAFTMODEL_H
