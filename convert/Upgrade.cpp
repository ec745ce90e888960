#include "convert/Upgrade.h"

#include "artifact/container/Names.h"
#include "artifact/container/Reader.h"
#include "artifact/container/Verify.h"
#include "convert/Output.h"
#include "models/Hybrid.h"
#include "models/Identity.h"
#include "support/Json.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace ninfer {

namespace fs = std::filesystem;

namespace {

constexpr const char *kRule = "NB0112";
constexpr uint64_t kChunk = uint64_t(16) << 20;
constexpr uint64_t kMaxConfigBytes = uint64_t(1) << 20;

Status refuse(const UpgradeOptions &options, const std::string &why) {
  return makeError(ErrorKind::Usage, kRule, options.source.string() + ": " + why);
}

class Planner {
public:
  Planner(const Directory &source, uint64_t payloadBytes, const UpgradeOptions &options)
      : source_(source), payloadBytes_(payloadBytes), options_(options) {}

  Result<UpgradePlan> run() {
    if (options_.framing != 2 && options_.framing != 3)
      return refuse(options_, "framing " + std::to_string(options_.framing) +
                                  " is not written, only 2 and 3");
    if (source_.framing == 3 && options_.framing == 2)
      return refuse(options_, "framing 2 has no place for the components, bindings and uses of an "
                              "artifact of framing 3");
    for (const ObjectEntry &object : source_.objects)
      NINFER_RETURN_IF_ERROR(add(object));
    NINFER_RETURN_IF_ERROR(source_.framing == 3    ? keepDirectory()
                           : options_.framing == 2 ? setIdentity()
                                                   : makeComponents());
    return std::move(plan_);
  }

private:
  Directory &directory() { return plan_.artifact.directory(); }

  /// The object with the spellings of framing 3; the writer spells framing 2 itself.
  Status add(ObjectEntry object) {
    if (object.format)
      object.formatName = v3Name(*object.format);
    if (object.layout)
      object.layoutName = v3Name(*object.layout);
    if (source_.framing != 3 && !object.isTensor)
      object.encoding = rawEncodingName(3);
    return plan_.artifact.addObject(std::move(object)).takeStatus();
  }

  Status keepDirectory() {
    if (options_.config || options_.weightsId)
      return refuse(options_, "an artifact of framing 3 has its own config and no weights id; "
                              "--config and --weights-id are for framings 1 and 2");
    directory().components = source_.components;
    directory().bindings = source_.bindings;
    directory().uses = source_.uses;
    directory().metadata = source_.metadata;
    directory().provenance = source_.provenance;
    plan_.artifact.extendPayload(payloadBytes_);
    // Other file sizes are no other artifact: split and joined again it has its first bytes.
    if (options_.modelName && directory().metadata.value("name", Json()) != *options_.modelName) {
      directory().metadata["name"] = *options_.modelName;
      recordSource();
    }
    return {};
  }

  Status setIdentity() {
    Identity identity = *source_.identity;
    if (identity.weightsId.empty())
      if (const auto model = storedModel(identity))
        identity.weightsId = model->weightsId;
    if (options_.weightsId && !identity.weightsId.empty() &&
        identity.weightsId != *options_.weightsId)
      return refuse(options_, "the weights are '" + identity.weightsId + "', --weights-id says '" +
                                  *options_.weightsId + "'");
    if (options_.weightsId)
      identity.weightsId = *options_.weightsId;
    if (options_.config || options_.modelName)
      return refuse(options_, "framing 2 has no config and no public name");
    if (identity.weightsId.empty()) {
      Status status = refuse(options_, "framing 1 does not say which weights of '" +
                                           identity.modelId + "' these are");
      return std::move(status.help("give it with --weights-id, for example groupwise-int"));
    }
    directory().identity = std::move(identity);
    return {};
  }

  Status makeComponents() {
    if (options_.weightsId)
      return refuse(options_, "--weights-id is for framing 2");
    const Identity &identity = *source_.identity;
    const bool known = storedModel(identity).has_value();
    Component &text = directory().components["text"];
    if (options_.config) {
      NINFER_ASSIGN_OR_RETURN(const std::string content,
                              readFile(*options_.config, kMaxConfigBytes));
      NINFER_ASSIGN_OR_RETURN(text.config, parseStrictJson(content, options_.config->string()));
      if (!text.config.is_object())
        return makeError(ErrorKind::BadFile, "NB0911",
                         options_.config->string() + ": expected a JSON object, got " +
                             jsonExcerpt(text.config));
    } else if (known) {
      text.config = toJson(*configOfIdentity(identity));
    } else {
      Status status =
          refuse(options_, "no config is known of the model '" + identity.modelId +
                               "', and framing " + std::to_string(source_.framing) + " has none");
      return std::move(status.help("give the model's config.json with --config"));
    }
    giveRoles(text);
    directory().metadata = {{"name", options_.modelName.value_or(identity.modelId)}};
    directory().provenance = Json::object();
    recordSource();
    return known ? bindModel() : bindWholes();
  }

