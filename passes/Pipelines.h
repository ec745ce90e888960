// The pass pipeline from a component graph to launches with memory, and the registration for
// ninfer-opt.
#ifndef NINFER_PASSES_PIPELINES_H
#define NINFER_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"

#include <string>
#include <vector>

namespace ninfer {

struct PipelineOptions {
  std::string target =
      "cpu:x86-64-v3"; ///< "reference", "cpu:LEVEL" or "cuda:sm_N"; printed in messages and traces
  std::string executor = {}; ///< "cpu", "cuda" or "reference"; empty: what the target's name says
  /// CPU features in LLVM spelling; empty: those of the named level. A driver that resolved
  /// "native" fills both.
  std::vector<std::string> features = {};
};

/// bind-parameters, canonicalize, cse, split-phases, specialize-shapes, fuse (not for executor
/// "reference"), admit-kernels, outline-kernels, plan-memory. Runs on a builtin.module; one target
/// per module.
void buildPlanPipeline(mlir::OpPassManager &pm, const PipelineOptions &options);

/// Registers every pass by its flag, and the pipeline as `ninfer-plan{target=... executor=...
/// features=...}`.
void registerNinferPasses();

} // namespace ninfer

#endif // NINFER_PASSES_PIPELINES_H
