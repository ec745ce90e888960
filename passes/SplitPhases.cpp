// ninfer-split-phases: one function per phase of a component.
#include "passes/IRUtil.h"
#include "passes/Passes.h"

using namespace mlir;

namespace ninfer {

#define GEN_PASS_DEF_SPLITPHASESPASS
#include "passes/Passes.h.inc"

namespace {

struct SplitPhasesPass : impl::SplitPhasesPassBase<SplitPhasesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::SmallVector<func::FuncOp> functions;
    for (func::FuncOp function : componentFunctions(module))
      if (!function->hasAttr(NinferDialect::kPhase))
        functions.push_back(function);
    if (functions.empty())
      return;
    FailureOr<int64_t> chunk = positiveModuleAttr(module, NinferDialect::kPrefillChunk);
    if (failed(chunk))
      return signalPassFailure();
    auto context = module->getAttrOfType<IntegerAttr>(NinferDialect::kMaxContext);
    if (context && *chunk > context.getInt()) {
      emitError(module.getLoc()) << "module attribute " << NinferDialect::kPrefillChunk
                                 << ": expected at most " << NinferDialect::kMaxContext << " "
                                 << context.getInt() << ", got " << *chunk;
      return signalPassFailure();
    }
    for (func::FuncOp function : functions)
      if (failed(split(function, *chunk)))
        return signalPassFailure();
  }

private:
  LogicalResult split(func::FuncOp function, int64_t chunk) {
    if (function.isDeclaration())
      return emitFunctionError(function) << "expected a body, got a declaration";
    const std::pair<KernelPhase, int64_t> phases[] = {{KernelPhase::Decode, 1},
                                                      {KernelPhase::Prefill, chunk}};
    OpBuilder builder(function);
    for (auto [phase, maxRows] : phases) {
      std::string name =
          (function.getSymName() + "." + llvm::StringRef(kernelPhaseName(phase))).str();
      if (Operation *taken = SymbolTable::lookupSymbolIn(getOperation(), name)) {
        InFlightDiagnostic diag = emitFunctionError(function)
                                  << "expected '" << name << "' to be free";
        diag.attachNote(taken->getLoc()) << "it is defined here";
        return diag;
      }
      auto clone = cast<func::FuncOp>(builder.clone(*function));
      clone.setSymName(name);
      clone->setAttr(NinferDialect::kPhase, builder.getStringAttr(kernelPhaseName(phase)));
      clone->setAttr(NinferDialect::kMaxRows, builder.getI64IntegerAttr(maxRows));
    }
    function.erase();
    return success();
  }
};

} // namespace
} // namespace ninfer
