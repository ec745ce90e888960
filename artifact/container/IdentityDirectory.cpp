// Gates of a framing 1 or 2 directory, in the order of docs/container.md, section "Gates".
#include "artifact/container/DirectoryFields.h"
#include "artifact/container/Names.h"
#include "artifact/container/Reader.h"

#include <unordered_set>

namespace ninfer {

namespace {

class IdentityParser : DirectoryFields {
public:
  IdentityParser(std::string fileName, int framing, uint64_t payloadBytes)
      : DirectoryFields(std::move(fileName)), payloadBytes_(payloadBytes) {
    directory_.framing = framing;
    directory_.files = {FileEntry{std::nullopt, payloadBytes}};
    directory_.metadata = Json::object();
    directory_.provenance = Json::object();
  }

  Result<Directory> run(const Json &root) {
    NINFER_RETURN_IF_ERROR(parseIdentity(root));
    const Json &objects = root["objects"];
    NINFER_RETURN_IF_ERROR(nonemptyArray(objects, "objects", kMaxObjects));
    for (size_t i = 0; i < objects.size(); ++i)
      NINFER_RETURN_IF_ERROR(parseObject(objects[i], i));
    std::unordered_set<std::string_view> names;
    for (const ObjectEntry &object : directory_.objects)
      if (!names.insert(object.id).second)
        return fail("objects", "duplicate object name '" + object.id + "'");
    uint64_t cursor = 0;
    for (size_t i = 0; i < directory_.objects.size(); ++i) {
      const ObjectEntry &object = directory_.objects[i];
      NINFER_RETURN_IF_ERROR(range(object, "object '" + object.id + "'", payloadBytes_, cursor));
      NINFER_RETURN_IF_ERROR(checkObject(directory_, i, file_)); // what is left: the alignment
    }
    return std::move(directory_);
  }

private:
  Status parseIdentity(const Json &root) {
    Identity identity;
    if (directory_.framing == 1) {
      NINFER_RETURN_IF_ERROR(
          jsonMembers(root, {"model_id", "objects"}, {}, at("directory"), kRule));
      NINFER_ASSIGN_OR_RETURN(identity.modelId, identifier(root["model_id"], "model_id"));
    } else {
      NINFER_RETURN_IF_ERROR(
          jsonMembers(root, {"identity", "objects"}, {}, at("directory"), kRule));
      NINFER_RETURN_IF_ERROR(
          jsonMembers(root["identity"], {"model_id", "weights_id"}, {}, at("identity"), kRule));
      NINFER_ASSIGN_OR_RETURN(identity.modelId,
                              identifier(root["identity"]["model_id"], "identity.model_id"));
      NINFER_ASSIGN_OR_RETURN(identity.weightsId,
                              identifier(root["identity"]["weights_id"], "identity.weights_id"));
    }
    directory_.identity = std::move(identity);
    return {};
  }

  Status parseObject(const Json &json, size_t index) {
    const std::string place = "objects[" + std::to_string(index) + "]";
    if (!json.is_object())
      return fail(place, "expected object, got " + jsonExcerpt(json));
    const std::string named = json.contains("name") && json["name"].is_string()
                                  ? "object '" + json["name"].get<std::string>() + "'"
                                  : place;
    ObjectEntry object;
    NINFER_ASSIGN_OR_RETURN(object.isTensor, isTensor(json, named));
    NINFER_RETURN_IF_ERROR(
        object.isTensor
            ? jsonMembers(json, {"name", "kind", "shape", "format", "layout", "offset", "bytes"},
                          {}, at(named), kRule)
            : jsonMembers(json, {"name", "kind", "encoding", "offset", "bytes"}, {}, at(named),
                          kRule));
    NINFER_ASSIGN_OR_RETURN(object.id, identifier(json["name"], place + ".name"));
    if (object.isTensor) {
      NINFER_ASSIGN_OR_RETURN(object.shape, shape(json["shape"], named + ".shape"));
      NINFER_ASSIGN_OR_RETURN(object.formatName, identifier(json["format"], named + ".format"));
      NINFER_ASSIGN_OR_RETURN(object.layoutName, identifier(json["layout"], named + ".layout"));
      object.format = formatOfName(directory_.framing, object.formatName);
      object.layout = layoutOfName(directory_.framing, object.layoutName);
    } else {
      NINFER_ASSIGN_OR_RETURN(object.encoding, identifier(json["encoding"], named + ".encoding"));
    }
    NINFER_RETURN_IF_ERROR(extent(json, named, object));
    // The registry is asked here, object by object, not on first use as in framing 3. Alignment
    // comes after the names and ranges.
    const uint64_t offset = std::exchange(object.offset, 0);
    directory_.objects.push_back(std::move(object));
    NINFER_RETURN_IF_ERROR(checkObject(directory_, index, file_));
    directory_.objects.back().offset = offset;
    return {};
  }

  Directory directory_;
  uint64_t payloadBytes_;
};

} // namespace

Result<Directory> parseIdentityDirectory(std::string_view text, int framing, uint64_t payloadBytes,
                                         const std::string &fileName) {
  NINFER_ASSIGN_OR_RETURN(const Json root,
                          parseStrictJson(text, fileName + ": directory", "NB0104"));
  return IdentityParser(fileName, framing, payloadBytes).run(root);
}

} // namespace ninfer
