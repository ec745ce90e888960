// Families moe_route, moe_up_* and moe_down_*. A tile of a bank is a block of outputs of one expert, the
// same block for every expert; it takes all rows and their slots, so nothing is shared between tiles.
//
// One row: its experts one after the other. More: every call sorts the routes by expert for itself (that
// costs less than a barrier), then each expert that has rows multiplies them kExpertRowBlock at a time, so its
// weights are read once per block instead of once per row. The order of the sums is that of the experts'
// numbers, whatever the number of threads.
#include "codegen/cpu/KernelLowering.h"

#include "codegen/common/Tiling.h"

using namespace mlir;

namespace ninfer::cpu {

LogicalResult lowerMoeRoute(KernelLowering &l) {
  auto op = l.single<MoeRouteOp>();
  if (!op)
    return l.refuse("the kernel is not one moe_route");
  KernelBuilder &b = l.b;
  const int64_t experts = KernelLowering::widthOf(op.getLogits()), slots = op.getTopK();
  Value logits = l.pointer(op.getLogits()), out = l.resultPointer(0);
  return l.forEachRow(op.getLogits(), [&](Value row) {
    b.call("ni_moe_route", {b.floatAt(logits, b.mul(row, experts)), b.constant(experts),
                            b.constant(slots), b.floatAt(out, b.mul(row, 2 * slots))});
  });
}

namespace {

constexpr int64_t kIndexBytes = 8;
/// Outputs of a block of rows at a time, so that what follows finds them in the first-level cache.
constexpr int64_t kOutputBlock = 2 * kMicroPanelRows;

/// What moe_up and moe_down share: the bank, packed rows, the slots of a row.
class ExpertLowering {
public:
  ExpertLowering(KernelLowering &l, llvm::StringRef profile, Value bank, Value routes,
                 int64_t experts, int64_t slots)
      : l(l), b(l.b), profile(profile), type(llvm::cast<WeightType>(bank.getType())), bank(bank),
        routes(routes), experts(experts), slots(slots), rowsPerExpert(type.getN() / experts),
        k(type.getK()), maxRows(l.maxRowsOf(routes)),
        rowBlock(maxRows == 1 ? 1 : std::min(kExpertRowBlock, maxRows * slots)) {}

  /// Refuses what has no micro-kernel, and tiles that are not blocks of `units` outputs.
  LogicalResult check(int64_t units) {
    std::optional<llvm::StringRef> name = microFormatName(type.getFormat());
    const bool grouped =
        name && (*name == "q4" || *name == "q5" || *name == "q6" || *name == "w8");
    if (!name || (profile != "f32" && !grouped))
      return l.refuse("format " + llvm::StringRef(canonicalName(type.getFormat())));
    if (l.kernel.getTilesConst() != (units + kExpertTileUnits - 1) / kExpertTileUnits ||
        l.kernel.getTilesPerRow() != 0)
      return l.refuse("the tiles are not blocks of outputs of an expert");
    format = *name;
    const MicroPack pack = microPackOf(type.getFormat(), profile);
    packFunction = microPackFunction(pack);
    packed = b.scratch(static_cast<uint64_t>(microPackedBytes(pack, rowBlock, k)));
    linearScratch = b.scratch(static_cast<uint64_t>(microLinearScratchBytes(pack, rowBlock)));
    if (maxRows > 1) {
      gathered = b.scratch(static_cast<uint64_t>(rowBlock * k * 4));
      firsts = b.scratch(static_cast<uint64_t>((experts + 1) * kIndexBytes));
      entries = b.scratch(static_cast<uint64_t>(maxRows * slots * kIndexBytes));
    }
    routesPointer = l.pointer(routes);
    planes = l.pointers(bank);
    begin = b.min(b.mul(b.tileBegin(), kExpertTileUnits), b.constant(units));
    end = b.min(b.mul(b.tileEnd(), kExpertTileUnits), b.constant(units));
    return success();
  }

  /// Room for the products of a block of rows, kOutputBlock apart, or of one row and `units` outputs.
  Value products(int64_t units) {
    const int64_t floats = maxRows == 1 ? units : std::max(rowBlock * kOutputBlock, units);
    return b.scratch(static_cast<uint64_t>(floats * 4));
  }

