// Level 0 and the order of the work.
#include "inspect/Parity.h"

#include "artifact/container/Reader.h"
#include "convert/Checkpoint.h"
#include "convert/quantized/PackedWeight.h"
#include "inspect/ParityNames.h"
#include "inspect/ParityWork.h"
#include "models/Hybrid.h"
#include "models/Vision.h"
#include "support/File.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

namespace ninfer {

namespace fs = std::filesystem;

namespace {

/// What the artifact records about one object.
struct Claim {
  std::string sourceType, provenance, profile;
};

class Ladder {
public:
  explicit Ladder(const ParityOptions &options)
      : options_(options), faults_(report_, options.maxFaults) {}

  Result<ParityReport> run() {
    const auto start = std::chrono::steady_clock::now();
    NINFER_ASSIGN_OR_RETURN(Artifact artifact, Artifact::open(options_.artifact));
    artifact_ = &artifact;
    report_.source = options_.source.string();
    report_.artifact = options_.artifact.string();
    if (directory().framing != 3) {
      Status status(makeError(ErrorKind::Unsupported, "NB0350",
                              options_.artifact.string() + ": framing " +
                                  std::to_string(directory().framing) +
                                  " names objects only, and parity needs parameters (framing 3)"));
      return Status(std::move(status.help("ninfer-inspect verify and diff read every framing")));
    }
    const auto component = directory().components.find("text");
    CheckpointOptions opening;
    opening.imports = options_.imports;
    opening.tokenizer =
        component != directory().components.end() && !component->second.resources.empty();
    opening.vision = directory().components.count("vision") != 0;
    NINFER_ASSIGN_OR_RETURN(checkpoint_, openCheckpoint(options_.source, opening));
    NINFER_RETURN_IF_ERROR(checkKnown());
    report_.sourceKind = checkpoint_.kind;
    readClaims();
    checkConfig();
    NINFER_RETURN_IF_ERROR(checkResources());
    NINFER_RETURN_IF_ERROR(checkObjects());
    NINFER_RETURN_IF_ERROR(checkParameters());
    NINFER_RETURN_IF_ERROR(climb());
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

private:
  const Directory &directory() const { return artifact_->directory(); }

  void item() { ++report_.levels[0].checked; }
  void fault(const char *rule, const std::string &subject, std::string message) {
    faults_.add({0, rule, subject, std::move(message), {}, {}});
  }

  void readClaims() {
    const Json &provenance = directory().provenance;
    if (!provenance.is_object() || !provenance.contains("tensors") ||
        !provenance["tensors"].is_object()) {
      report_.notes.push_back("the artifact records no provenance: encoded words are not judged, "
                              "only their error is told");
      return;
    }
    for (const auto &[object, entry] : provenance["tensors"].items()) {
      if (!entry.is_array() || entry.size() < 2 || !entry[0].is_string() || !entry[1].is_string())
        continue;
      Claim &claim = claims_[object];
      claim.sourceType = entry[0].get<std::string>();
      claim.provenance = entry[1].get<std::string>();
      if (claim.provenance == "converted" && entry.size() > 2 && entry[2].is_string())
        claim.profile = entry[2].get<std::string>();
    }
  }

  /// Sources whose tensors this ladder cannot lay beside parameters.
  Status checkKnown() const {
    if (!std::holds_alternative<HybridConfig>(checkpoint_.config))
      return {};
    std::string what;
    if (checkpoint_.kind == "gguf")
      what = "the GGUF tensors of " + architectureOf(checkpoint_.config);
    for (const SourceTensor &tensor : checkpoint_.tensors.tensors)
      if (const auto feeds = parityFeeds(checkpoint_, tensor);
          tensor.packed && what.empty() && std::any_of(feeds.begin(), feeds.end(), [](const auto &f) { return !f.runs.empty(); }))
        what = "quantized tensors that several parameters share, such as '" + tensor.name + "'";
    if (what.empty())
      return {};
    Status status(makeError(ErrorKind::Unsupported, "NB0350", options_.source.string() + ": parity does not know " + what));
    status.help("ninfer-inspect verify and diff read every model");
    return status;
  }

  void checkConfig() {
    checkConfig("text", configToJson(checkpoint_.config));
    if (checkpoint_.vision)
      checkConfig("vision", toJson(*checkpoint_.vision));
    if (checkpoint_.mtp)
      checkConfig("mtp", Json{{"architectures", {mtpArchitecture(std::get<HybridConfig>(checkpoint_.config))}}});
  }

  void checkConfig(const std::string &name, const Json &wanted) {
    item();
    const auto component = directory().components.find(name);
    if (component == directory().components.end())
      return fault("config", name, "the artifact has no component '" + name + "'");
    const Json &stored = component->second.config;
    for (const auto &[key, value] : wanted.items())
      if (!stored.is_object() || !stored.contains(key) || stored[key] != value)
        fault("config", name + "/config",
              "member '" + key + "' is " +
                  (stored.is_object() && stored.contains(key) ? stored[key].dump() : "absent") +
                  ", the source gives " + value.dump());
  }

  /// Bytes of a resource of a model folder, read without the converter's reader.
  std::optional<std::string> fileOfFolder(const std::string &role) const {
    std::error_code error;
    fs::path folder = options_.source;
    if (!fs::is_directory(folder, error))
      folder = folder.parent_path();
    if (checkpoint_.kind != "safetensors" || !fs::is_regular_file(folder / role, error))
      return std::nullopt;
    auto bytes = readFile(folder / role);
    return bytes.ok() ? std::optional(bytes.take()) : std::nullopt;
  }

  Status checkResources() {
    for (const char *name : {"text", "vision"})
      if (const auto component = directory().components.find(name); component != directory().components.end())
        NINFER_RETURN_IF_ERROR(checkResources(name, component->second.resources));
    return Status();
  }

  Status checkResources(const std::string &component, const std::map<std::string, uint32_t> &stored) {
    if (component == "text" && stored.empty()) {
      report_.notes.push_back("the artifact holds no text resources");
      return Status();
    }
    std::map<std::string, std::string> wanted;
    for (const SourceResource &resource : checkpoint_.resources)
      if (resource.component == component)
        wanted[resource.role] = fileOfFolder(resource.role).value_or(resource.bytes);
    for (const auto &[role, index] : stored)
      if (!wanted.count(role))
        fault("resource", role, "the source has no such resource");
    for (const auto &[role, bytes] : wanted) {
      item();
      const auto found = stored.find(role);
      if (found == stored.end()) {
        fault("resource", role,
              "missing, the source has " + std::to_string(bytes.size()) + " bytes");
        continue;
      }
      NINFER_ASSIGN_OR_RETURN(const auto object, artifact_->object(found->second));
      const auto source = std::as_bytes(std::span(bytes));
      if (object.size() != source.size())
        fault("resource", role,
              std::to_string(object.size()) + " bytes, the source has " +
                  std::to_string(source.size()));
      else if (const auto at = std::mismatch(object.begin(), object.end(), source.begin()).first;
               at != object.end())
        fault("resource", role,
              "byte " + std::to_string(at - object.begin()) + " differs from the source");
      report_.bytes += object.size();
    }
    return Status();
  }

  /// Sizes by the reference layout; objects that no parameter and no resource uses.
  Status checkObjects() {
    std::set<uint32_t> used;
    for (const auto &[name, binding] : directory().bindings)
      for (const RangePart &part : binding.parts)
        used.insert(part.object);
    for (const Use &use : directory().uses)
      for (const auto &[role, binding] : use.auxiliaries)
        for (const RangePart &part : binding.parts)
          used.insert(part.object);
    for (const auto &[name, component] : directory().components)
      for (const auto &[role, object] : component.resources)
        used.insert(object);
    layouts_.resize(directory().objects.size());
    for (uint32_t i = 0; i < directory().objects.size(); ++i) {
      const ObjectEntry &object = directory().objects[i];
      item();
      if (!used.count(i))
        fault("inventory", object.id, "the object is used by no parameter and no component");
      if (!object.isTensor)
        continue;
      if (!object.format) {
        fault("inventory", object.id, "unknown format '" + object.formatName + "'");
        continue;
      }
      layouts_[i] = referenceLayout(*object.format, object.shape);
      if (!layouts_[i] || layouts_[i]->bytes != object.bytes) {
        fault("inventory", object.id,
              std::to_string(object.bytes) + " bytes, shape and format need " +
                  (layouts_[i] ? std::to_string(layouts_[i]->bytes) : "another shape"));
        layouts_[i].reset();
        continue;
      }
      if (!artifact_->object(i).ok()) { // a missing part ends the run, a registry fault is reported
        Status status = artifact_->object(i).takeStatus();
        if (status.error().code != "NB0106")
          return status;
        fault("inventory", object.id, status.error().message);
        layouts_[i].reset();
      }
    }
    return Status();
  }

  /// Every source tensor must be bound, and nothing else.
  Status checkParameters() {
    struct Source {
      const SourceTensor *tensor;
      ParityFeed feed;
    };
    std::map<std::string, Source> wanted;
    uint64_t tower = 0;
    for (const SourceTensor &tensor : checkpoint_.tensors.tensors) {
      if (!checkpoint_.vision && feedsVision(tensor.name)) {
        ++tower;
        continue;
      }
      const std::vector<ParityFeed> feeds = parityFeeds(checkpoint_, tensor);
      if (feeds.empty())
        report_.notes.push_back("source tensor '" + tensor.name + "' feeds no parameter");
      for (const ParityFeed &feed : feeds)
        wanted[feed.parameter] = {&tensor, feed};
    }
    if (tower != 0)
      report_.notes.push_back("the artifact has no vision tower, " + std::to_string(tower) + " tensors of the source's are not compared");
    if (isTied(checkpoint_.config)) { // whatever the source has as a head, the embedding is it
      wanted.erase("text/output_head");
      if (auto head = wanted.find("text/token_embedding"); head != wanted.end()) {
        Source source = head->second;
        source.feed.parameter = "text/output_head";
        wanted[source.feed.parameter] = std::move(source);
      }
    }
    for (const auto &[name, binding] : directory().bindings)
      if (!wanted.count(name))
        fault("inventory", name, "bound in the artifact, but no tensor of the source feeds it");
    for (const auto &[name, source] : wanted) {
      item();
      const auto bound = directory().bindings.find(name);
      if (bound == directory().bindings.end())
        fault("inventory", name, "not bound, source tensor '" + source.tensor->name + "' feeds it");
      else
        makeTask(source.feed, *source.tensor, bound->second);
    }
    return Status();
  }

  void makeTask(const ParityFeed &feed, const SourceTensor &tensor, const Binding &binding) {
    const std::string &name = feed.parameter;
    ParityTask task;
    task.feed = feed;
    task.tensor = &tensor;
    task.file = &checkpoint_.tensors.files[tensor.file];
    task.packed = tensor.packed.get();
    // A part of a vector: its rows are elements, those of the object too.
    const bool cutVector = feed.shape.size() == 1 && !feed.runs.empty();
    task.columns = cutVector ? 1 : feed.shape.empty() ? 1 : feed.shape.back();
    task.rows = 1;
    for (size_t i = 0; i + (cutVector ? 0 : 1) < feed.shape.size(); ++i)
      task.rows *= feed.shape[i];
    uint64_t row = 0;
    std::set<uint32_t> objects;
    for (const RangePart &part : binding.parts) {
      if (!layouts_[part.object])
        return; // its fault is already told
      ReferenceLayout layout = *layouts_[part.object];
      if (const auto elements = referenceLayout(layout.format, std::vector<uint64_t>{layout.columns, 1});
          cutVector && layout.rows == 1 && elements && elements->bytes == layout.bytes)
        layout = *elements;
      if (layout.columns != task.columns || part.begin % layout.columns != 0 ||
          part.end % layout.columns != 0)
        return fault("inventory", name,
                     "bound to elements " + std::to_string(part.begin) + ".." +
                         std::to_string(part.end) + " of object '" +
                         directory().objects[part.object].id + "' with rows of " +
                         std::to_string(layout.columns) + ", expected whole rows of " +
                         std::to_string(task.columns));
      auto bytes = artifact_->object(part.object);
      const uint64_t rows = (part.end - part.begin) / layout.columns;
      task.segments.push_back({layout, *bytes, part.begin / layout.columns, row, rows});
      row += rows;
      objects.insert(part.object);
    }
    if (row != task.rows)
      return fault("inventory", name,
                   "bound to " + std::to_string(row) + " rows, source tensor '" + tensor.name +
                       "' " + shapeText(tensor.shape) + " has " + std::to_string(task.rows) + (task.rows == tensor.rows() ? "" : " of it"));
    TensorParity out;
    out.parameter = name;
    out.source = tensor.name;
    out.sourceType = tensor.typeName;
    out.format = task.segments[0].layout.format;
    out.shape = feed.shape;
    if (const auto claim = claims_.find(directory().objects[*objects.begin()].id);
        claim != claims_.end())
      judge(claim->second, tensor, out);
    else
      judgeByTypes(tensor, out);
    task.basis = out.basis;
    // NVFP4 has no encoder: its words are always the checkpoint's.
    task.packedWords = tensor.packed && keepsWords(tensor, out.format) &&
                       (out.format == Format::NVFP4 || out.provenance != "converted");
    tasks_.push_back(std::move(task));
    report_.tensors.push_back(std::move(out));
  }

  static bool keepsWords(const SourceTensor &tensor, Format format) {
    if (tensor.packed)
      return tensor.packed->format() == format;
    return (tensor.type == SourceType::BF16 && format == Format::BF16) ||
           (tensor.type == SourceType::F32 && format == Format::FP32) ||
           (tensor.type == SourceType::Q8_0 && format == Format::W8G32_F16S);
  }

  /// What the record says is held against the facts; the record decides what is expected.
  void judge(const Claim &claim, const SourceTensor &tensor, TensorParity &out) {
    out.provenance = claim.provenance;
    out.profile = claim.profile;
    if (!tensor.packed && claim.sourceType != tensor.typeName)
      fault("provenance", out.parameter,
            "the artifact records source type " + claim.sourceType + ", the source has " +
                tensor.typeName);
    if (claim.provenance == "preserved") {
      out.basis = ParityBasis::Words;
      if (!keepsWords(tensor, out.format)) {
        fault("provenance", out.parameter,
              "recorded as preserved, but " + tensor.typeName + " words cannot be kept in " +
                  std::string(canonicalName(out.format)));
        out.basis = ParityBasis::Values;
      }
    } else if (claim.provenance == "widened exactly" || claim.provenance == "narrowed exactly") {
      out.basis = ParityBasis::Values;
    } else if (tensor.packed && out.format == Format::NVFP4) {
      out.basis = ParityBasis::Profile; // the words of the import, with a derived divisor
    } else if (!claim.profile.empty()) {
      out.basis = ParityBasis::Profile;
      const bool fp8 = out.format == Format::FP8_E4M3FN_ROW_BF16S;
      const std::string wanted = out.format == Format::BF16   ? "BF16_RNE"
                                 : out.format == Format::FP32 ? "FP32_RNE"
                                 : fp8                        ? "MAXABS_BF16S_RECIP_E4M3FN_RNE_V1"
                                                              : "MAXABS_F16_RECIP_RNE_V1";
      if (claim.profile != wanted) {
        out.basis = ParityBasis::ErrorOnly;
        report_.notes.push_back(out.parameter + ": profile '" + claim.profile +
                                "' is not known here, only the error is told");
      }
    }
  }

  void judgeByTypes(const SourceTensor &tensor, TensorParity &out) {
    const bool direct = formatInfo(out.format).category == FormatCategory::Direct;
    if (tensor.packed ? keepsWords(tensor, out.format) : direct && keepsWords(tensor, out.format))
      out.basis = ParityBasis::Words;
    else if (out.format == Format::FP32 || out.format == Format::BF16)
      out.basis = ParityBasis::Profile; // there is one way to round
  }

  Status climb() {
    uint64_t total = 0;
    for (uint32_t i = 0; i < directory().objects.size(); ++i)
      total += layouts_[i] ? directory().objects[i].bytes : 0;
    ParityContext context{options_.threads, options_.maxFaults, options_.cancelled, {}};
    {
      Progress progress("unpack", total, options_.progress, Progress::Unit::Bytes);
      context.onBytes = [&](uint64_t bytes) { progress.add(bytes); };
      for (uint32_t i = 0; i < directory().objects.size(); ++i) {
        if (!layouts_[i])
          continue;
        const ObjectEntry &object = directory().objects[i];
        progress.detail(object.id);
        NINFER_ASSIGN_OR_RETURN(const auto bytes, artifact_->object(i));
        NINFER_RETURN_IF_ERROR(
            checkPacking(object, *layouts_[i], bytes, context, report_, faults_));
        report_.bytes += bytes.size();
        artifact_->release();
      }
    }
    total = 0;
    for (const ParityTask &task : tasks_)
      total += task.rowBytes() * task.rows;
    Progress progress("compare", total, options_.progress, Progress::Unit::Bytes);
    context.onBytes = [&](uint64_t bytes) { progress.add(bytes); };
    for (size_t i = 0; i < tasks_.size(); ++i) {
      progress.detail(tasks_[i].feed.parameter);
      if (tasks_[i].packed) // settles what readRows needs
        NINFER_RETURN_IF_ERROR(tasks_[i].tensor->packed->check());
      NINFER_RETURN_IF_ERROR(
          compareTensor(tasks_[i], context, report_.tensors[i], report_, faults_));
      artifact_->release();
    }
    return Status();
  }

  const ParityOptions &options_;
  ParityReport report_;
  ParityFaults faults_;
  const Artifact *artifact_ = nullptr;
  Checkpoint checkpoint_;
  std::map<std::string, Claim> claims_; ///< by object id
  std::vector<std::optional<ReferenceLayout>> layouts_;
  std::vector<ParityTask> tasks_; ///< same order as report_.tensors
};

} // namespace

void ParityFaults::add(ParityFault fault, uint64_t count) {
  report_.levels[size_t(fault.level)].faults += count;
  const auto same =
      std::count_if(report_.faults.begin(), report_.faults.end(), [&](const ParityFault &f) {
        return f.subject == fault.subject && f.level == fault.level;
      });
  // A diagnosis is always worth its line.
  if (size_t(same) < most_ || fault.rule == "row-order" || fault.rule == "axis")
    report_.faults.push_back(std::move(fault));
}

Result<ParityReport> checkParity(const ParityOptions &options) { return Ladder(options).run(); }

} // namespace ninfer
