// Conversions of a tiny hybrid model: every word of every parameter at its place, what the directory
// says, and tensors that do not fit.
#include "convert/Converter.h"

#include "HybridBuilders.h"
#include "artifact/container/Reader.h"
#include "models/Hybrid.h"
#include "support/Bytes.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

Result<ConvertReport> convert(const HybridFolder &model, const fs::path &output,
                              const std::string &recipe = "bf16") {
  TempFolder in;
  model.write(in.path());
  ConvertOptions options;
  options.source = in.path();
  options.output = output;
  options.recipe = *Recipe::builtIn(recipe);
  options.tokenizer = false;
  options.force = true;
  options.threads = 2;
  return convertCheckpoint(options);
}

/// 16-bit words of a parameter, from the bytes of its object and the range of its binding.
std::vector<uint16_t> wordsOf(const Artifact &artifact, const std::string &parameter) {
  const auto it = artifact.directory().bindings.find(parameter);
  if (it == artifact.directory().bindings.end())
    return {};
  const RangePart &part = it->second.parts.at(0);
  auto bytes = artifact.object(part.object);
  std::vector<uint16_t> out;
  for (uint64_t i = part.begin; i < part.end; ++i)
    out.push_back(loadLe16(bytes->data() + 2 * i));
  return out;
}

/// Rows of a matrix: `rowOf(r)` is the source row of row r.
std::vector<uint16_t> rowsOf(const HybridTensor &t, uint64_t rows,
                             const std::function<uint64_t(uint64_t)> &rowOf) {
  std::vector<uint16_t> out;
  for (uint64_t r = 0; r < rows; ++r)
    for (uint64_t c = 0; c < t.shape.back(); ++c)
      out.push_back(t.at(rowOf(r), c));
  return out;
}

