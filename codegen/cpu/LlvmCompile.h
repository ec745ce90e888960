// One LLVM module -> one relocatable object: micro-kernel bitcode linked in, optimised, emitted.
// Knows nothing of ninfer ops. Safe to call from several threads with a context each.
#ifndef NINFER_CODEGEN_CPU_LLVMCOMPILE_H
#define NINFER_CODEGEN_CPU_LLVMCOMPILE_H

#include "codegen/cpu/CpuCodegen.h"

#include "llvm/IR/Module.h"

#include <memory>
#include <span>

namespace llvm {
class TargetMachine;
}

namespace ninfer::cpu {

/// Registers LLVM's X86 backend; idempotent, thread-safe.
void initialiseX86();

/// LLVM's machine for a target, position-independent; NB0483 if this LLVM does not know its CPU name.
Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const CpuTarget &target);

/// Links the functions that `module` needs from `bitcode` (may be empty), hides everything but `exported`,
/// gives every function the target's CPU and features, runs O3 and emits an object.
/// Errors: NB0483 with what LLVM said, also for a crash inside LLVM or a call that nothing defines.
/// `optimised`, if given, receives the module text after O3.
Result<std::vector<char>> compileModule(llvm::Module &module, const CpuTarget &target,
                                        std::span<const char> bitcode,
                                        const std::vector<std::string> &exported,
                                        std::string *optimised);

} // namespace ninfer::cpu

#endif // NINFER_CODEGEN_CPU_LLVMCOMPILE_H
