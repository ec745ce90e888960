// Gates of a framing 3 directory, in the order of docs/container.md, section "Gates".
#include "artifact/container/Directory.h"
#include "artifact/container/DirectoryFields.h"
#include "artifact/container/Names.h"
#include "artifact/container/Reader.h"

#include <set>
#include <unordered_map>

namespace ninfer {

const ObjectEntry *Directory::findObject(const std::string &id) const {
  for (const ObjectEntry &object : objects)
    if (object.id == id)
      return &object;
  return nullptr;
}

std::map<std::string, uint32_t> Directory::resourcesByRole() const {
  std::map<std::string, uint32_t> roles;
  if (framing != 3) { // no components but fixed names
    constexpr std::string_view kPrefix = "frontend/";
    for (uint32_t i = 0; i < objects.size(); ++i)
      if (!objects[i].isTensor && objects[i].id.starts_with(kPrefix))
        roles.emplace(objects[i].id.substr(kPrefix.size()), i);
    return roles;
  }
  for (const char *name : {"text", "vision"}) // their roles differ
    if (auto component = components.find(name); component != components.end())
      roles.insert(component->second.resources.begin(), component->second.resources.end());
  return roles;
}

namespace {

class Parser : DirectoryFields {
public:
  using DirectoryFields::DirectoryFields;

  Result<Directory> run(const Json &root) {
    directory_.framing = 3;
    NINFER_RETURN_IF_ERROR(jsonMembers(root, {"components", "objects", "bindings", "uses", "files"},
                                       {"metadata", "provenance"}, at("directory"), kRule));
    NINFER_RETURN_IF_ERROR(parseFiles(root["files"]));
    NINFER_RETURN_IF_ERROR(parseObjects(root["objects"]));
    NINFER_RETURN_IF_ERROR(parseComponents(root["components"]));
    NINFER_RETURN_IF_ERROR(parseBindings(root["bindings"]));
    NINFER_RETURN_IF_ERROR(parseUses(root["uses"]));
    NINFER_RETURN_IF_ERROR(parseFree(root, "metadata", directory_.metadata));
    NINFER_RETURN_IF_ERROR(parseFree(root, "provenance", directory_.provenance));
    if (directory_.metadata.contains("name"))
      NINFER_RETURN_IF_ERROR(identifier(directory_.metadata["name"], "metadata.name").takeStatus());
    return std::move(directory_);
  }

private:
  Status parseFiles(const Json &files) {
    NINFER_RETURN_IF_ERROR(nonemptyArray(files, "files", kMaxFiles));
    std::set<std::string> names;
    uint64_t total = 0;
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string what = "files[" + std::to_string(i) + "]";
      NINFER_RETURN_IF_ERROR(jsonMembers(files[i], {"path", "payload_bytes"}, {}, at(what), kRule));
      FileEntry entry;
      if (i == 0) {
        if (!files[i]["path"].is_null())
          return fail(what + ".path", "expected null, got " + jsonExcerpt(files[i]["path"]));
      } else {
        NINFER_ASSIGN_OR_RETURN(std::string name, identifier(files[i]["path"], what + ".path"));
        if (name.size() > kMaxFileNameBytes)
          return fail(what + ".path", "a file name of " + std::to_string(name.size()) +
                                          " bytes, at most " + std::to_string(kMaxFileNameBytes) +
                                          " are allowed");
        if (name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos)
          return fail(what + ".path",
                      "expected a plain file name beside the entry, got '" + name + "'");
        if (name == file_)
          return fail(what + ".path", "'" + name + "' is the entry file itself");
        if (!names.insert(name).second)
          return fail(what + ".path", "duplicate file name '" + name + "'");
        entry.path = std::move(name);
      }
      NINFER_ASSIGN_OR_RETURN(entry.payloadBytes,
                              jsonUnsigned(files[i]["payload_bytes"], 1, UINT64_MAX,
                                           at(what + ".payload_bytes"), kRule));
      const auto sum = checkedAdd(total, entry.payloadBytes);
      if (!sum)
        return fail("files", "total of payload_bytes exceeds 2^64-1");
      total = *sum;
      directory_.files.push_back(std::move(entry));
    }
    payloadBytes_ = total;
    return {};
  }

