// The stored config of the decoder family: closed parsing, the rules between values, printing.
#include "models/Decoder.h"
#include "support/Json.h"

#include <cmath>
#include <limits>

namespace ninfer {

const std::vector<std::string> &supportedArchitectures() {
  static const std::vector<std::string> names = {"LlamaForCausalLM", "Qwen3ForCausalLM"};
  return names;
}

std::string listSupportedArchitectures() {
  std::string out;
  for (const std::string &name : supportedArchitectures())
    out += (out.empty() ? "" : ", ") + name;
  return out;
}

namespace {

const char *const kCode = "NB0303";
constexpr int64_t kMaxDimension = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxLayers = 4096;

Error badConfig(std::string_view where, std::string text) {
  return makeError(ErrorKind::BadFile, kCode, std::string(where) + ": " + std::move(text));
}

Result<std::string> parseArchitecture(const Json &config, const std::string &where) {
  auto it = config.find("architectures");
  if (it == config.end())
    return badConfig(where, "member architectures is missing");
  if (!it->is_array() || it->size() != 1 || !it->front().is_string())
    return badConfig(where, "architectures must be an array of exactly one string, got " +
                                jsonExcerpt(*it));
  std::string name = it->front().get<std::string>();
  for (const std::string &known : supportedArchitectures())
    if (name == known)
      return name;
  Status status(makeError(ErrorKind::Unsupported, "NB0302",
                          where + ": unsupported architecture '" + name + "'"));
  status.note("supported architectures: " + listSupportedArchitectures());
  return status;
}

Status parseRopeScaling(const Json &value, const std::string &where, DecoderConfig &out) {
  if (!value.is_object() || !value.contains("rope_type"))
    return badConfig(where, "must be an object with rope_type, got " + jsonExcerpt(value));
  const Json &type = value["rope_type"];
  auto number = [&](const char *name) {
    return jsonNumber(value[name], where + "." + name, kCode);
  };
  if (type == "linear") {
    NINFER_RETURN_IF_ERROR(jsonMembers(value, {"rope_type", "factor"}, {}, where, kCode));
    out.ropeScaling = RopeScaling::Linear;
    NINFER_ASSIGN_OR_RETURN(out.ropeFactor, number("factor"));
    return Status();
  }
  if (type == "llama3") {
    NINFER_RETURN_IF_ERROR(jsonMembers(value,
                                       {"rope_type", "factor", "low_freq_factor",
                                        "high_freq_factor", "original_max_position_embeddings"},
                                       {}, where, kCode));
    out.ropeScaling = RopeScaling::Llama3;
    NINFER_ASSIGN_OR_RETURN(out.ropeFactor, number("factor"));
    NINFER_ASSIGN_OR_RETURN(out.ropeLowFreqFactor, number("low_freq_factor"));
    NINFER_ASSIGN_OR_RETURN(out.ropeHighFreqFactor, number("high_freq_factor"));
    NINFER_ASSIGN_OR_RETURN(out.ropeOriginalMaxPositions,
                            jsonInteger(value["original_max_position_embeddings"], 1, kMaxDimension,
                                        where + ".original_max_position_embeddings", kCode));
    return Status();
  }
  return badConfig(where, "rope_type must be \"linear\" or \"llama3\", got " + jsonExcerpt(type));
}

bool positiveFinite(double value) { return std::isfinite(value) && value > 0.0; }

} // namespace

Result<DecoderConfig> parseDecoderConfig(const Json &config, std::string_view fileName) {
  std::string where = std::string(fileName) + ": components.text.config";
  if (!config.is_object())
    return badConfig(where, "must be an object, got " + jsonExcerpt(config));
  DecoderConfig out;
  NINFER_ASSIGN_OR_RETURN(out.architecture, parseArchitecture(config, where));
  out.qkNorm = out.architecture == "Qwen3ForCausalLM";
  // decoder_c1: a closed member set, so a field that changes the mathematics cannot be overlooked.
  NINFER_RETURN_IF_ERROR(
      jsonMembers(config,
                  {"architectures", "hidden_size", "vocab_size", "num_hidden_layers",
                   "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
                   "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "rope_theta"},
                  {"rope_scaling"}, where, kCode));
  struct Field {
    const char *name;
    int64_t *value;
    int64_t limit;
  };
  // decoder_c2
  for (const Field &field : {Field{"hidden_size", &out.hiddenSize, kMaxDimension},
                             Field{"vocab_size", &out.vocabSize, kMaxDimension},
                             Field{"num_hidden_layers", &out.numLayers, kMaxLayers},
                             Field{"num_attention_heads", &out.numHeads, kMaxDimension},
                             Field{"num_key_value_heads", &out.numKvHeads, kMaxDimension},
                             Field{"head_dim", &out.headDim, kMaxDimension},
                             Field{"intermediate_size", &out.intermediateSize, kMaxDimension},
                             Field{"max_position_embeddings", &out.maxPositions, kMaxDimension}}) {
    NINFER_ASSIGN_OR_RETURN(*field.value, jsonInteger(config[field.name], 1, field.limit,
                                                      where + "." + field.name, kCode));
  }
  NINFER_ASSIGN_OR_RETURN(out.rmsNormEps,
                          jsonNumber(config["rms_norm_eps"], where + ".rms_norm_eps", kCode));
  NINFER_ASSIGN_OR_RETURN(out.ropeTheta,
                          jsonNumber(config["rope_theta"], where + ".rope_theta", kCode));
  const Json &tie = config["tie_word_embeddings"];
  if (!tie.is_boolean())
    return badConfig(where, "tie_word_embeddings must be true or false, got " + jsonExcerpt(tie));
  out.tieWordEmbeddings = tie.get<bool>();
  if (config.contains("rope_scaling"))
    NINFER_RETURN_IF_ERROR(parseRopeScaling(config["rope_scaling"], where + ".rope_scaling", out));
  NINFER_RETURN_IF_ERROR(checkDecoderConfig(out, where));
  return out;
}

Status checkDecoderConfig(const DecoderConfig &c, std::string_view where) {
  struct Named {
    const char *name;
    int64_t value, limit;
  };
  // decoder_c2
  for (const Named &n : {Named{"hidden_size", c.hiddenSize, kMaxDimension},
                         Named{"vocab_size", c.vocabSize, kMaxDimension},
                         Named{"num_hidden_layers", c.numLayers, kMaxLayers},
                         Named{"num_attention_heads", c.numHeads, kMaxDimension},
                         Named{"num_key_value_heads", c.numKvHeads, kMaxDimension},
                         Named{"head_dim", c.headDim, kMaxDimension},
                         Named{"intermediate_size", c.intermediateSize, kMaxDimension},
                         Named{"max_position_embeddings", c.maxPositions, kMaxDimension}})
    if (n.value < 1 || n.value > n.limit)
      return badConfig(where, std::string(n.name) + " must be in 1.." + std::to_string(n.limit) +
                                  ", got " + std::to_string(n.value));
  // decoder_c3; both factors are below 2^31, so the product fits.
  if (c.numHeads * c.headDim > kMaxDimension)
    return badConfig(where, "num_attention_heads * head_dim must be at most " +
                                std::to_string(kMaxDimension) + ", got " +
                                std::to_string(c.numHeads * c.headDim));
  if (c.numHeads % c.numKvHeads != 0)
    return badConfig(where, "num_attention_heads (" + std::to_string(c.numHeads) +
                                ") must be a multiple of num_key_value_heads (" +
                                std::to_string(c.numKvHeads) + ")");
  // decoder_c4
  if (c.headDim % 2 != 0)
    return badConfig(where,
                     "head_dim must be even for rotary pairs, got " + std::to_string(c.headDim));
  // decoder_c5: kernels read it as binary32, where it must still be positive.
  if (!positiveFinite(c.rmsNormEps) || !positiveFinite(static_cast<float>(c.rmsNormEps)))
    return badConfig(where, "rms_norm_eps must be finite and positive as binary32");
  // decoder_c6
  if (!positiveFinite(c.ropeTheta))
    return badConfig(where, "rope_theta must be finite and positive");
  // decoder_c7
  if (c.ropeScaling != RopeScaling::None && !(std::isfinite(c.ropeFactor) && c.ropeFactor >= 1.0))
    return badConfig(where, "rope_scaling factor must be finite and at least 1");
  if (c.ropeScaling == RopeScaling::Llama3) {
    if (!positiveFinite(c.ropeLowFreqFactor) || !std::isfinite(c.ropeHighFreqFactor) ||
        c.ropeHighFreqFactor <= c.ropeLowFreqFactor)
      return badConfig(where, "rope_scaling needs 0 < low_freq_factor < high_freq_factor");
    if (c.ropeOriginalMaxPositions < 1 || c.ropeOriginalMaxPositions > kMaxDimension)
      return badConfig(where, "rope_scaling original_max_position_embeddings must be in 1.." +
                                  std::to_string(kMaxDimension));
  }
  return Status();
}

Json toJson(const DecoderConfig &c) {
  Json out = Json::object();
  out["architectures"] = Json::array({c.architecture});
  out["hidden_size"] = c.hiddenSize;
  out["vocab_size"] = c.vocabSize;
  out["num_hidden_layers"] = c.numLayers;
  out["num_attention_heads"] = c.numHeads;
  out["num_key_value_heads"] = c.numKvHeads;
  out["head_dim"] = c.headDim;
  out["intermediate_size"] = c.intermediateSize;
  out["max_position_embeddings"] = c.maxPositions;
  out["rms_norm_eps"] = c.rmsNormEps;
  out["tie_word_embeddings"] = c.tieWordEmbeddings;
  out["rope_theta"] = c.ropeTheta;
  if (c.ropeScaling == RopeScaling::Linear) {
    out["rope_scaling"] = Json{{"rope_type", "linear"}, {"factor", c.ropeFactor}};
  } else if (c.ropeScaling == RopeScaling::Llama3) {
    out["rope_scaling"] = Json{{"rope_type", "llama3"},
                               {"factor", c.ropeFactor},
                               {"low_freq_factor", c.ropeLowFreqFactor},
                               {"high_freq_factor", c.ropeHighFreqFactor},
                               {"original_max_position_embeddings", c.ropeOriginalMaxPositions}};
  }
  return out;
}

} // namespace ninfer
