// Read bandwidth of this machine now, the yardstick beside which the speed of kernels is stated: every thread sums its share of memory
// larger than the caches, and the best of several ways to read it counts, since none is best everywhere: 1, 4, 8 or 16 streams far
// apart, plain or with a prefetch to the second-level cache some way ahead.
#ifndef NINFER_BENCH_READPROBE_H
#define NINFER_BENCH_READPROBE_H

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sched.h>
#include <sys/mman.h>
#include <thread>
#include <type_traits>
#include <vector>

namespace ninfer::bench {

inline constexpr size_t kLine = 8;     ///< words of a cache line
inline constexpr size_t kPage = 512;   ///< words of a page
inline constexpr size_t kTurn = 1 << 19; ///< words between two looks at the clock, per stream

/// Sums `length` words from each of `Streams` places `apart` words apart; returns the sum so that no read is left out.
/// ahead: words that the prefetch is ahead, 0 without.
template <size_t Streams> uint64_t sumStreams(const uint64_t *data, size_t apart, size_t length, size_t ahead) {
  uint64_t sums[Streams][kLine] = {};
  const auto sweep = [&](auto prefetch) {
    for (size_t i = 0; i + kLine <= length; i += kLine)
      for (size_t s = 0; s < Streams; ++s) {
        const uint64_t *line = data + s * apart + i;
        if (prefetch)
          __builtin_prefetch(line + ahead, 0, 2);
        for (size_t k = 0; k < kLine; ++k)
          sums[s][k] += line[k];
      }
  };
  ahead ? sweep(std::true_type()) : sweep(std::false_type());
  uint64_t total = 0;
  for (auto &stream : sums)
    for (uint64_t sum : stream)
      total += sum;
  return total;
}

struct Way {
  const char *name;
  uint64_t (*sum)(const uint64_t *, size_t, size_t, size_t);
  size_t streams, ahead;
};

inline const Way kWays[] = {
    {"1 stream", sumStreams<1>, 1, 0},
    {"1 stream, prefetch 4096", sumStreams<1>, 1, 512},
    {"4 streams", sumStreams<4>, 4, 0},
    {"8 streams", sumStreams<8>, 8, 0},
    {"8 streams, prefetch 1024", sumStreams<8>, 8, 128},
    {"8 streams, prefetch 4096", sumStreams<8>, 8, 512},
    {"16 streams, prefetch 1024", sumStreams<16>, 16, 128},
};

inline std::atomic<uint64_t> sink;

/// `words` 64-bit words read by `threads` threads, pinned to the first CPUs, for `seconds`.
inline double gigabytesPerSecond(const uint64_t *data, size_t words, unsigned threads, const Way &way, double seconds) {
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false}, stop{false};
  std::atomic<uint64_t> read{0};
  std::vector<std::thread> team;
  for (unsigned t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      cpu_set_t cpu;
      CPU_ZERO(&cpu);
      CPU_SET(t, &cpu);
      (void)sched_setaffinity(0, sizeof cpu, &cpu);
      // An odd number of pages apart: streams at equal places of their DRAM banks would wait for each other.
      const size_t share = words / threads, apart = (share / way.streams / kPage - 1) / 2 * 2 * kPage - kPage;
      const uint64_t *mine = data + t * share;
      ++ready;
      while (!go)
        std::this_thread::yield();
      for (size_t at = 0; !stop; at = at + 2 * kTurn <= apart ? at + kTurn : 0) {
        const size_t length = std::min(kTurn, apart);
        sink += way.sum(mine + at, apart, length, way.ahead);
        read += length * way.streams;
      }
    });
  while (ready < threads)
    std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  go = true;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread &thread : team)
    thread.join();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return double(read) * 8 / taken.count() * 1e-9;
}

/// Memory of huge pages full of ones, or null. Never given back.
inline const uint64_t *probeMemory(size_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return nullptr;
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  std::fill_n(static_cast<uint64_t *>(memory), bytes / 8, 1);
  return static_cast<const uint64_t *>(memory);
}

} // namespace ninfer::bench

#endif // NINFER_BENCH_READPROBE_H
