#include "runtime/executor/Context.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace ninfer {

namespace {

/// Long enough to bridge sampling between two tokens, short enough not to burn a CPU that idles.
constexpr uint64_t kDefaultSpinNs = 200'000;

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
  // Huge pages save 3 to 9 % on large regions; on small ones they would only inflate the resident set.
  if (bytes >= uint64_t(8) << 20)
    (void)madvise(data, bytes, MADV_HUGEPAGE);
  region.data_ = static_cast<std::byte *>(data);
  region.size_ = bytes;
  return region;
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

Result<std::unique_ptr<Context>> Context::create(std::shared_ptr<const Engine> engine, const ContextOptions &options) {
  const uint64_t start = nowNs();
  constexpr unsigned kMaxThreads = 1024;
  if (options.threads > kMaxThreads)
    return makeError(ErrorKind::Usage, "NB0657",
                     std::to_string(options.threads) + " threads asked for, at most " + std::to_string(kMaxThreads));
  const std::vector<int> cpus = usableCpus();
  std::unique_ptr<Context> context(new Context());
  context->engine_ = std::move(engine);
  const Engine &e = *context->engine_;
  context->ledger_ = makeLedger(e, options, cpus.size());
  const Ledger &ledger = context->ledger_;
  NINFER_RETURN_IF_ERROR(checkLedger(e, ledger, options.memoryLimit ? options.memoryLimit : availableMemory()));

  NINFER_ASSIGN_OR_RETURN(context->arena_, Region::allocate(ledger.arenaBytes, "activations"));
  NINFER_ASSIGN_OR_RETURN(context->states_, Region::allocate(ledger.stateBytes, "states"));
  NINFER_ASSIGN_OR_RETURN(context->scratch_, Region::allocate(ledger.scratchBytes, "scratch"));
  context->program_ = std::make_unique<Program>(
      e, ContextMemory{context->arena_.data(), context->states_.data(), ledger.stateOffsets});
  for (const plan::State *state : *e.target().states()) {
    const std::string kind = state->kind() ? state->kind()->str() : "";
    context->truncatable_ &= kind == "kv_cache" || kind == "rope_table";
  }
  context->profile_ = options.profile;

  TeamOptions team;
  team.threads = ledger.threads;
  // More threads than CPUs: a spinning thread would keep the one it waits for from running.
  const bool crowded = ledger.threads > cpus.size();
  if (options.pin && !crowded)
    team.cpus = cpus;
  team.spinNs = crowded ? 0 : options.spinNs ? options.spinNs : kDefaultSpinNs;
  NINFER_ASSIGN_OR_RETURN(context->team_, Team::start(team));
  if (!context->setup())
    return makeError(ErrorKind::Interrupted, "NB0653", "cancelled");
  context->stats_.setupNs = nowNs() - start;
  return context;
}

bool Context::setup() {
  ProgramPhase *phase = program_->phase(plan::PhaseKind::Setup);
  return !phase || runPhase(*phase, 1, 0);
}

// --- running -----------------------------------------------------------------------------------------------

bool Context::runPhase(ProgramPhase &phase, int64_t rows, int64_t position) {
  phase_ = &phase;
  scalars_[NINFER_SCALAR_ROWS] = rows;
  scalars_[NINFER_SCALAR_POSITION] = position;
  finished_ = true;
  if (!phase.launches.empty())
    team_->run(runThread, this);
  return finished_;
}

void Context::runThread(void *self, unsigned thread) {
  Context &context = *static_cast<Context *>(self);
  Team &team = *context.team_;
  const int64_t *scalars = context.scalars_;
  const int64_t rows = scalars[NINFER_SCALAR_ROWS];
  const unsigned threads = team.threads();
  void *scratch = context.scratch_.data() + context.ledger_.scratchPerThread * thread;
  std::span<ProgramLaunch> launches = context.phase_->launches;
  uint64_t last = thread == 0 && context.profile_ ? nowNs() : 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    ProgramLaunch &launch = launches[i];
    // Static shares: tile counts are below 2^40 and threads below 2^10, so the products fit.
    const int64_t tiles = launch.tiles(rows);
    const int64_t begin = tiles * thread / threads, end = tiles * (thread + 1) / threads;
    if (begin < end)
      launch.run(scalars, begin, end, scratch);
    const bool stop = team.barrier(context.cancelled_);
    if (thread == 0) {
      ++context.stats_.launches;
      ++launch.calls;
      launch.rows += uint64_t(rows);
      if (context.profile_) {
        const uint64_t now = nowNs();
        launch.ns += now - last;
        last = now;
      }
      if (stop && i + 1 < launches.size())
        context.finished_ = false;
    }
    if (stop)
      return;
  }
}

