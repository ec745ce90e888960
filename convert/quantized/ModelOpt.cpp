// Import of ModelOpt checkpoints: NVFP4 (multiplier to divisor) and FP8 with one scale per row or
// tensor. Configs: quantization_config in config.json, or hf_quant_config.json.
#include "convert/quantized/FloatWeights.h"
#include "convert/quantized/Import.h"
#include "convert/quantized/Scales.h"
#include "support/Bytes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace ninfer {

namespace {

const char *const kCode = "NB0323";
constexpr size_t kMaxNames = 65536;   ///< entries of one list
constexpr size_t kMaxPatterns = 1024; ///< of those, entries with '*' or '?'
constexpr size_t kMaxPatternBytes = 256;

enum class Algorithm : uint8_t { None, Nvfp4, Fp8Tensor, Fp8Rows };

struct AlgorithmRow {
  const char *name;
  Algorithm algorithm;
  const char *rule; ///< null: read
};

constexpr const char *kPreScale =
    "a scale of the activations (pre_quant_scale) belongs to no weight format";
constexpr AlgorithmRow kAlgorithms[] = {
    {"NVFP4", Algorithm::Nvfp4, nullptr},
    {"W4A16_NVFP4", Algorithm::Nvfp4, nullptr},
    {"FP8", Algorithm::Fp8Tensor, nullptr},
    {"FP8_PER_CHANNEL_PER_TOKEN", Algorithm::Fp8Rows, nullptr},
    {"NVFP4_AWQ", Algorithm::None, kPreScale},
    {"NVFP4_SVD", Algorithm::None, "a low-rank part beside the codes is not registered"},
    {"NVFP4_SVDQUANT", Algorithm::None, "a low-rank part beside the codes is not registered"},
    {"W4A8_NVFP4_FP8", Algorithm::None, "NVFP4 weights for FP8 activations are not read"},
    {"W4A16_AWQ", Algorithm::None, kPreScale},
    {"W4A8_AWQ", Algorithm::None, kPreScale},
    {"INT8_SQ", Algorithm::None, kPreScale},
    {"W8A8_SQ_PER_CHANNEL", Algorithm::None, kPreScale},
    {"W8A16", Algorithm::None, "int8 codes with one scale per row are not read from ModelOpt"},
    {"FP8_PB_WO", Algorithm::None,
     "the registered FP8 format has one scale per row, not per block"},
    {"FP8_PB_REAL", Algorithm::None,
     "the registered FP8 format has one scale per row, not per block"},
    {"MXFP8", Algorithm::None, "blocks of 32 with E8M0 scales are not registered"},
    {"W4A8_MXFP4_FP8", Algorithm::None, "blocks of 32 with E8M0 scales are not registered"},
};

/// Shell pattern with '*' and '?'; at most pattern * text steps.
bool globMatches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

/// Names and patterns of modules; a module inside a named one counts too.
class ModuleNames {
public:
  Status parse(const Json &list, const std::string &where) {
    if (!list.is_array() || list.size() > kMaxNames)
      return makeError(ErrorKind::BadFile, kCode,
                       where + " must be an array of at most " + std::to_string(kMaxNames) +
                           " names");
    for (const Json &entry : list) {
      NINFER_ASSIGN_OR_RETURN(std::string name, jsonIdentifier(entry, where, kCode));
      if (name.find_first_of("*?") == std::string::npos)
        names_.insert(std::move(name));
      else if (name.size() <= kMaxPatternBytes && patterns_.size() < kMaxPatterns)
        patterns_.push_back(std::move(name));
      else
        return makeError(ErrorKind::BadFile, kCode,
                         where + ": at most " + std::to_string(kMaxPatterns) + " patterns of " +
                             std::to_string(kMaxPatternBytes) + " bytes");
    }
    return Status();
  }

  bool contains(std::string_view module) const {
    for (std::string_view part = module;;) {
      if (names_.count(part) != 0 ||
          std::any_of(patterns_.begin(), patterns_.end(),
                      [&](const std::string &p) { return globMatches(p, part); }))
        return true;
      const size_t dot = part.rfind('.');
      if (dot == std::string_view::npos)
        return false;
      part = part.substr(0, dot);
    }
  }

private:
  std::set<std::string, std::less<>> names_;
  std::vector<std::string> patterns_;
};

class ModelOptImporter {
public:
  explicit ModelOptImporter(ImportContext &context)
      : context_(context), config_(context.config()) {}

