// Launches on a team of threads, in memory of the process. Runs machine code and built-ins.
#ifndef NINFER_RUNTIME_EXECUTOR_CPUEXECUTOR_H
#define NINFER_RUNTIME_EXECUTOR_CPUEXECUTOR_H

#include "runtime/executor/Executor.h"
#include "runtime/executor/Team.h"

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
  /// Asks for huge pages for the bytes [begin, end) if they are many.
  void preferHugePages(uint64_t begin, uint64_t end);
  std::byte *data() const { return data_; }
  uint64_t size() const { return size_; }

private:
  std::byte *data_ = nullptr;
  uint64_t size_ = 0;
};

class CpuExecutor final : public Executor {
public:
  static Result<std::unique_ptr<Executor>> create(const Engine &engine, const ContextOptions &options, const Ledger &ledger);
  bool run(ProgramPhase &phase, int64_t rows, int64_t position, const std::atomic<bool> &stop) override;
  bool clearStates() override;
  std::byte *memoryOf(const plan::Port &port) override { return arena_.data() + port.ref()->offset(); }

private:
  static void runThread(void *executor, unsigned thread);

  Region arena_, states_, scratch_;
  uint64_t scratchPerThread_ = 0;
  std::unique_ptr<Team> team_;
  bool profile_ = false;

  // The call in progress; written by thread 0 before the team starts on it.
  ProgramPhase *phase_ = nullptr;
  const std::atomic<bool> *stop_ = nullptr;
  int64_t scalars_[NINFER_SCALAR_COUNT] = {};
  bool finished_ = true; ///< false: its launches were cut short
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_CPUEXECUTOR_H
