// What the graph of every architecture shares: module attributes, symbols of objects and parameters,
// and the small operations. One subclass per architecture adds states and the function. Private to
// the graph builders.
#ifndef NINFER_MODELS_GRAPH_GRAPHEMITTER_H
#define NINFER_MODELS_GRAPH_GRAPHEMITTER_H

#include "dialects/ninfer/NinferDialect.h"
#include "models/graph/GraphBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <string>

namespace ninfer {

class GraphEmitter {
public:
  GraphEmitter(mlir::MLIRContext &context, const ModelSpec &spec, const Directory &directory,
               const GraphOptions &options);
  virtual ~GraphEmitter() = default;

  /// The whole module, verified; null after an error diagnostic.
  mlir::OwningOpRef<mlir::ModuleOp> build();

protected:
  /// Symbols of the states; the insertion point is the end of the module.
  virtual mlir::LogicalResult emitStates() = 0;
  /// Operations of all layers between embedding and final norm: x -> x.
  virtual mlir::Value emitLayers(mlir::Value x) = 0;
  /// Functions beside @text.
  virtual void emitMoreFunctions() {}
  /// Errors of the options for this architecture.
  virtual mlir::LogicalResult checkMoreOptions();
  /// Called with the final-normed rows when `keepsHidden`.
  virtual void keepHidden(mlir::Value) {}
  virtual bool keepsHidden() const { return false; }
  virtual double normEps() const = 0;
  /// Norm weights are stored as their difference from one.
  virtual bool unitOffset() const = 0;
  /// Replaces what the graph stores otherwise than the inventory lists it.
  virtual mlir::LogicalResult prepareParameters(std::vector<ParameterSpec> &) {
    return mlir::success();
  }

  mlir::Value norm(mlir::Value x, const std::string &name);
  mlir::Value headNorm(mlir::Value x, const std::string &name, int64_t heads);
  mlir::Value linear(mlir::Value x, const std::string &name);
  mlir::Value linear(mlir::Value x, const std::string &name, ActivationPolicy policy,
                     int64_t rowGroup = 1);
  mlir::Value parameter(const std::string &name);
  /// The value of state `name`; its StateOp must have been emitted with emitState.
  mlir::Value state(const std::string &name);
  void emitState(const std::string &name, mlir::Type type, llvm::ArrayRef<double> invFreq = {});
  /// Type of every KV cache; null after an error diagnostic.
  KvCacheType cacheType(int64_t kvHeads, int64_t headDim);
  RopeTableType tableType(int64_t pairs);
  /// Rotates query and key, appends key and value to cache `kv`, attends: the heads of the query.
  mlir::Value attend(mlir::Value query, mlir::Value key, mlir::Value value, const std::string &kv,
                     int64_t heads, int64_t kvHeads, int64_t headDim);
  /// Opens a function (tokens, position) -> logits of `rows` rows, or () -> () without `width`; the
  /// insertion point is its body. Sets `position`. Returns the tokens. With `images` it has the ports of embeddings too.
  mlir::Value openFunction(const std::string &name, const std::string &component,
                           llvm::ArrayRef<llvm::StringRef> phases, int64_t width, int64_t rows, bool images = false);
  /// The function of the text model: logits of the last row, or of all rows.
  void emitText(const std::string &name, llvm::ArrayRef<llvm::StringRef> phases, bool allRows, bool images = false);
  /// Rows of the token embedding, or of the port of embeddings where the function has it.
  mlir::Value embed(mlir::Value tokens);
  bool takesImages() const { return spec.vision && options.imagesInText; }
  /// The function of the phase place: rows of text/rope by `axes` from the table of positions.
  void emitPlace(llvm::ArrayRef<int> axes);
  static constexpr const char *kRope = "text/rope", *kPositionTable = "text/rope_by_position";
  /// x + down(silu(gate) * up) with gate and up from the normed x; parameters of `layer`.
  mlir::Value emitFeedForward(const std::string &layer, mlir::Value x);
  /// down(silu(gate) * up) of a normed input; the parameters are `prefix`/gate, up, down.
  mlir::Value emitSwiglu(const std::string &prefix, mlir::Value input);

  /// Names x for whoever traces layers; nothing without that option.
  void tap(mlir::Value x, const std::string &name);

  static std::string layerPath(int64_t layer) { return "text/layers/" + std::to_string(layer); }
  static std::string kvName(int64_t layer) { return layerPath(layer) + "/attention/kv"; }
  mlir::RankedTensorType activation(int64_t width, int64_t rows = mlir::ShapedType::kDynamic);
  mlir::RankedTensorType indices(int64_t width);
  mlir::Location label(const std::string &path);
  void setLabel(const std::string &path) { loc = label(path); }

  mlir::OpBuilder builder;
  const ModelSpec &spec;
  const Directory &directory;
  const GraphOptions &options;
  mlir::Location loc;
  std::map<std::string, WeightType> types;            ///< of the emitted parameters
  std::map<std::string, ActivationPolicy> policies; ///< of the same
  mlir::Value position; ///< of row 0, an argument of the function
  mlir::func::FuncOp function; ///< the one being emitted
  mlir::Value embeddings, fromEmbeddings; ///< its ports, null where it has none

private:
  mlir::LogicalResult checkOptions();
  void setModuleAttributes();
  void emitObjects();
  mlir::LogicalResult emitParameters();
  // The vision tower (VisionGraph.cpp).
  mlir::LogicalResult emitVisionState();
  void emitVisionFunction();
  mlir::Value emitVisionBlock(const std::string &layer, mlir::Value x, mlir::Value table,
                              mlir::Value positions);
  mlir::Value emitMerger(mlir::Value x);
  mlir::Value layerNorm(mlir::Value x, const std::string &name);
  /// linear(x) + bias; with `residual` also + residual.
  mlir::Value biased(mlir::Value x, const std::string &name, mlir::Value residual = {},
                     int64_t rowGroup = 1);
  mlir::IntegerAttr integer(uint64_t value);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<ParameterSpec> parameters; ///< as emitted
  std::map<std::string, mlir::Type> states;
};

} // namespace ninfer

#endif // NINFER_MODELS_GRAPH_GRAPHEMITTER_H
