// Rules of the compute operations that their declarations cannot express. The number in the comment
// of a rule is its number in docs/dialect/spec.md and the name of its negative test.
#include "dialects/ninfer/NinferDialect.h"

using namespace mlir;

namespace ninfer {

//===----------------------------------------------------------------------===//
// Checks shared by the families
//===----------------------------------------------------------------------===//

static int64_t rowsOf(Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(0); }
static int64_t widthOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getDimSize(1);
}

static std::string dimText(int64_t dim) {
  return ShapedType::isDynamic(dim) ? std::string("?") : std::to_string(dim);
}

/// `what` must be `expected`, which is explained by `because`.
static LogicalResult expectDim(Operation *op, StringRef what, int64_t expected, int64_t actual,
                               StringRef because) {
  if (expected == actual)
    return success();
  return op->emitOpError() << "expected " << what << " " << dimText(expected) << " (" << because
                           << "), got " << dimText(actual);
}

static LogicalResult expectType(Operation *op, StringRef what, Type expected, Type actual,
                                StringRef because) {
  if (expected == actual)
    return success();
  return op->emitOpError() << "expected " << what << " " << expected << " (" << because << "), got "
                           << actual;
}

/// A weight takes part in arithmetic; I32 objects only carry indices.
static LogicalResult expectArithmetic(Operation *op, WeightType weight) {
  if (weight.getFormat() != Format::I32)
    return success();
  return op->emitOpError()
         << "weight format I32 holds indices, expected one of the other formats of: "
         << listFormats();
}

/// A static number of rows must be whole groups.
static LogicalResult expectGroups(Operation *op, int64_t rows, int64_t group) {
  if (ShapedType::isDynamic(rows) || rows % group == 0)
    return success();
  return op->emitOpError() << "expected rows to be a multiple of row_group " << group << ", got "
                           << rows;
}

//===----------------------------------------------------------------------===//
// Linear family
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  WeightType weight = getWeight().getType();
  if (failed(expectDim(*this, "result width", weight.getK(), widthOf(getResult()), // embedding_c1
                       "the length of a weight row")) ||
      failed(expectDim(*this, "result rows", rowsOf(getTokens()),
                       rowsOf(getResult()), // embedding_c2
                       "the number of tokens")))
    return failure();
  return expectArithmetic(*this, weight); // embedding_c3
}

LogicalResult LinearOp::verify() {
  WeightType weight = getWeight().getType();
  const int64_t group = getRowGroup();
  if (weight.getN() % group != 0 || weight.getK() % group != 0) // linear_c5
    return emitOpError() << "expected N and K of the weight to be multiples of row_group " << group
                         << ", got " << weight.getN() << " and " << weight.getK();
  if (failed(expectGroups(*this, rowsOf(getX()), group))) // linear_c6
    return failure();
  const StringRef per = group == 1 ? "" : " over row_group";
  if (failed(expectDim(*this, "x width", weight.getK() / group, widthOf(getX()), // linear_c1
                       ("K of the weight" + per).str())) ||
      failed(expectDim(*this, "result width", weight.getN() / group,
                       widthOf(getResult()), // linear_c2
                       ("N of the weight" + per).str())) ||
      failed(expectDim(*this, "result rows", rowsOf(getX()), rowsOf(getResult()), // linear_c3
                       "the rows of x")))
    return failure();
  return expectArithmetic(*this, weight); // linear_c4
}

//===----------------------------------------------------------------------===//
// Norm family
//===----------------------------------------------------------------------===//

LogicalResult RmsNormOp::verify() {
  WeightType weight = getWeight().getType();
  if (failed(expectDim(*this, "weight length", widthOf(getX()), weight.getK(), // rms_norm_c1
                       "the width of x")))
    return failure();
  return expectArithmetic(*this, weight); // rms_norm_c2
}

LogicalResult HeadNormOp::verify() {
  WeightType weight = getWeight().getType();
  if (failed(expectDim(*this, "x width", getHeads() * weight.getK(),
                       widthOf(getX()), // head_norm_c1
                       "heads times the weight length")))
    return failure();
  return expectArithmetic(*this, weight); // head_norm_c2
}

//===----------------------------------------------------------------------===//
// Attention family
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::verify() {
  const int64_t width = widthOf(getX()), needed = 2 * getTable().getType().getPairs();
  if (width % getHeads() != 0 || width / getHeads() < needed) // rope_c1
    return emitOpError() << "expected x width of " << getHeads() << " heads of at least " << needed
                         << " elements (two per pair of the table), got " << width;
  return success();
}

