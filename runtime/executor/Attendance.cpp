#include "runtime/executor/Attendance.h"

#include <algorithm>

namespace ninfer {

void Attendance::openWindow(std::span<const uint64_t> stolen) {
  windowNs_ = 0;
  std::copy(stolen.begin(), stolen.end(), base_.begin());
}

bool Attendance::begin(uint64_t now, std::span<const uint64_t> stolen) {
  if (active_ == threads_ || now < returnAt_)
    return false;
  active_ = threads_;
  openWindow(stolen);
  return true;
}

std::optional<unsigned> Attendance::end(uint64_t start, uint64_t now, std::span<const uint64_t> stolen) {
  windowNs_ += now - start;
  if (windowNs_ < kWindowNs || active_ == 1)
    return std::nullopt;
  unsigned worst = 0;
  uint64_t most = 0;
  for (unsigned i = 0; i < active_; ++i)
    if (stolen[i] - base_[i] > most) {
      most = stolen[i] - base_[i];
      worst = i;
    }
  // Without it the others do its share too: at most 1 / active of the time, less where memory limits. A single thread
  // of the system that ran for a moment is no neighbour.
  const uint64_t bearable = std::max(windowNs_ * 7 / (10 * active_), windowNs_ / 10);
  const bool leave = most > bearable;
  openWindow(stolen);
  if (!leave) {
    if (active_ == threads_)
      leaveNs_ = kShortestLeaveNs;
    return std::nullopt;
  }
  --active_;
  returnAt_ = now + leaveNs_;
  leaveNs_ = std::min(2 * leaveNs_, kLongestLeaveNs);
  return worst;
}

} // namespace ninfer
