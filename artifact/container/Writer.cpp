#include "artifact/container/Writer.h"

#include "artifact/container/Reader.h"
#include "artifact/container/Signature.h"
#include "support/Bytes.h"
#include "support/Checked.h"
#include "support/Json.h"

#include <algorithm>
#include <cstring>

namespace ninfer {

namespace {

constexpr uint64_t kHeaderBytes = 32;
constexpr uint64_t kPage = 4096;

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

/// 16 bytes in the form of a version 8 UUID (RFC 9562: free content).
std::array<uint8_t, 16> contentId(std::string_view directoryText, const Sha256Digest &payload) {
  Sha256 hash;
  hash.update(directoryText).update(std::as_bytes(std::span(payload)));
  const Sha256Digest digest = hash.finish();
  std::array<uint8_t, 16> id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  id[6] = uint8_t((id[6] & 0x0f) | 0x80);
  id[8] = uint8_t((id[8] & 0x3f) | 0x80);
  return id;
}

Status planError(const std::filesystem::path &target, const std::string &why) {
  return makeError(ErrorKind::Failed, "NB0107", target.string() + ": " + why);
}

} // namespace

Result<std::string> encodeDirectory(const Directory &directory) {
  Json root = Json::object();
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
  try {
    return root.dump();
  } catch (const Json::type_error &error) { // the one thing that dump() cannot write
    return makeError(ErrorKind::Failed, "NB0107",
                     std::string("a name or value of the directory is not UTF-8 (") + error.what() +
                         ")");
  }
}

Result<uint32_t> ArtifactPlan::addTensor(std::string id, std::vector<uint64_t> shape, Format format,
                                         Layout layout) {
  Result<EncodedGeometry> geometry = encodedGeometry(format, layout, shape);
  if (!geometry.ok()) {
    Error error = geometry.takeStatus().takeError();
    error.message = "object '" + id + "': " + error.message;
    return error;
  }
  const auto offset = checkedAlignUp(cursor_, geometry->alignment);
  const auto end = offset ? checkedAdd(*offset, geometry->totalBytes) : std::nullopt;
  if (!end)
    return makeError(ErrorKind::Failed, "NB0107",
                     "object '" + id + "': payload exceeds 2^64-1 bytes");
  const auto index = uint32_t(directory_.objects.size());
  if (!ids_.emplace(id, index).second)
    return makeError(ErrorKind::Failed, "NB0107", "duplicate object id '" + id + "'");
  ObjectEntry object;
  object.id = std::move(id);
  object.shape = std::move(shape);
  object.formatName = v3Name(format);
  object.layoutName = v3Name(layout);
  object.format = format;
  object.layout = layout;
  object.offset = *offset;
  object.bytes = geometry->totalBytes;
  directory_.objects.push_back(std::move(object));
  cursor_ = *end;
  return index;
}

Result<uint32_t> ArtifactPlan::addResource(std::string id, uint64_t bytes) {
  const auto end = checkedAdd(cursor_, bytes);
  if (bytes == 0 || !end)
    return makeError(ErrorKind::Failed, "NB0107",
                     "resource '" + id + "': size " + std::to_string(bytes) +
                         " is zero or too large");
  const auto index = uint32_t(directory_.objects.size());
  if (!ids_.emplace(id, index).second)
    return makeError(ErrorKind::Failed, "NB0107", "duplicate object id '" + id + "'");
  ObjectEntry object;
  object.id = std::move(id);
  object.isTensor = false;
  object.encoding = "raw_bytes_v1";
  object.offset = cursor_;
  object.bytes = bytes;
  directory_.objects.push_back(std::move(object));
  cursor_ = *end;
  return index;
}

void ArtifactPlan::bindWhole(const std::string &parameter, uint32_t object) {
  const uint64_t elements = checkedProduct(directory_.objects.at(object).shape).value_or(0);
  directory_.bindings[parameter] = Binding{true, {{object, 0, elements}}};
}

void ArtifactPlan::bindRange(const std::string &parameter, uint32_t object, uint64_t begin,
                             uint64_t end) {
  directory_.bindings[parameter] = Binding{false, {{object, begin, end}}};
}

struct ArtifactWriter::Impl {
  AtomicFile file;
  Directory directory; ///< with `files`
  std::string text;    ///< of the directory, without padding
  WriterOptions options;
  uint64_t payloadOffset = 0, payloadBytes = 0;
  uint32_t current = 0; ///< object being written
  uint64_t written = 0; ///< bytes of it
  uint64_t hashed = 0;  ///< payload bytes in `hash`, gaps included
  Sha256 hash;