/// Checks every parameter of `artifact` against the definition of its source.
void expectWords(const HybridFolder &m, const Artifact &artifact) {
  using namespace tiny;
  size_t checked = 0;
  auto same = [&](const std::string &parameter, const std::vector<uint16_t> &want) {
    EXPECT_EQ(wordsOf(artifact, parameter), want) << parameter;
    ++checked;
  };
  auto whole = [&](const std::string &parameter, const std::string &tensor) {
    same(parameter, m.tensors.at(tensor).words);
  };
  auto ffn = [&](const std::string &p, const std::string &s) {
    if (!m.moe) {
      for (const char *name : {"gate", "up", "down"})
        whole(p + "mlp/" + name, s + "mlp." + name + "_proj.weight");
      return;
    }
    whole(p + "moe/router", s + "mlp.gate.weight");
    whole(p + "moe/shared_score", s + "mlp.shared_expert_gate.weight");
    for (const char *name : {"gate", "up", "down"})
      whole(p + "moe/shared/" + name, s + "mlp.shared_expert." + name + "_proj.weight");
    for (uint64_t e = 0; e < E; ++e) {
      const std::string expert = p + "moe/experts/" + std::to_string(e) + "/";
      const auto &bank = m.tensors.at(s + "mlp.experts.gate_up_proj");
      same(expert + "gate", rowsOf(bank, Ir, [&](uint64_t r) { return e * 2 * Ir + r; }));
      same(expert + "up", rowsOf(bank, Ir, [&](uint64_t r) { return e * 2 * Ir + Ir + r; }));
      same(expert + "down", rowsOf(m.tensors.at(s + "mlp.experts.down_proj"), H,
                                   [&](uint64_t r) { return e * H + r; }));
    }
  };
  auto norms = [&](const std::string &p, const std::string &s) {
    whole(p + "input_norm", s + "input_layernorm.weight");
    whole(p + "post_attention_norm", s + "post_attention_layernorm.weight");
  };
  auto attention = [&](const std::string &p, const std::string &s) {
    norms(p, s);
    const HybridTensor &q = m.tensors.at(s + "self_attn.q_proj.weight");
    same(p + "attention/query",
         rowsOf(q, Hq * D, [](uint64_t r) { return r / D * 2 * D + r % D; }));
    same(p + "attention/gate",
         rowsOf(q, Hq * D, [](uint64_t r) { return r / D * 2 * D + D + r % D; }));
    whole(p + "attention/key", s + "self_attn.k_proj.weight");
    whole(p + "attention/value", s + "self_attn.v_proj.weight");
    whole(p + "attention/output", s + "self_attn.o_proj.weight");
    whole(p + "attention/query_norm", s + "self_attn.q_norm.weight");
    whole(p + "attention/key_norm", s + "self_attn.k_norm.weight");
    ffn(p, s);
  };
  whole("text/token_embedding", m.prefix() + "embed_tokens.weight");
  whole("text/final_norm", m.prefix() + "norm.weight");
  whole("text/output_head", m.tied ? m.prefix() + "embed_tokens.weight" : "lm_head.weight");
  const std::string p = "text/layers/0/", s = m.prefix() + "layers.0.";
  norms(p, s);
  const HybridTensor &qkv = m.tensors.at(s + "linear_attn.in_proj_qkv.weight");
  same(p + "gdn/query", rowsOf(qkv, kw, [](uint64_t r) { return r; }));
  same(p + "gdn/key", rowsOf(qkv, kw, [](uint64_t r) { return kw + r; }));
  same(p + "gdn/value", rowsOf(qkv, vw, [](uint64_t r) { return 2 * kw + r; }));
  whole(p + "gdn/z", s + "linear_attn.in_proj_z.weight");
  whole(p + "gdn/a_projection", s + "linear_attn.in_proj_a.weight");
  whole(p + "gdn/b_projection", s + "linear_attn.in_proj_b.weight");
  whole(p + "gdn/norm", s + "linear_attn.norm.weight");
  whole(p + "gdn/output", s + "linear_attn.out_proj.weight");
  std::vector<uint16_t> convolution;
  for (uint64_t tap = 0; tap < taps; ++tap)
    for (uint64_t channel = 0; channel < C; ++channel)
      convolution.push_back(m.tensors.at(s + "linear_attn.conv1d.weight").words[channel * taps + tap]);
  same(p + "gdn/convolution", convolution);
  for (const auto &[parameter, tensor] :
       {std::pair("gdn/a_log", "A_log"), std::pair("gdn/dt_bias", "dt_bias")}) {
    const RangePart &part = artifact.directory().bindings.at(p + parameter).parts.at(0);
    const HybridTensor &t = m.tensors.at(s + "linear_attn." + tensor);
    auto bytes = artifact.object(part.object);
    ASSERT_EQ(bytes->size(), 4 * nv);
    for (uint64_t i = 0; i < nv; ++i)
      EXPECT_EQ(loadLe32(bytes->data() + 4 * i), uint32_t{t.words[i]} << 16) << parameter;
    ++checked;
  }
  ffn(p, s);
  attention("text/layers/1/", m.prefix() + "layers.1.");
  if (m.mtp) {
    whole("mtp/input_projection", "mtp.fc.weight");
    whole("mtp/embedding_norm", "mtp.pre_fc_norm_embedding.weight");
    whole("mtp/hidden_norm", "mtp.pre_fc_norm_hidden.weight");
    whole("mtp/final_norm", "mtp.norm.weight");
    attention("mtp/layers/0/", "mtp.layers.0.");
  }
  EXPECT_EQ(checked, artifact.directory().bindings.size());
}

TEST(HybridConvert, EveryWordOfADenseModelIsAtItsPlace) {
  TempFolder out;
  HybridFolder model;
  model.nested = model.mtp = true;
  model.visionTensors = 5;
  model.make();
  auto report = convert(model, out / "m.ninfer");
  ASSERT_TRUE(report.ok()) << report.error().render();
  auto artifact = Artifact::open(out / "m.ninfer");
  ASSERT_TRUE(artifact.ok());
  expectWords(model, *artifact);
  EXPECT_EQ(report->count(Provenance::Converted), 0u);
  EXPECT_EQ(report->count(Provenance::WidenedExactly), 2u); // A_log and dt_bias
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_EQ(report->notes[0], "vision is not converted: 5 tensors left out");

  const Directory &d = artifact->directory();
  EXPECT_EQ(d.components.at("mtp").config, (Json{{"architectures", {"Qwen3_5MTP"}}}));
  EXPECT_EQ(d.components.at("mtp").target, "text");
  RecogniseOptions options;
  options.mtp = true;
  auto spec = recogniseModel(d, "m.ninfer", options);
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_EQ(spec->hybridConfig().attention->ropeTheta, 10000.0);
  EXPECT_EQ(spec->mtp->head, "text/output_head");
}

