// Calls compiled kernels in this process with made-up arguments, as a team of threads would: for timing, not for results.
#ifndef NINFER_CODEGEN_CPU_KERNELRUN_H
#define NINFER_CODEGEN_CPU_KERNELRUN_H

#include "codegen/cpu/CpuCodegen.h"
#include "dialects/ninfer/NinferDialect.h"
#include "runtime/abi/kernel_abi.h"

#include <memory>

namespace ninfer::cpu {

class KernelRun {
public:
  /// The kernels of `object` must all take the arguments of `kernel`: weights and activations. Weights are read from copies
  /// in 128 MiB or more of ordinary pages in turn, more than caches hold. NB0543 when something of that is not so, or
  /// memory is short. The machine must be one that runs the object.
  static Result<KernelRun> load(KernelOp kernel, const CpuObject &object, unsigned threads);
  KernelRun(KernelRun &&) noexcept;
  ~KernelRun();

  /// Bytes of one copy of all weights, each rounded up to pages.
  size_t weightBytes() const;
  /// All tiles of kernel number `kernel` of the object, for the most rows it takes, on the next copy of the weights.
  void call(size_t kernel);

private:
  struct Impl;
  explicit KernelRun(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace ninfer::cpu

#endif // NINFER_CODEGEN_CPU_KERNELRUN_H
