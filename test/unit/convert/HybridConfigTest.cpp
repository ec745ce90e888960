// config.json of the hybrid family: what is read, what is implied, what is refused; roles of its
// parameters in recipes.
#include "convert/Recipe.h"
#include "convert/SourceConfig.h"
#include "convert/Vision.h"

#include "HybridBuilders.h"
#include "models/Hybrid.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

Result<HybridSource> read(const Json &config, std::vector<std::string> *notes = nullptr) {
  std::vector<std::string> ignored;
  return hybridFromHuggingFace(config, "config.json", notes ? *notes : ignored);
}

HybridFolder folder(bool moe = false, bool nested = false) {
  HybridFolder out;
  out.moe = moe;
  out.nested = nested;
  return out.make();
}

TEST(HybridSourceConfig, ReadsFlatAndNestedConfigsAlike) {
  for (bool moe : {false, true}) {
    const auto flat = read(folder(moe).config), nested = read(folder(moe, true).config);
    ASSERT_TRUE(flat.ok()) << flat.error().render();
    ASSERT_TRUE(nested.ok()) << nested.error().render();
    EXPECT_EQ(flat->config, nested->config);
    EXPECT_FALSE(flat->vision);
    EXPECT_TRUE(nested->vision);
    EXPECT_EQ(flat->config.architecture, moe ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM");
    EXPECT_EQ(flat->config.delta->taps, 3);
    EXPECT_EQ(flat->config.attention->mropeSection, (std::array<int64_t, 3>{1, 1, 0}));
    // What is stored reads back equal.
    const auto again = parseHybridConfig(toJson(flat->config), "m.ninfer");
    ASSERT_TRUE(again.ok()) << again.error().render();
    EXPECT_EQ(*again, flat->config);
  }
}

TEST(HybridSourceConfig, FillsDefaults) {
  Json config = folder().config;
  for (const char *member : {"rms_norm_eps", "layer_types", "tie_word_embeddings",
                             "mtp_num_hidden_layers", "model_type", "hidden_act"})
    config.erase(member);
  config["num_hidden_layers"] = 8;
  config["head_dim"] = 256;
  config["rope_parameters"] = nullptr;
  auto source = read(config);
  ASSERT_TRUE(source.ok()) << source.error().render();
  EXPECT_EQ(source->config.rmsNormEps, double(1e-6f));
  EXPECT_EQ(source->config.attention->ropeTheta, 1e7);
  EXPECT_EQ(source->config.attention->partialRotaryFactor, 0.25);
  EXPECT_EQ(source->config.attention->mropeSection, (std::array<int64_t, 3>{11, 11, 10}));
  EXPECT_FALSE(source->draftLayers);
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(source->config.layerTypes[i] == HybridLayer::FullAttention, i % 4 == 3) << i;
  config["full_attention_interval"] = 2;
  EXPECT_EQ(read(config)->config.layerTypes[1], HybridLayer::FullAttention);
}

TEST(HybridSourceConfig, ReadsTheOlderPlaceOfRotaryNumbers) {
  Json config = folder().config, rope = config["rope_parameters"];
  const HybridConfig wanted = read(config)->config;
  config.erase("rope_parameters");
  config["rope_theta"] = rope["rope_theta"];
  config["partial_rotary_factor"] = rope["partial_rotary_factor"];
  config["rope_scaling"] = {{"type", "default"}, {"mrope_section", rope["mrope_section"]}};
  auto source = read(config);
  ASSERT_TRUE(source.ok()) << source.error().render();
  EXPECT_EQ(source->config, wanted);
}

TEST(HybridSourceConfig, ReadsThePublishedMembers) {
  // Members of the published 27B config that the tiny one lacks: at the outer level and beside the rotary object.
  HybridFolder model = folder(false, true);
  model.text().erase("mtp_num_hidden_layers");
  model.text().update({{"attention_bias", false},
                       {"attention_dropout", 0.0},
                       {"attn_output_gate", true},
                       {"output_gate_type", "swish"},
                       {"full_attention_interval", 4},
                       {"initializer_range", 0.02},
                       {"mamba_ssm_dtype", "float32"},
                       {"partial_rotary_factor", 0.5},
                       {"mtp_use_dedicated_embeddings", false},
                       {"eos_token_id", 2},
                       {"dtype", "bfloat16"},
                       {"use_cache", true}});
  model.config.update({{"language_model_only", false},
                       {"mtp_num_hidden_layers", 1},
                       {"image_token_id", 5},
                       {"video_token_id", 6},
                       {"vision_start_token_id", 7},
                       {"vision_end_token_id", 8},
                       {"transformers_version", "4.57.0"}});
  std::vector<std::string> notes;
  auto source = read(model.config, &notes);
  ASSERT_TRUE(source.ok()) << source.error().render();
  EXPECT_TRUE(notes.empty()) << notes[0];
  EXPECT_EQ(source->draftLayers, 1);
  model.text()["output_gate_type"] = "sigmoid";
  EXPECT_EQ(read(model.config).error().kind, ErrorKind::Unsupported);
}

TEST(HybridSourceConfig, NamesMembersItDoesNotKnow) {
  HybridFolder model = folder(false, true);
  model.text()["novelty"] = 1;
  model.config["surprise"] = 2;
  model.config["transformers_version"] = "5";
  std::vector<std::string> notes;
  ASSERT_TRUE(read(model.config, &notes).ok());
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "config.json: members not used: novelty, surprise");
}

