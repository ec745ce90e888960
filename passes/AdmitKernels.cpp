// ninfer-admit-kernels: one kernel family per operation, by the catalog.
#include "codegen/common/Admission.h"
#include "passes/Passes.h"
#include "passes/SignatureOfOp.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ninfer {

#define GEN_PASS_DEF_ADMITKERNELSPASS
#include "passes/Passes.h.inc"

namespace {

ArrayAttr traceAttr(OpBuilder &builder, const AdmissionResult &admission) {
  llvm::SmallVector<Attribute> verdicts;
  for (const Verdict &verdict : admission.verdicts)
    verdicts.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr("candidate", builder.getStringAttr(verdict.family->name)),
         builder.getNamedAttr("verdict", builder.getStringAttr(verdictName(verdict.kind))),
         builder.getNamedAttr("reason", builder.getStringAttr(verdict.reason))}));
  return builder.getArrayAttr(verdicts);
}

struct AdmitKernelsPass : impl::AdmitKernelsPassBase<AdmitKernelsPass> {
  using AdmitKernelsPassBase::AdmitKernelsPassBase;

  void runOnOperation() override {
    FailureOr<KernelTarget> target = resolveTarget();
    if (failed(target))
      return signalPassFailure();
    bool failedAny = false;
    llvm::StringSet<> reported;
    if (target->storesBf16() && failed(markWideResults()))
      return signalPassFailure();
    for (func::FuncOp function : componentFunctions(getOperation())) {
      FailureOr<PhaseInfo> phase = phaseOf(function);
      FailureOr<Block *> block = bodyOf(function);
      if (failed(phase) || failed(block))
        return signalPassFailure();
      for (Operation &op : **block)
        if (becomesKernel(&op) && failed(admit(&op, *phase, *target, reported)))
          failedAny = true;
    }
    if (failedAny)
      signalPassFailure();
  }

private:
  /// Kernels shared by structure differ by what they store: float32 for the caller and for routers, columns of one buffer
  /// between a convolution and its delta rule.
  LogicalResult markWideResults() {
    for (func::FuncOp function : componentFunctions(getOperation())) {
      FailureOr<Block *> block = bodyOf(function);
      if (failed(block))
        return failure();
      for (Value value : (*block)->getTerminator()->getOperands()) {
        Operation *op = value.getDefiningOp();
        if (!op)
          continue;
        if (!value.hasOneUse())
          return op->emitOpError() << "is read by the caller and by others; this target stores activations in bfloat16 "
                                      "and what the caller reads in float32";
        op->setAttr(NinferDialect::kWide, UnitAttr::get(op->getContext()));
      }
    }
    getOperation().walk([](MoeRouteOp route) {
      if (Operation *op = route.getLogits().getDefiningOp())
        op->setAttr(NinferDialect::kWide, UnitAttr::get(op->getContext()));
    });
    getOperation().walk([](GatedDeltaOp delta) {
      auto conv = delta.getQuery().getDefiningOp<CausalConvOp>();
      const Value columns[] = {delta.getQuery(), delta.getKey(), delta.getValue()};
      if (!conv || !llvm::equal(columns, conv->getResults()) ||
          !llvm::all_of(conv->getUsers(), [&](Operation *user) { return user == delta; }))
        return;
      for (Operation *op : {delta.getOperation(), conv.getOperation()})
        op->setAttr(NinferDialect::kJoined, UnitAttr::get(op->getContext()));
    });
    return success();
  }

  /// Options win over what the target's name says, so that a driver can pass what it resolved
  /// itself.
  FailureOr<KernelTarget> resolveTarget() {
    if (!executor.empty() && !features.empty())
      return KernelTarget{target, executor, {features.begin(), features.end()}};
    Result<KernelTarget> parsed = parseKernelTarget(target);
    if (!parsed.ok()) {
      InFlightDiagnostic diag = emitError(getOperation().getLoc()) << parsed.error().message;
      for (const std::string &help : parsed.error().help)
        diag.attachNote() << help;
      return diag;
    }
    if (!executor.empty() && executor != parsed->executor)
      return emitError(getOperation().getLoc())
             << "executor of target '" << target << "': expected " << parsed->executor << ", got "
             << executor;
    if (!features.empty())
      parsed->features.assign(features.begin(), features.end());
    return parsed.take();
  }

  LogicalResult admit(Operation *op, const PhaseInfo &phase, const KernelTarget &target,
                      llvm::StringSet<> &reported) {
    FailureOr<KernelSignature> signature = signatureOf(op, phase);
    if (failed(signature))
      return failure();
    AdmissionResult admission = admitKernel(*signature, target);
    if (!admission.selected) {
      std::string message = noKernelMessage(*signature, target);
      if (!reported.insert(message).second)
        return failure(); // the same request of another layer
      InFlightDiagnostic diag = emitError(op->getLoc()) << message;
      if (admission.verdicts.empty())
        diag.attachNote() << "executor " << target.executor << " has no family for "
                          << opKindName(signature->op);
      for (const Verdict *verdict : admission.nearest())
        diag.attachNote() << verdict->family->name << ": " << verdictName(verdict->kind) << ": "
                          << verdict->reason;
      return diag;
    }
    OpBuilder builder(op);
    op->setAttr(NinferDialect::kFamily, builder.getStringAttr(admission.selected->name));
    op->setAttr(NinferDialect::kProfile,
                builder.getStringAttr(profileName(admission.selected->profile)));
    op->setAttr(NinferDialect::kTilesConst, builder.getI64IntegerAttr(admission.tiling.tilesConst));
    op->setAttr(NinferDialect::kTilesPerRow,
                builder.getI64IntegerAttr(admission.tiling.tilesPerRow));
    if (admission.tiling.granule != 0)
      op->setAttr(kGranule, builder.getI64IntegerAttr(admission.tiling.granule));
    op->setAttr(kSignature, builder.getStringAttr(describe(*signature)));
    op->setAttr(NinferDialect::kTrace, traceAttr(builder, admission));
    ++admitted;
    return success();
  }
};

} // namespace
} // namespace ninfer
