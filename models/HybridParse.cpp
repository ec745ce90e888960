// The stored config of the hybrid family: closed parsing, the rules between values, printing.
#include "models/Hybrid.h"
#include "support/Json.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ninfer {

namespace {

const char *const kCode = "NB0303";
constexpr int64_t kMaxDimension = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxExperts = 65536;

const char *const kDense = "Qwen3_5ForCausalLM";
const char *const kMoe = "Qwen3_5MoeForCausalLM";

Error badConfig(std::string_view where, std::string text) {
  return makeError(ErrorKind::BadFile, kCode, std::string(where) + ": " + std::move(text));
}

const char *modelTypeOf(const std::string &architecture) {
  return architecture == kMoe ? "qwen3_5_moe_text" : "qwen3_5_text";
}

const char *nameOf(HybridLayer layer) {
  return layer == HybridLayer::FullAttention ? "full_attention" : "linear_attention";
}

/// One integer member and where it goes.
struct Field {
  const char *name;
  int64_t *value;
  int64_t limit = kMaxDimension;
};

using Fields = std::vector<Field>;

Fields baseFields(HybridConfig &c) {
  return {{"hidden_size", &c.hiddenSize},
          {"vocab_size", &c.vocabSize},
          {"num_hidden_layers", &c.numLayers, kMaxLayers},
          {"max_position_embeddings", &c.maxPositions}};
}
Fields attentionFields(HybridAttention &a) {
  return {{"num_attention_heads", &a.numHeads},
          {"num_key_value_heads", &a.numKvHeads},
          {"head_dim", &a.headDim}};
}
Fields deltaFields(HybridDelta &d) {
  return {{"linear_num_key_heads", &d.numKeyHeads},
          {"linear_key_head_dim", &d.keyDim},
          {"linear_num_value_heads", &d.numValueHeads},
          {"linear_value_head_dim", &d.valueDim},
          {"linear_conv_kernel_dim", &d.taps}};
}
Fields moeFields(HybridMoe &m) {
  return {{"num_experts", &m.numExperts, kMaxExperts},
          {"num_experts_per_tok", &m.expertsPerToken, kMaxExperts},
          {"moe_intermediate_size", &m.intermediateSize},
          {"shared_expert_intermediate_size", &m.sharedIntermediate}};
}

const char *const kDenseMember = "intermediate_size";
const char *const kRope = "rope_parameters";

/// Reads one config object member by member; the first broken rule is the error.
class Parser {
public:
  Parser(const Json &config, std::string_view fileName, bool needAttention)
      : config_(config), where_(std::string(fileName) + ": components.text.config"),
        needAttention_(needAttention) {}

  Result<HybridConfig> run() {
    if (!config_.is_object())
      return badConfig(where_, "must be an object, got " + jsonExcerpt(config_));
    NINFER_RETURN_IF_ERROR(parseArchitecture());
    NINFER_RETURN_IF_ERROR(checkMembers());
    NINFER_RETURN_IF_ERROR(parseBase());
    NINFER_RETURN_IF_ERROR(parseLayerTypes());
    NINFER_RETURN_IF_ERROR(parseAttention());
    NINFER_RETURN_IF_ERROR(parseDelta());
    NINFER_RETURN_IF_ERROR(parseFfn());
    NINFER_RETURN_IF_ERROR(checkHybridConfig(out_, where_, needAttention_));
    return std::move(out_);
  }

private:
  /// hybrid_c2: the architecture, and the model type that pairs with it.
  Status parseArchitecture() {
    auto it = config_.find("architectures");
    if (it == config_.end())
      return badConfig(where_, "member architectures is missing");
    if (!it->is_array() || it->size() != 1 || !it->front().is_string())
      return badConfig(where_, "architectures must be an array of exactly one string, got " +
                                   jsonExcerpt(*it));
    out_.architecture = it->front().get<std::string>();
    const auto &known = hybridArchitectures();
    if (std::find(known.begin(), known.end(), out_.architecture) == known.end()) {
      Status status(makeError(ErrorKind::Unsupported, "NB0302",
                              where_ + ": unsupported architecture '" + out_.architecture + "'"));
      status.note("supported architectures: " + listModelArchitectures());
      return status;
    }
    auto type = config_.find("model_type");
    if (type != config_.end() && *type != modelTypeOf(out_.architecture))
      return badConfig(where_, "model_type of " + out_.architecture + " must be \"" +
                                   modelTypeOf(out_.architecture) + "\", got " +
                                   jsonExcerpt(*type));
    return Status();
  }

