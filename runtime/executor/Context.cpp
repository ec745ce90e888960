#include "runtime/executor/Context.h"

#include <algorithm>
#include <utility>

namespace ninfer {

namespace {

/// Whether going back to an earlier position needs nothing done to a state of that kind: its rows are those of
/// positions, or each call overwrites what it may read.
bool followsPosition(const std::string &kind) {
  return kind == "kv_cache" || kind == "rope_table" || kind == "row_buffer" || kind == "scratch";
}

} // namespace

const std::atomic<bool> Context::never_{false};

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

  NINFER_ASSIGN_OR_RETURN(context->executor_, Executor::create(e, options, ledger));
  for (const plan::State *state : *e.target().states())
    context->truncatable_ &= followsPosition(state->kind() ? state->kind()->str() : "");
  Program &program = context->executor_->program();
  context->phases_ = {program.phase(plan::PhaseKind::Setup),  program.phase(plan::PhaseKind::Decode),
                      program.phase(plan::PhaseKind::Prefill), program.phase(plan::PhaseKind::Verify),
                      program.phase(plan::PhaseKind::Draft),  program.phase(plan::PhaseKind::DraftNext),
                      program.phase(plan::PhaseKind::Commit), program.phase(plan::PhaseKind::Place)};
  NINFER_RETURN_IF_ERROR(context->prepareImages());
  if (options.draft)
    NINFER_RETURN_IF_ERROR(context->enableDrafts());
  if (!context->setup())
    return context->executor_->failure();
  context->stats_.setupNs = nowNs() - start;
  return context;
}

bool Context::setup() { return !phases_.setup || runPhase(*phases_.setup, 1, 0, never_); }

// --- running -----------------------------------------------------------------------------------------------

bool Context::runPhase(ProgramPhase &phase, int64_t rows, int64_t position, const std::atomic<bool> &stop) {
  finished_ = executor_->run(phase, rows, position, stop);
  stats_.launches = executor_->launches();
  return finished_;
}

bool Context::runTokens(ProgramPhase &phase, std::span<const int32_t> tokens, int64_t position, uint64_t &ns,
                        std::span<const float *const> embeddings) {
  finished_ = true;
  if (cancelled_.load(std::memory_order_relaxed))
    return false;
  const uint64_t start = nowNs();
  // Rows of the draft phase are those of a text call before. All phases share the arena: this comes before the inputs.
  if (&phase != phases_.draft && !place(position, int64_t(tokens.size())))
    return false;
  std::copy(tokens.begin(), tokens.end(), phase.tokens);
  writeEmbeddings(phase, tokens.size(), embeddings);
  const bool finished = runPhase(phase, int64_t(tokens.size()), position, cancelled_);
  ns += nowNs() - start;
  return finished;
}

Status Context::checkReady() const {
  if (executor_->failed())
    return executor_->failure();
  if (broken_) {
    Status status = makeError(ErrorKind::Usage, "NB0666",
                              "a call was cancelled in the middle and this model has states that cannot go back to "
                              "position " +
                                  std::to_string(position_) + "; only a truncation to 0 is possible");
    status.help("truncate the context to 0 and submit the sequence again");
    return status;
  }
  if (const auto image = positions_.splitBy(position_); image.end != 0) {
    Status status = makeError(ErrorKind::Usage, "NB0674",
                              "the sequence ends at " + std::to_string(position_) + ", inside the image of the tokens " +
                                  std::to_string(image.begin) + " to " + std::to_string(image.end - 1) +
                                  ": its call was cancelled");
    status.help("truncate the context to " + std::to_string(truncatable_ ? image.begin : 0) + " and submit the image again");
    return status;
  }
  return checkEncode();
}

Status Context::checkEncode() const {
  if (unaccepted_)
    return makeError(ErrorKind::Usage, "NB0659",
                     std::to_string(unaccepted_) + " verified rows wait for accept, which must come first");
  return {};
}

Status Context::checkTokens(std::span<const int32_t> tokens) const {
  const uint32_t vocabulary = engine_->plan().model()->vocab_size();
  if (tokens.empty())
    return makeError(ErrorKind::Usage, "NB0650", "no tokens to evaluate, expected at least one");
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || uint32_t(tokens[i]) >= vocabulary)
      return makeError(ErrorKind::Usage, "NB0651",
                       "token " + std::to_string(i) + " is " + std::to_string(tokens[i]) + ", the vocabulary has " +
                           std::to_string(vocabulary) + " entries");
  return {};
}

