// How a quantized checkpoint is recognised: methods by name, the rule each refused one breaks, and
// which modules the schemes of compressed-tensors mean.
#include "QuantizedBuilders.h"
#include "convert/Converter.h"
#include "convert/quantized/CompressedConfig.h"
#include "convert/quantized/Import.h"
#include "convert/quantized/Targets.h"

#include <chrono>
#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

Json parse(const std::string &text) {
  auto value = parseStrictJson(text, "test");
  return value.ok() ? value.take() : Json();
}

/// The error of a config.json with this quantization_config, or the method found.
std::string outcome(const std::string &quantization, const QuantSideFiles &side = {}) {
  Json config = parse(quantization.empty() ? "{}" : R"({"quantization_config":)" + quantization + "}");
  auto found = findQuantization(config, side);
  if (!found.ok())
    return found.error().render();
  return *found ? (*found)->method : "plain";
}

TEST(QuantMethods, EveryKnownMethodIsAcceptedOrRefusedByItsRule) {
  struct Row {
    const char *config;
    const char *answer; ///< method, or the rule in the refusal
  };
  const Row table[] = {
      {"", "plain"},
      {"null", "plain"},
      {R"({"quant_method":"compressed-tensors"})", "compressed-tensors"},
      {R"({"quant_method":"compressed_tensors"})", "compressed-tensors"},
      {R"({"quant_method":"GPTQ","bits":4})", "gptq"},
      {R"({"quant_method":"auto-round","bits":4})", "auto-round"},
      {R"({"quant_method":"modelopt"})", "modelopt"},
      {R"({"quant_method":"modelopt_fp4"})", "modelopt"},
      {R"({"config_groups":{}})", "compressed-tensors"},
      {R"({"quant_method":"awq","bits":4,"zero_point":true})", "zero point"},
      {R"({"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4"})",
       "NF4 is a codebook"},
      {R"({"load_in_4bit":true,"bnb_4bit_quant_type":"fp4"})", "FP4 of bitsandbytes is a codebook"},
      {R"({"quant_method":"bitsandbytes","load_in_8bit":true})", "LLM.int8"},
      {R"({"quant_method":"aqlm","nbits_per_codebook":16})", "codebook"},
      {R"({"quant_method":"vptq"})", "codebook"},
      {R"({"quant_method":"quip"})", "lattice codebooks"},
      {R"({"quant_method":"QuIP#"})", "lattice codebooks"},
      {R"({"quant_method":"higgs"})", "codebooks and Hadamard"},
      {R"({"quant_method":"squeezellm"})", "codebook"},
      {R"({"quant_method":"onebit"})", "one-bit"},
      {R"({"quant_method":"bitnet"})", "ternary"},
      {R"({"quant_method":"spqr"})", "sparse outliers"},
      {R"({"quant_method":"hqq"})", "zero point"},
      {R"({"quant_method":"sinq"})", "two scale vectors"},
      {R"({"quant_method":"eetq"})", "interleaved"},
      {R"({"quant_method":"quanto"})", "quanto"},
      {R"({"quant_method":"torchao"})", "tensor subclasses"},
      {R"({"quant_method":"fp8","weight_block_size":[128,128]})", "scales per block of rows"},
      {R"({"quant_method":"fp8","activation_scheme":"static"})", "row scale must be bfloat16"},
      {R"({"quant_method":"fbgemm_fp8"})", "row scale must be bfloat16"},
      {R"({"quant_method":"mxfp4"})", "E8M0"},
      {R"({"quant_method":"fp_quant"})", "Hadamard"},
      {R"({"quant_method":"quark"})", "Quark"},
      {R"({"quant_method":"exl2","bits":4.65})", "inside a matrix"},
      {R"({"quant_method":"gptq","bits":[2,4,16]})", "mixed widths such as 2/4/16"},
      {R"({"quant_method":"marlin"})", "one GPU kernel"},
      {R"({"quant_method":"gguf"})", "give the .gguf file itself"},
  };
  for (const Row &row : table) {
    std::string answer = outcome(row.config);
    EXPECT_NE(answer.find(row.answer), std::string::npos) << row.config << "\n" << answer;
    bool accepted = answer.find("error[") == std::string::npos;
    if (!accepted) {
      EXPECT_EQ(answer.rfind("error[NB0324]: config.json: quantization_config: ", 0), 0u) << answer;
      EXPECT_NE(answer.find(": refused ("), std::string::npos) << answer;
      EXPECT_NE(answer.find("help: convert the original"), std::string::npos) << answer;
    }
  }
}

TEST(QuantMethods, UnknownAndBrokenConfigs) {
  EXPECT_EQ(outcome("{}"),
            "error[NB0323]: config.json: quantization_config must not be empty\n");
  EXPECT_EQ(outcome("[]").rfind(
                "error[NB0323]: config.json: quantization_config must be an object, got ", 0),
            0u)
      << outcome("[]");
  std::string unknown = outcome(R"({"quant_method":"zip"})");
  EXPECT_EQ(unknown.rfind("error[NB0329]: config.json: quantization_config: unknown quant_method "
                          "\"zip\"",
                          0),
            0u)
      << unknown;
  for (const char *text : {"{}", "[]", "3", "\"gptq\"", R"({"bits":4})", R"({"quant_method":4})",
                           R"({"quant_method":""})"})
    EXPECT_EQ(outcome(text).rfind("error[NB0323]", 0), 0u) << text << outcome(text);
  auto both = findQuantization(
      parse(R"({"quantization_config":{"quant_method":"gptq"},"compression_config":{"quant_method":"gptq"}})"),
      {});
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.error().code, "NB0323");
}