TEST(HybridConvert, EveryWordOfASparseModelIsAtItsPlaceHoweverExpertsAreStored) {
  TempFolder out;
  HybridFolder model;
  model.moe = model.mtp = model.tied = true;
  model.make();
  auto report = convert(model, out / "banks.ninfer");
  ASSERT_TRUE(report.ok()) << report.error().render();
  auto artifact = Artifact::open(out / "banks.ninfer");
  ASSERT_TRUE(artifact.ok());
  expectWords(model, *artifact);
  const Directory &d = artifact->directory();
  EXPECT_EQ(d.bindings.at("text/output_head").parts[0].object,
            d.bindings.at("text/token_embedding").parts[0].object);
  EXPECT_EQ(d.components.at("mtp").config, (Json{{"architectures", {"Qwen3_5MoeMTP"}}}));
  // The experts of a layer lie in two objects.
  EXPECT_EQ(d.bindings.at("text/layers/0/moe/experts/0/gate").parts[0].object,
            d.bindings.at("text/layers/0/moe/experts/2/up").parts[0].object);
  EXPECT_EQ(d.provenance["tensors"]["text/layers/0/moe/experts/down"],
            (Json{"BF16", "preserved"}));

  HybridFolder single = model;
  for (const char *layer : {"model.layers.0.", "model.layers.1.", "mtp.layers.0."})
    single.splitBanks(std::string(layer) + "mlp.experts.");
  ASSERT_TRUE(convert(single, out / "single.ninfer").ok());
  auto other = Artifact::open(out / "single.ninfer");
  ASSERT_TRUE(other.ok());
  expectWords(model, *other);
}

TEST(HybridConvert, WiderSourcesAreToldPerTensor) {
  TempFolder out;
  HybridFolder model;
  model.make();
  for (auto &[name, t] : model.tensors)
    t.dtype = "F32";
  auto report = convert(model, out / "m.ninfer");
  ASSERT_TRUE(report.ok()) << report.error().render();
  auto artifact = Artifact::open(out / "m.ninfer");
  expectWords(model, *artifact);
  const Json &told = artifact->directory().provenance["tensors"];
  EXPECT_EQ(told["text/layers/0/gdn/a_log"], (Json{"F32", "preserved"}));
  EXPECT_EQ(told["text/layers/0/gdn/convolution"], (Json{"F32", "narrowed exactly"}));
  EXPECT_EQ(told["text/layers/0/gdn/query"], (Json{"F32", "converted", "BF16_RNE"}));
}

