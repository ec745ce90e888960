// Emits the body of one kernel function: `llvm.func` with arith and scf inside, the ABI of
// runtime/abi/kernel_abi.h. Knows pointers, loops, scratch and calls; which calls make up an
// operation is in the Lower*.cpp files.
#ifndef NINFER_CODEGEN_CPU_KERNELBUILDER_H
#define NINFER_CODEGEN_CPU_KERNELBUILDER_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <map>
#include <string>

namespace ninfer::cpu {

/// All sizes and indices are i64 values; pointers are opaque; pointer arithmetic is in bytes.
class KernelBuilder {
public:
  /// Creates an empty module with the function `symbol`. Locations are those of the kernel.
  KernelBuilder(mlir::MLIRContext *context, mlir::Location loc, llvm::StringRef symbol);

  mlir::Value tileBegin() { return function_.getArgument(2); }
  mlir::Value tileEnd() { return function_.getArgument(3); }
  /// scalars[index], loaded on entry (NINFER_SCALAR_*).
  mlir::Value scalar(int64_t index);
  /// args[index], loaded on entry.
  mlir::Value argument(int64_t index);

  /// Reserves `bytes` of the thread's scratch, 64-byte aligned.
  mlir::Value scratch(uint64_t bytes);
  uint64_t scratchBytes() const { return scratchBytes_; }

  mlir::Value constant(int64_t value);
  mlir::Value f32(double value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, int64_t b); ///< of non-negative values
  mlir::Value rem(mlir::Value a, int64_t b); ///< of non-negative values
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, mlir::Value b); ///< i1
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value nullPointer();

  /// base + bytes.
  mlir::Value offset(mlir::Value base, mlir::Value bytes);
  mlir::Value offset(mlir::Value base, int64_t bytes);
  /// float32 element `index` of `base`.
  mlir::Value floatAt(mlir::Value base, mlir::Value index) { return offset(base, mul(index, 4)); }
  mlir::Value load(mlir::Type type, mlir::Value pointer);
  /// The int32 at `pointer` as an index.
  mlir::Value loadIndex(mlir::Value pointer);
  void store(mlir::Value value, mlir::Value pointer);

  mlir::Value addFloat(mlir::Value a, mlir::Value b);
  /// An exact float32 integer as an index.
  mlir::Value toInteger(mlir::Value value);

  /// for (i = begin; i < end; i += step) body(i).
  void loop(mlir::Value begin, mlir::Value end, mlir::Value step, llvm::function_ref<void(mlir::Value)> body);
  void loop(mlir::Value begin, mlir::Value end, int64_t step, llvm::function_ref<void(mlir::Value)> body) {
    loop(begin, end, constant(step), body);
  }
  /// if (a < b) then() else otherwise().
  void ifLess(mlir::Value a, mlir::Value b, llvm::function_ref<void()> then,
              llvm::function_ref<void()> otherwise = nullptr);

  /// Calls a micro-kernel that returns nothing; its declaration follows from the operands.
  void call(llvm::StringRef name, mlir::ValueRange operands);

  /// Calls an internal function that stays one copy however often it is called, since micro-kernels
  /// are inlined wherever they are called. The first use of `name` defines it: `body` emits it from
  /// its parameters, which have the types of `operands`. Names start with '$', which no kernel's
  /// symbol holds.
  void callShared(llvm::StringRef name, mlir::ValueRange operands,
                  llvm::function_ref<void(mlir::ValueRange)> body);

  /// Calls a micro-kernel that is compiled once for all kernels of the object, its sizes not constants: for large ones
  /// that gain nothing from being specialised. The code is at outlinedSymbol(name).
  void callOutlined(llvm::StringRef name, mlir::ValueRange operands);
  /// The micro-kernels of callOutlined and their types, by name.
  using Outlined = std::map<std::string, mlir::LLVM::LLVMFunctionType>;
  Outlined takeOutlined() { return std::move(outlined_); }

  mlir::Type f32Type() { return builder_.getF32Type(); }
  mlir::Type i32Type() { return builder_.getI32Type(); }

  mlir::ModuleOp module() { return *module_; }
  /// Closes the function and hands over the module.
  mlir::OwningOpRef<mlir::ModuleOp> finish();

private:
  mlir::LLVM::LLVMFunctionType functionType(mlir::ValueRange operands);
  mlir::Value onEntry(llvm::function_ref<mlir::Value()> make);

  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::OpBuilder builder_;
  mlir::Location loc_;
  mlir::LLVM::LLVMFuncOp function_;
  /// Values made at the head of the function being filled.
  struct HeadValues {
    mlir::Block *block = nullptr;
    mlir::Operation *last =
        nullptr; ///< what they are made after, so that each may use the earlier ones
    llvm::DenseMap<int64_t, mlir::Value> constants, arguments, scalars;
  };
  HeadValues head_;
  uint64_t scratchBytes_ = 0;
  Outlined outlined_;
};

/// Symbol of an outlined micro-kernel: starts with '$', which no kernel's symbol holds.
std::string outlinedSymbol(llvm::StringRef microKernel);
/// Whether a symbol is one, of this object or another of the link.
inline bool isOutlined(llvm::StringRef symbol) { return symbol.starts_with("$ni_"); }

/// A module that defines outlinedSymbol(microKernel) as one call of the micro-kernel.
mlir::OwningOpRef<mlir::ModuleOp> outlinedModule(mlir::MLIRContext *context, llvm::StringRef microKernel,
                                                 mlir::LLVM::LLVMFunctionType type);

} // namespace ninfer::cpu

#endif // NINFER_CODEGEN_CPU_KERNELBUILDER_H
