// ModelOpt checkpoints through the whole converter: the multiplier of NVFP4 and its divisor, block
// scales, FP8 scale shapes, configs. Objects are read by the byte tables of docs/formats.md.
#include "QuantizedBuilders.h"
#include "artifact/container/Reader.h"
#include "artifact/layouts/Layout.h"
#include "convert/Converter.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

constexpr const char *kGate = "text/layers/0/mlp/gate"; // [128, 64]

std::string
config(const std::string &algorithm, const std::string &more = "",
       const std::string &ignore = R"(["lm_head","*self_attn*","*mlp.up*","*.down_proj"])") {
  return R"({"quant_method":"modelopt","quant_algo":")" + algorithm + R"(","ignore":)" + ignore +
         more + "}";
}

struct Case : QuantizedCase {
  /// All codes 0x7 (6.0), all scales 0x38 (1.0).
  std::vector<RawTensor> &nvfp4(float multiplier, const std::string &more = "") {
    model.quantization = config("NVFP4", more);
    return model.modules["mlp.gate_proj"] = {
               {"weight", "U8", {128, 32}, std::string(4096, 0x77)},
               {"weight_scale", "F8_E4M3", {128, 4}, std::string(512, 0x38)},
               {"weight_scale_2", "F32", {}, f32Bytes({multiplier})}};
  }
  std::vector<RawTensor> &fp8(const std::string &algorithm, std::vector<uint64_t> shape,
                              const std::vector<float> &scales) {
    model.quantization = config(algorithm);
    std::string codes;
    for (int i = 0; i < 128 * 64; ++i)
      codes += static_cast<char>((i % 127) | (i % 3 ? 0 : 0x80));
    return model.modules["mlp.gate_proj"] = {{"weight", "F8_E4M3", {128, 64}, codes},
                                             {"weight_scale", "F32", shape, f32Bytes(scales)}};
  }
  Case &run() {
    convert();
    return *this;
  }
  std::span<const std::byte> object() const { return objectOf(kGate); }
  const TensorReport &line() const { return lineOf(kGate); }
};

std::vector<float> values(Case &c) {
  auto geometry = c.artifact->geometry(c.indexOf(kGate));
  std::vector<float> out(geometry->rows * geometry->k);
  for (uint64_t n = 0; n < geometry->rows; ++n)
    decodeRow(*geometry, c.object(), n, std::span(out).subspan(n * geometry->k, geometry->k));
  return out;
}

uint32_t ulps(float a, float b) {
  auto x = std::bit_cast<uint32_t>(a), y = std::bit_cast<uint32_t>(b);
  return x > y ? x - y : y - x;
}

bool mentions(const std::vector<std::string> &texts, const std::string &text) {
  for (const std::string &t : texts)
    if (t.find(text) != std::string::npos)
      return true;
  return false;
}

// --- the multiplier ---

TEST(ModelOptNvfp4, AHalfBecomesTheDivisorTwo) {
  Case c;
  c.nvfp4(0.5f);
  c.run();
  ASSERT_TRUE(c.artifact) << c.error;
  EXPECT_EQ(nvfp4Divisor(c.object()), 0x40000000u);
  for (float v : values(c))
    ASSERT_EQ(v, 3.0f);
  EXPECT_EQ(c.line().provenance, Provenance::WidenedExactly);
  EXPECT_TRUE(mentions(c.line().remarks, "derived, not bit-copied"));
  EXPECT_TRUE(mentions(c.line().remarks, "relative error 0"));
}

TEST(ModelOptNvfp4, ATenthIsDerivedWithItsErrorStated) {
  Case c;
  c.nvfp4(0.1f);
  c.run();
  ASSERT_TRUE(c.artifact) << c.error;
  EXPECT_EQ(nvfp4Divisor(c.object()), 0x41200000u); // 10
  for (float v : values(c))
    ASSERT_LE(ulps(v, 6.0f * 0.1f), 1u);
  EXPECT_EQ(c.line().provenance, Provenance::Converted);
  EXPECT_TRUE(mentions(c.line().remarks, "derived, not bit-copied"));
  EXPECT_TRUE(mentions(c.line().remarks, "relative error 1.49e-08"));
  EXPECT_TRUE(mentions(c.report->notes, "largest relative error 1.49e-08"));
}

