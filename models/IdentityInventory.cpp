// Object inventories of the known identities: names, shapes and formats of the published files.
#include "models/Bind.h"
#include "models/Hybrid.h"
#include "models/Identity.h"
#include "models/Vision.h"

#include <algorithm>

namespace ninfer {

namespace {

enum class Recipe { Int, IntLater, Nvfp4, Nvfp4Later, Moe };

struct Known {
  Identity identity;
  Recipe recipe;
};

const std::vector<Known> &knownModels() {
  static const std::vector<Known> known = {{{"qwen3.6-27b", "groupwise-int"}, Recipe::Int},
                                           {{"qwen3.6-27b", "nvfp4"}, Recipe::Nvfp4},
                                           {{"qwen3.8-27b", "groupwise-int"}, Recipe::IntLater},
                                           {{"qwen3.8-27b", "nvfp4"}, Recipe::Nvfp4Later},
                                           {{"qwen3.6-35b-a3b", "groupwise-int"}, Recipe::Moe}};
  return known;
}

const Known *findModel(const Identity &identity) {
  for (const Known &known : knownModels())
    if (known.identity.modelId == identity.modelId &&
        known.identity.weightsId ==
            (identity.weightsId.empty() ? "groupwise-int" : identity.weightsId))
      return &known;
  return nullptr;
}

/// Values that all models of the family share.
HybridConfig commonConfig(int64_t hidden, int64_t layers) {
  HybridConfig c;
  c.hiddenSize = hidden;
  c.vocabSize = 248320;
  c.numLayers = layers;
  c.maxPositions = 262144;
  c.rmsNormEps = static_cast<double>(1e-6f);
  for (int64_t i = 0; i < layers; ++i)
    c.layerTypes.push_back((i + 1) % 4 == 0 ? HybridLayer::FullAttention
                                            : HybridLayer::LinearAttention);
  c.attention = HybridAttention{0, 0, 256, 1e7, 0.25, {11, 11, 10}};
  c.delta = HybridDelta{16, 128, 0, 128, 4};
  return c;
}

HybridConfig configOf(Recipe recipe) {
  const bool moe = recipe == Recipe::Moe;
  HybridConfig c = moe ? commonConfig(2048, 40) : commonConfig(5120, 64);
  c.architecture = moe ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM";
  c.attention->numHeads = moe ? 16 : 24;
  c.attention->numKvHeads = moe ? 2 : 4;
  c.delta->numValueHeads = moe ? 32 : 48;
  if (moe)
    c.moe = HybridMoe{256, 8, 512, 512};
  else
    c.intermediateSize = 17408;
  return c;
}

/// Writes the inventory of one recipe in the order of the published documents.
class Builder {
public:
  explicit Builder(Recipe recipe) : recipe_(recipe), config_(configOf(recipe)) {
    model_.vision = publishedVision(recipe == Recipe::Moe);
    for (std::vector<ParameterSpec> part :
         {hybridInventory(config_), mtpInventory(config_),
          proposalInventory(config_, {true, kProposalRows}),
          visionInventory(model_.vision, config_.hiddenSize)})
      for (ParameterSpec &p : part)
        shapes_[p.name] = std::move(p);
  }

  StoredModel build() {
    // embedding, head and draft head
    const Format ends[] = {Format::Q6G64_F16S, Format::W8G32_F16S, Format::W8G32_F16S,
                           Format::FP8_E4M3FN_ROW_BF16S, Format::W8G32_F16S};
    const Format end = ends[static_cast<size_t>(recipe_)];
    stored("text/token_embedding", end, {"text/token_embedding"});
    for (int64_t i = 0; i < config_.numLayers; ++i)
      textLayer(i);
    direct("text/final_norm");
    stored("text/output_head", recipe_ == Recipe::Moe ? Format::Q6G64_F16S : end,
           {"text/output_head"});
    stored("text/draft_head", Format::Q4G64_F16S, {"proposal/head"});
    stored("text/draft_head_token_ids", Format::I32, {"proposal/token_ids"});
    mtp();
    vision();
    for (const char *role :
         {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
          "generation_config.json", "preprocessor_config.json", "video_preprocessor_config.json"})
      model_.resources.push_back(std::string("frontend/") + role);
    model_.config = std::move(config_);
    model_.proposalRows = kProposalRows;
    model_.narrowActivations = isNvfp4();
    if (recipe_ == Recipe::Moe)
      model_.companion = "dflash", model_.companionTensors = 3 + 6 * 8;
    else if (recipe_ == Recipe::IntLater || recipe_ == Recipe::Nvfp4Later)
      model_.companion = "dflash2", model_.companionTensors = 6 + 5 * 12;
    return std::move(model_);
  }

private:
  static constexpr uint64_t kProposalRows = 131072;

  bool isNvfp4() const { return recipe_ == Recipe::Nvfp4 || recipe_ == Recipe::Nvfp4Later; }
  bool isDenseInt() const { return recipe_ == Recipe::Int || recipe_ == Recipe::IntLater; }