  Status parseObject(const Json &json, size_t index) {
    const std::string place = "objects[" + std::to_string(index) + "]";
    if (!json.is_object())
      return fail(place, "expected object, got " + jsonExcerpt(json));
    ObjectEntry object;
    const std::string named = json.contains("id") && json["id"].is_string()
                                  ? "object '" + json["id"].get<std::string>() + "'"
                                  : place;
    NINFER_ASSIGN_OR_RETURN(object.isTensor, isTensor(json, named));
    NINFER_RETURN_IF_ERROR(
        object.isTensor
            ? jsonMembers(json, {"id", "kind", "shape", "format", "layout", "offset", "bytes"}, {},
                          at(named), kRule)
            : jsonMembers(json, {"id", "kind", "encoding", "offset", "bytes"}, {}, at(named),
                          kRule));
    NINFER_ASSIGN_OR_RETURN(object.id, identifier(json["id"], place + ".id"));
    elements_.push_back(0);
    if (object.isTensor) {
      NINFER_ASSIGN_OR_RETURN(object.shape, shape(json["shape"], named + ".shape"));
      elements_.back() = *checkedProduct(object.shape);
      NINFER_ASSIGN_OR_RETURN(object.formatName, identifier(json["format"], named + ".format"));
      NINFER_ASSIGN_OR_RETURN(object.layoutName, identifier(json["layout"], named + ".layout"));
      object.format = formatOfName(3, object.formatName);
      object.layout = layoutOfName(3, object.layoutName);
    } else {
      NINFER_ASSIGN_OR_RETURN(object.encoding, identifier(json["encoding"], named + ".encoding"));
    }
    NINFER_RETURN_IF_ERROR(extent(json, named, object));

    if (!ids_.emplace(object.id, uint32_t(index)).second)
      return fail(place, "duplicate object id '" + object.id + "'");
    NINFER_RETURN_IF_ERROR(range(object, named, payloadBytes_, cursor_));
    directory_.objects.push_back(std::move(object));
    return {};
  }

  Status parseObjects(const Json &objects) {
    NINFER_RETURN_IF_ERROR(nonemptyArray(objects, "objects", kMaxObjects));
    for (size_t i = 0; i < objects.size(); ++i)
      NINFER_RETURN_IF_ERROR(parseObject(objects[i], i));
    return {};
  }

  Status parseProposal(const Json &json, const std::string &what, Component &component) {
    NINFER_RETURN_IF_ERROR(jsonMembers(json, {"domain"}, {"rows"}, at(what), kRule));
    Component::Proposal proposal;
    proposal.indexed = json["domain"] == "indexed";
    if (!proposal.indexed && json["domain"] != "full")
      return fail(what + ".domain",
                  "expected \"full\" or \"indexed\", got " + jsonExcerpt(json["domain"]));
    if (proposal.indexed) {
      if (!json.contains("rows"))
        return fail(what, "missing member 'rows'");
      NINFER_ASSIGN_OR_RETURN(proposal.rows,
                              jsonUnsigned(json["rows"], 1, UINT64_MAX, at(what + ".rows"), kRule));
    } else if (json.contains("rows")) {
      return fail(what, "domain \"full\" takes no member 'rows'");
    }
    component.proposal = proposal;
    return {};
  }

