// Where the kernel tests run a key: here, the emulator. test/gpu has the same function for a device.
#include "test/cuda/HostKernels.h"
#include "test/cuda/Support.h"

namespace ninfer::cuda {

std::string launch(const KernelText &text, emulator::Grid grid, Arguments &args, const emulator::Options &options) {
  for (const HostKernel &kernel : hostKernels()) {
    if (text.name != kernel.name)
      continue;
    if (args.pointers().size() != text.params.size())
      return text.name + ": " + std::to_string(args.pointers().size()) + " arguments, expected " +
             std::to_string(text.params.size());
    emulator::Launch launch;
    launch.kernel = kernel.thunk;
    launch.boundThreads = *kernel.threads;
    launch.grid = grid;
    launch.threads = text.threads;
    launch.sharedBytes = text.sharedBytes;
    launch.args = args.pointers();
    launch.buffers = args.buffers();
    return emulator::run(launch, options).message;
  }
  return text.name + ": not among the host kernels";
}

} // namespace ninfer::cuda
