#include "artifact/container/Manifest.h"

#include "artifact/container/Signature.h"
#include "support/Bytes.h"
#include "support/FileKind.h"
#include "support/Parallel.h"
#include "support/Sha256.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace ninfer {

namespace {

constexpr const char *kKind = "ninfer-side-manifest-1";
constexpr const char *kTool = "ninfer";
constexpr uint64_t kMaxManifestBytes = uint64_t(256) << 20;
constexpr size_t kWindow = size_t(16) << 20;
constexpr size_t kDigestDigits = 64;
constexpr uint64_t kPartHeaderBytes = 4096;

std::filesystem::path filePath(const Artifact &artifact, size_t file) {
  const auto &name = artifact.directory().files[file].path;
  return name ? artifact.path().parent_path() / *name : artifact.path();
}

struct Digests {
  std::vector<std::string> objects, files;
  std::vector<uint64_t> fileBytes;
  std::string directory;
};

/// The gates of a part, which range() opens as any reader does.
Status gateOf(const Artifact &artifact, const FileEntry &file, uint64_t start) {
  return file.path ? artifact.range(start, 1).takeStatus() : Status();
}

/// Hashes in windows, so that a cancelled run ends soon and few pages stay resident.
template <typename Source>
Result<std::string> hashWindows(std::span<const std::byte> bytes, const Source &source,
                                const ManifestOptions &options) {
  Sha256 hash;
  while (!bytes.empty()) {
    if (options.cancelled && options.cancelled())
      return makeError(ErrorKind::Interrupted, "NB0125", "hashing interrupted");
    const auto window = bytes.first(std::min(kWindow, bytes.size()));
    hash.update(window);
    bytes = bytes.subspan(window.size());
    source.release();
    if (options.onBytes)
      options.onBytes(window.size());
  }
  return toHex(hash.finish());
}

Result<Digests> computeDigests(const Artifact &artifact, const ManifestOptions &options) {
  const Directory &directory = artifact.directory();
  Digests out;
  out.objects.resize(directory.objects.size());
  out.files.resize(directory.files.size());
  out.fileBytes.resize(directory.files.size());
  out.directory = toHex(sha256(artifact.directoryText()));
  std::vector<uint64_t> starts;
  uint64_t start = 0;
  for (const FileEntry &file : directory.files) {
    starts.push_back(start);
    start += file.payloadBytes;
  }
  const size_t objects = directory.objects.size();
  NINFER_RETURN_IF_ERROR(
      parallelFor(objects + directory.files.size(), options.threads, [&](uint64_t i) -> Status {
        if (i < objects) {
          NINFER_ASSIGN_OR_RETURN(const auto bytes, artifact.object(i));
          NINFER_ASSIGN_OR_RETURN(out.objects[i], hashWindows(bytes, artifact, options));
          return {};
        }
        const size_t file = i - objects;
        NINFER_RETURN_IF_ERROR(gateOf(artifact, directory.files[file], starts[file]));
        NINFER_ASSIGN_OR_RETURN(const MappedFile mapped,
                                MappedFile::open(filePath(artifact, file)));
        out.fileBytes[file] = mapped.size();
        NINFER_ASSIGN_OR_RETURN(out.files[file], hashWindows(mapped.bytes(), mapped, options));
        return {};
      }));
  return out;
}

std::string canonicalFormat(const ObjectEntry &object) {
  return object.format ? std::string(canonicalName(*object.format)) : object.formatName;
}

std::string canonicalLayout(const ObjectEntry &object) {
  return object.layout ? std::string(canonicalName(*object.layout)) : object.layoutName;
}

/// What the artifact records about each object, under provenance.tensors; null elsewhere.
const Json &tensorProvenance(const Directory &directory) {
  static const Json kNone;
  const Json &provenance = directory.provenance;
  if (!provenance.is_object() || !provenance.contains("tensors") ||
      !provenance["tensors"].is_object())
    return kNone;
  return provenance["tensors"];
}

Json versionsJson(const Directory &directory) {
  std::set<std::string> formats, layouts, encoders;
  for (const ObjectEntry &object : directory.objects)
    if (object.isTensor) {
      formats.insert(canonicalFormat(object));
      layouts.insert(canonicalLayout(object));
    }
  // [source type, what happened, encoder]
  for (const auto &[id, entry] : tensorProvenance(directory).items())
    if (entry.is_array() && entry.size() == 3 && entry[2].is_string())
      encoders.insert(entry[2].get<std::string>());
  return {{"formats", formats}, {"layouts", layouts}, {"encoders", encoders}};
}

/// What the artifact says about its origin, but for the tensors, which are listed with the objects.
Json originJson(const Directory &directory) {
  Json provenance = directory.provenance;
  if (provenance.is_object())
    provenance.erase("tensors");
  return provenance;
}

Json containerJson(const Artifact &artifact, const Digests &digests) {
  const Directory &directory = artifact.directory();
  return {{"framing", directory.framing},
          {"artifact_id", toHex(directory.artifactId)},
          {"storage_signature", toHex(storageSignature(directory))},
          {"directory_bytes", artifact.directoryText().size()},
          {"directory_sha256", digests.directory}};
}

/// Provenance by object id; looked up once per object.
using ProvenanceIndex = std::map<std::string, const Json *>;
ProvenanceIndex provenanceIndex(const Directory &directory) {
  ProvenanceIndex out;
  for (const auto &[id, entry] : tensorProvenance(directory).items())
    out.emplace(id, &entry);
  return out;
}

Json objectJson(const ObjectEntry &object, const std::string &digest,
                const ProvenanceIndex &provenance) {
  Json entry = {{"id", object.id}, {"offset", object.offset}, {"bytes", object.bytes}};
  if (object.isTensor) {
    entry["shape"] = object.shape;
    entry["format"] = canonicalFormat(object);
    entry["layout"] = canonicalLayout(object);
  }
  if (const auto found = provenance.find(object.id); found != provenance.end())
    entry["provenance"] = *found->second;
  entry["sha256"] = digest;
  return entry;
}

/// Where two values differ first; members are looked up by name, in any order.
struct ValueDifference {
  std::string path;             ///< ".source.files[0].name"; empty: the values themselves
  std::string recorded, actual; ///< excerpts, "nothing" for a member of one side only
};

std::optional<ValueDifference> firstDifference(const nlohmann::json &recorded,
                                               const nlohmann::json &actual) {
  const auto excerpt = [](const nlohmann::json &value) { return jsonExcerpt(Json(value)); };
  const auto below = [](std::string step, std::optional<ValueDifference> inner) {
    if (inner)
      inner->path = std::move(step) + inner->path;
    return inner;
  };
  if (recorded.is_object() && actual.is_object()) {
    for (const auto &[name, value] : actual.items()) {
      const auto found = recorded.find(name);
      if (found == recorded.end())
        return ValueDifference{"." + name, "nothing", excerpt(value)};
      if (auto inner = below("." + name, firstDifference(*found, value)))
        return inner;
    }
    for (const auto &[name, value] : recorded.items())
      if (!actual.contains(name))
        return ValueDifference{"." + name, excerpt(value), "nothing"};
    return {};
  }
  if (recorded.is_array() && actual.is_array()) {
    for (size_t i = 0; i < std::max(recorded.size(), actual.size()); ++i) {
      const std::string step = "[" + std::to_string(i) + "]";
      if (i >= std::min(recorded.size(), actual.size()))
        return ValueDifference{step, i < recorded.size() ? excerpt(recorded[i]) : "nothing",
                               i < actual.size() ? excerpt(actual[i]) : "nothing"};
      if (auto inner = below(step, firstDifference(recorded[i], actual[i])))
        return inner;
    }
    return {};
  }
  if (recorded.dump() == actual.dump()) // 1 and 1.0 are two statements
    return {};
  return ValueDifference{"", excerpt(recorded), excerpt(actual)};
}

class Comparison {
public:
  Comparison(std::string where, size_t maxFindings)
      : where_(std::move(where)), maxFindings_(maxFindings) {}