  Status run() {
    NINFER_RETURN_IF_ERROR(readConfig());
    for (const SourceModule &module : context_.modules())
      if (module.shape.size() == 2)
        NINFER_RETURN_IF_ERROR(importModule(module));
    dropCacheScales();
    remarks();
    return Status();
  }

private:
  static const Json *find(const Json &object, const char *name) {
    auto it = object.find(name);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }

  /// hf_quant_config.json keeps the members one level down.
  Status readConfig() {
    const Json *members = &config_.members;
    where_ = config_.where;
    if (const Json *inner = find(*members, "quantization")) {
      if (!inner->is_object())
        return makeError(ErrorKind::BadFile, kCode, where_ + ".quantization must be an object");
      members = inner;
      where_ += ".quantization";
    }
    const Json *algorithm = find(*members, "quant_algo");
    if (!algorithm)
      return makeError(ErrorKind::BadFile, kCode, where_ + ".quant_algo is missing");
    NINFER_ASSIGN_OR_RETURN(std::string name,
                            jsonIdentifier(*algorithm, where_ + ".quant_algo", kCode));
    const Json *layers = find(*members, "quantized_layers");
    if (name == "MIXED_PRECISION") {
      NINFER_RETURN_IF_ERROR(readLayers(layers));
      mixed_ = true;
    } else {
      NINFER_ASSIGN_OR_RETURN(algorithm_, algorithmOf(name, find(*members, "group_size"), where_));
    }
    const char *list = members->contains("exclude_modules") ? "exclude_modules" : "ignore";
    const Json *excluded = find(*members, list);
    return excluded ? excluded_.parse(*excluded, where_ + "." + list) : Status();
  }

  Result<Algorithm> algorithmOf(const std::string &name, const Json *group,
                                const std::string &where) const {
    for (const AlgorithmRow &row : kAlgorithms) {
      if (name != row.name)
        continue;
      if (row.rule)
        return refuseConfig(config_, "quant_algo \"" + name + "\"", row.rule);
      if (row.algorithm == Algorithm::Nvfp4 && group && *group != 16)
        return refuseConfig(config_, where + ": group_size " + jsonExcerpt(*group),
                            "NVFP4 has one scale per 16 columns");
      return row.algorithm;
    }
    return refuseConfig(config_, "quant_algo " + jsonExcerpt(Json(name)),
                        "read are NVFP4, W4A16_NVFP4, FP8 and FP8_PER_CHANNEL_PER_TOKEN");
  }

  Status readLayers(const Json *layers) {
    if (!layers || !layers->is_object() || layers->size() > kMaxNames)
      return makeError(ErrorKind::BadFile, kCode,
                       where_ + ".quantized_layers must be an object of at most " +
                           std::to_string(kMaxNames) + " layers");
    for (const auto &[layer, value] : layers->items()) {
      const std::string where = where_ + ".quantized_layers '" + layer + "'";
      const Json *algorithm = value.is_object() ? find(value, "quant_algo") : nullptr;
      if (!algorithm)
        return makeError(ErrorKind::BadFile, kCode, where + ": quant_algo is missing");
      NINFER_ASSIGN_OR_RETURN(std::string name,
                              jsonIdentifier(*algorithm, where + ".quant_algo", kCode));
      NINFER_ASSIGN_OR_RETURN(layers_[layer], algorithmOf(name, find(value, "group_size"), where));
    }
    return Status();
  }

  Algorithm algorithmOfModule(const SourceModule &module) const {
    if (!module.isLinear())
      return Algorithm::None;
    if (mixed_) {
      auto it = layers_.find(module.name);
      return it == layers_.end() ? Algorithm::None : it->second;
    }
    return excluded_.contains(module.name) ? Algorithm::None : algorithm_;
  }

  void refuse(const SourceModule &module, const std::string &rule) {
    context_.refusals().refuse(module.name + ".weight", rule);
    for (const char *suffix : {"weight", "weight_scale", "weight_scale_2", "input_scale"})
      context_.drop(module.name + "." + suffix);
  }

