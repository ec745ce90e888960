// The plan writer. FlatBuffers stores blob offsets, which depend on the size of the buffer itself,
// so the buffer is packed twice: first with non-zero stand-ins, then with the offsets the first
// size gives.
#include "schema/Build.h"

#include "runtime/abi/kernel_abi.h"
#include "schema/Verify.h"
#include "support/Sha256.h"

#include <cstring>

namespace ninfer {
namespace {

uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

void pack(flatbuffers::FlatBufferBuilder &builder, const plan::PlanT &plan) {
  builder.ForceDefaults(true); // the size must not depend on whether a value equals its default
  plan::FinishPlanBuffer(builder, plan::Plan::Pack(builder, &plan));
}

/// The least minor whose readers know all that is in the plan.
uint32_t minorOf(const plan::PlanT &plan) {
  for (const auto &target : plan.targets)
    for (const auto &phase : target->phases)
      if (phase->kind == plan::PhaseKind::Place || (phase->tokens && !phase->inputs.empty()))
        return kPlanSchemaMinor;
  return kPlanOldestMinor;
}

} // namespace

Result<std::vector<std::byte>> buildPlan(const plan::PlanT &input,
                                         const std::vector<PlanBlob> &blobs) {
  plan::PlanT plan(input);
  if (plan.schema_version == 0) {
    plan.schema_version = kPlanSchemaVersion;
    plan.schema_minor = minorOf(plan);
  }
  if (plan.kernel_abi_version == 0)
    plan.kernel_abi_version = NINFER_KERNEL_ABI_VERSION;
  for (const PlanBlob &blob : blobs) {
    auto entry = std::make_unique<plan::BlobT>();
    entry->name = blob.name;
    entry->offset = kPlanBlobAlign;
    entry->bytes = blob.bytes.size();
    const auto digest = sha256(blob.bytes);
    entry->sha256.assign(digest.begin(), digest.end());
    plan.blobs.push_back(std::move(entry));
  }

  flatbuffers::FlatBufferBuilder sizing;
  pack(sizing, plan);
  const uint64_t fbBytes = sizing.GetSize();
  uint64_t end = kPlanHeaderBytes + fbBytes;
  for (auto &entry : plan.blobs) {
    entry->offset = alignUp(end, kPlanBlobAlign);
    end = entry->offset + entry->bytes;
  }
  flatbuffers::FlatBufferBuilder builder;
  pack(builder, plan);
  if (builder.GetSize() != fbBytes)
    return makeError(ErrorKind::Failed, "NB0509",
                     "plan metadata changed size between its two packings");

  std::vector<std::byte> file(end);
  std::memcpy(file.data(), kPlanMagic, sizeof(kPlanMagic));
  flatbuffers::WriteScalar<uint32_t>(file.data() + 8, kPlanHeaderVersion);
  flatbuffers::WriteScalar<uint32_t>(file.data() + 12, static_cast<uint32_t>(kPlanHeaderBytes));
  flatbuffers::WriteScalar<uint64_t>(file.data() + 16, kPlanHeaderBytes);
  flatbuffers::WriteScalar<uint64_t>(file.data() + 24, fbBytes);
  flatbuffers::WriteScalar<uint64_t>(file.data() + 32, end);
  std::memcpy(file.data() + kPlanHeaderBytes, builder.GetBufferPointer(), fbBytes);
  for (size_t i = 0; i < blobs.size(); ++i)
    std::memcpy(file.data() + plan.blobs[i]->offset, blobs[i].bytes.data(), blobs[i].bytes.size());
  sealPlan(file);
  NINFER_RETURN_IF_ERROR(verifyPlan(file, "new plan"));
  return file;
}

void sealPlan(std::vector<std::byte> &file) {
  if (file.size() < kPlanHeaderBytes)
    return;
  const auto digest = sha256(std::span<const std::byte>(file).subspan(kPlanHeaderBytes));
  std::memcpy(file.data() + 40, digest.data(), digest.size());
}

} // namespace ninfer