  Status parseComponents(const Json &components) {
    if (!components.is_object())
      return fail("components", "expected object, got " + jsonExcerpt(components));
    if (!components.contains("text"))
      return fail("components", "missing member 'text'");
    for (auto it = components.begin(); it != components.end(); ++it) {
      NINFER_RETURN_IF_ERROR(identifier(Json(it.key()), "components: name").takeStatus());
      const std::string what = "components." + it.key();
      NINFER_RETURN_IF_ERROR(jsonMembers(it.value(), {"config"},
                                         {"target", "resources", "proposal"}, at(what), kRule));
      Component component;
      component.config = it.value()["config"];
      if (!component.config.is_object())
        return fail(what + ".config", "expected object, got " + jsonExcerpt(component.config));
      if (it.value().contains("target")) {
        NINFER_ASSIGN_OR_RETURN(component.target,
                                identifier(it.value()["target"], what + ".target"));
        if (!components.contains(*component.target))
          return fail(what + ".target", "no component '" + *component.target + "'");
      }
      if (it.value().contains("resources")) {
        const Json &resources = it.value()["resources"];
        if (!resources.is_object())
          return fail(what + ".resources", "expected object, got " + jsonExcerpt(resources));
        for (auto role = resources.begin(); role != resources.end(); ++role) {
          const std::string roleAt = what + ".resources['" + role.key() + "']";
          NINFER_RETURN_IF_ERROR(
              identifier(Json(role.key()), what + ".resources: role").takeStatus());
          NINFER_ASSIGN_OR_RETURN(std::string id, identifier(role.value(), roleAt));
          const auto found = ids_.find(id);
          if (found == ids_.end() || directory_.objects[found->second].isTensor)
            return fail(roleAt, "'" + id + "' is not a resource object");
          component.resources.emplace(role.key(), found->second);
        }
      }
      if (it.value().contains("proposal")) {
        if (it.key() != "text")
          return fail(what + ".proposal", "only the component text may have one");
        NINFER_RETURN_IF_ERROR(
            parseProposal(it.value()["proposal"], what + ".proposal", component));
      }
      directory_.components.emplace(it.key(), std::move(component));
    }
    return {};
  }

  Result<uint32_t> tensorIndex(const Json &json, const std::string &what) {
    NINFER_ASSIGN_OR_RETURN(std::string id, identifier(json, what));
    const auto found = ids_.find(id);
    if (found == ids_.end() || !directory_.objects[found->second].isTensor)
      return fail(what, "'" + id + "' is not a tensor object");
    return found->second;
  }

  Result<Binding> parseBinding(const Json &json, const std::string &what) {
    Binding binding;
    if (!json.is_object())
      return fail(what, "expected object, got " + jsonExcerpt(json));
    if (!json.contains("parts")) {
      NINFER_RETURN_IF_ERROR(jsonMembers(json, {"object"}, {}, at(what), kRule));
      NINFER_ASSIGN_OR_RETURN(const uint32_t object, tensorIndex(json["object"], what + ".object"));
      binding.parts.push_back({object, 0, elements_[object]});
      return binding;
    }
    NINFER_RETURN_IF_ERROR(jsonMembers(json, {"parts"}, {}, at(what), kRule));
    binding.whole = false;
    const Json &parts = json["parts"];
    if (!parts.is_array() || parts.empty())
      return fail(what + ".parts", "expected nonempty array, got " +
                                       (parts.is_array() ? "an empty one" : jsonExcerpt(parts)));
    uint64_t total = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string partAt = what + ".parts[" + std::to_string(i) + "]";
      NINFER_RETURN_IF_ERROR(jsonMembers(parts[i], {"object", "range"}, {}, at(partAt), kRule));
      RangePart part;
      NINFER_ASSIGN_OR_RETURN(part.object, tensorIndex(parts[i]["object"], partAt + ".object"));
      const Json &range = parts[i]["range"];
      if (!range.is_array() || range.size() != 2)
        return fail(partAt + ".range",
                    "expected [begin, end], got " + (range.is_array()
                                                         ? std::to_string(range.size()) + " members"
                                                         : jsonExcerpt(range)));
      NINFER_ASSIGN_OR_RETURN(
          part.begin, jsonUnsigned(range[0], 0, UINT64_MAX, at(partAt + ".range[0]"), kRule));
      NINFER_ASSIGN_OR_RETURN(
          part.end, jsonUnsigned(range[1], 0, UINT64_MAX, at(partAt + ".range[1]"), kRule));
      if (part.begin >= part.end || part.end > elements_[part.object])
        return fail(partAt + ".range",
                    "[" + std::to_string(part.begin) + "," + std::to_string(part.end) +
                        "] is empty, reversed, or outside the " +
                        std::to_string(elements_[part.object]) + " elements of '" +
                        directory_.objects[part.object].id + "'");
      const auto sum = checkedAdd(total, part.end - part.begin);
      if (!sum)
        return fail(what, "total length of the parts exceeds 2^64-1");
      total = *sum;
      binding.parts.push_back(part);
    }
    return binding;
  }

