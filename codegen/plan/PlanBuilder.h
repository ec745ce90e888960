// The last step of a build: modules after the plan pipeline, plus their machine code, become plan
// bytes. Owns the translation of IR values into argument references; decides nothing (kernels,
// offsets and tiles are read).
#ifndef NINFER_CODEGEN_PLAN_PLANBUILDER_H
#define NINFER_CODEGEN_PLAN_PLANBUILDER_H

#include "codegen/cuda/ir/CudaCodegen.h"
#include "mlir/IR/BuiltinOps.h"
#include "support/Status.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ninfer {

/// Entry point of one compiled `ninfer.kernel`.
struct PlanKernelCode {
  std::string name;   ///< symbol name of the ninfer.kernel
  std::string symbol; ///< ELF symbol
  uint64_t scratchBytes = 0;
};

/// One target section: a module with outlined kernels and planned memory, and the code of its
/// kernels.
struct PlanTargetInput {
  mlir::ModuleOp module;
  std::string name;     ///< "cpu:x86-64-v3", "reference"
  std::string executor; ///< "cpu", "cuda", "reference"; kernels of "reference" are built-ins
  std::vector<std::string> cpuFeatures; ///< what the loader must find
  std::vector<char> elf;                ///< empty for built-ins
  std::vector<PlanKernelCode> code;     ///< executor "cpu": one entry per kernel
  std::optional<cuda::CudaObject> cuda; ///< executor "cuda"
};

/// Which artifact the plan runs (schema/plan.fbs, ArtifactBinding).
struct PlanArtifact {
  uint32_t framing = 0;
  std::array<uint8_t, 32> storageSignature{};
  std::string fileName; ///< base name
  std::string publicName;
  uint64_t payloadBytes = 0;
  uint64_t headBytes = 0; ///< before the payload; 0: no head in the plan
  std::array<uint8_t, 32> headSha256{};
  struct Resource {
    std::string role;
    uint64_t offset = 0, bytes = 0; ///< in the payload
  };
  std::vector<Resource> resources;
};

struct PlanInput {
  PlanArtifact artifact;
  std::vector<PlanTargetInput> targets; ///< at least one; all of one model
  std::vector<std::pair<std::string, std::string>> provenance;
};

/// Bytes of the plan, verified. Same input, same bytes. Errors: NB0530 the module is not ready
/// (names the pass that did not run) or code is missing for a kernel; NB0531 a built-in refuses its
/// attributes; otherwise the verifier's (NB05xx).
Result<std::vector<std::byte>> buildPlanBytes(const PlanInput &input);

} // namespace ninfer

#endif // NINFER_CODEGEN_PLAN_PLANBUILDER_H