TEST(QuantMethods, OtherPlacesOfTheConfig) {
  auto old = findQuantization(
      parse(R"({"compression_config":{"quant_method":"compressed-tensors","format":"dense"}})"), {});
  ASSERT_TRUE(old.ok());
  EXPECT_EQ((*old)->where, "config.json: compression_config");
  auto quip = findQuantization(parse(R"({"quip_params":{"codebook":"E8P12"}})"), {});
  ASSERT_FALSE(quip.ok());
  EXPECT_NE(quip.error().message.find("lattice"), std::string::npos);
  QuantSideFiles side;
  side["hf_quant_config.json"] = parse(R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8"}})");
  EXPECT_EQ(outcome("", side), "modelopt");
  side.clear();
  side["quantize_config.json"] = parse(R"({"bits":4,"group_size":128,"desc_act":false,"sym":true})");
  EXPECT_EQ(outcome("", side), "gptq");
  side.clear();
  side["quant_config.json"] = parse(R"({"zero_point":true,"q_group_size":128,"w_bit":4})");
  EXPECT_NE(outcome("", side).find("quant_config.json: awq: refused"), std::string::npos);
  // config.json comes first.
  EXPECT_EQ(outcome(R"({"quant_method":"gptq","bits":4})", side), "gptq");
}

TEST(QuantMethods, ASideFileMustNotContradictTheConfig) {
  const std::string gptq =
      R"({"quant_method":"gptq","bits":4,"group_size":128,"sym":true,"desc_act":false})";
  EXPECT_EQ(outcome(gptq, {{"quantize_config.json", parse(R"({"bits":4,"group_size":128,"sym":true,"meta":{}})")}}),
            "gptq");
  for (const char *other : {R"({"bits":8})", R"({"bits":4,"group_size":64})", R"({"sym":false})",
                            R"({"desc_act":true})"}) {
    const std::string error = outcome(gptq, {{"quantize_config.json", parse(other)}});
    EXPECT_NE(error.find("NB0323"), std::string::npos) << other << ": " << error;
    EXPECT_NE(error.find("but quantize_config.json says"), std::string::npos) << error;
  }
  const std::string error =
      outcome(R"({"quant_method":"modelopt","quant_algo":"NVFP4"})",
              {{"hf_quant_config.json", parse(R"({"quantization":{"quant_algo":"FP8"}})")}});
  EXPECT_NE(error.find("hf_quant_config.json says \"FP8\""), std::string::npos) << error;
}

