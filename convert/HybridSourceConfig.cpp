// config.json of the hybrid family -> HybridConfig. What the stored config implies is checked here
// and then dropped.
#include "convert/ConfigMembers.h"
#include "convert/SourceConfig.h"
#include "models/Hybrid.h"

#include <algorithm>

namespace ninfer {

namespace {

const char *const kCode = "NB0314";

struct SourceArchitecture {
  const char *source; ///< in config.json
  bool moe;
  bool nested; ///< the text model's members lie in text_config
};
constexpr SourceArchitecture kArchitectures[] = {
    {"Qwen3_5ForCausalLM", false, false},
    {"Qwen3_5MoeForCausalLM", true, false},
    {"Qwen3_5ForConditionalGeneration", false, true},
    {"Qwen3_5MoeForConditionalGeneration", true, true},
};

const SourceArchitecture *findArchitecture(const Json &config) {
  auto it = config.find("architectures");
  if (it == config.end() || !it->is_array() || it->size() != 1 || !it->front().is_string())
    return nullptr;
  for (const SourceArchitecture &a : kArchitectures)
    if (it->front() == a.source)
      return &a;
  return nullptr;
}

/// Members without effect on text inference, beside those that are read.
const std::set<std::string> &neutralMembers() {
  static const std::set<std::string> names = {"_attn_implementation",
                                              "_name_or_path",
                                              "architectures",
                                              "attention_dropout",
                                              "bos_token_id",
                                              "dtype",
                                              "eos_token_id",
                                              "full_attention_interval",
                                              "initializer_range",
                                              "is_encoder_decoder",
                                              "output_router_logits",
                                              "pad_token_id",
                                              "router_aux_loss_coef",
                                              "torch_dtype",
                                              "transformers_version",
                                              "use_cache"};
  return names;
}

/// Those of the outer object of a model with vision.
const std::set<std::string> &neutralOuterMembers() {
  static const std::set<std::string> names = {
      "_name_or_path",  "bos_token_id",       "compression_config",  "dtype",
      "eos_token_id",   "image_token_id",     "language_model_only", "pad_token_id",
      "quant_method",   "quantization_config", "torch_dtype",        "transformers_version",
      "video_token_id", "vision_end_token_id", "vision_start_token_id"};
  return names;
}

/// What the stored config implies: a member may be absent, or say exactly this.
struct Implied {
  const char *name;
  Json value;
  const char *why;
};
const std::vector<Implied> &impliedMembers() {
  static const std::vector<Implied> members = {
      {"hidden_act", "silu", "the only supported activation is \"silu\""},
      {"attention_bias", false, "biases of attention are not supported"},
      {"mlp_bias", false, "biases of the mlp are not supported"},
      {"linear_use_bias", false, "biases of linear attention are not supported"},
      {"attn_output_gate", true, "attention without its output gate is not supported"},
      {"output_gate_type", "swish", "the only supported output gate is \"swish\""},
      {"mamba_ssm_dtype", "float32", "the state of linear attention is kept in float32"},
      {"mtp_use_dedicated_embeddings", false,
       "the draft layer must share the embedding of the model"},
      {"norm_topk_prob", true, "the weights of the selected experts must sum to one"},
      {"decoder_sparse_step", 1, "every layer must be sparse"},
      {"mlp_only_layers", Json::array(), "every layer must be sparse"},
      {"use_sliding_window", false, "only full attention is supported"},
      {"sliding_window", nullptr, "only full attention is supported"},
      {"attention_chunk_size", nullptr, "only full attention is supported"},
      {"attn_logit_softcapping", nullptr, "soft caps are not supported"},
      {"final_logit_softcapping", nullptr, "soft caps are not supported"},
      {"logit_scale", 1.0, "scaled logits are not supported"},
      {"embedding_multiplier", 1.0, "a scaled embedding is not supported"},
      {"rope_interleaved", false, "only split-half rotary pairs are supported"},
  };
  return members;
}

class HybridReader {
public:
  HybridReader(const Json &outer, const Json &text, const SourceArchitecture &architecture,
               const std::string &file, std::vector<std::string> &notes)
      : architecture_(architecture), file_(file), outer_(outer, file + ": "),
        text_(text, &outer == &text ? file + ": " : file + ": text_config."), notes_(notes) {}