  /// Role of a resource: what its name ends in, or the whole name when two end alike.
  void giveRoles(Component &text) {
    std::map<std::string, int> ends;
    const auto end = [](const std::string &id) { return id.substr(id.rfind('/') + 1); };
    for (const ObjectEntry &object : source_.objects)
      ends[end(object.id)] += !object.isTensor;
    for (size_t i = 0; i < source_.objects.size(); ++i) {
      const ObjectEntry &object = source_.objects[i];
      if (object.isTensor)
        continue;
      const std::string role = end(object.id);
      text.resources[role.empty() || ends[role] > 1 ? object.id : role] = uint32_t(i);
    }
  }

  Status bindWholes() {
    for (size_t i = 0; i < source_.objects.size(); ++i)
      if (source_.objects[i].isTensor)
        plan_.artifact.bindWhole(source_.objects[i].id, uint32_t(i));
    plan_.notes.push_back("the identity is not a known one: every tensor is bound as a whole under "
                          "its own name, and no use is written");
    return {};
  }

  /// Parameters, uses and components of a known identity, as its model package reads them.
  Status bindModel() {
    NINFER_ASSIGN_OR_RETURN(
        const ModelSpec spec,
        recogniseIdentity(source_, options_.source.filename().string(), RecogniseOptions{true}));
    std::set<uint32_t> bound;
    for (const ParameterSpec &p : spec.parameters) {
      directory().bindings[p.name] = p.binding;
      for (const RangePart &part : p.binding.parts)
        bound.insert(part.object);
      if (p.input.empty())
        continue;
      Use use{p.name, p.input, p.policy, {}};
      if (p.activationInputDivisor) {
        use.auxiliaries["activation_input_divisor"] = Binding{false, {*p.activationInputDivisor}};
        bound.insert(p.activationInputDivisor->object);
      }
      directory().uses.push_back(std::move(use));
    }
    Component &text = directory().components["text"];
    text.resources = spec.resources;
    if (spec.mtp) {
      text.proposal =
          Component::Proposal{spec.mtp->indexed, spec.mtp->indexed ? spec.mtp->rows : 0};
      Component &mtp = directory().components["mtp"];
      mtp.config = {{"architectures", Json::array({mtpArchitecture(spec.hybridConfig())})}};
      mtp.target = "text";
    }
    uint64_t unbound = 0;
    for (size_t i = 0; i < source_.objects.size(); ++i)
      unbound += source_.objects[i].isTensor && !bound.count(uint32_t(i));
    if (unbound)
      plan_.notes.push_back(std::to_string(unbound) + " tensors of components this version does "
                                                      "not bind are carried over without a "
                                                      "binding");
    return {};
  }

  void recordSource() {
    Json upgrade = {{"tool", "ninfer-convert upgrade"},
                    {"source", options_.source.filename().string()},
                    {"framing", source_.framing}};
    if (source_.identity) {
      upgrade["model_id"] = source_.identity->modelId;
      if (!source_.identity->weightsId.empty())
        upgrade["weights_id"] = source_.identity->weightsId;
    }
    if (options_.config)
      upgrade["config"] = options_.config->filename().string();
    // Earlier records, newest first; each of theirs moves into the one list.
    if (const auto last = directory().provenance.find("upgrade");
        last != directory().provenance.end()) {
      Json record = *last, earlier = Json::array();
      if (record.is_object() && record.contains("previous")) {
        earlier = record["previous"].is_array() ? record["previous"]
                                                : Json::array({record["previous"]});
        record.erase("previous");
      }
      earlier.insert(earlier.begin(), std::move(record));
      upgrade["previous"] = std::move(earlier);
    }
    directory().provenance["upgrade"] = std::move(upgrade);
  }

  const Directory &source_;
  uint64_t payloadBytes_;
  const UpgradeOptions &options_;
  UpgradePlan plan_;
};

/// Feeds an object's bytes to `take` in chunks, without keeping them resident.
Status streamObject(const Artifact &artifact, size_t index, const UpgradeOptions &options,
                    const std::function<Status(std::span<const std::byte>)> &take) {
  NINFER_ASSIGN_OR_RETURN(auto bytes, artifact.object(index));
  while (!bytes.empty()) {
    if (options.cancelled && options.cancelled())
      return makeError(ErrorKind::Interrupted, "NB0321", "interrupted, nothing was written");
    const auto chunk = bytes.first(std::min<uint64_t>(kChunk, bytes.size()));
    NINFER_RETURN_IF_ERROR(take(chunk));
    bytes = bytes.subspan(chunk.size());
    artifact.release();
  }
  return {};
}

/// The source's own faults, under its name.
Status verifySource(const Artifact &source, const UpgradeOptions &options) {
  VerifyOptions verify;
  verify.stopEarly = true;
  verify.cancelled = options.cancelled;
  NINFER_ASSIGN_OR_RETURN(const VerifyReport found, verifyArtifact(source, verify));
  return verifyReportStatus(found, options.source.string());
}

Status checkOutput(const UpgradeOptions &options, const Directory &source) {
  std::error_code ignored;
  const auto sameAs = [&](const fs::path &file) {
    return fs::equivalent(file, options.output, ignored);
  };
  bool isSource = sameAs(options.source);
  for (size_t i = 1; i < source.files.size(); ++i)
    isSource = isSource || sameAs(folderOf(options.source) / *source.files[i].path);
  if (isSource)
    return makeError(ErrorKind::Usage, "NB0905",
                     options.output.string() + ": the output is a file of the source");
  return checkOutputReplaceable(options.output, options.force);
}

} // namespace

