// Which source tensor feeds which parameter of the hybrid family: tensors that hold several
// parameters are split by rows, the query projection head by head, the convolution is transposed.
// Names of checkpoints are here, those of GGUF files in GgufHybridMap.cpp.
#include "convert/HybridOrigin.h"
#include "convert/Vision.h"
#include "models/Bind.h"
#include "models/Hybrid.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

namespace ninfer {

namespace {

uint64_t size(int64_t n) { return static_cast<uint64_t>(n); }

bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// Parameters that are one tensor, behind the layer's prefixes.
const std::map<std::string_view, const char *> &wholeTensors() {
  static const std::map<std::string_view, const char *> names = {
      {"input_norm", "input_layernorm.weight"},
      {"post_attention_norm", "post_attention_layernorm.weight"},
      {"attention/key", "self_attn.k_proj.weight"},
      {"attention/value", "self_attn.v_proj.weight"},
      {"attention/query_norm", "self_attn.q_norm.weight"},
      {"attention/key_norm", "self_attn.k_norm.weight"},
      {"attention/output", "self_attn.o_proj.weight"},
      {"gdn/z", "linear_attn.in_proj_z.weight"},
      {"gdn/a_projection", "linear_attn.in_proj_a.weight"},
      {"gdn/b_projection", "linear_attn.in_proj_b.weight"},
      {"gdn/a_log", "linear_attn.A_log"},
      {"gdn/dt_bias", "linear_attn.dt_bias"},
      {"gdn/norm", "linear_attn.norm.weight"},
      {"gdn/output", "linear_attn.out_proj.weight"},
      {"mlp/gate", "mlp.gate_proj.weight"},
      {"mlp/up", "mlp.up_proj.weight"},
      {"mlp/down", "mlp.down_proj.weight"},
      {"moe/router", "mlp.gate.weight"},
      {"moe/shared_score", "mlp.shared_expert_gate.weight"},
      {"moe/shared/gate", "mlp.shared_expert.gate_proj.weight"},
      {"moe/shared/up", "mlp.shared_expert.up_proj.weight"},
      {"moe/shared/down", "mlp.shared_expert.down_proj.weight"},
  };
  return names;
}

class HybridBinder {
public:
  HybridBinder(Checkpoint &checkpoint, const std::string &fileName,
               std::optional<int64_t> draftLayers)
      : checkpoint_(checkpoint), config_(std::get<HybridConfig>(checkpoint.config)),
        fileName_(fileName), draftLayers_(draftLayers) {}

  Status run() {
    bool nested = false;
    for (size_t i = 0; i < tensors().size(); ++i) {
      const std::string &name = tensors()[i].name;
      index_.emplace(name, static_cast<uint32_t>(i));
      nested = nested || startsWith(name, "model.language_model.");
    }
    model_ = nested ? "model.language_model." : "model.";
    if (gguf())
      return bindGguf();
    NINFER_RETURN_IF_ERROR(settleDraft());
    NINFER_RETURN_IF_ERROR(settleVision());
    checkpoint_.parameters.clear();
    for (const ParameterSpec &p : inventoryOf(checkpoint_.config, checkpoint_.mtp))
      bind(p, originOf(p), bankOf(p.name));
    if (checkpoint_.vision)
      bindVision();
    checkLeftOver();
    return faults_.status(fileName_);
  }

private:
  const std::vector<SourceTensor> &tensors() const { return checkpoint_.tensors.tensors; }

  bool gguf() const { return checkpoint_.kind == "gguf"; }

  /// Component text alone; the draft layer, behind the last layer, is left out.
  Status bindGguf() {
    checkpoint_.parameters.clear();
    for (const ParameterSpec &p : inventoryOf(checkpoint_.config, false))
      bind(p, ggufHybridOrigin(config_, p), "");
    const std::string draft = "blk." + std::to_string(config_.numLayers) + ".";
    for (size_t i = 0; i < tensors().size(); ++i)
      if (draftLayers_.value_or(0) != 0 && startsWith(tensors()[i].name, draft))
        consumed_.insert(static_cast<uint32_t>(i));
    checkLeftOver();
    return faults_.status(fileName_);
  }

  size_t count(std::string_view prefix) const {
    return static_cast<size_t>(
        std::count_if(tensors().begin(), tensors().end(),
                      [&](const SourceTensor &t) { return startsWith(t.name, prefix); }));
  }

