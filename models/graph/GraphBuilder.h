// From a recognised model to IR: one module with the artifact's objects, the model's parameters and
// states, and one function that computes the logits of the last row. Knows nothing about targets or
// kernels.
#ifndef NINFER_MODELS_GRAPH_GRAPHBUILDER_H
#define NINFER_MODELS_GRAPH_GRAPHBUILDER_H

#include "artifact/container/Directory.h"
#include "models/ModelSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace ninfer {

/// Words of the KV cache. Int8: codes with a binary16 scale per 64 elements.
enum class KvCodec : uint8_t { BF16, F32, Int8 };

struct GraphOptions {
  int64_t maxContext = 2048; ///< positions the caches and the rope table hold
  int64_t prefillChunk = 64; ///< most rows of one prefill call
  KvCodec kvCodec = KvCodec::BF16;
  /// Most tokens that one verify call judges beside the one that is certain; 0: no speculation.
  int64_t draftTokens = 0;
  bool traceLayers = false; ///< a ninfer.tap on the residual stream after every step of it
  int64_t visionMaxPatches = 4096; ///< most patches of one image, when the tower was selected
  bool imagesInText = true; ///< with the tower: prefill takes the embeddings of images, and positions of three axes
};

/// Symbol of a stored object in the module. The prefix keeps object ids, which are free text, apart
/// from parameter, state and function names.
std::string objectSymbol(std::string_view objectId);

/// Builds the graph of a recognised model, by its architecture family:
///   module attributes   ninfer.architecture, max_context, prefill_chunk, vocab_size, layers, and
///                       verify_rows with speculation
///   ninfer.object       one per stored tensor a parameter uses, in directory order
///   ninfer.parameter    one per entry of `spec.parameters`, in that order
///   ninfer.state        text/rope, and per layer text/layers/{i}/attention/kv, or gdn/tail and
///                       gdn/state
///   func.func @text     (tokens: tensor<?xi32>, position: index) -> tensor<1xVxf32>
/// With options.draftTokens also, for a hybrid model with its draft layer (docs/models/qwen3_5.md):
///   ninfer.state        text/hidden, mtp/hidden, mtp/layers/0/attention/kv, and per recurrent layer
///                       gdn/record
///   func.func @text.verify      as @text, logits of every row; recurrent states stay as they were
///   func.func @text.commit      () -> (): they take in the leading rows of the last verify call
///   func.func @mtp.draft        as @text, over the rows in text/hidden and the tokens after them
///   func.func @mtp.draft_next   as @mtp.draft, over its own last row
/// With the vision tower also the state vision/rope and
///   func.func @vision.encode   patches, positions, indices, weights -> embeddings, all ports of one phase
/// whose rows are the patches of one image (VisionGraph.cpp says what the ports hold). With imagesInText also the state
/// text/rope_by_position, the table of positions from which
///   func.func @text.place      (positions: tensor<?x3xi32>, position: index) -> ()
/// writes rows of text/rope, which the layers read by the number of the token; @text is two functions then, and the
/// phases prefill and draft have two more ports:
///   embeddings       f32 [rows][H]  rows to take instead of those of the token embedding
///   from_embeddings  i32 [rows][1]  1 for a row that is taken from there, else 0
/// Locations are the labels of launches ("text/layers/3/attention", "text/layers/3/mlp", ...).
/// With traceLayers the residual stream is tapped as "text/token_embedding", "text/layers/{i}/mixer"
/// (after attention or delta net), "text/layers/{i}" (after the layer), and the final norm as
/// "text/final_norm": of the last row, or of all rows where the function computes them.
/// `spec` comes from recogniseModel(directory). Null, with the reason as diagnostics of `context`,
/// when a parameter is stored in ranges of different formats or an option does not fit the model.
mlir::OwningOpRef<mlir::ModuleOp> buildGraph(mlir::MLIRContext &context, const ModelSpec &spec,
                                             const Directory &directory,
                                             const GraphOptions &options);

} // namespace ninfer

#endif // NINFER_MODELS_GRAPH_GRAPHBUILDER_H
