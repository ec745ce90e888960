// The decoder package: closed config, inventory, rotary frequencies, and recognition with every
// fault it must name.
#include "models/Decoder.h"

#include "support/Json.h"

#include <cmath>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>

namespace ninfer {
namespace {

Json tinyJson(const std::string &architecture = "LlamaForCausalLM") {
  return Json{{"architectures", {architecture}},
              {"hidden_size", 64},
              {"vocab_size", 40},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 4},
              {"num_key_value_heads", 2},
              {"head_dim", 16},
              {"intermediate_size", 96},
              {"max_position_embeddings", 128},
              {"rms_norm_eps", 1e-5},
              {"tie_word_embeddings", true},
              {"rope_theta", 10000.0}};
}

TEST(DecoderConfig, PrintsWhatItParses) {
  for (Json scaling : {Json(), Json{{"rope_type", "linear"}, {"factor", 2.0}},
                       Json{{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}}}) {
    Json config = tinyJson("Qwen3ForCausalLM");
    if (!scaling.is_null())
      config["rope_scaling"] = scaling;
    auto parsed = parseDecoderConfig(config, "m.ninfer");
    ASSERT_TRUE(parsed.ok()) << parsed.error().render();
    EXPECT_EQ(toJson(*parsed), config);
    EXPECT_TRUE(parsed->qkNorm);
  }
}

TEST(DecoderConfig, RefusesEveryValueOutsideTheRules) {
  struct Case {
    const char *rule, *member;
    Json value;
    const char *message;
  };
  Json llama3 = {{"rope_type", "llama3"},
                 {"factor", 8.0},
                 {"low_freq_factor", 4.0},
                 {"high_freq_factor", 4.0},
                 {"original_max_position_embeddings", 8192}};
  for (const Case &c : std::vector<Case>{
           {"decoder_c1", "model_type", "llama", "model_type"},
           {"decoder_c1",
            "rope_scaling",
            {{"rope_type", "linear"}, {"factor", 2.0}, {"x", 1}},
            "x"},
           {"decoder_c1", "rope_scaling", Json::object({{"rope_type", "yarn"}}), "rope_type"},
           {"decoder_c1", "rope_scaling", nullptr, "rope_scaling"},
           {"decoder_c2", "hidden_size", 0, "hidden_size"},
           {"decoder_c2", "hidden_size", -1, "hidden_size"},
           {"decoder_c2", "hidden_size", 64.0, "hidden_size"},
           {"decoder_c2", "hidden_size", true, "hidden_size"},
           {"decoder_c2", "hidden_size", 2147483648, "hidden_size"},
           {"decoder_c2", "vocab_size", 18446744073709551615u, "vocab_size"},
           {"decoder_c2", "num_hidden_layers", 4097, "num_hidden_layers"},
           {"decoder_c2", "intermediate_size", "96", "intermediate_size"},
           {"decoder_c3", "num_key_value_heads", 3, "multiple"},
           {"decoder_c3", "num_attention_heads", 2000000000, "num_attention_heads * head_dim"},
           {"decoder_c4", "head_dim", 17, "even"},
           {"decoder_c5", "rms_norm_eps", 0.0, "rms_norm_eps"},
           {"decoder_c5", "rms_norm_eps", 1e-300, "rms_norm_eps"},
           {"decoder_c5", "rms_norm_eps", "1e-5", "rms_norm_eps"},
           {"decoder_c6", "rope_theta", 0, "rope_theta"},
           {"decoder_c7", "rope_scaling", {{"rope_type", "linear"}, {"factor", 0.5}}, "factor"},
           {"decoder_c7", "rope_scaling", llama3, "low_freq_factor"},
           {"tie", "tie_word_embeddings", 1, "tie_word_embeddings"}}) {
    Json config = tinyJson();
    config[c.member] = c.value;
    auto parsed = parseDecoderConfig(config, "m.ninfer");
    ASSERT_FALSE(parsed.ok()) << c.rule << " " << c.member << " " << c.value;
    EXPECT_EQ(parsed.error().code, "NB0303") << parsed.error().render();
    EXPECT_NE(parsed.error().message.find(c.message), std::string::npos) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find("m.ninfer"), std::string::npos);
  }
  const Json complete = tinyJson();
  for (const auto &item : complete.items()) {
    Json config = tinyJson();
    config.erase(item.key());
    auto parsed = parseDecoderConfig(config, "m.ninfer");
    ASSERT_FALSE(parsed.ok());
    EXPECT_NE(parsed.error().message.find(item.key()), std::string::npos) << parsed.error().message;
  }
}

