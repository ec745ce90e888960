// Families whose rows are independent: embedding, norms, rope, KV append, swiglu, add, last row, rows from elsewhere.
// A tile is a row.
#include "codegen/cpu/KernelLowering.h"

using namespace mlir;

namespace ninfer::cpu {

LogicalResult lowerEmbedding(KernelLowering &l) {
  auto op = l.single<EmbeddingOp>();
  if (!op)
    return l.refuse("the kernel is not one embedding");
  auto type = llvm::cast<WeightType>(op.getWeight().getType());
  std::optional<llvm::StringRef> format = microFormatName(type.getFormat());
  if (!format)
    return l.refuse("format " + llvm::StringRef(canonicalName(type.getFormat())));
  KernelBuilder &b = l.b;
  int64_t k = type.getK();
  llvm::SmallVector<Value, 3> planes = l.pointers(op.getWeight());
  Value tokens = l.pointer(op.getTokens()), out = l.resultPointer(0);
  return l.forEachRow(op.getResult(), [&](Value row) {
    Value token = b.load(b.i32Type(), b.floatAt(tokens, row));
    b.call(("ni_embed_" + *format).str(),
           {planes[0], planes[1], planes[2], token, b.constant(k), b.floatAt(out, b.mul(row, k))});
  });
}

LogicalResult lowerRmsNorm(KernelLowering &l) {
  auto op = l.single<RmsNormOp>();
  if (!op)
    return l.refuse("the kernel is not one rms_norm");
  if (!isBf16Vector(op.getWeight()))
    return l.refuse("the norm weight must be BF16");
  KernelBuilder &b = l.b;
  int64_t k = KernelLowering::widthOf(op.getX());
  Value x = l.pointer(op.getX()), weight = l.pointer(op.getWeight()), out = l.resultPointer(0);
  Value unitOffset = b.f32(op.getUnitOffset() ? 1 : 0), eps = b.f32(op.getEps());
  return l.forEachRow(op.getX(), [&](Value row) {
    Value at = b.mul(row, k);
    b.call("ni_rms_norm",
           {b.floatAt(x, at), weight, unitOffset, eps, b.constant(k), b.floatAt(out, at)});
  });
}

LogicalResult lowerHeadNorm(KernelLowering &l) {
  auto op = l.single<HeadNormOp>();
  if (!op)
    return l.refuse("the kernel is not one head_norm");
  if (!isBf16Vector(op.getWeight()))
    return l.refuse("the norm weight must be BF16");
  KernelBuilder &b = l.b;
  int64_t width = KernelLowering::widthOf(op.getX()), heads = op.getHeads();
  Value x = l.pointer(op.getX()), weight = l.pointer(op.getWeight()), out = l.resultPointer(0);
  Value unitOffset = b.f32(op.getUnitOffset() ? 1 : 0), eps = b.f32(op.getEps());
  return l.forEachRow(op.getX(), [&](Value row) {
    Value at = b.mul(row, width);
    b.call("ni_head_norm", {b.floatAt(x, at), weight, unitOffset, eps, b.constant(heads),
                            b.constant(width / heads), b.floatAt(out, at)});
  });
}

LogicalResult lowerGatedHeadNorm(KernelLowering &l) {
  auto op = l.single<GatedHeadNormOp>();
  if (!op)
    return l.refuse("the kernel is not one gated_head_norm");
  if (!isBf16Vector(op.getWeight()))
    return l.refuse("the norm weight must be BF16");
  KernelBuilder &b = l.b;
  int64_t width = KernelLowering::widthOf(op.getX()), heads = op.getHeads();
  Value x = l.pointer(op.getX()), weight = l.pointer(op.getWeight());
  Value gate = l.pointer(op.getGate()), out = l.resultPointer(0);
  Value eps = b.f32(op.getEps());
  return l.forEachRow(op.getX(), [&](Value row) {
    Value at = b.mul(row, width);
    b.call("ni_gated_head_norm", {b.floatAt(x, at), weight, b.floatAt(gate, at), eps,
                                  b.constant(heads), b.constant(width / heads), b.floatAt(out, at)});
  });
}

LogicalResult lowerRope(KernelLowering &l) {
  auto op = l.single<RopeOp>();
  if (!op)
    return l.refuse("the kernel is not one rope");
  KernelBuilder &b = l.b;
  int64_t width = KernelLowering::widthOf(op.getX()), heads = op.getHeads();
  int64_t pairs = llvm::cast<RopeTableType>(op.getTable().getType()).getPairs();
  Value x = l.pointer(op.getX()), table = l.pointer(op.getTable()), out = l.resultPointer(0);
  Value position = l.position();
  return l.forEachRow(op.getX(), [&](Value row) {
    Value at = b.mul(row, width);
    Value angles = b.floatAt(table, b.mul(b.add(position, row), pairs * 2));
    b.call("ni_rope", {b.floatAt(x, at), angles, b.constant(heads), b.constant(width / heads),
                       b.constant(pairs), b.floatAt(out, at)});
  });
}

LogicalResult lowerKvAppend(KernelLowering &l) {
  auto op = l.single<KvAppendOp>();
  if (!op)
    return l.refuse("the kernel is not one kv_append");
  KernelBuilder &b = l.b;
  auto cache = llvm::cast<KvCacheType>(op.getCache().getType());
  int64_t width = KernelLowering::widthOf(op.getKey());
  llvm::SmallVector<Value, 3> planes = l.pointers(op.getCache());
  Value sources[] = {l.pointer(op.getKey()), l.pointer(op.getValue())};
  Value position = l.position();
  return l.forEachRow(op.getKey(), [&](Value row) {
    for (int plane : {0, 1})
      b.callShared(
          "$kv_store",
          {b.floatAt(sources[plane], b.mul(row, width)), b.add(position, row), planes[plane]},
          [&](ValueRange p) {
            const CachePlane layout = cachePlane(cache);
            llvm::SmallVector<Value> operands = {
                p[0], b.constant(cache.getKvHeads()), b.constant(cache.getHeadDim()),
                b.constant(cache.getCapacity()), p[1], p[2]};
            if (layout.hasScales())
              operands.push_back(b.offset(p[2], layout.scalesOffset));
            b.call(("ni_kv_store_" + microCodecName(cache)).str(), operands);
          });
  });
}

namespace {

/// out = micro(a, b), element by element.
LogicalResult lowerElementwise(KernelLowering &l, llvm::StringRef micro, Value lhs, Value rhs) {
  KernelBuilder &b = l.b;
  int64_t width = KernelLowering::widthOf(lhs);
  Value left = l.pointer(lhs), right = l.pointer(rhs), out = l.resultPointer(0);
  return l.forEachRow(lhs, [&](Value row) {
    Value at = b.mul(row, width);
    b.call(micro,
           {b.floatAt(left, at), b.floatAt(right, at), b.constant(width), b.floatAt(out, at)});
  });
}

} // namespace

LogicalResult lowerSwiglu(KernelLowering &l) {
  auto op = l.single<SwigluOp>();
  if (!op)
    return l.refuse("the kernel is not one swiglu");
  return lowerElementwise(l, "ni_silu_mul", op.getGate(), op.getUp());
}

LogicalResult lowerSigmoidGate(KernelLowering &l) {
  auto op = l.single<SigmoidGateOp>();
  if (!op)
    return l.refuse("the kernel is not one sigmoid_gate");
  if (KernelLowering::widthOf(op.getGate()) == KernelLowering::widthOf(op.getX()))
    return lowerElementwise(l, "ni_sigmoid_mul", op.getX(), op.getGate());
  KernelBuilder &b = l.b;
  int64_t width = KernelLowering::widthOf(op.getX());
  Value x = l.pointer(op.getX()), gate = l.pointer(op.getGate()), out = l.resultPointer(0);
  return l.forEachRow(op.getX(), [&](Value row) {
    Value at = b.mul(row, width);
    b.call("ni_sigmoid_scale",
           {b.floatAt(x, at), b.floatAt(gate, row), b.constant(width), b.floatAt(out, at)});
  });
}

LogicalResult lowerAdd(KernelLowering &l) {
  auto op = l.single<AddOp>();
  if (!op)
    return l.refuse("the kernel is not one add");
  return lowerElementwise(l, "ni_add", op.getLhs(), op.getRhs());
}

namespace {

/// Copies `width` consecutive elements.
void copyElements(KernelBuilder &b, Value from, Value to, int64_t width) {
  b.loop(b.constant(0), b.constant(width), 1,
         [&](Value i) { b.store(b.load(b.f32Type(), b.floatAt(from, i)), b.floatAt(to, i)); });
}

} // namespace

LogicalResult lowerStoreRows(KernelLowering &l) {
  auto op = l.single<StoreRowsOp>();
  if (!op)
    return l.refuse("the kernel is not one store_rows");
  KernelBuilder &b = l.b;
  int64_t width = KernelLowering::widthOf(op.getX());
  int64_t bufferWidth = llvm::cast<RowBufferType>(op.getBuffer().getType()).getWidth();
  Value x = l.pointer(op.getX()), buffer = l.pointer(op.getBuffer());
  Value column = b.constant(op.getColumn());
  return l.forEachRow(op.getX(), [&](Value row) {
    copyElements(b, b.floatAt(x, b.mul(row, width)),
                 b.floatAt(buffer, b.add(b.mul(row, bufferWidth), column)), width);
  });
}

LogicalResult lowerLoadRows(KernelLowering &l) {
  auto op = l.single<LoadRowsOp>();
  if (!op)
    return l.refuse("the kernel is not one load_rows");
  KernelBuilder &b = l.b;
  int64_t width = KernelLowering::widthOf(op.getResult());
  int64_t bufferWidth = llvm::cast<RowBufferType>(op.getBuffer().getType()).getWidth();
  Value buffer = l.pointer(op.getBuffer()), out = l.resultPointer(0);
  Value column = b.constant(op.getColumn());
  return l.forEachRow(op.getResult(), [&](Value row) {
    copyElements(b, b.floatAt(buffer, b.add(b.mul(row, bufferWidth), column)),
                 b.floatAt(out, b.mul(row, width)), width);
  });
}

LogicalResult lowerConcat(KernelLowering &l) {
  auto op = l.single<ConcatOp>();
  if (!op)
    return l.refuse("the kernel is not one concat");
  KernelBuilder &b = l.b;
  int64_t left = KernelLowering::widthOf(op.getLhs()), right = KernelLowering::widthOf(op.getRhs());
  Value lhs = l.pointer(op.getLhs()), rhs = l.pointer(op.getRhs()), out = l.resultPointer(0);
  return l.forEachRow(op.getResult(), [&](Value row) {
    Value at = b.floatAt(out, b.mul(row, left + right));
    copyElements(b, b.floatAt(lhs, b.mul(row, left)), at, left);
    copyElements(b, b.floatAt(rhs, b.mul(row, right)), b.floatAt(at, b.constant(left)), right);
  });
}

LogicalResult lowerReplaceRows(KernelLowering &l) {
  auto op = l.single<ReplaceRowsOp>();
  if (!op)
    return l.refuse("the kernel is not one replace_rows");
  KernelBuilder &b = l.b;
  const int64_t width = KernelLowering::widthOf(op.getX());
  Value x = l.pointer(op.getX()), by = l.pointer(op.getBy()), where = l.pointer(op.getWhere());
  Value out = l.resultPointer(0);
  return l.forEachRow(op.getX(), [&](Value row) {
    Value chosen = b.loadIndex(b.floatAt(where, row)); // as wide as a float
    Value from = b.select(b.less(b.constant(0), chosen), by, x);
    Value at = b.mul(row, width);
    copyElements(b, b.floatAt(from, at), b.floatAt(out, at), width);
  });
}

LogicalResult lowerPlaceAngles(KernelLowering &l) {
  auto op = l.single<PlaceAnglesOp>();
  if (!op)
    return l.refuse("the kernel is not one place_angles");
  KernelBuilder &b = l.b;
  const RopeTableType source = op.getAngles().getType();
  const int64_t pairs = source.getPairs(), width = KernelLowering::widthOf(op.getPositions());
  Value positions = l.pointer(op.getPositions()), angles = l.pointer(op.getAngles());
  Value placed = l.pointer(op.getPlaced()), position = l.position();
  return l.forEachRow(op.getPositions(), [&](Value row) {
    SmallVector<Value> rows; // of the table, one per axis; a position outside of it reads its first or last row
    for (int64_t axis = 0; axis < width; ++axis) {
      Value at = b.loadIndex(b.floatAt(positions, b.add(b.mul(row, width), b.constant(axis))));
      at = b.max(b.constant(0), b.min(at, b.constant(source.getCapacity() - 1)));
      rows.push_back(b.floatAt(angles, b.mul(at, 2 * pairs)));
    }
    Value to = b.floatAt(placed, b.mul(b.add(position, row), 2 * pairs));
    for (auto [pair, axis] : llvm::enumerate(op.getAxes())) {
      const int64_t at = 2 * static_cast<int64_t>(pair);
      copyElements(b, b.floatAt(rows[axis], b.constant(at)), b.floatAt(to, b.constant(at)), 2);
    }
  });
}

LogicalResult lowerLastRow(KernelLowering &l) {
  auto op = l.single<LastRowOp>();
  if (!op)
    return l.refuse("the kernel is not one last_row");
  KernelBuilder &b = l.b;
  int64_t width = KernelLowering::widthOf(op.getX());
  Value out = l.resultPointer(0);
  Value last =
      b.floatAt(l.pointer(op.getX()), b.mul(b.sub(l.rowsOf(op.getX()), b.constant(1)), width));
  return l.forEachRow(op.getResult(), [&](Value) { copyElements(b, last, out, width); });
}

} // namespace ninfer::cpu