LogicalResult PlaceAnglesOp::verify() {
  const int64_t pairs = getPlaced().getType().getPairs();
  if (failed(expectDim(*this, "pairs of angles", pairs, getAngles().getType().getPairs(), // place_angles_c1
                       "those of placed")) ||
      failed(expectDim(*this, "number of axes", pairs, static_cast<int64_t>(getAxes().size()), // place_angles_c2
                       "one per pair")))
    return failure();
  const int64_t positions = widthOf(getPositions());
  for (auto [pair, axis] : llvm::enumerate(getAxes()))
    if (axis < 0 || axis >= positions) // place_angles_c3
      return emitOpError() << "expected axis " << pair << " to be one of the " << positions
                           << " positions of a row, got " << axis;
  return success();
}

LogicalResult KvAppendOp::verify() {
  KvCacheType cache = getCache().getType();
  return expectDim(*this, "key width", cache.getKvHeads() * cache.getHeadDim(),
                   widthOf(getKey()), // kv_append_c1
                   "kv heads times head dimension of the cache");
}

LogicalResult AttentionOp::verify() {
  KvCacheType cache = getCache().getType();
  if (failed(expectDim(*this, "kv_heads", cache.getKvHeads(), getKvHeads(), // attention_c1
                       "kv heads of the cache")))
    return failure();
  if (getHeads() % getKvHeads() != 0) // attention_c2
    return emitOpError() << "heads must be a multiple of kv_heads, got " << getHeads() << " and "
                         << getKvHeads();
  return expectDim(*this, "query width", getHeads() * cache.getHeadDim(),
                   widthOf(getQuery()), // attention_c3
                   "heads times head dimension of the cache");
}

//===----------------------------------------------------------------------===//
// Delta family
//===----------------------------------------------------------------------===//

LogicalResult CausalConvOp::verify() {
  ConvStateType tail = getTail().getType();
  WeightType weight = getWeight().getType();
  const int64_t channels = widthOf(getQuery()) + widthOf(getKey()) + widthOf(getValue());
  if (failed(expectDim(*this, "weight K", channels, weight.getK(), // causal_conv_c1
                       "channels of query, key and value")) ||
      failed(expectDim(*this, "tail channels", channels, tail.getChannels(), // causal_conv_c2
                       "channels of query, key and value")))
    return failure();
  if (rowsOf(getQuery()) != rowsOf(getKey()) || rowsOf(getQuery()) != rowsOf(getValue()))
    return emitOpError() << "expected query, key and value of equal rows, got " // causal_conv_c4
                         << dimText(rowsOf(getQuery())) << ", " << dimText(rowsOf(getKey()))
                         << " and " << dimText(rowsOf(getValue()));
  if (failed(expectDim(*this, "tail rows", weight.getN() - 1, tail.getRows(), // causal_conv_c5
                       "taps of the weight less one")))
    return failure();
  return expectArithmetic(*this, weight); // causal_conv_c6
}

LogicalResult GatedDeltaOp::verify() {
  DeltaStateType state = getState().getType();
  const int64_t heads = state.getValueHeads();
  if (heads % getKeyHeads() != 0) // gated_delta_c1
    return emitOpError() << "expected value heads to be a multiple of key_heads, got " << heads
                         << " and " << getKeyHeads();
  if (failed(expectDim(*this, "query width", getKeyHeads() * state.getKeyDim(),
                       widthOf(getQuery()), // gated_delta_c2
                       "key_heads times key dimension of the state")) ||
      failed(expectDim(*this, "value width", heads * state.getValueDim(),
                       widthOf(getValue()), // gated_delta_c3
                       "value heads times value dimension of the state")) ||
      failed(expectDim(*this, "a width", heads, widthOf(getA()), // gated_delta_c4
                       "value heads of the state")))
    return failure();
  for (auto [name, weight] : {std::pair("a_log", getALog()), std::pair("dt_bias", getDtBias())}) {
    auto type = cast<WeightType>(weight.getType());
    if (failed(expectDim(*this, (StringRef(name) + " length").str(), heads, type.getK(),
                         "value heads of the state")) || // gated_delta_c5
        failed(expectArithmetic(*this, type)))           // gated_delta_c7
      return failure();
  }
  if (rowsOf(getQuery()) != rowsOf(getValue()) || rowsOf(getQuery()) != rowsOf(getA()))
    return emitOpError() << "expected query, value and a of equal rows, got " // gated_delta_c8
                         << dimText(rowsOf(getQuery())) << ", " << dimText(rowsOf(getValue()))
                         << " and " << dimText(rowsOf(getA()));
  return success();
}