TEST(DecoderConfig, RefusesOtherArchitecturesByName) {
  auto parsed = parseDecoderConfig(tinyJson("MistralForCausalLM"), "m.ninfer");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().kind, ErrorKind::Unsupported);
  EXPECT_NE(parsed.error().render().find("MistralForCausalLM"), std::string::npos);
  EXPECT_NE(parsed.error().render().find("LlamaForCausalLM, Qwen3ForCausalLM"), std::string::npos);
  Json two = tinyJson();
  two["architectures"].push_back("Qwen3ForCausalLM");
  EXPECT_EQ(parseDecoderConfig(two, "m").error().code, "NB0303");
  EXPECT_EQ(parseDecoderConfig(Json::array(), "m").error().code, "NB0303");
}

TEST(DecoderInventory, NamesShapesAndInputs) {
  DecoderConfig config = *parseDecoderConfig(tinyJson("Qwen3ForCausalLM"), "m");
  std::vector<ParameterSpec> all = decoderInventory(config);
  ASSERT_EQ(all.size(), 3u + 2 * 11);
  auto find = [&](const std::string &name) -> const ParameterSpec & {
    for (const ParameterSpec &p : all)
      if (p.name == name)
        return p;
    ADD_FAILURE() << name;
    return all[0];
  };
  using Shape = std::vector<uint64_t>;
  EXPECT_EQ(find("text/token_embedding").shape, (Shape{40, 64}));
  EXPECT_EQ(find("text/token_embedding").input, "");
  EXPECT_EQ(find("text/layers/1/attention/query").shape, (Shape{64, 64}));
  EXPECT_EQ(find("text/layers/1/attention/key").shape, (Shape{32, 64}));
  EXPECT_EQ(find("text/layers/1/attention/value").input, "text/layers/1/mixer_input");
  EXPECT_EQ(find("text/layers/1/attention/query_norm").shape, (Shape{16}));
  EXPECT_TRUE(find("text/layers/1/attention/key_norm").direct);
  EXPECT_EQ(find("text/layers/0/attention/output").shape, (Shape{64, 64}));
  EXPECT_EQ(find("text/layers/0/attention/output").input, "text/layers/0/attention/output_input");
  EXPECT_EQ(find("text/layers/0/mlp/up").shape, (Shape{96, 64}));
  EXPECT_EQ(find("text/layers/0/mlp/up").input, "text/layers/0/ffn_input");
  EXPECT_EQ(find("text/layers/0/mlp/down").shape, (Shape{64, 96}));
  EXPECT_EQ(find("text/layers/0/mlp/down").input, "text/layers/0/mlp/product");
  EXPECT_EQ(find("text/output_head").input, "text/final_hidden");
  config.qkNorm = false;
  EXPECT_EQ(decoderInventory(config).size(), 3u + 2 * 9);
}

TEST(Rope, FrequenciesEqualTheDecimalReference) {
  std::ifstream in(NINFER_SOURCE_DIR "/test/vectors/rope.json");
  std::string text(std::istreambuf_iterator<char>(in), {});
  Json cases = Json::parse(text);
  ASSERT_GE(cases.size(), 6u);
  for (const Json &c : cases) {
    Json config = tinyJson();
    config["head_dim"] = c["head_dim"];
    config["rope_theta"] = c["rope_theta"];
    if (c.contains("scaling"))
      config["rope_scaling"] = c["scaling"];
    auto parsed = parseDecoderConfig(config, "m");
    ASSERT_TRUE(parsed.ok()) << parsed.error().render();
    std::vector<double> got = parsed->ropeInverseFrequencies();
    ASSERT_EQ(got.size(), c["frequencies"].size());
    for (size_t i = 0; i < got.size(); ++i) {
      double expected = c["frequencies"][i];
      EXPECT_NEAR(got[i], expected, 1e-14 * expected)
          << c.dump().substr(0, 120) << " pair " << i; // pow: a few ulp
    }
  }
}

// --- recognition
// -----------------------------------------------------------------------------------------------------

