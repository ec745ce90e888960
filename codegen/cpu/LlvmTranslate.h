// Module of llvm, arith and scf ops -> LLVM IR.
#ifndef NINFER_CODEGEN_CPU_LLVMTRANSLATE_H
#define NINFER_CODEGEN_CPU_LLVMTRANSLATE_H

#include "mlir/IR/BuiltinOps.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <memory>

namespace ninfer::cpu {

/// Registers and loads the dialects and translations that lowering needs. Not inside a pass.
void loadLoweringDialects(mlir::MLIRContext &context);

/// Lowers `module` in place to the llvm dialect. Errors are diagnostics.
mlir::LogicalResult lowerToLlvmDialect(mlir::ModuleOp module);

/// LLVM IR of an llvm-dialect module; null with diagnostics on failure.
std::unique_ptr<llvm::Module> translateToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context,
                                              llvm::StringRef name);

} // namespace ninfer::cpu

#endif // NINFER_CODEGEN_CPU_LLVMTRANSLATE_H
