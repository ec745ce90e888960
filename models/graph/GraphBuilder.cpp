// Emits the decoder graph: symbols first, then one function, layer by layer.
#include "models/graph/GraphBuilder.h"

#include "dialects/ninfer/NinferDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace ninfer {

std::string objectSymbol(std::string_view objectId) { return "object/" + std::string(objectId); }

namespace {

class DecoderGraph {
public:
  DecoderGraph(MLIRContext &context, const ModelSpec &spec, const Directory &directory,
               const GraphOptions &options)
      : builder(&context), spec(spec), config(spec.decoderConfig()), directory(directory), options(options) {
  }

  OwningOpRef<ModuleOp> build() {
    module = ModuleOp::create(label("text"));
    if (failed(checkOptions()))
      return nullptr;
    setModuleAttributes();
    builder.setInsertionPointToEnd(module->getBody());
    emitObjects();
    if (failed(emitParameters()))
      return nullptr;
    if (failed(emitStates()))
      return nullptr;
    emitFunction();
    if (failed(verify(*module)))
      return nullptr;
    return std::move(module);
  }

private:
  //===--------------------------------------------------------------------===//
  // Symbols
  //===--------------------------------------------------------------------===//

  LogicalResult checkOptions() {
    if (options.maxContext < 1 || options.maxContext > config.maxPositions)
      return emitError(label("text"))
             << "max context must be in 1.." << config.maxPositions
             << " (max_position_embeddings of the model), got " << options.maxContext;
    if (options.prefillChunk < 1)
      return emitError(label("text"))
             << "prefill chunk must be at least 1, got " << options.prefillChunk;
    return success();
  }

  void setModuleAttributes() {
    auto setInt = [&](StringRef name, int64_t value) {
      (*module)->setAttr(name, builder.getI64IntegerAttr(value));
    };
    (*module)->setAttr(NinferDialect::kArchitecture, builder.getStringAttr(config.architecture));
    setInt(NinferDialect::kMaxContext, options.maxContext);
    setInt(NinferDialect::kPrefillChunk, options.prefillChunk);
    setInt(NinferDialect::kVocabSize, config.vocabSize);
    setInt(NinferDialect::kLayers, config.numLayers);
  }

  void emitObjects() {
    std::set<uint32_t> used;
    for (const ParameterSpec &parameter : spec.parameters)
      for (const RangePart &part : parameter.binding.parts)
        used.insert(part.object);
    for (uint32_t index : used) {
      const ObjectEntry &object = directory.objects[index];
      SmallVector<int64_t> shape(object.shape.begin(), object.shape.end());
      ObjectOp::create(builder, label(object.id), builder.getStringAttr(objectSymbol(object.id)),
                       builder.getDenseI64ArrayAttr(shape),
                       FormatAttr::get(builder.getContext(), *object.format),
                       LayoutAttr::get(builder.getContext(), *object.layout),
                       integer(object.offset), integer(object.bytes));
    }
  }

  LogicalResult emitParameters() {
    for (const ParameterSpec &parameter : spec.parameters) {
      const ObjectEntry &first = directory.objects[parameter.binding.parts.front().object];
      SmallVector<Attribute> parts;
      for (const RangePart &part : parameter.binding.parts) {
        const ObjectEntry &object = directory.objects[part.object];
        if (object.format != first.format)
          return emitError(label(parameter.name))
                 << "parameter is stored in ranges of different formats, " << first.formatName
                 << " in object '" << first.id << "' and " << object.formatName << " in object '"
                 << object.id << "'; a parameter has one format";
        parts.push_back(
            PartAttr::get(builder.getContext(),
                          FlatSymbolRefAttr::get(builder.getContext(), objectSymbol(object.id)),
                          static_cast<int64_t>(part.begin), static_cast<int64_t>(part.end)));
      }
      SmallVector<int64_t> shape(parameter.shape.begin(), parameter.shape.end());
      auto type = WeightType::getChecked([&] { return emitError(label(parameter.name)); },
                                         builder.getContext(), ArrayRef<int64_t>(shape),
                                         *first.format, *first.layout);
      if (!type)
        return failure();
      types[parameter.name] = type;
      policies[parameter.name] = parameter.policy;
      ParameterOp::create(builder, label(parameter.name), parameter.name, type,
                          builder.getArrayAttr(parts), parameter.policy, /*planes=*/nullptr);
    }
    return success();
  }

