// The hybrid package: closed config with a negative case for every rule, inventory, counts of the
// published sizes, rotary frequencies.
#include "models/Hybrid.h"

#include "HybridConfigs.h"
#include "models/Bind.h"
#include "support/Json.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

namespace ninfer {
namespace {

using testing::modelConfig;
using testing::tinyHybridJson;
using testing::tinyMoeJson;

TEST(HybridConfig, PrintsWhatItParses) {
  for (const Json &config : {tinyHybridJson(), tinyMoeJson()}) {
    auto parsed = parseHybridConfig(config, "m.ninfer");
    ASSERT_TRUE(parsed.ok()) << parsed.error().render();
    EXPECT_EQ(toJson(*parsed).dump(), config.dump());
    auto again = parseHybridConfig(toJson(*parsed), "m.ninfer");
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *parsed);
  }
  auto dense = parseHybridConfig(tinyHybridJson(), "m");
  EXPECT_EQ(dense->layerTypes[0], HybridLayer::LinearAttention);
  EXPECT_EQ(dense->layerTypes[1], HybridLayer::FullAttention);
  EXPECT_EQ(dense->attention->mropeSection, (std::array<int64_t, 3>{2, 1, 1}));
  EXPECT_FALSE(dense->moe);
  auto moe = parseHybridConfig(tinyMoeJson(), "m");
  EXPECT_EQ(moe->moe->expertsPerToken, 2);
  EXPECT_EQ(moe->intermediateSize, 0);
}

TEST(HybridConfig, FloatsAreBinary32) {
  Json rounded = tinyHybridJson(), plain = tinyHybridJson();
  rounded["rms_norm_eps"] = 9.999999974752427e-07;
  rounded["rope_parameters"]["partial_rotary_factor"] = 0.25;
  plain["rms_norm_eps"] = 1e-6;
  EXPECT_EQ(*parseHybridConfig(rounded, "m"), *parseHybridConfig(plain, "m"));
  EXPECT_EQ(parseHybridConfig(plain, "m")->rmsNormEps, static_cast<double>(1e-6f));
  // 0.7 of 10 rotates 7 in exact arithmetic, also when 0.7 was stored after rounding.
  HybridAttention a;
  a.headDim = 20;
  for (double factor : {0.7, static_cast<double>(0.7f)}) {
    a.partialRotaryFactor = factor;
    EXPECT_EQ(a.rotaryDim(), 14);
  }
}

struct ConfigCase {
  const char *rule;
  std::function<void(Json &)> edit;
  const char *message;
};

void expectRefused(const Json &base, const ConfigCase &c) {
  Json config = base;
  c.edit(config);
  auto parsed = parseHybridConfig(config, "m.ninfer");
  ASSERT_FALSE(parsed.ok()) << c.rule << " " << c.message;
  EXPECT_EQ(parsed.error().code, "NB0303") << parsed.error().render();
  EXPECT_NE(parsed.error().message.find(c.message), std::string::npos)
      << c.rule << ": " << parsed.error().message;
  EXPECT_NE(parsed.error().message.find("m.ninfer"), std::string::npos);
}

std::function<void(Json &)> set(const char *member, Json value) {
  return [=](Json &c) { c[member] = value; };
}
std::function<void(Json &)> setRope(const char *member, Json value) {
  return [=](Json &c) { c["rope_parameters"][member] = value; };
}

TEST(HybridConfig, RefusesEveryValueOutsideTheRules) {
  for (const ConfigCase &c : std::vector<ConfigCase>{
           {"hybrid_c1", set("hidden_act", "silu"), "unknown member 'hidden_act'"},
           {"hybrid_c1", setRope("rope_type", "default"), "rope_type"},
           {"hybrid_c1", [](Json &c) { c["rope_parameters"].erase("rope_theta"); }, "rope_theta"},
           {"hybrid_c1", set("rope_parameters", nullptr), "rope_parameters"},
           {"hybrid_c2", set("model_type", "qwen3_5_moe_text"),
            "model_type of Qwen3_5ForCausalLM must be \"qwen3_5_text\""},
           {"hybrid_c2", set("architectures", Json::array()), "exactly one string"},
           {"hybrid_c2", set("architectures", {"Qwen3_5ForCausalLM", "Qwen3_5ForCausalLM"}),
            "exactly one string"},
           {"hybrid_c3", set("hidden_size", 0), "hidden_size"},
           {"hybrid_c3", set("hidden_size", 128.0), "hidden_size"},
           {"hybrid_c3", set("vocab_size", true), "vocab_size"},
           {"hybrid_c3", set("vocab_size", 2147483648), "vocab_size"},
           {"hybrid_c3", set("max_position_embeddings", "4096"), "max_position_embeddings"},
           {"hybrid_c3", set("num_hidden_layers", 4097), "num_hidden_layers"},
           {"hybrid_c3", set("linear_conv_kernel_dim", 0), "linear_conv_kernel_dim"},
           {"hybrid_c3", set("head_dim", -32), "head_dim"},
           {"hybrid_c3", set("tie_word_embeddings", 0), "tie_word_embeddings"},
           {"hybrid_c4", set("layer_types", {"linear_attention"}),
            "layer_types must be an array of num_hidden_layers (2) strings, got 1 elements"},
           {"hybrid_c4", set("layer_types", "full_attention"), "layer_types must be an array"},
           {"hybrid_c4", set("layer_types", {"linear_attention", "sliding_attention"}),
            "layer_types[1] must be"},
           {"hybrid_c5", set("rms_norm_eps", 0), "rms_norm_eps"},
           {"hybrid_c5", set("rms_norm_eps", -1e-6), "rms_norm_eps"},
           {"hybrid_c5", set("rms_norm_eps", 1e-60), "rms_norm_eps"},
           {"hybrid_c5", set("rms_norm_eps", 1e60), "rms_norm_eps"},
           {"hybrid_c5", set("rms_norm_eps", "1e-6"), "rms_norm_eps"},
           {"hybrid_c6", [](Json &c) { c.erase("head_dim"); },
            "member head_dim is missing; it is required by a full_attention layer"},
           {"hybrid_c6", [](Json &c) { c.erase("linear_key_head_dim"); },
            "member linear_key_head_dim is missing; it is required by a linear_attention layer"},
           {"hybrid_c6",
            [](Json &c) {
              c["layer_types"] = {"linear_attention", "linear_attention"};
              c.erase("rope_parameters");
            },
            "member rope_parameters is missing; it is required by member"},
           {"hybrid_c6",
            [](Json &c) {
              c["layer_types"] = {"full_attention", "full_attention"};
              c.erase("linear_num_key_heads");
            },
            "member linear_num_key_heads is missing; it is required by member"},
           {"hybrid_c7", set("num_attention_heads", 3),
            "num_attention_heads (3) must be a multiple of num_key_value_heads (2)"},
           {"hybrid_c7", set("linear_num_value_heads", 5),
            "linear_num_value_heads (5) must be a multiple of linear_num_key_heads (2)"},
           {"hybrid_c7", set("head_dim", 2000000000), "num_attention_heads * head_dim"},
           {"hybrid_c7", set("linear_key_head_dim", 2000000000),
            "linear_num_key_heads * linear_key_head_dim"},
           {"hybrid_c7", set("linear_value_head_dim", 2000000000),
            "linear_num_value_heads * linear_value_head_dim"},
           {"hybrid_c7", set("linear_conv_kernel_dim", 2000000000), "linear_conv_kernel_dim times"},
           {"hybrid_c8", setRope("rope_theta", 0), "rope_theta"},
           {"hybrid_c8", setRope("partial_rotary_factor", 0), "partial_rotary_factor"},
           {"hybrid_c8", setRope("partial_rotary_factor", 1.01), "partial_rotary_factor"},
           {"hybrid_c8", setRope("partial_rotary_factor", 0.1), "must be even"},
           {"hybrid_c8", setRope("partial_rotary_factor", 0.01), "must be even and at least 2"},
           {"hybrid_c8", setRope("mrope_section", {2, 1}), "mrope_section must be an array of 3"},
           {"hybrid_c8", setRope("mrope_section", {2, 1, -1}), "mrope_section[2]"},
           {"hybrid_c8", setRope("mrope_section", {2, 1, 2}),
            "mrope_section must add up to the rotated pairs (4), got 5"},
           {"hybrid_c8", setRope("mrope_section", {1, 1, 2}), "interleaving"},
           {"hybrid_c9", [](Json &c) { c.erase("intermediate_size"); },
            "member intermediate_size is missing; it is required by Qwen3_5ForCausalLM"},
           {"hybrid_c9", set("num_experts", 4),
            "member 'num_experts' does not belong to Qwen3_5ForCausalLM"}}) {
    Json base = tinyHybridJson();
    if (std::string(c.rule) == "hybrid_c7")
      base["num_key_value_heads"] = 2;
    expectRefused(base, c);
  }
  for (const ConfigCase &c : std::vector<ConfigCase>{
           {"hybrid_c2", set("model_type", "qwen3_5_text"), "qwen3_5_moe_text"},
           {"hybrid_c9", set("intermediate_size", 64),
            "member 'intermediate_size' does not belong to Qwen3_5MoeForCausalLM"},
           {"hybrid_c9", [](Json &c) { c.erase("moe_intermediate_size"); },
            "member moe_intermediate_size is missing"},
           {"hybrid_c9", set("num_experts_per_tok", 5),
            "num_experts_per_tok (5) must be at most num_experts (4)"},
           {"hybrid_c3", set("num_experts", 65537), "num_experts"}})
    expectRefused(tinyMoeJson(), c);
}

TEST(HybridConfig, EveryMemberIsRequired) {
  for (const Json &complete : {tinyHybridJson(), tinyMoeJson()})
    for (const auto &item : complete.items()) {
      Json config = complete;
      config.erase(item.key());
      auto parsed = parseHybridConfig(config, "m.ninfer");
      ASSERT_FALSE(parsed.ok()) << item.key();
      EXPECT_EQ(parsed.error().code, "NB0303");
      EXPECT_NE(parsed.error().message.find(item.key()), std::string::npos)
          << parsed.error().message;
    }
}

TEST(HybridConfig, GroupsMayBeAbsentWhenNothingNeedsThem) {
  Json linear = tinyHybridJson();
  linear["layer_types"] = {"linear_attention", "linear_attention"};
  for (const char *member :
       {"num_attention_heads", "num_key_value_heads", "head_dim", "rope_parameters"})
    linear.erase(member);
  auto parsed = parseHybridConfig(linear, "m");
  ASSERT_TRUE(parsed.ok()) << parsed.error().render();
  EXPECT_FALSE(parsed->attention);
  EXPECT_EQ(toJson(*parsed).dump(), linear.dump());
  auto needed = parseHybridConfig(linear, "m", /*needAttention=*/true);
  ASSERT_FALSE(needed.ok());
  EXPECT_NE(needed.error().message.find("required by component mtp"), std::string::npos);

  Json full = tinyHybridJson();
  full["layer_types"] = {"full_attention", "full_attention"};
  for (const char *member :
       {"linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads",
        "linear_value_head_dim", "linear_conv_kernel_dim"})
    full.erase(member);
  parsed = parseHybridConfig(full, "m");
  ASSERT_TRUE(parsed.ok()) << parsed.error().render();
  EXPECT_FALSE(parsed->delta);
}

TEST(HybridConfig, RefusesOtherArchitecturesByName) {
  Json config = tinyHybridJson();
  config["architectures"] = {"Qwen4ForCausalLM"};
  auto parsed = parseHybridConfig(config, "m.ninfer");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().kind, ErrorKind::Unsupported);
  EXPECT_EQ(parsed.error().code, "NB0302");
  EXPECT_NE(parsed.error().render().find("LlamaForCausalLM, Qwen3ForCausalLM, Qwen3_5ForCausalLM, "
                                         "Qwen3_5MoeForCausalLM"),
            std::string::npos);
}

