// Read access to a plan file. A PlanView exists only after the one verifier (schema/Verify.h)
// accepted the bytes, so its users need no bounds checks of their own. Byte table and rules:
// docs/plan-format.md.
#ifndef NINFER_SCHEMA_VIEW_H
#define NINFER_SCHEMA_VIEW_H

#include "schema/plan_generated.h"
#include "support/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ninfer {

/// Version log of the plan file.
///   header 1: magic, sizes, SHA-256.   schema 1.0: first version.
///   schema 1.1: phases Draft, DraftNext, Commit, Encode; token_ids; ports.
///   schema 1.2: CUDA targets: space Packed, kernel kind Cuda, phase Load, ports of BF16.
///   schema 1.3: phase Place; input ports beside tokens. Later in 1.3, as readers need not know it: head of the artifact.
inline constexpr uint32_t kPlanHeaderVersion = 1;
inline constexpr uint32_t kPlanSchemaVersion = 1; ///< breaking
inline constexpr uint32_t kPlanSchemaMinor =
    3; ///< additive: a reader accepts any minor up to its own
/// What the writer states unless the plan has something newer, so that readers of that minor go on reading the others.
inline constexpr uint32_t kPlanOldestMinor = 2;
inline constexpr uint64_t kPlanHeaderBytes = 4096;
inline constexpr uint64_t kPlanBlobAlign = 4096;
inline constexpr uint64_t kPlanArgAlign =
    64; ///< arena, state and constant offsets of launch arguments
inline constexpr char kPlanMagic[8] = {'N', 'I', 'N', 'P', 'L', 'A', 'N', '\0'};

/// Bytes of one element of a port.
constexpr uint64_t elementBytes(plan::ElementType element) { return element == plan::ElementType::BF16 ? 2 : 4; }

/// A verified plan. Borrows the bytes it was opened on (usually a MappedFile); they must outlive
/// it.
class PlanView {
public:
  /// Verifies `bytes` (structure, then meaning) and returns the view. `bytes` must be 8-byte
  /// aligned, as a mapping is. `fileName` is used in messages only. Errors: BadFile (NB05xx), or
  /// TargetMismatch when the plan was written for another plan or kernel ABI version.
  static Result<PlanView> open(std::span<const std::byte> bytes, std::string_view fileName);

  const plan::Plan &plan() const { return *plan_; }
  const plan::Plan *operator->() const { return plan_; }

  /// Contents of blob `index` (index < plan().blobs()->size()); starts at a 4096-aligned file
  /// offset.
  std::span<const std::byte> blob(uint32_t index) const;

  /// The target of that exact name, or null.
  const plan::Target *findTarget(std::string_view name) const;

  /// The phase of that kind in `target`, or null. A verified target has one Decode and one Prefill
  /// phase and at most one Setup and one Verify phase.
  static const plan::Phase *findPhase(const plan::Target &target, plan::PhaseKind kind);

  std::span<const std::byte> bytes() const { return bytes_; }

private:
  PlanView(std::span<const std::byte> bytes, const plan::Plan *plan) : bytes_(bytes), plan_(plan) {}

  std::span<const std::byte> bytes_;
  const plan::Plan *plan_;
};

} // namespace ninfer

#endif // NINFER_SCHEMA_VIEW_H
