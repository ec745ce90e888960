// Source configs: config.json and GGUF metadata to the closed decoder config, and every field that
// must be refused.
#include "convert/SourceConfig.h"

#include "SourceBuilders.h"

#include <cmath>
#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

Result<DecoderConfig> readJson(const Json &config, std::vector<std::string> *notes = nullptr) {
  std::vector<std::string> ignored;
  return configFromHuggingFace(config, "config.json", notes ? *notes : ignored);
}

Json base() { return Json::parse(tinyConfig()); }

TEST(HuggingFaceConfig, ReadsWhatMatters) {
  auto config = readJson(base());
  ASSERT_TRUE(config.ok()) << config.error().render();
  EXPECT_EQ(config->architecture, "LlamaForCausalLM");
  EXPECT_EQ(config->hiddenSize, 64);
  EXPECT_EQ(config->numKvHeads, 2);
  EXPECT_EQ(config->headDim, 16);
  EXPECT_EQ(config->rmsNormEps, std::ldexp(1.0, -13));
  EXPECT_TRUE(config->tieWordEmbeddings);
  EXPECT_FALSE(config->qkNorm);
  EXPECT_TRUE(readJson(Json::parse(tinyConfig(true)))->qkNorm);
}

TEST(HuggingFaceConfig, FillsTheDefaultsOfTheConfigClasses) {
  Json llama = base();
  for (const char *member : {"num_key_value_heads", "head_dim", "max_position_embeddings",
                             "rms_norm_eps", "tie_word_embeddings", "rope_theta"})
    llama.erase(member);
  auto config = readJson(llama);
  ASSERT_TRUE(config.ok()) << config.error().render();
  EXPECT_EQ(config->numKvHeads, 4);
  EXPECT_EQ(config->headDim, 16);
  EXPECT_EQ(config->maxPositions, 2048);
  EXPECT_EQ(config->rmsNormEps, 1e-6);
  EXPECT_EQ(config->ropeTheta, 10000.0);
  EXPECT_FALSE(config->tieWordEmbeddings);
  Json qwen = llama;
  qwen["architectures"][0] = "Qwen3ForCausalLM";
  auto qwenConfig = readJson(qwen);
  ASSERT_TRUE(qwenConfig.ok());
  EXPECT_EQ(qwenConfig->headDim, 128);
  EXPECT_EQ(qwenConfig->maxPositions, 32768);
}