Result<UpgradePlan> planUpgrade(const Directory &source, uint64_t payloadBytes,
                                const UpgradeOptions &options) {
  return Planner(source, payloadBytes, options).run();
}

Result<UpgradeReport> upgradeArtifact(const UpgradeOptions &options) {
  const auto start = std::chrono::steady_clock::now();
  NINFER_RETURN_IF_ERROR(checkOutputName(options.output, options.maxFileBytes.has_value()));
  NINFER_ASSIGN_OR_RETURN(const Artifact source, Artifact::open(options.source));
  const Directory &directory = source.directory();
  NINFER_RETURN_IF_ERROR(checkOutput(options, directory));
  NINFER_RETURN_IF_ERROR(checkAllObjects(directory, options.source.string()));
  NINFER_ASSIGN_OR_RETURN(const UpgradePlan plan,
                          planUpgrade(directory, source.payloadBytes(), options));
  UpgradeReport report;
  report.from = directory.framing;
  report.to = options.framing;
  report.objects = directory.objects.size();
  report.payloadBytes = plan.artifact.payloadBytes();
  report.notes = plan.notes;

  std::vector<Sha256Digest> digests;
  std::optional<Progress> verify;
  WriterOptions writerOptions;
  writerOptions.existing =
      options.force ? AtomicFile::Existing::Replace : AtomicFile::Existing::Refuse;
  writerOptions.framing = options.framing;
  writerOptions.maxFileBytes = options.maxFileBytes;
  writerOptions.onVerified = [&](uint64_t n) {
    if (!verify)
      verify.emplace("verify", report.payloadBytes, options.progress, Progress::Unit::Bytes);
    verify->add(n);
  };
  writerOptions.check = [&](const Artifact &output) -> Status {
    verify.reset();
    Progress progress("compare", report.payloadBytes, options.progress, Progress::Unit::Bytes);
    for (size_t i = 0; i < digests.size(); ++i) {
      Sha256 hash;
      NINFER_RETURN_IF_ERROR(streamObject(output, i, options, [&](auto chunk) {
        hash.update(chunk);
        progress.add(chunk.size());
        return Status();
      }));
      if (hash.finish() != digests[i])
        return makeError(ErrorKind::Failed, "NB0113",
                         options.output.string() + ": object '" + directory.objects[i].id +
                             "': reading the file back gives another SHA-256 than the source's");
    }
    return {};
  };
  NINFER_ASSIGN_OR_RETURN(ArtifactWriter writer,
                          ArtifactWriter::create(options.output, plan.artifact, writerOptions));
  {
    Progress progress("copy", report.payloadBytes, options.progress, Progress::Unit::Bytes);
    for (size_t i = 0; i < directory.objects.size(); ++i) {
      progress.detail(directory.objects[i].id);
      Sha256 hash;
      NINFER_RETURN_IF_ERROR(streamObject(source, i, options, [&](auto chunk) {
        hash.update(chunk);
        progress.add(chunk.size());
        return writer.append(uint32_t(i), chunk);
      }));
      digests.push_back(hash.finish());
    }
  }
  Result<WriteReport> written = writer.finish();
  if (!written.ok()) {
    // Content the writer refuses came from the source, whose name the user knows.
    if (written.error().kind == ErrorKind::BadFile)
      NINFER_RETURN_IF_ERROR(verifySource(source, options));
    return written.takeStatus();
  }
  report.written = written.take();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

std::string upgradeSummary(const UpgradeReport &report) {
  std::string out = "framing " + std::to_string(report.from) + " -> " + std::to_string(report.to) +
                    ": " + std::to_string(report.objects) + " objects, payload " +
                    formatBytes(report.payloadBytes) +
                    ", every object's SHA-256 as in the source\n";
  for (const auto &[name, bytes] : report.written.files)
    out += "  " + name + "  " + formatBytes(bytes) + "\n";
  for (const std::string &note : report.notes)
    out += "note: " + note + "\n";
  return out;
}

Json upgradeJson(const UpgradeReport &report) {
  Json files = Json::array();
  for (const auto &[name, bytes] : report.written.files)
    files.push_back({{"name", name}, {"bytes", bytes}});
  return {{"from", report.from},
          {"to", report.to},
          {"objects", report.objects},
          {"payload_bytes", report.payloadBytes},
          {"payload_sha256", toHex(report.written.payloadSha256)},
          {"storage_signature", toHex(report.written.storageSignature)},
          {"files", std::move(files)},
          {"notes", report.notes},
          {"seconds", report.seconds}};
}

} // namespace ninfer
