// micro_bench_delta_<level> [-h HEADS] [-d DK] [-t TILE] [-r ROWS,ROWS..] [-m MILLISECONDS] [-M MIB]
// One gated DeltaNet layer of HEADS value heads of DK x DK on one thread, a tile of TILE state rows per call. One row:
// GB/s of state read and written, beside a copy of the same bytes; more rows: GFLOP/s of the recurrence (8 per state
// element and token: decay, S k, rank-one update, S q, each a multiply-add), beside the multiply-add peak. The states
// of MIB mebibytes of layers take turns: 128 come from memory, 1 stays in a cache. CPU time of the thread, as in Bench.cpp.
#include "codegen/cpu/kernels/MicroKernels.h"
#include "codegen/cpu/kernels/bench/Common.h"


#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <immintrin.h>

using namespace ninfer;

namespace {

/// Best and median seconds of one call of job(i), i = 0, 1, ...; a sample takes at least two milliseconds.
template <class F> std::pair<double, double> measure(double seconds, F job) {
  int64_t turn = 0, repeat = 1;
  for (double taken = 0; taken < 2e-3; repeat *= 2) {
    const double start = bench::cpuTime();
    for (int64_t i = 0; i < repeat; ++i)
      job(turn++);
    taken = bench::cpuTime() - start;
  }
  std::vector<double> times;
  for (const double begin = bench::cpuTime(); bench::cpuTime() - begin < seconds || times.size() < 5;) {
    const double start = bench::cpuTime();
    for (int64_t i = 0; i < repeat; ++i)
      job(turn++);
    times.push_back((bench::cpuTime() - start) / double(repeat));
  }
  std::sort(times.begin(), times.end());
  return {times[0], times[times.size() / 2]};
}

/// GFLOP/s of independent multiply-adds on registers of the level under test.
__attribute__((target("avx2,fma"))) double peak256(double seconds) {
  const auto run = [](int64_t) __attribute__((target("avx2,fma"))) {
    __m256 acc[10];
    for (__m256 &a : acc)
      a = _mm256_set1_ps(1.0f);
    const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
    for (int i = 0; i < 10000; ++i)
#pragma unroll
      for (__m256 &a : acc) {
        a = _mm256_fmadd_ps(a, x, y);
        asm volatile("" : "+x"(a));
      }
  };
  return 10.0 * 10000 * 16 * 1e-9 / measure(seconds, run).first;
}
__attribute__((target("avx512f"))) double peak512(double seconds) {
  const auto run = [](int64_t) __attribute__((target("avx512f"))) {
    __m512 acc[10];
    for (__m512 &a : acc)
      a = _mm512_set1_ps(1.0f);
    const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
    for (int i = 0; i < 10000; ++i)
#pragma unroll
      for (__m512 &a : acc) {
        a = _mm512_fmadd_ps(a, x, y);
        asm volatile("" : "+v"(a));
      }
  };
  return 10.0 * 10000 * 32 * 1e-9 / measure(seconds, run).first;
}

float *floats(size_t n, float scale) {
  auto *p = static_cast<float *>(std::aligned_alloc(64, (n * 4 + 63) / 64 * 64));
  for (size_t i = 0; i < n; ++i)
    p[i] = scale * float(int(i * 2654435761u % 1000) - 500) / 500.0f;
  return p;
}

} // namespace

int main(int argc, char **argv) {
  int64_t heads = 16, d = 128, tile = 128, mebibytes = 128;
  double seconds = 0.2;
  std::string rowList = "1,2,4,6,16,64,128,512";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "-h")
      heads = std::atol(value.c_str());
    else if (flag == "-d")
      d = std::atol(value.c_str());
    else if (flag == "-t")
      tile = std::atol(value.c_str());
    else if (flag == "-r")
      rowList = value;
    else if (flag == "-M")
      mebibytes = std::atol(value.c_str());
    else if (flag == "-m")
      seconds = std::atof(value.c_str()) * 1e-3;
  }
  bench::pin(0);
  const bool wide = std::string(NINFER_BENCH_LEVEL) != "v3";
  const double peak = wide ? peak512(seconds) : peak256(seconds);
  const size_t state = size_t(heads * d * d), layers = std::max<size_t>(1, (size_t(mebibytes) << 20) / (state * 4));
  float *states = floats(state * layers, 0.1f);
  void *scratch = std::aligned_alloc(64, size_t(microRoundUp(microGatedDeltaScratchBytes(d, false), 64)));
  for (const int64_t rows : bench::numbers(rowList)) {
    const size_t width = size_t(heads * d);
    float *q = floats(size_t(rows) * width, 1), *k = floats(size_t(rows) * width, 1), *v = floats(size_t(rows) * width, 1),
          *out = floats(size_t(rows) * width, 1), *a = floats(size_t(rows * heads), 1), *b = floats(size_t(rows * heads), 1);
    const float aLog = 0, dtBias = -4;
    const auto layer = [&](int64_t turn) {
      float *s = states + size_t(turn) % layers * state;
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t r = 0; r < d; r += tile)
          ni_gated_delta(q + h * d, k + h * d, int64_t(width), v + h * d + r, int64_t(width), a + h, b + h, heads, &aLog, &dtBias,
                         s + (h * d + r) * d, rows, d, std::min(tile, d - r), out + h * d + r, int64_t(width), scratch, 0);
    };
    const auto copy = [&](int64_t turn) { // half is read, half written: as many bytes as the layer moves
      float *s = states + size_t(turn) % layers * state;
      std::memcpy(s, states + (size_t(turn) + layers / 2) % layers * state, state * 4);
    };
    const auto [best, median] = measure(seconds, layer);
    std::printf("%s %ldx%ldx%ld tile %ld rows %-4ld us/token best %8.2f median %8.2f  ", NINFER_BENCH_LEVEL, heads, d, d, tile,
                rows, best / double(rows) * 1e6, median / double(rows) * 1e6);
    if (rows == 1) {
      const auto [copyBest, copyMedian] = measure(seconds, copy);
      const double bytes = double(state) * 8e-9;
      std::printf("GB/s best %5.1f median %5.1f  copy best %5.1f median %5.1f  ratio %.2f / %.2f\n", bytes / best,
                  bytes / median, bytes / copyBest, bytes / copyMedian, copyBest / best, copyMedian / median);
      for (size_t i = 0; i < state * layers; ++i) // the copies made all layers equal
        states[i] = 0.1f * float(int(i * 2654435761u % 1000) - 500) / 500.0f;
    } else {
      const double work = double(state) * double(rows) * 8e-9;
      std::printf("GFLOP/s best %6.1f median %6.1f  of peak %.1f: %.2f\n", work / best, work / median, peak, work / best / peak);
    }
    for (float *p : {q, k, v, out, a, b})
      std::free(p);
  }
}