TEST(QuantMethods, ARefusedMethodIsToldBeforeAnyTensorIsRead) {
  TempFolder in;
  QuantizedModel model;
  model.quantization = R"({"quant_method":"awq","bits":4})";
  model.write(in.path());
  fs::remove(in / "model.safetensors");
  ConvertOptions options;
  options.source = in.path();
  options.dryRun = true;
  auto result = convertCheckpoint(options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, "NB0324");
  EXPECT_EQ(result.error().kind, ErrorKind::Unsupported);
}

SourceModule linear(const std::string &name) { return {name, {"Linear", "Module"}, {4, 4}, false}; }

TEST(QuantTargets, NamesClassesAndExpressions) {
  struct Row {
    const char *entry, *module;
    bool matches;
  };
  const Row table[] = {
      {"Linear", "model.layers.0.mlp.up_proj", true},
      {"Module", "model.layers.0.mlp.up_proj", true},
      {"linear", "model.layers.0.mlp.up_proj", false},
      {"Embedding", "model.layers.0.mlp.up_proj", false},
      {"lm_head", "lm_head", true},
      {"lm_head", "model.lm_head", false},
      {"up_proj", "model.layers.0.mlp.up_proj", false},
      {"model.layers.0.mlp", "model.layers.0.mlp.up_proj", false}, // a name is matched whole
      {"re:.*up_proj", "model.layers.0.mlp.up_proj", true},
      {"re:up_proj", "model.layers.0.mlp.up_proj", false}, // an expression from the start
      {"re:model.layers.0", "model.layers.0.mlp.up_proj", true}, // but not to the end
      {"re:model\\.layers\\.1\\.", "model.layers.10.mlp.up_proj", false},
      {"re:.*layers.1", "model.layers.10.mlp.up_proj", true},
      {"re:.*mlp$", "model.layers.0.mlp.up_proj", false},
      {"re:.*layers\\.(1|2|3)\\.", "model.layers.2.mlp.up_proj", true},
      {"re:(?!.*up).*proj$", "model.layers.2.mlp.up_proj", false},
      {"re:", "anything", true},
      {"re:Linear", "model.layers.0.mlp.up_proj", false}, // never a class
  };
  for (const Row &row : table) {
    auto list = TargetList::parse(Json::array({row.entry}), "test");
    ASSERT_TRUE(list.ok()) << list.error().render();
    auto match = list->match(linear(row.module));
    ASSERT_TRUE(match.ok());
    EXPECT_EQ(*match != nullptr, row.matches) << row.entry << " on " << row.module;
  }
}

