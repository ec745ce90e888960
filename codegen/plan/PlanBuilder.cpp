// Plan-wide tables: artifact, model, parameters, provenance, blobs; the target sections come from
// PlanTarget.cpp.
#include "codegen/plan/PlanBuilder.h"

#include "codegen/plan/PlanTarget.h"

using namespace mlir;

namespace ninfer {
namespace {

Result<std::unique_ptr<plan::ModelInfoT>> modelInfo(const PlanTargetInput &input) {
  auto model = std::make_unique<plan::ModelInfoT>();
  auto architecture = input.module->getAttrOfType<StringAttr>(NinferDialect::kArchitecture);
  if (!architecture)
    return planError(input.name, "the module has no ninfer.architecture");
  model->architecture = architecture.getValue();
  const std::pair<StringRef, uint32_t *> numbers[] = {
      {NinferDialect::kVocabSize, &model->vocab_size},
      {NinferDialect::kMaxContext, &model->max_context},
      {NinferDialect::kPrefillChunk, &model->prefill_chunk},
      {NinferDialect::kLayers, &model->layers}};
  for (auto [name, field] : numbers) {
    auto value = input.module->getAttrOfType<IntegerAttr>(name);
    if (!value)
      return planError(input.name, "the module has no " + name.str());
    *field = static_cast<uint32_t>(value.getInt());
  }
  return model;
}

std::unique_ptr<plan::ParameterT> parameterEntry(ParameterOp op) {
  auto parameter = std::make_unique<plan::ParameterT>();
  WeightType type = cast<WeightType>(op.getType());
  parameter->name = op.getSymName();
  parameter->shape.assign(type.getShape().begin(), type.getShape().end());
  parameter->format = canonicalName(type.getFormat());
  parameter->layout = canonicalName(type.getLayout());
  parameter->bytes = type.getEncodedBytes();
  return parameter;
}

std::unique_ptr<plan::ArtifactHeadT> headEntry(const PlanArtifact &artifact) {
  auto head = std::make_unique<plan::ArtifactHeadT>();
  head->bytes = artifact.headBytes;
  head->sha256.assign(artifact.headSha256.begin(), artifact.headSha256.end());
  for (const PlanArtifact::Resource &resource : artifact.resources) {
    head->resources.push_back(std::make_unique<plan::ResourceT>());
    head->resources.back()->role = resource.role;
    head->resources.back()->offset = resource.offset;
    head->resources.back()->bytes = resource.bytes;
  }
  return head;
}

} // namespace

Result<std::vector<std::byte>> buildPlanBytes(const PlanInput &input) {
  plan::PlanT plan;
  plan.artifact = std::make_unique<plan::ArtifactBindingT>();
  plan.artifact->framing = input.artifact.framing;
  plan.artifact->storage_signature.assign(input.artifact.storageSignature.begin(),
                                          input.artifact.storageSignature.end());
  plan.artifact->file_name = input.artifact.fileName;
  plan.artifact->public_name = input.artifact.publicName;
  plan.artifact->payload_bytes = input.artifact.payloadBytes;
  if (input.artifact.headBytes)
    plan.artifact->head = headEntry(input.artifact);
  NINFER_ASSIGN_OR_RETURN(plan.model, modelInfo(input.targets.front()));
  for (auto op : ModuleOp(input.targets.front().module).getOps<ParameterOp>())
    plan.parameters.push_back(parameterEntry(op));

  std::vector<PlanBlob> blobs;
  for (const PlanTargetInput &target : input.targets) {
    const auto blob = static_cast<uint32_t>(blobs.size());
    if (!target.elf.empty()) {
      const auto *bytes = reinterpret_cast<const std::byte *>(target.elf.data());
      blobs.push_back(
          {target.name + ".so", std::vector<std::byte>(bytes, bytes + target.elf.size())});
    }
    if (target.cuda)
      for (const cuda::Cubin &cubin : target.cuda->cubins) {
        const auto *bytes = reinterpret_cast<const std::byte *>(cubin.bytes.data());
        blobs.push_back({target.name + "/" + cubin.text.name + ".cubin", std::vector<std::byte>(bytes, bytes + cubin.bytes.size())});
      }
    auto section = buildTarget(target, blob);
    if (!section.ok())
      return section.takeStatus();
    plan.targets.push_back(section.take());
  }
  for (const auto &[key, value] : input.provenance) {
    auto entry = std::make_unique<plan::KeyValueT>();
    entry->key = key;
    entry->value = value;
    plan.provenance.push_back(std::move(entry));
  }
  return buildPlan(plan, blobs);
}

} // namespace ninfer
