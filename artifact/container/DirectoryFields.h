// Pieces of a directory that all framings have, with their rules and limits. Internal to the
// container.
#ifndef NINFER_ARTIFACT_CONTAINER_DIRECTORYFIELDS_H
#define NINFER_ARTIFACT_CONTAINER_DIRECTORYFIELDS_H

#include "artifact/container/Directory.h"
#include "artifact/container/Limits.h"
#include "support/Checked.h"
#include "support/Json.h"

namespace ninfer {

class DirectoryFields {
public:
  static constexpr const char *kRule = "NB0105";

  explicit DirectoryFields(std::string fileName) : file_(std::move(fileName)) {}

protected:
  std::string at(const std::string &what) const { return file_ + ": " + what; }

  Status fail(const std::string &what, const std::string &why) const {
    return makeError(ErrorKind::BadFile, kRule, at(what) + ": " + why);
  }

  /// Nonempty string without NUL, at most kMaxNameBytes.
  Result<std::string> identifier(const Json &value, const std::string &what) const {
    NINFER_ASSIGN_OR_RETURN(std::string name, jsonIdentifier(value, at(what), kRule));
    if (name.size() > kMaxNameBytes)
      return fail(what, "a name of " + std::to_string(name.size()) + " bytes, at most " +
                            std::to_string(kMaxNameBytes) + " are allowed");
    return name;
  }

  Status nonemptyArray(const Json &value, const std::string &what, size_t limit) const {
    if (!value.is_array() || value.empty())
      return fail(what, "expected nonempty array, got " +
                            (value.is_array() ? "an empty one" : jsonExcerpt(value)));
    if (value.size() > limit)
      return fail(what, std::to_string(value.size()) + " members, at most " +
                            std::to_string(limit) + " are allowed");
    return {};
  }

  Result<std::vector<uint64_t>> shape(const Json &value, const std::string &what) const {
    if (!value.is_array() || value.size() > kMaxRank)
      return fail(what, "expected an array of 0 to " + std::to_string(kMaxRank) +
                            " dimensions, got " +
                            (value.is_array() ? std::to_string(value.size()) : jsonExcerpt(value)));
    std::vector<uint64_t> dims;
    for (size_t i = 0; i < value.size(); ++i) {
      NINFER_ASSIGN_OR_RETURN(
          uint64_t dim,
          jsonUnsigned(value[i], 1, UINT64_MAX, at(what + "[" + std::to_string(i) + "]"), kRule));
      dims.push_back(dim);
    }
    if (!checkedProduct(dims))
      return fail(what, "product of the dimensions exceeds 2^64-1");
    return dims;
  }

  /// `kind` of an object: true for a tensor.
  Result<bool> isTensor(const Json &json, const std::string &named) const {
    if (!json.contains("kind"))
      return fail(named, "missing member 'kind'");
    const Json &kind = json["kind"];
    if (kind != "tensor" && kind != "resource")
      return fail(named + ".kind", "expected \"tensor\" or \"resource\", got " + jsonExcerpt(kind));
    return kind == "tensor";
  }

  /// The members offset and bytes.
  Status extent(const Json &json, const std::string &named, ObjectEntry &object) const {
    NINFER_ASSIGN_OR_RETURN(
        object.offset, jsonUnsigned(json["offset"], 0, UINT64_MAX, at(named + ".offset"), kRule));
    NINFER_ASSIGN_OR_RETURN(
        object.bytes, jsonUnsigned(json["bytes"], 1, UINT64_MAX, at(named + ".bytes"), kRule));
    return {};
  }

  /// The object starts at or behind `cursor` and ends within the payload; moves `cursor` to its
  /// end.
  Status range(const ObjectEntry &object, const std::string &named, uint64_t payloadBytes,
               uint64_t &cursor) const {
    const auto end = checkedAdd(object.offset, object.bytes);
    if (!end)
      return fail(named, "offset + bytes exceeds 2^64-1");
    if (object.offset < cursor)
      return fail(named, "offset " + std::to_string(object.offset) +
                             " lies before the end of the previous object, " +
                             std::to_string(cursor) +
                             " (objects must be in payload order without overlap)");
    if (*end > payloadBytes)
      return fail(named, "ends at payload byte " + std::to_string(*end) + ", but the files hold " +
                             std::to_string(payloadBytes));
    cursor = *end;
    return {};
  }

  std::string file_;
};

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_DIRECTORYFIELDS_H