  // --- one row ---------------------------------------------------------------------------------

  void pack(Value x) { b.call(packFunction, {x, b.constant(1), b.constant(k), packed}); }

  /// First bank row of the expert in slot `slot` of the row.
  Value expertRow(Value slot) {
    return b.mul(b.toInteger(b.load(b.f32Type(), b.floatAt(routesPointer, slot))), rowsPerExpert);
  }
  /// Weight of a slot of a row.
  Value weight(Value row, Value slot) {
    Value at = b.add(b.mul(row, 2 * slots), b.add(slot, b.constant(slots)));
    return b.load(b.f32Type(), b.floatAt(routesPointer, at));
  }

  /// out[0, end - begin) = bank rows [first + begin, first + end) times the packed row.
  void multiply(Value first, Value out) {
    multiply(first, begin, end, b.constant(1), out, b.sub(end, begin));
  }

  // --- several rows ----------------------------------------------------------------------------

  /// body(first bank row, entries of the block, their number) for every expert that has rows, in the order
  /// of their numbers; row entry / divisor of x is packed for each entry of the block.
  void forEachBlock(Value x, int64_t divisor,
                    llvm::function_ref<void(Value, Value, Value)> body) {
    b.call("ni_expert_groups", {routesPointer, l.rowsOf(routes), b.constant(slots),
                                b.constant(experts), firsts, entries});
    b.loop(b.constant(0), b.constant(experts), 1, [&](Value expert) {
      Value to = loadIndex(firsts, b.add(expert, b.constant(1)));
      b.loop(loadIndex(firsts, expert), to, rowBlock, [&](Value at) {
        Value count = b.min(b.sub(to, at), b.constant(rowBlock));
        Value block = b.offset(entries, b.mul(at, kIndexBytes));
        b.call("ni_gather_rows",
               {x, block, b.constant(divisor), count, b.constant(k), gathered});
        b.call(packFunction, {gathered, count, b.constant(k), packed});
        body(b.mul(expert, rowsPerExpert), block, count);
      });
    });
  }

  /// body(from, to) over the outputs of the tiles: kOutputBlock at a time, but all at once for one row, whose
  /// weights are read as streams far apart.
  void forEachOutputs(Value count, llvm::function_ref<void(Value, Value)> body) {
    b.ifLess(
        count, b.constant(2), [&] { body(begin, end); },
        [&] {
          b.loop(begin, end, kOutputBlock, [&](Value from) {
            body(from, b.min(b.add(from, b.constant(kOutputBlock)), end));
          });
        });
  }

  /// out[i * ld + (n - from)] = bank row first + n times packed row i, from <= n < to.
  void multiply(Value first, Value from, Value to, Value count, Value out, Value ld) {
    const std::string micro = ("ni_linear_" + format + "_" + profile).str();
    Value firstRow = b.add(first, from), lastRow = b.add(first, to);
    if (maxRows > 1) {
      b.callOutlined(micro, {planes[0], planes[1], planes[2], packed, count, b.constant(k), firstRow, lastRow, out, ld,
                             linearScratch});
      return;
    }
    b.callShared("$expert", {planes[0], planes[1], planes[2], packed, firstRow, lastRow, out, ld, linearScratch},
                 [&](ValueRange p) {
                   b.call(micro, {p[0], p[1], p[2], p[3], b.constant(1), b.constant(k), p[4], p[5], p[6], p[7], p[8]});
                 });
  }

  Value loadIndex(Value base, Value index) {
    return b.load(b.constant(0).getType(), b.offset(base, b.mul(index, kIndexBytes)));
  }

