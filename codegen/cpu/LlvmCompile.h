// One LLVM module -> one relocatable object: micro-kernel bitcode linked in, optimised, emitted.
// Knows nothing of ninfer ops. Safe to call from several threads with a context each.
#ifndef NINFER_CODEGEN_CPU_LLVMCOMPILE_H
#define NINFER_CODEGEN_CPU_LLVMCOMPILE_H

#include "codegen/cpu/CpuCodegen.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <memory>
#include <string_view>

namespace llvm {
class TargetMachine;
}

namespace ninfer::cpu {

/// Registers LLVM's X86 and AArch64 backends; idempotent, thread-safe.
void initialiseBackends();

/// LLVM's machine for a target, position-independent; NB0483 if this LLVM does not know its CPU
/// name.
Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const CpuTarget &target);

/// Part of every cache key: grows when compileModule changes what it emits for the same input.
inline constexpr int kPipelineVersion = 2;

/// A module with a context of its own, so that units can be compiled at the same time.
struct LlvmUnit {
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module; // declared last: destroyed before its context
};

/// Links the functions that the module needs from `bitcode` (may be empty), hides everything but
/// `exported` and outlined micro-kernels (KernelBuilder.h, which may be undefined here), gives every function the target's CPU and features, runs O3 and emits an object.
/// Errors: NB0483 with what LLVM said, also for an abort inside LLVM (the unit is then given up,
/// its memory stays allocated) and for a call that nothing defines. `optimised`, if given, receives
/// the module text after O3.
Result<std::vector<char>> compileModule(LlvmUnit &unit, const CpuTarget &target,
                                        std::string_view bitcode,
                                        const std::vector<std::string> &exported,
                                        std::string *optimised);

} // namespace ninfer::cpu

#endif // NINFER_CODEGEN_CPU_LLVMCOMPILE_H