TEST(HybridConvert, QuantisedRowsEqualThoseOfAModelStoredApart) {
  // The rows of a split tensor meet the encoder as if they were a tensor of their own.
  TempFolder out;
  HybridFolder model;
  model.moe = true;
  model.make();
  ASSERT_TRUE(convert(model, out / "a.ninfer", "qwen3.6-27b-int").ok());
  auto artifact = Artifact::open(out / "a.ninfer");
  const Directory &d = artifact->directory();
  auto formatOf = [&](const std::string &p) {
    return *d.objects[d.bindings.at(p).parts[0].object].format;
  };
  EXPECT_EQ(formatOf("text/token_embedding"), Format::Q6G64_F16S);
  EXPECT_EQ(formatOf("text/layers/1/attention/query"), Format::Q4G64_F16S);
  EXPECT_EQ(formatOf("text/layers/1/attention/gate"), Format::Q5G64_F16S);
  EXPECT_EQ(formatOf("text/layers/0/gdn/key"), Format::Q4G64_F16S);
  EXPECT_EQ(formatOf("text/layers/0/gdn/value"), Format::Q5G64_F16S);
  EXPECT_EQ(formatOf("text/layers/0/gdn/a_projection"), Format::BF16);
  EXPECT_EQ(formatOf("text/layers/0/moe/router"), Format::BF16);
  EXPECT_EQ(formatOf("text/layers/0/moe/experts/2/up"), Format::Q4G64_F16S);
  EXPECT_EQ(formatOf("text/layers/0/moe/experts/2/down"), Format::Q5G64_F16S);
  EXPECT_EQ(formatOf("text/layers/0/moe/shared/down"), Format::W8G32_F16S);
  HybridFolder single = model;
  for (const char *layer : {"model.layers.0.", "model.layers.1."})
    single.splitBanks(std::string(layer) + "mlp.experts.");
  ASSERT_TRUE(convert(single, out / "b.ninfer", "qwen3.6-27b-int").ok());
  auto other = Artifact::open(out / "b.ninfer");
  ASSERT_TRUE(other.ok());
  auto one = artifact->payload(), two = other->payload();
  EXPECT_TRUE(std::equal(one->begin(), one->end(), two->begin(), two->end()));
}

TEST(HybridConvert, BanksNeedOneFormat) {
  TempFolder in, out;
  HybridFolder model;
  model.moe = true;
  model.make().write(in.path());
  ConvertOptions options;
  options.source = in.path();
  options.output = out / "m.ninfer";
  options.recipe = *Recipe::parse("[formats]\ndefault=\"w8\"\nexpert_up=\"q4\"\n", "r.toml");
  options.tokenizer = false;
  auto report = convertCheckpoint(options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, "NB0318");
  EXPECT_NE(report.error().message.find("experts/0/up (q4)"), std::string::npos)
      << report.error().message;
}

TEST(HybridConvert, TensorsThatDoNotFitAreListed) {
  using namespace tiny;
  struct Case {
    const char *what;
    std::function<void(HybridFolder &)> edit;
    std::vector<const char *> says;
  };
  const std::string l0 = "model.layers.0.", l1 = "model.layers.1.";
  auto reshape = [](HybridFolder &m, const std::string &name, std::vector<uint64_t> shape) {
    m.tensors.erase(name);
    m.add(name, std::move(shape));
  };
  for (const Case &c : std::vector<Case>{
           {"no tensor feeds two parameters",
            [&](HybridFolder &m) { m.tensors.erase(l1 + "self_attn.q_proj.weight"); },
            {"missing: tensor 'model.layers.1.self_attn.q_proj.weight' [64,32] for text/layers/1/attention/query"}},
           {"q_proj without the gate's rows",
            [&](HybridFolder &m) { reshape(m, l1 + "self_attn.q_proj.weight", {Hq * D, H}); },
            {"misshaped: tensor 'model.layers.1.self_attn.q_proj.weight' is [32,32]", "needs [64,32]"}},
           {"convolution without its middle axis",
            [&](HybridFolder &m) { reshape(m, l0 + "linear_attn.conv1d.weight", {C, taps}); },
            {"conv1d.weight' is [40,3]", "needs [40,1,3]"}},
           {"convolution stored tap by tap",
            [&](HybridFolder &m) { reshape(m, l0 + "linear_attn.conv1d.weight", {taps, 1, C}); },
            {"needs [40,1,3]"}},
           {"a tensor of another model",
            [&](HybridFolder &m) { m.add(l0 + "linear_attn.in_proj_ba.weight", {8, H}); },
            {"extra: tensor 'model.layers.0.linear_attn.in_proj_ba.weight' [8,32] feeds no parameter of Qwen3_5ForCausalLM"}},
           {"layer types in another order",
            [](HybridFolder &m) {
              m.config["layer_types"] = {"full_attention", "linear_attention"};
            },
            {"missing: tensor 'model.layers.0.self_attn.q_proj.weight'",
             "extra: tensor 'model.layers.0.linear_attn.A_log'"}},
           {"half of a draft layer",
            [](HybridFolder &m) {
              m.add("mtp.fc.weight", {H, 2 * H});
              m.config.erase("mtp_num_hidden_layers");
            },
            {"missing: tensor 'mtp.pre_fc_norm_embedding.weight' [32] for mtp/embedding_norm",
             "missing: tensor 'mtp.norm.weight'"}},
           {"a draft layer the config denies",
            [](HybridFolder &m) { m.add("mtp.fc.weight", {H, 2 * H}); },
            {"extra: tensor 'mtp.fc.weight'"}},
           {"a head beside an untied config's missing one",
            [](HybridFolder &m) { m.tensors.erase("lm_head.weight"); },
            {"missing: tensor 'lm_head.weight'"}},
           {"nothing but vision",
            [](HybridFolder &m) {
              m.tensors.clear();
              m.add("model.visual.pos_embed.weight", {4, 4});
            },
            {"all 1 tensors belong to the vision tower"}}}) {
    TempFolder out;
    HybridFolder model;
    model.make();
    c.edit(model);
    auto report = convert(model, out / "m.ninfer");
    ASSERT_FALSE(report.ok()) << c.what;
    EXPECT_EQ(report.error().code, "NB0319") << report.error().render();
    for (const char *text : c.says)
      EXPECT_NE(report.error().render().find(text), std::string::npos)
          << c.what << ": " << text << "\n" << report.error().render();
    // A tensor that feeds several parameters is told once.
    const std::string all = report.error().render();
    const size_t first = all.find("self_attn.q_proj.weight'");
    if (first != std::string::npos) {
      EXPECT_EQ(all.find("self_attn.q_proj.weight'", first + 1), std::string::npos) << all;
    }
    EXPECT_FALSE(fs::exists(out / "m.ninfer"));
  }
}

