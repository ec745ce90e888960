#include "runtime/text/TokenStream.h"

#include <algorithm>
#include <numeric>

namespace ninfer {

uint64_t DraftStats::acceptedDrafts() const { return std::accumulate(accepted.begin(), accepted.end(), uint64_t(0)); }

void DraftStats::add(const DraftStats &other) {
  rounds += other.rounds;
  drafted += other.drafted;
  compared.resize(std::max(compared.size(), other.compared.size()));
  accepted.resize(compared.size());
  for (size_t i = 0; i < other.compared.size(); ++i) {
    compared[i] += other.compared[i];
    accepted[i] += other.accepted[i];
  }
}

TokenStream::TokenStream(Sequence &sequence, Sampler sampler, size_t drafts)
    : sequence_(sequence), sampler_(std::move(sampler)), drafts_(drafts) {
  round_.reserve(drafts + 1);
  stats_.compared.resize(drafts);
  stats_.accepted.resize(drafts);
}

Result<int32_t> TokenStream::next() {
  NINFER_ASSIGN_OR_RETURN(const std::span<const float> logits,
                          round_.empty() ? sequence_.logits() : sequence_.rowLogits(row_));
  NINFER_ASSIGN_OR_RETURN(token_, sampler_.sample(logits));
  return token_;
}

Status TokenStream::advance(uint64_t wanted) {
  if (row_ + 1 < round_.size()) {
    ++stats_.compared[row_];
    if (round_[row_ + 1] == token_) {
      ++stats_.accepted[row_];
      ++row_;
      sampler_.accept(token_);
      return {};
    }
  }
  NINFER_RETURN_IF_ERROR(finish());
  // The row of the token itself gives one more; each draft, if it is right, another.
  const size_t useful = size_t(std::min<uint64_t>(drafts_.size(), wanted ? wanted - 1 : 0));
  size_t count = 0;
  if (useful) {
    NINFER_ASSIGN_OR_RETURN(count, sequence_.draft(token_, std::span(drafts_).first(useful)));
  }
  if (count == 0) {
    NINFER_RETURN_IF_ERROR(sequence_.submit(token_));
  } else {
    round_.assign(1, token_);
    round_.insert(round_.end(), drafts_.begin(), drafts_.begin() + ptrdiff_t(count));
    Status status = sequence_.verify(round_);
    if (!status.ok()) {
      round_.clear();
      return status;
    }
    row_ = 0;
    ++stats_.rounds;
    stats_.drafted += count;
  }
  sampler_.accept(token_);
  return {};
}

Status TokenStream::finish() {
  if (round_.empty())
    return {};
  round_.clear();
  return sequence_.accept(row_ + 1);
}

uint32_t TokenStream::position() const {
  return sequence_.position() + (round_.empty() ? 0 : uint32_t(row_) + 1);
}

} // namespace ninfer
