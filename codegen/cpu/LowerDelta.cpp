// Families causal_conv and gated_delta. A tile takes all activation rows of its channels, or of its
// rows of the matrix state, in turn: nothing is shared between tiles.
#include "codegen/cpu/KernelLowering.h"

#include "codegen/common/Tiling.h"
#include "codegen/cpu/kernels/MicroKernels.h"

using namespace mlir;

namespace ninfer::cpu {

LogicalResult lowerCausalConv(KernelLowering &l) {
  auto op = l.single<CausalConvOp>();
  if (!op)
    return l.refuse("the kernel is not one causal_conv");
  auto weightType = llvm::cast<WeightType>(op.getWeight().getType());
  if (weightType.getFormat() != Format::BF16)
    return l.refuse("the taps must be BF16");
  KernelBuilder &b = l.b;
  const Value inputs[] = {op.getQuery(), op.getKey(), op.getValue()};
  std::vector<int64_t> widths;
  for (Value input : inputs)
    widths.push_back(KernelLowering::widthOf(input));
  const std::vector<int64_t> firstTiles = segmentFirstTiles(widths, kConvTileChannels);
  if (l.kernel.getTilesConst() != firstTiles.back() || l.kernel.getTilesPerRow() != 0)
    return l.refuse("the tiles are not blocks of channels");

  const int64_t channels = weightType.getK();
  Value weight = l.pointer(op.getWeight()), tail = l.pointer(op.getTail());
  Value rows = l.rowsOf(op.getQuery());
  int64_t firstChannel = 0;
  for (unsigned i = 0; i < 3; ++i) {
    const int64_t width = widths[i], channel0 = firstChannel;
    firstChannel += width;
    Value x = l.pointer(inputs[i]), out = l.resultPointer(i);
    // Channels of this projection in the tile range.
    auto bound = [&](Value tile) {
      Value local = b.max(b.sub(tile, b.constant(firstTiles[i])), b.constant(0));
      return b.min(b.mul(local, kConvTileChannels), b.constant(width));
    };
    Value begin = bound(b.tileBegin()), end = bound(b.tileEnd());
    b.ifLess(begin, end, [&] {
      Value channel = b.add(begin, b.constant(channel0));
      b.callShared("$conv",
                   {b.floatAt(x, begin), b.constant(width), rows,
                    b.offset(weight, b.mul(channel, 2)), b.sub(end, begin), b.floatAt(tail, channel),
                    b.floatAt(out, begin)},
                   [&](ValueRange p) {
                     b.call("ni_causal_conv", {p[0], p[1], p[2], p[3], b.constant(weightType.getN()),
                                               p[4], b.constant(channels), p[5], p[6], p[1],
                                               b.constant(op.getPeek())});
                   });
    });
  }
  return success();
}

LogicalResult lowerGatedDelta(KernelLowering &l) {
  auto op = l.single<GatedDeltaOp>();
  if (!op)
    return l.refuse("the kernel is not one gated_delta");
  for (Value vector : {Value(op.getALog()), Value(op.getDtBias())})
    if (llvm::cast<WeightType>(vector.getType()).getFormat() != Format::FP32)
      return l.refuse("a_log and dt_bias must be FP32");
  KernelBuilder &b = l.b;
  auto state = llvm::cast<DeltaStateType>(op.getState().getType());
  const int64_t heads = state.getValueHeads(), valueDim = state.getValueDim(),
                keyDim = state.getKeyDim(), headsPerKey = heads / op.getKeyHeads();
  const int64_t tilesPerHead = (valueDim + kDeltaTileRows - 1) / kDeltaTileRows;
  if (l.kernel.getTilesConst() != heads * tilesPerHead || l.kernel.getTilesPerRow() != 0)
    return l.refuse("the tiles are not blocks of state rows");

  Value query = l.pointer(op.getQuery()), key = l.pointer(op.getKey());
  Value value = l.pointer(op.getValue()), a = l.pointer(op.getA()), beta = l.pointer(op.getB());
  Value aLog = l.pointer(op.getALog()), dtBias = l.pointer(op.getDtBias());
  Value memory = l.pointer(op.getState()), out = l.resultPointer(0);
  Value scratch = b.scratch(static_cast<uint64_t>(microGatedDeltaScratchBytes(keyDim, op.getPeek())));
  Value rows = l.rowsOf(op.getValue());
  // Consecutive tiles of one head are one call, so that query and key are normalised once.
  Value firstHead = b.div(b.tileBegin(), tilesPerHead);
  Value endHead = b.div(b.add(b.tileEnd(), b.constant(tilesPerHead - 1)), tilesPerHead);
  b.loop(firstHead, endHead, 1, [&](Value head) {
    auto bound = [&](Value tile) {
      Value local = b.max(b.sub(tile, b.mul(head, tilesPerHead)), b.constant(0));
      return b.min(b.mul(local, kDeltaTileRows), b.constant(valueDim));
    };
    Value begin = bound(b.tileBegin()), end = bound(b.tileEnd());
    Value keyAt = b.mul(b.div(head, headsPerKey), keyDim);
    Value valueAt = b.add(b.mul(head, valueDim), begin);
    b.ifLess(begin, end, [&] {
      b.call("ni_gated_delta",
             {b.floatAt(query, keyAt), b.floatAt(key, keyAt),
              b.constant(op.getKeyHeads() * keyDim), b.floatAt(value, valueAt),
              b.constant(heads * valueDim), b.floatAt(a, head), b.floatAt(beta, head),
              b.constant(heads), b.floatAt(aLog, head), b.floatAt(dtBias, head),
              b.floatAt(memory, b.mul(valueAt, keyDim)), rows, b.constant(keyDim),
              b.sub(end, begin), b.floatAt(out, valueAt), b.constant(heads * valueDim), scratch,
              b.constant(op.getPeek())});
    });
  });
  return success();
}

} // namespace ninfer::cpu
