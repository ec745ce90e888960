// What the micro-kernel tests share: a generator of numbers, buffers that end at an unmapped page, and outputs that
// show whether all of them and nothing else was written. Shares no code with the kernels.
#ifndef NINFER_TEST_UNIT_MICRO_KERNELS_SUPPORT_H
#define NINFER_TEST_UNIT_MICRO_KERNELS_SUPPORT_H

#include "codegen/cpu/kernels/MicroKernels.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

namespace ninfer::test {

bool hostRunsLevel();
const char *levelName();

#define NINFER_NEEDS_LEVEL()                                                                                           \
  if (!hostRunsLevel())                                                                                                \
  GTEST_SKIP() << "this machine lacks instructions of level " << levelName()

inline constexpr double kUnit = 0x1p-24; ///< rounding error of float32, relative

/// Splitmix64: the same numbers everywhere.
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  /// Roughly normal, with an outlier now and then.
  float value() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += uniform();
    return float(below(100) == 0 ? sum * 20 : sum);
  }
};

/// Bytes that end exactly where an unmapped page begins: reading past them crashes.
class Guarded {
public:
  explicit Guarded(size_t bytes) : bytes_(bytes) {
    mapped_ = (bytes + 4095) / 4096 * 4096 + 4096;
    void *p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(p, MAP_FAILED);
    base_ = static_cast<std::byte *>(p);
    EXPECT_EQ(mprotect(base_ + mapped_ - 4096, 4096, PROT_NONE), 0);
  }
  Guarded(Guarded &&o) noexcept : base_(o.base_), mapped_(o.mapped_), bytes_(o.bytes_) { o.base_ = nullptr; }
  Guarded &operator=(Guarded &&) = delete;
  ~Guarded() {
    if (base_)
      munmap(base_, mapped_);
  }
  template <class T> T *as() { return reinterpret_cast<T *>(base_ + mapped_ - 4096 - bytes_); }
  size_t bytes() const { return bytes_; }

private:
  std::byte *base_ = nullptr;
  size_t mapped_ = 0, bytes_ = 0;
};

inline Guarded guardedFloats(const std::vector<float> &values) {
  Guarded g(values.size() * 4);
  std::memcpy(g.as<float>(), values.data(), values.size() * 4);
  return g;
}

/// 64-byte aligned working memory, full of NaN.
class Working {
public:
  explicit Working(size_t bytes) : words_(bytes / 4 + 32, std::bit_cast<float>(0x7fc0dead)) {}
  void *data() {
    const auto p = reinterpret_cast<uintptr_t>(words_.data());
    return reinterpret_cast<void *>((p + 63) / 64 * 64);
  }

private:
  std::vector<float> words_;
};

inline constexpr uint32_t kUntouched = 0x7fc0beef; ///< a NaN no computation makes

inline std::vector<float> untouched(size_t n) { return std::vector<float>(n, std::bit_cast<float>(kUntouched)); }
inline bool isUntouched(float f) { return std::bit_cast<uint32_t>(f) == kUntouched; }

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_MICRO_KERNELS_SUPPORT_H
