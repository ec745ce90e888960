// Writes plan bytes: header, FlatBuffer, blobs. The only writer of the format.
#ifndef NINFER_SCHEMA_BUILD_H
#define NINFER_SCHEMA_BUILD_H

#include "schema/View.h"
#include "support/Status.h"

#include <cstddef>
#include <string>
#include <vector>

namespace ninfer {

struct PlanBlob {
  std::string name;
  std::vector<std::byte> bytes; ///< not empty
};

/// Bytes of a plan file, a pure function of the arguments. `plan.blobs` is filled here (it must be
/// empty), in the order of `blobs`; a zero `schema_version` or `kernel_abi_version` is replaced by
/// this build's. The result has passed verifyPlan. Fails with the verifier's error when the
/// contents break a rule.
Result<std::vector<std::byte>> buildPlan(const plan::PlanT &plan,
                                         const std::vector<PlanBlob> &blobs);

/// Recomputes the header's SHA-256 over [4096, size) in place. For tests and tools that patch a
/// plan.
void sealPlan(std::vector<std::byte> &file);

} // namespace ninfer

#endif // NINFER_SCHEMA_BUILD_H
