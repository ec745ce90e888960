// Admission: tests every family of the target's executor that computes the requested operator,
// records a verdict for each, and selects exactly one or explains why none fits. Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_ADMISSION_H
#define NINFER_CODEGEN_COMMON_ADMISSION_H

#include "codegen/common/Families.h"
#include "codegen/common/Tiling.h"

#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

enum class VerdictKind { Accepted, Rejected, LowerPriority, ForbiddenByPolicy };

/// "accepted", "rejected", "lower priority", "forbidden by policy".
std::string_view verdictName(VerdictKind kind);

struct Verdict {
  const KernelFamily *family = nullptr;
  VerdictKind kind = VerdictKind::Rejected;
  /// Rejected, forbidden: every failed predicate as "n: expected a multiple of 16, got 5120",
  /// joined by "; ". Lower priority: the winner and both priorities. Accepted: empty.
  std::string reason;
  int failures = 0; ///< number of failed predicates
};

struct AdmissionResult {
  const KernelFamily *selected = nullptr; ///< null: no admissible kernel
  std::vector<Verdict> verdicts;          ///< catalog order
  Tiling tiling;                          ///< of the selected kernel

  /// Candidates by number of failed predicates, then catalog order: what an error lists.
  std::vector<const Verdict *> nearest() const;
};

/// Never fails: an empty `selected` is the error, to be reported by the caller with its location.
AdmissionResult admitKernel(const KernelSignature &signature, const KernelTarget &target);

/// "no kernel for W8G32_F16S linear 34816x5120, rows 1..8, on cpu:x86-64-v3".
std::string noKernelMessage(const KernelSignature &signature, const KernelTarget &target);

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_ADMISSION_H
