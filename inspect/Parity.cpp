// Level 0 and the order of the work. The naming of parameters is written out here a second time, so
// that a wrong entry in the converter's table cannot hide itself.
#include "inspect/Parity.h"

#include "artifact/container/Reader.h"
#include "convert/Checkpoint.h"
#include "convert/quantized/PackedWeight.h"
#include "inspect/ParityWork.h"
#include "models/Decoder.h"
#include "support/File.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

namespace ninfer {

namespace fs = std::filesystem;

namespace {

bool startsWith(const std::string &text, const std::string &start) {
  return text.compare(0, start.size(), start) == 0;
}

/// Parameter fed by a Hugging Face tensor; empty when it feeds none.
std::string parameterOfHuggingFace(const std::string &name) {
  if (name == "model.embed_tokens.weight")
    return "text/token_embedding";
  if (name == "model.norm.weight")
    return "text/final_norm";
  if (name == "lm_head.weight")
    return "text/output_head";
  const std::string start = "model.layers.";
  const size_t dot = name.find('.', start.size());
  if (!startsWith(name, start) || dot == std::string::npos)
    return "";
  static const std::map<std::string, std::string> roles = {
      {"input_layernorm.weight", "input_norm"},
      {"post_attention_layernorm.weight", "post_attention_norm"},
      {"self_attn.q_proj.weight", "attention/query"},
      {"self_attn.k_proj.weight", "attention/key"},
      {"self_attn.v_proj.weight", "attention/value"},
      {"self_attn.o_proj.weight", "attention/output"},
      {"self_attn.q_norm.weight", "attention/query_norm"},
      {"self_attn.k_norm.weight", "attention/key_norm"},
      {"mlp.gate_proj.weight", "mlp/gate"},
      {"mlp.up_proj.weight", "mlp/up"},
      {"mlp.down_proj.weight", "mlp/down"},
  };
  const auto role = roles.find(name.substr(dot + 1));
  return role == roles.end()
             ? ""
             : "text/layers/" + name.substr(start.size(), dot - start.size()) + "/" + role->second;
}

/// The same for a GGUF tensor.
std::string parameterOfGguf(const std::string &name) {
  if (name == "token_embd.weight")
    return "text/token_embedding";
  if (name == "output_norm.weight")
    return "text/final_norm";
  if (name == "output.weight")
    return "text/output_head";
  const size_t dot = name.find('.', 4);
  if (!startsWith(name, "blk.") || dot == std::string::npos)
    return "";
  static const std::map<std::string, std::string> roles = {
      {"attn_norm.weight", "input_norm"},
      {"ffn_norm.weight", "post_attention_norm"},
      {"attn_q.weight", "attention/query"},
      {"attn_k.weight", "attention/key"},
      {"attn_v.weight", "attention/value"},
      {"attn_output.weight", "attention/output"},
      {"attn_q_norm.weight", "attention/query_norm"},
      {"attn_k_norm.weight", "attention/key_norm"},
      {"ffn_gate.weight", "mlp/gate"},
      {"ffn_up.weight", "mlp/up"},
      {"ffn_down.weight", "mlp/down"},
  };
  const auto role = roles.find(name.substr(dot + 1));
  return role == roles.end() ? "" : "text/layers/" + name.substr(4, dot - 4) + "/" + role->second;
}

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
    NINFER_ASSIGN_OR_RETURN(checkpoint_, openCheckpoint(options_.source, opening));
    if (!std::holds_alternative<DecoderConfig>(checkpoint_.config)) {
      Status status(makeError(ErrorKind::Unsupported, "NB0350",
                              options_.source.string() + ": parity knows the tensors of " +
                                  listSupportedArchitectures() + ", not those of " +
                                  architectureOf(checkpoint_.config)));
      return Status(std::move(status.help("ninfer-inspect verify and diff read every model")));
    }
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
  const DecoderConfig &decoder() const { return std::get<DecoderConfig>(checkpoint_.config); }

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