TEST(QuantTargets, HostileExpressionsAreBounded) {
  auto refused = [](const Json &value) {
    auto list = TargetList::parse(value, "config.json: ignore");
    if (!list.ok())
      return list.error().code;
    auto start = std::chrono::steady_clock::now();
    auto match = list->match(linear("model.layers.0.self_attn.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    return match.ok() ? std::string() : match.error().code;
  };
  EXPECT_EQ(refused(Json::array({"re:.*(a+)+$"})), "NB0328");
  EXPECT_EQ(refused(Json::array({"re:(a|.)*(a|.)*(a|.)*!!"})), "NB0328");
  EXPECT_EQ(refused(Json::array({"re:(?R)"})), "NB0328"); // endless recursion
  // 2^16 ways: far beyond the limit, though PCRE2's own (ten million) would let it finish.
  auto list = TargetList::parse(Json::array({"re:(a+)+$"}), "config.json: ignore");
  ASSERT_TRUE(list.ok());
  EXPECT_FALSE(list->match(linear(std::string(16, 'a') + "!")).ok());
  EXPECT_TRUE(list->match(linear(std::string(6, 'a') + "!")).ok());
  EXPECT_EQ(refused(Json::array({"re:(("})), "NB0328");
  EXPECT_EQ(refused(Json::array({"re:((((a{1000}){1000}){1000}){1000})"})), "NB0328");
  EXPECT_EQ(refused(Json::array({"re:" + std::string(5000, 'a')})), "NB0328");
  EXPECT_EQ(refused(Json(std::vector<std::string>(257, "re:a"))), "NB0328");
  EXPECT_EQ(refused(Json::array({3})), "NB0323");
  EXPECT_EQ(refused(Json("Linear")), "NB0323");
  EXPECT_EQ(refused(Json::array({""})), "NB0323");
  EXPECT_EQ(refused(Json::array({"re:.*proj$", "lm_head"})), "");
}

/// Converts a model whose gate and up are int8 with row scales, under the given config.
std::string convertWith(const std::string &quantization,
                        const std::function<void(QuantizedModel &)> &edit = [](QuantizedModel &) {}) {
  TempFolder in;
  QuantizedModel model;
  model.hidden = model.intermediate = 64;
  for (const char *module : {"mlp.gate_proj", "mlp.up_proj"})
    model.modules[module] = {{"weight", "I8", {64, 64}, std::string(64 * 64, '\5')},
                             {"weight_scale", "F16", {64, 1}, words16(std::vector<uint16_t>(64, 0x3c00))}};
  model.quantization = quantization;
  edit(model);
  model.write(in.path());
  ConvertOptions options;
  options.source = in.path();
  options.dryRun = true;
  auto result = convertCheckpoint(options);
  return result.ok() ? "" : result.error().render();
}

std::string group(const std::string &name, const std::string &targets,
                  const std::string &weights = R"({"num_bits":8,"strategy":"channel"})") {
  return "\"" + name + R"(":{"targets":)" + targets + R"(,"weights":)" + weights + "}";
}
std::string withGroups(const std::string &groups, const std::string &ignore = "[]",
                       const std::string &more = "") {
  return R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{)" +
         groups + R"(},"ignore":)" + ignore + more + "}";
}

TEST(QuantSchemes, EachMatrixHasExactlyTheSchemeThatExplainsIt) {
  const std::string both = R"(["re:.*gate_proj","re:.*up_proj"])";
  EXPECT_EQ(convertWith(withGroups(group("a", both))), "");
  EXPECT_EQ(convertWith(withGroups(group("a", R"(["re:.*gate_proj"])") + "," +
                                   group("b", R"(["model.layers.0.mlp.up_proj"])"))),
            "");
  // All Linear, minus what is ignored.
  EXPECT_EQ(convertWith(withGroups(group("a", R"(["Linear"])"),
                                   R"(["re:.*self_attn.*","re:.*down_proj$","lm_head"])")),
            "");
  auto expect = [](const std::string &error, std::initializer_list<const char *> parts) {
    EXPECT_EQ(error.rfind("error[NB0325]", 0), 0u) << error;
    for (const char *part : parts)
      EXPECT_NE(error.find(part), std::string::npos) << part << "\n" << error;
  };
  // Two schemes, even when they agree.
  expect(convertWith(withGroups(group("first", both) + "," + group("second", R"(["re:.*up_proj$"])"))),
         {"'model.layers.0.mlp.up_proj' is matched by two schemes: group 'first' and group "
          "'second'"});
  expect(convertWith(withGroups(group("first", R"(["Linear"])") + "," + group("second", both),
                                R"(["re:.*self_attn.*","re:.*down_proj$","lm_head"])")),
         {"matched by two schemes"});
  // A scheme for nothing.
  expect(convertWith(withGroups(group("a", both) + "," + group("vision", R"(["re:visual.*"])"))),
         {"group 'vision' (int8 channel) matches no weight of the model"});
  // A packed weight nothing explains.
  expect(convertWith(withGroups(group("a", R"(["re:.*gate_proj"])"))),
         {"no scheme explains tensor 'model.layers.0.mlp.up_proj.weight_scale'"});
  expect(convertWith(withGroups(group("a", both), R"(["model.layers.0.mlp.up_proj"])")),
         {"no scheme explains tensor 'model.layers.0.mlp.up_proj.weight_scale'"});
  // A scheme over a plain weight: both missing components of every such matrix.
  expect(convertWith(withGroups(group("a", R"(["Linear"])"))),
         {"missing: tensor 'model.layers.0.self_attn.q_proj.weight_scale' of group 'a'"});
  // Types and shapes.
  expect(convertWith(withGroups(group("a", both)),
                     [](QuantizedModel &m) { m.modules["mlp.up_proj"][0].dtype = "U8"; }),
         {"must be I8 [N,64]"});
  expect(convertWith(withGroups(group("a", both)),
                     [](QuantizedModel &m) {
                       m.modules["mlp.up_proj"][1].shape = {1, 64};
                     }),
         {"weight_scale' must be F16, BF16 or F32 [64,1], got F16 [1,64]"});
}

TEST(QuantSchemes, WhatTheConfigAloneRefuses) {
  const std::string both = R"(["re:.*gate_proj","re:.*up_proj"])";
  struct Row {
    std::string config;
    const char *code, *text;
  };
  auto format = [&](const std::string &name, const std::string &weights) {
    return R"({"quant_method":"compressed-tensors","format":")" + name +
           R"(","config_groups":{)" + group("a", both, weights) + "}}";
  };
  const std::string int8 = R"({"num_bits":8,"strategy":"channel"})";
  const Row table[] = {
      {format("marlin-24", int8), "NB0324", "sparse storage"},
      {format("sparse-24-bitmask", int8), "NB0324", "sparse storage"},
      {format("mxfp4-pack-quantized", int8), "NB0324", "E8M0"},
      {format("dense", int8), "NB0324", "stored unpacked"},
      {format("zip-quantized", int8), "NB0324", "unknown storage format"},
      {format("mixed-precision", int8), "NB0323", "names no format"},
      {format("float-quantized", int8), "NB0323", "contradicts int8 channel"},
      {format("pack-quantized", R"({"num_bits":8,"type":"float","strategy":"channel"})"), "NB0323",
       "contradicts float8 channel"},
      {format("nvfp4-pack-quantized", int8), "NB0323", "expected float4 tensor_group 16"},
      {format("naive-quantized", R"({"num_bits":6,"type":"float","strategy":"channel"})"),
       "NB0324", "only float8 and NVFP4"},
      {format("int-quantized", R"({"num_bits":8,"strategy":"group"})"), "NB0323",
       "needs a positive group_size"},
      {format("int-quantized", R"({"num_bits":8,"strategy":"channel","group_size":32})"), "NB0323",
       "contradicts strategy channel"},
      {format("int-quantized", R"({"num_bits":8,"strategy":"diagonal"})"), "NB0323",
       "unknown strategy"},
      {format("int-quantized", R"({"num_bits":8.0,"strategy":"channel"})"), "NB0323", "num_bits"},
      {format("int-quantized", R"({"num_bits":8,"offset":1,"strategy":"channel"})"), "NB0323",
       "unknown member 'offset'"},
      {withGroups(group("a", both), "[]", R"(,"sparsity_config":{"format":"sparse-bitmask"})"),
       "NB0324", "sparse storage"},
      {withGroups(group("a", both), "[]", R"(,"transform_config":{"config_groups":{"u":{}}})"),
       "NB0324", "transforms"},
      {withGroups(group("a", both), "\"lm_head\""), "NB0323", "ignore must be an array"},
      {R"({"quant_method":"compressed-tensors","config_groups":{}})", "NB0323", "config_groups"},
      {R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"W9":["Linear"]}})",
       "NB0323", "preset"},
  };
  for (const Row &row : table) {
    std::string error = convertWith(row.config);
    EXPECT_EQ(error.rfind(std::string("error[") + row.code, 0), 0u) << row.config << "\n" << error;
    EXPECT_NE(error.find(row.text), std::string::npos) << row.text << "\n" << error;
  }
  // Neutral members and presets.
  EXPECT_EQ(convertWith(withGroups(group("a", both), "null",
                                   R"(,"sparsity_config":{"format":"dense"},"transform_config":{},)"
                                   R"("kv_cache_scheme":{"num_bits":8},"version":"0.9")")),
            "");
  EXPECT_EQ(convertWith(R"({"quant_method":"compressed-tensors","format":"int-quantized",)"
                        R"("config_groups":{"W8A8":["re:.*gate_proj","re:.*up_proj"]}})"),
            "");
  // A scheme without weights leaves them plain.
  EXPECT_EQ(convertWith(withGroups(group("a", both) + "," +
                                   group("cache", R"(["re:.*self_attn$"])", "null"))),
            "");
}

} // namespace
} // namespace ninfer
