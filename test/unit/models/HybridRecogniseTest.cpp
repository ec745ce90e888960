// Recognition of a hybrid model in framing 3: the golden artifact bound range by range, and every
// fault a directory can have.
#include "HybridConfigs.h"
#include "artifact/container/Reader.h"
#include "models/Bind.h"

#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>

namespace ninfer {
namespace {

using testing::tinyHybridJson;
using testing::tinyMoeJson;

std::string readFixture(const std::string &name) {
  std::ifstream in(NINFER_SOURCE_DIR "/test/conformance/fixtures/" + name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Directory text of the golden artifact: json_bytes at 8, text at 32.
std::string goldenText() {
  const std::string file = readFixture("v3_single.ninfer");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<uint8_t>(file.at(8 + static_cast<size_t>(i)));
  return file.substr(32, length);
}

TEST(HybridGolden, EveryParameterBindsTheRangesItsListingNames) {
  const std::string text = goldenText();
  auto directory = parseDirectory(text, "v3_single.ninfer");
  ASSERT_TRUE(directory.ok()) << directory.error().render();
  const Json listing = Json::parse(readFixture("v3_single.json"));
  const Json stored = Json::parse(text);

  auto spec = recogniseModel(*directory, "v3_single.ninfer", {.mtp = true});
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_EQ(spec->architecture(), "Qwen3_5ForCausalLM");
  EXPECT_EQ(toJson(spec->hybridConfig()).dump(), stored["components"]["text"]["config"].dump());

  size_t bound = 0;
  for (const auto &item : listing["bindings"].items()) {
    if (item.key().starts_with("fixture/"))
      continue;
    const ParameterSpec *p = spec->find(item.key());
    ASSERT_NE(p, nullptr) << item.key();
    const Json &parts = item.value()["parts"];
    ASSERT_EQ(p->binding.parts.size(), parts.size()) << item.key();
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(directory->objects[p->binding.parts[i].object].id, parts[i][0].get<std::string>())
          << item.key();
      EXPECT_EQ(p->binding.parts[i].begin, parts[i][1].get<uint64_t>()) << item.key();
      EXPECT_EQ(p->binding.parts[i].end, parts[i][2].get<uint64_t>()) << item.key();
    }
    EXPECT_EQ(elementCount(p->shape), item.value()["elements"].get<uint64_t>()) << item.key();
    ++bound;
  }
  EXPECT_EQ(bound, 49u);
  EXPECT_EQ(spec->parameters.size(), bound);

  size_t uses = 0, divisors = 0;
  for (const Json &use : stored["uses"]) {
    if (use["input"] == "mtp/final_hidden" && use["parameter"] == "text/output_head")
      continue; // not the head of the drafts here
    const ParameterSpec *p = spec->find(use["parameter"].get<std::string>());
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(p->input, use["input"].get<std::string>());
    EXPECT_EQ(canonicalName(p->policy), use["activation_policy"].get<std::string>()) << p->name;
    EXPECT_EQ(p->activationInputDivisor.has_value(), use.contains("auxiliaries")) << p->name;
    if (p->activationInputDivisor) {
      const Json &part = use["auxiliaries"]["activation_input_divisor"]["parts"][0];
      EXPECT_EQ(directory->objects[p->activationInputDivisor->object].id,
                part["object"].get<std::string>());
      EXPECT_EQ(p->activationInputDivisor->begin, part["range"][0].get<uint64_t>());
      EXPECT_EQ(p->activationInputDivisor->end, part["range"][1].get<uint64_t>());
      ++divisors;
    }
    ++uses;
  }
  EXPECT_EQ(uses, 29u);
  EXPECT_EQ(divisors, 3u);

  ASSERT_TRUE(spec->mtp);
  EXPECT_EQ(spec->mtp->head, "proposal/head");
  EXPECT_TRUE(spec->mtp->indexed);
  EXPECT_EQ(spec->mtp->rows, 16u);
  EXPECT_TRUE(spec->notes.empty());
  EXPECT_EQ(directory->objects[spec->resources.at("tokenizer.json")].id, "resource/tokenizer.json");
  EXPECT_EQ(spec->resources.size(), 4u);
}

TEST(HybridGolden, MtpIsLeftUnreadUnlessSelected) {
  auto directory = parseDirectory(goldenText(), "v3_single.ninfer");
  ASSERT_TRUE(directory.ok());
  auto spec = recogniseModel(*directory, "v3_single.ninfer");
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_FALSE(spec->mtp);
  EXPECT_EQ(spec->parameters.size(), 31u);
  EXPECT_EQ(spec->notes,
            (std::vector<std::string>{"component mtp is not selected; 12 objects left unread",
                                      "the proposal head is not selected; 2 objects left unread"}));
  // What is not selected is not bound either: its parameters may be wrong.
  directory->bindings.erase("mtp/final_norm");
  EXPECT_TRUE(recogniseModel(*directory, "m").ok());
  EXPECT_FALSE(recogniseModel(*directory, "m", {.mtp = true}).ok());
}

// --- synthetic directories
// ------------------------------------------------------------------------------------------------

/// One object per parameter, matrices Q4; text, mtp, and an indexed proposal head of 16 rows.
Directory hybridDirectory(const Json &config, bool proposal = true) {
  Directory d;
  d.components["text"].config = config;
  auto parsed = parseHybridConfig(config, "m");
  const HybridConfig &c = *parsed;
  std::vector<ParameterSpec> all = hybridInventory(c);
  for (ParameterSpec &p : mtpInventory(c))
    all.push_back(std::move(p));
  if (proposal) {
    d.components["text"].proposal = Component::Proposal{true, 16};
    for (ParameterSpec &p : proposalInventory(c, {true, 16}))
      all.push_back(std::move(p));
  }
  d.components["mtp"].config = {{"architectures", {mtpArchitecture(c)}}};
  d.components["mtp"].target = "text";
  auto use = [&](const std::string &parameter, const std::string &input) {
    Use u;
    u.parameter = parameter;
    u.input = input;
    u.policy = ActivationPolicy::A16Only;
    d.uses.push_back(u);
  };
  for (const ParameterSpec &p : all) {
    ObjectEntry object;
    object.id = p.name;
    object.shape = p.shape;
    object.format = p.direct ? p.directFormat : Format::Q4G64_F16S;
    object.layout = layoutOf(*object.format);
    object.formatName = v3Name(*object.format);
    object.layoutName = v3Name(*object.layout);
    d.bindings[p.name] =
        Binding{true, {{static_cast<uint32_t>(d.objects.size()), 0, elementCount(p.shape)}}};
    d.objects.push_back(object);
    if (!p.input.empty())
      use(p.name, p.input);
  }
  use("text/output_head", "mtp/final_hidden");
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

TEST(HybridRecognise, AcceptsDenseAndMoeWithAndWithoutProposal) {
  for (const Json &config : {tinyHybridJson(), tinyMoeJson()})
    for (bool proposal : {true, false}) {
      Directory d = hybridDirectory(config, proposal);
      auto spec = recogniseModel(d, "m.ninfer", {.mtp = true});
      ASSERT_TRUE(spec.ok()) << spec.error().render();
      EXPECT_EQ(spec->mtp->head, proposal ? "proposal/head" : "text/output_head");
      EXPECT_EQ(spec->mtp->rows, proposal ? 16u : 48u);
      EXPECT_EQ(spec->mtp->indexed, proposal);
      EXPECT_EQ(spec->isHybrid(), true);
      EXPECT_EQ(spec->hiddenSize(), 128);
      EXPECT_EQ(spec->vocabSize(), 48);
      EXPECT_EQ(spec->numLayers(), 2);
      EXPECT_EQ(spec->maxPositions(), 4096);
    }
}

TEST(HybridRecognise, AFullProposalHeadHasAllRows) {
  Directory d = hybridDirectory(tinyHybridJson());
  d.components["text"].proposal = Component::Proposal{false, 0};
  d.bindings["proposal/head"].parts[0].end = 48 * 128;
  objectOf(d, "proposal/head").shape = {48, 128};
  d.bindings.erase("proposal/token_ids");
  auto spec = recogniseModel(d, "m", {.mtp = true});
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_FALSE(spec->mtp->indexed);
  EXPECT_EQ(spec->mtp->rows, 48u);
}

TEST(HybridRecognise, OtherComponentsAreToldAndLeftUnread) {
  Directory d = hybridDirectory(tinyHybridJson());
  for (const char *name : {"vision", "dflash2"}) {
    d.components[name].config = {{"anything", true}};
    d.bindings[std::string(name) + "/patch_embedding"] = Binding{true, {{0, 0, 1}, {1, 0, 1}}};
  }
  ObjectEntry patch;
  patch.id = "vision/patch_embedding";
  patch.formatName = "of_tomorrow";
  d.bindings["vision/other"] = Binding{true, {{static_cast<uint32_t>(d.objects.size()), 0, 1}}};
  d.objects.push_back(patch);
  auto spec = recogniseModel(d, "m", {.mtp = true});
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_EQ(spec->notes,
            (std::vector<std::string>{"component dflash2 is not selected; 0 objects left unread",
                                      "component vision is not selected; 1 objects left unread"}));
}

TEST(HybridRecognise, AcceptsPartsThatAreWholeRows) {
  Directory d = hybridDirectory(tinyHybridJson());
  const auto query = d.bindings.at("text/layers/1/attention/query").parts[0];
  const auto gate = d.bindings.at("text/layers/1/attention/gate").parts[0];
  // Rows of two objects, out of order.
  d.bindings["text/layers/1/attention/query"] =
      Binding{false, {{gate.object, 32 * 128, 64 * 128}, {query.object, 0, 32 * 128}}};
  auto spec = recogniseModel(d, "m");
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_EQ(spec->find("text/layers/1/attention/query")->binding.parts.size(), 2u);
  d.bindings["text/layers/1/attention/query"].parts[0].begin += 64;
  d.bindings["text/layers/1/attention/query"].parts[0].end += 64;
  auto torn = recogniseModel(d, "m");
  ASSERT_FALSE(torn.ok());
  EXPECT_NE(torn.error().render().find("not whole rows"), std::string::npos);
}

TEST(HybridRecognise, AConfigOfMillionsOfParametersIsRefusedAtOnce) {
  Json config = tinyMoeJson();
  Directory d = hybridDirectory(config);
  config["num_experts"] = 65536;
  config["num_hidden_layers"] = 4096;
  config["layer_types"] = std::vector<std::string>(4096, "linear_attention");
  d.components["text"].config = config;
  auto spec = recogniseModel(d, "m");
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().code, "NB0304");
  EXPECT_NE(spec.error().message.find("implies 805380099 parameters"), std::string::npos)
      << spec.error().message;
}

TEST(HybridRecognise, NamesEveryFault) {
  struct Case {
    const char *rule, *code;
    std::function<void(Directory &)> edit;
    std::vector<const char *> messages;
  };
  const std::string alog = "text/layers/0/gdn/a_log", conv = "text/layers/0/gdn/convolution",
                    z = "text/layers/0/gdn/z", draft = "mtp/layers/0/attention/gate";
  auto divisor = [](Directory &d, Format format, uint64_t elements) {
    ObjectEntry object;
    object.id = "divisors";
    object.shape = {4};
    object.format = format;
    object.layout = layoutOf(format);
    const auto index = static_cast<uint32_t>(d.objects.size());
    d.objects.push_back(object);
    useOf(d, "text/layers/0/mlp/down").auxiliaries["activation_input_divisor"] =
        Binding{false, {{index, 1, 1 + elements}}};
  };
  for (const Case &c : std::vector<Case>{
           {"hybrid_c10",
            "NB0303",
            [](Directory &d) { d.components["mtp"].config["hidden_size"] = 1; },
            {"components.mtp.config", "hidden_size"}},
           {"hybrid_c10",
            "NB0303",
            [](Directory &d) { d.components["mtp"].config.erase("architectures"); },
            {"components.mtp.config", "architectures"}},
           {"hybrid_c10",
            "NB0303",
            [](Directory &d) { d.components["mtp"].config["architectures"] = {"Qwen3_5MoeMTP"}; },
            {"architectures beside Qwen3_5ForCausalLM must be [\"Qwen3_5MTP\"]"}},
           {"hybrid_c10",
            "NB0303",
            [](Directory &d) { d.components["mtp"].target.reset(); },
            {"target must be \"text\", got none"}},
           {"hybrid_c10",
            "NB0303",
            [](Directory &d) { d.components["mtp"].target = "mtp"; },
            {"target must be \"text\", got \"mtp\""}},
           {"selected component missing",
            "NB0308",
            [](Directory &d) { d.components.erase("mtp"); },
            {"component mtp was selected, but the artifact has none", "components: text"}},
           {"hybrid_c11",
            "NB0303",
            [](Directory &d) { d.components["text"].proposal->rows = 49; },
            {"rows must be at most vocab_size (48), got 49"}},
           {"hybrid_c11",
            "NB0304",
            [](Directory &d) { d.components["text"].proposal->rows = 17; },
            {"component proposal", "proposal/head: expected shape [17,128]",
             "proposal/token_ids: expected shape [17]"}},
           {"hybrid_c11",
            "NB0304",
            [](Directory &d) { d.components["text"].proposal->indexed = false; },
            {"extra: proposal/token_ids", "proposal/head: expected shape [48,128]"}},
           {"hybrid_c12",
            "NB0304",
            [&](Directory &d) {
              d.bindings.erase(alog);
              d.bindings.erase(z);
              d.bindings["text/layers/1/gdn/z"] = d.bindings[conv];
              objectOf(d, conv).shape = {128, 4};
            },
            {"missing: text/layers/0/gdn/a_log [4]", "missing: text/layers/0/gdn/z [64,128]",
             "extra: text/layers/1/gdn/z",
             "text/layers/0/gdn/convolution: expected shape [4,128]"}},
           {"hybrid_c12",
            "NB0304",
            [&](Directory &d) { objectOf(d, alog).format = Format::BF16; },
            {"a_log", "must be FP32, got BF16"}},
           {"hybrid_c12",
            "NB0304",
            [&](Directory &d) { objectOf(d, conv).format = Format::FP32; },
            {"convolution", "must be BF16, got FP32"}},
           {"hybrid_c12",
            "NB0304",
            [&](Directory &d) {
              objectOf(d, z).format = Format::I32;
              objectOf(d, z).layout = Layout::ContiguousLeV1;
            },
            {"text/layers/0/gdn/z", "I32"}},
           {"hybrid_c12",
            "NB0304",
            [&](Directory &d) {
              objectOf(d, z).format.reset();
              objectOf(d, z).formatName = "gguf_q4_k";
            },
            {"unregistered format 'gguf_q4_k'"}},
           {"hybrid_c12",
            "NB0304",
            [&](Directory &d) { d.bindings.erase(draft); },
            {"component mtp", "missing: mtp/layers/0/attention/gate [64,128]"}},
           {"hybrid_c12",
            "NB0304",
            [&](Directory &d) { objectOf(d, "proposal/token_ids").format = Format::FP32; },
            {"proposal/token_ids", "must be I32, got FP32"}},
           {"hybrid_c13",
            "NB0305",
            [&](Directory &d) { useOf(d, z).input = "text/layers/0/ffn_input"; },
            {"use (text/layers/0/gdn/z, text/layers/0/ffn_input): expected input "
             "text/layers/0/mixer_input"}},
           {"hybrid_c13",
            "NB0305",
            [&](Directory &d) {
              useOf(d, z).policy.reset();
              useOf(d, "text/layers/0/mlp/up").parameter = alog;
            },
            {"use (text/layers/0/gdn/z, text/layers/0/mixer_input) has no activation_policy",
             "takes no activation", "missing: use (text/layers/0/mlp/up"}},
           {"hybrid_c13",
            "NB0305",
            [&](Directory &d) { useOf(d, draft).policy.reset(); },
            {"component mtp", "has no activation_policy"}},
           {"hybrid_c13",
            "NB0305",
            [](Directory &d) { useOf(d, "proposal/head").input = "mtp/stem_input"; },
            {"expected input mtp/final_hidden"}},
           {"hybrid_c13",
            "NB0305",
            [](Directory &d) {
              std::erase_if(d.uses, [](const Use &u) { return u.parameter == "proposal/head"; });
            },
            {"missing: use (proposal/head, mtp/final_hidden)"}},
           {"hybrid_c14",
            "NB0305",
            [&](Directory &d) { useOf(d, z).auxiliaries["hadamard_signs"] = Binding{}; },
            {"unknown auxiliary role 'hadamard_signs'"}},
           {"hybrid_c14",
            "NB0305",
            [&](Directory &d) { divisor(d, Format::FP32, 2); },
            {"activation_input_divisor must be one element"}},
           {"hybrid_c14",
            "NB0305",
            [&](Directory &d) { divisor(d, Format::BF16, 1); },
            {"activation_input_divisor must be FP32"}}}) {
    Directory d = hybridDirectory(tinyHybridJson());
    c.edit(d);
    auto spec = recogniseModel(d, "m.ninfer", {.mtp = true});
    ASSERT_FALSE(spec.ok()) << c.rule << " " << c.messages[0];
    EXPECT_EQ(spec.error().code, c.code) << spec.error().render();
    const std::string text = spec.error().render();
    EXPECT_NE(text.find("m.ninfer"), std::string::npos);
    for (const char *message : c.messages)
      EXPECT_NE(text.find(message), std::string::npos) << c.rule << "\n" << text;
  }
  Directory good = hybridDirectory(tinyHybridJson());
  divisor(good, Format::FP32, 1);
  auto spec = recogniseModel(good, "m");
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_EQ(spec->find("text/layers/0/mlp/down")->activationInputDivisor->begin, 1u);
}

TEST(HybridRecognise, TheTargetHeadServesDraftsOnlyWithItsUse) {
  Directory d = hybridDirectory(tinyHybridJson(), /*proposal=*/false);
  std::erase_if(d.uses, [](const Use &u) {
    return u.parameter == "text/output_head" && u.input == "mtp/final_hidden";
  });
  auto spec = recogniseModel(d, "m", {.mtp = true});
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().code, "NB0305");
  EXPECT_NE(spec.error().render().find("missing: use (text/output_head, mtp/final_hidden)"),
            std::string::npos);
  EXPECT_TRUE(recogniseModel(d, "m").ok());
}

TEST(HybridRecognise, DispatchNamesAllArchitectures) {
  Directory d = hybridDirectory(tinyHybridJson());
  d.components["text"].config["architectures"] = {"GptOssForCausalLM"};
  auto spec = recogniseModel(d, "m.ninfer");
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().code, "NB0302");
  EXPECT_NE(spec.error().render().find("Qwen3_5MoeForCausalLM"), std::string::npos);
  EXPECT_NE(spec.error().render().find("'GptOssForCausalLM'"), std::string::npos);
}

} // namespace
} // namespace ninfer
