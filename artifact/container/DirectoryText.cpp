// A directory as JSON text, in the member order of each framing.
#include "artifact/container/Writer.h"
#include "support/Json.h"

namespace ninfer {

namespace {

Json bindingJson(const Directory &directory, const Binding &binding) {
  if (binding.whole)
    return Json::object({{"object", directory.objects[binding.parts.at(0).object].id}});
  Json parts = Json::array();
  for (const RangePart &part : binding.parts)
    parts.push_back(Json::object({{"object", directory.objects[part.object].id},
                                  {"range", Json::array({part.begin, part.end})}}));
  return Json::object({{"parts", std::move(parts)}});
}

Json componentsJson(const Directory &directory) {
  Json out = Json::object();
  for (const auto &[name, component] : directory.components) {
    Json json = {{"config", component.config}};
    if (component.target)
      json["target"] = *component.target;
    if (!component.resources.empty()) {
      Json resources = Json::object();
      for (const auto &[role, object] : component.resources)
        resources[role] = directory.objects[object].id;
      json["resources"] = std::move(resources);
    }
    if (component.proposal) {
      json["proposal"] = {{"domain", component.proposal->indexed ? "indexed" : "full"}};
      if (component.proposal->indexed)
        json["proposal"]["rows"] = component.proposal->rows;
    }
    jsonAppend(out, name, std::move(json));
  }
  return out;
}

Json objectJson(const ObjectEntry &object) {
  if (object.isTensor)
    return Json{{"id", object.id},
                {"shape", object.shape},
                {"format", object.formatName},
                {"layout", object.layoutName},
                {"offset", object.offset},
                {"bytes", object.bytes},
                {"kind", "tensor"}};
  return Json{{"id", object.id},
              {"encoding", object.encoding},
              {"offset", object.offset},
              {"bytes", object.bytes},
              {"kind", "resource"}};
}

Json useJson(const Directory &directory, const Use &use) {
  Json json = {{"parameter", use.parameter}, {"input", use.input}};
  if (use.policy)
    json["activation_policy"] = std::string(canonicalName(*use.policy));
  if (!use.auxiliaries.empty()) {
    Json auxiliaries = Json::object();
    for (const auto &[role, binding] : use.auxiliaries)
      auxiliaries[role] = bindingJson(directory, binding);
    json["auxiliaries"] = std::move(auxiliaries);
  }
  return json;
}

/// Root of framing 1 or 2.
Json identityJson(const Directory &directory) {
  Json root = Json::object();
  const Identity identity = directory.identity.value_or(Identity());
  if (directory.framing == 1)
    root["model_id"] = identity.modelId;
  else
    root["identity"] = {{"model_id", identity.modelId}, {"weights_id", identity.weightsId}};
  Json objects = Json::array();
  for (const ObjectEntry &object : directory.objects) {
    Json json = {{"name", object.id}, {"kind", object.isTensor ? "tensor" : "resource"}};
    if (object.isTensor) {
      json["shape"] = object.shape;
      json["format"] = object.formatName;
      json["layout"] = object.layoutName;
    } else {
      json["encoding"] = object.encoding;
    }
    json["offset"] = object.offset;
    json["bytes"] = object.bytes;
    objects.push_back(std::move(json));
  }
  root["objects"] = std::move(objects);
  return root;
}

Result<std::string> dump(const Json &root) {
  try {
    return root.dump();
  } catch (const Json::type_error &error) { // the one thing that dump() cannot write
    return makeError(ErrorKind::Failed, "NB0107",
                     std::string("a name or value of the directory is not UTF-8 (") + error.what() +
                         ")");
  }
}

} // namespace

Result<std::string> encodeDirectory(const Directory &directory) {
  Json root = Json::object();
  if (directory.framing < 3)
    return dump(identityJson(directory));
  root["components"] = componentsJson(directory);
  Json objects = Json::array();
  for (const ObjectEntry &object : directory.objects)
    objects.push_back(objectJson(object));
  root["objects"] = std::move(objects);
  Json bindings = Json::object();
  for (const auto &[name, binding] : directory.bindings)
    jsonAppend(bindings, name, bindingJson(directory, binding));
  root["bindings"] = std::move(bindings);
  Json uses = Json::array();
  for (const Use &use : directory.uses)
    uses.push_back(useJson(directory, use));
  root["uses"] = std::move(uses);
  if (!directory.metadata.is_null())
    root["metadata"] = directory.metadata;
  if (!directory.provenance.is_null())
    root["provenance"] = directory.provenance;
  Json files = Json::array();
  for (const FileEntry &file : directory.files) {
    Json entry = {{"path", nullptr}, {"payload_bytes", file.payloadBytes}};
    if (file.path)
      entry["path"] = *file.path;
    files.push_back(std::move(entry));
  }
  root["files"] = std::move(files);
  return dump(root);
}

} // namespace ninfer