  void hashGap(uint64_t end) {
    static constexpr std::byte kZeros[256] = {};
    while (hashed < end) {
      const uint64_t count = std::min<uint64_t>(end - hashed, sizeof kZeros);
      hash.update(std::span(kZeros, count));
      hashed += count;
    }
  }
};

ArtifactWriter::ArtifactWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ArtifactWriter::ArtifactWriter(ArtifactWriter &&) noexcept = default;
ArtifactWriter &ArtifactWriter::operator=(ArtifactWriter &&) noexcept = default;
ArtifactWriter::~ArtifactWriter() = default;

Result<ArtifactWriter> ArtifactWriter::create(const std::filesystem::path &target,
                                              const ArtifactPlan &plan, WriterOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->directory = plan.directory();
  impl->directory.framing = 3;
  impl->directory.files = {FileEntry{std::nullopt, plan.payloadBytes()}};
  impl->payloadBytes = plan.payloadBytes();
  NINFER_ASSIGN_OR_RETURN(impl->text, encodeDirectory(impl->directory));

  // What the reader would refuse is refused before a byte is written.
  const std::string name = target.filename().string();
  NINFER_ASSIGN_OR_RETURN(const Directory parsed, parseDirectory(impl->text, name));
  NINFER_RETURN_IF_ERROR(checkAllObjects(parsed, name));
  if (storageSignatureText(parsed) != storageSignatureText(impl->directory))
    return planError(target, "the directory does not survive its JSON form (a whole binding with a "
                             "partial range, or names that disagree)");

  const auto payloadOffset = checkedAlignUp(kHeaderBytes + impl->text.size(), kPage);
  const auto fileBytes =
      payloadOffset ? checkedAdd(*payloadOffset, impl->payloadBytes) : std::nullopt;
  if (!fileBytes)
    return planError(target, "file size exceeds 2^64-1 bytes");
  impl->payloadOffset = *payloadOffset;
  NINFER_ASSIGN_OR_RETURN(impl->file, AtomicFile::create(target, impl->options.existing));
  NINFER_RETURN_IF_ERROR(impl->file.resize(*fileBytes, impl->options.reserve));

  std::string head("NINFER\0\x03", 8);
  head.resize(kHeaderBytes, '\0');
  storeLe64(head.data() + 8, *payloadOffset - kHeaderBytes);
  head += impl->text;
  head.resize(*payloadOffset, ' ');
  NINFER_RETURN_IF_ERROR(impl->file.write(head));
  return ArtifactWriter(std::move(impl));
}

Status ArtifactWriter::append(uint32_t object, std::span<const std::byte> chunk) {
  Impl &impl = *impl_;
  const std::vector<ObjectEntry> &objects = impl.directory.objects;
  const auto fail = [&](const std::string &why) {
    return makeError(ErrorKind::Failed, "NB0108", impl.file.target().string() + ": " + why);
  };
  if (object >= objects.size())
    return fail("no object " + std::to_string(object) + " in the plan");
  if (object != impl.current) {
    if (object != impl.current + 1 || impl.written != objects[impl.current].bytes)
      return fail("object '" + objects[object].id + "' is out of order: '" +
                  objects[impl.current].id + "' has " + std::to_string(impl.written) + " of " +
                  std::to_string(objects[impl.current].bytes) + " bytes");
    impl.current = object;
    impl.written = 0;
  }
  const ObjectEntry &entry = objects[object];
  if (chunk.size() > entry.bytes - impl.written)
    return fail("object '" + entry.id + "' gets more than its planned " +
                std::to_string(entry.bytes) + " bytes");
  impl.hashGap(entry.offset);
  impl.hash.update(chunk);
  impl.hashed += chunk.size();
  NINFER_RETURN_IF_ERROR(
      impl.file.writeAt(impl.payloadOffset + entry.offset + impl.written, chunk));
  impl.written += chunk.size();
  return {};
}

Result<WriteReport> ArtifactWriter::finish() {
  Impl &impl = *impl_;
  const std::string target = impl.file.target().string();
  const std::vector<ObjectEntry> &objects = impl.directory.objects;
  if (impl.current + 1 != objects.size() || impl.written != objects.back().bytes)
    return makeError(ErrorKind::Failed, "NB0108",
                     target + ": incomplete, object '" + objects[impl.current].id + "' (" +
                         std::to_string(impl.current + 1) + " of " +
                         std::to_string(objects.size()) + ") has " + std::to_string(impl.written) +
                         " of " + std::to_string(objects[impl.current].bytes) + " bytes");
  WriteReport report;
  report.payloadOffset = impl.payloadOffset;
  report.fileBytes = impl.payloadOffset + impl.payloadBytes;
  report.payloadSha256 = impl.hash.finish();
  report.artifactId = contentId(impl.text, report.payloadSha256);
  report.storageSignature = storageSignature(impl.directory);
  NINFER_RETURN_IF_ERROR(impl.file.writeAt(16, std::as_bytes(std::span(report.artifactId))));
  NINFER_RETURN_IF_ERROR(impl.file.sync());

  {
    NINFER_ASSIGN_OR_RETURN(const Artifact artifact,
                            Artifact::open(impl.file.reopenPath(), impl.file.target()));
    artifact.advise(MappedFile::Access::Sequential);
    if (artifact.directoryText() != impl.text ||
        artifact.directory().artifactId != report.artifactId)
      return makeError(ErrorKind::Failed, "NB0108",
                       target + ": reading the file back gives another directory");
    if (impl.options.verifyContent) {
      VerifyOptions options;
      options.onBytes = impl.options.onVerified;
      NINFER_ASSIGN_OR_RETURN(const VerifyReport content, verifyArtifact(artifact, options));
      NINFER_RETURN_IF_ERROR(verifyReportStatus(content, target));
    }
    constexpr size_t kWindow = size_t(32) << 20;
    Sha256 hash;
    NINFER_ASSIGN_OR_RETURN(const std::span<const std::byte> payload, artifact.payload());
    for (std::span<const std::byte> rest = payload; !rest.empty();) {
      const auto window = rest.first(std::min(kWindow, rest.size()));
      hash.update(window);
      rest = rest.subspan(window.size());
      artifact.release();
    }
    if (hash.finish() != report.payloadSha256)
      return makeError(ErrorKind::Failed, "NB0108",
                       target + ": reading the file back gives another payload digest");
  }
  NINFER_RETURN_IF_ERROR(impl.file.publish());
  return report;
}

} // namespace ninfer