  void digest(const std::string &what, const std::string &recorded, const std::string &actual) {
    if (recorded != actual)
      add(what + ": SHA-256 is " + actual + ", the manifest has " + recorded);
  }
  void number(const std::string &what, uint64_t recorded, uint64_t actual) {
    if (recorded != actual)
      add(what + " is " + std::to_string(actual) + ", the manifest has " +
          std::to_string(recorded));
  }
  void text(const std::string &what, const std::string &recorded, const std::string &actual) {
    if (recorded != actual)
      add(what + " is " + actual + ", the manifest has " + recorded);
  }
  /// Any JSON value; names the first member that differs.
  void value(const std::string &what, const Json &recorded, const Json &actual) {
    if (const auto difference = firstDifference(recorded, actual))
      text(what + difference->path, difference->recorded, difference->actual);
  }
  /// An optional member of the entries of one object.
  void member(const std::string &what, const char *name, const Json &recorded, const Json &actual) {
    const auto left = recorded.find(name), right = actual.find(name);
    if (left != recorded.end() && right != actual.end())
      value(what + ": " + name, *left, *right);
    else if (left != recorded.end() || right != actual.end())
      text(what + ": " + name, left != recorded.end() ? jsonExcerpt(*left) : "nothing",
           right != actual.end() ? jsonExcerpt(*right) : "nothing");
  }
  void add(std::string finding) {
    ++count_;
    if (findings_.size() < std::max<size_t>(1, maxFindings_))
      findings_.push_back(std::move(finding));
  }
  Status status() const {
    if (count_ == 0)
      return {};
    Status status = makeError(ErrorKind::BadFile, "NB0124", where_ + ": " + findings_[0]);
    for (size_t i = 1; i < findings_.size(); ++i)
      status.note(findings_[i]);
    if (count_ > findings_.size())
      status.note(std::to_string(count_ - findings_.size()) + " more differences");
    return status;
  }

private:
  std::string where_;
  size_t maxFindings_;
  uint64_t count_ = 0;
  std::vector<std::string> findings_;
};

/// What a manifest records, after its structure was checked.
struct Recorded {
  struct Item {
    std::string name; ///< empty: the entry file
    uint64_t offset = 0, bytes = 0;
    std::string digest;
    const Json *entry = nullptr; ///< in the manifest
  };
  uint64_t framing = 0, directoryBytes = 0;
  std::string artifactId, signature, directoryDigest;
  std::vector<Item> files, objects;
};

Result<std::string> hexField(const Json &value, size_t digits, const std::string &what) {
  const std::string text = value.is_string() ? value.get<std::string>() : std::string();
  if (text.size() != digits || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return makeError(ErrorKind::BadFile, "NB0123",
                     what + ": expected " + std::to_string(digits) +
                         " lower-case hexadecimal digits, got " + jsonExcerpt(value));
  return text;
}

Status isArray(const Json &value, const std::string &what) {
  if (value.is_array())
    return {};
  return makeError(ErrorKind::BadFile, "NB0123",
                   what + ": expected an array, got " + jsonExcerpt(value));
}

Result<Recorded::Item> parseFile(const Json &value, const std::string &what) {
  NINFER_RETURN_IF_ERROR(jsonMembers(value, {"path", "bytes", "sha256"}, {}, what, "NB0123"));
  Recorded::Item item;
  item.entry = &value;
  if (!value["path"].is_null()) {
    NINFER_ASSIGN_OR_RETURN(item.name, jsonIdentifier(value["path"], what + ".path", "NB0123"));
  }
  NINFER_ASSIGN_OR_RETURN(item.bytes,
                          jsonUnsigned(value["bytes"], 0, UINT64_MAX, what + ".bytes", "NB0123"));
  NINFER_ASSIGN_OR_RETURN(item.digest, hexField(value["sha256"], kDigestDigits, what + ".sha256"));
  return item;
}

Result<Recorded::Item> parseObject(const Json &value, const std::string &what) {
  NINFER_RETURN_IF_ERROR(jsonMembers(value, {"id", "offset", "bytes", "sha256"},
                                     {"shape", "format", "layout", "provenance"}, what, "NB0123"));
  Recorded::Item item;
  item.entry = &value;
  if (const auto shape = value.find("shape"); shape != value.end()) {
    NINFER_RETURN_IF_ERROR(isArray(*shape, what + ".shape"));
    for (const Json &extent : *shape)
      NINFER_RETURN_IF_ERROR(
          jsonUnsigned(extent, 0, UINT64_MAX, what + ".shape", "NB0123").takeStatus());
  }
  for (const char *name : {"format", "layout"})
    if (const auto member = value.find(name); member != value.end())
      NINFER_RETURN_IF_ERROR(jsonIdentifier(*member, what + "." + name, "NB0123").takeStatus());
  NINFER_ASSIGN_OR_RETURN(item.name, jsonIdentifier(value["id"], what + ".id", "NB0123"));
  NINFER_ASSIGN_OR_RETURN(item.offset,
                          jsonUnsigned(value["offset"], 0, UINT64_MAX, what + ".offset", "NB0123"));
  NINFER_ASSIGN_OR_RETURN(item.bytes,
                          jsonUnsigned(value["bytes"], 0, UINT64_MAX, what + ".bytes", "NB0123"));
  NINFER_ASSIGN_OR_RETURN(item.digest, hexField(value["sha256"], kDigestDigits, what + ".sha256"));
  return item;
}

/// Who wrote the manifest: any version of this project.
Status checkTool(const Json &tool, const std::string &what) {
  NINFER_RETURN_IF_ERROR(jsonMembers(tool, {"name", "version"}, {}, what, "NB0123"));
  if (tool["name"] != kTool)
    return makeError(ErrorKind::BadFile, "NB0123",
                     what + ".name: expected \"" + kTool + "\", got " + jsonExcerpt(tool["name"]));
  return jsonIdentifier(tool["version"], what + ".version", "NB0123").takeStatus();
}

Status checkVersions(const Json &versions, const std::string &what) {
  NINFER_RETURN_IF_ERROR(
      jsonMembers(versions, {"formats", "layouts", "encoders"}, {}, what, "NB0123"));
  for (const auto &[member, names] : versions.items()) {
    NINFER_RETURN_IF_ERROR(isArray(names, what + "." + member));
    for (const Json &name : names)
      NINFER_RETURN_IF_ERROR(jsonIdentifier(name, what + "." + member, "NB0123").takeStatus());
  }
  return {};
}

Result<Recorded> parseManifest(const Json &root, const std::string &where) {
  NINFER_RETURN_IF_ERROR(jsonMembers(
      root, {"manifest", "tool", "container", "versions", "provenance", "files", "objects"}, {},
      where, "NB0123"));
  if (root["manifest"] != kKind)
    return makeError(ErrorKind::BadFile, "NB0123",
                     where + ".manifest: expected \"" + kKind + "\", got " +
                         jsonExcerpt(root["manifest"]));
  NINFER_RETURN_IF_ERROR(checkTool(root["tool"], where + ".tool"));
  NINFER_RETURN_IF_ERROR(checkVersions(root["versions"], where + ".versions"));
  Recorded out;
  const Json &container = root["container"];
  const std::string what = where + ".container";
  NINFER_RETURN_IF_ERROR(jsonMembers(
      container,
      {"framing", "artifact_id", "storage_signature", "directory_bytes", "directory_sha256"}, {},
      what, "NB0123"));
  NINFER_ASSIGN_OR_RETURN(out.framing,
                          jsonUnsigned(container["framing"], 1, 255, what + ".framing", "NB0123"));
  NINFER_ASSIGN_OR_RETURN(out.artifactId,
                          hexField(container["artifact_id"], 32, what + ".artifact_id"));
  NINFER_ASSIGN_OR_RETURN(out.signature, hexField(container["storage_signature"], kDigestDigits,
                                                  what + ".storage_signature"));
  NINFER_ASSIGN_OR_RETURN(out.directoryBytes,
                          jsonUnsigned(container["directory_bytes"], 0, UINT64_MAX,
                                       what + ".directory_bytes", "NB0123"));
  NINFER_ASSIGN_OR_RETURN(out.directoryDigest, hexField(container["directory_sha256"],
                                                        kDigestDigits, what + ".directory_sha256"));
  NINFER_RETURN_IF_ERROR(isArray(root["files"], where + ".files"));
  for (size_t i = 0; i < root["files"].size(); ++i) {
    NINFER_ASSIGN_OR_RETURN(
        Recorded::Item item,
        parseFile(root["files"][i], where + ".files[" + std::to_string(i) + "]"));
    out.files.push_back(std::move(item));
  }
  NINFER_RETURN_IF_ERROR(isArray(root["objects"], where + ".objects"));
  for (size_t i = 0; i < root["objects"].size(); ++i) {
    NINFER_ASSIGN_OR_RETURN(
        Recorded::Item item,
        parseObject(root["objects"][i], where + ".objects[" + std::to_string(i) + "]"));
    out.objects.push_back(std::move(item));
  }
  return out;
}

/// Same items in the same order; false when they cannot be compared one by one. The empty name is
/// that of the entry file, which messages call `entry`.
bool compareInventory(const std::vector<Recorded::Item> &recorded,
                      const std::vector<std::string> &actual, const std::string &noun,
                      const std::string &entry, Comparison &comparison) {
  const auto label = [&](const std::string &name) {
    return name.empty() ? "entry file '" + entry + "'" : noun + " '" + name + "'";
  };
  const std::set<std::string> have(actual.begin(), actual.end());
  std::set<std::string> wanted;
  for (const Recorded::Item &item : recorded) {
    if (!wanted.insert(item.name).second)
      comparison.add(label(item.name) + " is recorded twice");
    else if (!have.count(item.name))
      comparison.add(label(item.name) + " is recorded but not there");
  }
  for (const std::string &name : actual)
    if (!wanted.count(name))
      comparison.add(label(name) + " is not recorded");
  if (recorded.size() != actual.size())
    return false;
  for (size_t i = 0; i < recorded.size(); ++i)
    if (recorded[i].name != actual[i])
      return false;
  return true;
}

} // namespace

std::filesystem::path manifestPath(const std::filesystem::path &artifact) {
  std::filesystem::path path = artifact;
  path += ".manifest.json";
  return path;
}

uint64_t manifestWork(const Artifact &artifact) {
  const Directory &directory = artifact.directory();
  uint64_t bytes = artifact.payloadOffset() + artifact.payloadBytes() +
                   (directory.files.size() - 1) * kPartHeaderBytes;
  for (const ObjectEntry &object : directory.objects)
    bytes += object.bytes;
  return bytes;
}

Result<std::string> buildManifest(const Artifact &artifact, const std::string &toolVersion,
                                  const ManifestOptions &options) {
  const Directory &directory = artifact.directory();
  NINFER_ASSIGN_OR_RETURN(const Digests digests, computeDigests(artifact, options));
  Json files = Json::array(), objects = Json::array();
  for (size_t i = 0; i < directory.files.size(); ++i)
    files.push_back({{"path", directory.files[i].path ? Json(*directory.files[i].path) : Json()},
                     {"bytes", digests.fileBytes[i]},
                     {"sha256", digests.files[i]}});
  const ProvenanceIndex tensors = provenanceIndex(directory);
  for (size_t i = 0; i < directory.objects.size(); ++i)
    objects.push_back(objectJson(directory.objects[i], digests.objects[i], tensors));
  const Json root = {{"manifest", kKind},
                     {"tool", {{"name", kTool}, {"version", toolVersion}}},
                     {"container", containerJson(artifact, digests)},
                     {"versions", versionsJson(directory)},
                     {"provenance", originJson(directory)},
                     {"files", std::move(files)},
                     {"objects", std::move(objects)}};
  return root.dump(1) + "\n";
}

Status writeManifest(const Artifact &artifact, const std::string &toolVersion,
                     const ManifestOptions &options) {
  NINFER_ASSIGN_OR_RETURN(const std::string text, buildManifest(artifact, toolVersion, options));
  return writeFileAtomically(manifestPath(artifact.path()), asByteSpan(text));
}

Status checkManifest(const Artifact &artifact, const ManifestOptions &options) {
  const std::filesystem::path path = manifestPath(artifact.path());
  const std::string where = path.string();
  Result<std::string> text = readFile(path, kMaxManifestBytes);
  if (!text.ok()) {
    Status status = makeError(ErrorKind::BadFile, "NB0122", text.error().message);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored))
      status.help("ninfer-inspect verify --hash write makes the manifest of an artifact that is "
                  "known to be good");
    return status;
  }
  NINFER_ASSIGN_OR_RETURN(const Json root, parseStrictJson(*text, where, "NB0122"));
  NINFER_ASSIGN_OR_RETURN(const Recorded recorded, parseManifest(root, where));

  const Directory &directory = artifact.directory();
  Comparison comparison(artifact.path().string(), options.maxFindings);
  comparison.number("framing", recorded.framing, uint64_t(directory.framing));
  comparison.text("artifact id", recorded.artifactId, toHex(directory.artifactId));
  comparison.text("storage signature", recorded.signature, toHex(storageSignature(directory)));
  comparison.number("size of the directory", recorded.directoryBytes,
                    artifact.directoryText().size());
  comparison.digest("directory", recorded.directoryDigest, toHex(sha256(artifact.directoryText())));
  comparison.value("versions", root["versions"], versionsJson(directory));
  comparison.value("provenance", root["provenance"], originJson(directory));
  std::vector<std::string> ids, names;
  for (const ObjectEntry &object : directory.objects)
    ids.push_back(object.id);
  for (const FileEntry &file : directory.files)
    names.push_back(file.path.value_or(""));
  const std::string entry = artifact.path().filename().string();
  bool same = compareInventory(recorded.objects, ids, "object", entry, comparison);
  same = compareInventory(recorded.files, names, "file", entry, comparison) && same;
  if (!same) { // another artifact: digests would only repeat that
    comparison.add("objects or files are not the recorded ones");
    return comparison.status();
  }
  NINFER_ASSIGN_OR_RETURN(const Digests digests, computeDigests(artifact, options));
  const ProvenanceIndex tensors = provenanceIndex(directory);
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string what = "object '" + ids[i] + "'";
    const Json actual = objectJson(directory.objects[i], digests.objects[i], tensors);
    for (const char *name : {"shape", "format", "layout", "provenance"})
      comparison.member(what, name, *recorded.objects[i].entry, actual);
    comparison.number(what + ": offset", recorded.objects[i].offset, directory.objects[i].offset);
    comparison.number(what + ": size", recorded.objects[i].bytes, directory.objects[i].bytes);
    comparison.digest(what, recorded.objects[i].digest, digests.objects[i]);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string what = "file '" + filePath(artifact, i).filename().string() + "'";
    comparison.number(what + ": size", recorded.files[i].bytes, digests.fileBytes[i]);
    comparison.digest(what, recorded.files[i].digest, digests.files[i]);
  }
  return comparison.status();
}

std::string manifestState(const Artifact &artifact, const Status &checked) {
  if (checked.ok())
    return "agrees";
  if (checked.error().code == "NB0124")
    return "disagrees";
  if (checked.error().code == "NB0123")
    return "not a side manifest";
  if (checked.error().code != "NB0122")
    return "not compared";
  const std::filesystem::path path = manifestPath(artifact.path());
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return "missing";
  if (!std::filesystem::is_regular_file(path, ignored))
    return std::filesystem::is_directory(path, ignored) ? "a folder" : "not a regular file";
  if (std::filesystem::file_size(path, ignored) > kMaxManifestBytes)
    return "too large";
  return describeFileKind(path) == "a file that cannot be read" ? "not readable"
                                                                : "not strict JSON";
}

} // namespace ninfer
