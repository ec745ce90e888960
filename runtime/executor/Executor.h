// What a context runs its calls on: the memory of one sequence and the launches of the plan's phases. The order of calls
// is the context's business (Context.h); how one runs is the executor's.
#ifndef NINFER_RUNTIME_EXECUTOR_EXECUTOR_H
#define NINFER_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/executor/Ledger.h"
#include "runtime/executor/Program.h"

#include <atomic>
#include <memory>
#include <optional>

namespace ninfer {

class Executor {
public:
  /// The one for the engine's target: checks the ledger, allocates what it says, runs nothing.
  static Result<std::unique_ptr<Executor>> create(const Engine &engine, const ContextOptions &options, const Ledger &ledger);

  virtual ~Executor() = default;
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  Program &program() { return *program_; }
  const Program &program() const { return *program_; }
  /// Where the caller writes and reads the float32 or int32 values of a port.
  virtual std::byte *memoryOf(const plan::Port &port) = 0;
  /// Of all calls so far.
  uint64_t launches() const { return launches_; }

  /// Runs all launches of `phase`. Tokens are read from phase.tokens and logits are in phase.logits afterwards, both in
  /// memory of the host. False when `stop` was seen set in between, or when the device failed.
  virtual bool run(ProgramPhase &phase, int64_t rows, int64_t position, const std::atomic<bool> &stop) = 0;
  /// States as they were when created: zeros.
  virtual bool clearStates() = 0;
  /// Why the device failed; ok otherwise. An executor that failed runs nothing more.
  Status failure() const { return failure_ ? Status(Error(*failure_)) : Status(); }
  bool failed() const { return failure_.has_value(); }

protected:
  Executor() = default;
  std::unique_ptr<Program> program_;
  uint64_t launches_ = 0;
  std::optional<Error> failure_;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_EXECUTOR_H
