// Configs the tests of the hybrid package share: two tiny ones and the published sizes.
#ifndef NINFER_TEST_UNIT_MODELS_HYBRIDCONFIGS_H
#define NINFER_TEST_UNIT_MODELS_HYBRIDCONFIGS_H

#include "models/Hybrid.h"
#include "support/Json.h"

#include <stdexcept>
#include <string>

namespace ninfer::testing {

/// Two layers (linear, full), dense.
inline Json tinyHybridJson() {
  return Json::parse(
      R"({"architectures":["Qwen3_5ForCausalLM"],"model_type":"qwen3_5_text","hidden_size":128,
    "vocab_size":48,"num_hidden_layers":2,"max_position_embeddings":4096,"tie_word_embeddings":false,
    "rms_norm_eps":9.999999974752427e-07,"layer_types":["linear_attention","full_attention"],
    "num_attention_heads":2,"num_key_value_heads":1,"head_dim":32,
    "rope_parameters":{"rope_theta":10000000.0,"partial_rotary_factor":0.25,"mrope_section":[2,1,1]},
    "linear_num_key_heads":2,"linear_key_head_dim":16,"linear_num_value_heads":4,"linear_value_head_dim":16,
    "linear_conv_kernel_dim":4,"intermediate_size":192})");
}

/// The same with four experts, two of them per token.
inline Json tinyMoeJson() {
  Json config = tinyHybridJson();
  config["architectures"] = {"Qwen3_5MoeForCausalLM"};
  config["model_type"] = "qwen3_5_moe_text";
  config.erase("intermediate_size");
  config["num_experts"] = 4;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = 32;
  config["shared_expert_intermediate_size"] = 48;
  return config;
}

/// One row of the table of published sizes.
inline HybridConfig modelConfig(const std::string &model) {
  struct Row {
    const char *model;
    int64_t hidden, layers, heads, kvHeads, keyHeads, valueHeads, inner;
    HybridMoe moe;
  };
  for (const Row &r : std::initializer_list<Row>{
           {"0.8B", 1024, 24, 8, 2, 16, 16, 3584, {}},
           {"2B", 2048, 24, 8, 2, 16, 16, 6144, {}},
           {"4B", 2560, 32, 16, 4, 16, 32, 9216, {}},
           {"9B", 4096, 32, 16, 4, 16, 32, 12288, {}},
           {"27B", 5120, 64, 24, 4, 16, 48, 17408, {}},
           {"35B-A3B", 2048, 40, 16, 2, 16, 32, 0, {256, 8, 512, 512}},
           {"397B-A17B", 4096, 60, 32, 2, 16, 64, 0, {512, 10, 1024, 1024}}}) {
    if (model != r.model)
      continue;
    HybridConfig c;
    c.architecture = r.inner ? "Qwen3_5ForCausalLM" : "Qwen3_5MoeForCausalLM";
    c.hiddenSize = r.hidden, c.vocabSize = 248320, c.numLayers = r.layers;
    c.maxPositions = 262144;
    for (int64_t i = 0; i < r.layers; ++i)
      c.layerTypes.push_back(i % 4 == 3 ? HybridLayer::FullAttention
                                        : HybridLayer::LinearAttention);
    c.attention = HybridAttention{r.heads, r.kvHeads, 256, 1e7, 0.25, {11, 11, 10}};
    c.delta = HybridDelta{r.keyHeads, 128, r.valueHeads, 128, 4};
    c.intermediateSize = r.inner;
    if (!r.inner)
      c.moe = r.moe;
    return c;
  }
  throw std::out_of_range(model);
}

} // namespace ninfer::testing

#endif // NINFER_TEST_UNIT_MODELS_HYBRIDCONFIGS_H