/// A directory as a converter writes it: one object per parameter, matrices Q4, norms BF16, the
/// head tied.
Directory tinyDirectory(const std::string &architecture = "LlamaForCausalLM") {
  Directory d;
  Json config = tinyJson(architecture);
  d.components["text"].config = config;
  for (const ParameterSpec &p : decoderInventory(*parseDecoderConfig(config, "m"))) {
    uint64_t count = 1;
    for (uint64_t dim : p.shape)
      count *= dim;
    if (p.name == "text/output_head") {
      d.bindings[p.name] = d.bindings["text/token_embedding"];
    } else {
      ObjectEntry object;
      object.id = p.name;
      object.shape = p.shape;
      object.format = p.direct ? Format::BF16 : Format::Q4G64_F16S;
      object.layout = layoutOf(*object.format);
      object.formatName = v3Name(*object.format);
      object.layoutName = v3Name(*object.layout);
      d.bindings[p.name] = Binding{true, {{static_cast<uint32_t>(d.objects.size()), 0, count}}};
      d.objects.push_back(object);
    }
    if (!p.input.empty()) {
      Use use;
      use.parameter = p.name;
      use.input = p.input;
      use.policy = ActivationPolicy::A16Only;
      d.uses.push_back(use);
    }
  }
  return d;
}

ObjectEntry &objectOf(Directory &d, const std::string &parameter) {
  return d.objects[d.bindings.at(parameter).parts[0].object];
}

Use &useOf(Directory &d, const std::string &parameter) {
  for (Use &use : d.uses)
    if (use.parameter == parameter)
      return use;
  throw std::out_of_range(parameter);
}

TEST(Recognise, AcceptsACompleteArtifact) {
  for (const char *architecture : {"LlamaForCausalLM", "Qwen3ForCausalLM"}) {
    Directory d = tinyDirectory(architecture);
    auto spec = recogniseModel(d, "m.ninfer");
    ASSERT_TRUE(spec.ok()) << spec.error().render();
    EXPECT_EQ(spec->architecture(), architecture);
    for (const ParameterSpec &p : spec->parameters)
      EXPECT_EQ(p.binding.parts.size(), 1u) << p.name;
  }
}

TEST(Recognise, AcceptsRowRangesOfAFusedObjectAndOtherComponents) {
  Directory d = tinyDirectory();
  ObjectEntry fused = objectOf(d, "text/layers/0/attention/key");
  fused.id = "text/layers/0/attention/key_value";
  fused.shape = {64, 64};
  auto index = static_cast<uint32_t>(d.objects.size());
  d.objects.push_back(fused);
  d.bindings["text/layers/0/attention/key"] = Binding{false, {{index, 0, 32 * 64}}};
  d.bindings["text/layers/0/attention/value"] = Binding{false, {{index, 32 * 64, 64 * 64}}};
  d.bindings["mtp/input_projection"] = Binding{true, {{0, 0, 64}}};
  Use draft;
  draft.parameter = "text/output_head";
  draft.input = "mtp/final_hidden";
  d.uses.push_back(draft);
  useOf(d, "text/layers/0/attention/query").policy = ActivationPolicy::AllowA8;
  auto spec = recogniseModel(d, "m.ninfer");
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  for (const ParameterSpec &p : spec->parameters) {
    if (p.name == "text/layers/0/attention/value") {
      EXPECT_EQ(p.binding.parts[0].begin, 32u * 64);
    }
    EXPECT_EQ(p.policy == ActivationPolicy::AllowA8, p.name == "text/layers/0/attention/query");
  }
}

