// Where the choices of CPU kernels come from in one build: measured here, the cache of earlier measurements, a tuning file
// that binds, or nowhere (the defaults).
#ifndef NINFER_COMPILER_TUNE_H
#define NINFER_COMPILER_TUNE_H

#include "codegen/cpu/Tuning.h"
#include "compiler/Compiler.h"
#include "compiler/Targets.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace ninfer {

class Tuner {
public:
  explicit Tuner(const BuildOptions &options) : options_(options) {}

  /// Before any work: the options fit together (NB0403), the tuning file to read is right (NB0541; NB0901 missing), the
  /// one to write may be replaced (NB0905), and every CPU target can be timed here (NB0544).
  Status prepare(const std::vector<BuildTarget> &targets);

  bool active() const { return options_.tune != BuildOptions::Tune::Off || options_.locked; }

  /// Choices of the linear kernels of one target, by kernel name. `from` receives where each came from: "locked",
  /// "cache", "measured", "default". NB0542 a kernel without an entry in the file that binds; errors of Measure.h.
  Result<std::map<std::string, CpuTuning>> choose(mlir::ModuleOp module, const BuildTarget &target,
                                                  std::map<std::string, std::string> &from);

  /// SHA-256 over all choices made, for the provenance of the plan.
  std::string digest() const;
  /// Writes the file beside the plan that a later build takes as --locked. Nothing without --tune or without a plan.
  Status writeFile() const;
  /// Path of that file, or empty.
  std::string written() const;

private:
  std::string cachePath(const std::string &digest) const { return options_.cache.directory + "/" + digest + ".tuning"; }

  const BuildOptions &options_;
  TuningTable bound_;  ///< of --locked
  std::string boundName_;
  TuningTable chosen_; ///< of this build
  size_t cpuTargets_ = 0;
};

} // namespace ninfer

#endif // NINFER_COMPILER_TUNE_H
