// Runs a CUDA kernel that was compiled as host C++ (through ni_host.h): every CUDA thread is a fiber, warp collectives
// are exact (PTX fragment layouts), and each access is checked. What is checked, and which fault it finds: README.md.
#ifndef NINFER_TEST_EMULATOR_EMULATOR_H
#define NINFER_TEST_EMULATOR_EMULATOR_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ninfer::emulator {

/// In which order warps and lanes get their turn between two synchronisations.
enum class Order { Forward, Reverse, Random };
/// When the bytes of an asynchronous copy arrive: at the wait that covers it, or at once.
enum class Copies { Lazy, Eager };

struct Options {
  Order order = Order::Forward;
  Copies copies = Copies::Lazy;
  uint64_t seed = 1;          ///< Order::Random
  bool races = true;          ///< report unordered conflicting accesses
  uint32_t residentBlocks = 2; ///< thread blocks in flight together
};

/// Global memory a launch may touch. Everything else is out of bounds.
struct Buffer {
  const void *data = nullptr;
  size_t bytes = 0;
  bool writable = false;
  const char *name = "";
};

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

struct Launch {
  void (*kernel)(void **args) = nullptr; ///< `<kernel>_thunk`
  uint32_t boundThreads = 0;             ///< `<kernel>_threads`: more per block is refused
  Grid grid;
  uint32_t threads = 32;     ///< per block, a multiple of 32
  uint32_t sharedBytes = 0;  ///< dynamic shared memory
  std::vector<void *> args;  ///< one pointer per kernel parameter
  std::vector<Buffer> buffers;
};

/// What happened. `message` is empty when nothing was wrong; else the rule, the source line, block and thread.
struct Outcome {
  std::string message;
  uint64_t collectives = 0; ///< warp-wide operations executed
  bool ok() const { return message.empty(); }
};

/// Runs all blocks on the calling thread. Shared memory starts as bytes 0xff (NaN in every float format). After a
/// failure the launch stops; memory keeps what was written.
Outcome run(const Launch &launch, const Options &options = {});

} // namespace ninfer::emulator

#endif // NINFER_TEST_EMULATOR_EMULATOR_H
