// The MLIR half of a build, with its diagnostics turned into Status. Internal.
#ifndef NINFER_COMPILER_LOWERING_H
#define NINFER_COMPILER_LOWERING_H

#include "compiler/Compiler.h"
#include "compiler/Targets.h"
#include "models/ModelSpec.h"
#include "models/graph/GraphBuilder.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace ninfer {

/// Dialects loaded, threads off (module passes have no use for them), diagnostics not printed.
void prepareContext(mlir::MLIRContext &context);

/// The graph of the model, verified. NB0410.
Result<mlir::OwningOpRef<mlir::ModuleOp>> lowerToGraph(mlir::MLIRContext &context,
                                                       const ModelSpec &spec,
                                                       const Directory &directory,
                                                       const GraphOptions &options);

/// Runs the plan pipeline for one target in place; hands IR to options.emit at options.emitStage.
/// NB0410, or NB0412 when an operation has no admissible kernel.
Status lowerToPlan(mlir::ModuleOp module, const BuildTarget &target, const BuildOptions &options);

/// Textual IR with locations left out.
std::string printIr(mlir::ModuleOp module);

} // namespace ninfer

#endif // NINFER_COMPILER_LOWERING_H
