// config.json -> DecoderConfig.
#include "convert/ModelConfig.h"
#include "convert/SourceConfig.h"

#include <limits>
#include <set>

namespace ninfer {

namespace {

const char *const kCode = "NB0314";
constexpr int64_t kMaxDimension = std::numeric_limits<int32_t>::max();

Error unsupported(const std::string &fileName, const std::string &text) {
  return makeError(ErrorKind::Unsupported, "NB0315", fileName + ": " + text);
}

/// Members that have no effect on inference of these two architectures.
const std::set<std::string> &neutralMembers() {
  static const std::set<std::string> names = {"_attn_implementation",
                                              "_name_or_path",
                                              "attention_dropout",
                                              "bos_token_id",
                                              "dtype",
                                              "eos_token_id",
                                              "initializer_range",
                                              "is_llama_config",
                                              "max_window_layers",
                                              "model_type",
                                              "pad_token_id",
                                              "pretraining_tp",
                                              "torch_dtype",
                                              "transformers.js_config",
                                              "transformers_version",
                                              "unk_token_id",
                                              "use_cache"};
  return names;
}

/// Reader of one config: remembers which members were looked at.
class ConfigReader {
public:
  ConfigReader(const Json &config, const std::string &fileName, std::vector<std::string> &notes)
      : config_(config), file_(fileName), notes_(notes) {}

  Result<DecoderConfig> run() {
    NINFER_RETURN_IF_ERROR(architecture());
    NINFER_RETURN_IF_ERROR(refusals());
    NINFER_RETURN_IF_ERROR(dimensions());
    NINFER_RETURN_IF_ERROR(rope());
    NINFER_RETURN_IF_ERROR(checkDecoderConfig(out_, file_));
    noteUnknown();
    return std::move(out_);
  }

private:
  const Json *find(const char *name) {
    seen_.insert(name);
    auto it = config_.find(name);
    return it == config_.end() || it->is_null() ? nullptr : &*it;
  }

  std::string where(const char *name) const { return file_ + ": " + name; }

  Status architecture() {
    const Json *value = find("architectures");
    if (!value || !value->is_array() || value->size() != 1 || !value->front().is_string())
      return makeError(ErrorKind::BadFile, kCode,
                       where("architectures") + " must be an array of exactly one string");
    out_.architecture = value->front().get<std::string>();
    for (const std::string &known : supportedArchitectures())
      if (known == out_.architecture) {
        out_.qkNorm = known == "Qwen3ForCausalLM";
        return Status();
      }
    Status status(unsupported(file_, "unsupported architecture '" + out_.architecture + "'"));
    status.note("supported architectures: " + listSourceArchitectures());
    return status;
  }

  Status refuseUnless(const char *name, const Json &neutral, const char *why) {
    const Json *value = find(name);
    if (!value || *value == neutral)
      return Status();
    return unsupported(file_, std::string(name) + " " + jsonExcerpt(*value) + ": " + why);
  }

  /// Fields that change the mathematics.
  Status refusals() {
    NINFER_RETURN_IF_ERROR(
        refuseUnless("attention_bias", false, "biases of attention are not supported"));
    NINFER_RETURN_IF_ERROR(refuseUnless("mlp_bias", false, "biases of the mlp are not supported"));
    NINFER_RETURN_IF_ERROR(
        refuseUnless("hidden_act", "silu", "the only supported activation is \"silu\""));
    NINFER_RETURN_IF_ERROR(
        refuseUnless("partial_rotary_factor", 1.0, "only a full rotary head is supported"));
    NINFER_RETURN_IF_ERROR(
        refuseUnless("rope_interleaved", false, "only split-half rotary pairs are supported"));
    // What they say is taken up by convert/quantized.
    for (const char *member : {"quantization_config", "compression_config", "quip_params"})
      find(member);
    const Json *sliding = find("use_sliding_window");
    const Json *window = find("sliding_window");
    // Llama configs carry no use_sliding_window; there a window alone would be in effect.
    if ((sliding && *sliding != false) || (!sliding && window))
      return unsupported(file_, "sliding_window is in use: only full attention is supported");
    if (const Json *types = find("layer_types")) {
      if (!types->is_array())
        return makeError(ErrorKind::BadFile, kCode, where("layer_types") + " must be an array");
      for (const Json &type : *types)
        if (type != "full_attention")
          return unsupported(file_, "layer_types contains " + jsonExcerpt(type) +
                                        ": only \"full_attention\" is supported");
    }
    return Status();
  }

  Status integer(const char *name, int64_t &out, std::optional<int64_t> fallback = std::nullopt) {
    const Json *value = find(name);
    if (!value && fallback) {
      out = *fallback;
      return Status();
    }
    if (!value)
      return makeError(ErrorKind::BadFile, kCode, where(name) + " is missing");
    NINFER_ASSIGN_OR_RETURN(out, jsonInteger(*value, 1, kMaxDimension, where(name), kCode));
    return Status();
  }

  Status number(const Json &object, const char *name, double &out, std::optional<double> fallback) {
    auto it = object.find(name);
    if (it == object.end() || it->is_null()) {
      if (!fallback)
        return makeError(ErrorKind::BadFile, kCode, where(name) + " is missing");
      out = *fallback;
      return Status();
    }
    NINFER_ASSIGN_OR_RETURN(out, jsonNumber(*it, where(name), kCode));
    return Status();
  }

