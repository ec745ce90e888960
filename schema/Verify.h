// The one verifier of plan files, called by the builder after writing, by the runtime, by
// ninfer-inspect and by the fuzzer. It never reads outside the given bytes and never trusts a
// number before it checked it.
#ifndef NINFER_SCHEMA_VERIFY_H
#define NINFER_SCHEMA_VERIFY_H

#include "schema/View.h"
#include "support/Status.h"

#include <cstddef>
#include <span>
#include <string_view>

namespace ninfer {

/// Stage 1, then stage 2. The first broken rule is reported, with its path inside the plan.
Status verifyPlan(std::span<const std::byte> bytes, std::string_view fileName);

/// Stage 1: header, sizes, SHA-256, FlatBuffers structure, versions.
///   NB0501 not a plan file, NB0502 truncated or wrong sizes, NB0503 digest, NB0504 structure:
///   BadFile. NB0505 header, schema or kernel ABI version: TargetMismatch, "plan: X, this build:
///   Y".
Status verifyPlanStructure(std::span<const std::byte> bytes, std::string_view fileName);

/// Stage 2, only after stage 1: every index, range, alignment, overlap, arena, state and payload
/// bound, enum value, blob range and digest, tile count and name. NB0510..NB0529, BadFile.
Status verifyPlanMeaning(std::span<const std::byte> bytes, std::string_view fileName);

} // namespace ninfer

#endif // NINFER_SCHEMA_VERIFY_H
