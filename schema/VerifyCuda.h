// The part of stage 2 of the plan verifier that only CUDA targets have. Internal to Verify.
#ifndef NINFER_SCHEMA_VERIFYCUDA_H
#define NINFER_SCHEMA_VERIFYCUDA_H

#include "schema/View.h"

#include <optional>
#include <string>

namespace ninfer {

/// A broken rule: where, relative to the target, and "is 5, expected 3".
struct CudaFinding {
  std::string path, rule;
};

/// After the general rules of kernels, launches and references hold: descriptors, grids, and which memory each phase may
/// name. In a target of another executor: nothing of all that may be there.
std::optional<CudaFinding> verifyCuda(const plan::Target &target, uint32_t blobs);

} // namespace ninfer

#endif // NINFER_SCHEMA_VERIFYCUDA_H
