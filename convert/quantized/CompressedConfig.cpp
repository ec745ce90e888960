#include "convert/quantized/CompressedConfig.h"

#include <algorithm>
#include <limits>
#include <set>

namespace ninfer {

namespace {

const char *const kCode = "NB0323";
constexpr uint64_t kMaxGroup = 1u << 30;

Error bad(const std::string &text) { return makeError(ErrorKind::BadFile, kCode, text); }

/// Member of an object, or null when absent or null.
const Json *find(const Json &object, const char *name) {
  auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<std::string> textMember(const Json &object, const char *name, const std::string &where,
                               const std::string &fallback) {
  const Json *value = find(object, name);
  if (!value)
    return fallback;
  return jsonIdentifier(*value, where + "." + name, kCode);
}

std::string lower(std::string text) {
  for (char &c : text)
    c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return text;
}

class ArgsReader {
public:
  ArgsReader(const Json &args, std::string where) : args_(args), where_(std::move(where)) {}

  Result<WeightArgs> run() {
    if (!args_.is_object())
      return bad(where_ + " must be an object, got " + jsonExcerpt(args_));
    static const std::set<std::string> known = {
        "num_bits", "type",     "symmetric",       "group_size",  "strategy", "block_structure",
        "dynamic",  "actorder", "observer_kwargs", "scale_dtype", "observer", "zp_dtype"};
    for (const auto &item : args_.items())
      if (!known.count(item.key()) && !item.value().is_null())
        return bad(where_ + ": unknown member '" + item.key() + "'");
    if (const Json *bits = find(args_, "num_bits")) {
      NINFER_ASSIGN_OR_RETURN(uint64_t n,
                              jsonUnsigned(*bits, 1, 16, where_ + ".num_bits", kCode));
      out_.bits = static_cast<uint32_t>(n);
    }
    NINFER_ASSIGN_OR_RETURN(std::string type, textMember(args_, "type", where_, "int"));
    type = lower(type);
    if (type != "int" && type != "float")
      return bad(where_ + ".type: expected int or float, got '" + type + "'");
    out_.isFloat = type == "float";
    NINFER_RETURN_IF_ERROR(boolean("symmetric", out_.symmetric));
    NINFER_RETURN_IF_ERROR(boolean("dynamic", out_.dynamic));
    NINFER_RETURN_IF_ERROR(actorder());
    NINFER_RETURN_IF_ERROR(strategy());
    return out_;
  }

private:
  Status boolean(const char *name, bool &out) {
    const Json *value = find(args_, name);
    if (!value)
      return Status();
    if (value->is_string()) { // dynamic: "local"
      out = true;
      return Status();
    }
    if (!value->is_boolean())
      return bad(where_ + "." + name + " must be true or false, got " + jsonExcerpt(*value));
    out = value->get<bool>();
    return Status();
  }

  Status actorder() {
    const Json *value = find(args_, "actorder");
    if (!value)
      return Status();
    if (value->is_boolean()) {
      out_.groupOrder = value->get<bool>();
      return Status();
    }
    NINFER_ASSIGN_OR_RETURN(std::string name, textMember(args_, "actorder", where_, ""));
    name = lower(name);
    if (name == "group" || name == "dynamic")
      out_.groupOrder = true;
    else if (name != "weight" && name != "static")
      return bad(where_ + ".actorder: expected group, dynamic, weight or static, got '" + name +
                 "'");
    return Status();
  }

  Status strategy() {
    int64_t size = 0; // absent
    if (const Json *group = find(args_, "group_size")) {
      NINFER_ASSIGN_OR_RETURN(
          size, jsonInteger(*group, -1, static_cast<int64_t>(kMaxGroup), where_ + ".group_size",
                            kCode));
      if (size == 0)
        return bad(where_ + ".group_size must be positive, or -1 for one scale per row");
    }
    NINFER_ASSIGN_OR_RETURN(out_.strategy, textMember(args_, "strategy", where_, ""));
    out_.strategy = lower(out_.strategy);
    if (out_.strategy.empty())
      out_.strategy = size == 0 ? "tensor" : size == -1 ? "channel" : "group";
    static const std::set<std::string> known = {"tensor",       "channel", "group",    "block",
                                                "tensor_group", "token",   "attn_head"};
    if (!known.count(out_.strategy))
      return bad(where_ + ".strategy: unknown strategy '" + out_.strategy + "'");
    const bool grouped = out_.strategy == "group" || out_.strategy == "tensor_group";
    if (grouped && size <= 0)
      return bad(where_ + ": strategy " + out_.strategy + " needs a positive group_size");
    if (!grouped && size > 0)
      return bad(where_ + ": group_size " + std::to_string(size) + " contradicts strategy " +
                 out_.strategy);
    out_.groupSize = grouped ? static_cast<uint64_t>(size) : 0;
    return Status();
  }

  const Json &args_;
  std::string where_;
  WeightArgs out_;
};

struct Preset {
  const char *name;
  const char *weights; ///< arguments as JSON
  bool activations;
};
constexpr Preset kPresets[] = {
    {"unquantized", "null", false},
    {"w8a16", R"({"num_bits":8,"strategy":"channel"})", false},
    {"w4a16", R"({"num_bits":4,"strategy":"group","group_size":128})", false},
    {"w4a16_asym", R"({"num_bits":4,"strategy":"group","group_size":128,"symmetric":false})", false},
    {"w8a8", R"({"num_bits":8,"strategy":"channel"})", true},
    {"int8", R"({"num_bits":8,"strategy":"channel"})", true},
    {"w4a8", R"({"num_bits":4,"strategy":"group","group_size":128})", true},
    {"fp8", R"({"num_bits":8,"type":"float","strategy":"tensor"})", true},
    {"fp8_dynamic", R"({"num_bits":8,"type":"float","strategy":"channel"})", true},
    {"fp8_block", R"({"num_bits":8,"type":"float","strategy":"block"})", true},
    {"nvfp4a16", R"({"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16})", false},
    {"nvfp4", R"({"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16})", true},
};

class ConfigReader {
public:
  explicit ConfigReader(const QuantConfig &config) : config_(config), json_(config.members) {}

