// The cost interface of every operation: bytes and flops from types alone.
#include "dialects/ninfer/NinferDialect.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ninfer {

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

/// Rows of an activation: its static count, else `rows`.
static int64_t rowsOf(Value value, int64_t rows) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.isDynamicDim(0) ? rows : type.getDimSize(0);
}

/// Elements of an activation.
static int64_t elements(Value value, int64_t rows) {
  return rowsOf(value, rows) * cast<RankedTensorType>(value.getType()).getDimSize(1);
}

/// Bytes of a whole value as a kernel sees it.
static int64_t bytesOf(Value value, int64_t rows) {
  return TypeSwitch<Type, int64_t>(value.getType())
      .Case([](WeightType weight) { return weight.getEncodedBytes(); })
      .Case<KvCacheType, RopeTableType, ConvStateType, DeltaStateType, RowBufferType>(
          [](auto state) { return state.getBytes(); })
      .Case([&](RankedTensorType tensor) {
        return (tensor.getRank() == 2 ? elements(value, rows) : rowsOf(value, rows)) * 4;
      })
      .Default([](Type) { return 0; }); // a position is a scalar of the call
}

/// Bytes of an operand that its owner reads.
static int64_t bytesReadFrom(OpOperand &use, int64_t rows) {
  if (auto embedding = dyn_cast<EmbeddingOp>(use.getOwner());
      embedding && use.get() == embedding.getWeight()) {
    WeightType weight = embedding.getWeight().getType();
    return rowsOf(embedding.getTokens(), rows) * (weight.getEncodedBytes() / weight.getN());
  }
  if (auto rope = dyn_cast<RopeOp>(use.getOwner()); rope && use.get() == rope.getTable())
    return rowsOf(rope.getX(), rows) * rope.getTable().getType().getPairs() * 2 * 4;
  if (auto rope = dyn_cast<AxialRopeOp>(use.getOwner()); rope && use.get() == rope.getTable())
    return rowsOf(rope.getX(), rows) * 2 * rope.getTable().getType().getPairs() * 2 * 4;
  if (auto sum = dyn_cast<InterpolateOp>(use.getOwner()); sum && use.get() == sum.getTable()) {
    WeightType table = sum.getTable().getType();
    return elements(sum.getIndices(), rows) * (table.getEncodedBytes() / table.getN());
  }
  if (auto place = dyn_cast<PlaceAnglesOp>(use.getOwner())) {
    if (use.get() == place.getAngles())
      return rowsOf(place.getPositions(), rows) * place.getAngles().getType().getPairs() * 2 * 4;
    if (use.get() == place.getPlaced())
      return 0;
  }
  if (auto replace = dyn_cast<ReplaceRowsOp>(use.getOwner()); replace && &use == &replace.getByMutable())
    return 0; // a row comes from one of the two
  if (auto append = dyn_cast<KvAppendOp>(use.getOwner()); append && use.get() == append.getCache())
    return 0;
  if (auto store = dyn_cast<StoreRowsOp>(use.getOwner()); store && use.get() == store.getBuffer())
    return 0;
  if (auto load = dyn_cast<LoadRowsOp>(use.getOwner()))
    return elements(load.getResult(), rows) * 4;
  // Chosen experts only; a call of many rows reads each expert at most once.
  auto ofExperts = [&](auto op) {
    const int64_t chosen = std::min(op.getExperts(), rowsOf(op.getResult(), rows) * op.getTopK());
    return op.getBank().getType().getEncodedBytes() / op.getExperts() * chosen;
  };
  if (auto up = dyn_cast<MoeUpOp>(use.getOwner()); up && use.get() == up.getBank())
    return ofExperts(up);
  if (auto down = dyn_cast<MoeDownOp>(use.getOwner()); down && use.get() == down.getBank())
    return ofExperts(down);
  if (auto last = dyn_cast<LastRowOp>(use.getOwner()))
    return bytesOf(last.getResult(), rows);
  return bytesOf(use.get(), rows);
}

int64_t bytesReadBy(Operation *op, int64_t rows) {
  int64_t total = 0;
  if (auto fused = dyn_cast<FusedOp>(op)) {
    // Each input once, by its greediest reader; intermediate values stay inside.
    for (BlockArgument argument : fused.getBlock()->getArguments()) {
      int64_t most = 0;
      for (OpOperand &use : argument.getUses())
        most = std::max(most, bytesReadFrom(use, rows));
      total += most;
    }
    return total;
  }
  for (OpOperand &operand : op->getOpOperands())
    total += bytesReadFrom(operand, rows);
  return total;
}

