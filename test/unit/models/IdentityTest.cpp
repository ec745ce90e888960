// The closed inventories of framings 1 and 2: object counts, formats and sizes of the published
// files, bindings of fused parents, and every kind of difference.
#include "models/Identity.h"
#include "models/Vision.h"

#include "HybridConfigs.h"
#include "artifact/layouts/Layout.h"
#include "models/Bind.h"

#include <functional>
#include <gtest/gtest.h>
#include <set>

namespace ninfer {
namespace {

using testing::modelConfig;

/// A directory with exactly the objects of an inventory, in its order, offsets as a writer gives.
Directory directoryOf(const StoredModel &model, bool companion = false) {
  Directory d;
  d.framing = 2;
  d.identity = Identity{model.modelId, model.weightsId};
  uint64_t cursor = 0;
  for (const StoredTensor &tensor : model.tensors) {
    ObjectEntry object;
    object.id = tensor.name;
    object.shape = tensor.shape;
    object.format = tensor.format;
    object.layout = layoutOf(tensor.format);
    object.formatName = canonicalName(tensor.format);
    object.layoutName = canonicalName(*object.layout);
    auto geometry = encodedGeometry(tensor.format, *object.layout, tensor.shape);
    EXPECT_TRUE(geometry.ok()) << tensor.name << geometry.error().render();
    object.offset = (cursor + 255) / 256 * 256;
    object.bytes = geometry->totalBytes;
    cursor = object.offset + object.bytes;
    d.objects.push_back(object);
  }
  auto resource = [&](const std::string &id) {
    ObjectEntry object;
    object.id = id;
    object.isTensor = false;
    object.offset = cursor;
    object.bytes = 1;
    cursor += 1;
    d.objects.push_back(object);
  };
  for (const std::string &id : model.resources)
    resource(id);
  for (uint64_t i = 0; companion && i < model.companionTensors; ++i) {
    resource(model.companion + "/" + std::to_string(i));
    d.objects.back().isTensor = true;
  }
  return d;
}

StoredModel storedOf(const std::string &modelId, const std::string &weightsId) {
  return *storedModel(Identity{modelId, weightsId});
}

struct Published {
  const char *modelId, *weightsId;
  size_t objects;                   ///< without a companion
  size_t companionObjects;          ///< with it, 0: none exists
  uint64_t fileBytes;               ///< without a companion
  std::map<Format, size_t> formats; ///< empty: not published
};

const std::vector<Published> &published() {
  using enum Format;
  static const std::vector<Published> files = {
      {"qwen3.6-27b",
       "groupwise-int",
       1124,
       0,
       17495365888,
       {{BF16, 582},
        {FP32, 96},
        {I32, 1},
        {Q4G64_F16S, 183},
        {Q5G64_F16S, 246},
        {Q6G64_F16S, 3},
        {W8G32_F16S, 7}}},
      {"qwen3.6-27b",
       "nvfp4",
       1307,
       0,
       18324064000,
       {{BF16, 591},
        {FP32, 343},
        {I32, 1},
        {Q4G64_F16S, 55},
        {Q5G64_F16S, 54},
        {Q6G64_F16S, 1},
        {W8G32_F16S, 9},
        {NVFP4, 247}}},
      {"qwen3.8-27b", "groupwise-int", 1124, 1190, 18210531328, {}},
      {"qwen3.8-27b", "nvfp4", 1124, 1190, 21492695040, {}},
      {"qwen3.6-35b-a3b", "groupwise-int", 889, 940, 22373184256, {}}};
  return files;
}

TEST(Identity, ObjectsFormatsAndSizesEqualThePublishedFiles) {
  EXPECT_EQ(knownIdentities().size(), published().size());
  for (const Published &file : published()) {
    const StoredModel model = storedOf(file.modelId, file.weightsId);
    EXPECT_EQ(model.tensors.size() + model.resources.size(), file.objects) << file.modelId;
    EXPECT_EQ(model.resources.size(), 6u);
    if (file.companionObjects) {
      EXPECT_EQ(file.objects + model.companionTensors, file.companionObjects) << file.modelId;
    } else {
      EXPECT_EQ(model.companion, "");
    }
    std::map<Format, size_t> formats;
    std::set<std::string> names;
    uint64_t payload = 0;
    for (const StoredTensor &tensor : model.tensors) {
      ++formats[tensor.format];
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      auto geometry = encodedGeometry(tensor.format, layoutOf(tensor.format), tensor.shape);
      ASSERT_TRUE(geometry.ok()) << tensor.name;
      payload += (geometry->totalBytes + 255) / 256 * 256;
    }
    if (!file.formats.empty()) {
      EXPECT_EQ(formats, file.formats) << file.modelId << " " << file.weightsId;
    }
    // What is left of the file is the tokenizer (12.83 MB in the one file whose payload size is
    // published) and the directory.
    EXPECT_GT(file.fileBytes, payload + 12'800'000) << file.modelId << " " << file.weightsId;
    EXPECT_LT(file.fileBytes, payload + 13'100'000) << file.modelId << " " << file.weightsId;
    if (std::string(file.weightsId) == "nvfp4" && file.objects == 1307) {
      EXPECT_EQ(18323855104 - payload, 12833536u);
    }
  }
}

TEST(Identity, ExceptionsOfTheRecipesAreInTheirLayers) {
  auto layersWith = [](const StoredModel &model, const std::string &end, Format format) {
    std::set<int> layers;
    for (const StoredTensor &tensor : model.tensors)
      if (tensor.name.starts_with("text/layers/") && tensor.name.ends_with(end) &&
          tensor.format == format)
        layers.insert(std::stoi(tensor.name.substr(12)));
    return layers;
  };
  const StoredModel nvfp4 = storedOf("qwen3.6-27b", "nvfp4");
  EXPECT_EQ(layersWith(nvfp4, "attention/query_key_gate_value", Format::BF16),
            (std::set<int>{3, 7, 11, 15, 19, 23}));
  EXPECT_EQ(layersWith(nvfp4, "attention/output", Format::BF16), (std::set<int>{3, 7}));
  EXPECT_EQ(layersWith(nvfp4, "gdn/output", Format::BF16), (std::set<int>{4}));
  const StoredModel later = storedOf("qwen3.8-27b", "nvfp4");
  EXPECT_EQ(layersWith(later, "mlp/down", Format::FP8_E4M3FN_ROW_BF16S),
            (std::set<int>{56, 57, 58, 59, 60, 61, 62, 63}));
  const StoredModel moe = storedOf("qwen3.6-35b-a3b", "groupwise-int");
  EXPECT_EQ(layersWith(moe, "moe/routed_down", Format::Q6G64_F16S), (std::set<int>{34, 38, 39}));
}

TEST(Identity, ConfigsAreTheOfficialDimensions) {
  for (const auto &[model, row] : std::vector<std::pair<const char *, const char *>>{
           {"qwen3.6-27b", "27B"}, {"qwen3.8-27b", "27B"}, {"qwen3.6-35b-a3b", "35B-A3B"}}) {
    HybridConfig expected = modelConfig(row);
    expected.rmsNormEps = static_cast<double>(1e-6f);
    auto config = configOfIdentity({model, "groupwise-int"});
    ASSERT_TRUE(config);
    EXPECT_EQ(toJson(*config).dump(), toJson(expected).dump());
    EXPECT_EQ(*config, expected);
    EXPECT_TRUE(checkHybridConfig(*config, model, true).ok());
  }
  EXPECT_FALSE(configOfIdentity({"qwen3.6-35b-a3b", "nvfp4"}));
  EXPECT_FALSE(configOfIdentity({"qwen3.7-27b", "groupwise-int"}));
}

TEST(Identity, ParameterTotalsEqualThePublishedOnes) {
  auto total = [](const std::vector<StoredTensor> &tensors, auto keep) {
    uint64_t sum = 0;
    for (const StoredTensor &tensor : tensors)
      if (keep(tensor))
        sum += elementCount(tensor.shape);
    return sum;
  };
  for (const auto &[hidden, expected] :
       {std::pair(4096, 456010480u), std::pair(5120, 460730096u), std::pair(2048, 446571248u)}) {
    uint64_t sum = 0;
    for (const ParameterSpec &p : visionInventory(publishedVision(false), hidden))
      sum += elementCount(p.shape);
    EXPECT_EQ(sum, expected) << hidden;
  }
  // Text, MTP and vision; the draft head is a copy of rows, the divisors belong to the format.
  auto own = [](const StoredTensor &t) {
    return !t.name.starts_with("text/draft_head") && t.divisorOf.empty();
  };
  for (const char *weights : {"groupwise-int", "nvfp4"})
    for (const char *model : {"qwen3.6-27b", "qwen3.8-27b"})
      EXPECT_EQ(total(storedOf(model, weights).tensors, own), 27781427952u) << model << weights;
  EXPECT_EQ(total(storedOf("qwen3.6-35b-a3b", "groupwise-int").tensors, own), 35951822704u);
}

/// "object [first row, last row)" of a parameter.
std::string rowsOf(const ModelSpec &spec, const Directory &d, const std::string &parameter) {
  const ParameterSpec *p = spec.find(parameter);
  if (!p || p->binding.parts.size() != 1)
    return parameter + " is not one range";
  const RangePart &part = p->binding.parts[0];
  const uint64_t columns = p->shape.back();
  EXPECT_EQ(part.end - part.begin, elementCount(p->shape)) << parameter;
  return d.objects[part.object].id + " " + std::to_string(part.begin / columns) + ".." +
         std::to_string(part.end / columns);
}

TEST(Identity, BindsRowsOfTheFusedParents) {
  struct Case {
    const char *model, *weights, *parameter, *rows;
  };
  const char *gi = "groupwise-int", *a = "qwen3.6-27b", *b = "qwen3.8-27b", *m = "qwen3.6-35b-a3b";
  for (const Case &c : std::vector<Case>{
           {a, gi, "text/layers/3/attention/query", "text/layers/3/attention/query_key 0..6144"},
           {a, gi, "text/layers/3/attention/key", "text/layers/3/attention/query_key 6144..7168"},
           {a, gi, "text/layers/3/attention/gate", "text/layers/3/attention/gate_value 0..6144"},
           {a, gi, "text/layers/3/attention/value",
            "text/layers/3/attention/gate_value 6144..7168"},
           {a, gi, "text/layers/0/gdn/key", "text/layers/0/gdn/query_key 2048..4096"},
           {a, gi, "text/layers/0/gdn/z", "text/layers/0/gdn/value_z 6144..12288"},
           {a, gi, "text/layers/0/gdn/b_projection", "text/layers/0/gdn/b_projection 0..48"},
           {a, gi, "text/layers/63/mlp/up", "text/layers/63/mlp/gate_up 17408..34816"},
           {a, gi, "proposal/head", "text/draft_head 0..131072"},
           {a, gi, "mtp/layers/0/attention/value",
            "mtp/layer/attention/query_key_gate_value 13312..14336"},
           {a, "nvfp4", "text/layers/3/attention/gate",
            "text/layers/3/attention/query_key_gate_value 7168..13312"},
           {a, "nvfp4", "text/layers/0/gdn/z", "text/layers/0/gdn/query_key_value_z 10240..16384"},
           {a, "nvfp4", "text/layers/0/gdn/a_projection", "text/layers/0/gdn/a_projection 0..48"},
           {b, "nvfp4", "text/layers/0/gdn/b_projection",
            "text/layers/0/gdn/a_b_projection 48..96"},
           {b, gi, "text/layers/0/gdn/query", "text/layers/0/gdn/query_key 0..2048"},
           {m, gi, "text/layers/3/attention/key",
            "text/layers/3/attention/query_key_gate_value 4096..4608"},
           {m, gi, "text/layers/3/attention/gate",
            "text/layers/3/attention/query_key_gate_value 4608..8704"},
           {m, gi, "text/layers/3/attention/value",
            "text/layers/3/attention/query_key_gate_value 8704..9216"},
           {m, gi, "text/layers/0/gdn/b_projection", "text/layers/0/gdn/a_b_projection 32..64"},
           {m, gi, "text/layers/0/moe/shared_score",
            "text/layers/0/moe/router_shared_gate 256..257"},
           {m, gi, "text/layers/0/moe/experts/7/gate",
            "text/layers/0/moe/routed_gate_up 7168..7680"},
           {m, gi, "text/layers/0/moe/experts/255/up",
            "text/layers/0/moe/routed_gate_up 261632..262144"},
           {m, gi, "text/layers/0/moe/experts/255/down",
            "text/layers/0/moe/routed_down 522240..524288"},
           {m, gi, "text/layers/0/moe/shared/up", "text/layers/0/moe/shared_gate_up 512..1024"},
           {m, gi, "mtp/layers/0/moe/experts/1/up", "mtp/layer/moe/routed_gate_up 1536..2048"}}) {
    const Directory d = directoryOf(storedOf(c.model, c.weights));
    auto spec = recogniseModel(d, "m.ninfer", {.mtp = true});
    ASSERT_TRUE(spec.ok()) << spec.error().render();
    EXPECT_EQ(rowsOf(*spec, d, c.parameter), c.rows);
  }
}

TEST(Identity, BindsTheVisionTower) {
  for (const Identity &identity : knownIdentities()) {
    const Directory d = directoryOf(*storedModel(identity));
    auto spec = recogniseModel(d, "m", {.vision = true});
    ASSERT_TRUE(spec.ok()) << spec.error().render();
    ASSERT_TRUE(spec->vision);
    EXPECT_EQ(*spec->vision, publishedVision(spec->hybridConfig().moe.has_value()));
    const uint64_t text = hybridInventorySize(spec->hybridConfig());
    EXPECT_EQ(spec->parameters.size(), text + 3 + 27 * 16 + 6);
    struct Row {
      const char *parameter, *object;
      uint64_t begin, end;
      Format format;
    };
    const uint64_t h = 1152, square = h * h;
    for (const Row &row : std::initializer_list<Row>{
             {"vision/patch_embedding", "vision/patch_embedding", 0, h * 1536, Format::Q6G64_F16S},
             {"vision/position_embedding", "vision/position_embedding", 0, 2304 * h, Format::BF16},
             {"vision/layers/3/attention/query", "vision/layers/3/attention/qkv", 0, square, Format::Q4G64_F16S},
             {"vision/layers/3/attention/value", "vision/layers/3/attention/qkv", 2 * square, 3 * square, Format::Q4G64_F16S},
             {"vision/layers/3/attention/key_bias", "vision/layers/3/attention/qkv_bias", h, 2 * h, Format::BF16},
             {"vision/layers/26/attention/output", "vision/layers/26/attention/output", 0, square, Format::Q5G64_F16S},
             {"vision/layers/26/mlp/fc1_bias", "vision/layers/26/mlp/fc1_bias", 0, 4304, Format::BF16},
             {"vision/layers/26/norm2_bias", "vision/layers/26/norm2/bias", 0, h, Format::BF16},
             {"vision/merger/norm_weight", "vision/merger/norm/weight", 0, h, Format::BF16},
             {"vision/merger/fc1", "vision/merger/fc1", 0, 16 * square, Format::W8G32_F16S}}) {
      const ParameterSpec *p = spec->find(row.parameter);
      ASSERT_NE(p, nullptr) << row.parameter;
      ASSERT_EQ(p->binding.parts.size(), 1u);
      const RangePart &part = p->binding.parts[0];
      EXPECT_EQ(d.objects[part.object].id, row.object);
      EXPECT_EQ(part.begin, row.begin) << row.parameter;
      EXPECT_EQ(part.end, row.end) << row.parameter;
      EXPECT_EQ(d.objects[part.object].format, row.format) << row.parameter;
      EXPECT_EQ(p->policy, ActivationPolicy::A16Only);
    }
    for (const std::string &note : spec->notes)
      EXPECT_EQ(note.find("component vision"), std::string::npos) << note;
  }
}

TEST(Identity, EveryParameterIsBoundOnce) {
  for (const Published &file : published()) {
    const StoredModel model = storedOf(file.modelId, file.weightsId);
    const Directory d = directoryOf(model);
    auto spec = recogniseModel(d, "m.ninfer", {.mtp = true});
    ASSERT_TRUE(spec.ok()) << spec.error().render();
    EXPECT_EQ(spec->parameters.size(),
              hybridInventory(model.config).size() + mtpInventory(model.config).size() + 2);
    std::map<std::pair<uint32_t, uint64_t>, uint64_t> ranges; // (object, begin) -> end
    for (const ParameterSpec &p : spec->parameters) {
      ASSERT_EQ(p.binding.parts.size(), 1u) << p.name;
      const RangePart &part = p.binding.parts[0];
      EXPECT_EQ(part.end - part.begin, elementCount(p.shape)) << p.name;
      EXPECT_EQ(d.objects[part.object].shape.back(), p.shape.back()) << p.name;
      EXPECT_TRUE(ranges.emplace(std::make_pair(part.object, part.begin), part.end).second);
      EXPECT_EQ(p.binding.whole, d.objects[part.object].shape == p.shape) << p.name;
    }
    // Every tensor of text and mtp is covered from its first to its last element.
    for (size_t i = 0; i < d.objects.size(); ++i) {
      const ObjectEntry &object = d.objects[i];
      if (!object.isTensor || object.id.starts_with("vision/") ||
          object.id.ends_with("input_scale_divisor"))
        continue;
      uint64_t cursor = 0;
      for (auto it = ranges.lower_bound({static_cast<uint32_t>(i), 0});
           it != ranges.end() && it->first.first == i; ++it) {
        EXPECT_EQ(it->first.second, cursor) << object.id;
        cursor = it->second;
      }
      EXPECT_EQ(cursor, elementCount(object.shape)) << object.id;
    }
    EXPECT_EQ(spec->mtp->head, "proposal/head");
    EXPECT_EQ(spec->mtp->rows, 131072u);
    EXPECT_EQ(spec->resources.size(), 6u);
    EXPECT_EQ(spec->notes, (std::vector<std::string>{
                               "component vision is not selected; 333 objects left unread"}));
  }
}

TEST(Identity, PoliciesAndDivisorsFollowTheFormats) {
  for (const Published &file : published()) {
    const StoredModel model = storedOf(file.modelId, file.weightsId);
    const Directory d = directoryOf(model);
    auto spec = recogniseModel(d, "m", {.mtp = true});
    ASSERT_TRUE(spec.ok());
    const bool later = std::string(file.modelId) == "qwen3.8-27b";
    std::set<uint32_t> divisors;
    for (const ParameterSpec &p : spec->parameters) {
      const ObjectEntry &object = d.objects[p.binding.parts[0].object];
      ActivationPolicy expected = ActivationPolicy::A16Only;
      if (!p.input.empty() && object.format == Format::NVFP4)
        expected = ActivationPolicy::AllowA4;
      if (!p.input.empty() && object.format == Format::FP8_E4M3FN_ROW_BF16S && later)
        expected = ActivationPolicy::AllowA8;
      EXPECT_EQ(p.policy, expected) << p.name;
      EXPECT_EQ(p.activationInputDivisor.has_value(), object.format == Format::NVFP4) << p.name;
      if (p.activationInputDivisor)
        divisors.insert(p.activationInputDivisor->object);
    }
    size_t stored = 0;
    for (const StoredTensor &tensor : model.tensors)
      stored += !tensor.divisorOf.empty();
    EXPECT_EQ(divisors.size(), stored);
    if (std::string(file.weightsId) == "nvfp4") {
      EXPECT_EQ(stored, later ? 112u : 247u);
      const ParameterSpec *down = spec->find("text/layers/0/mlp/down");
      EXPECT_EQ(d.objects[down->activationInputDivisor->object].id,
                "text/layers/0/mlp/down_projection/input_scale_divisor");
    }
  }
}

ObjectEntry &find(Directory &d, const std::string &id) {
  for (ObjectEntry &object : d.objects)
    if (object.id == id)
      return object;
  throw std::out_of_range(id);
}

TEST(Identity, ListsEveryDifference) {
  struct Case {
    const char *code;
    std::function<void(Directory &)> edit;
    std::vector<const char *> messages;
  };
  const char *norm = "text/layers/3/input_norm", *head = "text/output_head";
  for (const Case &c : std::vector<Case>{
           {"NB0307",
            [&](Directory &d) {
              find(d, norm).id = "text/layers/3/input_layernorm";
              find(d, head).shape = {248319, 5120};
              find(d, "text/layers/0/gdn/a_log").format = Format::BF16;
              find(d, "frontend/tokenizer.json").id = "frontend/tokenizer.model";
            },
            {"m.ninfer", "'qwen3.6-27b' / 'groupwise-int'",
             "missing: text/layers/3/input_norm [5120] BF16",
             "extra: text/layers/3/input_layernorm",
             "text/output_head: expected shape [248320,5120], got [248319,5120]",
             "text/layers/0/gdn/a_log: expected format FP32, got BF16",
             "missing: resource frontend/tokenizer.json", "extra: frontend/tokenizer.model"}},
           {"NB0307",
            [&](Directory &d) { find(d, "vision/layers/26/norm2/bias").shape = {1153}; },
            {"vision/layers/26/norm2/bias: expected shape [1152], got [1153]"}},
           {"NB0307",
            [&](Directory &d) { find(d, head).isTensor = false; },
            {"text/output_head: expected a tensor, got a resource"}},
           {"NB0307",
            [&](Directory &d) { find(d, "frontend/chat_template.jinja").isTensor = true; },
            {"frontend/chat_template.jinja: expected a resource, got a tensor"}},
           {"NB0307",
            [&](Directory &d) { find(d, head).format = Format::W8G32_F16S; },
            {"text/output_head: expected format Q6G64_F16S, got W8G32_F16S"}},
           {"NB0307",
            [&](Directory &d) { find(d, head).layout = Layout::RowScaleV1; },
            {"text/output_head: format", "is not registered"}},
           {"NB0307",
            [&](Directory &d) {
              ObjectEntry draft = find(d, norm);
              draft.id = "dflash/context_norm";
              d.objects.push_back(draft);
            },
            {"extra: dflash/context_norm"}},
           {"NB0306",
            [&](Directory &d) { d.identity->modelId = "qwen3.6-28b"; },
            {"unknown model identity 'qwen3.6-28b' / 'groupwise-int' (framing 2)",
             "known identities: 'qwen3.6-27b' / 'groupwise-int', 'qwen3.6-27b' / 'nvfp4'"}},
           {"NB0306", [&](Directory &d) { d.identity->weightsId = "fp8"; }, {"'fp8'"}}}) {
    Directory d = directoryOf(storedOf("qwen3.6-27b", "groupwise-int"));
    c.edit(d);
    auto spec = recogniseModel(d, "m.ninfer");
    ASSERT_FALSE(spec.ok()) << c.messages[0];
    EXPECT_EQ(spec.error().code, c.code) << spec.error().render();
    for (const char *message : c.messages)
      EXPECT_NE(spec.error().render().find(message), std::string::npos) << spec.error().render();
  }
}

TEST(Identity, AnotherModelsObjectsAreListedWithTheirNumber) {
  Directory d = directoryOf(storedOf("qwen3.6-27b", "nvfp4"));
  d.identity->weightsId = "groupwise-int";
  auto spec = recogniseModel(d, "m");
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().notes.size(), 65u); // 64 and the number of the others
  EXPECT_NE(spec.error().notes.back().find(" more"), std::string::npos);
}

TEST(Identity, Framing1HasNoWeightsId) {
  Directory d = directoryOf(storedOf("qwen3.6-35b-a3b", "groupwise-int"));
  d.framing = 1;
  d.identity->weightsId.clear();
  auto spec = recogniseModel(d, "m");
  ASSERT_TRUE(spec.ok()) << spec.error().render();
  EXPECT_EQ(spec->architecture(), "Qwen3_5MoeForCausalLM");
}

TEST(Identity, DivisorsMayBeScalarsOrVectorsOfOne) {
  Directory d = directoryOf(storedOf("qwen3.8-27b", "nvfp4"));
  find(d, "text/layers/0/mlp/down_projection/input_scale_divisor").shape = {1};
  EXPECT_TRUE(recogniseModel(d, "m").ok());
  find(d, "text/layers/0/mlp/down_projection/input_scale_divisor").shape = {2};
  EXPECT_FALSE(recogniseModel(d, "m").ok());
}

TEST(Identity, FormatsThatAreNotEstablishedMayBeAnyMatrixFormat) {
  Directory d = directoryOf(storedOf("qwen3.8-27b", "groupwise-int"));
  auto set = [&](const char *id, Format format) {
    find(d, id).format = format;
    find(d, id).layout = layoutOf(format);
  };
  set("text/layers/0/mlp/down", Format::Q6G64_F16S);
  EXPECT_TRUE(recogniseModel(d, "m").ok());
  // An integer identity asks for 16-bit activations, whatever the words are.
  for (Format format : {Format::FP8_E4M3FN_ROW_BF16S, Format::NVFP4}) {
    set("text/layers/0/mlp/down", format);
    auto spec = recogniseModel(d, "m");
    ASSERT_TRUE(spec.ok()) << spec.error().render();
    EXPECT_EQ(spec->find("text/layers/0/mlp/down")->policy, ActivationPolicy::A16Only);
  }
  set("text/layers/0/mlp/down", Format::I32);
  EXPECT_FALSE(recogniseModel(d, "m").ok());
  set("text/layers/0/mlp/down", Format::Q5G64_F16S);
  set("text/layers/0/gdn/convolution", Format::FP32);
  EXPECT_FALSE(recogniseModel(d, "m").ok());
}

TEST(Identity, ACompanionIsCountedAndLeftUnread) {
  for (const char *id : {"qwen3.6-35b-a3b", "qwen3.8-27b"}) {
    const StoredModel model = storedOf(id, "groupwise-int");
    Directory d = directoryOf(model, /*companion=*/true);
    auto spec = recogniseModel(d, "m");
    ASSERT_TRUE(spec.ok()) << spec.error().render();
    EXPECT_EQ(spec->notes[0], "component " + model.companion + " is not selected; " +
                                  std::to_string(model.companionTensors) + " objects left unread");
    EXPECT_EQ(spec->notes.size(), 4u);
    d.objects.pop_back();
    auto fewer = recogniseModel(d, "m");
    ASSERT_FALSE(fewer.ok());
    EXPECT_NE(fewer.error().render().find("objects or none, got"), std::string::npos);
  }
}

} // namespace
} // namespace ninfer
