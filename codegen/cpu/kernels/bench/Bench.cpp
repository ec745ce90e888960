// micro_bench_<level> [-t THREADS] [-r ROWS,ROWS..] [-s NxK,NxK..] [-k NAME-PART] [-m MILLISECONDS] [-w MIB]
// GB/s of weight bytes at one row, GFLOP/s otherwise (2 per multiply-add), best and median of short samples, next to
// the read bandwidth of the same memory in the same samples. Weights are random words in more memory than the caches
// hold (-w 1: in the second level, where instructions decide), threads take halves of the rows. Time is CPU time of the slowest thread, so other processes disturb caches and
// memory but not the clock; on a shared machine trust the best sample and the ratio to the read probe.
#include "codegen/cpu/kernels/MicroKernels.h"
#include "codegen/cpu/kernels/bench/Common.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <immintrin.h>

using namespace ninfer;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Threads that start together by spinning; run() returns the seconds of CPU time of the slowest.
class Team {
public:
  explicit Team(int size) : size_(size) {
    bench::pin(0);
    for (int i = 1; i < size; ++i)
      threads_.emplace_back([this, i] { work(i); });
  }
  ~Team() {
    quit_ = true;
    ++generation_;
    for (std::thread &t : threads_)
      t.join();
  }
  double run(const std::function<void(int)> &job) {
    job_ = &job;
    done_ = 0;
    ++generation_;
    timed(0);
    while (done_ < size_ - 1)
      _mm_pause();
    double slowest = 0;
    for (int i = 0; i < size_; ++i)
      slowest = std::max(slowest, seconds_[i]);
    return slowest;
  }
  int size() const { return size_; }

private:
  void work(int i) {
    bench::pin(i);
    for (int seen = 0;; ++seen) {
      while (generation_ == seen)
        _mm_pause();
      if (quit_)
        return;
      timed(i);
      ++done_;
    }
  }
  void timed(int i) {
    const double start = bench::cpuTime();
    (*job_)(i);
    seconds_[i] = bench::cpuTime() - start;
  }
  int size_;
  double seconds_[64] = {};
  std::vector<std::thread> threads_;
  const std::function<void(int)> *job_ = nullptr;
  std::atomic<int> generation_{0}, done_{0};
  std::atomic<bool> quit_{false};
};

struct Kernel {
  const char *name;
  decltype(&ni_linear_q4_a16) linear;
  decltype(&ni_pack_f32) pack;
  MicroPack kind;
  int bits; ///< 4, 5, 6, 8: integer codes; 16, 32: words; 80: fp8row; 40: nvfp4
};

const Kernel kKernels[] = {
    {"q4_a16", ni_linear_q4_a16, ni_pack_a16g64, MicroPack::A16G64, 4},
    {"q5_a16", ni_linear_q5_a16, ni_pack_a16g64, MicroPack::A16G64, 5},
    {"q6_a16", ni_linear_q6_a16, ni_pack_a16g64, MicroPack::A16G64, 6},
    {"w8_a16", ni_linear_w8_a16, ni_pack_a16g32, MicroPack::A16G32, 8},
    {"q4_a8", ni_linear_q4_a8, ni_pack_a8g64, MicroPack::A8G64, 4},
    {"q5_a8", ni_linear_q5_a8, ni_pack_a8g64, MicroPack::A8G64, 5},
    {"q6_a8", ni_linear_q6_a8, ni_pack_a8g64, MicroPack::A8G64, 6},
    {"w8_a8", ni_linear_w8_a8, ni_pack_a8g32, MicroPack::A8G32, 8},
    {"q4_f32", ni_linear_q4_f32, ni_pack_f32, MicroPack::F32, 4},
    {"q5_f32", ni_linear_q5_f32, ni_pack_f32, MicroPack::F32, 5},
    {"q6_f32", ni_linear_q6_f32, ni_pack_f32, MicroPack::F32, 6},
    {"w8_f32", ni_linear_w8_f32, ni_pack_f32, MicroPack::F32, 8},
    {"bf16_f32", ni_linear_bf16_f32, ni_pack_f32, MicroPack::F32, 16},
    {"fp32_f32", ni_linear_fp32_f32, ni_pack_f32, MicroPack::F32, 32},
    {"fp8row_f32", ni_linear_fp8row_f32, ni_pack_f32, MicroPack::F32, 80},
    {"nvfp4_f32", ni_linear_nvfp4_f32, ni_pack_f32, MicroPack::F32, 40},
};

