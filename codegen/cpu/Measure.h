// Which choices of a kernel are fastest on this machine: compiles the variants and times them on made-up weights in more
// memory than the caches hold.
#ifndef NINFER_CODEGEN_CPU_MEASURE_H
#define NINFER_CODEGEN_CPU_MEASURE_H

#include "codegen/cpu/CpuCodegen.h"
#include "codegen/cpu/Tuning.h"
#include "dialects/ninfer/NinferDialect.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ninfer::cpu {

/// What a kernel asks for, and the choices worth timing; the default is the first. `digest` covers everything the answer
/// depends on but the machine: kernel with shapes, formats and rows, target and its features.
struct TuningRequest {
  std::string digest;
  std::vector<CpuTuning> variants;
};

/// Nothing for a kernel that has no choices.
std::optional<TuningRequest> tuningRequest(KernelOp kernel, const CpuTarget &target);

struct MeasureOptions {
  double seconds = 1;   ///< for timing one kernel; compiling comes on top
  unsigned threads = 1; ///< that run its tiles together, and that compile
  CachePlace cache; ///< for the code of the variants; empty: none
  std::function<bool()> cancelled;
};

struct Measured {
  CpuTuning best;
  double defaultNs = 0, bestNs = 0; ///< the fastest call of either
  unsigned rounds = 0;
};

/// A choice that is not the default must be this much faster than it, at its best and in the median of the rounds.
inline constexpr double kTuningGain = 0.03;

/// The target must be one that this machine runs. NB0543 when the compiled variants cannot be loaded or the kernel has
/// arguments this file cannot make up, NB0540 cancelled; errors of compileKernels.
Result<Measured> measureKernel(KernelOp kernel, const CpuTarget &target, const TuningRequest &request,
                               const MeasureOptions &options);

} // namespace ninfer::cpu

#endif // NINFER_CODEGEN_CPU_MEASURE_H
