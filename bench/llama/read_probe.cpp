// The read probe (bench/ReadProbe.h) as a program, over anonymous memory in huge pages and, if one is given, a mapped file.
//
// usage: read_probe [MIB] [SECONDS_PER_WAY] [FILE]      prints {"1": GB/s, "2": GB/s, "best": {"1": "the way", "2": ..}}
#include "bench/ReadProbe.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace ninfer::bench;

namespace {

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
  const uint64_t *anonymous = probeMemory(bytes);
  if (!anonymous) {
    std::fprintf(stderr, "read_probe: cannot map anonymous memory\n");
    return 1;
  }
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
