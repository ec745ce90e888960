#include "passes/Pipelines.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ADT/StringRef.h"

using namespace mlir;

namespace ninfer {

namespace {
#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

struct PlanPipelineFlags : PassPipelineOptions<PlanPipelineFlags> {
  Option<std::string> target{*this, "target", llvm::cl::desc("target: reference, cpu:LEVEL or cuda:sm_N"),
                             llvm::cl::init(PipelineOptions().target)};
  Option<std::string> executor{*this, "executor",
                               llvm::cl::desc("executor, if the target's name does not tell it")};
  ListOption<std::string> features{*this, "features",
                                   llvm::cl::desc("target features, instead of the level's")};
};

/// The target's name tells the executor: "reference", else what stands before the colon.
std::string executorOf(const PipelineOptions &options) {
  if (!options.executor.empty())
    return options.executor;
  return llvm::StringRef(options.target).split(':').first.str();
}

} // namespace

void buildPlanPipeline(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createBindParametersPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createSplitPhasesPass());
  pm.addPass(createSpecializeShapesPass());
  if (executorOf(options) != "reference") {
    FusePassOptions fuse;
    fuse.executor = executorOf(options);
    pm.addPass(createFusePass(std::move(fuse)));
  }
  AdmitKernelsPassOptions admit;
  admit.target = options.target;
  admit.executor = options.executor;
  admit.features.assign(options.features.begin(), options.features.end());
  pm.addPass(createAdmitKernelsPass(std::move(admit)));
  pm.addPass(createOutlineKernelsPass());
  pm.addPass(createPlanMemoryPass());
}

void registerNinferPasses() {
  registerNinferPassesPasses();
  PassPipelineRegistration<PlanPipelineFlags>(
      "ninfer-plan", "From the graph of a component to launches with memory",
      [](OpPassManager &pm, const PlanPipelineFlags &flags) {
        PipelineOptions options;
        options.target = flags.target;
        options.executor = flags.executor;
        options.features.assign(flags.features.begin(), flags.features.end());
        buildPlanPipeline(pm, options);
      });
}

} // namespace ninfer
