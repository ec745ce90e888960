#include "models/graph/GraphBuilder.h"

#include "dialects/ninfer/NinferDialect.h"
#include "models/graph/Graphs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace ninfer {

OwningOpRef<ModuleOp> buildGraph(MLIRContext &context, const ModelSpec &spec,
                                 const Directory &directory, const GraphOptions &options) {
  context.loadDialect<NinferDialect, func::FuncDialect>();
  return spec.isHybrid() ? emitHybridGraph(context, spec, directory, options)
                         : emitDecoderGraph(context, spec, directory, options);
}

} // namespace ninfer