/// Every code and scale under many multipliers: the nearest reciprocal, and every value within one
/// unit of the last place of the multiplier form rounded once.
TEST(ModelOptNvfp4, EveryValueIsWithinOneUlpOfTheMultiplierForm) {
  uint32_t seed = 99, worst = 0;
  for (int round = 0; round < 24; ++round) {
    seed = seed * 1664525u + 1013904223u;
    const float m = std::ldexp(1.0f + static_cast<float>(seed >> 9) * 0x1p-23f, -20 + round);
    Case c;
    std::vector<RawTensor> &tensors = c.nvfp4(m);
    for (size_t i = 0; i < 4096; ++i)
      tensors[0].bytes[i] = static_cast<char>(i % 8 * 2 | (i % 8 * 2 + 1) << 4);
    for (size_t i = 0; i < 512; ++i)
      tensors[1].bytes[i] = static_cast<char>(i % 127);
    c.run();
    ASSERT_TRUE(c.artifact) << c.error;
    const float d = std::bit_cast<float>(nvfp4Divisor(c.object()));
    auto error = [&](float x) { return std::fabs(1.0 / double(m) - double(x)); };
    EXPECT_LE(error(d), error(std::nextafter(d, 0.0f)));
    EXPECT_LE(error(d), error(std::nextafter(d, INFINITY)));
    std::vector<float> got = values(c);
    constexpr float kE2m1[] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                               -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (size_t i = 0; i < got.size(); ++i) {
      const uint8_t s = static_cast<uint8_t>(tensors[1].bytes[i / 16]);
      const float scale =
          s < 8 ? std::ldexp(float(s), -9) : std::ldexp(float(8 + s % 8), (s >> 3) - 10);
      const uint8_t code = static_cast<uint8_t>(tensors[0].bytes[i / 2]) >> (4 * (i % 2)) & 15;
      const float want = static_cast<float>(double(kE2m1[code]) * scale * m);
      ASSERT_EQ(nvfp4Code(c.object(), i / 64, i % 64, 64), code);
      ASSERT_EQ(nvfp4Scale(c.object(), 128, 64, i / 64, i % 64 / 16), s);
      worst = std::max(worst, ulps(got[i], want));
      ASSERT_LE(ulps(got[i], want), 1u) << m << " code " << int(code) << " scale " << int(s);
    }
  }
  EXPECT_EQ(worst, 1u); // the bound is reached, so it says something
}

TEST(ModelOptNvfp4, TwoConventionsForOneWeightAreRefused) {
  for (const char *name : {"weight_global_scale", "input_global_scale", "weight_packed",
                           "weight_scale_inv", "qweight"}) {
    Case c;
    c.nvfp4(0.5f).push_back({name, "F32", {1}, f32Bytes({2.0f})});
    c.run();
    EXPECT_EQ(c.code, "NB0325") << c.error;
    EXPECT_TRUE(c.says(std::string("gate_proj.") + name)) << c.error;
  }
}

TEST(ModelOptNvfp4, MultipliersThatAreNone) {
  for (const char *name : {"weight_scale_2", "input_scale"})
    for (float bad : {0.0f, -0.0f, -0.5f, INFINITY, -INFINITY, NAN, 0x1p-149f, 0x1p-130f,
                      0x1.8p126f, 0x1.fp127f}) {
      Case c;
      std::vector<RawTensor> &tensors = c.nvfp4(0.5f);
      if (std::string(name) == "input_scale")
        tensors.push_back({name, "F32", {}, f32Bytes({bad})});
      else
        tensors[2].bytes = f32Bytes({bad});
      c.run();
      EXPECT_EQ(c.code, "NB0325") << bad << c.error;
      EXPECT_EQ(c.kind, ErrorKind::BadFile);
      EXPECT_TRUE(c.says(std::string("gate_proj.") + name)) << c.error;
    }
  Case c;
  c.nvfp4(0.5f)[2] = {"weight_scale_2", "F32", {2}, f32Bytes({0.5f, 0.5f})};
  c.run();
  EXPECT_EQ(c.code, "NB0325") << c.error;
  c.nvfp4(0.5f).pop_back();
  c.run();
  EXPECT_EQ(c.code, "NB0325") << c.error;
  EXPECT_TRUE(c.says("weight_scale_2")) << c.error;
  c.nvfp4(0.5f)[2].shape = {1}; // a vector of one is a scalar too
  c.run();
  EXPECT_EQ(c.code, "") << c.error;
}

