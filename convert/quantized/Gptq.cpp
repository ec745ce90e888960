// Import of GPTQ checkpoints (AutoGPTQ, GPTQModel) and of AutoRound exports in the same storage.
#include "convert/quantized/GptqWeight.h"
#include "convert/quantized/Import.h"
#include "convert/quantized/Targets.h"

#include <algorithm>
#include <vector>

namespace ninfer {

namespace {

constexpr uint64_t kMaxGroup = 1u << 30;
const char *const kCode = "NB0323";

/// What the config says of one module.
struct GptqScheme {
  int64_t bits = 4;
  uint64_t group = 0; ///< 0: one scale per row
  bool symmetric = true;
  bool descAct = false;
};

/// An override of some modules: gptqmodel's `dynamic`, AutoRound's `extra_config`.
struct Override {
  TargetList targets;
  bool quantized = true;
  GptqScheme scheme;
};

class GptqImporter {
public:
  explicit GptqImporter(ImportContext &context)
      : context_(context), config_(context.config()), members_(config_.members) {}

  Status run() {
    NINFER_RETURN_IF_ERROR(storage());
    NINFER_RETURN_IF_ERROR(readScheme(members_, config_.where, scheme_));
    NINFER_RETURN_IF_ERROR(overrides());
    size_t quantized = 0;
    for (const SourceModule &module : context_.modules()) {
      if (!module.isLinear())
        continue;
      if (!context_.has(module.name + ".qweight")) {
        NINFER_RETURN_IF_ERROR(checkPlainHead(module));
        continue;
      }
      ++quantized;
      NINFER_RETURN_IF_ERROR(importModule(module));
    }
    if (quantized == 0)
      context_.refusals().fault("no tensor '*.qweight' for any matrix of the model");
    return Status();
  }

private:
  bool autoRound() const { return config_.method == "auto-round"; }

  const Json *find(const Json &object, const char *name) const {
    auto it = object.find(name);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }

  Result<std::string> text(const char *name) const {
    const Json *value = find(members_, name);
    if (!value)
      return std::string();
    return jsonIdentifier(*value, config_.where + "." + name, kCode);
  }

  /// How the words lie in the tensors and which zero point they hold.
  Status storage() {
    NINFER_ASSIGN_OR_RETURN(std::string pack, text("pack_dtype"));
    if (!pack.empty() && pack != "int32")
      return refuseConfig(config_, "pack_dtype \"" + pack + "\"", "only int32 words are read");
    if (const Json *marlin = find(members_, "is_marlin_format"); marlin && *marlin != false)
      return refuseConfig(config_, "is_marlin_format", "words repacked for one GPU kernel");
    return autoRound() ? autoRoundStorage() : gptqStorage();
  }

  Status gptqStorage() {
    const char *named = "checkpoint_format";
    NINFER_ASSIGN_OR_RETURN(std::string format, text(named));
    NINFER_ASSIGN_OR_RETURN(std::string other, text("format"));
    if (!format.empty() && !other.empty() && format != other)
      return makeError(ErrorKind::BadFile, kCode,
                       config_.where + ": checkpoint_format \"" + format + "\" and format \"" +
                           other + "\" contradict each other");
    if (format.empty() && !other.empty()) {
      format = other;
      named = "format";
    }
    if (!format.empty() && format != "gptq" && format != "gptq_v2")
      return refuseConfig(config_, std::string(named) + " \"" + format + "\"",
                          "only gptq and gptq_v2 are read");
    minusOne_ = format != "gptq_v2";
    label_ = format.empty() ? "a config without checkpoint_format"
                            : std::string(named) + " \"" + format + "\"";
    schemeText_ = format == "gptq_v2" ? "gptq_v2" : "gptq";
    return option();
  }

  /// auto_round:auto_gptq and older spellings store zero - 1, auto_round:gptqmodel the zero.
  Status autoRoundStorage() {
    const char *named = "packing_format";
    NINFER_ASSIGN_OR_RETURN(std::string packing, text(named));
    if (packing.empty()) {
      named = "backend"; // before 0.4
      NINFER_ASSIGN_OR_RETURN(packing, text(named));
    }
    const std::string what = std::string(named) + " \"" + packing + "\"";
    const bool v2 = packing.find("gptqmodel") != std::string::npos;
    const bool v1 = !v2 && packing.find("gptq") != std::string::npos;
    if (packing.find("awq") != std::string::npos || (!v1 && !v2))
      return refuseConfig(config_, packing.empty() ? "no packing_format" : what,
                          "only exports in GPTQ storage are read: export with format "
                          "\"auto_gptq\" or \"auto_round:auto_gptq\"");
    if (const Json *type = find(members_, "data_type"))
      if (*type != "int")
        return refuseConfig(config_, "data_type " + jsonExcerpt(*type), "only \"int\" is read");
    if (const Json *bits = find(members_, "act_bits"))
      if (!bits->is_number_integer() || *bits < 16)
        return refuseConfig(config_, "act_bits " + jsonExcerpt(*bits),
                            "quantized activations belong to no weight format");
    minusOne_ = v1;
    label_ = what;
    schemeText_ = "auto-round " + packing;
    return option();
  }