LogicalResult GatedHeadNormOp::verify() {
  WeightType weight = getWeight().getType();
  if (failed(expectDim(*this, "x width", getHeads() * weight.getK(),
                       widthOf(getX()), // gated_head_norm_c1
                       "heads times the weight length")))
    return failure();
  return expectArithmetic(*this, weight); // gated_head_norm_c2
}

//===----------------------------------------------------------------------===//
// Expert family
//===----------------------------------------------------------------------===//

LogicalResult MoeRouteOp::verify() {
  if (getTopK() > widthOf(getLogits())) // moe_route_c1
    return emitOpError() << "expected top_k of at most " << widthOf(getLogits())
                         << " (the experts), got " << getTopK();
  if (failed(expectDim(*this, "result width", 2 * getTopK(), widthOf(getResult()), // moe_route_c2
                       "a number and a weight per slot")))
    return failure();
  return expectDim(*this, "result rows", rowsOf(getLogits()), rowsOf(getResult()), // moe_route_c3
                   "the rows of the logits");
}

/// What both banks have in common; `perExpert` rows of the bank belong to one expert.
template <typename Op>
static LogicalResult verifyExperts(Op op, Value x, int64_t k, int64_t perExpert,
                                   StringRef perExpertText) {
  WeightType bank = op.getBank().getType();
  if (bank.getN() % op.getExperts() != 0 || bank.getN() / op.getExperts() != perExpert)
    return op.emitOpError() << "expected bank rows " << op.getExperts() * perExpert << " (experts times "
                            << perExpertText << "), got " << bank.getN(); // moe_up_c1 moe_down_c1
  if (failed(expectDim(op, "routes width", 2 * op.getTopK(), widthOf(op.getRoutes()),
                       "a number and a weight per slot")) || // moe_up_c2 moe_down_c2
      failed(expectDim(op, "bank K", k, bank.getK(), "what an expert reads"))) // moe_up_c3 moe_down_c3
    return failure();
  if (rowsOf(x) != rowsOf(op.getRoutes()) || rowsOf(x) != rowsOf(op.getResult()))
    return op.emitOpError() << "expected operands and result of equal rows, got " // moe_up_c4 moe_down_c4
                            << dimText(rowsOf(x)) << ", " << dimText(rowsOf(op.getRoutes()))
                            << " and " << dimText(rowsOf(op.getResult()));
  return expectArithmetic(op, bank); // moe_up_c5 moe_down_c5
}

LogicalResult MoeUpOp::verify() {
  const int64_t width = widthOf(getResult());
  if (width % getTopK() != 0) // moe_up_c6
    return emitOpError() << "expected the result width to be a multiple of top_k " << getTopK()
                         << ", got " << width;
  return verifyExperts(*this, getX(), widthOf(getX()), 2 * (width / getTopK()),
                       "gate and up rows of a slot");
}

LogicalResult MoeDownOp::verify() {
  const int64_t width = widthOf(getProducts());
  if (width % getTopK() != 0) // moe_down_c6
    return emitOpError() << "expected the products width to be a multiple of top_k " << getTopK()
                         << ", got " << width;
  return verifyExperts(*this, getProducts(), width / getTopK(), widthOf(getResult()),
                       "the result width");
}

//===----------------------------------------------------------------------===//
// Handover family
//===----------------------------------------------------------------------===//

/// Columns [column, column + width) and the static rows of `rows` lie inside the buffer.
template <typename Op>
static LogicalResult verifyHandover(Op op, Value rows) {
  RowBufferType buffer = op.getBuffer().getType();
  const int64_t width = widthOf(rows), column = op.getColumn();
  if (width > buffer.getWidth() || column > buffer.getWidth() - width) // store_rows_c1 load_rows_c1
    return op.emitOpError() << "expected columns inside the buffer's width " << buffer.getWidth()
                            << ", got " << width << " from column " << column;
  if (!ShapedType::isDynamic(rowsOf(rows)) && rowsOf(rows) > buffer.getRows())
    return op.emitOpError() << "expected at most " << buffer.getRows() // store_rows_c2 load_rows_c2
                            << " rows (those of the buffer), got " << rowsOf(rows);
  return success();
}

LogicalResult StoreRowsOp::verify() { return verifyHandover(*this, getX()); }
LogicalResult LoadRowsOp::verify() { return verifyHandover(*this, getResult()); }