  /// hybrid_c1: no member outside the union of the groups. Which groups must be complete is decided
  /// where they are read.
  Status checkMembers() {
    std::vector<std::string_view> known = {
        "architectures",       "model_type",   "hidden_size",
        "vocab_size",          "rms_norm_eps", "num_hidden_layers",
        "tie_word_embeddings", "layer_types",  "max_position_embeddings"};
    for (std::string_view name : known)
      if (!config_.contains(name))
        return badConfig(where_, "member " + std::string(name) + " is missing");
    HybridAttention attention;
    HybridDelta delta;
    HybridMoe moe;
    for (const Fields &fields : {attentionFields(attention), deltaFields(delta), moeFields(moe)})
      for (const Field &field : fields)
        known.push_back(field.name);
    known.push_back(kRope);
    known.push_back(kDenseMember);
    for (const auto &item : config_.items())
      if (std::find(known.begin(), known.end(), item.key()) == known.end())
        return badConfig(where_, "unknown member '" + item.key() + "'");
    return Status();
  }

  /// hybrid_c3
  Status parseIntegers(const Fields &fields) {
    for (const Field &field : fields) {
      NINFER_ASSIGN_OR_RETURN(*field.value, jsonInteger(config_[field.name], 1, field.limit,
                                                        where_ + "." + field.name, kCode));
    }
    return Status();
  }

  /// hybrid_c5: the value as binary32.
  Result<double> parseFloat(const Json &value, const std::string &where) {
    NINFER_ASSIGN_OR_RETURN(double number, jsonNumber(value, where, kCode));
    return static_cast<double>(static_cast<float>(number));
  }

  Status parseBase() {
    NINFER_RETURN_IF_ERROR(parseIntegers(baseFields(out_)));
    const Json &tie = config_["tie_word_embeddings"];
    if (!tie.is_boolean())
      return badConfig(where_,
                       "tie_word_embeddings must be true or false, got " + jsonExcerpt(tie));
    out_.tieWordEmbeddings = tie.get<bool>();
    NINFER_ASSIGN_OR_RETURN(out_.rmsNormEps,
                            parseFloat(config_["rms_norm_eps"], where_ + ".rms_norm_eps"));
    return Status();
  }

