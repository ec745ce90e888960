// ninfer-fuse: the order of the fusions, and how a group is made.
#include "passes/Fuse.h"

#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ninfer {

#define GEN_PASS_DEF_FUSEPASS
#include "passes/Passes.h.inc"

FusedOp makeFused(llvm::StringRef kind, Operation *before, llvm::ArrayRef<Operation *> ops,
                  llvm::ArrayRef<Operation *> keep, llvm::ArrayRef<Value> inputs,
                  llvm::ArrayRef<Value> results) {
  OpBuilder builder(before);
  llvm::SmallVector<Operation *> own;
  llvm::copy_if(ops, std::back_inserter(own),
                [&](Operation *op) { return !llvm::is_contained(keep, op); });
  Location loc = groupLocation(own);
  llvm::SmallVector<Type> types;
  for (Value result : results)
    types.push_back(result.getType());
  auto fused = FusedOp::create(builder, loc, types, builder.getStringAttr(kind), inputs);

  Block *body = builder.createBlock(&fused.getBody());
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body->addArgument(input.getType(), loc));
  for (Operation *op : ops)
    builder.clone(*op, mapping);
  llvm::SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(mapping.lookup(result));
  YieldOp::create(builder, loc, yielded);

  for (auto [index, old] : llvm::enumerate(results))
    Value(old).replaceAllUsesWith(fused.getResult(index));
  for (Operation *op : llvm::reverse(ops))
    if (!llvm::is_contained(keep, op))
      op->erase();
  return fused;
}

namespace {

/// References have no operands: at the start of the block they are in nobody's way.
void hoistReferences(Block &block) {
  Operation *last = nullptr;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isa<ParamOp, StateRefOp>(op))
      continue;
    if (last)
      op.moveAfter(last);
    else
      op.moveBefore(&block, block.begin());
    last = &op;
  }
}

/// last_row(rms_norm(x, w)) = rms_norm(last_row(x), w): a norm treats every row on its own.
void sinkNormsBehindLastRow(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto last = dyn_cast<LastRowOp>(op);
    auto norm = last ? last.getX().getDefiningOp<RmsNormOp>() : RmsNormOp();
    if (!norm || !norm->hasOneUse())
      continue;
    OpBuilder builder(last);
    auto row = LastRowOp::create(builder, last.getLoc(), last.getType(), norm.getX());
    auto moved = cast<RmsNormOp>(builder.clone(*norm));
    moved.getXMutable().assign(row);
    moved.getResult().setType(last.getType());
    last.getResult().replaceAllUsesWith(moved.getResult());
    last.erase();
    norm.erase();
  }
}

struct FusePass : impl::FusePassBase<FusePass> {
  using FusePassBase::FusePassBase;

  void runOnOperation() override {
    const auto limits = [&](int64_t rows) { return fusionLimits(executor, rows); };
    for (func::FuncOp function : componentFunctions(getOperation())) {
      FailureOr<PhaseInfo> phase = phaseOf(function);
      if (failed(phase))
        return signalPassFailure();
      FailureOr<Block *> block = bodyOf(function);
      if (failed(block))
        return signalPassFailure();
      for (Operation &op : **block)
        if (op.hasAttr(NinferDialect::kFamily) || isa<LaunchOp>(op)) {
          emitError(op.getLoc())
              << "expected operations without an admitted kernel; ninfer-fuse runs before "
                 "ninfer-admit-kernels";
          return signalPassFailure();
        }
      hoistReferences(**block);
      sinkNormsBehindLastRow(**block);
      if (limits(phase->maxRows).ropeAppend)
        ropeAppendGroups += fuseRopeAppends(**block);
      linearGroups += fuseLinears(**block, phase->maxRows, limits);
    }
  }
};

} // namespace
} // namespace ninfer
