// Families moe_route, moe_up_* and moe_down_*. A tile of a bank is a block of outputs of one expert, the
// same block for every expert; it takes all rows and their slots in turn, so nothing is shared between
// tiles.
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

/// What moe_up and moe_down share: the bank, packed rows, the slots of a row.
class ExpertLowering {
public:
  ExpertLowering(KernelLowering &l, llvm::StringRef profile, Value bank, Value routes,
                 int64_t experts, int64_t slots)
      : l(l), b(l.b), profile(profile), type(llvm::cast<WeightType>(bank.getType())), bank(bank),
        routes(routes), slots(slots), rowsPerExpert(type.getN() / experts), k(type.getK()) {}

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
    packed = b.scratch(static_cast<uint64_t>(microPackedBytes(pack, 1, k)));
    linearScratch = b.scratch(static_cast<uint64_t>(microLinearScratchBytes(pack, 1)));
    routesPointer = l.pointer(routes);
    planes = l.pointers(bank);
    begin = b.min(b.mul(b.tileBegin(), kExpertTileUnits), b.constant(units));
    end = b.min(b.mul(b.tileEnd(), kExpertTileUnits), b.constant(units));
    return success();
  }

  void pack(Value x) { b.call(packFunction, {x, b.constant(1), b.constant(k), packed}); }

  /// First bank row of the expert in slot `slot` of row `row`.
  Value expertRow(Value row, Value slot) {
    Value at = b.add(b.mul(row, 2 * slots), slot);
    return b.mul(b.toInteger(b.load(b.f32Type(), b.floatAt(routesPointer, at))), rowsPerExpert);
  }
  Value weight(Value row, Value slot) {
    Value at = b.add(b.mul(row, 2 * slots), b.add(slot, b.constant(slots)));
    return b.load(b.f32Type(), b.floatAt(routesPointer, at));
  }

  /// out[0, end - begin) = bank rows [first + begin, first + end) times the packed row.
  void multiply(Value first, Value out) {
    b.callShared("$expert",
                 {planes[0], planes[1], planes[2], packed, b.add(first, begin), b.add(first, end),
                  out, linearScratch},
                 [&](ValueRange p) {
                   b.call(("ni_linear_" + format + "_" + profile).str(),
                          {p[0], p[1], p[2], p[3], b.constant(1), b.constant(k), p[4], p[5], p[6],
                           b.sub(p[5], p[4]), p[7]});
                 });
  }

  KernelLowering &l;
  KernelBuilder &b;
  llvm::StringRef profile, format, packFunction;
  WeightType type;
  Value bank, routes;
  int64_t slots, rowsPerExpert, k;
  Value packed, linearScratch, routesPointer, begin, end;
  llvm::SmallVector<Value, 3> planes;
};

} // namespace

LogicalResult lowerMoeUp(KernelLowering &l, llvm::StringRef profile) {
  auto op = l.single<MoeUpOp>();
  if (!op)
    return l.refuse("the kernel is not one moe_up");
  ExpertLowering e(l, profile, op.getBank(), op.getRoutes(), op.getExperts(), op.getTopK());
  const int64_t inner = e.rowsPerExpert / 2, width = KernelLowering::widthOf(op.getResult());
  if (failed(e.check(inner)))
    return failure();
  KernelBuilder &b = l.b;
  Value up = b.scratch(static_cast<uint64_t>(inner * 4));
  Value x = l.pointer(op.getX()), out = l.resultPointer(0);
  b.ifLess(e.begin, e.end, [&] {
    b.loop(b.constant(0), l.rowsOf(op.getX()), 1, [&](Value row) {
      e.pack(b.floatAt(x, b.mul(row, e.k)));
      b.loop(b.constant(0), b.constant(e.slots), 1, [&](Value slot) {
        Value first = e.expertRow(row, slot);
        Value at = b.floatAt(
            out, b.add(b.add(b.mul(row, width), b.mul(slot, inner)), e.begin));
        e.multiply(first, at);
        e.multiply(b.add(first, b.constant(inner)), up);
        b.call("ni_silu_mul", {at, up, b.sub(e.end, e.begin), at});
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
  Value part = b.scratch(static_cast<uint64_t>(width * 4));
  Value products = l.pointer(op.getProducts()), out = l.resultPointer(0);
  b.ifLess(e.begin, e.end, [&] {
    Value count = b.sub(e.end, e.begin);
    b.loop(b.constant(0), l.rowsOf(op.getProducts()), 1, [&](Value row) {
      Value at = b.floatAt(out, b.add(b.mul(row, width), e.begin));
      b.loop(b.constant(0), count, 1,
             [&](Value i) { b.store(b.f32(0), b.floatAt(at, i)); });
      b.loop(b.constant(0), b.constant(e.slots), 1, [&](Value slot) {
        e.pack(b.floatAt(products, b.mul(b.add(b.mul(row, e.slots), slot), e.k)));
        e.multiply(e.expertRow(row, slot), part);
        b.call("ni_scale_add", {part, e.weight(row, slot), count, at});
      });
    });
  });
  return success();
}

} // namespace ninfer::cpu
