// NVRTC, NVIDIA's run-time compiler, loaded with dlopen: ninfer links no CUDA library and needs no toolkit, only
// libnvrtc.so and libnvrtc-builtins.so. A loaded compiler may be used from many threads at once.
#ifndef NINFER_CODEGEN_CUDA_NVRTC_H
#define NINFER_CODEGEN_CUDA_NVRTC_H

#include "codegen/cuda/KernelText.h"
#include "support/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ninfer::cuda {

struct CompiledKernel {
  std::vector<uint8_t> cubin; ///< ELF for the one architecture asked for
  std::string log;            ///< warnings; empty when there are none
};

class Nvrtc {
public:
  /// Loads `path`, or without one the first of: $NINFER_NVRTC, libnvrtc.so.13 and .12 of the loader's path,
  /// /usr/local/cuda/lib64. Fails with NB0485, which says where to get it.
  static Result<Nvrtc> load(const std::string &path = "");
  Nvrtc(Nvrtc &&) noexcept;
  Nvrtc &operator=(Nvrtc &&) noexcept;
  ~Nvrtc();

  const std::string &path() const;
  uint32_t major() const;
  uint32_t minor() const;
  /// Architectures it compiles for, ascending: 75, 80, ...
  const std::vector<uint32_t> &architectures() const;

  /// Machine code for sm_<sm>. NB0486: this NVRTC does not know the architecture; NB0487: the text does not compile (the
  /// notes hold the log, and the whole translation unit is in `failureFolder`/<name>.cu unless that is empty).
  /// Deterministic: the same text, architecture and NVRTC version give the same bytes.
  Result<CompiledKernel> compile(const KernelText &kernel, uint32_t sm, const std::string &failureFolder = "") const;
  /// The same for a text of any origin; `name` is the file name in messages.
  Result<CompiledKernel> compileText(const std::string &name, const std::string &text, uint32_t sm,
                                     const std::string &failureFolder = "") const;
  /// Options passed to the compiler, part of a cache key.
  static std::vector<std::string> options(uint32_t sm);

private:
  struct Impl;
  explicit Nvrtc(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_NVRTC_H