TEST(HybridSourceConfig, RefusesByName) {
  struct Case {
    const char *member;
    Json value;
    ErrorKind kind;
    const char *message;
  };
  constexpr ErrorKind bad = ErrorKind::BadFile, unsupported = ErrorKind::Unsupported;
  auto rope = [](const char *member, Json value) {
    Json out = folder().config["rope_parameters"];
    out[member] = std::move(value);
    return out;
  };
  for (const Case &c : std::vector<Case>{
           {"hidden_act", "gelu", unsupported, "hidden_act"},
           {"attention_bias", true, unsupported, "attention_bias"},
           {"attn_output_gate", false, unsupported, "attn_output_gate"},
           {"mamba_ssm_dtype", "bfloat16", unsupported, "mamba_ssm_dtype"},
           {"mtp_use_dedicated_embeddings", true, unsupported, "mtp_use_dedicated_embeddings"},
           {"mtp_num_hidden_layers", 2, unsupported, "at most one draft layer"},
           {"mtp_num_hidden_layers", -1, bad, "mtp_num_hidden_layers"},
           {"use_sliding_window", true, unsupported, "use_sliding_window"},
           {"sliding_window", 4096, unsupported, "sliding_window"},
           {"final_logit_softcapping", 30.0, unsupported, "final_logit_softcapping"},
           {"num_experts", 8, unsupported, "num_experts"},
           {"model_type", "qwen3_5_moe_text", bad, "model_type"},
           {"layer_types", {"linear_attention", "sliding_attention"}, unsupported, "sliding_attention"},
           {"layer_types", {"full_attention"}, bad, "got 1 elements"},
           {"layer_types", 4, bad, "layer_types"},
           {"num_hidden_layers", 5000, bad, "num_hidden_layers"},
           {"hidden_size", nullptr, bad, "hidden_size is missing"},
           {"intermediate_size", nullptr, bad, "intermediate_size is missing"},
           {"hidden_size", 64.5, bad, "hidden_size"},
           {"linear_conv_kernel_dim", nullptr, bad, "linear_conv_kernel_dim is missing"},
           {"linear_num_value_heads", 3, bad, "multiple"},
           {"num_attention_heads", 3, bad, "multiple"},
           {"tie_word_embeddings", 1, bad, "tie_word_embeddings"},
           {"partial_rotary_factor", 0.25, bad, "contradict"},
           {"rope_theta", 5.0, bad, "contradict"},
           {"rope_scaling", {{"type", "default"}}, bad, "both present"},
           {"rope_parameters", 3, bad, "must be an object"},
           {"rope_parameters", rope("rope_type", "yarn"), unsupported, "\"yarn\""},
           {"rope_parameters", rope("factor", 2.0), unsupported, "factor"},
           {"rope_parameters", rope("mrope_interleaved", false), unsupported, "mrope_interleaved"},
           {"rope_parameters", rope("beta_fast", 32), unsupported, "beta_fast"},
           {"rope_parameters", rope("mrope_section", {1, 0, 0}), bad, "mrope_section"},
           {"rope_parameters", rope("mrope_section", "x"), bad, "mrope_section"},
           {"rope_parameters", rope("partial_rotary_factor", 2.0), bad, "partial_rotary_factor"}}) {
    Json config = folder().config;
    config[c.member] = c.value;
    auto result = read(config);
    ASSERT_FALSE(result.ok()) << c.member << " " << c.value;
    EXPECT_EQ(result.error().kind, c.kind) << result.error().render();
    EXPECT_NE(result.error().message.find(c.message), std::string::npos) << result.error().message;
    EXPECT_NE(result.error().message.find("config.json"), std::string::npos);
  }
  Json sparse = folder(true).config;
  sparse["norm_topk_prob"] = false;
  EXPECT_EQ(read(sparse).error().kind, ErrorKind::Unsupported);
  sparse = folder(true).config;
  sparse["mlp_only_layers"] = {0};
  EXPECT_EQ(read(sparse).error().kind, ErrorKind::Unsupported);
  Json nested = folder(false, true).config;
  nested["tie_word_embeddings"] = true; // text_config says false
  EXPECT_NE(read(nested).error().message.find("contradict"), std::string::npos);
  nested.erase("text_config");
  EXPECT_NE(read(nested).error().message.find("text_config"), std::string::npos);
}

