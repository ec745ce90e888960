// A team of threads that run one body together and meet at barriers. Waiting spins for a bounded time, then
// sleeps in a futex, so an idle team costs nothing and a busy one does not enter the kernel between launches. Threads
// whose CPU is taken away are left out of runs for a while (Attendance.h).
#ifndef NINFER_RUNTIME_EXECUTOR_TEAM_H
#define NINFER_RUNTIME_EXECUTOR_TEAM_H

#include "runtime/executor/Attendance.h"
#include "support/Status.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace ninfer {

struct TeamOptions {
  unsigned threads = 1;   ///< the calling thread included
  std::vector<int> cpus = {}; ///< CPU of thread i is cpus[i % size]; empty: threads are not pinned
  uint64_t spinNs = 0;    ///< longest spin before sleeping
};

class Team {
public:
  /// Stack of every thread but the caller's.
  static constexpr uint64_t kStackBytes = 256 * 1024;

  /// Starts threads - 1 threads. NB0630 when the system refuses one.
  static Result<std::unique_ptr<Team>> start(const TeamOptions &options);
  ~Team();
  Team(const Team &) = delete;
  Team &operator=(const Team &) = delete;

  unsigned threads() const { return threads_; }
  /// Threads of the present run, within a body; else of the last one.
  unsigned active() const { return active_; }

  using Body = void (*)(void *data, unsigned thread);
  /// Calls body(data, i) on every thread i below active(), 0 being the caller, which is pinned for the time of the
  /// call. Each must pass the same barriers, and the last thing of the body must be one: it ends the run. Runs of one
  /// `kind` do the same work.
  void run(Body body, void *data, uint64_t kind = 0);
  /// From within a body: waits for the threads of the run. The last thread to arrive reads `stop`; all threads return
  /// that one answer, so they leave a loop together.
  bool barrier(const std::atomic<bool> &stop);

private:
  struct Worker;
  explicit Team(const TeamOptions &options);
  static void *workerMain(void *worker);
  void work(Worker &worker);
  uint32_t awaitStart(uint32_t seen, unsigned index);
  void startRun(Body body, void *data, unsigned active);
  void timed(Body body, void *data, unsigned thread);
  uint64_t wait(std::atomic<uint32_t> &word, uint32_t value, std::atomic<uint32_t> &sleepers);
  void settle(uint64_t start, uint64_t kind);
  void restoreOrder();

  const unsigned threads_;
  const std::vector<int> cpus_;
  std::vector<int> order_; ///< CPU of every thread, those that are left at the end; empty as cpus_ is
  const uint64_t spinNs_;
  std::vector<Worker> workers_;
  Body body_ = nullptr; ///< null: leave
  void *data_ = nullptr;
  std::atomic<bool> answer_{false}; ///< a thread left out of the next run may still be reading it
  unsigned active_;

  // Who takes part: written between runs by the caller.
  Attendance attendance_;
  bool watched_ = false;                         ///< this run measures stolen time
  std::vector<uint64_t> stolen_;                 ///< as last seen, for attendance_
  std::vector<std::atomic<uint64_t>> stolenBy_;  ///< nanoseconds, of every thread
  std::atomic<uint32_t> longWaits_{0};           ///< at barriers, so far
  uint32_t longWaitsSeen_ = 0;

  // One cache line each: arrivals write the first, waiters read the second, workers between runs the third.
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<uint32_t> sleepers_{0};
  /// Number of the run, and in its low bits the threads that take part: one word says both, so that a worker that is
  /// left out never looks at a run that may be over.
  alignas(64) std::atomic<uint32_t> start_{0};
  std::atomic<uint32_t> startSleepers_{0};
  std::atomic<uint32_t> recall_{0}; ///< changes behind start_ when more threads take part than before
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_TEAM_H