  /// The tensors decide: libraries drop the draft layer and leave the config as it was.
  Status settleDraft() {
    checkpoint_.mtp = count("mtp.") != 0 && draftLayers_.value_or(1) != 0;
    if (draftLayers_.value_or(0) != 0 && !checkpoint_.mtp)
      checkpoint_.notes.push_back(
          "the config announces a draft layer (mtp_num_hidden_layers), the checkpoint holds none");
    return checkHybridConfig(config_, fileName_, checkpoint_.mtp);
  }

  static bool isVision(std::string_view name) {
    return startsWith(name, "model.visual.") || startsWith(name, "visual.");
  }

  Status settleVision() {
    const size_t vision = count("model.visual.") + count("visual.");
    if (vision == 0)
      return Status();
    if (vision == tensors().size())
      return makeError(ErrorKind::BadFile, "NB0319",
                       fileName_ + ": all " + std::to_string(vision) +
                           " tensors belong to the vision tower, the text model is missing");
    if (!checkpoint_.vision)
      checkpoint_.notes.push_back("vision is not converted: " + std::to_string(vision) +
                                  " tensors left out");
    return Status();
  }

  HybridOrigin originOf(const ParameterSpec &p) const {
    if (p.name == "text/token_embedding" ||
        (p.name == "text/output_head" && config_.tieWordEmbeddings))
      return {model_ + "embed_tokens.weight", p.shape, {}};
    static const std::map<std::string_view, const char *> globals = {
        {"text/output_head", "lm_head.weight"},
        {"mtp/input_projection", "mtp.fc.weight"},
        {"mtp/embedding_norm", "mtp.pre_fc_norm_embedding.weight"},
        {"mtp/hidden_norm", "mtp.pre_fc_norm_hidden.weight"},
        {"mtp/final_norm", "mtp.norm.weight"},
    };
    if (p.name == "text/final_norm")
      return {model_ + "norm.weight", p.shape, {}};
    if (auto it = globals.find(p.name); it != globals.end())
      return {it->second, p.shape, {}};
    // text/layers/{i}/rest or mtp/layers/0/rest
    const size_t number = p.name.find("/layers/") + 8, slash = p.name.find('/', number);
    const std::string prefix = (startsWith(p.name, "mtp/") ? "mtp." : model_) + "layers." +
                               p.name.substr(number, slash - number) + ".";
    return originInLayer(prefix, std::string_view(p.name).substr(slash + 1), p);
  }

  HybridOrigin originInLayer(const std::string &prefix, std::string_view rest,
                       const ParameterSpec &p) const {
    if (auto it = wholeTensors().find(rest); it != wholeTensors().end())
      return {prefix + it->second, p.shape, {}};
    const uint64_t hidden = size(config_.hiddenSize);
    if (startsWith(rest, "attention/")) { // query and gate: the two halves of each head's rows
      const uint64_t dim = size(config_.attention->headDim);
      const uint64_t first = rest == "attention/gate" ? dim : 0;
      return {prefix + "self_attn.q_proj.weight",
            {2 * p.shape[0], hidden},
            {.first = first, .run = dim, .stride = 2 * dim}};
    }
    if (startsWith(rest, "moe/experts/"))
      return originOfExpert(prefix, rest, p);
    const HybridDelta &d = *config_.delta;
    if (rest == "gdn/convolution")
      return {prefix + "linear_attn.conv1d.weight", {p.shape[1], 1, p.shape[0]}, {}, true};
    const uint64_t key = size(d.keyWidth());
    const uint64_t first = rest == "gdn/query" ? 0 : rest == "gdn/key" ? key : 2 * key;
    return {prefix + "linear_attn.in_proj_qkv.weight",
            {size(d.channels()), hidden},
            {.first = first, .run = p.shape[0], .stride = p.shape[0]}};
  }

  /// Experts lie in two banks, or every matrix for itself.
  HybridOrigin originOfExpert(const std::string &prefix, std::string_view rest,
                        const ParameterSpec &p) const {
    const size_t number = std::string_view("moe/experts/").size(), slash = rest.find('/', number);
    const std::string id(rest.substr(number, slash - number));
    const std::string role(rest.substr(slash + 1));
    const std::string experts = prefix + "mlp.experts.";
    if (!index_.count(experts + "gate_up_proj") && index_.count(experts + "0.gate_proj.weight"))
      return {experts + id + "." + role + "_proj.weight", p.shape, {}};
    const uint64_t hidden = size(config_.hiddenSize), inner = size(config_.moe->intermediateSize);
    const uint64_t count = size(config_.moe->numExperts), e = std::stoull(id);
    if (role == "down")
      return {experts + "down_proj", {count, hidden, inner}, {.first = e * hidden, .run = hidden, .stride = hidden}};
    return {experts + "gate_up_proj",
            {count, 2 * inner, hidden},
            {.first = e * 2 * inner + (role == "up" ? inner : 0), .run = inner, .stride = inner}};
  }