TEST(HuggingFaceConfig, ReadsRopeScaling) {
  Json linear = base();
  linear["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(readJson(linear)->ropeScaling, RopeScaling::Linear);
  EXPECT_EQ(readJson(linear)->ropeFactor, 4.0);
  Json llama3 = base();
  llama3["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 32.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  auto config = readJson(llama3);
  ASSERT_TRUE(config.ok()) << config.error().render();
  EXPECT_EQ(config->ropeScaling, RopeScaling::Llama3);
  EXPECT_EQ(config->ropeOriginalMaxPositions, 8192);
  Json none = base();
  none["rope_scaling"] = nullptr;
  EXPECT_EQ(readJson(none)->ropeScaling, RopeScaling::None);
  Json newer = base();
  newer.erase("rope_theta");
  newer["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  EXPECT_EQ(readJson(newer)->ropeTheta, 5e5);
  newer["rope_theta"] = 1.0;
  EXPECT_FALSE(readJson(newer).ok());
}

TEST(HuggingFaceConfig, NamesMembersItDoesNotKnow) {
  Json config = base();
  config["transformers_version"] = "4.50";
  config["logit_scale"] = 2;
  std::vector<std::string> notes;
  ASSERT_TRUE(readJson(config, &notes).ok());
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("logit_scale"), std::string::npos);
  EXPECT_EQ(notes[0].find("transformers_version"), std::string::npos);
}

TEST(HuggingFaceConfig, RefusesByName) {
  struct Case {
    const char *member;
    Json value;
    ErrorKind kind;
    const char *message;
  };
  constexpr ErrorKind bad = ErrorKind::BadFile, unsupported = ErrorKind::Unsupported;
  for (const Case &c : std::vector<Case>{
           {"architectures", {"MistralForCausalLM"}, unsupported, "MistralForCausalLM"},
           {"architectures", Json::array(), bad, "exactly one"},
           {"architectures", "LlamaForCausalLM", bad, "exactly one"},
           {"attention_bias", true, unsupported, "attention_bias"},
           {"mlp_bias", true, unsupported, "mlp_bias"},
           {"hidden_act", "gelu", unsupported, "hidden_act"},
           {"partial_rotary_factor", 0.5, unsupported, "partial_rotary_factor"},
           {"rope_interleaved", true, unsupported, "rope_interleaved"},
           {"sliding_window", 4096, unsupported, "sliding_window"},
           {"use_sliding_window", true, unsupported, "sliding_window"},
           {"layer_types",
            {"full_attention", "sliding_attention"},
            unsupported,
            "sliding_attention"},
           {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}}, unsupported, "'yarn'"},
           {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4.0}}, unsupported, "'dynamic'"},
           {"rope_scaling", Json::object({{"rope_type", "linear"}}), bad, "factor"},
           {"rope_scaling", {{"rope_type", "linear"}, {"factor", 0.5}}, bad, "factor"},
           {"rope_scaling", 3, bad, "rope_scaling"},
           {"hidden_size", 64.0, bad, "hidden_size"},
           {"hidden_size", -64, bad, "hidden_size"},
           {"hidden_size", true, bad, "hidden_size"},
           {"hidden_size", nullptr, bad, "hidden_size"},
           {"hidden_size", 4294967296, bad, "hidden_size"},
           {"num_hidden_layers", 1000000, bad, "num_hidden_layers"},
           {"num_key_value_heads", 3, bad, "multiple"},
           {"head_dim", 15, bad, "even"},
           {"rms_norm_eps", 0.0, bad, "rms_norm_eps"},
           {"rms_norm_eps", "1e-5", bad, "rms_norm_eps"},
           {"rope_theta", -1.0, bad, "rope_theta"},
           {"tie_word_embeddings", 1, bad, "tie_word_embeddings"}}) {
    Json config = base();
    config[c.member] = c.value;
    auto result = readJson(config);
    ASSERT_FALSE(result.ok()) << c.member << " " << c.value;
    EXPECT_EQ(result.error().kind, c.kind) << result.error().render();
    EXPECT_NE(result.error().message.find(c.message), std::string::npos) << result.error().message;
    EXPECT_NE(result.error().message.find("config.json"), std::string::npos);
  }
  EXPECT_NE(readJson(Json{{"architectures", {"GemmaForCausalLM"}}})
                .error()
                .render()
                .find("LlamaForCausalLM, Qwen3ForCausalLM"),
            std::string::npos);
}

Result<DecoderConfig> readGgufConfig(const GgufBuilder &builder) {
  TempFolder folder;
  writeBytes(folder / "m.gguf", builder.file());
  auto file = SourceFile::open(folder / "m.gguf");
  auto gguf = readGguf(*file);
  if (!gguf.ok())
    return gguf.takeStatus();
  return configFromGguf(*gguf, *file);
}

GgufBuilder withEmbedding(const std::string &architecture = "llama") {
  GgufBuilder b;
  tinyGgufMetadata(b, architecture);
  b.tensor("token_embd.weight", 0, {40, 64}, std::string(40 * 64 * 4, '\0'));
  return b;
}

TEST(GgufConfig, ReadsBothArchitectures) {
  auto llama = readGgufConfig(withEmbedding());
  ASSERT_TRUE(llama.ok()) << llama.error().render();
  EXPECT_EQ(llama->architecture, "LlamaForCausalLM");
  EXPECT_EQ(llama->vocabSize, 40);
  EXPECT_EQ(llama->headDim, 16);
  EXPECT_TRUE(llama->tieWordEmbeddings);
  GgufBuilder b = withEmbedding("qwen3");
  b.u32("qwen3.attention.key_length", 32);
  b.u32("qwen3.attention.value_length", 32);
  b.tensor("output.weight", 0, {40, 64}, std::string(40 * 64 * 4, '\0'));
  auto qwen = readGgufConfig(b);
  ASSERT_TRUE(qwen.ok()) << qwen.error().render();
  EXPECT_EQ(qwen->headDim, 32);
  EXPECT_TRUE(qwen->qkNorm);
  EXPECT_FALSE(qwen->tieWordEmbeddings);
}

