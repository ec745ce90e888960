// The vision tower of the hybrid family as one function of one phase. Its rows are the patches of one
// image, ordered so that the m x m patches of one merged square follow one another. Ports, P patches:
//   patches    f32 [P][3 T p p]     pixels of a patch, channel by channel
//   positions  i32 [P][2]           row and column of the patch in the grid
//   indices    i32 [P][4]           rows of the position table around the patch's place in it
//   weights    f32 [P][4]           their bilinear weights
//   embeddings f32 [P][H / m^2]     which is [P / m^2][H]: the embedding of every merged square
#include "models/graph/GraphEmitter.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace ninfer {

namespace {

constexpr double kLayerNormEps = 1e-6;
constexpr int64_t kTableRows = 4; ///< corners of a bilinear cell

} // namespace

LogicalResult GraphEmitter::emitVisionState() {
  const VisionConfig &v = *spec.vision;
  const int64_t merged = v.mergedPatches(), patches = options.visionMaxPatches;
  if (patches < 1 || patches % merged != 0)
    return emitError(label("vision"))
           << "max patches must be a positive multiple of " << merged
           << " (spatial_merge_size squared), got " << patches;
  if (spec.hiddenSize() % merged != 0)
    return emitError(label("vision")) << "hidden_size of the text model must be a multiple of " << merged
                                      << " (spatial_merge_size squared), got " << spec.hiddenSize();
  // No coordinate of a patch exceeds the number of patches.
  auto table = RopeTableType::getChecked(
      [&] { return emitError(label("vision")) << "positions of the tower: "; },
      builder.getContext(), patches, v.headDim() / 4);
  if (!table)
    return failure();
  emitState("vision/rope", table, v.ropeInverseFrequencies());
  return success();
}

void GraphEmitter::emitVisionFunction() {
  const VisionConfig &v = *spec.vision;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(module->getBody());
  setLabel("vision");
  const std::pair<StringRef, Type> ports[] = {{"patches", activation(v.patchWidth())},
                                              {"positions", indices(2)},
                                              {"indices", indices(kTableRows)},
                                              {"weights", activation(kTableRows)}};
  SmallVector<Type> inputs;
  for (const auto &[name, type] : ports)
    inputs.push_back(type);
  auto function = func::FuncOp::create(
      builder, loc, "vision.encode",
      builder.getFunctionType(inputs, {activation(spec.hiddenSize() / v.mergedPatches())}));
  function->setAttr(NinferDialect::kComponent, builder.getStringAttr("vision"));
  function->setAttr(NinferDialect::kPhase, builder.getStringAttr("encode"));
  function->setAttr(NinferDialect::kMaxRows, builder.getI64IntegerAttr(options.visionMaxPatches));
  function->setAttr(NinferDialect::kMinRows, builder.getI64IntegerAttr(v.mergedPatches()));
  for (auto [index, port] : llvm::enumerate(ports))
    function.setArgAttr(index, NinferDialect::kPort, builder.getStringAttr(port.first));
  function.setResultAttr(0, NinferDialect::kPort, builder.getStringAttr("embeddings"));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);

  setLabel("vision/patch_embedding");
  Value place =
      InterpolateOp::create(builder, loc, activation(v.hiddenSize), block->getArgument(2),
                            block->getArgument(3), parameter("vision/position_embedding"));
  Value x = biased(block->getArgument(0), "vision/patch_embedding", place);
  Value table = state("vision/rope");
  for (int64_t layer = 0; layer < v.depth; ++layer)
    x = emitVisionBlock("vision/layers/" + std::to_string(layer), x, table, block->getArgument(1));
  func::ReturnOp::create(builder, loc, emitMerger(x));
}

void GraphEmitter::emitPlace(ArrayRef<int> axes) {
  constexpr int64_t kAxes = 3; ///< time, height, width
  builder.setInsertionPointToEnd(module->getBody());
  setLabel(kRope);
  function = func::FuncOp::create(builder, loc, "text.place",
                                  builder.getFunctionType({indices(kAxes), builder.getIndexType()}, {}));
  function->setAttr(NinferDialect::kComponent, builder.getStringAttr("text"));
  function->setAttr(NinferDialect::kPhase, builder.getStringAttr("place"));
  // As many rows as the longest call of the text model.
  const int64_t rows = std::max(options.prefillChunk, options.draftTokens ? options.draftTokens + 1 : 1);
  function->setAttr(NinferDialect::kMaxRows, builder.getI64IntegerAttr(rows));
  function.setArgAttr(0, NinferDialect::kPort, builder.getStringAttr("positions"));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToStart(block);
  PlaceAnglesOp::create(builder, loc, block->getArgument(0), state(kPositionTable), state(kRope),
                        block->getArgument(1), SmallVector<int64_t>(axes.begin(), axes.end()));
  func::ReturnOp::create(builder, loc);
}

Value GraphEmitter::emitVisionBlock(const std::string &layer, Value x, Value table,
                                    Value positions) {
  const VisionConfig &v = *spec.vision;
  const std::string attention = layer + "/attention", mlp = layer + "/mlp";
  setLabel(attention);
  Value input = layerNorm(x, layer + "/norm1");
  Value query = biased(input, attention + "/query");
  Value key = biased(input, attention + "/key");
  Value value = biased(input, attention + "/value");
  query = AxialRopeOp::create(builder, loc, query, table, positions, v.numHeads);
  key = AxialRopeOp::create(builder, loc, key, table, positions, v.numHeads);
  const double scale = 1.0 / std::sqrt(static_cast<double>(v.headDim()));
  Value mixed = FullAttentionOp::create(builder, loc, query, key, value, v.numHeads, scale);
  x = biased(mixed, attention + "/output", x);
  setLabel(mlp);
  Value inner = biased(layerNorm(x, layer + "/norm2"), mlp + "/fc1");
  return biased(GeluOp::create(builder, loc, inner, /*tanh=*/true), mlp + "/fc2", x);
}

Value GraphEmitter::emitMerger(Value x) {
  const int64_t merged = spec.vision->mergedPatches();
  setLabel("vision/merger");
  Value inner = biased(layerNorm(x, "vision/merger/norm"), "vision/merger/fc1", {}, merged);
  return biased(GeluOp::create(builder, loc, inner, /*tanh=*/false), "vision/merger/fc2", {},
                merged);
}

Value GraphEmitter::layerNorm(Value x, const std::string &name) {
  return LayerNormOp::create(builder, loc, x, parameter(name + "_weight"), parameter(name + "_bias"),
                             kLayerNormEps);
}

Value GraphEmitter::biased(Value x, const std::string &name, Value residual, int64_t rowGroup) {
  Value y = linear(x, name, policies.at(name), rowGroup);
  if (residual)
    y = AddOp::create(builder, loc, y, residual);
  return BiasOp::create(builder, loc, y, parameter(name + "_bias"), rowGroup);
}

} // namespace ninfer
