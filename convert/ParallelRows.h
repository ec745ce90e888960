// Rows of one tensor, shared out to threads in blocks; the reported error is that of the lowest
// block, so messages do not depend on scheduling. A worker that runs out of memory reports it like
// any other error.
#ifndef NINFER_CONVERT_PARALLELROWS_H
#define NINFER_CONVERT_PARALLELROWS_H

#include "support/Status.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace ninfer {

/// Calls `worker(first, count)` for blocks of at most `blockRows` rows that cover [0, rows); every
/// thread makes its own worker by `makeWorker()`. After an error no block behind it is started.
/// Interrupted (NB0321) when `cancelled` answers true.
template <typename MakeWorker>
Status parallelRows(uint64_t rows, uint64_t blockRows, unsigned threads,
                    const std::function<bool()> &cancelled, MakeWorker makeWorker) {
  uint64_t blocks = (rows + blockRows - 1) / blockRows;
  std::atomic<uint64_t> next = 0, firstFault = blocks;
  std::atomic<bool> interrupted = false;
  std::mutex mutex;
  Status fault;
  auto loop = [&] {
    auto worker = makeWorker();
    for (uint64_t block = next++; block < firstFault; block = next++) {
      if (cancelled && cancelled()) {
        interrupted = true;
        return;
      }
      uint64_t first = block * blockRows;
      Status status;
      try {
        status = worker(first, std::min(blockRows, rows - first));
      } catch (const std::bad_alloc &) {
        status =
            makeError(ErrorKind::OutOfMemory, "NB0322", "not enough memory for a block of rows");
      }
      if (status.ok())
        continue;
      std::lock_guard lock(mutex);
      if (block < firstFault) {
        firstFault = block;
        fault = std::move(status);
      }
    }
  };
  std::vector<std::thread> team;
  for (uint64_t i = 1; i < std::min<uint64_t>(threads, blocks); ++i)
    team.emplace_back(loop);
  loop();
  for (std::thread &thread : team)
    thread.join();
  if (interrupted)
    return makeError(ErrorKind::Interrupted, "NB0321", "interrupted");
  return fault;
}

} // namespace ninfer

#endif // NINFER_CONVERT_PARALLELROWS_H