  Result<HybridSource> run() {
    config_.architecture = architecture_.moe ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM";
    NINFER_RETURN_IF_ERROR(modelTypes());
    for (const Implied &implied : impliedMembers())
      NINFER_RETURN_IF_ERROR(text_.refuseUnless(implied.name, implied.value, implied.why));
    NINFER_RETURN_IF_ERROR(base());
    NINFER_RETURN_IF_ERROR(layers());
    NINFER_RETURN_IF_ERROR(attention());
    NINFER_RETURN_IF_ERROR(delta());
    NINFER_RETURN_IF_ERROR(ffn());
    NINFER_RETURN_IF_ERROR(draft());
    NINFER_RETURN_IF_ERROR(checkHybridConfig(config_, file_));
    out_.vision = outer_.find("vision_config") != nullptr;
    noteUnknown();
    out_.config = std::move(config_);
    return std::move(out_);
  }

private:
  bool nested() const { return &outer_.object() != &text_.object(); }

  Status modelType(ConfigMembers &members, const std::vector<std::string> &legal) {
    const Json *type = members.find("model_type");
    if (!type)
      return Status();
    std::string list;
    for (const std::string &name : legal) {
      if (*type == name)
        return Status();
      list += (list.empty() ? "\"" : " or \"") + name + "\"";
    }
    return makeError(ErrorKind::BadFile, kCode,
                     members.where("model_type") + " of " + architecture_.source + " must be " +
                         list + ", got " + jsonExcerpt(*type));
  }

  Status modelTypes() {
    const std::string outer = architecture_.moe ? "qwen3_5_moe" : "qwen3_5";
    if (!nested())
      return modelType(text_, {outer + "_text", outer});
    NINFER_RETURN_IF_ERROR(modelType(outer_, {outer}));
    return modelType(text_, {outer + "_text"});
  }

  /// Library versions differ in which of two contradicting members decides.
  Status tie() {
    NINFER_ASSIGN_OR_RETURN(config_.tieWordEmbeddings,
                            text_.boolean("tie_word_embeddings", false));
    if (!nested() || !outer_.find("tie_word_embeddings"))
      return Status();
    const bool stated = text_.find("tie_word_embeddings") != nullptr;
    NINFER_ASSIGN_OR_RETURN(bool outer, outer_.boolean("tie_word_embeddings", false));
    if (stated && outer != config_.tieWordEmbeddings)
      return makeError(ErrorKind::BadFile, kCode,
                       outer_.where("tie_word_embeddings") + " and " +
                           text_.where("tie_word_embeddings") + " contradict each other");
    config_.tieWordEmbeddings = outer;
    return Status();
  }

  /// Numbers with a fraction are stored and read as binary32.
  static double binary32(double value) { return static_cast<double>(static_cast<float>(value)); }

  Status base() {
    NINFER_ASSIGN_OR_RETURN(config_.hiddenSize, text_.integer("hidden_size"));
    NINFER_ASSIGN_OR_RETURN(config_.vocabSize, text_.integer("vocab_size"));
    NINFER_ASSIGN_OR_RETURN(config_.numLayers, text_.integer("num_hidden_layers"));
    NINFER_ASSIGN_OR_RETURN(config_.maxPositions, text_.integer("max_position_embeddings"));
    NINFER_ASSIGN_OR_RETURN(double eps, text_.number("rms_norm_eps", 1e-6));
    config_.rmsNormEps = binary32(eps);
    return tie();
  }

  /// layer_types, else every full_attention_interval-th layer.
  Status layers() {
    constexpr int64_t kMostLayers = 4096;
    const int64_t count = config_.numLayers;
    if (count > kMostLayers)
      return makeError(ErrorKind::BadFile, kCode,
                       text_.where("num_hidden_layers") + " must be at most " +
                           std::to_string(kMostLayers) + ", got " + std::to_string(count));
    const Json *types = text_.find("layer_types");
    if (!types) {
      NINFER_ASSIGN_OR_RETURN(int64_t interval, text_.integer("full_attention_interval", 4));
      for (int64_t i = 0; i < count; ++i)
        config_.layerTypes.push_back((i + 1) % interval == 0 ? HybridLayer::FullAttention
                                                             : HybridLayer::LinearAttention);
      return Status();
    }
    if (!types->is_array() || types->size() != static_cast<size_t>(count))
      return makeError(ErrorKind::BadFile, kCode,
                       text_.where("layer_types") + " must be an array of num_hidden_layers (" +
                           std::to_string(count) + ") strings, got " +
                           (types->is_array() ? std::to_string(types->size()) + " elements"
                                              : jsonExcerpt(*types)));
    for (const Json &type : *types) {
      if (type != "full_attention" && type != "linear_attention")
        return unsupportedConfig(file_, "layer_types contains " + jsonExcerpt(type) +
                                            ": only \"full_attention\" and \"linear_attention\" "
                                            "are supported");
      config_.layerTypes.push_back(type == "full_attention" ? HybridLayer::FullAttention
                                                            : HybridLayer::LinearAttention);
    }
    return Status();
  }

