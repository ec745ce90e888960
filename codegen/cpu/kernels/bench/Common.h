// What the micro-kernel benches share: the clock, the CPU they run on, lists of numbers.
#ifndef NINFER_CODEGEN_CPU_KERNELS_BENCH_COMMON_H
#define NINFER_CODEGEN_CPU_KERNELS_BENCH_COMMON_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace ninfer::bench {

/// Seconds of CPU time of the calling thread: other work on the machine does not count.
inline double cpuTime() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Keeps the calling thread on one CPU.
inline void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// "1,4,16".
inline std::vector<int64_t> numbers(const std::string &list) {
  std::vector<int64_t> out;
  for (size_t at = 0; at < list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    out.push_back(std::atol(list.substr(at, comma - at).c_str()));
    at = comma + 1;
  }
  return out;
}

} // namespace ninfer::bench

#endif // NINFER_CODEGEN_CPU_KERNELS_BENCH_COMMON_H
