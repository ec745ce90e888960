// micro_bench_attention_<level> [-k KV_HEADS] [-g GROUP] [-d DIM] [-r ROWS,ROWS..] [-l LENGTH,LENGTH..] [-c bf16|f32|int8]
//                               [-m MILLISECONDS] [-M MIB] [-H 0|1]
// One attention layer of KV_HEADS heads, each shared by GROUP query heads, on one thread: every KV head in one call of
// ROWS positions, the first of which attends LENGTH positions. Prints GB/s of keys and values (scales included) read once
// per call, and GFLOP/s (4 per channel, position and query). The caches of MIB mebibytes of layers take turns: 256
// come from memory, 1 stays in a cache. Small pages, as in the runtime, or with -H 1 huge ones. CPU time of the thread, as in Bench.cpp.
#include "codegen/cpu/kernels/MicroKernels.h"
#include "codegen/cpu/kernels/bench/Common.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace ninfer;

namespace {

/// Small pages, words of either 16-bit format, or float32, that are finite and not all equal.
char *words(size_t bytes, bool int8, bool huge) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    std::exit(1);
  (void)madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  auto *w = static_cast<uint16_t *>(memory);
  for (size_t i = 0; i < bytes / 2; ++i)
    w[i] = uint16_t(int8 ? i * 40503u : 0x3c00 + (i * 2654435761u >> 7) % 0x200 + (i % 3 == 0 ? 0x8000 : 0));
  return static_cast<char *>(memory);
}

std::vector<float> floats(size_t n) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i)
    out[i] = float(int(i * 2654435761u % 1000) - 500) / 500.0f;
  return out;
}

} // namespace

int main(int argc, char **argv) {
  int64_t kvHeads = 8, group = 2, dim = 128, mebibytes = 256;
  double seconds = 0.5;
  bool huge = false;
  std::string rowList = "1,4,16", lengthList = "128,1024,4000", codec = "bf16";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "-k")
      kvHeads = std::atol(value.c_str());
    else if (flag == "-g")
      group = std::atol(value.c_str());
    else if (flag == "-d")
      dim = std::atol(value.c_str());
    else if (flag == "-r")
      rowList = value;
    else if (flag == "-l")
      lengthList = value;
    else if (flag == "-c")
      codec = value;
    else if (flag == "-m")
      seconds = std::atof(value.c_str()) * 1e-3;
    else if (flag == "-H")
      huge = value != "0";
    else if (flag == "-M")
      mebibytes = std::atol(value.c_str());
  }
  bench::pin(0);

  const bool int8 = codec == "int8";
  const size_t width = codec == "f32" ? 4 : int8 ? 1 : 2, groups = size_t(dim + 63) / 64;
  void *scratch = std::aligned_alloc(64, size_t(microRoundUp(microAttentionScratchBytes(dim), 64)));
  for (const int64_t rows : bench::numbers(rowList))
    for (const int64_t length : bench::numbers(lengthList)) {
      const int64_t capacity = length + rows;
      const size_t rowBytes = size_t(dim) * width, headBytes = size_t(capacity) * rowBytes, headScales = int8 ? size_t(capacity) * groups * 2 : 0;
      const size_t plane = (size_t(kvHeads) * (headBytes + headScales) + 63) / 64 * 64;
      const size_t layers = std::max<size_t>(1, (size_t(mebibytes) << 20) / (2 * plane));
      char *cache = words(layers * 2 * plane, int8, huge);
      if (int8)
        for (size_t p = 0; p < layers * 2; ++p)
          std::fill_n(reinterpret_cast<uint16_t *>(cache + p * plane + size_t(kvHeads) * headBytes), size_t(kvHeads) * headScales / 2, 0x2000);
      const int64_t stride = kvHeads * group * dim;
      std::vector<float> q = floats(size_t(rows * stride)), out(q.size());
      const auto layer = [&](size_t turn) {
        const char *keys = cache + turn % layers * 2 * plane, *values = keys + plane;
        for (int64_t h = 0; h < kvHeads; ++h) {
          const char *k = keys + size_t(h) * headBytes, *v = values + size_t(h) * headBytes;
          const float *query = q.data() + h * group * dim;
          float *result = out.data() + h * group * dim;
          if (int8) {
            const size_t scales = size_t(kvHeads) * headBytes + size_t(h) * headScales;
            ni_attention_int8(query, stride, rows, group, k, keys + scales, v, values + scales, length, dim, 0.09f, result, stride, scratch);
          } else {
            (codec == "f32" ? ni_attention_f32 : ni_attention_bf16)(query, stride, rows, group, k, v, length, dim, 0.09f, result, stride,
                                                                    scratch);
          }
        }
      };
      std::vector<double> times;
      for (size_t turn = 0; turn < 5; ++turn)
        layer(turn);
      size_t turn = 0;
      for (const double begin = bench::cpuTime(); bench::cpuTime() - begin < seconds || times.size() < 5;) {
        const double start = bench::cpuTime();
        const int64_t repeat = std::max<int64_t>(1, 4096 / length);
        for (int64_t i = 0; i < repeat; ++i)
          layer(turn++);
        times.push_back((bench::cpuTime() - start) / double(repeat));
      }
      std::sort(times.begin(), times.end());
      const double median = times[times.size() / 2];
      const double bytes = 2e-9 * double(kvHeads) * double(length + rows - 1) * double(rowBytes + (int8 ? groups * 2 : 0));
      const double work = 4e-9 * double(kvHeads * group * dim) * double(rows) * (double(length) + double(rows - 1) / 2);
      std::printf("%s %s %ld heads x %ld, dim %ld, rows %-3ld length %-6ld us best %9.1f median %9.1f  GB/s best %5.1f median %5.1f  GFLOP/s median %6.1f\n",
                  NINFER_BENCH_LEVEL, codec.c_str(), kvHeads, group, dim, rows, length, times[0] * 1e6, median * 1e6, bytes / times[0],
                  bytes / median, work / median);
      munmap(cache, layers * 2 * plane);
    }
  std::free(scratch);
}