  bool anyOf(std::initializer_list<const char *> names) {
    return std::any_of(names.begin(), names.end(), [&](const char *n) { return text_.find(n); });
  }
  bool hasLayer(HybridLayer kind) const {
    return std::count(config_.layerTypes.begin(), config_.layerTypes.end(), kind) != 0;
  }

  Status attention() {
    if (!anyOf({"num_attention_heads", "num_key_value_heads", "head_dim"}) &&
        !hasLayer(HybridLayer::FullAttention))
      return Status();
    HybridAttention a;
    NINFER_ASSIGN_OR_RETURN(a.numHeads, text_.integer("num_attention_heads"));
    NINFER_ASSIGN_OR_RETURN(a.numKvHeads, text_.integer("num_key_value_heads"));
    NINFER_ASSIGN_OR_RETURN(a.headDim, text_.integer("head_dim"));
    NINFER_RETURN_IF_ERROR(rope(a));
    config_.attention = a;
    return Status();
  }

  /// A number that may stand in the rope object and beside it; both must say the same.
  Status ropeNumber(ConfigMembers &rope, const char *name, double fallback, double &out) {
    NINFER_ASSIGN_OR_RETURN(double beside, text_.number(name, fallback));
    NINFER_ASSIGN_OR_RETURN(double inside, rope.number(name, beside));
    if (text_.find(name) && inside != beside)
      return makeError(ErrorKind::BadFile, kCode,
                       text_.where(name) + " and " + rope.where(name) +
                           " contradict each other");
    out = binary32(inside);
    return Status();
  }

  /// rope_parameters (transformers 5), or rope_scaling with the other numbers beside it.
  Status rope(HybridAttention &a) {
    const char *name = text_.find("rope_parameters") ? "rope_parameters" : "rope_scaling";
    if (name == std::string("rope_parameters") && text_.find("rope_scaling"))
      return makeError(ErrorKind::BadFile, kCode,
                       file_ + ": rope_parameters and rope_scaling are both present");
    static const Json none = Json::object();
    const Json *object = text_.find(name);
    if (object && !object->is_object())
      return makeError(ErrorKind::BadFile, kCode, text_.where(name) + " must be an object");
    ConfigMembers rope(object ? *object : none, text_.where(name) + ".");
    for (const char *type : {"rope_type", "type"})
      NINFER_RETURN_IF_ERROR(
          rope.refuseUnless(type, "default", "the only supported rope scaling is \"default\""));
    for (const char *factor : {"factor", "attention_factor"})
      NINFER_RETURN_IF_ERROR(
          rope.refuseUnless(factor, 1.0, "scaled rotary positions are not supported"));
    for (ConfigMembers *members : {&rope, &text_})
      NINFER_RETURN_IF_ERROR(members->refuseUnless(
          "mrope_interleaved", true, "only interleaved position axes are supported"));
    NINFER_RETURN_IF_ERROR(ropeNumber(rope, "rope_theta", 1e7, a.ropeTheta));
    NINFER_RETURN_IF_ERROR(
        ropeNumber(rope, "partial_rotary_factor", 0.25, a.partialRotaryFactor));
    NINFER_RETURN_IF_ERROR(sections(rope, a));
    // A member of the rotary object that is not known here is one that changes the angles.
    if (std::string unknown = rope.unused({}); !unknown.empty())
      return unsupportedConfig(file_, std::string(name) + " has members that are not supported: " +
                                          unknown);
    return Status();
  }

  Status sections(ConfigMembers &rope, HybridAttention &a) {
    const Json *section = rope.find("mrope_section");
    if (!section)
      section = text_.find("mrope_section");
    if (!section) {
      a.mropeSection = {11, 11, 10}; // the default of the library
      return Status();
    }
    if (!section->is_array() || section->size() != a.mropeSection.size())
      return makeError(ErrorKind::BadFile, kCode,
                       rope.where("mrope_section") + " must be an array of 3 integers, got " +
                           jsonExcerpt(*section));
    for (size_t i = 0; i < a.mropeSection.size(); ++i) {
      NINFER_ASSIGN_OR_RETURN(
          a.mropeSection[i],
          jsonInteger((*section)[i], 0, 1 << 30, rope.where("mrope_section"), kCode));
    }
    return Status();
  }