  Status dimensions() {
    NINFER_RETURN_IF_ERROR(integer("hidden_size", out_.hiddenSize));
    NINFER_RETURN_IF_ERROR(integer("vocab_size", out_.vocabSize));
    NINFER_RETURN_IF_ERROR(integer("num_hidden_layers", out_.numLayers));
    NINFER_RETURN_IF_ERROR(integer("num_attention_heads", out_.numHeads));
    NINFER_RETURN_IF_ERROR(integer("num_key_value_heads", out_.numKvHeads, out_.numHeads));
    NINFER_RETURN_IF_ERROR(integer("intermediate_size", out_.intermediateSize));
    // The defaults of the two Hugging Face config classes.
    bool qwen3 = out_.qkNorm;
    NINFER_RETURN_IF_ERROR(
        integer("max_position_embeddings", out_.maxPositions, qwen3 ? 32768 : 2048));
    if (!qwen3 && !find("head_dim") && out_.hiddenSize % out_.numHeads != 0)
      return makeError(ErrorKind::BadFile, kCode,
                       where("hidden_size") +
                           " is no multiple of num_attention_heads and head_dim is missing");
    NINFER_RETURN_IF_ERROR(
        integer("head_dim", out_.headDim, qwen3 ? 128 : out_.hiddenSize / out_.numHeads));
    seen_.insert("rms_norm_eps");
    NINFER_RETURN_IF_ERROR(number(config_, "rms_norm_eps", out_.rmsNormEps, 1e-6));
    if (const Json *tie = find("tie_word_embeddings")) {
      if (!tie->is_boolean())
        return makeError(ErrorKind::BadFile, kCode,
                         where("tie_word_embeddings") + " must be true or false");
      out_.tieWordEmbeddings = tie->get<bool>();
    }
    return Status();
  }

  /// rope_theta and rope_scaling, or both in rope_parameters (transformers 5).
  Status rope() {
    const Json *parameters = find("rope_parameters");
    const Json *scaling = find("rope_scaling");
    seen_.insert("rope_theta");
    if (parameters && (scaling || config_.contains("rope_theta")))
      return makeError(ErrorKind::BadFile, kCode,
                       file_ + ": rope_parameters and rope_theta/rope_scaling are both present");
    if (parameters && !parameters->is_object())
      return makeError(ErrorKind::BadFile, kCode, where("rope_parameters") + " must be an object");
    NINFER_RETURN_IF_ERROR(
        number(parameters ? *parameters : config_, "rope_theta", out_.ropeTheta, 10000.0));
    if (const Json *source = parameters ? parameters : scaling)
      return this->scaling(*source);
    return Status();
  }

  Status scaling(const Json &s) {
    if (!s.is_object())
      return makeError(ErrorKind::BadFile, kCode, where("rope_scaling") + " must be an object");
    const char *typeMember = s.contains("rope_type") ? "rope_type" : "type";
    std::string type = s.contains(typeMember)
                           ? (s[typeMember].is_string() ? s[typeMember].get<std::string>()
                                                        : jsonExcerpt(s[typeMember]))
                           : "default";
    if (type == "default")
      return Status();
    if (type == "linear") {
      out_.ropeScaling = RopeScaling::Linear;
      return number(s, "factor", out_.ropeFactor, std::nullopt);
    }
    if (type != "llama3") {
      Status status(unsupported(file_, "rope scaling '" + type + "' is not supported"));
      status.note("supported: default, linear, llama3");
      return status;
    }
    out_.ropeScaling = RopeScaling::Llama3;
    NINFER_RETURN_IF_ERROR(number(s, "factor", out_.ropeFactor, std::nullopt));
    NINFER_RETURN_IF_ERROR(number(s, "low_freq_factor", out_.ropeLowFreqFactor, std::nullopt));
    NINFER_RETURN_IF_ERROR(number(s, "high_freq_factor", out_.ropeHighFreqFactor, std::nullopt));
    const char *original = "original_max_position_embeddings";
    if (!s.contains(original))
      return makeError(ErrorKind::BadFile, kCode, where(original) + " is missing in rope_scaling");
    NINFER_ASSIGN_OR_RETURN(out_.ropeOriginalMaxPositions,
                            jsonInteger(s[original], 1, kMaxDimension, where(original), kCode));
    return Status();
  }

  void noteUnknown() {
    std::string list;
    for (const auto &item : config_.items())
      if (!seen_.count(item.key()) && !neutralMembers().count(item.key()))
        list += (list.empty() ? "" : ", ") + item.key();
    if (!list.empty())
      notes_.push_back(file_ + ": members not used: " + list);
  }

  const Json &config_;
  const std::string &file_;
  std::vector<std::string> &notes_;
  std::set<std::string> seen_;
  DecoderConfig out_;
};

} // namespace

Result<DecoderConfig> configFromHuggingFace(const Json &config, const std::string &fileName,
                                            std::vector<std::string> &notes) {
  if (!config.is_object())
    return makeError(ErrorKind::BadFile, kCode, fileName + ": must be a JSON object");
  return ConfigReader(config, fileName, notes).run();
}

} // namespace ninfer
