// Families attention and rope_append. A tile is one head of one row, or one whole row; row-major, or in attention of many
// rows by KV head.
#include "codegen/cpu/KernelLowering.h"

#include "codegen/cpu/kernels/MicroKernels.h"

using namespace mlir;

namespace ninfer::cpu {

namespace {

class AttentionLowering {
public:
  AttentionLowering(KernelLowering &l, AttentionOp op)
      : l(l), b(l.b), op(op), cache(llvm::cast<KvCacheType>(op.getCache().getType())),
        heads(op.getHeads()), group(heads / op.getKvHeads()), dim(cache.getHeadDim()) {}
  LogicalResult run();

private:
  bool takesMany() { return l.maxRowsOf(op.getQuery()) > kMicroFewRows; }
  void attend(Value row, Value rows, Value firstHead, Value endHead);
  void attendByHeads(Value begin, Value end);

  KernelLowering &l;
  KernelBuilder &b;
  AttentionOp op;
  KvCacheType cache;
  int64_t heads, group, dim;
  Value query, keys, values, out, scratch;
};

/// Heads [firstHead, endHead) of `rows` rows: one call per KV head that they share, so that its
/// cache is read once for several queries. Does nothing for no rows or no heads.
void AttentionLowering::attend(Value row, Value rows, Value firstHead, Value endHead) {
  const int64_t width = heads * dim;
  b.ifLess(b.constant(0), rows, [&] {
    Value endKv = b.div(b.add(endHead, b.constant(group - 1)), group);
    b.loop(b.div(firstHead, group), endKv, 1, [&](Value kv) {
      Value from = b.max(firstHead, b.mul(kv, group));
      Value to = b.min(endHead, b.mul(b.add(kv, b.constant(1)), group));
      Value at = b.add(b.mul(row, width), b.mul(from, dim));
      const CachePlane layout = cachePlane(cache);
      Value plane = b.mul(kv, layout.headBytes);
      Value length = b.add(b.add(l.position(), row), b.constant(1));
      llvm::SmallVector<Value> arguments = {
          b.floatAt(query, at), rows,   b.sub(to, from),    b.offset(keys, plane),
          b.offset(values, plane), length, b.floatAt(out, at), scratch};
      if (layout.hasScales()) {
        Value scales = b.add(b.mul(kv, layout.headScaleBytes), b.constant(layout.scalesOffset));
        arguments.append({b.offset(keys, scales), b.offset(values, scales)});
      }
      if (takesMany())
        arguments.push_back(l.rowsOf(op.getQuery()));
      b.callShared("$attend", arguments, [&](ValueRange p) {
        Value stride = b.constant(width);
        bool oneRow = l.hasStaticRows(op.getQuery()) && l.maxRowsOf(op.getQuery()) == 1;
        llvm::SmallVector<Value> operands = {p[0], stride, oneRow ? b.constant(1) : p[1], p[2],
                                             p[3]};
        if (layout.hasScales())
          operands.push_back(p[8]);
        operands.push_back(p[4]);
        if (layout.hasScales())
          operands.push_back(p[9]);
        operands.append(
            {p[5], b.constant(dim), b.f32(op.getScale()), p[6], stride, p[7]});
        auto few = [&] { b.call(("ni_attention_" + microCodecName(cache)).str(), operands); };
        if (takesMany())
          // By the rows of the call, not of this piece: results must not depend on the cut over threads.
          b.ifLess(b.constant(kMicroFewRows), p.back(),
                   [&] { b.call(("ni_attention_many_" + microCodecName(cache)).str(), operands); }, few);
        else
          few();
      });
    });
  });
}

/// Tiles of many rows are numbered by KV head, then row, so that a thread reads its part of the cache once. A row's heads of
/// one KV head go to the thread that has the first of them.
///
/// Later rows attend to more positions. Numbering rows 0, R-1, 1, R-2, ... gives threads, which take consecutive tiles, equal
/// shares of the triangle, and a run of slots is still two runs of rows; a whole KV head is one.
void AttentionLowering::attendByHeads(Value begin, Value end) {
  Value rows = l.rowsOf(op.getQuery());
  auto slotOf = [&](Value tile) { return b.div(b.add(tile, b.constant(group - 1)), group); };
  auto halfUp = [&](Value v) { return b.div(b.add(v, b.constant(1)), 2); };
  Value firstSlot = slotOf(begin), endSlot = slotOf(end);
  b.loop(b.constant(0), b.constant(heads / group), 1, [&](Value kv) {
    Value base = b.mul(kv, rows), firstHead = b.mul(kv, group), endHead = b.add(firstHead, b.constant(group));
    Value from = b.max(b.sub(firstSlot, base), b.constant(0)), to = b.min(b.sub(endSlot, base), rows);
    b.ifLess(b.sub(to, from), rows,
             [&] {
               b.ifLess(from, to, [&] {
                 Value low = halfUp(from);
                 attend(low, b.sub(halfUp(to), low), firstHead, endHead);
                 Value high = b.sub(rows, b.div(to, 2));
                 attend(high, b.sub(b.sub(rows, b.div(from, 2)), high), firstHead, endHead);
               });
             },
             [&] { attend(b.constant(0), rows, firstHead, endHead); });
  });
}

LogicalResult AttentionLowering::run() {
  Value begin, end;
  if (failed(l.unitRange(op.getQuery(), heads, begin, end)))
    return failure();
  query = l.pointer(op.getQuery());
  llvm::SmallVector<Value, 3> planes = l.pointers(op.getCache());
  keys = planes[0];
  values = planes[1];
  out = l.resultPointer(0);
  int64_t scratchBytes = microAttentionScratchBytes(dim);
  if (takesMany())
    scratchBytes = std::max(scratchBytes, microManyAttentionScratchBytes(dim));
  scratch = b.scratch(static_cast<uint64_t>(scratchBytes));
  if (takesMany()) {
    attendByHeads(begin, end);
    return success();
  }

  // Later rows attend to more positions. Numbering rows 0, R-1, 1, R-2, ... gives threads, which
  // take consecutive tiles, equal shares of the triangle, and a run of slots is still two runs of
  // rows.
  const bool mirrored = !l.hasStaticRows(op.getQuery());
  Value rows = l.rowsOf(op.getQuery());
  auto rowOfSlot = [&](Value slot) -> Value {
    if (!mirrored)
      return slot;
    Value half = b.div(slot, 2);
    Value even = b.less(b.rem(slot, 2), b.constant(1));
    return b.select(even, half, b.sub(b.sub(rows, b.constant(1)), half));
  };
  auto oneSlot = [&](Value from, Value to) {
    Value slot = b.div(from, heads), head = b.rem(from, heads);
    b.ifLess(from, to,
             [&] { attend(rowOfSlot(slot), b.constant(1), head, b.add(head, b.sub(to, from))); });
  };

  // The range is the end of one slot, whole slots, and the start of another; each part may be
  // empty.
  Value firstWhole = b.div(b.add(begin, b.constant(heads - 1)), heads);
  Value headEnd = b.min(end, b.mul(firstWhole, heads));
  Value tailBegin = b.max(headEnd, b.mul(b.div(end, heads), heads));
  oneSlot(begin, headEnd);
  b.ifLess(headEnd, tailBegin, [&] {
    Value endWhole = b.div(end, heads), none = b.constant(0), all = b.constant(heads);
    if (!mirrored) {
      attend(firstWhole, b.sub(endWhole, firstWhole), none, all);
      return;
    }
    auto halfUp = [&](Value v) { return b.div(b.add(v, b.constant(1)), 2); };
    Value low = halfUp(firstWhole), lowEnd = halfUp(endWhole);
    attend(low, b.sub(lowEnd, low), none, all);
    Value high = b.sub(rows, b.div(endWhole, 2)), highEnd = b.sub(rows, b.div(firstWhole, 2));
    attend(high, b.sub(highEnd, high), none, all);
  });
  oneSlot(tailBegin, end);
  return success();
}

/// [head_norm] rope of the queries, [head_norm] rope of the keys, then KV append.
struct RopeAppendMatch {
  RopeOp query, key;
  HeadNormOp queryNorm, keyNorm;
  KvAppendOp append;
};

LogicalResult matchRopeAppend(KernelLowering &l, RopeAppendMatch &m) {
  for (Operation &op : *l.body)
    if (auto append = llvm::dyn_cast<KvAppendOp>(op))
      m.append = append;
  if (!m.append || l.results.size() != 1)
    return l.refuse("there must be one kv_append and one result");
  m.query = l.results[0].getDefiningOp<RopeOp>();
  m.key = m.append.getKey().getDefiningOp<RopeOp>();
  if (!m.query || !m.key || m.query == m.key || !l.isArgument(m.append.getValue()) ||
      m.query.getTable().getType() != m.key.getTable().getType())
    return l.refuse(
        "the result and the stored key must be rotations by equal tables, the stored value an argument");
  size_t matched = 4;
  for (auto [rope, norm] : {std::pair(m.query, &m.queryNorm), std::pair(m.key, &m.keyNorm)}) {
    *norm = rope.getX().getDefiningOp<HeadNormOp>();
    if (*norm) {
      ++matched;
      if (!isBf16Vector(norm->getWeight()))
        return l.refuse("the norm weight must be BF16");
      if (norm->getHeads() != rope.getHeads())
        return l.refuse("norm and rotation must have the same heads");
    }
    if (!l.isArgument(*norm ? norm->getX() : rope.getX()))
      return l.refuse("a rotation must take an argument, normed or not");
  }
  if (l.body->getOperations().size() != matched)
    return l.refuse("an operation is neither norm, rotation nor append");
  return success();
}

} // namespace

LogicalResult lowerAttention(KernelLowering &l) {
  auto op = l.single<AttentionOp>();
  if (!op)
    return l.refuse("the kernel is not one attention");
  return AttentionLowering(l, op).run();
}

/// Units of a row: query heads, then KV heads. A KV head stores its key and its value.
LogicalResult lowerRopeAppend(KernelLowering &l) {
  RopeAppendMatch m;
  if (failed(matchRopeAppend(l, m)))
    return failure();
  KernelBuilder &b = l.b;
  auto cache = llvm::cast<KvCacheType>(m.append.getCache().getType());
  const int64_t heads = m.query.getHeads(), kvHeads = cache.getKvHeads(), dim = cache.getHeadDim();
  Value begin, end;
  if (failed(l.unitRange(m.query.getResult(), heads + kvHeads, begin, end)))
    return failure();

  Value q = l.pointer(m.queryNorm ? m.queryNorm.getX() : m.query.getX());
  Value k = l.pointer(m.keyNorm ? m.keyNorm.getX() : m.key.getX());
  Value v = l.pointer(m.append.getValue()), out = l.resultPointer(0);
  Value queryTable = l.pointer(m.query.getTable()), keyTable = l.pointer(m.key.getTable());
  llvm::SmallVector<Value, 3> planes = l.pointers(m.append.getCache());
  Value rotatedKey = b.scratch(static_cast<uint64_t>(dim * 4));

  const int64_t pairs = m.query.getTable().getType().getPairs();
  auto rotate = [&](HeadNormOp norm, Value x, Value table, Value position, Value y) {
    Value one = b.constant(1), size = b.constant(dim);
    if (norm) {
      b.call("ni_head_norm", {x, l.pointer(norm.getWeight()), b.f32(norm.getUnitOffset() ? 1 : 0),
                              b.f32(norm.getEps()), one, size, y});
      x = y;
    }
    b.call("ni_rope",
           {x, b.floatAt(table, b.mul(position, 2 * pairs)), one, size, b.constant(pairs), y});
  };
  auto store = [&](Value x, Value position, Value plane, Value kvHead) {
    const CachePlane layout = cachePlane(cache);
    llvm::SmallVector<Value> operands = {
        x,        b.constant(1), b.constant(dim), b.constant(cache.getCapacity()),
        position, b.offset(plane, b.mul(kvHead, layout.headBytes))};
    if (layout.hasScales())
      operands.push_back(b.offset(
          plane, b.add(b.mul(kvHead, layout.headScaleBytes), b.constant(layout.scalesOffset))));
    b.call(("ni_kv_store_" + microCodecName(cache)).str(), operands);
  };

  b.loop(begin, end, 1, [&](Value unit) {
    Value row = b.div(unit, heads + kvHeads), head = b.rem(unit, heads + kvHeads);
    Value position = b.add(l.position(), row);
    b.ifLess(
        head, b.constant(heads),
        [&] {
          Value at = b.add(b.mul(row, heads * dim), b.mul(head, dim));
          rotate(m.queryNorm, b.floatAt(q, at), queryTable, position, b.floatAt(out, at));
        },
        [&] {
          Value kvHead = b.sub(head, b.constant(heads));
          Value at = b.add(b.mul(row, kvHeads * dim), b.mul(kvHead, dim));
          rotate(m.keyNorm, b.floatAt(k, at), keyTable, position, rotatedKey);
          store(rotatedKey, position, planes[0], kvHead);
          store(b.floatAt(v, at), position, planes[1], kvHead);
        });
  });
  return success();
}

} // namespace ninfer::cpu
