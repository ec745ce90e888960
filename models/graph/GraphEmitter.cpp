#include "models/graph/GraphEmitter.h"

#include "mlir/IR/Verifier.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace ninfer {

std::string objectSymbol(std::string_view objectId) { return "object/" + std::string(objectId); }

GraphEmitter::GraphEmitter(MLIRContext &context, const ModelSpec &spec, const Directory &directory,
                           const GraphOptions &options)
    : builder(&context), spec(spec), directory(directory), options(options),
      loc(UnknownLoc::get(&context)) {}

OwningOpRef<ModuleOp> GraphEmitter::build() {
  module = ModuleOp::create(label("text"));
  if (failed(checkOptions()))
    return nullptr;
  setModuleAttributes();
  parameters = spec.parameters;
  if (failed(prepareParameters(parameters)))
    return nullptr;
  builder.setInsertionPointToEnd(module->getBody());
  emitObjects();
  if (failed(emitParameters()) || failed(emitStates()) ||
      (spec.vision && failed(emitVisionState())))
    return nullptr;
  if (takesImages()) { // an answer is text
    emitText("text.decode", {"decode"}, /*allRows=*/false);
    emitText("text.prefill", {"prefill"}, /*allRows=*/false, /*images=*/true);
  } else {
    emitText("text", {}, /*allRows=*/false);
  }
  emitMoreFunctions();
  if (spec.vision)
    emitVisionFunction();
  if (failed(verify(*module)))
    return nullptr;
  return std::move(module);
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

LogicalResult GraphEmitter::checkOptions() {
  if (options.maxContext < 1 || options.maxContext > spec.maxPositions())
    return emitError(label("text"))
           << "max context must be in 1.." << spec.maxPositions()
           << " (max_position_embeddings of the model), got " << options.maxContext;
  if (options.prefillChunk < 1)
    return emitError(label("text"))
           << "prefill chunk must be at least 1, got " << options.prefillChunk;
  return checkMoreOptions();
}

LogicalResult GraphEmitter::checkMoreOptions() {
  if (options.draftTokens != 0)
    return emitError(label("text")) << "draft tokens must be 0 for " << spec.architecture()
                                    << ", which has no draft layer, got " << options.draftTokens;
  return success();
}

void GraphEmitter::setModuleAttributes() {
  auto setInt = [&](StringRef name, int64_t value) {
    (*module)->setAttr(name, builder.getI64IntegerAttr(value));
  };
  (*module)->setAttr(NinferDialect::kArchitecture, builder.getStringAttr(spec.architecture()));
  setInt(NinferDialect::kMaxContext, options.maxContext);
  setInt(NinferDialect::kPrefillChunk, options.prefillChunk);
  setInt(NinferDialect::kVocabSize, spec.vocabSize());
  setInt(NinferDialect::kLayers, spec.numLayers());
  if (options.draftTokens)
    setInt(NinferDialect::kVerifyRows, options.draftTokens + 1);
}

void GraphEmitter::emitObjects() {
  std::set<uint32_t> used;
  for (const ParameterSpec &parameter : parameters)
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

LogicalResult GraphEmitter::emitParameters() {
  for (const ParameterSpec &parameter : parameters) {
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

void GraphEmitter::emitState(const std::string &name, Type type, ArrayRef<double> invFreq) {
  StateOp::create(builder, label(name), name, type,
                  invFreq.empty() ? nullptr : builder.getDenseF64ArrayAttr(invFreq));
  states[name] = type;
}

KvCacheType GraphEmitter::cacheType(int64_t kvHeads, int64_t headDim) {
  Type word = builder.getBF16Type();
  if (options.kvCodec == KvCodec::F32)
    word = builder.getF32Type();
  else if (options.kvCodec == KvCodec::Int8)
    word = builder.getIntegerType(8);
  auto refuse = [&] { return emitError(label("text")) << "state of the context: "; };
  return KvCacheType::getChecked(refuse, builder.getContext(), kvHeads, options.maxContext, headDim,
                                 word);
}

RopeTableType GraphEmitter::tableType(int64_t pairs) {
  auto refuse = [&] { return emitError(label("text")) << "state of the context: "; };
  return RopeTableType::getChecked(refuse, builder.getContext(), options.maxContext, pairs);
}

//===----------------------------------------------------------------------===//
// Function
//===----------------------------------------------------------------------===//

Value GraphEmitter::openFunction(const std::string &name, const std::string &component,
                                 ArrayRef<StringRef> phases, int64_t width, int64_t rows,
                                 bool images) {
  builder.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> arguments, results;
  if (width) {
    arguments = {RankedTensorType::get({ShapedType::kDynamic}, builder.getI32Type()),
                 builder.getIndexType()};
    results = {activation(width, rows)};
  }
  if (images)
    arguments.append({activation(spec.hiddenSize()), indices(1)});
  function = func::FuncOp::create(builder, label(component), name,
                                  builder.getFunctionType(arguments, results));
  function->setAttr(NinferDialect::kComponent, builder.getStringAttr(component));
  if (!phases.empty())
    function->setAttr(NinferDialect::kPhases, builder.getStrArrayAttr(phases));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  position = width ? block->getArgument(1) : Value();
  embeddings = images ? block->getArgument(2) : Value();
  fromEmbeddings = images ? block->getArgument(3) : Value();
  if (images) {
    function.setArgAttr(2, NinferDialect::kPort, builder.getStringAttr("embeddings"));
    function.setArgAttr(3, NinferDialect::kPort, builder.getStringAttr("from_embeddings"));
  }
  return width ? Value(block->getArgument(0)) : Value();
}

Value GraphEmitter::embed(Value tokens) {
  Value rows = EmbeddingOp::create(builder, loc, activation(spec.hiddenSize()), tokens,
                                   parameter("text/token_embedding"));
  return embeddings ? ReplaceRowsOp::create(builder, loc, rows, embeddings, fromEmbeddings).getResult() : rows;
}

void GraphEmitter::emitText(const std::string &name, ArrayRef<StringRef> phases, bool allRows, bool images) {
  const int64_t rows = allRows ? ShapedType::kDynamic : 1;
  Value tokens = openFunction(name, "text", phases, spec.vocabSize(), rows, images);
  setLabel("text/token_embedding");
  Value x = embed(tokens);
  tap(x, "text/token_embedding");
  x = emitLayers(x);
  setLabel("text/output_head");
  auto lastRow = [&](Value all) -> Value {
    return allRows ? all : LastRowOp::create(builder, loc, activation(spec.hiddenSize(), 1), all);
  };
  if (!keepsHidden()) { // one row needs its norm
    x = norm(lastRow(x), "text/final_norm");
    tap(x, "text/final_norm");
  } else {
    x = norm(x, "text/final_norm");
    tap(x, "text/final_norm");
    keepHidden(x);
    x = lastRow(x);
  }
  func::ReturnOp::create(builder, loc, linear(x, "text/output_head"));
}

Value GraphEmitter::attend(Value query, Value key, Value value, const std::string &kv,
                           int64_t heads, int64_t kvHeads, int64_t headDim) {
  Value table = state(kRope), cache = state(kv);
  query = RopeOp::create(builder, loc, query, table, position, heads);
  key = RopeOp::create(builder, loc, key, table, position, kvHeads);
  KvAppendOp::create(builder, loc, key, value, cache, position);
  const double scale = 1.0 / std::sqrt(static_cast<double>(headDim));
  return AttentionOp::create(builder, loc, query, cache, position, heads, kvHeads, scale);
}

Value GraphEmitter::emitFeedForward(const std::string &layer, Value x) {
  const std::string prefix = layer + "/mlp";
  setLabel(prefix);
  Value input = norm(x, layer + "/post_attention_norm");
  return AddOp::create(builder, loc, emitSwiglu(prefix, input), x);
}

Value GraphEmitter::emitSwiglu(const std::string &prefix, Value input) {
  Value gate = linear(input, prefix + "/gate");
  Value up = linear(input, prefix + "/up");
  return linear(SwigluOp::create(builder, loc, gate, up), prefix + "/down");
}

void GraphEmitter::tap(Value x, const std::string &name) {
  if (options.traceLayers)
    TapOp::create(builder, label(name), x, name);
}

Value GraphEmitter::norm(Value x, const std::string &name) {
  return RmsNormOp::create(builder, loc, x, parameter(name), normEps(), unitOffset());
}

Value GraphEmitter::headNorm(Value x, const std::string &name, int64_t heads) {
  return HeadNormOp::create(builder, loc, x, parameter(name), heads, normEps(), unitOffset());
}

Value GraphEmitter::linear(Value x, const std::string &name) {
  return linear(x, name, policies.at(name));
}

Value GraphEmitter::linear(Value x, const std::string &name, ActivationPolicy policy,
                           int64_t rowGroup) {
  int64_t rows = cast<RankedTensorType>(x.getType()).getDimSize(0);
  return LinearOp::create(builder, loc, activation(types.at(name).getN() / rowGroup, rows), x,
                          parameter(name), policy, rowGroup);
}

Value GraphEmitter::parameter(const std::string &name) {
  return ParamOp::create(builder, loc, types.at(name), name);
}

Value GraphEmitter::state(const std::string &name) {
  return StateRefOp::create(builder, loc, states.at(name), name);
}

//===----------------------------------------------------------------------===//
// Small things
//===----------------------------------------------------------------------===//

RankedTensorType GraphEmitter::indices(int64_t width) {
  return RankedTensorType::get({ShapedType::kDynamic, width}, builder.getI32Type());
}

RankedTensorType GraphEmitter::activation(int64_t width, int64_t rows) {
  return RankedTensorType::get({rows, width}, builder.getF32Type());
}

Location GraphEmitter::label(const std::string &path) {
  return NameLoc::get(builder.getStringAttr(path));
}

IntegerAttr GraphEmitter::integer(uint64_t value) {
  return builder.getI64IntegerAttr(static_cast<int64_t>(value));
}

} // namespace ninfer