TEST(HybridConvert, MissingPartsOfSparseModelsAreListed) {
  TempFolder out;
  HybridFolder model;
  model.moe = true;
  model.make();
  HybridFolder bank = model, single = model, mixed = model;
  bank.tensors.erase("model.layers.1.mlp.experts.down_proj");
  single.splitBanks("model.layers.0.mlp.experts.");
  single.tensors.erase("model.layers.0.mlp.experts.2.up_proj.weight");
  mixed.tensors["model.layers.0.mlp.experts.0.gate_proj.weight"] =
      mixed.tensors["model.layers.0.mlp.shared_expert.gate_proj.weight"];
  for (const auto &[m, text] :
       {std::pair(&bank, "missing: tensor 'model.layers.1.mlp.experts.down_proj' [3,32,8]"),
        std::pair(&single, "missing: tensor 'model.layers.0.mlp.experts.2.up_proj.weight' [8,32]"),
        std::pair(&mixed, "extra: tensor 'model.layers.0.mlp.experts.0.gate_proj.weight'")}) {
    auto report = convert(*m, out / "m.ninfer");
    ASSERT_FALSE(report.ok()) << text;
    EXPECT_NE(report.error().render().find(text), std::string::npos) << report.error().render();
  }
}

TEST(HybridConvert, AnAnnouncedDraftLayerMayBeAbsent) {
  TempFolder out;
  HybridFolder model;
  model.make();
  model.config["mtp_num_hidden_layers"] = 1;
  auto report = convert(model, out / "m.ninfer");
  ASSERT_TRUE(report.ok()) << report.error().render();
  EXPECT_FALSE(report->mtp);
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_NE(report->notes[0].find("the checkpoint holds none"), std::string::npos);
}

TEST(HybridConvert, ValuesThatAreNotFiniteAreNamedByTheirSourceRow) {
  using namespace tiny;
  struct Case {
    const char *tensor;
    uint64_t row, column;
  };
  for (const Case &c : {Case{"model.layers.1.self_attn.q_proj.weight", 3 * D + 2, 5},
                        Case{"model.layers.0.linear_attn.in_proj_qkv.weight", 2 * kw + 1, 0},
                        Case{"model.layers.0.linear_attn.conv1d.weight", 7, 2}}) {
    TempFolder out;
    HybridFolder model;
    model.make();
    HybridTensor &t = model.tensors.at(c.tensor);
    t.words[c.row * t.shape.back() + c.column] = 0x7fc0;
    auto report = convert(model, out / "m.ninfer", "q4");
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, "NB0317");
    EXPECT_NE(report.error().message.find(std::string("tensor '") + c.tensor + "' row " +
                                          std::to_string(c.row) + " column " +
                                          std::to_string(c.column)),
              std::string::npos)
        << report.error().message;
  }
}

