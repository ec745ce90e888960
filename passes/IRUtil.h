// Small questions every pass asks of the IR: phases, which operations become kernels, location
// names.
#ifndef NINFER_PASSES_IRUTIL_H
#define NINFER_PASSES_IRUTIL_H

#include "codegen/common/Signature.h"
#include "dialects/ninfer/NinferDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>

namespace ninfer {

// Attributes of these passes beside those the dialect names.
/// Of an admitted operation and its kernel: output rows per tile of a CPU linear kernel.
inline constexpr llvm::StringLiteral kGranule = "ninfer.granule";
/// Of an admitted operation and its launch: the request that admission answered, as text.
inline constexpr llvm::StringLiteral kSignature = "ninfer.signature";
/// Of a ninfer.state: its size in bytes.
inline constexpr llvm::StringLiteral kStateBytes = "ninfer.bytes";

/// Phase and largest row count of a function.
struct PhaseInfo {
  KernelPhase phase = KernelPhase::Decode;
  int64_t maxRows = 1;
};

/// Functions with `ninfer.component`, in module order.
llvm::SmallVector<mlir::func::FuncOp> componentFunctions(mlir::ModuleOp module);

/// Reads `ninfer.phase` and `ninfer.max_rows`; a missing or unknown one is an error on the function
/// that names the pass to run first.
mlir::FailureOr<PhaseInfo> phaseOf(mlir::func::FuncOp function);

/// The only block of a component function; an error on the function if there are more or none.
mlir::FailureOr<mlir::Block *> bodyOf(mlir::func::FuncOp function);

/// True for an operation that becomes one kernel: a fused group or a single operation of the
/// dialect that computes, directly in a function.
bool becomesKernel(mlir::Operation *op);

/// The name of the location, "text/layers/3/attention"; empty when it has none.
std::string pathOf(mlir::Location loc);

/// A location for a group: named by the longest common path of the operations.
mlir::Location groupLocation(llvm::ArrayRef<mlir::Operation *> ops);

/// Integer module attribute of at least 1, or an error on the module naming it.
mlir::FailureOr<int64_t> positiveModuleAttr(mlir::ModuleOp module, llvm::StringRef name);

/// Diagnostic on a function without the whole module or function printed after it.
mlir::InFlightDiagnostic emitFunctionError(mlir::func::FuncOp function);

} // namespace ninfer

#endif // NINFER_PASSES_IRUTIL_H