  /// --gptq-zero-points decides against the label.
  Status option() {
    if (context_.options().gptqZeros == GptqZeros::AsLabelled)
      return Status();
    minusOne_ = context_.options().gptqZeros == GptqZeros::MinusOne;
    label_ = std::string("--gptq-zero-points v") + (minusOne_ ? "1" : "2");
    context_.note("GPTQ zero points are read as version " + std::string(minusOne_ ? "1" : "2") +
                  " (" + label_ + ")");
    return Status();
  }

  Status readScheme(const Json &object, const std::string &where, GptqScheme &out) const {
    if (const Json *bits = find(object, "bits")) {
      NINFER_ASSIGN_OR_RETURN(out.bits, jsonInteger(*bits, 1, 32, where + ".bits", kCode));
    } else if (&object == &members_) {
      return makeError(ErrorKind::BadFile, kCode, where + ".bits is missing");
    }
    if (const Json *group = find(object, "group_size")) {
      NINFER_ASSIGN_OR_RETURN(int64_t size,
                              jsonInteger(*group, -1, kMaxGroup, where + ".group_size", kCode));
      if (size == 0)
        return makeError(ErrorKind::BadFile, kCode, where + ".group_size must not be 0");
      out.group = size < 0 ? 0 : static_cast<uint64_t>(size);
    } else if (&object == &members_) {
      return makeError(ErrorKind::BadFile, kCode, where + ".group_size is missing");
    }
    for (auto [name, target] : {std::pair<const char *, bool *>{"sym", &out.symmetric},
                                std::pair<const char *, bool *>{"desc_act", &out.descAct}}) {
      const Json *value = find(object, name);
      if (!value)
        continue;
      if (!value->is_boolean())
        return makeError(ErrorKind::BadFile, kCode,
                         where + "." + name + " must be true or false, got " +
                             jsonExcerpt(*value));
      *target = value->get<bool>();
    }
    return Status();
  }

  Status overrides() {
    const char *name = autoRound() ? "extra_config" : "dynamic";
    const Json *all = find(members_, name);
    if (!all)
      return Status();
    const std::string where = config_.where + "." + name;
    if (!all->is_object() || all->size() > kMaxPatterns)
      return makeError(ErrorKind::BadFile, kCode,
                       where + " must be an object of at most " + std::to_string(kMaxPatterns) +
                           " members");
    for (const auto &[key, value] : all->items()) {
      Override entry;
      entry.scheme = scheme_;
      Json targets = Json::array();
      if (autoRound()) {
        targets = {key, "re:.*(?:" + key + ")"}; // a name, or an expression found anywhere in it
      } else {
        const bool minus = key.rfind("-:", 0) == 0;
        entry.quantized = !minus;
        targets.push_back("re:" + (minus || key.rfind("+:", 0) == 0 ? key.substr(2) : key));
      }
      NINFER_ASSIGN_OR_RETURN(entry.targets, TargetList::parse(targets, where));
      if (!value.is_object())
        return makeError(ErrorKind::BadFile, kCode, where + " '" + key + "' must be an object");
      NINFER_RETURN_IF_ERROR(readScheme(value, where + " '" + key + "'", entry.scheme));
      if (entry.scheme.bits >= 16)
        entry.quantized = false;
      overrides_.push_back(std::move(entry));
    }
    return Status();
  }

  /// Which matrices of the layers are quantized the tensors say; of the head the config does.
  Status checkPlainHead(const SourceModule &module) {
    const Json *head = find(members_, "lm_head");
    if (module.name != "lm_head" || module.tied || !head)
      return Status();
    if (!head->is_boolean())
      return makeError(ErrorKind::BadFile, kCode,
                       config_.where + ".lm_head must be true or false, got " + jsonExcerpt(*head));
    if (!head->get<bool>())
      return Status();
    for (const Override &entry : overrides_) {
      NINFER_ASSIGN_OR_RETURN(const std::string *target, entry.targets.match(module));
      if (target && !entry.quantized)
        return Status();
      if (target)
        break;
    }
    context_.refusals().fault("missing: tensor 'lm_head.qweight' (lm_head is true)");
    return Status();
  }