  /// hybrid_c4
  Status parseLayerTypes() {
    const Json &types = config_["layer_types"];
    if (!types.is_array() || types.size() != static_cast<size_t>(out_.numLayers))
      return badConfig(where_, "layer_types must be an array of num_hidden_layers (" +
                                   std::to_string(out_.numLayers) + ") strings, got " +
                                   (types.is_array() ? std::to_string(types.size()) + " elements"
                                                     : jsonExcerpt(types)));
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == nameOf(HybridLayer::FullAttention))
        out_.layerTypes.push_back(HybridLayer::FullAttention);
      else if (types[i] == nameOf(HybridLayer::LinearAttention))
        out_.layerTypes.push_back(HybridLayer::LinearAttention);
      else
        return badConfig(where_, "layer_types[" + std::to_string(i) +
                                     "] must be \"full_attention\" or \"linear_attention\", got " +
                                     jsonExcerpt(types[i]));
    }
    return Status();
  }

  bool hasLayer(HybridLayer kind) const {
    return std::find(out_.layerTypes.begin(), out_.layerTypes.end(), kind) != out_.layerTypes.end();
  }

  /// True when the group is to be read: something needs it, or one of its members is there. Then
  /// all of them must be.
  Result<bool> groupPresent(const std::vector<const char *> &members, const char *need) {
    const char *present = nullptr, *missing = nullptr;
    for (const char *member : members)
      (config_.contains(member) ? present : missing) = member;
    if (missing && (need || present))
      return badConfig(where_, "member " + std::string(missing) +
                                   " is missing; it is required by " +
                                   (need ? std::string(need) : "member " + std::string(present)));
    return present != nullptr;
  }

  /// hybrid_c6: group A.
  Status parseAttention() {
    HybridAttention a;
    std::vector<const char *> members = {kRope};
    for (const Field &field : attentionFields(a))
      members.push_back(field.name);
    const char *need = hasLayer(HybridLayer::FullAttention) ? "a full_attention layer"
                       : needAttention_                     ? "component mtp"
                                                            : nullptr;
    NINFER_ASSIGN_OR_RETURN(bool present, groupPresent(members, need));
    if (!present)
      return Status();
    NINFER_RETURN_IF_ERROR(parseIntegers(attentionFields(a)));
    const Json &rope = config_[kRope];
    const std::string where = where_ + "." + kRope;
    NINFER_RETURN_IF_ERROR(jsonMembers(
        rope, {"rope_theta", "partial_rotary_factor", "mrope_section"}, {}, where, kCode));
    NINFER_ASSIGN_OR_RETURN(a.ropeTheta, parseFloat(rope["rope_theta"], where + ".rope_theta"));
    NINFER_ASSIGN_OR_RETURN(a.partialRotaryFactor, parseFloat(rope["partial_rotary_factor"],
                                                              where + ".partial_rotary_factor"));
    const Json &section = rope["mrope_section"];
    if (!section.is_array() || section.size() != a.mropeSection.size())
      return badConfig(where,
                       "mrope_section must be an array of 3 integers, got " + jsonExcerpt(section));
    for (size_t i = 0; i < a.mropeSection.size(); ++i) {
      NINFER_ASSIGN_OR_RETURN(a.mropeSection[i],
                              jsonInteger(section[i], 0, kMaxDimension,
                                          where + ".mrope_section[" + std::to_string(i) + "]",
                                          kCode));
    }
    out_.attention = a;
    return Status();
  }

  /// hybrid_c6: group B.
  Status parseDelta() {
    HybridDelta d;
    std::vector<const char *> members;
    for (const Field &field : deltaFields(d))
      members.push_back(field.name);
    NINFER_ASSIGN_OR_RETURN(bool present,
                            groupPresent(members, hasLayer(HybridLayer::LinearAttention)
                                                      ? "a linear_attention layer"
                                                      : nullptr));
    if (!present)
      return Status();
    NINFER_RETURN_IF_ERROR(parseIntegers(deltaFields(d)));
    out_.delta = d;
    return Status();
  }

  /// hybrid_c9: the members of the architecture's own FFN and none of the other's.
  Status parseFfn() {
    HybridMoe m;
    Fields own = moeFields(m), other = {{kDenseMember, &out_.intermediateSize}};
    if (out_.architecture == kDense)
      std::swap(own, other);
    for (const Field &field : own)
      if (!config_.contains(field.name))
        return badConfig(where_, "member " + std::string(field.name) +
                                     " is missing; it is required by " + out_.architecture);
    for (const Field &field : other)
      if (config_.contains(field.name))
        return badConfig(where_, "member '" + std::string(field.name) + "' does not belong to " +
                                     out_.architecture);
    NINFER_RETURN_IF_ERROR(parseIntegers(own));
    if (out_.architecture == kMoe)
      out_.moe = m;
    return Status();
  }

  const Json &config_;
  std::string where_;
  bool needAttention_;
  HybridConfig out_;
};