TEST(HybridConfig, ChecksConfigsThatWereNotParsed) {
  HybridConfig good = *parseHybridConfig(tinyHybridJson(), "m");
  EXPECT_TRUE(checkHybridConfig(good, "c").ok());
  for (auto edit : std::vector<std::function<void(HybridConfig &)>>{
           [](HybridConfig &c) { c.hiddenSize = 0; }, [](HybridConfig &c) { c.layerTypes.clear(); },
           [](HybridConfig &c) { c.attention.reset(); }, [](HybridConfig &c) { c.delta.reset(); },
           [](HybridConfig &c) { c.rmsNormEps = 0; }, [](HybridConfig &c) { c.moe.emplace(); },
           [](HybridConfig &c) { c.intermediateSize = 0; },
           [](HybridConfig &c) { c.attention->numKvHeads = 0; }}) {
    HybridConfig bad = good;
    edit(bad);
    Status status = checkHybridConfig(bad, "c");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, "NB0303");
  }
}

// --- rotary
// ----------------------------------------------------------------------------------------------

TEST(HybridRope, PartialFrequenciesAndAxes) {
  const HybridAttention a = *modelConfig("27B").attention;
  EXPECT_EQ(a.rotaryDim(), 64);
  const std::vector<double> f = a.ropeInverseFrequencies();
  ASSERT_EQ(f.size(), 32u);
  for (size_t i = 0; i < f.size(); ++i) {
    const double expected = std::exp(-std::log(1e7) * static_cast<double>(i) / 32.0);
    EXPECT_NEAR(f[i], expected, 1e-13 * expected);
  }
  EXPECT_EQ(f[0], 1.0);
  const std::vector<int> axes = a.ropeAxes();
  ASSERT_EQ(axes.size(), 32u);
  for (size_t i = 0; i < axes.size(); ++i)
    EXPECT_EQ(axes[i], static_cast<int>(i % 3)) << i;
  HybridAttention tiny = *parseHybridConfig(tinyHybridJson(), "m")->attention;
  EXPECT_EQ(tiny.ropeAxes(), (std::vector<int>{0, 1, 2, 0}));
}