  Result<CompressedConfig> run() {
    NINFER_RETURN_IF_ERROR(refusals());
    NINFER_ASSIGN_OR_RETURN(format_, textMember(json_, "format", config_.where, "dense"));
    const Json *groups = find(json_, "config_groups");
    if (!groups || !groups->is_object() || groups->empty())
      return bad(config_.where + ".config_groups must be an object that is not empty");
    for (const auto &item : groups->items())
      NINFER_RETURN_IF_ERROR(scheme(item.key(), item.value()));
    const Json *ignore = find(json_, "ignore");
    NINFER_ASSIGN_OR_RETURN(
        out_.ignore, TargetList::parse(ignore ? *ignore : Json(), config_.where + ".ignore"));
    out_.kvCache = find(json_, "kv_cache_scheme") != nullptr;
    static const std::set<std::string> known = {
        "config_groups",       "ignore",          "format",           "kv_cache_scheme",
        "quant_method",        "sparsity_config", "transform_config", "global_compression_ratio",
        "quantization_status", "run_compressed",  "version"};
    for (const auto &item : json_.items())
      if (!known.count(item.key()))
        out_.unused += (out_.unused.empty() ? "" : ", ") + item.key();
    return std::move(out_);
  }

private:
  /// What changes the weights beyond codes and scales.
  Status refusals() {
    if (const Json *transform = find(json_, "transform_config"))
      if (!transform->empty())
        return refuseConfig(config_, "transform_config", "transforms of the weights are not "
                                                         "registered");
    if (const Json *sparsity = find(json_, "sparsity_config")) {
      const Json *format = sparsity->is_object() ? find(*sparsity, "format") : nullptr;
      if (!sparsity->empty() && (!format || *format != "dense"))
        return refuseConfig(config_, "sparsity_config " + (format ? jsonExcerpt(*format) : ""),
                            "sparse storage is not registered");
    }
    return Status();
  }

