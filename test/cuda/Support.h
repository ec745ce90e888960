// What the kernel tests share: emulated launches in every order, random data, derived bounds.
#ifndef NINFER_TEST_CUDA_SUPPORT_H
#define NINFER_TEST_CUDA_SUPPORT_H

#include "codegen/cuda/KernelText.h"
#include "test/emulator/Emulator.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace ninfer::cuda {

/// A device array: 256-byte aligned as cuMemAlloc gives it, filled with 0xff (NaN) until written.
class Array {
public:
  Array() = default;
  explicit Array(size_t bytes, bool writable = false, const char *name = "array")
      : storage_(bytes + 256, 0xff), bytes_(bytes), writable_(writable), name_(name) {}
  template <typename T>
  Array(const std::vector<T> &values, const char *name, bool writable = false)
      : Array(values.size() * sizeof(T), writable, name) {
    if (!values.empty())
      std::memcpy(data(), values.data(), bytes_);
  }
  uint8_t *data() { return storage_.data() + (256 - reinterpret_cast<uintptr_t>(storage_.data()) % 256) % 256; }
  template <typename T>
  T *as() {
    return reinterpret_cast<T *>(data());
  }
  size_t bytes() const { return bytes_; }
  void poison() { std::memset(data(), 0xff, bytes_); }
  emulator::Buffer buffer() { return {data(), bytes_, writable_, name_}; }

private:
  std::vector<uint8_t> storage_;
  size_t bytes_ = 0;
  bool writable_ = false;
  const char *name_ = "";
};

/// Arguments of one launch, in order, with the memory they may touch.
class Arguments {
public:
  Arguments &pointer(Array &array) {
    buffers_.push_back(array.buffer());
    return word(reinterpret_cast<uint64_t>(array.data()));
  }
  Arguments &null() { return word(0); }
  Arguments &u32(uint32_t v) { return word(v); }
  Arguments &f32(float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    return word(bits);
  }
  std::vector<void *> pointers() {
    std::vector<void *> p;
    for (uint64_t &w : words_)
      p.push_back(&w);
    return p;
  }
  const std::vector<emulator::Buffer> &buffers() const { return buffers_; }

private:
  Arguments &word(uint64_t v) {
    words_.push_back(v);
    return *this;
  }
  std::vector<uint64_t> words_;
  std::vector<emulator::Buffer> buffers_;
};

/// Runs a key by name: in the emulator (EmulatedLaunch.cpp) or on a device (test/gpu/DeviceLaunch.cpp), whichever the
/// program links. The message is empty when no rule was broken; a device takes no notice of `options`.
std::string launch(const KernelText &text, emulator::Grid grid, Arguments &args, const emulator::Options &options = {});

/// The modes every key runs in: three orders, copies lazy and eager.
std::vector<emulator::Options> allModes();
/// The three orders, for kernels without asynchronous copies.
std::vector<emulator::Options> threadOrders();
std::string describe(const emulator::Options &options);

inline float bf16(uint16_t word) {
  const uint32_t bits = uint32_t(word) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
/// Nearest bfloat16, ties to even, of a finite number; rounds once.
uint16_t toBf16(double value);
/// `count` bfloat16 words, normally distributed with deviation `sigma`.
std::vector<uint16_t> randomBf16(size_t count, double sigma, std::mt19937_64 &random);

constexpr double kBf16Unit = 0x1p-8; ///< half a step of bfloat16, relative (8 significant bits)
constexpr double kFloatUnit = 0x1p-24;

/// A value that a kernel computes, and how far it may be from it before rounding to the output type.
struct Expected {
  double value = 0;
  double slack = 0;
};
/// Compares bfloat16 or float output; the message names the first element outside its bound, or NaN.
std::string compareBf16(const std::vector<Expected> &expected, const uint16_t *actual);
std::string compareFloat(const std::vector<Expected> &expected, const float *actual);

} // namespace ninfer::cuda

#endif // NINFER_TEST_CUDA_SUPPORT_H