// --- inventory
// -------------------------------------------------------------------------------------------

using Shape = std::vector<uint64_t>;

struct Expected {
  const char *name;
  Shape shape;
  const char *input;
};

void expectInventory(const std::vector<ParameterSpec> &got, const std::vector<Expected> &wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, wanted[i].name);
    EXPECT_EQ(got[i].shape, wanted[i].shape) << got[i].name;
    EXPECT_EQ(got[i].input, wanted[i].input) << got[i].name;
  }
}

TEST(HybridInventory, NamesShapesAndInputsOfADenseModel) {
  const HybridConfig c = *parseHybridConfig(tinyHybridJson(), "m");
  const std::vector<ParameterSpec> all = hybridInventory(c);
  expectInventory(
      all, {{"text/token_embedding", {48, 128}, ""},
            {"text/layers/0/input_norm", {128}, ""},
            {"text/layers/0/gdn/query", {32, 128}, "text/layers/0/mixer_input"},
            {"text/layers/0/gdn/key", {32, 128}, "text/layers/0/mixer_input"},
            {"text/layers/0/gdn/value", {64, 128}, "text/layers/0/mixer_input"},
            {"text/layers/0/gdn/z", {64, 128}, "text/layers/0/mixer_input"},
            {"text/layers/0/gdn/a_projection", {4, 128}, "text/layers/0/mixer_input"},
            {"text/layers/0/gdn/b_projection", {4, 128}, "text/layers/0/mixer_input"},
            {"text/layers/0/gdn/a_log", {4}, ""},
            {"text/layers/0/gdn/dt_bias", {4}, ""},
            {"text/layers/0/gdn/convolution", {4, 128}, ""},
            {"text/layers/0/gdn/norm", {16}, ""},
            {"text/layers/0/gdn/output", {128, 64}, "text/layers/0/gdn/gated_output"},
            {"text/layers/0/post_attention_norm", {128}, ""},
            {"text/layers/0/mlp/gate", {192, 128}, "text/layers/0/ffn_input"},
            {"text/layers/0/mlp/up", {192, 128}, "text/layers/0/ffn_input"},
            {"text/layers/0/mlp/down", {128, 192}, "text/layers/0/mlp/product"},
            {"text/layers/1/input_norm", {128}, ""},
            {"text/layers/1/attention/query", {64, 128}, "text/layers/1/mixer_input"},
            {"text/layers/1/attention/key", {32, 128}, "text/layers/1/mixer_input"},
            {"text/layers/1/attention/gate", {64, 128}, "text/layers/1/mixer_input"},
            {"text/layers/1/attention/value", {32, 128}, "text/layers/1/mixer_input"},
            {"text/layers/1/attention/query_norm", {32}, ""},
            {"text/layers/1/attention/key_norm", {32}, ""},
            {"text/layers/1/attention/output", {128, 64}, "text/layers/1/attention/gated_output"},
            {"text/layers/1/post_attention_norm", {128}, ""},
            {"text/layers/1/mlp/gate", {192, 128}, "text/layers/1/ffn_input"},
            {"text/layers/1/mlp/up", {192, 128}, "text/layers/1/ffn_input"},
            {"text/layers/1/mlp/down", {128, 192}, "text/layers/1/mlp/product"},
            {"text/final_norm", {128}, ""},
            {"text/output_head", {48, 128}, "text/final_hidden"}});
  EXPECT_EQ(hybridInventorySize(c), all.size());
  for (const ParameterSpec &p : all) {
    const bool decay = p.name.ends_with("a_log") || p.name.ends_with("dt_bias");
    EXPECT_EQ(p.directFormat, decay ? Format::FP32 : Format::BF16) << p.name;
    EXPECT_EQ(p.direct, decay || p.name.ends_with("norm") || p.name.ends_with("convolution"))
        << p.name;
  }
}