  /// One tensor that holds the parameters one after the other, as rows.
  void stored(std::string name, Format format, const std::vector<std::string> &parameters) {
    StoredTensor tensor;
    tensor.name = std::move(name);
    tensor.format = format;
    const ParameterSpec &first = shapes_.at(parameters[0]);
    tensor.anyFormat = recipe_ == Recipe::IntLater && !first.direct && format != Format::BF16 &&
                       !isUnder(tensor.name, "vision");
    tensor.shape = first.shape;
    tensor.shape[0] = 0;
    for (const std::string &parameter : parameters) {
      const uint64_t rows = shapes_.at(parameter).shape[0];
      tensor.parameters.push_back({parameter, tensor.shape[0], rows});
      tensor.shape[0] += rows;
    }
    model_.tensors.push_back(std::move(tensor));
  }

  /// A direct parameter stored under its own name or `name`.
  void direct(const std::string &parameter, std::string name = {}) {
    stored(name.empty() ? parameter : std::move(name), shapes_.at(parameter).directFormat,
           {parameter});
  }

  /// stored(), followed by the FP32 scalar of the site when the format is NVFP4.
  void site(const std::string &name, Format format, const std::vector<std::string> &parameters,
            const std::string &projection) {
    stored(name, format, parameters);
    if (format != Format::NVFP4)
      return;
    StoredTensor divisor;
    divisor.name = projection + "/input_scale_divisor";
    divisor.format = Format::FP32;
    divisor.divisorOf = name;
    model_.tensors.push_back(std::move(divisor));
  }

  std::vector<std::string> under(const std::string &prefix,
                                 std::initializer_list<const char *> names) {
    std::vector<std::string> out;
    for (const char *name : names)
      out.push_back(prefix + name);
    return out;
  }

  void textLayer(int64_t i) {
    const std::string p = "text/layers/" + std::to_string(i) + "/";
    direct(p + "input_norm");
    if (config_.layerTypes[static_cast<size_t>(i)] == HybridLayer::FullAttention)
      attention(p, i);
    else
      delta(p, i);
    direct(p + "post_attention_norm");
    if (recipe_ == Recipe::Moe) {
      const bool wide = i == 34 || i == 38 || i == 39;
      moe(p, p, Format::Q4G64_F16S, wide ? Format::Q6G64_F16S : Format::Q5G64_F16S);
    } else {
      const Format later = i < 56 ? Format::NVFP4 : Format::FP8_E4M3FN_ROW_BF16S;
      const Format wide = recipe_ == Recipe::Nvfp4 ? Format::NVFP4 : later;
      const Format gate = isDenseInt() ? Format::Q4G64_F16S : wide;
      const Format down = isDenseInt() ? Format::Q5G64_F16S : wide;
      site(p + "mlp/gate_up", gate, under(p, {"mlp/gate", "mlp/up"}), p + "mlp/gate_up_projection");
      site(p + "mlp/down", down, under(p, {"mlp/down"}), p + "mlp/down_projection");
    }
  }

  void attention(const std::string &layer, int64_t i) {
    const std::string p = layer + "attention/";
    Format input = Format::W8G32_F16S, output = Format::W8G32_F16S;
    if (recipe_ == Recipe::Nvfp4) {
      input = i < 24 ? Format::BF16 : Format::NVFP4;
      output = i == 3 || i == 7 ? Format::BF16 : Format::NVFP4;
    } else if (recipe_ == Recipe::Nvfp4Later) {
      input = output = Format::FP8_E4M3FN_ROW_BF16S;
    } else if (isDenseInt()) {
      output = Format::Q5G64_F16S;
    }
    if (isDenseInt()) {
      stored(p + "query_key", Format::Q4G64_F16S, under(p, {"query", "key"}));
      stored(p + "gate_value", Format::Q5G64_F16S, under(p, {"gate", "value"}));
    } else {
      site(p + "query_key_gate_value", input, under(p, {"query", "key", "gate", "value"}),
           p + "input_projection");
    }
    direct(p + "query_norm");
    direct(p + "key_norm");
    site(p + "output", output, {p + "output"}, p + "output_projection");
  }

  void delta(const std::string &layer, int64_t i) {
    const std::string p = layer + "gdn/";
    direct(p + "a_log");
    direct(p + "dt_bias");
    direct(p + "convolution");
    if (recipe_ == Recipe::Moe || recipe_ == Recipe::Nvfp4Later) {
      stored(p + "a_b_projection", Format::BF16, under(p, {"a_projection", "b_projection"}));
    } else {
      stored(p + "a_projection", Format::BF16, {p + "a_projection"});
      stored(p + "b_projection", Format::BF16, {p + "b_projection"});
    }
    Format input = Format::W8G32_F16S, output = Format::W8G32_F16S;
    if (recipe_ == Recipe::Nvfp4) {
      input = Format::NVFP4;
      output = i == 4 ? Format::BF16 : Format::NVFP4;
    } else if (recipe_ == Recipe::Nvfp4Later) {
      input = output = Format::FP8_E4M3FN_ROW_BF16S;
    } else if (isDenseInt()) {
      output = Format::Q5G64_F16S;
    }
    if (isDenseInt()) {
      stored(p + "query_key", Format::Q4G64_F16S, under(p, {"query", "key"}));
      stored(p + "value_z", Format::Q5G64_F16S, under(p, {"value", "z"}));
    } else {
      site(p + "query_key_value_z", input, under(p, {"query", "key", "value", "z"}),
           p + "input_projection");
    }
    direct(p + "norm");
    site(p + "output", output, {p + "output"}, p + "output_projection");
  }