struct Planes {
  size_t bytes[3] = {0, 0, 0};
  size_t total() const { return bytes[0] + bytes[1] + bytes[2]; }
};

Planes planesOf(int bits, size_t n, size_t k) {
  const size_t kp = (k + 127) / 128 * 128;
  switch (bits) {
  case 4: return {{n * kp / 2, n * kp / 32, 0}};
  case 5: return {{n * kp / 2, n * kp / 8, n * kp / 32}};
  case 6: return {{n * kp / 2, n * kp / 4, n * kp / 32}};
  case 8: return {{n * kp, n * kp / 16, 0}};
  case 16: return {{n * k * 2, 0, 0}};
  case 32: return {{n * k * 4, 0, 0}};
  case 80: return {{n * k, n * 2, 0}};
  default: return {{n * k / 2, n * k / 16, 64}};
  }
}

/// Memory of huge pages with harmless words: every 16-bit word is a moderate binary16 and bfloat16 number.
unsigned char *randomMemory(size_t bytes) {
  const size_t huge = size_t(2) << 20;
  bytes = (bytes + huge - 1) / huge * huge;
  void *p = mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    std::perror("mmap");
    std::exit(5);
  }
  auto *out = reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(p) + huge - 1) / huge * huge);
  madvise(out, bytes, MADV_HUGEPAGE);
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i < bytes; i += 8) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const uint64_t word = (state & 0x83ff83ff83ff83ffu) | 0x3000300030003000u;
    std::memcpy(out + i, &word, 8);
  }
  return out;
}

__attribute__((target("avx2"))) uint64_t readProbe(const unsigned char *p, size_t bytes) {
  __m256i sum[4] = {};
  for (size_t i = 0; i + 128 <= bytes; i += 128)
    for (int j = 0; j < 4; ++j)
      sum[j] = _mm256_xor_si256(sum[j], _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p + i + 32 * size_t(j))));
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  return uint64_t(_mm256_extract_epi64(all, 0) ^ _mm256_extract_epi64(all, 2));
}

template <class F> void splitList(const std::string &list, F f) {
  for (size_t at = 0; at < list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    f(list.substr(at, comma - at));
    at = comma + 1;
  }
}

std::atomic<uint64_t> sink;

