// Families of a vision tower. A tile is a row, except in full_attention: one row of one head, head-major.
#include "codegen/cpu/KernelLowering.h"

using namespace mlir;

namespace ninfer::cpu {

namespace {

bool isBf16(Value weight) {
  return llvm::cast<WeightType>(weight.getType()).getFormat() == Format::BF16;
}

} // namespace

LogicalResult lowerLayerNorm(KernelLowering &l) {
  auto op = l.single<LayerNormOp>();
  if (!op)
    return l.refuse("the kernel is not one layer_norm");
  if (!isBf16(op.getWeight()) || !isBf16(op.getBias()))
    return l.refuse("weight and bias must be BF16");
  KernelBuilder &b = l.b;
  const int64_t k = KernelLowering::widthOf(op.getX());
  Value x = l.pointer(op.getX()), weight = l.pointer(op.getWeight());
  Value bias = l.pointer(op.getBias()), out = l.resultPointer(0), eps = b.f32(op.getEps());
  return l.forEachRow(op.getX(), [&](Value row) {
    Value at = b.mul(row, k);
    b.call("ni_layer_norm",
           {b.floatAt(x, at), weight, bias, eps, b.constant(k), b.floatAt(out, at)});
  });
}

LogicalResult lowerBias(KernelLowering &l) {
  auto op = l.single<BiasOp>();
  if (!op)
    return l.refuse("the kernel is not one bias");
  if (!isBf16(op.getBias()))
    return l.refuse("the bias must be BF16");
  KernelBuilder &b = l.b;
  const int64_t k = KernelLowering::widthOf(op.getX()), group = op.getRowGroup();
  Value x = l.pointer(op.getX()), bias = l.pointer(op.getBias()), out = l.resultPointer(0);
  return l.forEachRow(op.getX(), [&](Value row) {
    Value at = b.mul(row, k);
    Value part = group == 1 ? bias : b.offset(bias, b.mul(b.rem(row, group), 2 * k));
    b.call("ni_bias", {b.floatAt(x, at), part, b.constant(k), b.floatAt(out, at)});
  });
}

LogicalResult lowerGelu(KernelLowering &l) {
  auto op = l.single<GeluOp>();
  if (!op)
    return l.refuse("the kernel is not one gelu");
  KernelBuilder &b = l.b;
  const int64_t k = KernelLowering::widthOf(op.getX());
  Value x = l.pointer(op.getX()), out = l.resultPointer(0);
  return l.forEachRow(op.getX(), [&](Value row) {
    Value at = b.mul(row, k);
    b.call(op.getTanh() ? "ni_gelu_tanh" : "ni_gelu",
           {b.floatAt(x, at), b.constant(k), b.floatAt(out, at)});
  });
}

LogicalResult lowerAxialRope(KernelLowering &l) {
  auto op = l.single<AxialRopeOp>();
  if (!op)
    return l.refuse("the kernel is not one axial_rope");
  KernelBuilder &b = l.b;
  auto table = llvm::cast<RopeTableType>(op.getTable().getType());
  const int64_t width = KernelLowering::widthOf(op.getX());
  Value x = l.pointer(op.getX()), angles = l.pointer(op.getTable());
  Value positions = l.pointer(op.getPositions()), out = l.resultPointer(0);
  return l.forEachRow(op.getX(), [&](Value row) {
    Value at = b.mul(row, width);
    b.call("ni_axial_rope",
           {b.floatAt(x, at), angles, b.constant(table.getCapacity()),
            b.offset(positions, b.mul(row, 2 * 4)), b.constant(op.getHeads()),
            b.constant(table.getPairs()), b.floatAt(out, at)});
  });
}

LogicalResult lowerInterpolate(KernelLowering &l) {
  auto op = l.single<InterpolateOp>();
  if (!op)
    return l.refuse("the kernel is not one interpolate");
  auto table = llvm::cast<WeightType>(op.getTable().getType());
  if (!isBf16(op.getTable()))
    return l.refuse("the table must be BF16");
  KernelBuilder &b = l.b;
  const int64_t taps = KernelLowering::widthOf(op.getIndices()), k = table.getK();
  Value indices = l.pointer(op.getIndices()), weights = l.pointer(op.getWeights());
  Value words = l.pointer(op.getTable()), out = l.resultPointer(0);
  return l.forEachRow(op.getResult(), [&](Value row) {
    Value at = b.mul(row, taps * 4);
    b.call("ni_gather_bf16",
           {words, b.constant(table.getN()), b.offset(indices, at), b.offset(weights, at),
            b.constant(taps), b.constant(k), b.floatAt(out, b.mul(row, k))});
  });
}

/// A run of tiles is the end of one head, whole heads, and the start of another: every head gives the
/// part of its rows that lies in the run.
LogicalResult lowerFullAttention(KernelLowering &l) {
  auto op = l.single<FullAttentionOp>();
  if (!op)
    return l.refuse("the kernel is not one full_attention");
  KernelBuilder &b = l.b;
  const int64_t heads = op.getHeads(), width = KernelLowering::widthOf(op.getQuery());
  const int64_t dim = width / heads;
  Value begin, end;
  if (failed(l.unitRange(op.getQuery(), heads, begin, end)))
    return failure();
  Value query = l.pointer(op.getQuery()), key = l.pointer(op.getKey());
  Value value = l.pointer(op.getValue()), out = l.resultPointer(0);
  Value scratch = b.scratch(static_cast<uint64_t>(microFullAttentionScratchBytes(dim)));
  Value rows = l.rowsOf(op.getQuery());
  b.loop(b.constant(0), b.constant(heads), 1, [&](Value head) {
    Value first = b.mul(head, rows);
    Value from = b.max(begin, first), to = b.min(end, b.add(first, rows));
    b.ifLess(from, to, [&] {
      Value row = b.sub(from, first), column = b.mul(head, dim);
      Value at = b.add(b.mul(row, width), column);
      b.call("ni_full_attention",
             {b.floatAt(query, at), b.floatAt(key, column), b.floatAt(value, column),
              b.constant(width), b.sub(to, from), rows, b.constant(dim), b.f32(op.getScale()),
              b.floatAt(out, at), scratch});
    });
  });
  return success();
}

} // namespace ninfer::cpu
