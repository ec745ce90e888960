// The kernel catalog: every kernel family of every executor, as a table of named limits over the
// full signature (docs/architecture.md, section 6). A family that needs a limit states it here:
// admission tests exactly these records, so an implementation may not assume anything the record
// does not say. Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_FAMILIES_H
#define NINFER_CODEGEN_COMMON_FAMILIES_H

#include "codegen/common/KernelTarget.h"
#include "codegen/common/Signature.h"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace ninfer {

/// Accepted values of one integer of the signature: min..max, and a multiple of `multiple`.
struct Limit {
  int64_t min = 0;
  int64_t max = INT64_MAX;
  int64_t multiple = 1;
  bool accepts(int64_t value) const {
    return value >= min && value <= max && value % multiple == 0;
  }
};

/// A set of enum values below 32.
template <typename Enum>
struct EnumSet {
  uint32_t bits = 0;
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<Enum> values) {
    for (Enum value : values)
      bits |= 1u << static_cast<unsigned>(value);
  }
  constexpr bool contains(Enum value) const { return (bits >> static_cast<unsigned>(value)) & 1u; }
};

/// Segments a fused linear kernel may have.
inline constexpr int64_t kMaxSegments = 8;

/// A function: the better profile depends on formats, rows and instructions.
using KernelPriority = int (*)(const KernelSignature &, const KernelTarget &);

/// One family: a kernel generator (or a built-in) and what it accepts. Limits apply to every
/// segment.
struct KernelFamily {
  std::string_view name;     ///< "linear_a16", "ref.linear"
  std::string_view executor; ///< "cpu", "cuda", "reference"
  OpKind op = OpKind::Linear;
  KernelProfile profile = KernelProfile::F32;

  EnumSet<Format> formats;     ///< of `weights`
  EnumSet<Format> normFormats; ///< of KernelSignature::normFormats
  EnumSet<KernelPrologue> prologues = {KernelPrologue::None};
  EnumSet<KernelEpilogue> epilogues = {KernelEpilogue::Store};
  EnumSet<StateCodec> codecs;
  EnumSet<KernelPhase> phases = {KernelPhase::Decode, KernelPhase::Prefill,   KernelPhase::Verify,
                                 KernelPhase::Draft,  KernelPhase::DraftNext, KernelPhase::Commit,
                                 KernelPhase::Encode, KernelPhase::Place};
  bool acceptsFused = false;
  bool storesWide = true; ///< can store its result in float32 (KernelSignature::wide)
  EnumSet<KernelEpilogue> uniformFormats; ///< epilogues with which all segments have one format
  /// Segments whose results are stored one by one; the residual epilogue takes one, swiglu two.
  int64_t storeSegments = kMaxSegments;
  int64_t wideSegments = kMaxSegments; ///< segments of a kernel that stores float32 (KernelSignature::wide)
  Limit headNorms{0, 2}; ///< norms of query and key heads (RopeAppend)
  Limit groupRows;       ///< rows times query heads of one KV head (Attention)
  Limit expertRows;      ///< rows of one expert in its bank (MoeUp, MoeDown)
  Limit peekRows{0, 0}; ///< rows of a call that leaves its state as it was; none: it cannot
  /// Least permissive policy under which the family may run.
  ActivationPolicy needsPolicy = ActivationPolicy::A16Only;

  Limit segments{0, 0};
  Limit n;
  Limit k;
  Limit rows{1, 4096};
  Limit inputRows{1, 4096}; ///< in front of a last_row
  Limit width;
  Limit heads;
  Limit kvHeads;
  Limit headDim;
  Limit keyDim;
  Limit rotaryDim;
  Limit taps;
  Limit rowGroup{1, 1};
  Limit experts;
  Limit topK;
  Limit capacity;

  /// Target features, all needed.
  std::span<const std::string_view> features = {};
  /// The same on a target that has neon, that is aarch64.
  std::span<const std::string_view> neonFeatures = {};
  /// Greater wins among the accepted.
  KernelPriority priority = nullptr;
};

/// All families, in the order traces print them.
std::span<const KernelFamily> kernelFamilies();

/// What the fused kernels of an executor take that serve `rows` rows, for a pass that makes groups: a
/// union over its families.
struct FusionLimits {
  EnumSet<KernelPrologue> prologues; ///< of linear groups; none: there are no such kernels
  EnumSet<KernelEpilogue> epilogues;
  int64_t storeSegments = 0;
  int64_t wideSegments = 0;
  EnumSet<KernelEpilogue> uniformFormats; ///< every family wants one format per group with these
  bool oneProfile = true; ///< all families compute with the same activations: any formats may share a group
  bool ropeAppend = false;
};
FusionLimits fusionLimits(std::string_view executor, int64_t rows);

/// Upper bound of the per-thread scratch of one call, bytes: normalised row, packed activations
/// (once per distinct group size), one tile of results; attention: scores of a block, queries and sums
/// of a pass, scales; full attention: packed keys and values; delta rule:
/// one block of normalised rows. Built-ins use none. Admission refuses more than kMaxScratchBytes.
uint64_t scratchBound(const KernelSignature &signature, const KernelFamily &family);
inline constexpr uint64_t kMaxScratchBytes = uint64_t{256} << 20;

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_FAMILIES_H
