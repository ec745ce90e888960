// Speculative decoding in a Context: the draft layer, verified rows, and what of them becomes part of the sequence.
#include "runtime/executor/Context.h"

#include "support/Bytes.h"

#include <algorithm>
#include <cmath>

namespace ninfer {

namespace {

int32_t tokenOf(const ProgramPhase &phase, int64_t index) {
  return phase.tokenIds ? int32_t(loadLe32(phase.tokenIds + index * 4)) : int32_t(index);
}

Status noPhases(const char *what) {
  Status status = makeError(ErrorKind::Unsupported, "NB0658", what);
  status.help("build the plan from an artifact that has a draft layer, with speculative decoding on");
  return status;
}

Status badCount(const char *what, size_t count, int64_t least, int64_t most) {
  return makeError(ErrorKind::Usage, "NB0667",
                   std::to_string(count) + " " + what + ", expected " + std::to_string(least) + " to " +
                       std::to_string(most));
}

} // namespace

Status Context::enableDrafts() {
  if (!phases_.draft)
    return noPhases("drafts are asked for, but the target of this plan has no draft layer");
  const uint32_t vocabulary = engine_->plan().model()->vocab_size();
  for (const ProgramPhase *phase : {phases_.draft, phases_.draftNext})
    for (int64_t i = 0; phase->tokenIds && i < phase->logitCount; ++i)
      if (const int32_t token = tokenOf(*phase, i); token < 0 || uint32_t(token) >= vocabulary)
        return makeError(ErrorKind::BadFile, "NB0668",
                         engine_->weightsPath().string() + ": " + phase->source->name()->str() + ": token id " +
                             std::to_string(i) + " is " + std::to_string(token) + ", the vocabulary has " +
                             std::to_string(vocabulary) + " entries");
  pending_.reserve(size_t(phases_.draft->maxRows));
  drafts_.reserve(size_t(phases_.draft->maxRows));
  if (imagePorts_.draft) {
    pendingValues_.resize(size_t(phases_.draft->maxRows) * size_t(imagePorts_.width));
    pendingEmbeddings_.reserve(size_t(phases_.draft->maxRows));
    draftEmbeddings_.reserve(size_t(phases_.draft->maxRows));
  }
  speculates_ = true;
  return {};
}

Status Context::textCallCut() {
  if (!finished_)
    pending_.clear();
  return cancelled();
}

void Context::keepRows(std::span<const int32_t> tokens, std::span<const float *const> embeddings) {
  draftedFor_ = -1;
  if (!speculates_)
    return;
  pending_.assign(tokens.begin(), tokens.end());
  pendingEmbeddings_.clear();
  for (size_t i = 0; i < embeddings.size(); ++i) { // the caller's are gone when they are wanted
    float *kept = embeddings[i] ? pendingValues_.data() + i * size_t(imagePorts_.width) : nullptr;
    if (kept)
      std::copy_n(embeddings[i], imagePorts_.width, kept);
    pendingEmbeddings_.push_back(kept);
  }
}

bool Context::draftPending(int32_t next, const float *nextEmbedding) {
  // An embedding is not known by its placeholder.
  if (pending_.empty() || (draftedFor_ == next && !nextEmbedding))
    return true;
  // Row i holds position first + i and takes the token after it.
  const uint32_t first = position_ - uint32_t(pending_.size());
  drafts_.assign(pending_.begin() + 1, pending_.end());
  drafts_.push_back(next);
  draftEmbeddings_.clear();
  if (nextEmbedding || !pendingEmbeddings_.empty()) {
    for (size_t i = 1; i < pending_.size(); ++i)
      draftEmbeddings_.push_back(pendingEmbeddings_.empty() ? nullptr : pendingEmbeddings_[i]);
    draftEmbeddings_.push_back(nextEmbedding);
  }
  if (!runTokens(*phases_.draft, drafts_, first, stats_.draftNs, draftEmbeddings_))
    return false;
  draftedFor_ = nextEmbedding ? -1 : next;
  ++stats_.draftCalls;
  stats_.draftRows += pending_.size();
  return true;
}

Result<int32_t> Context::proposal(const ProgramPhase &phase) const {
  int64_t best = 0;
  for (int64_t i = 0; i < phase.logitCount; ++i) {
    if (std::isnan(phase.logits[i]))
      return makeError(ErrorKind::Failed, "NB0669",
                       phase.source->name()->str() + ": logit " + std::to_string(i) + " is not a number");
    if (phase.logits[i] > phase.logits[best])
      best = i;
  }
  return tokenOf(phase, best);
}

Result<size_t> Context::draft(int32_t token, std::span<int32_t> drafts) {
  if (!speculates_)
    return noPhases("this context was made without drafts");
  NINFER_RETURN_IF_ERROR(checkTokens({&token, 1}));
  NINFER_RETURN_IF_ERROR(checkReady());
  if (drafts.empty() || drafts.size() > maxDrafts())
    return badCount("drafts asked for", drafts.size(), 1, int64_t(maxDrafts()));
  // `token` takes one position, each draft another.
  const size_t room = engine_->plan().model()->max_context() - position_;
  const size_t count = std::min(drafts.size(), room ? room - 1 : 0);
  if (pending_.empty() || count == 0)
    return size_t(0);
  forgetResults();
  draftedFor_ = -1; // its logits may be gone
  if (!draftPending(token))
    return cancelled();
  drafts_.clear();
  for (const ProgramPhase *phase = phases_.draft;; phase = phases_.draftNext) {
    NINFER_ASSIGN_OR_RETURN(const int32_t proposed, proposal(*phase));
    drafts_.push_back(proposed);
    if (drafts_.size() == count)
      break;
    const int64_t position = int64_t(position_) + int64_t(drafts_.size()) - 1;
    if (!runTokens(*phases_.draftNext, {&proposed, 1}, position, stats_.draftNs))
      return cancelled();
    ++stats_.draftCalls;
    ++stats_.draftRows;
  }
  std::copy(drafts_.begin(), drafts_.end(), drafts.begin());
  stats_.draftedTokens += count;
  return count;
}

Status Context::verify(std::span<const int32_t> tokens) {
  if (!phases_.verify)
    return noPhases("the target of this plan has no verify phase");
  NINFER_RETURN_IF_ERROR(checkTokens(tokens));
  NINFER_RETURN_IF_ERROR(checkReady());
  const ProgramPhase &phase = *phases_.verify;
  if (int64_t(tokens.size()) < phase.minRows || int64_t(tokens.size()) > phase.maxRows)
    return badCount("rows to verify", tokens.size(), phase.minRows, phase.maxRows);
  NINFER_RETURN_IF_ERROR(checkRoom(tokens.size()));
  forgetResults();
  if (!draftPending(tokens.front()))
    return cancelled();
  if (!runTokens(*phases_.verify, tokens, position_, stats_.verifyNs))
    return textCallCut();
  keepRows(tokens);
  unaccepted_ = tokens.size();
  ++stats_.verifyCalls;
  stats_.verifyRows += tokens.size();
  return {};
}

std::span<const float> Context::rowLogits(size_t row) const {
  if (row >= unaccepted_)
    return {};
  const size_t width = size_t(phases_.verify->logitCount);
  return {phases_.verify->logits + row * width, width};
}

Status Context::accept(size_t count) {
  if (!unaccepted_)
    return makeError(ErrorKind::Usage, "NB0659", "no verified rows wait for accept");
  if (count > unaccepted_)
    return badCount("rows to accept", count, 0, int64_t(unaccepted_));
  if (phases_.commit && count) {
    const uint64_t start = nowNs();
    const bool finished = runPhase(*phases_.commit, int64_t(count), position_, never_);
    stats_.verifyNs += nowNs() - start;
    if (!finished)
      return executor_->failure();
  }
  if (speculates_)
    pending_.resize(count);
  unaccepted_ = 0;
  position_ += uint32_t(count);
  stats_.acceptedTokens += count;
  return {};
}

} // namespace ninfer
