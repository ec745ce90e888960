#include "compiler/Lowering.h"

#include "codegen/common/KernelTarget.h"
#include "dialects/ninfer/NinferDialect.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace ninfer {
namespace {

constexpr llvm::StringLiteral kPrefix = "ninfer-";
constexpr llvm::StringLiteral kStages[] = {
    "bind-parameters", "split-phases",    "specialize-shapes", "fuse",
    "admit-kernels",   "outline-kernels", "plan-memory"};
/// Diagnostics beyond this many are counted, not listed.
constexpr size_t kMaxListed = 24;

/// Collects errors with their notes, in order, as lines "path: text".
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(MLIRContext *context)
      : handler_(context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
            add(diagnostic);
          return success(); // nothing is printed: the caller renders
        }) {}

  Status status(ErrorKind kind, const char *code, std::string fallback) {
    if (lines_.empty())
      return makeError(kind, code, std::move(fallback));
    Status status = makeError(kind, code, lines_.front());
    for (size_t i = 1; i < lines_.size() && i <= kMaxListed; ++i)
      status.note(lines_[i]);
    if (lines_.size() > kMaxListed + 1)
      status.note("and " + std::to_string(lines_.size() - kMaxListed - 1) + " more");
    return status;
  }

private:
  void add(Diagnostic &diagnostic) {
    std::string path;
    if (auto name = dyn_cast<NameLoc>(diagnostic.getLocation()))
      path = name.getName().str() + ": ";
    lines_.push_back(path + diagnostic.str());
    for (Diagnostic &note : diagnostic.getNotes())
      lines_.push_back(note.str());
  }

  std::vector<std::string> lines_;
  ScopedDiagnosticHandler handler_;
};

/// Hands out the IR after one pass and remembers which pass failed.
class StageObserver : public PassInstrumentation {
public:
  StageObserver(const BuildOptions &options, const BuildTarget &target, std::string &failedPass)
      : options_(options), target_(target), failedPass_(failedPass) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    if (!options_.emitStage.empty() && options_.emit &&
        pass->getArgument() == kPrefix.str() + options_.emitStage)
      options_.emit(target_.name, printIr(cast<ModuleOp>(op)));
  }
  void runAfterPassFailed(Pass *pass, Operation *) override {
    failedPass_ = pass->getArgument().str();
  }

private:
  const BuildOptions &options_;
  const BuildTarget &target_;
  std::string &failedPass_;
};

} // namespace

std::vector<std::string> emitStages() {
  std::vector<std::string> names = {"graph"};
  for (llvm::StringLiteral stage : kStages)
    names.push_back(stage.str());
  return names;
}

void prepareContext(MLIRContext &context) {
  context.disableMultithreading();
  context.loadDialect<NinferDialect, func::FuncDialect>();
}

std::string printIr(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << "\n";
  return text;
}

Result<OwningOpRef<ModuleOp>> lowerToGraph(MLIRContext &context, const ModelSpec &spec,
                                           const Directory &directory,
                                           const GraphOptions &options) {
  DiagnosticCollector diagnostics(&context);
  OwningOpRef<ModuleOp> module = buildGraph(context, spec, directory, options);
  if (!module)
    return diagnostics.status(ErrorKind::Unsupported, "NB0410",
                              "the graph of the model cannot be built");
  if (failed(verify(*module)))
    return diagnostics.status(ErrorKind::Failed, "NB0410",
                              "the graph of the model breaks a rule of its dialect");
  return module;
}

Status lowerToPlan(ModuleOp module, const BuildTarget &target, const BuildOptions &options) {
  DiagnosticCollector diagnostics(module.getContext());
  PassManager manager(module.getContext());
  std::string failedPass;
  manager.addInstrumentation(std::make_unique<StageObserver>(options, target, failedPass));
  PipelineOptions pipeline;
  pipeline.target = target.name;
  if (target.device) { // by its architecture, also when the target names a card
    pipeline.executor = target.executor;
    pipeline.features = parseKernelTarget("cuda:sm_" + std::to_string(target.device->sm))->features;
  }
  buildPlanPipeline(manager, pipeline);
  if (succeeded(manager.run(module)))
    return {};
  if (failedPass != "ninfer-admit-kernels")
    return diagnostics.status(ErrorKind::Unsupported, "NB0410",
                              "pass " + failedPass + " failed for " + target.name);
  Status status = diagnostics.status(ErrorKind::Unsupported, "NB0412",
                                     "an operation has no kernel on " + target.name);
  status.help("convert these tensors to a format one of the kernels accepts, or build for another "
              "--target");
  return status;
}

} // namespace ninfer