  Status importModule(const SourceModule &module) {
    const std::string prefix = module.name + ".";
    const Algorithm algorithm = algorithmOfModule(module);
    const bool scaled = context_.has(prefix + "weight_scale");
    if (algorithm == Algorithm::None) {
      if (scaled)
        context_.refusals().fault("tensor '" + prefix + "weight_scale' of a module that " + where_ +
                                  " leaves unquantized");
      return Status();
    }
    if (module.tied && !scaled)
      return Status();
    for (const char *foreign : {"weight_global_scale", "weight_packed", "input_global_scale",
                                "weight_scale_inv", "qweight"})
      if (context_.has(prefix + foreign)) {
        context_.refusals().fault("'" + prefix + foreign +
                                  "' in a ModelOpt checkpoint: two conventions for one weight");
        return Status();
      }
    if (context_.has(prefix + "pre_quant_scale")) {
      refuse(module, kPreScale);
      context_.drop(prefix + "pre_quant_scale");
      return Status();
    }
    std::optional<PackedComponent> codes = need(prefix, "weight"),
                                   scales = need(prefix, "weight_scale");
    if (!codes || !scales)
      return Status();
    return algorithm == Algorithm::Nvfp4
               ? nvfp4(module, std::move(*codes), std::move(*scales))
               : float8(module, algorithm, std::move(*codes), std::move(*scales));
  }

  std::optional<PackedComponent> need(const std::string &prefix, const char *suffix) {
    std::optional<PackedComponent> out = context_.component(prefix + suffix);
    if (out)
      return out;
    std::optional<PackedComponent> plain = context_.component(prefix + "weight");
    context_.refusals().fault("missing: tensor '" + prefix + suffix + "' of a quantized module" +
                              (plain ? ", the weight is " + plain->tensor.typeName : ""));
    return std::nullopt;
  }

  Status add(const SourceModule &module, Result<std::shared_ptr<PackedWeight>> weight) {
    if (weight.ok())
      context_.add(module.name + ".weight", weight.take());
    else
      context_.refusals().fault(weight.error().message);
    return Status();
  }

  struct Reciprocal {
    uint32_t word = 0;
    double error = 0; ///< relative, of the reciprocal against the multiplier
    std::string text;
  };

  /// The nearest binary32 of 1 / the multiplier in `component`. A bad value is a fault.
  Result<std::optional<Reciprocal>> reciprocal(const PackedComponent &component, const char *what) {
    Result<uint32_t> stored = readPositiveScalar(component);
    if (!stored.ok()) {
      if (stored.error().code != "NB0326")
        return stored.takeStatus();
      context_.refusals().fault(stored.error().message);
      return std::optional<Reciprocal>();
    }
    const float multiplier = floatFromBits(*stored);
    const float divisor = 1.0f / multiplier;
    Reciprocal out;
    out.word = bitsFromFloat(divisor);
    if (!std::isnormal(divisor)) {
      context_.refusals().fault(component.place() + ": the reciprocal of " + valueText(multiplier) +
                                " is no normal binary32 value");
      return std::optional<Reciprocal>();
    }
    // The product of two binary32 values is exact in binary64.
    out.error = std::fabs(static_cast<double>(divisor) * static_cast<double>(multiplier) - 1);
    char error[32];
    std::snprintf(error, sizeof error, "%.3g", out.error);
    out.text = std::string(what) + " " + valueText(divisor) +
               " derived, not bit-copied: nearest binary32 of 1 / " + valueText(multiplier) +
               ", relative error " + error;
    return std::optional<Reciprocal>(std::move(out));
  }

  Status nvfp4(const SourceModule &module, PackedComponent codes, PackedComponent scales) {
    const std::string prefix = module.name + ".";
    std::optional<PackedComponent> multiplier = need(prefix, "weight_scale_2");
    if (!multiplier)
      return Status();
    NINFER_ASSIGN_OR_RETURN(std::optional<Reciprocal> divisor, reciprocal(*multiplier, "divisor"));
    if (!divisor)
      return Status();
    Nvfp4Parts parts;
    parts.scheme = "modelopt nvfp4";
    parts.divisor = divisor->word;
    parts.notes.push_back("codes and block scales preserved; " + divisor->text);
    // An exact reciprocal keeps every value; otherwise one rounding of the divisor moves them.
    parts.provenance = divisor->error == 0 ? Provenance::WidenedExactly : Provenance::Converted;
    parts.scalars.push_back(std::move(*multiplier));
    ++derived_;
    largestError_ = std::max(largestError_, divisor->error);
    if (std::optional<PackedComponent> input = context_.component(prefix + "input_scale")) {
      NINFER_ASSIGN_OR_RETURN(std::optional<Reciprocal> activation,
                              reciprocal(*input, "activation divisor"));
      if (!activation)
        return Status();
      parts.activation = ActivationDivisor{activation->word, true};
      parts.notes.push_back(activation->text);
      parts.scalars.push_back(std::move(*input));
      largestError_ = std::max(largestError_, activation->error);
    }
    parts.codes = std::move(codes);
    parts.scales = std::move(scales);
    return add(module, makeNvfp4Weight(std::move(parts)));
  }

