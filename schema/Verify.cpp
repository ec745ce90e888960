// Stage 1 of the plan verifier: header, sizes, digest, FlatBuffers structure, version numbers.
#include "schema/Verify.h"

#include "runtime/abi/kernel_abi.h"
#include "support/Sha256.h"

#include <algorithm>
#include <cstring>

namespace ninfer {
namespace {

/// Nested at most: Plan > Target > Phase > Launch and Plan > Target > Trace > Verdict.
constexpr flatbuffers::uoffset_t kMaxDepth = 16;
constexpr flatbuffers::uoffset_t kMaxTables = 1u << 24;
/// FlatBuffers offsets are signed 32 bit.
constexpr uint64_t kMaxFlatBuffer = (1ull << 31) - 1;

/// Header fields at their fixed offsets (docs/plan-format.md).
constexpr size_t kOffVersion = 8, kOffHeaderBytes = 12, kOffFbOffset = 16, kOffFbBytes = 24,
                 kOffFileBytes = 32, kOffDigest = 40, kOffReserved = 72;

uint32_t u32(std::span<const std::byte> bytes, size_t at) {
  return flatbuffers::ReadScalar<uint32_t>(bytes.data() + at);
}
uint64_t u64(std::span<const std::byte> bytes, size_t at) {
  return flatbuffers::ReadScalar<uint64_t>(bytes.data() + at);
}

Error bad(std::string_view file, const char *code, std::string text) {
  return makeError(ErrorKind::BadFile, code, std::string(file) + ": " + std::move(text));
}

Error mismatch(std::string_view file, std::string_view what, std::string planHas,
               std::string buildHas) {
  Error error = makeError(ErrorKind::TargetMismatch, "NB0505",
                          std::string(file) + ": " + std::string(what) +
                              " differs: plan: " + planHas + ", this build: " + buildHas);
  error.help.push_back("build the plan again with the ninfer-build of this version");
  return error;
}

Status checkVersion(std::string_view file, std::string_view what, uint32_t planHas,
                    uint32_t buildHas) {
  if (planHas == buildHas)
    return {};
  return mismatch(file, what, std::to_string(planHas), std::to_string(buildHas));
}

Status checkHeader(std::span<const std::byte> bytes, std::string_view file) {
  if (bytes.size() < sizeof(kPlanMagic) ||
      std::memcmp(bytes.data(), kPlanMagic, sizeof(kPlanMagic)) != 0)
    return bad(file, "NB0501", "not a ninfer plan: the first 8 bytes are not \"NINPLAN\\0\"");
  if (bytes.size() < kOffHeaderBytes)
    return bad(file, "NB0502",
               "plan header is cut: " + std::to_string(bytes.size()) +
                   " bytes, expected at least 4096");
  NINFER_RETURN_IF_ERROR(
      checkVersion(file, "plan header version", u32(bytes, kOffVersion), kPlanHeaderVersion));
  if (bytes.size() < kPlanHeaderBytes)
    return bad(file, "NB0502",
               "plan header is cut: " + std::to_string(bytes.size()) +
                   " bytes, expected at least 4096");
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 8 != 0)
    return bad(file, "NB0502", "plan bytes are not 8-byte aligned in memory");

  auto field = [&](const char *name, uint64_t actual, uint64_t expected) -> Status {
    if (actual == expected)
      return {};
    return bad(file, "NB0502",
               std::string("plan header field ") + name + " is " + std::to_string(actual) +
                   ", expected " + std::to_string(expected));
  };
  NINFER_RETURN_IF_ERROR(field("header_bytes", u32(bytes, kOffHeaderBytes), kPlanHeaderBytes));
  NINFER_RETURN_IF_ERROR(field("fb_offset", u64(bytes, kOffFbOffset), kPlanHeaderBytes));
  if (u64(bytes, kOffFileBytes) != bytes.size())
    return bad(file, "NB0502",
               "plan is truncated or padded: header says " +
                   std::to_string(u64(bytes, kOffFileBytes)) + " bytes, the file has " +
                   std::to_string(bytes.size()));
  const uint64_t fbBytes = u64(bytes, kOffFbBytes);
  if (fbBytes < 8 || fbBytes > kMaxFlatBuffer || fbBytes > bytes.size() - kPlanHeaderBytes)
    return bad(file, "NB0502",
               "plan header field fb_bytes is " + std::to_string(fbBytes) + ", out of range");
  const auto reserved = bytes.subspan(kOffReserved, kPlanHeaderBytes - kOffReserved);
  if (std::any_of(reserved.begin(), reserved.end(), [](std::byte b) { return b != std::byte{0}; }))
    return bad(file, "NB0502", "reserved bytes of the plan header are not zero");

  const auto digest = sha256(bytes.subspan(kPlanHeaderBytes));
  if (std::memcmp(digest.data(), bytes.data() + kOffDigest, digest.size()) != 0)
    return bad(file, "NB0503",
               "SHA-256 of the plan body differs from its header: the file is corrupt");
  return {};
}

} // namespace

Status verifyPlanStructure(std::span<const std::byte> bytes, std::string_view file) {
  NINFER_RETURN_IF_ERROR(checkHeader(bytes, file));
  const uint64_t fbBytes = u64(bytes, kOffFbBytes);
  const auto *fb = reinterpret_cast<const uint8_t *>(bytes.data() + kPlanHeaderBytes);

  // The identifier carries the breaking version as its last character, so a schema whose tables
  // differ is refused by name and not by a structural accident.
  const char *identifier = flatbuffers::GetBufferIdentifier(fb);
  if (std::memcmp(identifier, plan::PlanIdentifier(), 4) != 0) {
    if (std::memcmp(identifier, plan::PlanIdentifier(), 3) == 0 && identifier[3] >= '0' &&
        identifier[3] <= '9')
      return mismatch(file, "plan schema", std::string(identifier, 4), plan::PlanIdentifier());
    return bad(file, "NB0504", "plan body does not carry the identifier NIP1");
  }
  flatbuffers::Verifier verifier(fb, fbBytes, kMaxDepth, kMaxTables);
  if (!plan::VerifyPlanBuffer(verifier))
    return bad(file, "NB0504", "plan body is not a well-formed FlatBuffer of plan.fbs");

  const plan::Plan *plan = plan::GetPlan(fb);
  NINFER_RETURN_IF_ERROR(
      checkVersion(file, "plan schema version", plan->schema_version(), kPlanSchemaVersion));
  if (plan->schema_minor() > kPlanSchemaMinor)
    return mismatch(file, "plan schema minor version", std::to_string(plan->schema_minor()),
                    "at most " + std::to_string(kPlanSchemaMinor));
  return checkVersion(file, "kernel ABI version", plan->kernel_abi_version(),
                      NINFER_KERNEL_ABI_VERSION);
}

Status verifyPlan(std::span<const std::byte> bytes, std::string_view file) {
  NINFER_RETURN_IF_ERROR(verifyPlanStructure(bytes, file));
  return verifyPlanMeaning(bytes, file);
}

} // namespace ninfer
