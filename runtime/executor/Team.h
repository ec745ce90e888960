// A team of threads that run one body together and meet at barriers. Waiting spins for a bounded time, then
// sleeps in a futex, so an idle team costs nothing and a busy one does not enter the kernel between launches.
#ifndef NINFER_RUNTIME_EXECUTOR_TEAM_H
#define NINFER_RUNTIME_EXECUTOR_TEAM_H

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

  using Body = void (*)(void *data, unsigned thread);
  /// Calls body(data, i) on every thread i, 0 being the caller, which is pinned for the time of the call. Every
  /// thread must pass the same barriers, and the last thing of the body must be one: it ends the run.
  void run(Body body, void *data);
  /// From within a body: waits for the whole team. The last thread to arrive reads `stop`; all threads return
  /// that one answer, so they leave a loop together.
  bool barrier(const std::atomic<bool> &stop);

private:
  struct Worker;
  explicit Team(const TeamOptions &options);
  static void *workerMain(void *worker);
  void wait(uint32_t generation);

  const unsigned threads_;
  const std::vector<int> cpus_;
  const uint64_t spinNs_;
  std::vector<Worker> workers_;
  Body body_ = nullptr; ///< null: leave
  void *data_ = nullptr;
  bool answer_ = false;
  const std::atomic<bool> never_{false};

  // One cache line each: arrivals write the first, waiters read the second.
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<uint32_t> sleepers_{0};
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_TEAM_H