TEST(ModelOptNvfp4, InputScaleBecomesTheActivationDivisor) {
  Case c;
  c.nvfp4(0.5f).push_back({"input_scale", "F32", {}, f32Bytes({0.25f})});
  c.run();
  ASSERT_TRUE(c.artifact) << c.error;
  bool found = false;
  for (const Use &use : c.artifact->directory().uses)
    if (use.parameter == kGate) {
      const RangePart &part = use.auxiliaries.at("activation_input_divisor").parts.at(0);
      EXPECT_EQ(wordAt(*c.artifact->object(part.object), 4 * part.begin + 2), 0x4080); // 4.0
      found = true;
    }
  EXPECT_TRUE(found);
  EXPECT_TRUE(mentions(c.line().remarks, "activation divisor"));
}

// --- block scales ---

TEST(ModelOptNvfp4, EveryScaleByteOnAZeroBlockAndElsewhere) {
  for (bool zeroBlock : {false, true})
    for (int byte = 0; byte < 256; ++byte) {
      Case c;
      std::vector<RawTensor> &tensors = c.nvfp4(0.5f);
      const uint64_t row = 77, group = 2;
      tensors[1].bytes[row * 4 + group] = static_cast<char>(byte);
      if (zeroBlock)
        for (int i = 0; i < 8; ++i)
          tensors[0].bytes[row * 32 + group * 8 + static_cast<uint64_t>(i)] = 0;
      c.options.dryRun = byte % 16 != 0; // the check is the same; few files are written
      c.run();
      if (byte < 0x7f) {
        EXPECT_EQ(c.code, "") << byte << c.error;
        continue;
      }
      EXPECT_EQ(c.code, "NB0326") << byte;
      EXPECT_EQ(c.kind, ErrorKind::BadFile);
      char text[8];
      std::snprintf(text, sizeof text, "0x%02x", byte);
      EXPECT_TRUE(c.says("gate_proj.weight_scale' row 77 group 2")) << c.error;
      EXPECT_TRUE(c.says(text)) << c.error;
    }
}

TEST(ModelOptNvfp4, ShapesAndTypes) {
  auto refused = [](const std::function<void(std::vector<RawTensor> &)> &edit) {
    Case c;
    edit(c.nvfp4(0.5f));
    c.run();
    EXPECT_EQ(c.code, "NB0325") << c.error;
  };
  refused([](auto &t) { t[0].dtype = "I8"; });
  refused([](auto &t) { t[0].shape = {4096}; });
  refused([](auto &t) { t[1].shape = {4, 128}; });
  refused([](auto &t) { t[1].shape = {512}; });
  refused([](auto &t) { t[1].dtype = "U8"; });
}

// --- FP8 ---

TEST(ModelOptFp8, RowScalesThatAreBfloat16AreNarrowedExactly) {
  std::vector<float> scales;
  for (int n = 0; n < 128; ++n)
    scales.push_back(std::ldexp(1.0f + static_cast<float>(n) / 128, n % 7 - 9));
  for (std::vector<uint64_t> shape : {std::vector<uint64_t>{128}, {128, 1}}) {
    Case c;
    std::vector<RawTensor> &tensors = c.fp8("FP8_PER_CHANNEL_PER_TOKEN", shape, scales);
    c.run();
    ASSERT_TRUE(c.artifact) << c.error;
    EXPECT_EQ(c.line().provenance, Provenance::NarrowedExactly);
    for (uint64_t n = 0; n < 128; ++n) {
      ASSERT_EQ(uint32_t(fp8Scale(c.object(), 128, 64, n)) << 16,
                std::bit_cast<uint32_t>(scales[n]));
      for (uint64_t k = 0; k < 64; ++k)
        ASSERT_EQ(byteAt(c.object(), n * 64 + k),
                  static_cast<uint8_t>(tensors[0].bytes[n * 64 + k]));
    }
  }
  Case c;
  scales[93] = 0.1f;
  c.fp8("FP8_PER_CHANNEL_PER_TOKEN", {128}, scales);
  c.run();
  EXPECT_EQ(c.code, "NB0327") << c.error;
  EXPECT_TRUE(c.says("row 93")) << c.error;
  EXPECT_TRUE(c.says("row scale must be bfloat16")) << c.error;
}

