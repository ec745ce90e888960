// How many threads of a team a run is worth. A thread whose CPU somebody else uses too keeps the others waiting at every
// barrier, since all of them have their fixed share of each launch: two threads beside one busy neighbour are slower
// than one. So a CPU that is taken away for a large part of the time is left for a while, and then tried again.
#ifndef NINFER_RUNTIME_EXECUTOR_ATTENDANCE_H
#define NINFER_RUNTIME_EXECUTOR_ATTENDANCE_H

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ninfer {

class Attendance {
public:
  /// Time in runs that is judged at once: some slices of a scheduler.
  static constexpr uint64_t kWindowNs = 25'000'000;
  /// How long a CPU is left: the shortest at first, then twice as long every time it was no better, up to the longest.
  static constexpr uint64_t kShortestLeaveNs = 250'000'000, kLongestLeaveNs = 2'000'000'000;

  explicit Attendance(unsigned threads) : threads_(threads), active_(threads), base_(threads) {}

  /// Threads of the next run: 0 to active() - 1.
  unsigned active() const { return active_; }

  /// Before a run at time `now`: true when the whole team takes part again.
  bool begin(uint64_t now, std::span<const uint64_t> stolen);
  /// After a run from `start` to `now`. stolen[i]: time in nanoseconds in which thread i wanted to run in any run so far
  /// and did not. Gives the thread whose CPU is left from now on; active() is one less then.
  std::optional<unsigned> end(uint64_t start, uint64_t now, std::span<const uint64_t> stolen);

private:
  void openWindow(std::span<const uint64_t> stolen);

  const unsigned threads_;
  unsigned active_;
  uint64_t windowNs_ = 0;
  std::vector<uint64_t> base_; ///< stolen when the window opened
  uint64_t leaveNs_ = kShortestLeaveNs, returnAt_ = 0;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_ATTENDANCE_H