  KernelLowering &l;
  KernelBuilder &b;
  llvm::StringRef profile, format, packFunction;
  WeightType type;
  Value bank, routes;
  int64_t experts, slots, rowsPerExpert, k, maxRows, rowBlock;
  Value packed, linearScratch, routesPointer, begin, end;
  Value gathered, firsts, entries; ///< several rows only
  llvm::SmallVector<Value, 3> planes;
};

} // namespace

LogicalResult lowerMoeUp(KernelLowering &l, llvm::StringRef profile) {
  auto op = l.single<MoeUpOp>();
  if (!op)
    return l.refuse("the kernel is not one moe_up");
  ExpertLowering e(l, profile, op.getBank(), op.getRoutes(), op.getExperts(), op.getTopK());
  const int64_t inner = e.rowsPerExpert / 2;
  if (failed(e.check(inner)))
    return failure();
  KernelBuilder &b = l.b;
  Value up = e.products(inner);
  Value x = l.pointer(op.getX()), out = l.resultPointer(0);
  if (e.maxRows == 1) {
    b.ifLess(e.begin, e.end, [&] {
      e.pack(x);
      b.loop(b.constant(0), b.constant(e.slots), 1, [&](Value slot) {
        Value first = e.expertRow(slot);
        Value at = b.floatAt(out, b.add(b.mul(slot, inner), e.begin));
        e.multiply(first, at);
        e.multiply(b.add(first, b.constant(inner)), up);
        b.call("ni_silu_mul", {at, up, b.sub(e.end, e.begin), at});
      });
    });
    return success();
  }
  Value gate = e.products(inner);
  b.ifLess(e.begin, e.end, [&] {
    e.forEachBlock(x, e.slots, [&](Value first, Value entries, Value count) {
      e.forEachOutputs(count, [&](Value from, Value to) {
        Value ld = b.constant(kOutputBlock);
        e.multiply(first, from, to, count, gate, ld);
        e.multiply(b.add(first, b.constant(inner)), from, to, count, up, ld);
        b.loop(b.constant(0), count, 1, [&](Value i) {
          Value place = b.mul(e.loadIndex(entries, i), inner), at = b.mul(i, kOutputBlock);
          b.call("ni_silu_mul", {b.floatAt(gate, at), b.floatAt(up, at), b.sub(to, from),
                                 b.floatAt(out, b.add(place, from))});
        });
      });
    });
  });
  return success();
}

LogicalResult lowerMoeDown(KernelLowering &l, llvm::StringRef profile) {
  auto op = l.single<MoeDownOp>();
  if (!op)
    return l.refuse("the kernel is not one moe_down");
  ExpertLowering e(l, profile, op.getBank(), op.getRoutes(), op.getExperts(), op.getTopK());
  const int64_t width = e.rowsPerExpert;
  if (failed(e.check(width)))
    return failure();
  KernelBuilder &b = l.b;
  Value part = e.products(width);
  Value products = l.pointer(op.getProducts()), out = l.resultPointer(0);
  b.ifLess(e.begin, e.end, [&] {
    b.loop(b.constant(0), l.rowsOf(op.getProducts()), 1, [&](Value row) {
      Value at = b.floatAt(out, b.add(b.mul(row, width), e.begin));
      b.loop(b.constant(0), b.sub(e.end, e.begin), 1,
             [&](Value i) { b.store(b.f32(0), b.floatAt(at, i)); });
    });
    if (e.maxRows == 1) {
      b.loop(b.constant(0), b.constant(e.slots), 1, [&](Value slot) {
        e.pack(b.floatAt(products, b.mul(slot, e.k)));
        e.multiply(e.expertRow(slot), part);
        b.call("ni_scale_add", {part, e.weight(b.constant(0), slot), b.sub(e.end, e.begin),
                                b.floatAt(out, e.begin)});
      });
      return;
    }
    e.forEachBlock(products, 1, [&](Value first, Value entries, Value count) {
      e.forEachOutputs(count, [&](Value from, Value to) {
        e.multiply(first, from, to, count, part, b.constant(kOutputBlock));
        b.loop(b.constant(0), count, 1, [&](Value i) {
          Value entry = e.loadIndex(entries, i), row = b.div(entry, e.slots);
          b.call("ni_scale_add",
                 {b.floatAt(part, b.mul(i, kOutputBlock)), e.weight(row, b.rem(entry, e.slots)),
                  b.sub(to, from), b.floatAt(out, b.add(b.mul(row, width), from))});
        });
      });
    });
  });
  return success();
}

} // namespace ninfer::cpu
