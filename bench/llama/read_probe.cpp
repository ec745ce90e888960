// Read bandwidth of this machine now, the yardstick beside which decode speeds are stated: every thread sums its share of memory
// larger than the caches, and the best of several ways to read it counts, since none is best everywhere: 1, 4, 8 or 16 streams far
// apart, plain or with a prefetch to the second-level cache some way ahead, anonymous memory in huge pages or a mapped file.
//
// usage: read_probe [MIB] [SECONDS_PER_WAY] [FILE]      prints {"1": GB/s, "2": GB/s, "best": {"1": "the way", "2": ..}}
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t kLine = 8;     ///< words of a cache line
constexpr size_t kPage = 512;   ///< words of a page
constexpr size_t kTurn = 1 << 19; ///< words between two looks at the clock, per stream

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

const Way kWays[] = {
    {"1 stream", sumStreams<1>, 1, 0},
    {"1 stream, prefetch 4096", sumStreams<1>, 1, 512},
    {"4 streams", sumStreams<4>, 4, 0},
    {"8 streams", sumStreams<8>, 8, 0},
    {"8 streams, prefetch 1024", sumStreams<8>, 8, 128},
    {"8 streams, prefetch 4096", sumStreams<8>, 8, 512},
    {"16 streams, prefetch 1024", sumStreams<16>, 16, 128},
};

std::atomic<uint64_t> sink;

double gigabytesPerSecond(const uint64_t *data, size_t words, unsigned threads, const Way &way, double seconds) {
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

const uint64_t *mapped(void *memory, const char *what) {
  if (memory != MAP_FAILED)
    return static_cast<const uint64_t *>(memory);
  std::fprintf(stderr, "read_probe: cannot map %s\n", what);
  std::exit(1);
}

} // namespace

int main(int argc, char **argv) {
  const size_t bytes = size_t(argc > 1 ? std::atol(argv[1]) : 1024) << 20;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.1;
  struct Memory {
    std::string name;
    const uint64_t *data;
    size_t words;
  };
  std::vector<Memory> memories;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t *anonymous = mapped(memory, "anonymous memory");
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  std::fill_n(static_cast<uint64_t *>(memory), bytes / 8, 1);
  memories.push_back({"anonymous", anonymous, bytes / 8});
  if (argc > 3) {
    const int file = open(argv[3], O_RDONLY | O_CLOEXEC);
    struct stat info = {};
    if (file < 0 || fstat(file, &info) != 0 || info.st_size < (256 << 20)) {
      std::fprintf(stderr, "read_probe: %s is not a file of 256 MiB or more\n", argv[3]);
      return 1;
    }
    const size_t size = std::min(size_t(info.st_size), bytes);
    memories.push_back({"file", mapped(mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0), argv[3]), size / 8});
  }
  double best[2] = {};
  std::string names[2];
  for (unsigned threads : {1u, 2u})
    for (const Memory &m : memories)
      for (const Way &way : kWays) {
        const double rate = gigabytesPerSecond(m.data, m.words, threads, way, seconds);
        if (rate > best[threads - 1])
          best[threads - 1] = rate, names[threads - 1] = m.name + ", " + way.name;
      }
  std::printf("{\"1\": %.2f, \"2\": %.2f, \"best\": {\"1\": \"%s\", \"2\": \"%s\"}}\n", best[0], best[1], names[0].c_str(), names[1].c_str());
}
