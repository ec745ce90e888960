// ninfer-plan-memory: arena offsets of activations, bytes of states.
#include "codegen/common/ArenaPlan.h"
#include "passes/IRUtil.h"
#include "passes/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace ninfer {

#define GEN_PASS_DEF_PLANMEMORYPASS
#include "passes/Passes.h.inc"

namespace {

constexpr uint64_t kWordBytes = 4; ///< float32 activations, int32 tokens

/// Bytes at the largest number of rows; nothing on overflow.
std::optional<uint64_t> bytesOf(RankedTensorType type, int64_t maxRows) {
  uint64_t bytes = kWordBytes;
  for (auto [index, size] : llvm::enumerate(type.getShape())) {
    uint64_t extent = static_cast<uint64_t>(index == 0 && type.isDynamicDim(0) ? maxRows : size);
    if (__builtin_mul_overflow(bytes, extent, &bytes))
      return std::nullopt;
  }
  return bytes;
}

/// The values of one function that live in the arena, in program order, with their lifetimes in
/// launches.
struct Liveness {
  llvm::MapVector<Value, size_t> index;
  std::vector<ArenaValue> values;
};

struct PlanMemoryPass : impl::PlanMemoryPassBase<PlanMemoryPass> {
  void runOnOperation() override {
    for (func::FuncOp function : componentFunctions(getOperation())) {
      FailureOr<PhaseInfo> phase = phaseOf(function);
      FailureOr<Block *> block = bodyOf(function);
      if (failed(phase) || failed(block) || failed(plan(function, **block, *phase)))
        return signalPassFailure();
    }
    for (auto state : getOperation().getOps<StateOp>()) {
      state->setAttr(kStateBytes,
                     OpBuilder(state).getI64IntegerAttr(stateBytes(state.getType())));
    }
  }

private:
  LogicalResult add(Liveness &live, Value value, int64_t step, const PhaseInfo &phase) {
    std::optional<uint64_t> bytes = bytesOf(cast<RankedTensorType>(value.getType()), phase.maxRows);
    if (!bytes)
      return emitError(value.getLoc()) << "activation of type " << value.getType() << " at "
                                       << phase.maxRows << " rows: expected less than 2^64 bytes";
    live.index.insert({value, live.values.size()});
    live.values.push_back({*bytes, step, step});
    return success();
  }

  /// What the first result of a launch is written over, or null. A tile of the family rope_append (CPU) rotates a head of a row, which no
  /// other tile reads, and reads each pair before it writes it: the rotated queries lie where the queries lay, if nothing else reads those.
  Value writtenOver(Operation &op) {
    auto launch = dyn_cast<LaunchOp>(op);
    auto kernel = launch ? SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr()) : KernelOp();
    if (!kernel || kernel.getFamily() != "rope_append")
      return {};
    // From the result through the kernel and the group of operations in it to the operand.
    Value value = kernel.getBlock()->getTerminator()->getOperand(0);
    auto fused = value.getDefiningOp<FusedOp>();
    if (fused)
      value = fused->getRegion(0).front().getTerminator()->getOperand(0);
    auto rope = value.getDefiningOp<RopeOp>();
    if (!rope)
      return {};
    auto norm = rope.getX().getDefiningOp<HeadNormOp>();
    value = norm ? norm.getX() : rope.getX();
    for (Operation *outer : {fused.getOperation(), &op}) {
      if (!outer) // the kernel has the operations themselves
        continue;
      auto argument = dyn_cast<BlockArgument>(value);
      if (!argument || !argument.hasOneUse())
        return {};
      value = outer->getOperand(argument.getArgNumber());
    }
    const bool same = value.hasOneUse() && value.getDefiningOp<LaunchOp>() && value.getType() == op.getResult(0).getType();
    return same ? value : Value();
  }