TEST(HybridRecipe, EveryMatrixHasARoleAndNothingElse) {
  for (bool moe : {false, true}) {
    HybridConfig config = read(folder(moe).config)->config;
    std::vector<ParameterSpec> all = hybridInventory(config);
    for (ParameterSpec &p : mtpInventory(config))
      all.push_back(std::move(p));
    for (const ParameterSpec &p : all)
      EXPECT_EQ(roleOfParameter(p.name).has_value(), !p.direct) << p.name;
  }
  VisionConfig vision;
  vision.depth = 2;
  vision.hiddenSize = vision.numPositions = 4;
  vision.intermediateSize = vision.numHeads = vision.patchSize = 1;
  vision.temporalPatchSize = vision.spatialMergeSize = 1;
  for (const VisionParameter &p : visionParameters(vision, 8))
    EXPECT_EQ(roleOfParameter(p.spec.name).has_value(), !p.spec.direct) << p.spec.name;
  EXPECT_EQ(roleOfParameter("vision/layers/1/attention/key"), Role::VisionInput);
  EXPECT_EQ(roleOfParameter("vision/layers/1/attention/output"), Role::VisionOutput);
  EXPECT_EQ(roleOfParameter("vision/merger/fc2"), Role::VisionMerger);
  EXPECT_EQ(roleOfParameter("text/layers/1/attention/gate"), Role::AttentionGate);
  EXPECT_EQ(roleOfParameter("text/layers/1/mlp/gate"), Role::Gate);
  EXPECT_EQ(roleOfParameter("text/layers/1/moe/experts/12/gate"), Role::ExpertGate);
  EXPECT_EQ(roleOfParameter("text/layers/1/moe/experts/12/down"), Role::ExpertDown);
  EXPECT_EQ(roleOfParameter("text/layers/1/moe/shared/up"), Role::SharedUp);
  EXPECT_EQ(roleOfParameter("text/layers/1/moe/shared_score"), Role::Router);
  EXPECT_EQ(roleOfParameter("text/layers/1/gdn/z"), Role::DeltaZ);
  EXPECT_EQ(roleOfParameter("mtp/layers/0/attention/query"), Role::Mtp);
  EXPECT_EQ(roleOfParameter("mtp/layers/0/moe/router"), Role::Router);
}

