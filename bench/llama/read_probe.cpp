// Read bandwidth of this machine now: every thread sums its share of a buffer larger than the caches, as eight streams far apart
// (the pattern of a one-row product). Prints one JSON object; the yardstick beside which decode speeds are stated.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace {

constexpr size_t kStreams = 8;

/// Sums `words` 64-bit words at `data`; returns the sum so that no read is left out.
uint64_t sumStreams(const uint64_t *data, size_t words) {
  const size_t length = words / kStreams;
  uint64_t sums[kStreams][8] = {};
  for (size_t i = 0; i + 8 <= length; i += 8)
    for (size_t s = 0; s < kStreams; ++s)
      for (size_t k = 0; k < 8; ++k)
        sums[s][k] += data[s * length + i + k];
  uint64_t total = 0;
  for (auto &stream : sums)
    for (uint64_t sum : stream)
      total += sum;
  return total;
}

double gigabytesPerSecond(const uint64_t *data, size_t words, unsigned threads, double seconds) {
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false}, stop{false};
  std::atomic<uint64_t> sweeps{0}, sink{0};
  std::vector<std::thread> team;
  for (unsigned t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      const size_t share = words / threads / 512 * 512;
      ++ready;
      while (!go)
        std::this_thread::yield();
      while (!stop) {
        sink += sumStreams(data + t * share, share);
        sweeps += share;
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
  return double(sweeps) * 8 / taken.count() * 1e-9;
}

} // namespace

int main(int argc, char **argv) {
  const size_t bytes = size_t(argc > 1 ? std::atol(argv[1]) : 1024) << 20;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.5;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "read_probe: cannot allocate %zu bytes\n", bytes);
    return 1;
  }
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  auto *data = static_cast<uint64_t *>(memory);
  std::fill_n(data, bytes / 8, 1);
  std::printf("{");
  for (unsigned threads : {1u, 2u})
    std::printf("%s\"%u\": %.2f", threads == 1 ? "" : ", ", threads, gigabytesPerSecond(data, bytes / 8, threads, seconds));
  std::printf("}\n");
}