Result<ConvertReport> convertWithVision(const fs::path &source, const fs::path &output) {
  ConvertOptions options;
  options.source = source;
  options.output = output;
  options.recipe = *Recipe::builtIn("bf16");
  options.tokenizer = false;
  options.vision = true;
  return convertCheckpoint(options);
}

TEST(HybridVision, EveryWordOfTheTowerIsCarriedAlong) {
  TempFolder in, out;
  HybridFolder model;
  model.nested = true;
  model.make().addTower();
  model.write(in.path());
  const std::string processor = R"({"patch_size":2,"temporal_patch_size":2,"merge_size":2,"size":{}})";
  writeBytes(in / "preprocessor_config.json", processor);
  auto report = convertWithVision(in.path(), out / "m.ninfer");
  ASSERT_TRUE(report.ok()) << report.error().render();
  EXPECT_TRUE(report->vision);
  EXPECT_TRUE(report->notes.empty());
  auto artifact = Artifact::open(out / "m.ninfer");
  ASSERT_TRUE(artifact.ok());
  const Directory &d = artifact->directory();
  size_t checked = 0, inputs = 0;
  auto same = [&](const std::string &parameter, const std::string &tensor, uint64_t part = 0,
                  uint64_t parts = 1) {
    const std::vector<uint16_t> &words = model.tensors.at("model.visual." + tensor).words;
    const auto step = static_cast<std::ptrdiff_t>(words.size() / parts);
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(part) * step;
    EXPECT_EQ(wordsOf(*artifact, "vision/" + parameter), std::vector<uint16_t>(first, first + step))
        << parameter;
    ++checked;
  };
  same("patch_embedding", "patch_embed.proj.weight");
  same("patch_embedding_bias", "patch_embed.proj.bias");
  same("position_embedding", "pos_embed.weight");
  const std::string l = "layers/0/", b = "blocks.0.";
  for (const char *kind : {"weight", "bias"}) {
    const std::string suffix = std::string("_") + kind, dot = std::string(".") + kind;
    same(l + "norm1" + suffix, b + "norm1" + dot);
    same(l + "norm2" + suffix, b + "norm2" + dot);
    same("merger/norm" + suffix, "merger.norm" + dot);
    const std::string own = suffix == "_bias" ? suffix : ""; // a matrix has the plain name
    same(l + "attention/query" + own, b + "attn.qkv" + dot, 0, 3);
    same(l + "attention/key" + own, b + "attn.qkv" + dot, 1, 3);
    same(l + "attention/value" + own, b + "attn.qkv" + dot, 2, 3);
    same(l + "attention/output" + own, b + "attn.proj" + dot);
    same(l + "mlp/fc1" + own, b + "mlp.linear_fc1" + dot);
    same(l + "mlp/fc2" + own, b + "mlp.linear_fc2" + dot);
    same("merger/fc1" + own, "merger.linear_fc1" + dot);
    same("merger/fc2" + own, "merger.linear_fc2" + dot);
  }
  size_t bound = 0;
  for (const auto &[name, binding] : d.bindings)
    bound += name.rfind("vision/", 0) == 0;
  EXPECT_EQ(checked, bound);
  // The three biases are one bank.
  const RangePart &key = d.bindings.at("vision/layers/0/attention/key_bias").parts[0];
  EXPECT_EQ(d.objects[key.object].shape, (std::vector<uint64_t>{24}));
  EXPECT_EQ(key.begin, 8u);
  EXPECT_EQ(d.objects[d.bindings.at("vision/patch_embedding").parts[0].object].shape,
            (std::vector<uint64_t>{8, 24}));
  for (const Use &use : d.uses)
    inputs += use.input.rfind("vision/", 0) == 0;
  EXPECT_EQ(inputs, 9u);
  EXPECT_EQ(d.components.at("vision").config,
            (Json{{"model_type", "qwen3_5_vision"},
                  {"depth", 1},
                  {"hidden_size", 8},
                  {"intermediate_size", 12},
                  {"num_heads", 2},
                  {"patch_size", 2},
                  {"temporal_patch_size", 2},
                  {"spatial_merge_size", 2},
                  {"num_position_embeddings", 9}}));
  EXPECT_EQ(d.components.at("vision").target, "text");
  const uint32_t resource = d.components.at("vision").resources.at("preprocessor_config.json");
  EXPECT_EQ(std::string(asText(*artifact->object(resource))), processor);
  auto spec = recogniseModel(d, "m.ninfer");
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_EQ(spec->notes.at(0), "component vision is not selected; 21 objects left unread");
}