TEST(ModelOptFp8, ScaleShapes) {
  struct Row {
    const char *algorithm;
    std::vector<uint64_t> shape;
    bool replicate;
    const char *code;
  };
  const char *tensor = "FP8", *rows = "FP8_PER_CHANNEL_PER_TOKEN";
  for (const Row &row :
       {Row{tensor, {}, false, "NB0324"}, Row{tensor, {1}, false, "NB0324"},
        Row{tensor, {}, true, ""}, Row{tensor, {1}, true, ""}, Row{tensor, {1, 1}, true, ""},
        Row{tensor, {2}, true, "NB0325"}, Row{tensor, {128}, true, "NB0325"},
        Row{rows, {}, true, "NB0325"}, Row{rows, {1}, true, "NB0325"},
        Row{rows, {2}, true, "NB0325"}, Row{rows, {1, 128}, true, "NB0325"},
        Row{rows, {64}, true, "NB0325"}, Row{rows, {128, 2}, true, "NB0325"},
        Row{rows, {128}, false, ""}, Row{rows, {128, 1}, false, ""}}) {
    uint64_t count = 1;
    for (uint64_t d : row.shape)
      count *= d;
    Case c;
    c.fp8(row.algorithm, row.shape, std::vector<float>(count, 0.25f));
    c.options.imports.replicateTensorScale = row.replicate;
    c.run();
    EXPECT_EQ(c.code, row.code) << row.algorithm << row.shape.size() << c.error;
    if (!c.code.empty())
      continue;
    for (uint64_t n = 0; n < 128; ++n)
      ASSERT_EQ(fp8Scale(c.object(), 128, 64, n), 0x3e80);
    if (std::string(row.algorithm) == tensor) {
      EXPECT_TRUE(mentions(c.line().remarks, "written once per row"));
    }
  }
}

TEST(ModelOptFp8, OneScaleIsRefusedWithTheOptionThatAcceptsIt) {
  Case c;
  c.fp8("FP8", {}, {0.25f});
  c.run();
  EXPECT_EQ(c.code, "NB0324");
  EXPECT_TRUE(c.says("\n  help: --tensor-scale replicate writes the one scale")) << c.error;
}

TEST(ModelOptNvfp4, AMultiplierThatGivesInfiniteValuesIsRefused) {
  Case c;
  c.nvfp4(8e37f); // 6 * 8e37 is beyond binary32, its reciprocal is normal
  c.run();
  EXPECT_EQ(c.code, "NB0317") << c.error;
  EXPECT_TRUE(c.says("row 0 group 0 column 0: the represented value is infinite")) << c.error;
}

TEST(ModelOptFp8, NanCodesAreRefusedAndInputScalesIgnored) {
  for (uint8_t word : {uint8_t(0x7f), uint8_t(0xff)}) {
    Case c;
    c.fp8("FP8_PER_CHANNEL_PER_TOKEN", {128}, std::vector<float>(128, 0.5f))[0].bytes[65] =
        static_cast<char>(word);
    c.run();
    EXPECT_EQ(c.code, "NB0326") << c.error;
    EXPECT_TRUE(c.says("row 1 column 1")) << c.error;
  }
  Case c;
  c.fp8("FP8", {}, {0.5f}).push_back({"input_scale", "F32", {}, f32Bytes({0.25f})});
  c.options.imports.replicateTensorScale = true;
  c.model.more = {{"model.layers.0.self_attn.k_proj.k_scale", "F32", {}, f32Bytes({1.0f})}};
  c.run();
  ASSERT_TRUE(c.artifact) << c.error;
  EXPECT_TRUE(mentions(c.report->notes, "scales of FP8 activations are ignored"));
  EXPECT_TRUE(mentions(c.report->notes, "key/value cache"));
}

// --- configs ---