void measure(Team &team, const Kernel &kernel, int64_t n, int64_t k, int64_t rows, const unsigned char *memory,
             size_t memoryBytes, double seconds) {
  const Planes planes = planesOf(kernel.bits, size_t(n), size_t(k));
  const size_t matrix = (planes.total() + 4095) / 4096 * 4096, matrices = std::max<size_t>(1, memoryBytes / matrix);
  std::vector<float> x(static_cast<size_t>(rows * k)), out(static_cast<size_t>(rows * n));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(int(i * 2654435761u % 1000) - 500) / 250.0f;
  const auto aligned = [](int64_t bytes) { return std::aligned_alloc(64, size_t(microRoundUp(bytes + 64, 64))); };
  std::vector<void *> packed, scratch;
  for (int i = 0; i < team.size(); ++i) {
    packed.push_back(aligned(microPackedBytes(kernel.kind, rows, k)));
    scratch.push_back(aligned(microLinearScratchBytes(kernel.kind, rows)));
    kernel.pack(x.data(), rows, k, packed.back());
  }
  size_t turn = 0;
  const auto linear = [&](int thread) {
    const unsigned char *base = memory + turn % matrices * matrix;
    const int64_t step = microRoundUp((n + team.size() - 1) / team.size(), kMicroPanelRows);
    const int64_t begin = std::min(n, thread * step), end = std::min(n, begin + step);
    kernel.linear(base, base + planes.bytes[0], base + planes.bytes[0] + planes.bytes[1], packed[size_t(thread)], rows, k,
                  begin, end, out.data() + begin, n, scratch[size_t(thread)]);
  };
  const std::function<void(int)> job = linear;
  const std::function<void(int)> probe = [&](int thread) {
    const size_t half = matrix / size_t(team.size()) / 128 * 128;
    sink ^= readProbe(memory + turn % matrices * matrix + size_t(thread) * half, half);
  };
  const size_t repeat = std::max<size_t>(1, size_t(2e-3 / std::max(1e-6, team.run(job))));
  std::vector<double> times, probes;
  for (const double start = now(); now() - start < seconds || times.size() < 5;) {
    double sum = 0, probeSum = 0;
    for (size_t i = 0; i < repeat; ++i, ++turn)
      sum += team.run(job);
    if (rows == 1)
      for (size_t i = 0; i < repeat; ++i, ++turn)
        probeSum += team.run(probe);
    times.push_back(sum / double(repeat)), probes.push_back(probeSum / double(repeat));
  }
  std::sort(times.begin(), times.end());
  std::sort(probes.begin(), probes.end());
  const double best = times[0], median = times[times.size() / 2];
  if (rows == 1) {
    const double bytes = double(planes.total()) * 1e-9;
    std::printf("%-11s %5ldx%-5ld t%d rows %-4ld GB/s best %6.1f median %6.1f  probe best %6.1f median %6.1f  ratio %.2f "
                "/ %.2f\n",
                kernel.name, n, k, team.size(), rows, bytes / best, bytes / median, double(matrix) * 1e-9 / probes[0],
                double(matrix) * 1e-9 / probes[probes.size() / 2], bytes / best / (double(matrix) * 1e-9 / probes[0]),
                bytes / median / (double(matrix) * 1e-9 / probes[probes.size() / 2]));
  } else {
    const double work = 2e-9 * double(n) * double(k) * double(rows);
    const double bytes = double(planes.total()) * 1e-9;
    std::printf("%-11s %5ldx%-5ld t%d rows %-4ld GFLOP/s best %6.1f median %6.1f  GB/s best %6.1f median %6.1f\n", kernel.name,
                n, k, team.size(), rows, work / best, work / median, bytes / best, bytes / median);
  }
  std::fflush(stdout);
  for (void *p : packed)
    std::free(p);
  for (void *p : scratch)
    std::free(p);
}

} // namespace

int main(int argc, char **argv) {
  int threads = 2;
  double seconds = 0.1;
  long memoryMiB = 320;
  std::string rows = "1,64", shapes = "576x1536,2048x2048,4096x4096", part = "a16";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "-t")
      threads = std::atoi(value.c_str());
    else if (flag == "-r")
      rows = value;
    else if (flag == "-s")
      shapes = value;
    else if (flag == "-k")
      part = value;
    else if (flag == "-m")
      seconds = std::atof(value.c_str()) * 1e-3;
    else if (flag == "-w")
      memoryMiB = std::atol(value.c_str());
  }
  const size_t memoryBytes = size_t(memoryMiB) << 20;
  const unsigned char *memory = randomMemory(memoryBytes);
  Team team(threads);
  splitList(part, [&](const std::string &name) {
    for (const Kernel &kernel : kKernels)
      if (std::string(kernel.name).find(name) != std::string::npos)
        splitList(shapes, [&](const std::string &shape) {
          const size_t x = shape.find('x');
          splitList(rows, [&](const std::string &r) {
            measure(team, kernel, std::atol(shape.c_str()), std::atol(shape.c_str() + x + 1), std::atol(r.c_str()), memory,
                    memoryBytes, seconds);
          });
        });
  });
}
