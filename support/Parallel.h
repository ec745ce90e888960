// Numbered pieces of work shared out to threads, with results that do not depend on scheduling.
#ifndef NINFER_SUPPORT_PARALLEL_H
#define NINFER_SUPPORT_PARALLEL_H

#include "support/Status.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace ninfer {

/// Calls `work(i)`, which returns a Status, for every i of [0, count) on at most `threads` threads
/// (the caller's included). Pieces start in increasing order. After a failure no piece behind it is
/// started, and the failure of the lowest piece is returned, so the message is the same whatever
/// the threads. A piece that runs out of memory fails with NB0909; where the system gives no more
/// threads, fewer work.
template <typename Work>
Status parallelFor(uint64_t count, unsigned threads, const Work &work) {
  std::atomic<uint64_t> next = 0, firstFault = count;
  std::mutex mutex;
  Status fault;
  const auto loop = [&] {
    for (uint64_t i = next++; i < firstFault; i = next++) {
      Status status;
      try {
        status = work(i);
      } catch (const std::bad_alloc &) {
        status = makeError(ErrorKind::OutOfMemory, "NB0909", "out of memory");
      }
      if (status.ok())
        continue;
      const std::lock_guard<std::mutex> lock(mutex);
      if (i < firstFault) {
        firstFault = i;
        fault = std::move(status);
      }
    }
  };
  std::vector<std::thread> team;
  try {
    for (uint64_t i = 1; i < std::min<uint64_t>(threads, count); ++i)
      team.emplace_back(loop);
  } catch (const std::system_error &) { // the threads that did start do the work
  } catch (const std::bad_alloc &) {
  }
  loop();
  for (std::thread &thread : team)
    thread.join();
  return fault;
}

} // namespace ninfer

#endif // NINFER_SUPPORT_PARALLEL_H