TEST(HybridInventory, NamesShapesAndInputsOfMtpAndProposal) {
  const HybridConfig c = *parseHybridConfig(tinyHybridJson(), "m");
  expectInventory(
      mtpInventory(c),
      {{"mtp/input_projection", {128, 256}, "mtp/stem_input"},
       {"mtp/embedding_norm", {128}, ""},
       {"mtp/hidden_norm", {128}, ""},
       {"mtp/layers/0/input_norm", {128}, ""},
       {"mtp/layers/0/attention/query", {64, 128}, "mtp/layers/0/mixer_input"},
       {"mtp/layers/0/attention/key", {32, 128}, "mtp/layers/0/mixer_input"},
       {"mtp/layers/0/attention/gate", {64, 128}, "mtp/layers/0/mixer_input"},
       {"mtp/layers/0/attention/value", {32, 128}, "mtp/layers/0/mixer_input"},
       {"mtp/layers/0/attention/query_norm", {32}, ""},
       {"mtp/layers/0/attention/key_norm", {32}, ""},
       {"mtp/layers/0/attention/output", {128, 64}, "mtp/layers/0/attention/gated_output"},
       {"mtp/layers/0/post_attention_norm", {128}, ""},
       {"mtp/layers/0/mlp/gate", {192, 128}, "mtp/layers/0/ffn_input"},
       {"mtp/layers/0/mlp/up", {192, 128}, "mtp/layers/0/ffn_input"},
       {"mtp/layers/0/mlp/down", {128, 192}, "mtp/layers/0/mlp/product"},
       {"mtp/final_norm", {128}, ""}});
  expectInventory(
      proposalInventory(c, {true, 16}),
      {{"proposal/head", {16, 128}, "mtp/final_hidden"}, {"proposal/token_ids", {16}, ""}});
  EXPECT_EQ(proposalInventory(c, {true, 16})[1].directFormat, Format::I32);
  expectInventory(proposalInventory(c, {false, 0}),
                  {{"proposal/head", {48, 128}, "mtp/final_hidden"}});
}

