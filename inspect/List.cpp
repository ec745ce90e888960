#include "inspect/List.h"

#include "artifact/container/Signature.h"
#include "inspect/Names.h"
#include "schema/TextTable.h"
#include "support/Sha256.h"

#include <set>

namespace ninfer {

namespace {

/// Number of parameters that read each object.
std::vector<uint64_t> parametersPerObject(const Directory &directory) {
  std::vector<uint64_t> counts(directory.objects.size());
  for (const auto &[name, binding] : directory.bindings) {
    std::set<uint32_t> objects;
    for (const RangePart &part : binding.parts)
      objects.insert(part.object);
    for (uint32_t object : objects)
      ++counts[object];
  }
  return counts;
}

std::string plural(uint64_t count, const std::string &noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

} // namespace

std::string listText(const Artifact &artifact) {
  const Directory &directory = artifact.directory();
  const std::vector<uint64_t> parameters = parametersPerObject(directory);
  std::string out = "artifact    " + artifact.path().string() + ": framing " +
                    std::to_string(directory.framing) + ", payload " +
                    binaryBytes(artifact.payloadBytes()) + ", " +
                    plural(directory.objects.size(), "object") + ", " +
                    plural(directory.bindings.size(), "parameter") + "\n";
  if (directory.identity)
    out += "model       " + directory.identity->modelId +
           (directory.identity->weightsId.empty() ? ""
                                                  : ", weights " + directory.identity->weightsId) +
           "\n";
  out += "signature   " + toHex(storageSignature(directory)) + "\n";
  if (directory.files.size() > 1)
    for (const FileEntry &file : directory.files)
      out += "file        " + file.path.value_or(artifact.path().filename().string()) + ": " +
             std::to_string(file.payloadBytes) + " bytes of payload\n";
  for (const auto &[name, component] : directory.components) {
    out += "component   " + name;
    if (component.config.is_object() && component.config.contains("architectures"))
      out += " " + component.config["architectures"].dump();
    out += "\n";
    for (const auto &[role, object] : component.resources)
      out += "  resource  " + role + ": " + std::to_string(directory.objects[object].bytes) +
             " bytes in '" + directory.objects[object].id + "'\n";
  }
  TextTable table("  ");
  table.row({"object", "shape", "format", "layout", "offset", "bytes", "parameters"});
  for (size_t i = 0; i < directory.objects.size(); ++i) {
    const ObjectEntry &object = directory.objects[i];
    table.row({object.id, object.isTensor ? dimensionsText(object.shape) : "-", formatText(object),
               layoutText(object), std::to_string(object.offset), std::to_string(object.bytes),
               object.isTensor ? std::to_string(parameters[i]) : "-"});
  }
  return out + table.render();
}

Json bindingJson(const Directory &directory, const Binding &binding) {
  if (binding.whole && binding.parts.size() == 1)
    return Json::object({{"object", directory.objects[binding.parts[0].object].id}});
  Json parts = Json::array();
  for (const RangePart &part : binding.parts)
    parts.push_back(Json::object({{"object", directory.objects[part.object].id},
                                  {"range", Json::array({part.begin, part.end})}}));
  return Json::object({{"parts", std::move(parts)}});
}

Json listJson(const Artifact &artifact) {
  const Directory &directory = artifact.directory();
  const std::vector<uint64_t> parameters = parametersPerObject(directory);
  Json out = {{"artifact", artifact.path().string()},
              {"framing", directory.framing},
              {"artifact_id", toHex(directory.artifactId)},
              {"storage_signature", toHex(storageSignature(directory))},
              {"payload_bytes", artifact.payloadBytes()}};
  if (directory.identity)
    out["identity"] = {{"model_id", directory.identity->modelId},
                       {"weights_id", directory.identity->weightsId}};
  Json files = Json::array();
  for (const FileEntry &file : directory.files)
    files.push_back({{"path", file.path ? Json(*file.path) : Json(nullptr)},
                     {"payload_bytes", file.payloadBytes}});
  out["files"] = std::move(files);
  Json components = Json::object();
  for (const auto &[name, component] : directory.components) {
    Json entry = {{"config", component.config}};
    if (component.target)
      entry["target"] = *component.target;
    Json resources = Json::object();
    for (const auto &[role, object] : component.resources)
      jsonAppend(resources, role, directory.objects[object].id);
    entry["resources"] = std::move(resources);
    if (component.proposal) {
      entry["proposal"] = {{"domain", component.proposal->indexed ? "indexed" : "full"}};
      if (component.proposal->indexed)
        entry["proposal"]["rows"] = component.proposal->rows;
    }
    jsonAppend(components, name, std::move(entry));
  }
  out["components"] = std::move(components);
  Json objects = Json::array();
  for (size_t i = 0; i < directory.objects.size(); ++i) {
    const ObjectEntry &object = directory.objects[i];
    Json entry = {{"id", object.id}, {"kind", object.isTensor ? "tensor" : "resource"}};
    if (object.isTensor) {
      entry["shape"] = object.shape;
      entry["format"] = formatText(object);
      entry["layout"] = layoutText(object);
      entry["parameters"] = parameters[i];
    } else {
      entry["encoding"] = object.encoding;
    }
    entry["offset"] = object.offset;
    entry["bytes"] = object.bytes;
    objects.push_back(std::move(entry));
  }
  out["objects"] = std::move(objects);
  Json bindings = Json::object();
  for (const auto &[name, binding] : directory.bindings)
    jsonAppend(bindings, name, bindingJson(directory, binding));
  out["bindings"] = std::move(bindings);
  Json uses = Json::array();
  for (const Use &use : directory.uses) {
    Json entry = {{"parameter", use.parameter}, {"input", use.input}};
    if (use.policy)
      entry["activation_policy"] = canonicalName(*use.policy);
    if (!use.auxiliaries.empty()) {
      Json auxiliaries = Json::object();
      for (const auto &[role, binding] : use.auxiliaries)
        jsonAppend(auxiliaries, role, bindingJson(directory, binding));
      entry["auxiliaries"] = std::move(auxiliaries);
    }
    uses.push_back(std::move(entry));
  }
  out["uses"] = std::move(uses);
  out["metadata"] = directory.metadata;
  return out;
}

} // namespace ninfer
