// The vision tower: its stored config, its inventory, and its recognition in framing 3.
#include "HybridConfigs.h"
#include "models/Bind.h"
#include "models/Vision.h"

#include <cmath>
#include <gtest/gtest.h>

namespace ninfer {
namespace {

VisionConfig tiny(bool moe = false) { return {moe, 2, 48, 64, 4, 4, 2, 2, 49}; }

TEST(VisionConfig, ReadsBackWhatItWrites) {
  for (bool moe : {false, true})
    for (const VisionConfig &config : {tiny(moe), publishedVision(moe)}) {
      auto parsed = parseVisionConfig(toJson(config), "m", moe);
      ASSERT_TRUE(parsed.ok()) << parsed.error().render();
      EXPECT_EQ(*parsed, config);
    }
  EXPECT_EQ(tiny().headDim(), 12);
  EXPECT_EQ(tiny().patchWidth(), 96);
  EXPECT_EQ(tiny().mergedWidth(), 192);
  EXPECT_EQ(tiny().positionSide(), 7);
  const std::vector<double> frequencies = publishedVision(false).ropeInverseFrequencies();
  ASSERT_EQ(frequencies.size(), 18u);
  for (int i = 0; i < 18; ++i)
    EXPECT_DOUBLE_EQ(frequencies[size_t(i)], std::pow(10000.0, -2.0 * i / 36));
}

TEST(VisionConfig, EveryRuleIsNamed) {
  struct Case {
    const char *rule, *member;
    Json value;
    const char *says;
  };
  for (const Case &c : std::initializer_list<Case>{
           {"vision_c1", "color", 3, "unknown member 'color'"},
           {"vision_c1", "depth", Json(), "member depth is missing"},
           {"vision_c2", "model_type", "qwen3_5_moe_vision", "model_type must be \"qwen3_5_vision\""},
           {"vision_c3", "depth", 0, "depth"},
           {"vision_c3", "patch_size", 1025, "patch_size"},
           {"vision_c3", "num_heads", "4", "num_heads"},
           {"vision_c4", "num_heads", 5, "hidden_size must be num_heads times a multiple of 4, got 48 and 5"},
           {"vision_c4", "num_heads", 24, "hidden_size must be num_heads times a multiple of 4, got 48 and 24"},
           {"vision_c5", "num_position_embeddings", 50, "num_position_embeddings must be a square, got 50"}}) {
    Json json = toJson(tiny());
    if (c.value.is_null())
      json.erase(c.member);
    else
      json[c.member] = c.value;
    auto parsed = parseVisionConfig(json, "m", false);
    ASSERT_FALSE(parsed.ok()) << c.rule;
    EXPECT_EQ(parsed.error().code, "NB0303");
    EXPECT_NE(parsed.error().message.find(c.says), std::string::npos) << parsed.error().message;
  }
  EXPECT_FALSE(parseVisionConfig(Json::array(), "m", false).ok());
}

/// Text and tower of one object per parameter, matrices Q4.
Directory directoryWithTower(const Json &text, const VisionConfig &vision) {
  Directory d;
  d.components["text"].config = text;
  d.components["vision"].config = toJson(vision);
  const HybridConfig config = *parseHybridConfig(text, "m");
  std::vector<ParameterSpec> all = hybridInventory(config);
  for (ParameterSpec &p : visionInventory(vision, config.hiddenSize))
    all.push_back(std::move(p));
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
    if (p.input.empty())
      continue;
    Use use;
    use.parameter = p.name;
    use.input = p.input;
    use.policy = ActivationPolicy::AllowA8;
    d.uses.push_back(use);
  }
  return d;
}

TEST(VisionRecognise, BindsTheSelectedTower) {
  for (bool moe : {false, true}) {
    const Directory d =
        directoryWithTower(moe ? testing::tinyMoeJson() : testing::tinyHybridJson(), tiny(moe));
    auto spec = recogniseModel(d, "m", {.vision = true});
    ASSERT_TRUE(spec.ok()) << spec.error().render();
    EXPECT_EQ(*spec->vision, tiny(moe));
    EXPECT_TRUE(spec->notes.empty());
    EXPECT_EQ(spec->parameters.size(), d.objects.size());
    const ParameterSpec *fc2 = spec->find("vision/merger/fc2");
    ASSERT_NE(fc2, nullptr);
    EXPECT_EQ(fc2->shape, (std::vector<uint64_t>{128, 192}));
    EXPECT_EQ(fc2->policy, ActivationPolicy::AllowA8);
    auto without = recogniseModel(d, "m");
    ASSERT_TRUE(without.ok());
    EXPECT_FALSE(without->vision);
    EXPECT_EQ(without->notes.size(), 1u);
  }
}

TEST(VisionRecognise, FaultsAreListed) {
  const Directory good = directoryWithTower(testing::tinyHybridJson(), tiny());
  auto refusal = [](const Directory &d) {
    auto spec = recogniseModel(d, "m", {.vision = true});
    EXPECT_FALSE(spec.ok());
    return spec.ok() ? std::string() : spec.error().render();
  };
  Directory d = good;
  d.components.erase("vision");
  EXPECT_NE(refusal(d).find("NB0308]: m: component vision was selected, but the artifact has none"),
            std::string::npos) << refusal(d);
  d = good;
  d.bindings.erase("vision/layers/1/norm2_bias");
  EXPECT_NE(refusal(d).find("missing: vision/layers/1/norm2_bias [48]"), std::string::npos) << refusal(d);
  d = good;
  d.bindings["vision/layers/2/norm1_bias"] = d.bindings["vision/layers/1/norm1_bias"];
  EXPECT_NE(refusal(d).find("extra: vision/layers/2/norm1_bias"), std::string::npos) << refusal(d);
  d = good;
  std::erase_if(d.uses, [](const Use &use) { return use.parameter == "vision/merger/fc1"; });
  EXPECT_NE(refusal(d).find("missing: use (vision/merger/fc1, vision/merger/input)"), std::string::npos)
      << refusal(d);
  d = good;
  d.components["vision"].config["depth"] = 3;
  EXPECT_NE(refusal(d).find("vision/layers/2/attention/query"), std::string::npos) << refusal(d);
}

} // namespace
} // namespace ninfer