  Status parseBindings(const Json &bindings) {
    if (!bindings.is_object())
      return fail("bindings", "expected object, got " + jsonExcerpt(bindings));
    for (auto it = bindings.begin(); it != bindings.end(); ++it) {
      NINFER_RETURN_IF_ERROR(identifier(Json(it.key()), "bindings: parameter name").takeStatus());
      NINFER_ASSIGN_OR_RETURN(Binding binding,
                              parseBinding(it.value(), "binding '" + it.key() + "'"));
      directory_.bindings.emplace(it.key(), std::move(binding));
    }
    return {};
  }

  Status parseUses(const Json &uses) {
    if (!uses.is_array())
      return fail("uses", "expected array, got " + jsonExcerpt(uses));
    std::set<std::pair<std::string, std::string>> seen;
    for (size_t i = 0; i < uses.size(); ++i) {
      std::string what = "uses[" + std::to_string(i) + "]";
      NINFER_RETURN_IF_ERROR(jsonMembers(uses[i], {"parameter", "input"},
                                         {"activation_policy", "auxiliaries"}, at(what), kRule));
      Use use;
      NINFER_ASSIGN_OR_RETURN(use.parameter, identifier(uses[i]["parameter"], what + ".parameter"));
      NINFER_ASSIGN_OR_RETURN(use.input, identifier(uses[i]["input"], what + ".input"));
      what = "use '" + use.parameter + "' @ '" + use.input + "'";
      if (!directory_.bindings.count(use.parameter))
        return fail(what, "no binding of this parameter");
      if (!seen.emplace(use.parameter, use.input).second)
        return fail(what, "duplicate use");
      if (uses[i].contains("activation_policy")) {
        NINFER_ASSIGN_OR_RETURN(std::string name, identifier(uses[i]["activation_policy"],
                                                             what + ".activation_policy"));
        use.policy = activationPolicyFromName(name);
        if (!use.policy)
          return fail(what + ".activation_policy",
                      "expected A16Only, AllowA8 or AllowA4, got '" + name + "'");
      }
      if (uses[i].contains("auxiliaries")) {
        const Json &auxiliaries = uses[i]["auxiliaries"];
        if (!auxiliaries.is_object())
          return fail(what + ".auxiliaries", "expected object, got " + jsonExcerpt(auxiliaries));
        for (auto it = auxiliaries.begin(); it != auxiliaries.end(); ++it) {
          NINFER_RETURN_IF_ERROR(
              identifier(Json(it.key()), what + ".auxiliaries: role").takeStatus());
          NINFER_ASSIGN_OR_RETURN(
              Binding binding, parseBinding(it.value(), what + ", auxiliary '" + it.key() + "'"));
          use.auxiliaries.emplace(it.key(), std::move(binding));
        }
      }
      directory_.uses.push_back(std::move(use));
    }
    return {};
  }

  Status parseFree(const Json &root, const char *name, Json &out) {
    out = Json::object();
    if (!root.contains(name))
      return {};
    out = root[name];
    if (!out.is_object())
      return fail(name, "expected object, got " + jsonExcerpt(out));
    return {};
  }

  Directory directory_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<uint64_t> elements_; ///< per object; 0 for resources
  uint64_t payloadBytes_ = 0, cursor_ = 0;
};

} // namespace

Result<Directory> parseDirectory(std::string_view text, const std::string &fileName) {
  NINFER_ASSIGN_OR_RETURN(const Json root,
                          parseStrictJson(text, fileName + ": directory", "NB0104"));
  return Parser(fileName).run(root);
}

} // namespace ninfer
