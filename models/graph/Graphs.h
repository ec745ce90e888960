// One entry per architecture family. Private to the graph builders.
#ifndef NINFER_MODELS_GRAPH_GRAPHS_H
#define NINFER_MODELS_GRAPH_GRAPHS_H

#include "models/graph/GraphBuilder.h"

namespace ninfer {

mlir::OwningOpRef<mlir::ModuleOp> emitDecoderGraph(mlir::MLIRContext &context, const ModelSpec &spec,
                                                   const Directory &directory,
                                                   const GraphOptions &options);
mlir::OwningOpRef<mlir::ModuleOp> emitHybridGraph(mlir::MLIRContext &context, const ModelSpec &spec,
                                                  const Directory &directory,
                                                  const GraphOptions &options);

} // namespace ninfer

#endif // NINFER_MODELS_GRAPH_GRAPHS_H