TEST(HybridInventory, NamesShapesAndInputsOfAnMoeLayer) {
  const HybridConfig c = *parseHybridConfig(tinyMoeJson(), "m");
  std::vector<ParameterSpec> moe;
  for (ParameterSpec &p : hybridInventory(c))
    if (isUnder(p.name, "text/layers/1/moe"))
      moe.push_back(std::move(p));
  const char *in = "text/layers/1/ffn_input";
  expectInventory(
      moe, {{"text/layers/1/moe/router", {4, 128}, in},
            {"text/layers/1/moe/shared_score", {1, 128}, in},
            {"text/layers/1/moe/experts/0/gate", {32, 128}, in},
            {"text/layers/1/moe/experts/0/up", {32, 128}, in},
            {"text/layers/1/moe/experts/1/gate", {32, 128}, in},
            {"text/layers/1/moe/experts/1/up", {32, 128}, in},
            {"text/layers/1/moe/experts/2/gate", {32, 128}, in},
            {"text/layers/1/moe/experts/2/up", {32, 128}, in},
            {"text/layers/1/moe/experts/3/gate", {32, 128}, in},
            {"text/layers/1/moe/experts/3/up", {32, 128}, in},
            {"text/layers/1/moe/experts/0/down", {128, 32}, "text/layers/1/moe/experts/0/product"},
            {"text/layers/1/moe/experts/1/down", {128, 32}, "text/layers/1/moe/experts/1/product"},
            {"text/layers/1/moe/experts/2/down", {128, 32}, "text/layers/1/moe/experts/2/product"},
            {"text/layers/1/moe/experts/3/down", {128, 32}, "text/layers/1/moe/experts/3/product"},
            {"text/layers/1/moe/shared/gate", {48, 128}, in},
            {"text/layers/1/moe/shared/up", {48, 128}, in},
            {"text/layers/1/moe/shared/down", {128, 48}, "text/layers/1/moe/shared/product"}});
  EXPECT_EQ(hybridInventorySize(c), hybridInventory(c).size());
}

