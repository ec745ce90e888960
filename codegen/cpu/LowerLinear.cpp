// Family linear_*: [last_row] [rms_norm] -> linear maps of one input -> store, residual add, or
// swiglu.
//
// A tile is a granule of output rows of one segment (Tiling.h), for all activation rows. Each call
// normalises and packs the activation rows itself: that is less work than a barrier costs, and
// keeps the packed rows in the caches of the core that reads them. Above one row, rows are taken
// in blocks, so that scratch does not grow with the prefill chunk, and outputs too, so that the
// epilogue finds them in the first-level cache; how large is a choice (Tuning.h). Calls of one or two rows
// have larger blocks: what they wait for is memory, and every block begins the streams of its weights anew.
#include "codegen/cpu/KernelLowering.h"

#include "codegen/common/Tiling.h"
#include "codegen/cpu/kernels/MicroKernels.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace ninfer::cpu {

namespace {

/// Calls of at most so many activation rows, of kernels of several, take this many outputs at a time.
constexpr int64_t kFewRows = 2, kFewRowsOutputs = 2048;

/// One result of the kernel.
struct Segment {
  LinearOp linear; ///< swiglu: gate
  LinearOp up;     ///< swiglu only
  Value residual;  ///< residual only
  int64_t n = 0;
  unsigned result = 0;
};

class LinearLowering {
public:
  LinearLowering(KernelLowering &l, llvm::StringRef profile) : l(l), b(l.b), profile(profile) {}
  LogicalResult run();

private:
  LogicalResult matchInput(Value x);
  LogicalResult matchSegments();
  LogicalResult checkWeight(LinearOp linear);
  LogicalResult chooseGranule();
  MicroPack packOf(LinearOp linear) const;
  void emitRowBlock(Value firstRow, Value rows);
  /// upRowLength: of a row in upRows, outputs.
  void emitOutputs(const Segment &segment, Value firstRow, Value rows, Value begin, Value end, Value upRowLength);
  void callLinear(LinearOp linear, Value rows, Value begin, Value end, Value out, Value ldOut);

  KernelLowering &l;
  KernelBuilder &b;
  llvm::StringRef profile;

  int64_t k = 0, maxRows = 1, rowBlock = 1;
  int64_t group = 1; ///< rows of the call that make one row of the linear map
  Value input; ///< argument of the kernel
  RmsNormOp norm;
  LastRowOp lastRow;
  llvm::SmallVector<Segment> segments;
  int64_t granule = 0;
  std::vector<int64_t> firstTiles;

