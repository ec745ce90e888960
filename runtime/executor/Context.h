// One sequence being evaluated: memory, team, position. Splits what is submitted into calls of the plan's
// phases and runs each launch on the team. Allocates only at creation.
#ifndef NINFER_RUNTIME_EXECUTOR_CONTEXT_H
#define NINFER_RUNTIME_EXECUTOR_CONTEXT_H

#include "runtime/executor/Ledger.h"
#include "runtime/executor/Program.h"
#include "runtime/executor/Team.h"

#include <atomic>
#include <memory>
#include <span>

namespace ninfer {

/// Anonymous zero-filled memory in whole pages.
class Region {
public:
  /// NB0641 (OutOfMemory) when the system refuses.
  static Result<Region> allocate(uint64_t bytes, const char *purpose);
  Region() = default;
  Region(Region &&other) noexcept;
  Region &operator=(Region &&other) noexcept;
  ~Region();
  std::byte *data() const { return data_; }
  uint64_t size() const { return size_; }

private:
  std::byte *data_ = nullptr;
  uint64_t size_ = 0;
};

struct ContextStats {
  uint64_t setupNs = 0;
  uint64_t prefillTokens = 0, prefillCalls = 0, prefillNs = 0;
  uint64_t decodeTokens = 0, decodeNs = 0;
  uint64_t launches = 0;
};

class Context {
public:
  /// Checks the ledger, allocates, starts the team, runs the setup phase.
  static Result<std::unique_ptr<Context>> create(std::shared_ptr<const Engine> engine, const ContextOptions &options);

  /// Errors, all before any work: NB0650 no tokens, NB0651 id outside the vocabulary, NB0652 context overflow
  /// (Usage). NB0653 cancelled (Interrupted): the sequence ends at the last call that ran to its end.
  Status submit(std::span<const int32_t> tokens);
  /// Logits after the last token, or an empty span when there are none.
  std::span<const float> logits() const;
  /// What the last call of a phase wrote beside the logits; none before a call, after truncate and after a
  /// cancelled submit. The memory is that of the next call.
  std::span<const ProgramOutput> outputs() const;
  /// Rows of that output, and the sequence position of its first row.
  uint32_t rows(const ProgramOutput &output) const { return output.lastRowOnly ? 1 : lastRows_; }
  uint32_t firstPosition(const ProgramOutput &output) const { return position_ - rows(output); }
  uint32_t position() const { return position_; }
  /// NB0655 beyond the position (Usage), NB0656 a state that cannot be cut there (Unsupported).
  Status truncate(uint32_t position);
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  const Engine &engine() const { return *engine_; }
  const Ledger &ledger() const { return ledger_; }
  const ContextStats &stats() const { return stats_; }
  const Program &program() const { return *program_; }

private:
  Context() = default;

  /// Runs all launches of `phase`; false when cancelled in between.
  bool runPhase(ProgramPhase &phase, int64_t rows, int64_t position);
  static void runThread(void *context, unsigned thread);
  bool setup();
  void forgetResults();

  std::shared_ptr<const Engine> engine_;
  Ledger ledger_;
  Region arena_, states_, scratch_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Team> team_;
  bool profile_ = false;
  bool truncatable_ = true; ///< every state is indexed by position
  uint32_t position_ = 0;
  const float *logits_ = nullptr;
  const ProgramPhase *lastPhase_ = nullptr; ///< of the last call; null when its results are gone
  uint32_t lastRows_ = 0;
  ContextStats stats_;
  std::atomic<bool> cancelled_{false};

  // The call in progress; written by thread 0 before the team starts on it.
  ProgramPhase *phase_ = nullptr;
  int64_t scalars_[NINFER_SCALAR_COUNT] = {};
  bool finished_ = false;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_CONTEXT_H
