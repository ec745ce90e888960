// CPU code generation: the `ninfer.kernel` ops of one module -> one position-independent ELF shared
// object for one named CPU level. Owns the choice of LLVM CPU and features, the lowering, the link
// with the micro-kernel bitcode, optimisation, object emission and the ELF link; decides no family
// and no profile: those are attributes of the kernels, and what this folder does not implement is
// refused by name.
#ifndef NINFER_CODEGEN_CPU_CPUCODEGEN_H
#define NINFER_CODEGEN_CPU_CPUCODEGEN_H

#include "codegen/common/ObjectCache.h"
#include "codegen/cpu/Tuning.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Status.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Instruction-set level of the micro-kernels. A level of x86-64 includes the ones before it.
enum class CpuLevel : uint8_t {
  V3,      ///< AVX2, FMA, F16C, BMI2
  V4,      ///< + AVX-512 F, BW, CD, DQ, VL
  V4Vnni,  ///< + AVX-512 VNNI
  Aarch64, ///< armv8.2-a with dotprod: another architecture
};

enum class CpuArchitecture : uint8_t { X86_64, Aarch64 };
constexpr CpuArchitecture architectureOf(CpuLevel level) {
  return level == CpuLevel::Aarch64 ? CpuArchitecture::Aarch64 : CpuArchitecture::X86_64;
}

/// "v3", "v4", "v4vnni", "aarch64".
std::string_view cpuLevelName(CpuLevel level);

/// A CPU the machine code is made for.
struct CpuTarget {
  std::string name; ///< "x86-64-v3", "x86-64-v4", "znver4" or "aarch64"; "native" resolves to one of the x86 ones
  CpuLevel level = CpuLevel::V3;
  std::string llvmCpu;        ///< LLVM's -mcpu: fixes the instructions that may be emitted
  std::string llvmFeatures;   ///< LLVM's -mattr on top of it, e.g. "+avx512vnni"
  std::string llvmTune;       ///< LLVM's -mtune: scheduling only
  unsigned vectorWidth = 256; ///< preferred vector width, bits
  /// What the loader must find on the machine, in LLVM's spelling: sse3 ssse3 sse4.1 sse4.2 popcnt
  /// cx16 sahf movbe avx avx2 fma f16c bmi bmi2 lzcnt, then avx512f avx512bw avx512cd avx512dq
  /// avx512vl, then avx512vnni. aarch64: fp-armv8 neon crc lse rdm dotprod.
  std::vector<std::string> features;
};

/// Accepts "x86-64-v3", "x86-64-v4", "znver4" (level V4Vnni), "aarch64" and "native" (best level of
/// this host, which must be an x86-64 one). Errors: NB0480 unknown name; NB0481 native host below x86-64-v3, naming the missing
/// features.
Result<CpuTarget> resolveCpuTarget(std::string_view name);

/// As "native", for a host with the given LLVM feature names (separate so that tests need no such
/// host).
Result<CpuTarget> bestCpuTarget(const std::vector<std::string> &hostFeatures);

struct CpuCodegenOptions {
  std::string
      dumpDir; ///< empty: none; otherwise <kernel>.mlir, .ll, .opt.ll of every kernel go there
  unsigned threads = 1; ///< kernels optimised and emitted at the same time
  CachePlace cache; ///< empty: none; otherwise objects are kept there by content hash
  std::map<std::string, CpuTuning> tuning; ///< by kernel name; the default for the others
  /// Called after each kernel, from one thread at a time, with the number done so far and the
  /// total.
  std::function<void(size_t done, size_t total, std::string_view kernel)> progress;
};

/// One entry point of the ELF, with the ABI of runtime/abi/kernel_abi.h.
struct CpuKernel {
  std::string name;          ///< symbol name of the ninfer.kernel
  std::string symbol;        ///< ELF symbol
  uint64_t scratchBytes = 0; ///< per thread, a multiple of 64
};

struct CpuObject {
  std::vector<char> elf;          ///< no relocations, no NEEDED; same input, same bytes
  std::vector<CpuKernel> kernels; ///< in the order of the kernels in the module
  size_t cacheHits = 0;           ///< objects taken from the cache
};

/// Compiles every `ninfer.kernel` of `module`, which is not changed. Its context gets the LLVM,
/// arith, scf and cf dialects loaded. Errors name the kernel: NB0482 not implemented (family,
/// profile, format, shape), NB0483 lowering or code generation failed, NB0484 ELF link failed or
/// the ELF breaks a rule, NB0906 and NB0907 files.
Result<CpuObject> compileKernels(mlir::ModuleOp module, const CpuTarget &target,
                                 const CpuCodegenOptions &options);

} // namespace ninfer

#endif // NINFER_CODEGEN_CPU_CPUCODEGEN_H
