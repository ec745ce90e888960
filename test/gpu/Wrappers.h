// The wrappers of the kernels, one by one: a device beside the emulator, or beside the exact function where an instruction
// is only promised to be near it.
#ifndef NINFER_TEST_GPU_WRAPPERS_H
#define NINFER_TEST_GPU_WRAPPERS_H

#include "test/emulator/Emulator.h"

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace ninfer::gpucheck {

struct WrapperCase {
  std::string kernel;
  emulator::Grid grid;
  uint32_t threads = 0, sharedBytes = 0;
  uint32_t count = 0; ///< third argument
  std::vector<uint32_t> in;
  uint32_t outWords = 0;
  /// Compares what came out; the message names the first difference. `emulated` is what the emulator wrote; `worst` gets the
  /// largest error as a part of its bound, where there is a bound.
  std::function<std::string(const std::vector<uint32_t> &in, const std::vector<uint32_t> &emulated,
                            const std::vector<uint32_t> &got, double &worst)>
      compare;
  void (*thunk)(void **) = nullptr; ///< the kernel as host code
};

/// `size` 1: a few thousand values per wrapper, for a slow driver; 16 and more for a device.
std::vector<WrapperCase> wrapperCases(uint32_t size, uint64_t seed);

/// What the emulator writes; the message is empty unless a rule was broken.
std::string emulate(const WrapperCase &c, std::vector<uint32_t> &out);

} // namespace ninfer::gpucheck

#endif // NINFER_TEST_GPU_WRAPPERS_H