  Status delta() {
    if (!anyOf({"linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads",
                "linear_value_head_dim", "linear_conv_kernel_dim"}) &&
        !hasLayer(HybridLayer::LinearAttention))
      return Status();
    HybridDelta d;
    NINFER_ASSIGN_OR_RETURN(d.numKeyHeads, text_.integer("linear_num_key_heads"));
    NINFER_ASSIGN_OR_RETURN(d.keyDim, text_.integer("linear_key_head_dim"));
    NINFER_ASSIGN_OR_RETURN(d.numValueHeads, text_.integer("linear_num_value_heads"));
    NINFER_ASSIGN_OR_RETURN(d.valueDim, text_.integer("linear_value_head_dim"));
    NINFER_ASSIGN_OR_RETURN(d.taps, text_.integer("linear_conv_kernel_dim"));
    config_.delta = d;
    return Status();
  }

  Status ffn() {
    if (!architecture_.moe) {
      NINFER_RETURN_IF_ERROR(
          text_.refuseUnless("num_experts", 0, "a dense architecture has no experts"));
      for (const char *unused : {"num_experts_per_tok", "moe_intermediate_size",
                                 "shared_expert_intermediate_size"})
        text_.find(unused);
      NINFER_ASSIGN_OR_RETURN(config_.intermediateSize, text_.integer("intermediate_size"));
      return Status();
    }
    text_.find("intermediate_size"); // sparse configs carry it without using it
    HybridMoe m;
    NINFER_ASSIGN_OR_RETURN(m.numExperts, text_.integer("num_experts"));
    NINFER_ASSIGN_OR_RETURN(m.expertsPerToken, text_.integer("num_experts_per_tok"));
    NINFER_ASSIGN_OR_RETURN(m.intermediateSize, text_.integer("moe_intermediate_size"));
    NINFER_ASSIGN_OR_RETURN(m.sharedIntermediate,
                            text_.integer("shared_expert_intermediate_size"));
    config_.moe = m;
    return Status();
  }

  /// Some checkpoints say it of the whole model, some of the text model, some of both.
  Status draft() {
    const bool inner = text_.find("mtp_num_hidden_layers") != nullptr;
    const bool outer = outer_.find("mtp_num_hidden_layers") != nullptr;
    if (!inner && !outer)
      return Status();
    NINFER_ASSIGN_OR_RETURN(int64_t layers,
                            (inner ? text_ : outer_).integer("mtp_num_hidden_layers", 0, 0));
    if (layers > 1)
      return unsupportedConfig(file_, "mtp_num_hidden_layers " + std::to_string(layers) +
                                          ": at most one draft layer is supported");
    out_.draftLayers = layers;
    return Status();
  }

  void noteUnknown() {
    std::set<std::string> neutral = neutralMembers();
    if (!nested())
      neutral.insert(neutralOuterMembers().begin(), neutralOuterMembers().end());
    std::string list = text_.unused(neutral);
    if (nested()) {
      outer_.find("architectures");
      outer_.find("text_config");
      std::string outer = outer_.unused(neutralOuterMembers());
      list += (list.empty() || outer.empty() ? "" : ", ") + outer;
    }
    if (!list.empty())
      notes_.push_back(file_ + ": members not used: " + list);
  }

  const SourceArchitecture &architecture_;
  const std::string &file_;
  ConfigMembers outer_, text_;
  std::vector<std::string> &notes_;
  HybridConfig config_;
  HybridSource out_;
};

} // namespace

std::vector<std::string> hybridSourceArchitectures() {
  std::vector<std::string> out;
  for (const SourceArchitecture &a : kArchitectures)
    out.push_back(a.source);
  return out;
}

bool namesHybrid(const Json &config) { return config.is_object() && findArchitecture(config); }

const Json &textConfigOf(const Json &config) {
  auto it = config.find("text_config");
  return it != config.end() && it->is_object() ? *it : config;
}

Result<HybridSource> hybridFromHuggingFace(const Json &config, const std::string &fileName,
                                           std::vector<std::string> &notes) {
  const SourceArchitecture *architecture = findArchitecture(config);
  auto text = config.find("text_config");
  const bool present = text != config.end() && !text->is_null();
  if (present ? !text->is_object() : architecture->nested)
    return makeError(ErrorKind::BadFile, kCode,
                     fileName + ": text_config of " + architecture->source +
                         " must be an object");
  return HybridReader(config, present ? *text : config, *architecture, fileName, notes).run();
}

} // namespace ninfer