  /// `stem` is the physical prefix, `layer` the logical one.
  void moe(const std::string &stem, const std::string &layer, Format gateUp, Format down) {
    const std::string p = stem + "moe/", q = layer + "moe/";
    std::vector<std::string> gates, downs;
    for (int64_t e = 0; e < config_.moe->numExperts; ++e) {
      const std::string expert = q + "experts/" + std::to_string(e) + "/";
      gates.push_back(expert + "gate");
      gates.push_back(expert + "up");
      downs.push_back(expert + "down");
    }
    stored(p + "router_shared_gate", Format::BF16, under(q, {"router", "shared_score"}));
    stored(p + "routed_gate_up", gateUp, gates);
    stored(p + "routed_down", down, downs);
    stored(p + "shared_gate_up", Format::W8G32_F16S, under(q, {"shared/gate", "shared/up"}));
    stored(p + "shared_down", Format::W8G32_F16S, under(q, {"shared/down"}));
  }

  void mtp() {
    const Format wide = Format::W8G32_F16S;
    const std::string p = "mtp/layer/", q = "mtp/layers/0/";
    stored("mtp/input_projection", wide, {"mtp/input_projection"});
    direct("mtp/embedding_norm");
    direct("mtp/hidden_norm");
    direct(q + "input_norm", p + "input_norm");
    stored(p + "attention/query_key_gate_value", wide,
           under(q + "attention/", {"query", "key", "gate", "value"}));
    direct(q + "attention/query_norm", p + "attention/query_norm");
    direct(q + "attention/key_norm", p + "attention/key_norm");
    stored(p + "attention/output", wide, {q + "attention/output"});
    direct(q + "post_attention_norm", p + "post_attention_norm");
    if (recipe_ == Recipe::Moe) {
      moe(p, q, wide, wide);
    } else {
      stored(p + "mlp/gate_up", wide, under(q + "mlp/", {"gate", "up"}));
      stored(p + "mlp/down", wide, {q + "mlp/down"});
    }
    direct("mtp/final_norm");
  }

  /// The same in every recipe.
  void vision() {
    const std::string v = "vision/";
    stored(v + "patch_embedding", Format::Q6G64_F16S, {v + "patch_embedding"});
    direct(v + "patch_embedding_bias");
    direct(v + "position_embedding");
    for (int64_t i = 0; i < model_.vision.depth; ++i) {
      const std::string p = v + "layers/" + std::to_string(i) + "/";
      stored(p + "attention/qkv", Format::Q4G64_F16S,
             under(p + "attention/", {"query", "key", "value"}));
      stored(p + "attention/qkv_bias", Format::BF16,
             under(p + "attention/", {"query_bias", "key_bias", "value_bias"}));
      for (const auto &[name, format] :
           {std::pair("attention/output", Format::Q5G64_F16S),
            std::pair("mlp/fc1", Format::Q4G64_F16S), std::pair("mlp/fc2", Format::Q5G64_F16S)}) {
        stored(p + name, format, {p + name});
        direct(p + name + "_bias");
      }
      for (const char *norm : {"norm1", "norm2"})
        for (const char *part : {"weight", "bias"})
          direct(p + norm + "_" + part, p + norm + "/" + part);
    }
    for (const char *name : {"merger/fc1", "merger/fc2"}) {
      stored(v + name, Format::W8G32_F16S, {v + name});
      direct(v + name + "_bias");
    }
    for (const char *part : {"weight", "bias"})
      direct(v + "merger/norm_" + part, v + "merger/norm/" + part);
  }

  Recipe recipe_;
  HybridConfig config_;
  std::map<std::string, ParameterSpec> shapes_;
  StoredModel model_;
};

} // namespace

const std::vector<Identity> &knownIdentities() {
  static const std::vector<Identity> identities = [] {
    std::vector<Identity> out;
    for (const Known &known : knownModels())
      out.push_back(known.identity);
    return out;
  }();
  return identities;
}

std::optional<HybridConfig> configOfIdentity(const Identity &identity) {
  const Known *known = findModel(identity);
  if (!known)
    return std::nullopt;
  return configOf(known->recipe);
}

std::optional<StoredModel> storedModel(const Identity &identity) {
  const Known *known = findModel(identity);
  if (!known)
    return std::nullopt;
  StoredModel model = Builder(known->recipe).build();
  model.modelId = known->identity.modelId;
  model.weightsId = known->identity.weightsId;
  return model;
}

} // namespace ninfer