int64_t bytesWrittenBy(Operation *op, int64_t rows) {
  int64_t total = 0;
  for (Value result : op->getResults())
    total += bytesOf(result, rows);
  if (auto append = dyn_cast<KvAppendOp>(op)) {
    KvCacheType cache = append.getCache().getType();
    total += rowsOf(append.getKey(), rows) * (cache.getBytes() / cache.getCapacity());
  }
  if (auto place = dyn_cast<PlaceAnglesOp>(op))
    total += rowsOf(place.getPositions(), rows) * place.getPlaced().getType().getPairs() * 2 * 4;
  if (auto store = dyn_cast<StoreRowsOp>(op))
    total += elements(store.getX(), rows) * 4;
  // Recurrent states are read and written whole, however many the rows; a peek leaves them alone.
  const bool peek = op->hasAttr("peek");
  for (Value operand : peek ? ValueRange() : ValueRange(op->getOperands()))
    if (isa<ConvStateType, DeltaStateType>(operand.getType()) && !isa<FusedOp>(op))
      total += bytesOf(operand, rows);
  if (auto fused = dyn_cast<FusedOp>(op))
    for (auto append : fused.getBlock()->getOps<KvAppendOp>())
      total += bytesWrittenBy(append, rows);
  return total;
}

//===----------------------------------------------------------------------===//
// Flops
//===----------------------------------------------------------------------===//

int64_t EmbeddingOp::flops(int64_t) { return 0; }
int64_t KvAppendOp::flops(int64_t) { return 0; }
int64_t LastRowOp::flops(int64_t) { return 0; }
int64_t StoreRowsOp::flops(int64_t) { return 0; }
int64_t LoadRowsOp::flops(int64_t) { return 0; }
int64_t ConcatOp::flops(int64_t) { return 0; }
int64_t PlaceAnglesOp::flops(int64_t) { return 0; }
int64_t ReplaceRowsOp::flops(int64_t) { return 0; }
int64_t AddOp::flops(int64_t rows) { return elements(getResult(), rows); }
// exp, add, divide, multiply.
int64_t SwigluOp::flops(int64_t rows) { return 4 * elements(getResult(), rows); }
// Square, add, scale, weight.
int64_t RmsNormOp::flops(int64_t rows) { return 4 * elements(getX(), rows); }
int64_t HeadNormOp::flops(int64_t rows) { return 4 * elements(getX(), rows); }
// Two products and a sum per element.
int64_t RopeOp::flops(int64_t rows) { return 3 * elements(getX(), rows); }
int64_t SigmoidGateOp::flops(int64_t rows) { return 4 * elements(getResult(), rows); }
// A multiply-add per tap, then silu.
int64_t CausalConvOp::flops(int64_t rows) {
  return rowsOf(getQuery(), rows) * getTail().getType().getChannels() *
         (2 * (getTail().getType().getRows() + 1) + 3);
}
// Decay, product with the key, update, product with the query: 1 + 2 + 2 + 2 per element of the state.
int64_t GatedDeltaOp::flops(int64_t rows) {
  return 7 * rowsOf(getValue(), rows) * (getState().getType().getBytes() / 4);
}
// The norm, silu, their product.
int64_t GatedHeadNormOp::flops(int64_t rows) { return 8 * elements(getX(), rows); }
// A comparison per expert and slot.
int64_t MoeRouteOp::flops(int64_t rows) { return elements(getLogits(), rows) * getTopK(); }
int64_t MoeUpOp::flops(int64_t rows) {
  return elements(getResult(), rows) * (4 * getBank().getType().getK() + 4);
}
int64_t MoeDownOp::flops(int64_t rows) {
  return elements(getResult(), rows) * getTopK() * (2 * getBank().getType().getK() + 2);
}
int64_t LinearOp::flops(int64_t rows) {
  return 2 * elements(getResult(), rows) * getWeight().getType().getK();
}
// Scores and weighted sum, each a multiply-add per query element and position.
int64_t AttentionOp::flops(int64_t rows) {
  return 4 * elements(getQuery(), rows) * getCache().getType().getCapacity();
}

// Mean, difference, square, add, scale, weight, bias.
int64_t LayerNormOp::flops(int64_t rows) { return 7 * elements(getX(), rows); }
int64_t BiasOp::flops(int64_t rows) { return elements(getX(), rows); }
// A cubic polynomial, exp, add, divide.
int64_t GeluOp::flops(int64_t rows) { return 8 * elements(getX(), rows); }
int64_t AxialRopeOp::flops(int64_t rows) { return 3 * elements(getX(), rows); }
int64_t InterpolateOp::flops(int64_t rows) {
  return 2 * elements(getIndices(), rows) * getTable().getType().getK();
}
// As attention, over the rows of the call.
int64_t FullAttentionOp::flops(int64_t rows) {
  return 4 * elements(getQuery(), rows) * rowsOf(getQuery(), rows);
}

int64_t FusedOp::flops(int64_t rows) {
  int64_t total = 0;
  for (auto op : getBlock()->getOps<NinferCostOpInterface>())
    total += op.flops(rows);
  return total;
}

} // namespace ninfer