bool positiveBinary32(double value) {
  const auto rounded = static_cast<float>(value);
  return std::isfinite(rounded) && rounded > 0.0f;
}

Status checkRange(const Fields &fields, std::string_view where) {
  for (const Field &field : fields)
    if (*field.value < 1 || *field.value > field.limit)
      return badConfig(where, std::string(field.name) + " must be in 1.." +
                                  std::to_string(field.limit) + ", got " +
                                  std::to_string(*field.value));
  return Status();
}

Status checkMultiple(const Field &many, const Field &few, std::string_view where) {
  if (*many.value % *few.value == 0)
    return Status();
  return badConfig(where, std::string(many.name) + " (" + std::to_string(*many.value) +
                              ") must be a multiple of " + few.name + " (" +
                              std::to_string(*few.value) + ")");
}

/// Both factors are below 2^31.
Status checkProduct(const char *text, int64_t a, int64_t b, std::string_view where) {
  if (a * b <= kMaxDimension)
    return Status();
  return badConfig(where, std::string(text) + " must be at most " + std::to_string(kMaxDimension) +
                              ", got " + std::to_string(a * b));
}

/// hybrid_c8
Status checkRope(const HybridAttention &a, std::string_view where) {
  const std::string rope = std::string(where) + "." + kRope;
  if (!positiveBinary32(a.ropeTheta))
    return badConfig(rope, "rope_theta must be finite and positive as binary32");
  if (!positiveBinary32(a.partialRotaryFactor) || a.partialRotaryFactor > 1.0)
    return badConfig(rope, "partial_rotary_factor must be greater than 0 and at most 1");
  const int64_t rotary = a.rotaryDim();
  if (rotary < 2 || rotary % 2 != 0 || rotary > a.headDim)
    return badConfig(rope, "head_dim (" + std::to_string(a.headDim) +
                               ") times partial_rotary_factor must be even and at least 2, got " +
                               std::to_string(rotary));
  int64_t sum = 0;
  for (int64_t pairs : a.mropeSection)
    sum += pairs;
  if (sum != rotary / 2)
    return badConfig(rope, "mrope_section must add up to the rotated pairs (" +
                               std::to_string(rotary / 2) + "), got " + std::to_string(sum));
  std::array<int64_t, 3> counts{};
  for (int axis : a.ropeAxes())
    ++counts[static_cast<size_t>(axis)];
  if (counts != a.mropeSection)
    return badConfig(rope, "interleaving the pairs gives the axes " + std::to_string(counts[0]) +
                               ", " + std::to_string(counts[1]) + " and " +
                               std::to_string(counts[2]) + " pairs, not those of mrope_section");
  return Status();
}

Status checkAttention(HybridAttention a, std::string_view where) {
  const Fields fields = attentionFields(a);
  NINFER_RETURN_IF_ERROR(checkRange(fields, where));
  NINFER_RETURN_IF_ERROR(
      checkProduct("num_attention_heads * head_dim", a.numHeads, a.headDim, where));
  NINFER_RETURN_IF_ERROR(checkMultiple(fields[0], fields[1], where));
  return checkRope(a, where);
}

Status checkDelta(HybridDelta d, std::string_view where) {
  const Fields fields = deltaFields(d);
  NINFER_RETURN_IF_ERROR(checkRange(fields, where));
  NINFER_RETURN_IF_ERROR(checkMultiple(fields[2], fields[0], where));
  NINFER_RETURN_IF_ERROR(
      checkProduct("linear_num_key_heads * linear_key_head_dim", d.numKeyHeads, d.keyDim, where));
  NINFER_RETURN_IF_ERROR(checkProduct("linear_num_value_heads * linear_value_head_dim",
                                      d.numValueHeads, d.valueDim, where));
  return checkProduct("linear_conv_kernel_dim times the convolution's channels", d.taps,
                      std::min(d.channels(), kMaxDimension + 1), where);
}