// --- counts
// ----------------------------------------------------------------------------------------------

/// The published table, with the product's own sum over the inventory.
TEST(HybridCounts, EqualThePublishedTable) {
  struct Row {
    const char *model;
    uint64_t attention, delta, ffn, blocks, embedding, tied, untied, mtp;
  };
  for (const Row &row : std::vector<Row>{{"0.8B", 7340544, 10543264, 11010048, 498112320, 254279680,
                                          752393024, 1006672704, 20452864},
                                         {"2B", 14680576, 21061792, 37748736, 1373263680, 508559360,
                                          1881825088, 2390384448, 60828160},
                                         {"4B", 36700672, 42139840, 70778880, 3570049536, 635699200,
                                          4205751296, 4841450496, 120599552},
                                         {"9B", 58720768, 67403968, 150994944, 6919561728,
                                          1017118720, 7936684544, 8953803264, 243290624},
                                         {"27B", 104858112, 115876064, 267386880, 24353196544,
                                          1271398400, 0, 26895998464, 424699392},
                                         {"35B-A3B", 27263488, 33718464, 808978432, 33643489920,
                                          508559360, 0, 34660610688, 844640768}}) {
    HybridConfig config = modelConfig(row.model);
    ASSERT_TRUE(checkHybridConfig(config, row.model, true).ok());
    config.tieWordEmbeddings = false;
    const HybridCounts counts = countParameters(config);
    EXPECT_EQ(counts.attentionMixer, row.attention) << row.model;
    EXPECT_EQ(counts.deltaMixer, row.delta) << row.model;
    EXPECT_EQ(counts.ffn, row.ffn) << row.model;
    EXPECT_EQ(counts.blocks, row.blocks) << row.model;
    EXPECT_EQ(counts.embedding, row.embedding) << row.model;
    EXPECT_EQ(counts.text, row.untied) << row.model;
    EXPECT_EQ(counts.mtp, row.mtp) << row.model;
    if (row.tied) {
      config.tieWordEmbeddings = true;
      EXPECT_EQ(countParameters(config).text, row.tied) << row.model;
    }
  }
  EXPECT_EQ(countParameters(modelConfig("397B-A17B")).text, 396346350336u);
  // Published as "active text per token without head": it counts the embedding and the final norm.
  const HybridCounts moe = countParameters(modelConfig("35B-A3B"));
  EXPECT_EQ(moe.activeBlocks + moe.embedding + 2048, 2946429568u);
}

} // namespace
} // namespace ninfer