Status Context::checkRoom(size_t tokens) const {
  const uint32_t capacity = engine_->plan().model()->max_context();
  if (tokens <= capacity - position_)
    return {};
  Status status = makeError(ErrorKind::Usage, "NB0652",
                            "context overflow: " + std::to_string(position_) + " tokens are in the context, " +
                                std::to_string(tokens) + " more do not fit the plan's " + std::to_string(capacity) +
                                " positions");
  status.help("shorten the prompt, or build the plan with a larger --max-context");
  return status;
}

Status Context::cancelled() {
  if (executor_->failed()) {
    forgetResults();
    return executor_->failure();
  }
  cancelled_.store(false, std::memory_order_relaxed);
  forgetResults();
  return makeError(ErrorKind::Interrupted, "NB0653", "cancelled after " + std::to_string(position_) + " tokens");
}

Status Context::submit(std::span<const int32_t> tokens, std::span<const ImageSpan> images) {
  NINFER_RETURN_IF_ERROR(checkTokens(tokens));
  NINFER_RETURN_IF_ERROR(checkRoom(tokens.size()));
  NINFER_RETURN_IF_ERROR(checkImages(tokens.size(), images));
  NINFER_RETURN_IF_ERROR(checkReady());
  forgetResults();
  for (const ImageSpan &image : images)
    positions_.append(position_ + int64_t(image.first), image.grid.height / imagePorts_.merge,
                      image.grid.width / imagePorts_.merge);
  const size_t all = tokens.size();
  auto cut = [&](Status status) { // images that were not reached are not in the sequence
    positions_.truncate(position_);
    return status;
  };
  while (!tokens.empty()) {
    const size_t first = all - tokens.size();
    auto embeddings = embeddingsOf(first, 1, images);
    const float *next = embeddings.empty() ? nullptr : embeddings.front();
    // Decode takes a token, no embedding.
    const bool prefill = next || (tokens.size() > 1 && int64_t(tokens.size()) >= phases_.prefill->minRows);
    ProgramPhase &phase = prefill ? *phases_.prefill : *phases_.decode;
    const auto rows = tokens.first(std::min(tokens.size(), size_t(phase.maxRows)));
    // The call overwrites the hidden rows that the draft layer still has to read.
    if (!draftPending(rows.front(), next))
      return cut(cancelled());
    embeddings = embeddingsOf(first, rows.size(), images);
    if (!runTokens(phase, rows, position_, prefill ? stats_.prefillNs : stats_.decodeNs, embeddings)) {
      broken_ |= !finished_ && !truncatable_;
      return cut(textCallCut());
    }
    keepRows(rows, embeddings);
    position_ += uint32_t(rows.size());
    tokens = tokens.subspan(rows.size());
    logits_ = phase.logits;
    lastPhase_ = &phase;
    lastRows_ = uint32_t(rows.size());
    (prefill ? stats_.prefillTokens : stats_.decodeTokens) += rows.size();
    stats_.prefillCalls += prefill;
    if (!tokens.empty() && cancelled_.load(std::memory_order_relaxed))
      return cut(cancelled());
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

Status Context::encode(int64_t rows) {
  forgetResults();
  const uint64_t start = nowNs();
  const bool finished = !cancelled_.load(std::memory_order_relaxed) &&
                        runPhase(*executor_->program().phase(plan::PhaseKind::Encode), rows, 0, cancelled_);
  if (!finished) {
    if (executor_->failed())
      return executor_->failure();
    cancelled_.store(false, std::memory_order_relaxed);
    return makeError(ErrorKind::Interrupted, "NB0653", "cancelled while encoding an image");
  }
  stats_.encodeRows += uint64_t(rows);
  ++stats_.encodeCalls;
  stats_.encodeNs += nowNs() - start;
  return {};
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
  if (const auto image = positions_.splitBy(position); image.end != 0 && position != position_)
    return makeError(ErrorKind::Usage, "NB0674",
                     "cannot cut the sequence at " + std::to_string(position) + ", inside the image of the tokens " +
                         std::to_string(image.begin) + " to " + std::to_string(image.end - 1));
  if (unaccepted_)
    NINFER_RETURN_IF_ERROR(accept(0));
  if (position == position_ && !broken_)
    return {};
  if (!truncatable_) {
    if (position != 0)
      return makeError(ErrorKind::Unsupported, "NB0656",
                       "this model has states that cannot be cut in the middle of a sequence");
    if (!executor_->clearStates() || !setup())
      return executor_->failure();
    broken_ = false;
    placedEnd_ = 0;
  }
  // Pending rows before the cut still have their hidden rows; only the token after the last of them changes.
  const uint32_t first = position_ - uint32_t(pending_.size());
  pending_.resize(position > first ? position - first : 0);
  draftedFor_ = -1;
  positions_.truncate(position);
  position_ = position;
  forgetResults();
  return {};
}

} // namespace ninfer