Status Context::submit(std::span<const int32_t> tokens) {
  const plan::ModelInfo &model = *engine_->plan().model();
  if (tokens.empty())
    return makeError(ErrorKind::Usage, "NB0650", "no tokens to evaluate, expected at least one");
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || uint32_t(tokens[i]) >= model.vocab_size())
      return makeError(ErrorKind::Usage, "NB0651",
                       "token " + std::to_string(i) + " is " + std::to_string(tokens[i]) + ", the vocabulary has " +
                           std::to_string(model.vocab_size()) + " entries");
  if (tokens.size() > model.max_context() - position_) {
    Status status = makeError(ErrorKind::Usage, "NB0652",
                              "context overflow: " + std::to_string(position_) + " tokens are in the context, " +
                                  std::to_string(tokens.size()) + " more do not fit the plan's " +
                                  std::to_string(model.max_context()) + " positions");
    status.help("shorten the prompt, or build the plan with a larger --max-context");
    return status;
  }

  ProgramPhase &decode = *program_->phase(plan::PhaseKind::Decode);
  ProgramPhase &prefill = *program_->phase(plan::PhaseKind::Prefill);
  forgetResults();
  for (size_t done = 0; done < tokens.size();) {
    const int64_t left = int64_t(tokens.size() - done);
    ProgramPhase &phase = left == 1 || left < prefill.minRows ? decode : prefill;
    const int64_t rows = std::min(left, phase.maxRows);
    std::copy_n(tokens.data() + done, rows, phase.tokens);
    const uint64_t start = nowNs();
    const bool finished = !cancelled_.load(std::memory_order_relaxed) && runPhase(phase, rows, position_);
    const uint64_t ns = nowNs() - start;
    if (finished) {
      position_ += uint32_t(rows);
      done += size_t(rows);
      logits_ = phase.logits;
      lastPhase_ = &phase;
      lastRows_ = uint32_t(rows);
      if (&phase == &decode) {
        ++stats_.decodeTokens;
        stats_.decodeNs += ns;
      } else {
        stats_.prefillTokens += uint64_t(rows);
        ++stats_.prefillCalls;
        stats_.prefillNs += ns;
      }
    }
    if (cancelled_.load(std::memory_order_relaxed) && (!finished || done < tokens.size())) {
      cancelled_.store(false, std::memory_order_relaxed);
      forgetResults();
      return makeError(ErrorKind::Interrupted, "NB0653",
                       "cancelled after " + std::to_string(position_) + " tokens");
    }
  }
  return {};
}

void Context::forgetResults() {
  logits_ = nullptr;
  lastPhase_ = nullptr;
}

std::span<const ProgramOutput> Context::outputs() const {
  return lastPhase_ ? lastPhase_->outputs : std::span<const ProgramOutput>();
}

std::span<const float> Context::logits() const {
  if (!logits_)
    return {};
  return {logits_, engine_->plan().model()->vocab_size()};
}

Status Context::truncate(uint32_t position) {
  if (position > position_)
    return makeError(ErrorKind::Usage, "NB0655",
                     "cannot cut the sequence at " + std::to_string(position) + ", it has " + std::to_string(position_) +
                         " tokens");
  if (position == position_)
    return {};
  if (!truncatable_) {
    if (position != 0)
      return makeError(ErrorKind::Unsupported, "NB0656",
                       "this model has states that cannot be cut in the middle of a sequence");
    std::memset(states_.data(), 0, states_.size());
    if (!setup())
      return makeError(ErrorKind::Interrupted, "NB0653", "cancelled");
  }
  position_ = position;
  forgetResults();
  return {};
}

} // namespace ninfer