  /// The experts of a layer form two banks: gate and up rows of expert 0, of expert 1, ..., and the
  /// down rows; a kernel finds an expert by its number.
  static std::string bankOf(const std::string &parameter) {
    const size_t at = parameter.find("/moe/experts/");
    if (at == std::string::npos)
      return "";
    return parameter.substr(0, at) +
           (parameter.ends_with("/down") ? "/moe/experts/down" : "/moe/experts/gate_up");
  }

  /// The trailing axes of a tensor, such as those of a patch, are the columns of its parameter.
  void bindVision() {
    const std::string tower = count("model.visual.") ? "model.visual." : "visual.";
    for (const VisionParameter &p :
         visionParameters(*checkpoint_.vision, size(config_.hiddenSize))) {
      const size_t before = checkpoint_.parameters.size();
      bind(p.spec, {tower + p.tensor, p.tensorShape, p.rows}, p.bank);
      if (checkpoint_.parameters.size() > before && p.tensorShape.size() > 2)
        checkpoint_.tensors.tensors[checkpoint_.parameters.back().tensor].shape = p.spec.shape;
    }
  }

  void bind(const ParameterSpec &p, const HybridOrigin &origin, const std::string &bank) {
    auto it = index_.find(origin.tensor);
    if (it == index_.end()) {
      if (told_.insert(origin.tensor).second)
        faults_.add("missing: tensor '" + origin.tensor + "' " + shapeText(origin.shape) + " for " +
                    p.name);
      return;
    }
    const SourceTensor &tensor = tensors()[it->second];
    consumed_.insert(it->second);
    if (tensor.shape != origin.shape || tensor.type == SourceType::Other) {
      if (told_.insert(origin.tensor).second)
        faults_.add(tensor.shape != origin.shape
                        ? "misshaped: tensor '" + origin.tensor + "' is " +
                              shapeText(tensor.shape) + ", " + p.name + " needs " +
                              shapeText(origin.shape)
                        : "tensor '" + origin.tensor + "' has type " + tensor.typeName +
                              "; parameters must be F32, F16 or BF16");
      return;
    }
    ParameterSource source;
    source.parameter = p.name;
    source.shape = p.shape;
    source.direct = p.direct;
    source.directFormat = p.directFormat;
    source.input = p.input;
    source.bank = bank;
    source.tensor = it->second;
    source.rows = origin.rows;
    source.transposed = origin.transposed;
    source.columns = origin.columns;
    source.map = origin.map;
    checkpoint_.parameters.push_back(std::move(source));
  }

  void checkLeftOver() {
    for (size_t i = 0; i < tensors().size(); ++i) {
      const SourceTensor &tensor = tensors()[i];
      if (consumed_.count(static_cast<uint32_t>(i)) ||
          (!checkpoint_.vision && isVision(tensor.name)))
        continue;
      const std::string &name = tensor.name;
      constexpr std::string_view kTable = ".rotary_emb.inv_freq";
      if (name.size() > kTable.size() && name.ends_with(kTable))
        continue;
      if (name == "lm_head.weight" && config_.tieWordEmbeddings)
        checkpoint_.notes.push_back(
            "tensor 'lm_head.weight' is ignored: tie_word_embeddings is true");
      else
        faults_.add("extra: tensor '" + name + "' " + shapeText(tensor.shape) +
                    " feeds no parameter of " + config_.architecture);
    }
  }

  Checkpoint &checkpoint_;
  const HybridConfig &config_;
  const std::string &fileName_;
  std::optional<int64_t> draftLayers_;
  std::string model_; ///< prefix of the text model's tensors
  std::unordered_map<std::string, uint32_t> index_;
  std::set<uint32_t> consumed_;
  std::set<std::string> told_; ///< tensors at fault, each told once
  TensorFaults faults_;
};

} // namespace

Status bindHybridParameters(Checkpoint &checkpoint, const std::string &fileName,
                            std::optional<int64_t> draftLayers) {
  return HybridBinder(checkpoint, fileName, draftLayers).run();
}

} // namespace ninfer