TEST(Recognise, NamesEveryFault) {
  struct Case {
    const char *code;
    std::function<void(Directory &)> edit;
    std::vector<const char *> messages;
  };
  const char *query = "text/layers/0/attention/query", *norm = "text/layers/1/input_norm",
             *down = "text/layers/1/mlp/down";
  for (const Case &c : std::vector<Case>{
           {"NB0301",
            [](Directory &d) { d.components.clear(); },
            {"no text component", "supported"}},
           {"NB0303",
            [](Directory &d) { d.components["text"].config.erase("head_dim"); },
            {"head_dim"}},
           {"NB0304",
            [&](Directory &d) {
              d.bindings.erase(query);
              d.bindings.erase(norm);
            },
            {"missing: text/layers/0/attention/query [64,64]",
             "missing: text/layers/1/input_norm [64]"}},
           {"NB0304",
            [&](Directory &d) {
              d.bindings["text/layers/2/mlp/up"] = d.bindings[query];
              d.bindings.erase(norm);
            },
            {"extra: text/layers/2/mlp/up", "missing: text/layers/1/input_norm"}},
           {"NB0304",
            [&](Directory &d) {
              objectOf(d, down).shape = {96, 64};
            },
            {"expected shape [64,96]", "has [96,64]"}},
           {"NB0304",
            [&](Directory &d) { objectOf(d, norm).format = Format::FP32; },
            {"text/layers/1/input_norm", "must be BF16, got FP32"}},
           {"NB0304",
            [&](Directory &d) {
              auto &o = objectOf(d, query);
              o.format = Format::I32;
              o.layout = Layout::ContiguousLeV1;
            },
            {"I32"}},
           {"NB0304",
            [&](Directory &d) {
              auto &o = objectOf(d, query);
              o.format.reset();
              o.formatName = "q4_g32_fp16";
            },
            {"unregistered format 'q4_g32_fp16'"}},
           {"NB0304",
            [&](Directory &d) { objectOf(d, query).layout.reset(); },
            {"unregistered layout"}},
           {"NB0304",
            [&](Directory &d) { objectOf(d, query).layout = Layout::ContiguousLeV1; },
            {"not registered"}},
           {"NB0304",
            [&](Directory &d) { objectOf(d, query).isTensor = false; },
            {"is not a tensor"}},
           {"NB0304",
            [&](Directory &d) {
              d.bindings[query] = {false, {{0, 32, 32 + 64 * 64}}};
            },
            {"not whole rows"}},
           {"NB0304",
            [&](Directory &d) {
              d.bindings[query] = {false, {{0, 0, 64}}};
            },
            {"binds 64 elements, expected 4096"}},
           {"NB0304",
            [&](Directory &d) {
              auto b = d.bindings[query].parts[0];
              d.bindings[query] = {false, {b, b}};
            },
            {"binds more than"}},
           {"NB0304",
            [&](Directory &d) {
              auto b = d.bindings[down].parts[0];
              d.bindings[query] = {false, {{b.object, 0, 64 * 64}}};
            },
            {"expected rows of 64 columns"}},
           {"NB0304",
            [&](Directory &d) {
              auto b = d.bindings[query].parts[0];
              ObjectEntry other = d.objects[b.object];
              other.id = "other";
              other.format = Format::Q5G64_F16S;
              auto index = static_cast<uint32_t>(d.objects.size());
              d.objects.push_back(other);
              d.bindings[query] = {false, {{b.object, 0, 32 * 64}, {index, 0, 32 * 64}}};
            },
            {"parts differ in format"}},
           {"NB0305",
            [&](Directory &d) { d.uses.clear(); },
            {"missing: use (text/layers/0/attention/query, text/layers/0/mixer_input)",
             "missing: use (text/output_head, text/final_hidden)"}},
           {"NB0305",
            [&](Directory &d) { useOf(d, query).policy.reset(); },
            {"has no activation_policy"}},
           {"NB0305",
            [&](Directory &d) { useOf(d, query).input = "text/layers/0/ffn_input"; },
            {"expected input text/layers/0/mixer_input"}},
           {"NB0305",
            [&](Directory &d) { useOf(d, query).parameter = "text/nothing"; },
            {"names no parameter", "missing: use"}},
           {"NB0305",
            [&](Directory &d) { useOf(d, query).parameter = norm; },
            {"takes no activation"}},
           {"NB0305",
            [&](Directory &d) { useOf(d, query).auxiliaries["x"] = Binding{}; },
            {"unknown auxiliary role 'x'"}}}) {
    Directory d = tinyDirectory();
    c.edit(d);
    auto spec = recogniseModel(d, "m.ninfer");
    ASSERT_FALSE(spec.ok()) << c.messages[0];
    EXPECT_EQ(spec.error().code, c.code) << spec.error().render();
    std::string text = spec.error().render();
    EXPECT_NE(text.find("m.ninfer"), std::string::npos);
    for (const char *message : c.messages)
      EXPECT_NE(text.find(message), std::string::npos) << text;
  }
}

} // namespace
} // namespace ninfer