TEST(ModelOptConfig, AlgorithmsByName) {
  for (const char *name :
       {"NVFP4_AWQ", "NVFP4_SVD", "W4A16_AWQ", "W4A8_AWQ", "INT8_SQ", "W8A16", "FP8_PB_WO", "MXFP8",
        "W4A8_MXFP4_FP8", "W4A8_NVFP4_FP8", "QUX", "nvfp4"}) {
    Case c;
    c.nvfp4(0.5f);
    c.model.quantization = config(name);
    c.run();
    EXPECT_EQ(c.code, "NB0324") << name << c.error;
    EXPECT_TRUE(c.says(name)) << c.error;
  }
  for (const char *bad :
       {R"({"quant_method":"modelopt"})", R"({"quant_method":"modelopt","quant_algo":4})",
        R"({"quant_method":"modelopt","quant_algo":"NVFP4","ignore":"lm_head"})",
        R"({"quant_method":"modelopt","quant_algo":"MIXED_PRECISION"})"}) {
    Case c;
    c.nvfp4(0.5f);
    c.model.quantization = bad;
    c.run();
    EXPECT_EQ(c.code, "NB0323") << bad << c.error;
  }
  Case c;
  c.nvfp4(0.5f);
  c.model.quantization = config("NVFP4", R"(,"group_size":32)");
  c.run();
  EXPECT_EQ(c.code, "NB0324") << c.error;
  c.model.quantization = config("W4A16_NVFP4", R"(,"group_size":16)");
  c.run();
  EXPECT_EQ(c.code, "") << c.error;
}

TEST(ModelOptConfig, IgnoredModulesAndTensorsMustAgree) {
  Case c;
  c.nvfp4(0.5f);
  c.model.quantization = config("NVFP4", "", R"(["*"])"); // everything ignored, the gate quantized
  c.run();
  EXPECT_EQ(c.code, "NB0325") << c.error;
  c.model.quantization = config("NVFP4", "", R"(["lm_head","model.layers.0.self_attn","*down*"])");
  c.run(); // up_proj is neither ignored nor quantized
  EXPECT_EQ(c.code, "NB0325") << c.error;
  EXPECT_TRUE(c.says("up_proj.weight_scale")) << c.error;
  c.model.quantization =
      config("NVFP4", "",
             R"(["lm_head","model.layers.0.self_attn","*down*","model.layers.?.mlp.up_proj"])");
  c.run();
  EXPECT_EQ(c.code, "") << c.error;
}

TEST(ModelOptConfig, MixedPrecisionAndSideFile) {
  Case c;
  c.nvfp4(0.5f);
  const std::string layers =
      R"("quant_algo":"MIXED_PRECISION","quantized_layers":{"model.layers.0.mlp.gate_proj":{"quant_algo":"NVFP4","group_size":16},"model.layers.0.mlp.up_proj":{"quant_algo":"FP8_PER_CHANNEL_PER_TOKEN"}})";
  std::vector<RawTensor> gate = c.model.modules["mlp.gate_proj"];
  c.fp8("FP8_PER_CHANNEL_PER_TOKEN", {128}, std::vector<float>(128, 0.5f));
  c.model.modules["mlp.up_proj"] = c.model.modules["mlp.gate_proj"];
  c.model.modules["mlp.gate_proj"] = gate;
  c.model.quantization = R"({"quant_method":"modelopt",)" + layers + "}";
  c.run();
  ASSERT_TRUE(c.artifact) << c.error;
  EXPECT_EQ(nvfp4Divisor(c.object()), 0x40000000u);
  // The same from hf_quant_config.json alone.
  c.model.quantization = "";
  writeBytes(c.in / "hf_quant_config.json",
             R"({"producer":{"name":"modelopt","version":"0.29.0"},"quantization":{)" + layers +
                 "}}");
  c.run();
  ASSERT_TRUE(c.artifact) << c.error;
  EXPECT_EQ(nvfp4Divisor(c.object()), 0x40000000u);
}

TEST(ModelOptConfig, PreQuantScaleIsRefused) {
  Case c;
  c.nvfp4(0.5f).push_back({"pre_quant_scale", "BF16", {64}, std::string(128, 0)});
  c.run();
  EXPECT_EQ(c.code, "NB0324") << c.error;
  EXPECT_TRUE(c.says("pre_quant_scale")) << c.error;
}

} // namespace
} // namespace ninfer