TEST(HybridRecipe, PublishedOnes) {
  constexpr Format q4 = Format::Q4G64_F16S, q5 = Format::Q5G64_F16S, q6 = Format::Q6G64_F16S,
                   w8 = Format::W8G32_F16S, bf16 = Format::BF16;
  struct Row {
    Role role;
    Format dense36, dense38, sparse;
  };
  for (const Row &row : std::initializer_list<Row>{
           {Role::Embedding, q6, w8, w8},
           {Role::Head, q6, w8, q6},
           {Role::Query, q4, q4, w8},
           {Role::Key, q4, q4, w8},
           {Role::AttentionGate, q5, q5, w8},
           {Role::Value, q5, q5, w8},
           {Role::Output, q5, q5, w8},
           {Role::DeltaQuery, q4, q4, w8},
           {Role::DeltaKey, q4, q4, w8},
           {Role::DeltaValue, q5, q5, w8},
           {Role::DeltaZ, q5, q5, w8},
           {Role::DeltaOutput, q5, q5, w8},
           {Role::DeltaDecay, bf16, bf16, bf16},
           {Role::Router, bf16, bf16, bf16},
           {Role::Gate, q4, q4, w8},
           {Role::Up, q4, q4, w8},
           {Role::Down, q5, q5, w8},
           {Role::ExpertGate, q4, q4, q4},
           {Role::ExpertUp, q4, q4, q4},
           {Role::ExpertDown, q5, q5, q5},
           {Role::SharedDown, w8, w8, w8},
           {Role::Mtp, w8, w8, w8},
           {Role::VisionPatch, q6, q6, q6},
           {Role::VisionInput, q4, q4, q4},
           {Role::VisionOutput, q5, q5, q5},
           {Role::VisionMerger, w8, w8, w8}}) {
    EXPECT_EQ(Recipe::builtIn("qwen3.6-27b-int")->formatOf(row.role, 0), row.dense36) << roleName(row.role);
    EXPECT_EQ(Recipe::builtIn("qwen3.8-27b-int")->formatOf(row.role, 0), row.dense38) << roleName(row.role);
    EXPECT_EQ(Recipe::builtIn("qwen3.6-35b-a3b-int")->formatOf(row.role, 0), row.sparse) << roleName(row.role);
    EXPECT_EQ(Recipe::builtIn("mixed")->formatOf(row.role, 0), row.dense36) << roleName(row.role);
  }
  for (int64_t layer : {33, 34, 35, 37, 38, 39})
    EXPECT_EQ(Recipe::builtIn("qwen3.6-35b-a3b-int")->formatOf(Role::ExpertDown, layer),
              layer == 33 || layer == 35 || layer == 37 ? q5 : q6);
  for (const char *name : {"w8", "q4", "keep"})
    EXPECT_EQ(Recipe::builtIn(name)->formatOf(Role::DeltaDecay, 0), bf16);
}

TEST(HybridRecipe, FilesNameTheNewRolesOrLeaveThemToTheirCounterparts) {
  const std::string nine = "[formats]\nembedding=\"q6\"\nhead=\"w8\"\nquery=\"q4\"\nkey=\"q4\"\nvalue=\"q5\"\noutput=\"q6\"\n"
                           "gate=\"q4\"\nup=\"q4\"\ndown=\"q5\"\n";
  auto recipe = Recipe::parse(nine + "gdn_z=\"w8\"\n[[layers]]\nfirst=1\nlast=1\nexpert_down=\"q6\"\n", "r.toml");
  ASSERT_TRUE(recipe.ok()) << recipe.error().render();
  EXPECT_EQ(recipe->formatOf(Role::AttentionGate, 0), Format::Q5G64_F16S);
  EXPECT_EQ(recipe->formatOf(Role::DeltaKey, 0), Format::Q4G64_F16S);
  EXPECT_EQ(recipe->formatOf(Role::DeltaValue, 0), Format::Q5G64_F16S);
  EXPECT_EQ(recipe->formatOf(Role::DeltaZ, 0), Format::W8G32_F16S);
  EXPECT_EQ(recipe->formatOf(Role::DeltaOutput, 0), Format::Q6G64_F16S);
  EXPECT_EQ(recipe->formatOf(Role::ExpertDown, 0), Format::Q5G64_F16S);
  EXPECT_EQ(recipe->formatOf(Role::ExpertDown, 1), Format::Q6G64_F16S);
  EXPECT_EQ(recipe->formatOf(Role::Mtp, {}), Format::W8G32_F16S);
  EXPECT_EQ(recipe->formatOf(Role::Router, 0), Format::BF16);
  auto all = Recipe::parse("[formats]\ndefault=\"q4\"\nvalue=\"q6\"\nrouter=\"w8\"\n", "r.toml");
  EXPECT_EQ(all->formatOf(Role::DeltaValue, 0), Format::Q4G64_F16S); // the default, not the counterpart
  EXPECT_EQ(all->formatOf(Role::Router, 0), Format::W8G32_F16S);
  EXPECT_EQ(all->formatOf(Role::DeltaDecay, 0), Format::BF16);
  EXPECT_EQ(all->toJson()["formats"].size(), kDecoderRoleCount);
  EXPECT_EQ(all->toJson(true)["formats"].size(), kRoleCount);
  EXPECT_FALSE(Recipe::parse(nine + "[[layers]]\nfirst=0\nlast=0\nmtp=\"q4\"\n", "r.toml").ok());
}

} // namespace
} // namespace ninfer
