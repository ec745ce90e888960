// How many threads of a team a run is worth. A thread whose CPU somebody else uses too keeps the others waiting at every
// barrier, since all of them have their fixed share of each launch: two threads beside one busy neighbour are slower
// than one. So where CPUs are taken away, one is left for a while, if runs are shorter without it, and then tried again.
#ifndef NINFER_RUNTIME_EXECUTOR_ATTENDANCE_H
#define NINFER_RUNTIME_EXECUTOR_ATTENDANCE_H

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ninfer {

class Attendance {
public:
  /// Time in runs that is judged at once: many slices of a scheduler, one period of a control group's quota.
  static constexpr uint64_t kWindowNs = 100'000'000;
  /// How long a decision holds: the shortest at first, then twice as long every time it was right, up to the longest.
  static constexpr uint64_t kShortestNs = 500'000'000, kLongestNs = 4'000'000'000;

  explicit Attendance(unsigned threads) : threads_(threads), active_(threads), base_(threads) {}

  /// Threads of the next run: 0 to active() - 1.
  unsigned active() const { return active_; }
  /// The next run must measure stolen time, because the team has just come back.
  bool curious() const { return curious_; }

  /// Before a run at time `now`: true when the whole team takes part again.
  bool begin(uint64_t now, std::span<const uint64_t> stolen);
  /// After a run from `start` to `now`. stolen[i]: time in nanoseconds in which thread i could have run in any run so far
  /// and had no CPU. `kind`: runs of one kind do the same work. Gives the thread whose CPU is left from now on; active()
  /// is one less then.
  std::optional<unsigned> end(uint64_t start, uint64_t now, std::span<const uint64_t> stolen, uint64_t kind);

private:
  void openWindow(std::span<const uint64_t> stolen);
  void decide(uint64_t now); ///< the present number of threads holds for a while
  std::optional<unsigned> judge(uint64_t now, std::span<const uint64_t> stolen);

  const unsigned threads_;
  unsigned active_;
  bool curious_ = false;
  // The window.
  uint64_t windowNs_ = 0, runs_ = 0, kind_ = 0;
  bool mixed_ = false;         ///< runs of several kinds
  std::vector<uint64_t> base_; ///< stolen when it opened
  // The window before the last CPU was left, as long as that is on trial.
  bool trial_ = false;
  uint64_t meanBefore_ = 0, kindBefore_ = 0; ///< nanoseconds of a run; 0: not comparable
  uint64_t holdNs_ = kShortestNs, holdsUntil_ = 0;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_ATTENDANCE_H