  Status scheme(const std::string &name, const Json &value) {
    const std::string where = config_.where + ".config_groups." + name;
    QuantScheme out;
    out.group = name;
    Json weights;
    if (value.is_array()) {
      const Preset *preset = std::find_if(std::begin(kPresets), std::end(kPresets),
                                          [&](const Preset &p) { return lower(name) == p.name; });
      if (preset == std::end(kPresets))
        return bad(where + ": a list of targets needs the name of a preset scheme");
      NINFER_ASSIGN_OR_RETURN(out.targets, TargetList::parse(value, where));
      NINFER_ASSIGN_OR_RETURN(weights, parseStrictJson(preset->weights, where));
      out.quantizesActivations = preset->activations;
      out.format = format_;
    } else {
      NINFER_RETURN_IF_ERROR(jsonMembers(
          value, {"targets"}, {"weights", "input_activations", "output_activations", "format"},
          where, kCode));
      NINFER_ASSIGN_OR_RETURN(out.targets, TargetList::parse(value["targets"], where + ".targets"));
      if (out.targets.empty())
        return bad(where + ".targets is empty");
      if (const Json *w = find(value, "weights"))
        weights = *w;
      out.quantizesActivations = find(value, "input_activations") != nullptr;
      NINFER_ASSIGN_OR_RETURN(out.format, textMember(value, "format", where, format_));
    }
    if (!weights.is_null()) {
      NINFER_ASSIGN_OR_RETURN(out.weights, ArgsReader(weights, where + ".weights").run());
      NINFER_RETURN_IF_ERROR(storage(out));
    }
    out_.schemes.push_back(std::move(out));
    return Status();
  }

  /// The storage format must be one that is read, and fit the arguments.
  Status storage(const QuantScheme &s) {
    const WeightArgs &w = *s.weights;
    const std::string what = "group '" + s.group + "' format " + s.format;
    if (s.format == "nvfp4-pack-quantized") {
      if (w.isFloat && w.bits == 4 && w.strategy == "tensor_group" && w.groupSize == 16)
        return Status();
      return bad(config_.where + ": " + what + " with " + schemeText(w) +
                 ", expected float4 tensor_group 16");
    }
    if (s.format == "float-quantized" || s.format == "naive-quantized" ||
        s.format == "int-quantized" || s.format == "pack-quantized") {
      if (w.isFloat && w.bits != 8)
        return refuseConfig(config_, what + " with " + schemeText(w), "only float8 and NVFP4 are "
                                                                      "registered");
      const bool floats = s.format == "float-quantized";
      const bool integers = s.format == "int-quantized" || s.format == "pack-quantized";
      if ((floats && !w.isFloat) || (integers && w.isFloat))
        return bad(config_.where + ": " + what + " contradicts " + schemeText(w));
      return Status();
    }
    if (s.format == "dense")
      return refuseConfig(config_, what, "weights are stored unpacked: only their rounding was "
                                         "simulated; remove quantization_config to convert them");
    if (s.format == "marlin-24" || s.format.compare(0, 6, "sparse") == 0)
      return refuseConfig(config_, what, "sparse storage is not registered");
    if (s.format.compare(0, 2, "mx") == 0)
      return refuseConfig(config_, what, "blocks of 32 with E8M0 scales are not registered");
    if (s.format == "mixed-precision")
      return bad(config_.where + ": group '" + s.group +
                 "' names no format, and mixed-precision is none");
    return refuseConfig(config_, what, "unknown storage format");
  }

  const QuantConfig &config_;
  const Json &json_;
  std::string format_;
  CompressedConfig out_;
};

} // namespace

Result<CompressedConfig> parseCompressedConfig(const QuantConfig &config) {
  return ConfigReader(config).run();
}

std::string schemeText(const WeightArgs &args) {
  std::string out = (args.isFloat ? "float" : "int") + std::to_string(args.bits) + " " +
                    args.strategy;
  return args.groupSize ? out + " " + std::to_string(args.groupSize) : out;
}

} // namespace ninfer