  void checkConfig() {
    item();
    const auto component = directory().components.find("text");
    if (component == directory().components.end())
      return fault("config", "text", "the artifact has no component 'text'");
    const Json wanted = toJson(decoder());
    const Json &stored = component->second.config;
    for (const auto &[key, value] : wanted.items())
      if (!stored.is_object() || !stored.contains(key) || stored[key] != value)
        fault("config", "text/config",
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
    const auto component = directory().components.find("text");
    if (component == directory().components.end())
      return Status();
    const auto &stored = component->second.resources;
    if (stored.empty()) {
      report_.notes.push_back("the artifact holds no text resources");
      return Status();
    }
    std::map<std::string, std::string> wanted;
    for (const SourceResource &resource : checkpoint_.resources)
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
    std::map<std::string, const SourceTensor *> wanted;
    const bool gguf = checkpoint_.kind == "gguf";
    for (const SourceTensor &tensor : checkpoint_.tensors.tensors) {
      const std::string name =
          gguf ? parameterOfGguf(tensor.name) : parameterOfHuggingFace(tensor.name);
      if (name.empty())
        report_.notes.push_back("source tensor '" + tensor.name + "' feeds no parameter");
      else if (!(name == "text/output_head" && decoder().tieWordEmbeddings))
        wanted[name] = &tensor;
    }
    const auto embedding = wanted.find("text/token_embedding");
    if (decoder().tieWordEmbeddings && embedding != wanted.end())
      wanted["text/output_head"] = embedding->second;
    for (const auto &[name, binding] : directory().bindings)
      if (!wanted.count(name))
        fault("inventory", name, "bound in the artifact, but no tensor of the source feeds it");
    for (const auto &[name, tensor] : wanted) {
      item();
      const auto bound = directory().bindings.find(name);
      if (bound == directory().bindings.end())
        fault("inventory", name, "not bound, source tensor '" + tensor->name + "' feeds it");
      else
        makeTask(name, *tensor, bound->second);
    }
    return Status();
  }

  void makeTask(const std::string &name, const SourceTensor &tensor, const Binding &binding) {
    ParityTask task;
    task.parameter = name;
    task.tensor = &tensor;
    task.file = &checkpoint_.tensors.files[tensor.file];
    task.packed = tensor.packed.get();
    const auto ends = [&](const std::string &tail) {
      return name.size() > tail.size() &&
             name.compare(name.size() - tail.size(), tail.size(), tail) == 0;
    };
    if (checkpoint_.kind == "gguf" && decoder().architecture == "LlamaForCausalLM" &&
        (ends("/attention/query") || ends("/attention/key")))
      task.pairedHeadDim = uint64_t(decoder().headDim);
    uint64_t row = 0;
    std::set<uint32_t> objects;
    for (const RangePart &part : binding.parts) {
      if (!layouts_[part.object])
        return; // its fault is already told
      const ReferenceLayout &layout = *layouts_[part.object];
      if (layout.columns != tensor.columns() || part.begin % layout.columns != 0 ||
          part.end % layout.columns != 0)
        return fault("inventory", name,
                     "bound to elements " + std::to_string(part.begin) + ".." +
                         std::to_string(part.end) + " of object '" +
                         directory().objects[part.object].id + "' with rows of " +
                         std::to_string(layout.columns) + ", expected whole rows of " +
                         std::to_string(tensor.columns()));
      auto bytes = artifact_->object(part.object);
      const uint64_t rows = (part.end - part.begin) / layout.columns;
      task.segments.push_back({layout, *bytes, part.begin / layout.columns, row, rows});
      row += rows;
      objects.insert(part.object);
    }
    if (row != tensor.rows())
      return fault("inventory", name,
                   "bound to " + std::to_string(row) + " rows, source tensor '" + tensor.name +
                       "' " + shapeText(tensor.shape) + " has " + std::to_string(tensor.rows()));
    TensorParity out;
    out.parameter = name;
    out.source = tensor.name;
    out.sourceType = tensor.typeName;
    out.format = task.segments[0].layout.format;
    out.shape = tensor.shape;
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
      total += task.tensor->bytes;
    Progress progress("compare", total, options_.progress, Progress::Unit::Bytes);
    context.onBytes = [&](uint64_t bytes) { progress.add(bytes); };
    for (size_t i = 0; i < tasks_.size(); ++i) {
      progress.detail(tasks_[i].parameter);
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