  LogicalResult emitStates() {
    Type word =
        options.kvCodec == KvCodec::BF16 ? Type(builder.getBF16Type()) : Type(builder.getF32Type());
    auto refuse = [&] { return emitError(label("text")) << "state of the context: "; };
    cacheType = KvCacheType::getChecked(refuse, builder.getContext(), config.numKvHeads,
                                        options.maxContext, config.headDim, word);
    if (!cacheType)
      return failure();
    tableType = RopeTableType::getChecked(refuse, builder.getContext(), options.maxContext,
                                          config.headDim / 2);
    if (!tableType)
      return failure();
    for (int64_t layer = 0; layer < config.numLayers; ++layer)
      StateOp::create(builder, label(layerPath(layer) + "/attention"), kvName(layer), cacheType,
                      /*inv_freq=*/nullptr);
    StateOp::create(builder, label("text/rope"), "text/rope", tableType,
                    builder.getDenseF64ArrayAttr(config.ropeInverseFrequencies()));
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Function
  //===--------------------------------------------------------------------===//

  void emitFunction() {
    auto logits = RankedTensorType::get({1, config.vocabSize}, builder.getF32Type());
    auto tokens = RankedTensorType::get({ShapedType::kDynamic}, builder.getI32Type());
    auto function =
        func::FuncOp::create(builder, label("text"), "text",
                             builder.getFunctionType({tokens, builder.getIndexType()}, {logits}));
    function->setAttr(NinferDialect::kComponent, builder.getStringAttr("text"));
    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    position = block->getArgument(1);

    setLabel("text/token_embedding");
    Value x = EmbeddingOp::create(builder, loc, activation(config.hiddenSize),
                                  block->getArgument(0), parameter("text/token_embedding"));
    for (int64_t layer = 0; layer < config.numLayers; ++layer) {
      x = emitAttention(layerPath(layer), kvName(layer), x);
      x = emitFeedForward(layerPath(layer), x);
    }
    setLabel("text/output_head");
    Value last = LastRowOp::create(builder, loc, activation(config.hiddenSize, /*rows=*/1), x);
    Value result = linear(norm(last, "text/final_norm"), "text/output_head");
    func::ReturnOp::create(builder, loc, result);
  }

  /// x + output(attention(rope(q), cache)) with q, k, v from the normed x.
  Value emitAttention(const std::string &layer, const std::string &kv, Value x) {
    const std::string prefix = layer + "/attention";
    setLabel(prefix);
    Value input = norm(x, layer + "/input_norm");
    Value query = linear(input, prefix + "/query");
    Value key = linear(input, prefix + "/key");
    Value value = linear(input, prefix + "/value");
    if (config.qkNorm) {
      query = headNorm(query, prefix + "/query_norm", config.numHeads);
      key = headNorm(key, prefix + "/key_norm", config.numKvHeads);
    }
    Value table = StateRefOp::create(builder, loc, tableType, "text/rope");
    Value cache = StateRefOp::create(builder, loc, cacheType, kv);
    query = RopeOp::create(builder, loc, query, table, position, config.numHeads);
    key = RopeOp::create(builder, loc, key, table, position, config.numKvHeads);
    KvAppendOp::create(builder, loc, key, value, cache, position);
    double scale = 1.0 / std::sqrt(static_cast<double>(config.headDim));
    Value mixed = AttentionOp::create(builder, loc, query, cache, position, config.numHeads,
                                      config.numKvHeads, scale);
    return AddOp::create(builder, loc, linear(mixed, prefix + "/output"), x);
  }

  /// x + down(silu(gate) * up) with gate and up from the normed x.
  Value emitFeedForward(const std::string &layer, Value x) {
    const std::string prefix = layer + "/mlp";
    setLabel(prefix);
    Value input = norm(x, layer + "/post_attention_norm");
    Value gate = linear(input, prefix + "/gate");
    Value up = linear(input, prefix + "/up");
    Value product = SwigluOp::create(builder, loc, gate, up);
    return AddOp::create(builder, loc, linear(product, prefix + "/down"), x);
  }

  Value norm(Value x, const std::string &name) {
    return RmsNormOp::create(builder, loc, x, parameter(name), config.rmsNormEps);
  }

  Value headNorm(Value x, const std::string &name, int64_t heads) {
    return HeadNormOp::create(builder, loc, x, parameter(name), heads, config.rmsNormEps);
  }

  Value linear(Value x, const std::string &name) {
    int64_t rows = cast<RankedTensorType>(x.getType()).getDimSize(0);
    return LinearOp::create(builder, loc, activation(types.at(name).getN(), rows), x,
                            parameter(name), policies.at(name));
  }

  Value parameter(const std::string &name) {
    return ParamOp::create(builder, loc, types.at(name), name);
  }

  //===--------------------------------------------------------------------===//
  // Small things
  //===--------------------------------------------------------------------===//

  static std::string layerPath(int64_t layer) { return "text/layers/" + std::to_string(layer); }
  static std::string kvName(int64_t layer) { return layerPath(layer) + "/attention/kv"; }

  RankedTensorType activation(int64_t width, int64_t rows = ShapedType::kDynamic) {
    return RankedTensorType::get({rows, width}, builder.getF32Type());
  }
  Location label(const std::string &path) { return NameLoc::get(builder.getStringAttr(path)); }
  void setLabel(const std::string &path) { loc = label(path); }
  IntegerAttr integer(uint64_t value) {
    return builder.getI64IntegerAttr(static_cast<int64_t>(value));
  }

  OpBuilder builder;
  const ModelSpec &spec;
  const DecoderConfig &config;
  const Directory &directory;
  const GraphOptions &options;
  OwningOpRef<ModuleOp> module;
  std::map<std::string, WeightType> types;
  std::map<std::string, ActivationPolicy> policies;
  KvCacheType cacheType;
  RopeTableType tableType;
  Value position;
  Location loc = UnknownLoc::get(builder.getContext());
};

} // namespace

OwningOpRef<ModuleOp> buildDecoderGraph(MLIRContext &context, const ModelSpec &spec,
                                        const Directory &directory, const GraphOptions &options) {
  context.loadDialect<NinferDialect, func::FuncDialect>();
  return DecoderGraph(context, spec, directory, options).build();
}

} // namespace ninfer
