#include "runtime/executor/Attendance.h"

#include <algorithm>

namespace ninfer {

void Attendance::openWindow(std::span<const uint64_t> stolen) {
  windowNs_ = runs_ = 0;
  mixed_ = false;
  std::copy(stolen.begin(), stolen.end(), base_.begin());
}

void Attendance::decide(uint64_t now) {
  holdsUntil_ = now + holdNs_;
  holdNs_ = std::min(2 * holdNs_, kLongestNs);
}

bool Attendance::begin(uint64_t now, std::span<const uint64_t> stolen) {
  if (active_ == threads_ || trial_ || now < holdsUntil_)
    return false;
  active_ = threads_;
  curious_ = true;
  openWindow(stolen);
  return true;
}

std::optional<unsigned> Attendance::end(uint64_t start, uint64_t now, std::span<const uint64_t> stolen, uint64_t kind) {
  windowNs_ += now - start;
  mixed_ = mixed_ || (runs_ != 0 && kind != kind_);
  kind_ = kind;
  ++runs_;
  if (windowNs_ < kWindowNs)
    return std::nullopt;
  const std::optional<unsigned> left = judge(now, stolen);
  openWindow(stolen);
  return left;
}

std::optional<unsigned> Attendance::judge(uint64_t now, std::span<const uint64_t> stolen) {
  const uint64_t mean = windowNs_ / runs_;
  if (trial_) {
    trial_ = false;
    decide(now);
    if (!mixed_ && meanBefore_ != 0 && kind_ == kindBefore_ && mean > meanBefore_)
      active_ = threads_; // it was better before
    return std::nullopt;
  }
  curious_ = false;
  if (active_ == 1 || now < holdsUntil_)
    return std::nullopt;
  unsigned worst = 0;
  uint64_t most = 0, all = 0;
  for (unsigned i = 0; i < active_; ++i) {
    const uint64_t here = stolen[i] - base_[i];
    all += here;
    if (here > most) {
      most = here;
      worst = i;
    }
  }
  // One thread less costs at most 1 / active of the speed. A thread of the system that ran for a moment is no neighbour.
  if (all <= std::max(windowNs_ * 7 / (10 * active_), windowNs_ / 10)) {
    if (active_ == threads_)
      holdNs_ = kShortestNs;
    return std::nullopt;
  }
  trial_ = true;
  meanBefore_ = mixed_ ? 0 : mean;
  kindBefore_ = kind_;
  --active_;
  return worst;
}

} // namespace ninfer
