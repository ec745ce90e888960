// ninfer-specialize-shapes: static row counts where a function has one row, bounds checks
// elsewhere.
#include "passes/IRUtil.h"
#include "passes/Passes.h"

using namespace mlir;

namespace ninfer {

#define GEN_PASS_DEF_SPECIALIZESHAPESPASS
#include "passes/Passes.h.inc"

namespace {

/// Rows are the first dimension of every tensor of a component function; all dynamic ones are the
/// same number.
void setRows(Value value, int64_t rows) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() == 0 || !type.isDynamicDim(0))
    return;
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape.front() = rows;
  value.setType(type.clone(shape));
}

/// True if a row buffer takes or gives as many rows as the call has.
bool hasRowsOfTheCall(Value buffer) {
  return llvm::any_of(buffer.getUsers(), [](Operation *user) {
    Value rows;
    if (auto store = dyn_cast<StoreRowsOp>(user))
      rows = store.getX();
    else if (auto load = dyn_cast<LoadRowsOp>(user))
      rows = load.getResult();
    return rows && cast<RankedTensorType>(rows.getType()).isDynamicDim(0);
  });
}

/// Positions or rows a state holds; a recurrent state holds any number.
int64_t capacityOf(Value value) {
  Type state = value.getType();
  if (auto buffer = dyn_cast<RowBufferType>(state))
    return hasRowsOfTheCall(value) ? buffer.getRows() : INT64_MAX;
  if (auto cache = dyn_cast<KvCacheType>(state))
    return cache.getCapacity();
  if (auto table = dyn_cast<RopeTableType>(state))
    return table.getCapacity();
  return INT64_MAX;
}

struct SpecializeShapesPass : impl::SpecializeShapesPassBase<SpecializeShapesPass> {
  void runOnOperation() override {
    for (func::FuncOp function : componentFunctions(getOperation())) {
      FailureOr<PhaseInfo> phase = phaseOf(function);
      if (failed(phase) || failed(checkStates(function, *phase)))
        return signalPassFailure();
      if (phase->maxRows == 1)
        makeSingleRow(function);
    }
  }

private:
  LogicalResult checkStates(func::FuncOp function, const PhaseInfo &phase) {
    WalkResult walked = function.walk([&](StateRefOp ref) {
      int64_t capacity = capacityOf(ref.getResult());
      if (capacity >= phase.maxRows)
        return WalkResult::advance();
      InFlightDiagnostic diag = emitError(ref.getLoc())
                                << "state '" << ref.getState()
                                << "': expected to hold at least the " << phase.maxRows
                                << " rows of one call of '" << function.getSymName() << "', got "
                                << capacity << (isa<RowBufferType>(ref.getResult().getType()) ? " rows" : " positions");
      return WalkResult::interrupt();
    });
    return failure(walked.wasInterrupted());
  }

  void makeSingleRow(func::FuncOp function) {
    for (Region &region : function->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          setRows(argument, 1);
    function.walk([](Operation *op) {
      for (Value result : op->getResults())
        setRows(result, 1);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            setRows(argument, 1);
    });
    llvm::SmallVector<Type> results(function.getResultTypes());
    if (Block &body = function.getBody().front();
        auto ret = dyn_cast<func::ReturnOp>(body.getTerminator()))
      results.assign(ret.getOperandTypes().begin(), ret.getOperandTypes().end());
    function.setFunctionType(
        FunctionType::get(&getContext(), function.getBody().getArgumentTypes(), results));
    function.walk([](LastRowOp last) {
      if (last.getX().getType() != last.getResult().getType())
        return;
      last.getResult().replaceAllUsesWith(last.getX());
      last.erase();
    });
  }
};

} // namespace
} // namespace ninfer