LogicalResult ConcatOp::verify() {
  if (failed(expectDim(*this, "result width", widthOf(getLhs()) + widthOf(getRhs()),
                       widthOf(getResult()), // concat_c1
                       "the widths of both operands")))
    return failure();
  if (rowsOf(getLhs()) != rowsOf(getRhs()) || rowsOf(getLhs()) != rowsOf(getResult()))
    return emitOpError() << "expected operands and result of equal rows, got " // concat_c2
                         << dimText(rowsOf(getLhs())) << ", " << dimText(rowsOf(getRhs()))
                         << " and " << dimText(rowsOf(getResult()));
  return success();
}

//===----------------------------------------------------------------------===//
// Row family
//===----------------------------------------------------------------------===//

LogicalResult SigmoidGateOp::verify() {
  if (widthOf(getGate()) != 1 && widthOf(getGate()) != widthOf(getX())) // sigmoid_gate_c2
    return emitOpError() << "expected gate width " << widthOf(getX()) << " (that of x) or 1, got "
                         << widthOf(getGate());
  return expectDim(*this, "gate rows", rowsOf(getX()), rowsOf(getGate()), // sigmoid_gate_c3
                   "the rows of x");
}

LogicalResult ReplaceRowsOp::verify() {
  if (failed(expectDim(*this, "where width", 1, widthOf(getWhere()), "one choice per row"))) // replace_rows_c2
    return failure();
  return expectDim(*this, "where rows", rowsOf(getX()), rowsOf(getWhere()), // replace_rows_c3
                   "the rows of x");
}

LogicalResult LastRowOp::verify() {
  auto x = cast<RankedTensorType>(getX().getType());
  return expectType(*this, "result",
                    RankedTensorType::get({1, x.getDimSize(1)}, x.getElementType()), // last_row_c1
                    getResult().getType(), "one row of x");
}

/// The last row of one row is that row.
OpFoldResult LastRowOp::fold(FoldAdaptor) {
  return getX().getType() == getResult().getType() ? getX() : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// Vision family
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::verify() {
  for (auto [name, vector] : {std::pair("weight", getWeight()), std::pair("bias", getBias())}) {
    auto type = cast<WeightType>(vector.getType());
    if (failed(expectDim(*this, (StringRef(name) + " length").str(), widthOf(getX()), type.getK(),
                         "the width of x")) || // layer_norm_c1
        failed(expectArithmetic(*this, type))) // layer_norm_c2
      return failure();
  }
  return success();
}

LogicalResult BiasOp::verify() {
  const StringRef what =
      getRowGroup() == 1 ? "the width of x" : "row_group times the width of x";
  if (failed(expectDim(*this, "bias length", getRowGroup() * widthOf(getX()), // bias_c1
                       getBias().getType().getK(), what)) ||
      failed(expectArithmetic(*this, getBias().getType()))) // bias_c2
    return failure();
  return expectGroups(*this, rowsOf(getX()), getRowGroup()); // bias_c4
}

LogicalResult AxialRopeOp::verify() {
  auto positions = cast<RankedTensorType>(getPositions().getType());
  if (failed(expectDim(*this, "x width", getHeads() * 4 * getTable().getType().getPairs(),
                       widthOf(getX()), // axial_rope_c1
                       "heads of four elements per pair of the table")) ||
      failed(expectDim(*this, "positions width", 2, positions.getDimSize(1), // axial_rope_c3
                       "one position per axis")))
    return failure();
  return expectDim(*this, "positions rows", rowsOf(getX()), rowsOf(getPositions()), // axial_rope_c4
                   "the rows of x");
}

LogicalResult FullAttentionOp::verify() {
  if (widthOf(getQuery()) % getHeads() != 0) // full_attention_c1
    return emitOpError() << "expected the width to be a multiple of heads " << getHeads()
                         << ", got " << widthOf(getQuery());
  return success();
}

LogicalResult InterpolateOp::verify() {
  WeightType table = getTable().getType();
  if (failed(expectDim(*this, "result width", table.getK(), widthOf(getResult()), // interpolate_c1
                       "the length of a table row")) ||
      failed(expectDim(*this, "weights width", widthOf(getIndices()),
                       widthOf(getWeights()), // interpolate_c2
                       "one weight per index")))
    return failure();
  if (rowsOf(getIndices()) != rowsOf(getWeights()) || rowsOf(getIndices()) != rowsOf(getResult()))
    return emitOpError() << "expected indices, weights and result of equal rows, got " // interpolate_c3
                         << dimText(rowsOf(getIndices())) << ", " << dimText(rowsOf(getWeights()))
                         << " and " << dimText(rowsOf(getResult()));
  return expectArithmetic(*this, table); // interpolate_c4
}

} // namespace ninfer