TEST(HybridVision, RefusesWhatDoesNotFit) {
  struct Case {
    const char *what;
    std::function<void(HybridFolder &)> edit;
    const char *says;
  };
  auto member = [](const char *name, Json value) {
    return [=](HybridFolder &m) { m.config["vision_config"][name] = value; };
  };
  for (const Case &c : std::vector<Case>{
           {"no config", [](HybridFolder &m) { m.config.erase("vision_config"); }, "no vision_config"},
           {"activation", member("hidden_act", "gelu"), "hidden_act"},
           {"deepstack", member("deepstack_visual_indexes", {8, 16}), "deepstack_visual_indexes"},
           {"channels", member("in_channels", 1), "in_channels"},
           {"positions", member("num_position_embeddings", 10), "must be a square"},
           {"heads", member("num_heads", 4), "num_heads times a multiple of 4"},
           {"width", member("out_hidden_size", 64), "out_hidden_size"},
           {"patches", member("patch_size", 4096), "patch_size"},
           {"type", member("model_type", "qwen3_5_moe_vision"), "model_type"},
           {"rotary", member("rope_parameters", {{"rope_theta", 5.0}}), "rope_theta"},
           {"missing", [](HybridFolder &m) { m.tensors.erase("model.visual.blocks.0.attn.qkv.bias"); },
            "missing: tensor 'model.visual.blocks.0.attn.qkv.bias' [24] for vision/layers/0/attention/query_bias"},
           {"another block", [](HybridFolder &m) { m.add("model.visual.blocks.1.norm1.bias", {8}); },
            "extra: tensor 'model.visual.blocks.1.norm1.bias'"},
           {"patch shape", member("temporal_patch_size", 1), "needs [8,3,1,2,2]"}}) {
    TempFolder in, out;
    HybridFolder model;
    model.nested = true;
    model.make().addTower();
    c.edit(model);
    model.write(in.path());
    auto report = convertWithVision(in.path(), out / "m.ninfer");
    ASSERT_FALSE(report.ok()) << c.what;
    EXPECT_NE(report.error().render().find(c.says), std::string::npos) << report.error().render();
  }
  TempFolder in, out;
  HybridFolder model;
  model.nested = true;
  model.make().addTower();
  model.write(in.path());
  writeBytes(in / "video_preprocessor_config.json", R"({"merge_size":3})");
  auto contradiction = convertWithVision(in.path(), out / "m.ninfer");
  ASSERT_FALSE(contradiction.ok());
  EXPECT_EQ(contradiction.error().code, "NB0320");
  TempFolder decoder;
  writeTinyFolder(decoder.path(), tinyTensors(), "BF16");
  EXPECT_EQ(convertWithVision(decoder.path(), out / "m.ninfer").error().kind, ErrorKind::Unsupported);
}

TEST(HybridConvert, QuantisedCheckpointsAreRefusedByName) {
  TempFolder out;
  HybridFolder model;
  model.make();
  model.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
  auto report = convert(model, out / "m.ninfer");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::Unsupported);
  EXPECT_NE(report.error().message.find("Qwen3_5ForCausalLM are not imported"), std::string::npos)
      << report.error().render();
}

} // namespace
} // namespace ninfer
