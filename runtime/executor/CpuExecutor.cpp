#include "runtime/executor/CpuExecutor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace ninfer {

namespace {

/// Long enough to bridge sampling between two tokens, short enough not to burn a CPU that idles.
constexpr uint64_t kDefaultSpinNs = 200'000;
constexpr uint64_t kPage = 4096;

/// A KV cache stays in small pages: a token writes one row of every head's plane, so in huge ones the first token would have the whole
/// cache zeroed, and all of it resident. Other states are read and written whole by every token.
void preferHugePages(Region &states, const plan::Target &target, std::span<const uint64_t> offsets) {
  uint64_t begin = 0; // of the run of states that are no caches
  for (size_t i = 0; i < offsets.size(); ++i) {
    const plan::State &state = *target.states()->Get(unsigned(i));
    if (!state.kind() || state.kind()->string_view() != "kv_cache")
      continue;
    states.preferHugePages(begin, offsets[i]);
    begin = offsets[i] + state.bytes();
  }
  states.preferHugePages(begin, states.size());
}

} // namespace

// --- memory ------------------------------------------------------------------------------------------------

Result<Region> Region::allocate(uint64_t bytes, const char *purpose) {
  Region region;
  if (bytes == 0)
    return region;
  void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return makeError(ErrorKind::OutOfMemory, "NB0641",
                     "cannot allocate " + std::to_string(bytes) + " bytes for " + purpose + ": " + std::strerror(errno));
  region.data_ = static_cast<std::byte *>(data);
  region.size_ = bytes;
  return region;
}

void Region::preferHugePages(uint64_t begin, uint64_t end) {
  // They save 3 to 9 % on large regions; on small ones they would only inflate the resident set.
  begin = (begin + kPage - 1) / kPage * kPage;
  if (end >= begin + (uint64_t(8) << 20))
    (void)madvise(data_ + begin, end - begin, MADV_HUGEPAGE);
}

Region::Region(Region &&other) noexcept { *this = std::move(other); }

Region &Region::operator=(Region &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Region::~Region() {
  if (data_)
    munmap(data_, size_);
}

// --- creation ----------------------------------------------------------------------------------------------

Result<std::unique_ptr<Executor>> CpuExecutor::create(const Engine &engine, const ContextOptions &options,
                                                      const Ledger &ledger) {
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor());
  NINFER_ASSIGN_OR_RETURN(executor->arena_, Region::allocate(ledger.arenaBytes, "activations"));
  NINFER_ASSIGN_OR_RETURN(executor->states_, Region::allocate(ledger.stateBytes, "states"));
  NINFER_ASSIGN_OR_RETURN(executor->scratch_, Region::allocate(ledger.scratchBytes, "scratch"));
  executor->arena_.preferHugePages(0, ledger.arenaBytes);
  executor->scratch_.preferHugePages(0, ledger.scratchBytes);
  preferHugePages(executor->states_, engine.target(), ledger.stateOffsets);
  executor->program_ = std::make_unique<Program>(
      engine, ContextMemory{executor->arena_.data(), executor->states_.data(), ledger.stateOffsets});
  executor->scratchPerThread_ = ledger.scratchPerThread;
  executor->profile_ = options.profile;

  const std::vector<int> cpus = usableCpus();
  TeamOptions team;
  team.threads = ledger.threads;
  // More threads than CPUs: a spinning thread would keep the one it waits for from running.
  const bool crowded = ledger.threads > cpus.size();
  if (options.pin && !crowded)
    team.cpus = cpus;
  team.spinNs = crowded ? 0 : options.spinNs ? options.spinNs : kDefaultSpinNs;
  NINFER_ASSIGN_OR_RETURN(executor->team_, Team::start(team));
  return std::unique_ptr<Executor>(std::move(executor));
}

// --- running -----------------------------------------------------------------------------------------------

bool CpuExecutor::run(ProgramPhase &phase, int64_t rows, int64_t position, const std::atomic<bool> &stop) {
  phase_ = &phase;
  stop_ = &stop;
  scalars_[NINFER_SCALAR_ROWS] = rows;
  scalars_[NINFER_SCALAR_POSITION] = position;
  finished_ = true;
  if (!phase.launches.empty())
    team_->run(runThread, this, reinterpret_cast<uintptr_t>(&phase) * 65537 + static_cast<uint64_t>(rows));
  return finished_;
}

bool CpuExecutor::clearStates() {
  std::memset(states_.data(), 0, states_.size());
  return true;
}

void CpuExecutor::runThread(void *self, unsigned thread) {
  CpuExecutor &executor = *static_cast<CpuExecutor *>(self);
  Team &team = *executor.team_;
  const int64_t *scalars = executor.scalars_;
  const int64_t rows = scalars[NINFER_SCALAR_ROWS];
  const unsigned threads = team.active();
  void *scratch = executor.scratch_.data() + executor.scratchPerThread_ * thread;
  std::span<ProgramLaunch> launches = executor.phase_->launches;
  uint64_t last = thread == 0 && executor.profile_ ? nowNs() : 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    ProgramLaunch &launch = launches[i];
    // Static shares: tile counts are below 2^40 and threads below 2^10, so the products fit.
    const int64_t tiles = launch.tiles(rows);
    const int64_t begin = tiles * thread / threads, end = tiles * (thread + 1) / threads;
    if (begin < end)
      launch.run(scalars, begin, end, scratch);
    const bool stop = team.barrier(*executor.stop_);
    if (thread == 0) {
      ++executor.launches_;
      ++launch.calls;
      launch.rows += uint64_t(rows);
      if (executor.profile_) {
        const uint64_t now = nowNs();
        launch.ns += now - last;
        last = now;
      }
      if (stop && i + 1 < launches.size())
        executor.finished_ = false;
    }
    if (stop)
      return;
  }
}

} // namespace ninfer
