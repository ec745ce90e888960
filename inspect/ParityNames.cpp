#include "inspect/ParityNames.h"

#include <map>
#include <optional>
#include <string_view>

namespace ninfer {

namespace {

using Names = std::map<std::string_view, std::string_view>;

std::optional<std::string> lookUp(const Names &names, std::string_view name) {
  const auto found = names.find(name);
  return found == names.end() ? std::nullopt : std::optional<std::string>(found->second);
}

/// "12" and "rest" of "12.rest".
std::optional<std::pair<std::string, std::string_view>> cutNumber(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == 0 || dot == std::string_view::npos || text.find_first_not_of("0123456789") != dot)
    return std::nullopt;
  return std::pair(std::string(text.substr(0, dot)), text.substr(dot + 1));
}

bool takeFront(std::string_view &text, std::string_view front) {
  if (!text.starts_with(front))
    return false;
  text.remove_prefix(front.size());
  return true;
}

bool takeBack(std::string_view &text, std::string_view back) {
  if (!text.ends_with(back))
    return false;
  text.remove_suffix(back.size());
  return true;
}

using Feeds = std::vector<ParityFeed>;

Feeds whole(std::string parameter, const SourceTensor &tensor) { return {{std::move(parameter), tensor.shape, {}, false, 0}}; }

// ---- dense decoders ----

const Names kDenseHuggingFace = {
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

const Names kDenseGguf = {
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

std::optional<std::string> denseParameter(const Checkpoint &checkpoint, std::string_view name) {
  const bool gguf = checkpoint.kind == "gguf";
  if (name == (gguf ? "token_embd.weight" : "model.embed_tokens.weight"))
    return "text/token_embedding";
  if (name == (gguf ? "output_norm.weight" : "model.norm.weight"))
    return "text/final_norm";
  if (name == (gguf ? "output.weight" : "lm_head.weight"))
    return "text/output_head";
  if (!takeFront(name, gguf ? "blk." : "model.layers."))
    return std::nullopt;
  const auto layer = cutNumber(name);
  const auto role = layer ? lookUp(gguf ? kDenseGguf : kDenseHuggingFace, layer->second) : std::nullopt;
  return role ? std::optional("text/layers/" + layer->first + "/" + *role) : std::nullopt;
}

Feeds denseFeeds(const Checkpoint &checkpoint, const SourceTensor &tensor) {
  const auto parameter = denseParameter(checkpoint, tensor.name);
  if (!parameter)
    return {};
  Feeds feeds = whole(*parameter, tensor);
  const auto &config = std::get<DecoderConfig>(checkpoint.config);
  if (checkpoint.kind == "gguf" && config.architecture == "LlamaForCausalLM" &&
      (parameter->ends_with("/attention/query") || parameter->ends_with("/attention/key")))
    feeds.front().pairedHeadDim = uint64_t(config.headDim);
  return feeds;
}

// ---- the hybrid family ----

const Names kHybridWhole = {
    {"input_layernorm.weight", "input_norm"},
    {"post_attention_layernorm.weight", "post_attention_norm"},
    {"self_attn.k_proj.weight", "attention/key"},
    {"self_attn.v_proj.weight", "attention/value"},
    {"self_attn.o_proj.weight", "attention/output"},
    {"self_attn.q_norm.weight", "attention/query_norm"},
    {"self_attn.k_norm.weight", "attention/key_norm"},
    {"linear_attn.in_proj_z.weight", "gdn/z"},
    {"linear_attn.in_proj_a.weight", "gdn/a_projection"},
    {"linear_attn.in_proj_b.weight", "gdn/b_projection"},
    {"linear_attn.A_log", "gdn/a_log"},
    {"linear_attn.dt_bias", "gdn/dt_bias"},
    {"linear_attn.norm.weight", "gdn/norm"},
    {"linear_attn.out_proj.weight", "gdn/output"},
    {"mlp.gate_proj.weight", "mlp/gate"},
    {"mlp.up_proj.weight", "mlp/up"},
    {"mlp.down_proj.weight", "mlp/down"},
    {"mlp.gate.weight", "moe/router"},
    {"mlp.shared_expert_gate.weight", "moe/shared_score"},
    {"mlp.shared_expert.gate_proj.weight", "moe/shared/gate"},
    {"mlp.shared_expert.up_proj.weight", "moe/shared/up"},
    {"mlp.shared_expert.down_proj.weight", "moe/shared/down"},
};

const Names kDraft = {
    {"fc.weight", "mtp/input_projection"},
    {"pre_fc_norm_embedding.weight", "mtp/embedding_norm"},
    {"pre_fc_norm_hidden.weight", "mtp/hidden_norm"},
    {"norm.weight", "mtp/final_norm"},
};

/// Rows of one axis that several parameters share.
ParityFeed cut(std::string parameter, std::vector<SourceRun> runs, uint64_t columns) {
  uint64_t rows = 0;
  for (const SourceRun &run : runs)
    rows += run.count;
  return {std::move(parameter), {rows, columns}, std::move(runs), false, 0};
}

/// q_proj has for each head `dim` rows of its query, then `dim` rows of its gate.
Feeds queryAndGate(const std::string &layer, uint64_t dim, const SourceTensor &tensor) {
  std::vector<SourceRun> query, gate;
  for (uint64_t row = 0; row + 2 * dim <= tensor.rows(); row += 2 * dim) {
    query.push_back({row, dim});
    gate.push_back({row + dim, dim});
  }
  return {cut(layer + "attention/query", query, tensor.columns()), cut(layer + "attention/gate", gate, tensor.columns())};
}

/// A bank of all experts: [experts, 2 * inner, hidden] with the gate's rows before the up rows, or [experts, hidden, inner].
Feeds bankOfExperts(const std::string &layer, bool gateUp, const SourceTensor &tensor) {
  if (tensor.shape.size() != 3)
    return {};
  const uint64_t each = tensor.shape[1], columns = tensor.shape[2], half = each / 2;
  Feeds out;
  for (uint64_t e = 0; e < tensor.shape[0]; ++e) {
    const std::string expert = layer + "moe/experts/" + std::to_string(e) + "/";
    if (gateUp) {
      out.push_back(cut(expert + "gate", {{e * each, half}}, columns));
      out.push_back(cut(expert + "up", {{e * each + half, half}}, columns));
    } else {
      out.push_back(cut(expert + "down", {{e * each, each}}, columns));
    }
  }
  return out;
}

Feeds hybridLayer(const HybridConfig &config, const std::string &layer, std::string_view name,
                                    const SourceTensor &tensor) {
  if (const auto role = lookUp(kHybridWhole, name))
    return whole(layer + *role, tensor);
  if (name == "self_attn.q_proj.weight" && config.attention)
    return queryAndGate(layer, uint64_t(config.attention->headDim), tensor);
  if (name == "mlp.experts.gate_up_proj" || name == "mlp.experts.down_proj")
    return bankOfExperts(layer, name == "mlp.experts.gate_up_proj", tensor);
  if (name == "linear_attn.in_proj_qkv.weight" && config.delta) {
    const uint64_t key = uint64_t(config.delta->numKeyHeads * config.delta->keyDim);
    const uint64_t value = uint64_t(config.delta->numValueHeads * config.delta->valueDim);
    return {cut(layer + "gdn/query", {{0, key}}, tensor.columns()), cut(layer + "gdn/key", {{key, key}}, tensor.columns()),
            cut(layer + "gdn/value", {{2 * key, value}}, tensor.columns())};
  }
  if (name == "linear_attn.conv1d.weight" && tensor.shape.size() == 3)
    return {{layer + "gdn/convolution", {tensor.shape[2], tensor.shape[0]}, {}, true, 0}};
  if (takeFront(name, "mlp.experts."))
    if (const auto expert = cutNumber(name); expert && (name = expert->second, takeBack(name, "_proj.weight")))
      return whole(layer + "moe/experts/" + expert->first + "/" + std::string(name), tensor);
  return {};
}

const Names kTowerModules = {
    {"attn.proj", "attention/output"}, {"mlp.linear_fc1", "mlp/fc1"}, {"mlp.linear_fc2", "mlp/fc2"}, {"linear_fc1", "fc1"},
    {"linear_fc2", "fc2"},
};

/// The norms keep "_weight" in their names, linear maps have it only before their bias.
Feeds towerFeeds(std::string_view name, const SourceTensor &tensor) {
  if (name == "patch_embed.proj.weight")
    return whole("vision/patch_embedding", tensor);
  if (name == "patch_embed.proj.bias")
    return whole("vision/patch_embedding_bias", tensor);
  if (name == "pos_embed.weight")
    return whole("vision/position_embedding", tensor);
  std::string stem = "vision/merger/";
  if (takeFront(name, "blocks.")) {
    const auto block = cutNumber(name);
    if (!block)
      return {};
    stem = "vision/layers/" + block->first + "/";
    name = block->second;
  } else if (!takeFront(name, "merger.")) {
    return {};
  }
  const bool bias = takeBack(name, ".bias");
  if (!bias && !takeBack(name, ".weight"))
    return {};
  if (name == "attn.qkv") {
    Feeds out;
    const std::vector<std::string> parts = {"query", "key", "value"};
    const uint64_t width = tensor.shape[0] / 3;
    for (uint64_t i = 0; i < 3; ++i) {
      out.push_back(cut(stem + "attention/" + parts[i] + (bias ? "_bias" : ""), {{i * width, width}}, bias ? 1 : tensor.columns()));
      if (bias)
        out.back().shape = {width};
    }
    return out;
  }
  if (const auto module = lookUp(kTowerModules, name))
    return whole(stem + *module + (bias ? "_bias" : ""), tensor);
  return name.starts_with("norm") ? whole(stem + std::string(name) + (bias ? "_bias" : "_weight"), tensor) : Feeds();
}

Feeds hybridFeeds(const HybridConfig &config, const SourceTensor &tensor) {
  std::string_view name = tensor.name;
  if (name == "lm_head.weight")
    return whole("text/output_head", tensor);
  if (takeFront(name, "model.visual.") || takeFront(name, "visual."))
    return towerFeeds(name, tensor);
  const bool draft = takeFront(name, "mtp.");
  if (!draft && !takeFront(name, "model.language_model.") && !takeFront(name, "model."))
    return {};
  if (takeFront(name, "layers.")) {
    const auto layer = cutNumber(name);
    return layer ? hybridLayer(config, (draft ? "mtp/layers/" : "text/layers/") + layer->first + "/", layer->second, tensor)
                 : Feeds();
  }
  if (draft) {
    const auto role = lookUp(kDraft, name);
    return role ? whole(*role, tensor) : Feeds();
  }
  return name == "embed_tokens.weight" ? whole("text/token_embedding", tensor)
         : name == "norm.weight"       ? whole("text/final_norm", tensor)
                                       : Feeds();
}

} // namespace

bool feedsVision(const std::string &tensor) { return tensor.starts_with("model.visual.") || tensor.starts_with("visual."); }

std::vector<ParityFeed> parityFeeds(const Checkpoint &checkpoint, const SourceTensor &tensor) {
  if (const auto *hybrid = std::get_if<HybridConfig>(&checkpoint.config))
    return hybridFeeds(*hybrid, tensor);
  return denseFeeds(checkpoint, tensor);
}

} // namespace ninfer
