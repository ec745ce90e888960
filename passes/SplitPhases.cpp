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
    if (failed(readLimits(module)))
      return signalPassFailure();
    for (func::FuncOp function : functions)
      if (failed(split(function)))
        return signalPassFailure();
  }

private:
  LogicalResult readLimits(ModuleOp module) {
    FailureOr<int64_t> rows = positiveModuleAttr(module, NinferDialect::kPrefillChunk);
    if (failed(rows))
      return failure();
    chunk = *rows;
    if (module->hasAttr(NinferDialect::kVerifyRows)) {
      rows = positiveModuleAttr(module, NinferDialect::kVerifyRows);
      if (failed(rows))
        return failure();
      verifyRows = *rows;
    }
    auto context = module->getAttrOfType<IntegerAttr>(NinferDialect::kMaxContext);
    for (auto [name, value] : {std::pair(NinferDialect::kPrefillChunk, chunk),
                               std::pair(NinferDialect::kVerifyRows, verifyRows)})
      if (context && value > context.getInt())
        return emitError(module.getLoc()) << "module attribute " << name << ": expected at most "
                                          << NinferDialect::kMaxContext << " " << context.getInt()
                                          << ", got " << value;
    return success();
  }

  /// Most rows of a call; none when the module does not say.
  std::optional<int64_t> maxRows(KernelPhase phase) {
    switch (phase) {
    case KernelPhase::Decode:
    case KernelPhase::DraftNext:
      return 1;
    case KernelPhase::Prefill:
      return chunk;
    case KernelPhase::Draft: // follows any call of the text model
      return std::max(chunk, verifyRows);
    case KernelPhase::Verify:
    case KernelPhase::Commit:
      return verifyRows ? std::optional(verifyRows) : std::nullopt;
    case KernelPhase::Encode: // made as they are
    case KernelPhase::Place:
      break;
    }
    return std::nullopt;
  }

  /// The phases that the function lists; by default one row at a time and a chunk at a time.
  FailureOr<llvm::SmallVector<KernelPhase>> phasesOf(func::FuncOp function) {
    if (!function->hasAttr(NinferDialect::kPhases))
      return llvm::SmallVector<KernelPhase>{KernelPhase::Decode, KernelPhase::Prefill};
    llvm::SmallVector<KernelPhase> phases;
    if (auto list = function->getAttrOfType<ArrayAttr>(NinferDialect::kPhases))
      for (Attribute entry : list) {
        auto name = dyn_cast<StringAttr>(entry);
        std::optional<KernelPhase> phase =
            name ? parseKernelPhase(name.getValue()) : std::nullopt;
        if (!phase || !maxRows(*phase))
          return emitFunctionError(function)
                 << NinferDialect::kPhases << ": " << entry << " is not a phase"
                 << (phase ? " of a module without its row count" : "");
        phases.push_back(*phase);
      }
    if (phases.empty())
      return emitFunctionError(function)
             << NinferDialect::kPhases << ": expected a list of phase names";
    return phases;
  }

  LogicalResult split(func::FuncOp function) {
    if (function.isDeclaration())
      return emitFunctionError(function) << "expected a body, got a declaration";
    FailureOr<llvm::SmallVector<KernelPhase>> phases = phasesOf(function);
    if (failed(phases))
      return failure();
    OpBuilder builder(function);
    for (KernelPhase phase : *phases) {
      const std::string suffix = "." + std::string(kernelPhaseName(phase));
      std::string name = function.getSymName().str();
      if (!llvm::StringRef(name).ends_with(suffix)) // "text.verify" is the verify phase of text
        name += suffix;
      Operation *taken = SymbolTable::lookupSymbolIn(getOperation(), name);
      if (taken && taken != function) {
        InFlightDiagnostic diag = emitFunctionError(function)
                                  << "expected '" << name << "' to be free";
        diag.attachNote(taken->getLoc()) << "it is defined here";
        return diag;
      }
      auto clone = cast<func::FuncOp>(builder.clone(*function));
      clone.setSymName(name);
      clone->removeAttr(NinferDialect::kPhases);
      clone->setAttr(NinferDialect::kPhase, builder.getStringAttr(kernelPhaseName(phase)));
      clone->setAttr(NinferDialect::kMaxRows, builder.getI64IntegerAttr(*maxRows(phase)));
    }
    function.erase();
    return success();
  }

  int64_t chunk = 0, verifyRows = 0; ///< 0: no verify phase
};

} // namespace
} // namespace ninfer