  Value inputPointer, normalised, linearScratch;
  Value upRows; ///< swiglu only
  /// The larger block of calls of kFewRows at most.
  int64_t fewRowsBlock() const { return std::max(kFewRowsOutputs, l.tuning.outputBlock); }
  llvm::SmallMapVector<int, Value, 2> packed; ///< MicroPack -> buffer
};

MicroPack LinearLowering::packOf(LinearOp linear) const {
  return microPackOf(llvm::cast<WeightType>(linear.getWeight().getType()).getFormat(), profile);
}

LogicalResult LinearLowering::matchInput(Value x) {
  for (Operation *op = x.getDefiningOp(); op; op = x.getDefiningOp()) {
    if (auto match = llvm::dyn_cast<RmsNormOp>(op); match && !norm) {
      if (!l.isArgument(match.getWeight()) || !isBf16Vector(match.getWeight()))
        return l.refuse("the norm weight must be a BF16 argument");
      norm = match;
      x = match.getX();
    } else if (auto match = llvm::dyn_cast<LastRowOp>(op); match && !lastRow) {
      lastRow = match;
      x = match.getX();
    } else {
      return l.refuse("prologue '" + op->getName().getStringRef() + "'");
    }
  }
  input = x;
  k = group * KernelLowering::widthOf(x);
  if (group != 1 && (norm || lastRow))
    return l.refuse("a row group takes no prologue");
  return success();
}

LogicalResult LinearLowering::checkWeight(LinearOp linear) {
  auto type = llvm::cast<WeightType>(linear.getWeight().getType());
  std::optional<llvm::StringRef> format = microFormatName(type.getFormat());
  bool grouped =
      format && (*format == "q4" || *format == "q5" || *format == "q6" || *format == "w8");
  if (!l.isArgument(linear.getWeight()))
    return l.refuse("weights must be arguments");
  if (!format || (profile != "f32" && !grouped))
    return l.refuse("format " + llvm::StringRef(canonicalName(type.getFormat())));
  if (profile == "a8" && linear.getPolicy() == ActivationPolicy::A16Only)
    return l.refuse("the policy of a weight is A16Only");
  return success();
}

LogicalResult LinearLowering::matchSegments() {
  size_t matched = 1 + (norm ? 1 : 0) + (lastRow ? 1 : 0); // and the terminator
  for (auto [index, result] : llvm::enumerate(l.results)) {
    Segment segment;
    segment.result = static_cast<unsigned>(index);
    Operation *op = result.getDefiningOp();
    if (auto add = llvm::dyn_cast<AddOp>(op)) {
      bool linearLeft = llvm::isa_and_nonnull<LinearOp>(add.getLhs().getDefiningOp());
      segment.linear = (linearLeft ? add.getLhs() : add.getRhs()).getDefiningOp<LinearOp>();
      segment.residual = linearLeft ? add.getRhs() : add.getLhs();
      if (!segment.linear || !l.isArgument(segment.residual))
        return l.refuse("an add must take one linear map and one argument");
      matched += 2;
    } else if (auto swiglu = llvm::dyn_cast<SwigluOp>(op)) {
      segment.linear = swiglu.getGate().getDefiningOp<LinearOp>();
      segment.up = swiglu.getUp().getDefiningOp<LinearOp>();
      if (!segment.linear || !segment.up || segment.linear == segment.up)
        return l.refuse("a swiglu must take two linear maps");
      matched += 3;
    } else {
      segment.linear = llvm::dyn_cast<LinearOp>(op);
      if (!segment.linear)
        return l.refuse("epilogue '" + op->getName().getStringRef() + "'");
      matched += 1;
    }
    segment.n = llvm::cast<WeightType>(segment.linear.getWeight().getType()).getN();
    segments.push_back(segment);
  }
  if (l.body->getOperations().size() != matched)
    return l.refuse("an operation is neither prologue, linear map nor epilogue");
  for (Segment &segment : segments)
    for (LinearOp linear : {segment.linear, segment.up}) {
      if (linear && (linear.getX() != segments.front().linear.getX() ||
                     linear.getRowGroup() != group))
        return l.refuse("linear maps must share their input");
      if (linear && failed(checkWeight(linear)))
        return failure();
    }
  return success();
}

LogicalResult LinearLowering::chooseGranule() {
  std::vector<int64_t> n;
  for (const Segment &segment : segments)
    n.push_back(segment.n);
  granule = linearGranule(n, maxRows);
  firstTiles = segmentFirstTiles(n, granule);
  if (firstTiles.back() == l.kernel.getTilesConst() && l.kernel.getTilesPerRow() == 0)
    return success();
  return l.refuse("outputs make " + llvm::Twine(firstTiles.back()) + " tiles of " +
                  llvm::Twine(granule) + ", the kernel has " +
                  llvm::Twine(l.kernel.getTilesConst()) + " + " +
                  llvm::Twine(l.kernel.getTilesPerRow()) + " per row");
}

LogicalResult LinearLowering::run() {
  if (profile != "f32" && profile != "a16" && profile != "a8")
    return l.refuse("unknown profile");
  for (Operation &op : *l.body)
    if (auto linear = llvm::dyn_cast<LinearOp>(op)) {
      group = linear.getRowGroup();
      if (failed(matchInput(linear.getX())))
        return failure();
      break;
    }
  if (!input)
    return l.refuse("there is no linear map");
  if (failed(matchSegments()))
    return failure();
  Value rowsLike = segments.front().linear.getResult();
  maxRows = std::max<int64_t>(1, l.maxRowsOf(rowsLike) / group);
  rowBlock = std::min(maxRows, l.tuning.rowBlock);
  if (failed(chooseGranule()))
    return failure();

  int64_t scratchBytes = 0, upElements = 0;
  for (const Segment &segment : segments)
    for (LinearOp linear : {segment.linear, segment.up})
      if (linear) {
        MicroPack pack = packOf(linear);
        Value &buffer = packed[static_cast<int>(pack)];
        if (!buffer)
          buffer = b.scratch(static_cast<uint64_t>(microPackedBytes(pack, rowBlock, k)));
        scratchBytes = std::max(scratchBytes, microLinearScratchBytes(pack, rowBlock));
        if (segment.up)
          upElements = std::max(upElements, maxRows == 1 ? segment.n
                                                         : std::max(rowBlock * l.tuning.outputBlock,
                                                                    std::min(rowBlock, kFewRows) * fewRowsBlock()));
      }
  linearScratch = b.scratch(static_cast<uint64_t>(scratchBytes));
  if (norm)
    normalised = b.scratch(static_cast<uint64_t>(std::min(rowBlock, kMicroPackRows) * k * 4));
  if (upElements > 0)
    upRows = b.scratch(static_cast<uint64_t>(upElements * 4));

  b.ifLess(b.tileBegin(), b.tileEnd(), [&] {
    inputPointer = l.pointer(input);
    if (lastRow)
      inputPointer = b.floatAt(inputPointer, b.mul(b.sub(l.rowsOf(input), b.constant(1)), k));
    Value rows = l.rowsOf(rowsLike);
    if (group != 1)
      rows = b.div(rows, group);
    b.loop(b.constant(0), rows, rowBlock, [&](Value first) {
      emitRowBlock(first, b.min(b.sub(rows, first), b.constant(rowBlock)));
    });
  });
  return success();
}

void LinearLowering::emitRowBlock(Value firstRow, Value rows) {
  Value x = b.floatAt(inputPointer, b.mul(firstRow, k));
  auto pack = [&](Value from, Value first) {
    for (auto [pack, buffer] : packed)
      if (norm && maxRows > 1)
        b.call(microPackPartFunction(static_cast<MicroPack>(pack)), {from, first, rows, b.constant(k), buffer});
      else
        b.call(microPackFunction(static_cast<MicroPack>(pack)), {from, rows, b.constant(k), buffer});
  };
  if (norm) { // a few rows at a time, so that they are packed from the first-level cache
    Value weight = l.pointer(norm.getWeight());
    Value unitOffset = b.f32(norm.getUnitOffset() ? 1 : 0), eps = b.f32(norm.getEps());
    b.loop(b.constant(0), rows, kMicroPackRows, [&](Value first) {
      Value part = b.floatAt(x, b.mul(first, k));
      b.loop(b.constant(0), b.min(b.sub(rows, first), b.constant(kMicroPackRows)), 1, [&](Value row) {
        Value at = b.mul(row, k);
        b.call("ni_rms_norm",
               {b.floatAt(part, at), weight, unitOffset, eps, b.constant(k), b.floatAt(normalised, at)});
      });
      pack(normalised, first);
    });
  } else {
    pack(x, Value());
  }

  const Value severalRows = b.select(b.less(b.constant(kFewRows), rows), b.constant(l.tuning.outputBlock), b.constant(fewRowsBlock()));
  for (auto [index, segment] : llvm::enumerate(segments)) {
    Value firstTile = b.constant(firstTiles[index]);
    Value tiles = b.constant(firstTiles[index + 1] - firstTiles[index]);
    auto unit = [&](Value tile) {
      Value inside = b.min(b.max(b.sub(tile, firstTile), b.constant(0)), tiles);
      return b.min(b.mul(inside, granule), b.constant(segment.n));
    };
    Value begin = unit(b.tileBegin()), end = unit(b.tileEnd());
    // One call reads its rows as streams far apart.
    if (maxRows == 1 && l.tuning.streamBlock == 0) {
      b.ifLess(begin, end, [&] { emitOutputs(segment, firstRow, rows, begin, end, b.constant(segment.n)); });
      continue;
    }
    const Value block = maxRows == 1 ? b.constant(l.tuning.streamBlock) : severalRows;
    b.loop(begin, end, block, [&](Value from) {
      emitOutputs(segment, firstRow, rows, from, b.min(b.add(from, block), end), block);
    });
  }
}

void LinearLowering::emitOutputs(const Segment &segment, Value firstRow, Value rows, Value begin, Value end,
                                 Value upRowLength) {
  auto at = [&](Value base) { return b.floatAt(base, b.add(b.mul(firstRow, segment.n), begin)); };
  Value out = at(l.resultPointer(segment.result)), count = b.sub(end, begin);
  callLinear(segment.linear, rows, begin, end, out, b.constant(segment.n));
  auto eachRow = [&](llvm::function_ref<void(Value row, Value outRow)> body) {
    b.loop(b.constant(0), rows, 1,
           [&](Value row) { body(row, b.floatAt(out, b.mul(row, segment.n))); });
  };
  if (segment.up) {
    callLinear(segment.up, rows, begin, end, upRows, upRowLength);
    eachRow([&](Value row, Value outRow) {
      b.call("ni_silu_mul", {outRow, b.floatAt(upRows, b.mul(row, upRowLength)), count, outRow});
    });
  }
  if (segment.residual) {
    Value residual = at(l.pointer(segment.residual));
    eachRow([&](Value row, Value outRow) {
      b.call("ni_add", {outRow, b.floatAt(residual, b.mul(row, segment.n)), count, outRow});
    });
  }
}

void LinearLowering::callLinear(LinearOp linear, Value rows, Value begin, Value end, Value out,
                                Value ldOut) {
  llvm::StringRef format =
      *microFormatName(llvm::cast<WeightType>(linear.getWeight().getType()).getFormat());
  std::string micro = ("ni_linear_" + format + "_" + profile).str();
  llvm::SmallVector<Value, 3> planes = l.pointers(linear.getWeight());
  Value packedRows = packed[static_cast<int>(packOf(linear))];
  llvm::SmallVector<Value> operands = {planes[0], planes[1], planes[2], packedRows, rows,         b.constant(k),
                                       begin,     end,       out,       ldOut,      linearScratch};
  if (maxRows > 1) { // all row counts are in there: large, and its loops are long whatever K is
    b.callOutlined(micro, operands);
    return;
  }
  operands.erase(operands.begin() + 4, operands.begin() + 6); // constants, the same in all calls
  b.callShared(("$linear_" + format).str(), operands, [&](ValueRange p) {
    b.call(micro, {p[0], p[1], p[2], p[3], b.constant(1), b.constant(k), p[4], p[5], p[6], p[7], p[8]});
  });
}

} // namespace

LogicalResult lowerLinear(KernelLowering &l, llvm::StringRef profile) {
  return LinearLowering(l, profile).run();
}

} // namespace ninfer::cpu