Status checkMoe(HybridMoe m, std::string_view where) {
  NINFER_RETURN_IF_ERROR(checkRange(moeFields(m), where));
  if (m.expertsPerToken > m.numExperts)
    return badConfig(where, "num_experts_per_tok (" + std::to_string(m.expertsPerToken) +
                                ") must be at most num_experts (" + std::to_string(m.numExperts) +
                                ")");
  return Status();
}

} // namespace

const std::vector<std::string> &hybridArchitectures() {
  static const std::vector<std::string> names = {kDense, kMoe};
  return names;
}

std::string mtpArchitecture(const HybridConfig &config) {
  return config.moe ? "Qwen3_5MoeMTP" : "Qwen3_5MTP";
}

Result<HybridConfig> parseHybridConfig(const Json &config, std::string_view fileName,
                                       bool needAttention) {
  return Parser(config, fileName, needAttention).run();
}

Status checkHybridConfig(const HybridConfig &config, std::string_view where, bool needAttention) {
  HybridConfig c = config;                                     // the field tables point into it
  NINFER_RETURN_IF_ERROR(checkRange(baseFields(c), where));    // hybrid_c3
  if (c.layerTypes.size() != static_cast<size_t>(c.numLayers)) // hybrid_c4
    return badConfig(where, "layer_types must have num_hidden_layers (" +
                                std::to_string(c.numLayers) + ") elements, got " +
                                std::to_string(c.layerTypes.size()));
  if (!positiveBinary32(c.rmsNormEps)) // hybrid_c5
    return badConfig(where, "rms_norm_eps must be finite and positive as binary32");
  bool full = needAttention, linear = false; // hybrid_c6
  for (HybridLayer layer : c.layerTypes)
    (layer == HybridLayer::FullAttention ? full : linear) = true;
  if (full && !c.attention)
    return badConfig(where, "full attention is needed but has no dimensions");
  if (linear && !c.delta)
    return badConfig(where, "linear attention is needed but has no dimensions");
  if (c.attention) // hybrid_c7, hybrid_c8
    NINFER_RETURN_IF_ERROR(checkAttention(*c.attention, where));
  if (c.delta) // hybrid_c7
    NINFER_RETURN_IF_ERROR(checkDelta(*c.delta, where));
  if (c.architecture != (c.moe ? kMoe : kDense)) // hybrid_c9
    return badConfig(where, "architecture '" + c.architecture + "' does not fit its FFN");
  if (c.moe)
    return checkMoe(*c.moe, where);
  return checkRange({{kDenseMember, &c.intermediateSize}}, where);
}

Json toJson(const HybridConfig &config) {
  HybridConfig c = config;
  Json out = Json::object();
  auto put = [&](const Fields &fields) {
    for (const Field &field : fields)
      out[field.name] = *field.value;
  };
  auto binary32 = [](double value) { return static_cast<double>(static_cast<float>(value)); };
  out["architectures"] = Json::array({c.architecture});
  out["model_type"] = modelTypeOf(c.architecture);
  put(baseFields(c));
  out["tie_word_embeddings"] = c.tieWordEmbeddings;
  out["rms_norm_eps"] = binary32(c.rmsNormEps);
  Json types = Json::array();
  for (HybridLayer layer : c.layerTypes)
    types.push_back(nameOf(layer));
  out["layer_types"] = std::move(types);
  if (c.attention) {
    put(attentionFields(*c.attention));
    out[kRope] = Json{{"rope_theta", binary32(c.attention->ropeTheta)},
                      {"partial_rotary_factor", binary32(c.attention->partialRotaryFactor)},
                      {"mrope_section", c.attention->mropeSection}};
  }
  if (c.delta)
    put(deltaFields(*c.delta));
  if (c.moe)
    put(moeFields(*c.moe));
  else
    out[kDenseMember] = c.intermediateSize;
  return out;
}

} // namespace ninfer