  /// A launch whose results are columns of one buffer (NinferDialect::kJoined).
  bool isJoined(Operation &op) {
    auto launch = dyn_cast<LaunchOp>(op);
    auto kernel = launch ? SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr()) : KernelOp();
    return kernel && op.getNumResults() > 1 && kernel.getBlock()->front().hasAttr(NinferDialect::kJoined);
  }

  LogicalResult addJoined(Liveness &live, Operation &op, int64_t step, const PhaseInfo &phase) {
    if (failed(add(live, op.getResult(0), step, phase)))
      return failure();
    const size_t place = live.values.size() - 1;
    for (Value result : op.getResults().drop_front()) {
      std::optional<uint64_t> bytes = bytesOf(cast<RankedTensorType>(result.getType()), phase.maxRows);
      if (!bytes || __builtin_add_overflow(live.values[place].bytes, *bytes, &live.values[place].bytes))
        return emitError(op.getLoc()) << "joined results: expected less than 2^64 bytes";
      live.index.insert({result, place});
    }
    return success();
  }

  /// Step 0 is before the first launch, launch i is step i + 1, the end is the last step.
  FailureOr<Liveness> analyse(func::FuncOp function, Block &block, const PhaseInfo &phase) {
    Liveness live;
    for (BlockArgument argument : block.getArguments())
      if (isa<RankedTensorType>(argument.getType()) && failed(add(live, argument, 0, phase)))
        return failure();
    for (BlockArgument argument : block.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), NinferDialect::kPort) &&
          !live.index.contains(argument))
        return emitFunctionError(function) << "argument " << argument.getArgNumber()
                                           << ": expected a tensor, since it is a port, got "
                                           << argument.getType();
    int64_t step = 0;
    for (Operation &op : block) {
      if (isa<ParamOp, StateRefOp, TapOp>(op))
        continue;
      if (!isa<LaunchOp, func::ReturnOp>(op))
        return op.emitOpError("expected launches only; ninfer-outline-kernels makes them");
      ++step;
      for (Value operand : op.getOperands())
        if (auto found = live.index.find(operand); found != live.index.end())
          live.values[found->second].end = step;
      if (isJoined(op)) {
        if (failed(addJoined(live, op, step, phase)))
          return failure();
        continue;
      }
      Value over = writtenOver(op);
      if (over && isJoined(*over.getDefiningOp()))
        over = {};
      for (Value result : op.getResults())
        if (over && result == op.getResult(0))
          live.index.insert({result, live.index.lookup(over)}); // one place with one lifetime
        else if (failed(add(live, result, step, phase)))
          return failure();
    }
    for (auto tap : block.getOps<TapOp>()) // read after the call
      if (auto found = live.index.find(tap.getX()); found != live.index.end())
        live.values[found->second].end = step;
    const bool takesInput = phase.phase != KernelPhase::Commit;
    if (live.index.empty() ||
        (takesInput && (!block.getNumArguments() || !live.index.contains(block.getArgument(0)))))
      return emitFunctionError(function)
             << (takesInput ? "expected a tensor as first argument: the tokens, or the first port"
                            : "expected a value in the arena");
    return live;
  }

  /// Taps become ports of the phase: named apart, each a value that a launch writes.
  LogicalResult checkTaps(Block &block) {
    llvm::StringMap<Location> names;
    for (auto tap : block.getOps<TapOp>()) {
      if (!tap.getX().getDefiningOp<LaunchOp>())
        return tap.emitOpError("'") << tap.getName() << "': expected a result of a launch";
      auto [slot, fresh] = names.try_emplace(tap.getName(), tap.getLoc());
      if (!fresh) {
        InFlightDiagnostic diag = tap.emitOpError("'")
                                  << tap.getName() << "': expected a name of its own";
        diag.attachNote(slot->second) << "the first tap of that name is here";
        return diag;
      }
    }
    return success();
  }

  LogicalResult plan(func::FuncOp function, Block &block, const PhaseInfo &phase) {
    FailureOr<Liveness> live = analyse(function, block, phase);
    if (failed(live))
      return failure();
    auto ret = cast<func::ReturnOp>(block.getTerminator());
    for (auto [index, value] : llvm::enumerate(ret.getOperands()))
      if (!value.getDefiningOp<LaunchOp>())
        return emitFunctionError(function)
               << "result " << index << ": expected a result of a launch";

    if (failed(checkTaps(block)))
      return failure();

    Result<ArenaPlan> arena = planArena(live->values);
    if (!arena.ok())
      return emitFunctionError(function) << arena.error().message;
    if (Status status = checkArena(live->values, *arena); !status.ok())
      return emitFunctionError(function) << status.error().message;

    OpBuilder builder(function);
    for (auto launch : block.getOps<LaunchOp>()) {
      llvm::SmallVector<int64_t> offsets;
      for (Value result : launch.getOutputs())
        offsets.push_back(static_cast<int64_t>(arena->offsets[live->index.lookup(result)]));
      launch.setOffsets(offsets);
    }
    function->setAttr(NinferDialect::kArenaBytes,
                      builder.getI64IntegerAttr(static_cast<int64_t>(arena->bytes)));
    llvm::SmallVector<int64_t> ports;
    for (BlockArgument argument : block.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), NinferDialect::kPort))
        ports.push_back(static_cast<int64_t>(arena->offsets[live->index.lookup(argument)]));
    if (!ports.empty())
      function->setAttr(NinferDialect::kPortOffsets, builder.getDenseI64ArrayAttr(ports));
    if (block.getNumArguments() && live->index.contains(block.getArgument(0)) &&
        !function.getArgAttr(0, NinferDialect::kPort)) // tokens may have ports beside them
      function->setAttr(NinferDialect::kTokensOffset,
                        builder.getI64IntegerAttr(static_cast<int64_t>(arena->offsets.front())));
    arenaBytes.updateMax(arena->bytes);
    return success();
  }
};

} // namespace
} // namespace ninfer
