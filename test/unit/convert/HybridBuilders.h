// A hybrid model small enough to read, as a Hugging Face folder: hidden 32, layers linear and full, with or without
// experts, draft layer and vision tower. Words are arbitrary finite bfloat16 values.
#ifndef NINFER_TEST_UNIT_CONVERT_HYBRIDBUILDERS_H
#define NINFER_TEST_UNIT_CONVERT_HYBRIDBUILDERS_H

#include "test/unit/convert/SourceBuilders.h"
#include "support/Json.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ninfer::test {

/// Dimensions of the tiny model; all different where they may be.
namespace tiny {
inline constexpr uint64_t H = 32, V = 24, Hq = 4, Hkv = 2, D = 8, nk = 2, dk = 4, nv = 4, dv = 6, taps = 3, I = 16;
inline constexpr uint64_t E = 3, Ir = 8, Is = 12, kw = nk * dk, vw = nv * dv, C = 2 * kw + vw;
} // namespace tiny

struct HybridTensor {
  std::vector<uint64_t> shape;
  std::vector<uint16_t> words; ///< bfloat16
  std::string dtype = "BF16";  ///< how it is stored: BF16, F32 or F16 (zeros)

  uint16_t at(uint64_t row, uint64_t column) const { return words[row * shape.back() + column]; }
};

struct HybridFolder {
  bool moe = false, mtp = false, nested = false, tied = false, banks = true;
  int visionTensors = 0;
  std::map<std::string, HybridTensor> tensors;
  Json config;

  std::string prefix() const { return nested ? "model.language_model." : "model."; }

  void add(const std::string &name, std::vector<uint64_t> shape) {
    HybridTensor t{std::move(shape), {}};
    uint64_t n = 1;
    for (uint64_t d : t.shape)
      n *= d;
    for (uint64_t i = 0; i < n; ++i) {
      seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
      const auto draw = static_cast<uint16_t>(seed_ >> 40);
      t.words.push_back(static_cast<uint16_t>((draw & 0x807f) | (120 + draw % 8) << 7));
    }
    tensors.emplace(name, std::move(t));
  }

  void addFfn(const std::string &p) {
    using namespace tiny;
    if (!moe) {
      add(p + "gate_proj.weight", {I, H});
      add(p + "up_proj.weight", {I, H});
      add(p + "down_proj.weight", {H, I});
      return;
    }
    add(p + "gate.weight", {E, H});
    add(p + "shared_expert_gate.weight", {1, H});
    add(p + "shared_expert.gate_proj.weight", {Is, H});
    add(p + "shared_expert.up_proj.weight", {Is, H});
    add(p + "shared_expert.down_proj.weight", {H, Is});
    add(p + "experts.gate_up_proj", {E, 2 * Ir, H});
    add(p + "experts.down_proj", {E, H, Ir});
    if (!banks)
      splitBanks(p + "experts.");
  }

  /// The same words, every expert for itself.
  void splitBanks(const std::string &p) {
    using namespace tiny;
    const HybridTensor up = tensors.at(p + "gate_up_proj"), down = tensors.at(p + "down_proj");
    auto cut = [](const HybridTensor &t, uint64_t row, uint64_t rows) {
      const auto at = t.words.begin() + static_cast<std::ptrdiff_t>(row * t.shape[2]);
      return HybridTensor{{rows, t.shape[2]}, {at, at + static_cast<std::ptrdiff_t>(rows * t.shape[2])}};
    };
    for (uint64_t e = 0; e < E; ++e) {
      const std::string expert = p + std::to_string(e) + ".";
      tensors[expert + "gate_proj.weight"] = cut(up, e * 2 * Ir, Ir);
      tensors[expert + "up_proj.weight"] = cut(up, e * 2 * Ir + Ir, Ir);
      tensors[expert + "down_proj.weight"] = cut(down, e * H, H);
    }
    tensors.erase(p + "gate_up_proj");
    tensors.erase(p + "down_proj");
  }

  void addLayer(const std::string &p, bool full) {
    using namespace tiny;
    add(p + "input_layernorm.weight", {H});
    add(p + "post_attention_layernorm.weight", {H});
    if (full) {
      add(p + "self_attn.q_proj.weight", {2 * Hq * D, H});
      add(p + "self_attn.k_proj.weight", {Hkv * D, H});
      add(p + "self_attn.v_proj.weight", {Hkv * D, H});
      add(p + "self_attn.o_proj.weight", {H, Hq * D});
      add(p + "self_attn.q_norm.weight", {D});
      add(p + "self_attn.k_norm.weight", {D});
    } else {
      add(p + "linear_attn.in_proj_qkv.weight", {C, H});
      add(p + "linear_attn.in_proj_z.weight", {vw, H});
      add(p + "linear_attn.in_proj_a.weight", {nv, H});
      add(p + "linear_attn.in_proj_b.weight", {nv, H});
      add(p + "linear_attn.conv1d.weight", {C, 1, taps});
      add(p + "linear_attn.A_log", {nv});
      add(p + "linear_attn.dt_bias", {nv});
      add(p + "linear_attn.norm.weight", {dv});
      add(p + "linear_attn.out_proj.weight", {H, vw});
    }
    addFfn(p + "mlp.");
  }