  Status float8(const SourceModule &module, Algorithm algorithm, PackedComponent codes,
                PackedComponent scales) {
    const std::string prefix = module.name + ".";
    if (context_.has(prefix + "weight_scale_2")) {
      context_.refusals().fault("'" + prefix + "weight_scale_2' beside FP8 codes");
      return Status();
    }
    const std::vector<uint64_t> &shape = scales.tensor.shape;
    const uint64_t rows = codes.tensor.shape.empty() ? 1 : codes.tensor.shape[0];
    std::optional<RowScales> read = rowScalesOfShape(shape, rows);
    const bool perTensor = algorithm == Algorithm::Fp8Tensor;
    if (!read || (!perTensor && *read != RowScales::PerRow) ||
        (perTensor && *read == RowScales::PerRow && rows != 1)) {
      context_.refusals().fault("tensor '" + scales.tensor.name + "' " + shapeText(shape) + ": " +
                                (perTensor
                                     ? "FP8 has one scale per tensor"
                                     : "FP8_PER_CHANNEL_PER_TOKEN needs [" + std::to_string(rows) +
                                           "] or [" + std::to_string(rows) + ",1]"));
      return Status();
    }
    Fp8Parts parts;
    if (perTensor && rows != 1) {
      if (!context_.options().replicateTensorScale) {
        refuse(module, "one scale per tensor: the registered format has one per row; "
                       "--tensor-scale replicate writes it once per row");
        context_.refusals().help(kReplicateHelp);
        return Status();
      }
      parts.notes.push_back("one scale per tensor, written once per row");
    }
    parts.scheme = perTensor ? "modelopt fp8" : "modelopt fp8 per row";
    parts.rows = perTensor ? RowScales::OnePerTensor : RowScales::PerRow;
    parts.codes = std::move(codes);
    parts.scales = std::move(scales);
    // The scale of FP8 activations has no place beside FP8 weights.
    if (context_.has(prefix + "input_scale")) {
      context_.drop(prefix + "input_scale");
      ++droppedInputs_;
    }
    return add(module, makeFp8RowWeight(std::move(parts)));
  }

  /// Scales of a quantized key/value cache are runtime state.
  void dropCacheScales() {
    size_t dropped = 0;
    for (const std::string &name : context_.names())
      for (std::string_view suffix :
           {".k_proj.k_scale", ".v_proj.v_scale", ".k_proj.output_scale", ".v_proj.output_scale"})
        if (name.size() > suffix.size() &&
            name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
          context_.drop(name);
          ++dropped;
          break;
        }
    if (dropped != 0)
      context_.note(std::to_string(dropped) + " scales of a quantized key/value cache are ignored");
  }

  void remarks() {
    if (droppedInputs_ != 0)
      context_.note(std::to_string(droppedInputs_) + " scales of FP8 activations are ignored");
    if (derived_ == 0)
      return;
    char error[32];
    std::snprintf(error, sizeof error, "%.3g", largestError_);
    context_.note(std::to_string(derived_) +
                  " NVFP4 divisors are derived from multipliers (weight_scale_2), not bit-copied; "
                  "largest relative error " +
                  error);
  }

  ImportContext &context_;
  const QuantConfig &config_;
  std::string where_;
  Algorithm algorithm_ = Algorithm::None;
  bool mixed_ = false;
  std::map<std::string, Algorithm> layers_;
  ModuleNames excluded_;
  size_t derived_ = 0, droppedInputs_ = 0;
  double largestError_ = 0;
};

} // namespace

Status importModelOpt(ImportContext &context) { return ModelOptImporter(context).run(); }

} // namespace ninfer
