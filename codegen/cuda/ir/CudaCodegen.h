// CUDA code generation: the `ninfer.kernel` ops of one module, and the packing of the weights they read -> machine code
// for one architecture. Owns records, compilation in parallel, the cache and the checks of the machine code.
#ifndef NINFER_CODEGEN_CUDA_IR_CUDACODEGEN_H
#define NINFER_CODEGEN_CUDA_IR_CUDACODEGEN_H

#include "codegen/common/ObjectCache.h"
#include "codegen/cuda/ir/Specialize.h"

#include <array>
#include <functional>
#include <map>

namespace ninfer::cuda {

class Nvrtc;

struct CodegenOptions {
  std::string dumpDir;  ///< empty: none; otherwise <kernel>.cu of every kernel go there
  unsigned threads = 1; ///< kernels compiled at the same time
  CachePlace cache; ///< empty: none; otherwise cubins are kept there by content hash
  /// Called after each kernel, from one thread at a time.
  std::function<void(size_t done, size_t total, std::string_view kernel)> progress;
};

/// Machine code of one text.
struct Cubin {
  KernelText text;
  std::vector<uint8_t> bytes;
  uint32_t registers = 0;
  std::array<uint8_t, 32> sourceDigest{}; ///< of text, headers and options
};

struct CudaObject {
  Device device{};                        ///< what the choices were made for
  uint32_t minDriver = 0;                 ///< 13000: CUDA 13.0
  std::vector<Cubin> cubins;              ///< one per text, sorted by name
  std::vector<SpecializedKernel> kernels; ///< in the order of the module
  std::map<ni::Format, std::string> pack; ///< name of the text that packs a format
  size_t cacheHits = 0;

  /// Index into `cubins` of a text's name.
  size_t cubinOf(const std::string &name) const;
};

/// Compiles every `ninfer.kernel` of `module`, which is not changed. Same input, same bytes. Errors: NB0485 no NVRTC,
/// NB0486 and NB0487 compilation, NB0488 and NB0489 the machine code breaks a rule, NB0491 no record, NB0906 and NB0907
/// files.
Result<CudaObject> compileKernels(mlir::ModuleOp module, const Device &device, const CodegenOptions &options);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_IR_CUDACODEGEN_H