  void refuse(const SourceModule &module, const std::string &rule) {
    context_.refusals().refuse(module.name + ".weight", rule);
    for (const char *suffix : {"qweight", "qzeros", "scales", "g_idx", "bias"})
      context_.drop(module.name + "." + suffix);
  }

  Status importModule(const SourceModule &module) {
    GptqScheme scheme = scheme_;
    for (const Override &entry : overrides_) {
      NINFER_ASSIGN_OR_RETURN(const std::string *target, entry.targets.match(module));
      if (!target)
        continue;
      if (!entry.quantized) {
        context_.refusals().fault("'" + module.name + ".qweight' exists, but '" + *target +
                                  "' leaves the module unquantized");
        return Status();
      }
      scheme = entry.scheme;
      break;
    }
    const std::string prefix = module.name + ".";
    for (const char *foreign : {"weight", "weight_packed", "weight_scale"})
      if (context_.has(prefix + foreign)) {
        context_.refusals().fault("'" + prefix + foreign + "' beside '" + prefix +
                                  "qweight': two forms of one weight");
        return Status();
      }
    if (!scheme.symmetric) {
      refuse(module, "sym: false: grouped formats have no zero point");
      return Status();
    }
    std::string rule;
    if (!gptqFormat(static_cast<uint32_t>(scheme.bits), scheme.group, rule)) {
      refuse(module, rule);
      return Status();
    }
    std::optional<PackedComponent> zeros = need(prefix + "qzeros"), scales = need(prefix + "scales");
    if (!zeros || !scales)
      return Status();
    GptqParts parts;
    parts.order = context_.component(prefix + "g_idx");
    if (scheme.descAct && !parts.order) {
      refuse(module, "act-order: desc_act is true and no g_idx tells the groups");
      return Status();
    }
    NINFER_ASSIGN_OR_RETURN(bool neutral, neutralBias(module));
    if (!neutral)
      return Status();
    parts.scheme = schemeText_ + " int" + std::to_string(scheme.bits) + " group " +
                   (scheme.group ? std::to_string(scheme.group) : "of a row");
    parts.codes = *context_.component(prefix + "qweight");
    parts.zeros = std::move(*zeros);
    parts.scales = std::move(*scales);
    parts.rows = module.shape[0];
    parts.columns = module.shape[1];
    parts.bits = static_cast<uint32_t>(scheme.bits);
    parts.groupSize = scheme.group;
    parts.zerosMinusOne = minusOne_;
    parts.label = label_;
    Result<std::shared_ptr<PackedWeight>> weight = makeGptqWeight(std::move(parts));
    if (weight.ok())
      context_.add(prefix + "weight", weight.take());
    else if (weight.error().code == "NB0324")
      refuse(module, weight.error().message);
    else if (weight.error().code == "NB0325")
      context_.refusals().fault(weight.error().message);
    else
      return weight.takeStatus();
    return Status();
  }

  std::optional<PackedComponent> need(const std::string &name) {
    std::optional<PackedComponent> out = context_.component(name);
    if (!out)
      context_.refusals().fault("missing: tensor '" + name + "'");
    return out;
  }

  /// Old tools wrote a bias of zeros beside every matrix of models that have none.
  Result<bool> neutralBias(const SourceModule &module) {
    std::optional<PackedComponent> bias = context_.component(module.name + ".bias");
    if (!bias)
      return true;
    if (bias->tensor.shape != std::vector<uint64_t>{module.shape[0]}) {
      context_.refusals().fault("tensor '" + bias->tensor.name + "' must be [" +
                                std::to_string(module.shape[0]) + "], got " +
                                shapeText(bias->tensor.shape));
      return false;
    }
    std::vector<std::byte> bytes(bias->tensor.bytes);
    NINFER_RETURN_IF_ERROR(bias->read(0, bytes));
    if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte(0); })) {
      refuse(module, "tensor '" + bias->tensor.name + "' is not zero: the model has no biases");
      return false;
    }
    context_.drop(bias->tensor.name);
    context_.note("tensor '" + bias->tensor.name + "' is ignored: all zero");
    return true;
  }

  ImportContext &context_;
  const QuantConfig &config_;
  const Json &members_;
  GptqScheme scheme_;
  std::vector<Override> overrides_;
  bool minusOne_ = true;
  std::string label_, schemeText_;
};

} // namespace

Status importGptq(ImportContext &context) { return GptqImporter(context).run(); }

} // namespace ninfer