TEST(GgufConfig, RefusesByName) {
  struct Case {
    std::function<void(GgufBuilder &)> edit;
    ErrorKind kind;
    const char *message;
  };
  constexpr ErrorKind bad = ErrorKind::BadFile, unsupported = ErrorKind::Unsupported;
  for (const Case &c : std::vector<Case>{
           {[](GgufBuilder &b) { b.string("llama.rope.scaling.type", "yarn"); }, unsupported,
            "'yarn'"},
           {[](GgufBuilder &b) { b.u32("llama.rope.dimension_count", 8); }, unsupported,
            "dimension_count"},
           {[](GgufBuilder &b) { b.u32("llama.attention.value_length", 8); }, unsupported,
            "value_length"},
           {[](GgufBuilder &b) { b.u32("llama.expert_count", 8); }, unsupported, "expert_count"},
           {[](GgufBuilder &b) { b.u32("split.count", 3); }, unsupported, "split"},
           {[](GgufBuilder &b) {
              b.u32("llama.attention.key_length", 15);
              b.u32("llama.attention.value_length", 15);
            },
            bad, "even"},
           {[](GgufBuilder &b) { b.string("llama.vocab_size", "40"); }, bad, "vocab_size"},
           {[](GgufBuilder &b) { b.u32("llama.vocab_size", 0); }, bad, "vocab_size"}}) {
    GgufBuilder b = withEmbedding();
    c.edit(b);
    auto config = readGgufConfig(b);
    ASSERT_FALSE(config.ok()) << c.message;
    EXPECT_EQ(config.error().kind, c.kind) << config.error().render();
    EXPECT_NE(config.error().message.find(c.message), std::string::npos) << config.error().message;
  }
  for (const char *other : {"gemma", "qwen35", "qwen35moe", "qwen3next"}) {
    auto refused = readGgufConfig(withEmbedding(other));
    EXPECT_EQ(refused.error().kind, ErrorKind::Unsupported) << other;
    EXPECT_NE(refused.error().message.find(other), std::string::npos) << refused.error().message;
  }
  GgufBuilder none;
  tinyGgufMetadata(none);
  EXPECT_NE(readGgufConfig(none).error().message.find("token_embd.weight"), std::string::npos);
}

/// Divisors as the publisher's formula gives them, in binary32, for head_dim 64, theta 500000,
/// factor 32.
std::vector<float> publishedDivisors(double lowFactor) {
  std::vector<float> out;
  const double pi = 3.14159265358979323846;
  for (int i = 0; i < 32; ++i) {
    double wavelength = 2 * pi * std::pow(500000.0, 2.0 * i / 64);
    if (wavelength < 8192 / 4.0)
      out.push_back(1.0f);
    else if (wavelength > 8192 / lowFactor)
      out.push_back(32.0f);
    else {
      double smooth = (8192 / wavelength - lowFactor) / (4.0 - lowFactor);
      out.push_back(static_cast<float>(1 / ((1 - smooth) / 32 + smooth)));
    }
  }
  return out;
}

TEST(GgufConfig, RecoversTheLlama3ScalingFromItsTable) {
  DecoderConfig config;
  config.headDim = 64;
  config.ropeTheta = 500000;
  ASSERT_TRUE(matchLlama3Divisors(publishedDivisors(1.0), std::nullopt, config));
  EXPECT_EQ(config.ropeScaling, RopeScaling::Llama3);
  EXPECT_EQ(config.ropeFactor, 32.0);
  EXPECT_EQ(config.ropeOriginalMaxPositions, 8192);
  DecoderConfig other;
  other.headDim = 64;
  other.ropeTheta = 500000;
  EXPECT_FALSE(matchLlama3Divisors(publishedDivisors(1.5), std::nullopt, other));
  EXPECT_FALSE(matchLlama3Divisors(std::vector<float>(32, NAN), std::nullopt, other));
  EXPECT_FALSE(matchLlama3Divisors(std::vector<float>(31, 1.0f), std::nullopt, other));
  EXPECT_EQ(other.ropeScaling, RopeScaling::None);
  EXPECT_EQ(other.ropeOriginalMaxPositions, 0);
}

} // namespace
} // namespace ninfer