  /// Fills tensors and config from the flags.
  HybridFolder &make() {
    using namespace tiny;
    add(prefix() + "embed_tokens.weight", {V, H});
    addLayer(prefix() + "layers.0.", false);
    addLayer(prefix() + "layers.1.", true);
    add(prefix() + "norm.weight", {H});
    if (!tied)
      add("lm_head.weight", {V, H});
    if (mtp) {
      add("mtp.fc.weight", {H, 2 * H});
      add("mtp.pre_fc_norm_embedding.weight", {H});
      add("mtp.pre_fc_norm_hidden.weight", {H});
      add("mtp.norm.weight", {H});
      addLayer("mtp.layers.0.", true);
    }
    for (int i = 0; i < visionTensors; ++i)
      add("model.visual.blocks." + std::to_string(i) + ".norm1.weight", {4});
    Json text = {{"model_type", moe ? "qwen3_5_moe_text" : "qwen3_5_text"},
                 {"hidden_size", H},
                 {"vocab_size", V},
                 {"num_hidden_layers", 2},
                 {"max_position_embeddings", 256},
                 {"rms_norm_eps", 1e-6},
                 {"hidden_act", "silu"},
                 {"layer_types", {"linear_attention", "full_attention"}},
                 {"num_attention_heads", Hq},
                 {"num_key_value_heads", Hkv},
                 {"head_dim", D},
                 {"linear_num_key_heads", nk},
                 {"linear_key_head_dim", dk},
                 {"linear_num_value_heads", nv},
                 {"linear_value_head_dim", dv},
                 {"linear_conv_kernel_dim", taps},
                 {"mtp_num_hidden_layers", mtp ? 1 : 0},
                 {"tie_word_embeddings", tied},
                 {"rope_parameters",
                  {{"rope_type", "default"},
                   {"rope_theta", 10000.0},
                   {"partial_rotary_factor", 0.5},
                   {"mrope_section", {1, 1, 0}},
                   {"mrope_interleaved", true}}}};
    if (moe)
      text.update({{"num_experts", E}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", Ir}, {"shared_expert_intermediate_size", Is}});
    else
      text["intermediate_size"] = I;
    const std::string name = moe ? "Qwen3_5Moe" : "Qwen3_5";
    if (nested)
      config = {{"architectures", {name + "ForConditionalGeneration"}},
                {"model_type", moe ? "qwen3_5_moe" : "qwen3_5"},
                {"tie_word_embeddings", tied},
                {"text_config", std::move(text)},
                {"vision_config", {{"depth", 1}}}};
    else {
      config = std::move(text);
      config["architectures"] = {name + "ForCausalLM"};
    }
    return *this;
  }
  /// A tower of one block: width 8, two heads, inner 12, patches of 2 x 2 x 2, merging 2 x 2, 9 positions. Needs `nested`.
  void addTower() {
    using namespace tiny;
    const std::string v = "model.visual.", b = v + "blocks.0.";
    auto linear = [&](const std::string &name, uint64_t rows, uint64_t columns) {
      add(name + ".weight", {rows, columns});
      add(name + ".bias", {rows});
    };
    add(v + "patch_embed.proj.weight", {8, 3, 2, 2, 2});
    add(v + "patch_embed.proj.bias", {8});
    add(v + "pos_embed.weight", {9, 8});
    for (const char *norm : {"norm1", "norm2"}) {
      add(b + norm + ".weight", {8});
      add(b + norm + ".bias", {8});
    }
    linear(b + "attn.qkv", 24, 8);
    linear(b + "attn.proj", 8, 8);
    linear(b + "mlp.linear_fc1", 12, 8);
    linear(b + "mlp.linear_fc2", 8, 12);
    add(v + "merger.norm.weight", {8});
    add(v + "merger.norm.bias", {8});
    linear(v + "merger.linear_fc1", 32, 32);
    linear(v + "merger.linear_fc2", H, 32);
    config["vision_config"] = {{"model_type", moe ? "qwen3_5_moe_vision" : "qwen3_5_vision"},
                               {"depth", 1},
                               {"hidden_size", 8},
                               {"intermediate_size", 12},
                               {"num_heads", 2},
                               {"patch_size", 2},
                               {"temporal_patch_size", 2},
                               {"spatial_merge_size", 2},
                               {"num_position_embeddings", 9},
                               {"out_hidden_size", H},
                               {"hidden_act", "gelu_pytorch_tanh"}};
  }
  Json &text() { return nested ? config["text_config"] : config; }

  void write(const fs::path &folder) const {
    SafetensorsBuilder file;
    for (const auto &[name, t] : tensors) {
      std::string bytes;
      for (uint16_t word : t.words) {
        if (t.dtype == "F32")
          put<uint16_t>(bytes, 0);
        put<uint16_t>(bytes, t.dtype == "F16" ? 0 : word);
      }
      file.add(name, t.dtype, t.shape, bytes);
    }
    writeBytes(folder / "model.safetensors", file.file());
    writeBytes(folder / "config.json", config.dump());
  }

private:
  uint64_t seed_ = 77;
};

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_CONVERT_HYBRIDBUILDERS_H
