// compressed-tensors checkpoints through the whole converter: every stored code and scale is read
// back by the byte tables of docs/formats.md and compared with the source's bytes.
#include "QuantizedBuilders.h"
#include "artifact/container/Reader.h"
#include "artifact/layouts/Layout.h"
#include "convert/Converter.h"
#include "convert/Report.h"
#include "models/Decoder.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

constexpr const char *kGate = "text/layers/0/mlp/gate";
constexpr const char *kNvfp4 =
    R"({"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16,"symmetric":true})";
constexpr const char *kFp8 =
    R"({"num_bits":8,"type":"float","strategy":"channel","symmetric":true})";
constexpr const char *kOnlyGate = R"(["re:.*gate_proj"])";

struct Case : QuantizedCase {
  void run() { convert(); }
  std::vector<float> values(const std::string &parameter) const {
    auto geometry = artifact->geometry(indexOf(parameter));
    std::vector<float> all(geometry->rows * geometry->k);
    for (uint64_t n = 0; n < geometry->rows; ++n)
      decodeRow(*geometry, objectOf(parameter), n,
                std::span(all).subspan(n * geometry->k, geometry->k));
    return all;
  }
};

std::vector<RawTensor> nvfp4Tensors(uint64_t n, uint64_t k, uint32_t seed, uint32_t divisor) {
  std::string scales = noise(n * k / 16, seed + 1);
  for (char &c : scales)
    c = static_cast<char>(static_cast<uint8_t>(c) % 0x7f); // every legal scale word
  return {{"weight_packed", "U8", {n, k / 2}, noise(n * k / 2, seed)},
          {"weight_scale", "F8_E4M3", {n, k / 16}, scales},
          {"weight_global_scale", "F32", {1}, words32({divisor})}};
}

uint8_t at(const std::string &bytes, uint64_t i) { return static_cast<uint8_t>(bytes[i]); }

TEST(CompressedNvfp4, EveryWordOfEveryMatrixIsTakenOver) {
  Case c;
  c.model.hidden = c.model.intermediate = 256;
  uint32_t seed = 1;
  for (const std::string &module : QuantizedModel::linears()) {
    auto tensors = nvfp4Tensors(256, 256, seed, 0x43000000 + seed);
    tensors.push_back({"input_global_scale", "F32", {1}, words32({0x42000000 + seed})});
    c.model.modules[module] = tensors;
    seed += 10;
  }
  c.model.quantization = compressedConfig("nvfp4-pack-quantized", kNvfp4);
  c.options.policy = ActivationPolicy::AllowA4;
  c.run();
  ASSERT_EQ(c.error, "");
  const std::pair<const char *, const char *> pairs[] = {
      {"self_attn.q_proj", "attention/query"}, {"self_attn.k_proj", "attention/key"},
      {"self_attn.v_proj", "attention/value"}, {"self_attn.o_proj", "attention/output"},
      {"mlp.gate_proj", "mlp/gate"},           {"mlp.up_proj", "mlp/up"},
      {"mlp.down_proj", "mlp/down"}};
  size_t compared = 0;
  for (auto [module, parameter] : pairs) {
    const auto &t = c.model.modules.at(module);
    std::string name = std::string("text/layers/0/") + parameter;
    auto object = c.objectOf(name);
    EXPECT_EQ(nvfp4Divisor(object), wordAt(std::as_bytes(std::span(t[2].bytes)), 0) |
                                        wordAt(std::as_bytes(std::span(t[2].bytes)), 2) << 16);
    for (uint64_t n = 0; n < 256; ++n) {
      for (uint64_t k = 0; k < 256; ++k, ++compared)
        ASSERT_EQ(nvfp4Code(object, n, k, 256),
                  k % 2 ? at(t[0].bytes, (n * 256 + k) / 2) >> 4
                        : at(t[0].bytes, (n * 256 + k) / 2) & 15)
            << name << " " << n << " " << k;
      for (uint64_t g = 0; g < 16; ++g)
        ASSERT_EQ(nvfp4Scale(object, 256, 256, n, g), at(t[1].bytes, n * 16 + g)) << name;
    }
    EXPECT_EQ(c.lineOf(name).provenance, Provenance::Preserved);
    EXPECT_EQ(c.lineOf(name).sourceType, "compressed-tensors nvfp4-pack-quantized");
    EXPECT_EQ(c.lineOf(name).format, Format::NVFP4);
  }
  EXPECT_EQ(compared, 7u * 65536u);
  // What is not quantized stays 16 bit without a recipe.
  EXPECT_EQ(c.lineOf("text/token_embedding").format, Format::BF16);
  EXPECT_EQ(c.report->recipe, "keep");
  EXPECT_EQ(c.report->quantMethod, "compressed-tensors");
  // Each Use names its divisor, bit for bit, and only those uses may go to four bits.
  size_t divisors = 0;
  for (const Use &use : c.artifact->directory().uses) {
    bool packed = use.parameter != "text/output_head";
    EXPECT_EQ(*use.policy, packed ? ActivationPolicy::AllowA4 : ActivationPolicy::AllowA8)
        << use.parameter;
    if (!packed) {
      EXPECT_TRUE(use.auxiliaries.empty());
      continue;
    }
    const RangePart &part = use.auxiliaries.at("activation_input_divisor").parts.at(0);
    auto words = *c.artifact->object(part.object);
    uint32_t word = wordAt(words, 4 * part.begin) | wordAt(words, 4 * part.begin + 2) << 16;
    for (size_t i = 0; i < 7; ++i)
      if (use.parameter == std::string("text/layers/0/") + pairs[i].second) {
        EXPECT_EQ(words32({word}), c.model.modules.at(pairs[i].first)[3].bytes) << use.parameter;
        ++divisors;
      }
  }
  EXPECT_EQ(divisors, 7u);
  EXPECT_TRUE(recogniseModel(c.artifact->directory(), "m").ok());
}

TEST(CompressedNvfp4, TheGlobalFactorIsADivisor) {
  Case c;
  c.model.quantization = compressedConfig("nvfp4-pack-quantized", kNvfp4, kOnlyGate);
  auto gate = [&](const std::string &divisor) {
    c.model.modules["mlp.gate_proj"] = {
        {"weight_packed", "U8", {128, 32}, std::string(128 * 32, '\x77')},
        {"weight_scale", "F8_E4M3", {128, 4}, std::string(128 * 4, '\x38')},
        {"weight_global_scale", "F32", {1}, divisor}};
    c.run();
  };
  gate(f32Bytes({2.0f}));
  ASSERT_EQ(c.error, "");
  EXPECT_EQ(nvfp4Divisor(c.objectOf(kGate)), 0x40000000u);
  for (float v : c.values(kGate))
    ASSERT_EQ(v, 3.0f);
  // Zero, negative, infinite, NaN: no divisor.
  for (uint32_t word : {0u, 0x80000000u, 0xc0000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u}) {
    gate(words32({word}));
    EXPECT_EQ(c.code, "NB0325") << std::hex << word;
    EXPECT_TRUE(c.says("gate_proj.weight_global_scale': 0x")) << c.error;
    EXPECT_FALSE(c.says("no scheme explains")) << c.error; // one fault, one line
    EXPECT_TRUE(c.says("must be finite and positive")) << c.error;
    EXPECT_FALSE(fs::exists(c.out / "m.ninfer") && c.artifact);
  }
  // Both conventions at once.
  gate(f32Bytes({2.0f}));
  c.model.modules["mlp.gate_proj"].push_back({"weight_scale_2", "F32", {1}, f32Bytes({0.5f})});
  c.run();
  EXPECT_EQ(c.code, "NB0325");
  EXPECT_TRUE(c.says("two conventions")) << c.error;
}

TEST(CompressedNvfp4, EveryIllegalScaleByteIsNamed) {
  Case c;
  c.model.quantization = compressedConfig("nvfp4-pack-quantized", kNvfp4, kOnlyGate);
  c.options.dryRun = true;
  for (int byte = 0; byte < 256; ++byte)
    for (bool zeroBlock : {false, true}) {
      std::string codes(128 * 32, '\x77'), scales(128 * 4, '\x38');
      const uint64_t row = 77, group = 2;
      scales[row * 4 + group] = static_cast<char>(byte);
      if (zeroBlock)
        std::fill_n(codes.begin() + static_cast<std::ptrdiff_t>(row * 32 + group * 8), 8, '\0');
      c.model.modules["mlp.gate_proj"] = {{"weight_packed", "U8", {128, 32}, codes},
                                          {"weight_scale", "F8_E4M3", {128, 4}, scales},
                                          {"weight_global_scale", "F32", {}, f32Bytes({1.0f})}};
      c.model.write(c.in.path());
      c.options.source = c.in.path();
      auto result = convertCheckpoint(c.options);
      if (byte < 0x7f) {
        EXPECT_TRUE(result.ok()) << byte << result.error().render();
        continue;
      }
      ASSERT_FALSE(result.ok()) << byte;
      EXPECT_EQ(result.error().code, "NB0326");
      char text[8];
      std::snprintf(text, sizeof text, "0x%02x", byte);
      for (const std::string &part :
           {std::string("tensor 'model.layers.0.mlp.gate_proj.weight_scale'"),
            std::string("row 77 group 2"), std::string("scale byte ") + text})
        EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
    }
}

TEST(CompressedNvfp4, ShapesTheLayoutCannotHoldAreRefusedAndMayBeRequantized) {
  Case c;
  c.model.intermediate = 96;
  c.model.quantization = compressedConfig("nvfp4-pack-quantized", kNvfp4, kOnlyGate);
  c.model.modules["mlp.gate_proj"] = nvfp4Tensors(96, 64, 5, 0x40000000);
  c.run();
  EXPECT_EQ(c.code, "NB0316");
  EXPECT_TRUE(c.says("gate_proj.weight': refused (")) << c.error;
  EXPECT_TRUE(c.says("--requantize")) << c.error;
  c.options.requantize = true;
  c.options.recipe = Recipe::builtIn("bf16");
  c.run();
  ASSERT_EQ(c.error, "");
  EXPECT_EQ(c.lineOf(kGate).provenance, Provenance::Converted);
  EXPECT_EQ(c.lineOf(kGate).profile, "BF16_RNE");
}

/// Legal words, but their value is beyond binary32.
TEST(CompressedNvfp4, InfiniteRepresentedValuesAreRefused) {
  for (const bool requantize : {false, true}) {
    Case c;
    c.options.requantize = requantize;
    c.model.quantization = compressedConfig("nvfp4-pack-quantized", kNvfp4, kOnlyGate);
    auto tensors = nvfp4Tensors(128, 64, 5, 0x00800000); // 2^-126
    tensors[0].bytes.assign(tensors[0].bytes.size(), '\x11'); // 0.5
    tensors[1].bytes.assign(tensors[1].bytes.size(), '\x38'); // 1
    tensors[0].bytes[70 * 32 + 20] = '\x71'; // 6 at row 70, column 41: 6 * 2^126 is infinite
    c.model.modules["mlp.gate_proj"] = tensors;
    c.run();
    EXPECT_EQ(c.code, "NB0317") << c.error;
    EXPECT_TRUE(c.says("tensor 'model.layers.0.mlp.gate_proj.weight_packed' row 70 group 2 column "
                      "41: the represented value is infinite"))
        << c.error;
    // -3 * 2^126 is finite.
    tensors[0].bytes[70 * 32 + 20] = '\xd1';
    c.model.modules["mlp.gate_proj"] = tensors;
    c.options.requantize = false;
    c.run();
    EXPECT_EQ(c.code, "") << c.error;
  }
}

TEST(CompressedFp8, InfiniteRepresentedValuesAreRefused) {
  for (const char code : {'\x7e', '\x3a', '\xba', '\x38'}) { // 448, +-1.25, 1
    Case c;
    c.model.intermediate = 2;
    c.model.quantization = compressedConfig("float-quantized", kFp8, kOnlyGate);
    std::string codes(128, '\x38');
    codes[64 + 9] = code;
    c.model.modules["mlp.gate_proj"] = {{"weight", "F8_E4M3", {2, 64}, codes},
                                        {"weight_scale", "BF16", {2}, words16({0x3f80, 0x7f7f})}};
    c.run();
    if (code == '\x38') {
      EXPECT_EQ(c.code, "") << c.error;
      continue;
    }
    EXPECT_EQ(c.code, "NB0317") << c.error;
    EXPECT_TRUE(c.says("gate_proj.weight' row 1 column 9: the represented value is infinite"))
        << c.error;
  }
}

TEST(CompressedFp8, RowScalesOfBothShapesArePreserved) {
  for (bool column : {false, true})
    for (uint64_t rows : {4u, 64u}) { // 64: square, so a wrong axis would fit
      Case c;
      c.model.intermediate = rows;
      c.model.quantization = compressedConfig("float-quantized", kFp8, kOnlyGate);
      std::string codes;
      for (uint64_t i = 0; i < rows * 64; ++i)
        codes += static_cast<char>(i % 127 + (i % 3 == 0 ? 128 : 0)); // both signs, no NaN
      std::vector<uint16_t> scales;
      for (uint64_t n = 0; n < rows; ++n)
        scales.push_back(static_cast<uint16_t>(0x3f80 + n * 0x80 % 0x600 + n % 7)); // 1, 2, 4, ...
      c.model.modules["mlp.gate_proj"] = {
          {"weight", "F8_E4M3", {rows, 64}, codes},
          {"weight_scale", "BF16",
           column ? std::vector<uint64_t>{rows, 1} : std::vector<uint64_t>{rows}, words16(scales)}};
      c.run();
      ASSERT_EQ(c.error, "");
      auto object = c.objectOf(kGate);
      for (uint64_t n = 0; n < rows; ++n) {
        ASSERT_EQ(fp8Scale(object, rows, 64, n), scales[n]);
        for (uint64_t k = 0; k < 64; ++k)
          ASSERT_EQ(byteAt(object, n * 64 + k), at(codes, n * 64 + k));
      }
      EXPECT_EQ(c.lineOf(kGate).provenance, Provenance::Preserved);
      EXPECT_EQ(c.lineOf(kGate).sourceType, "compressed-tensors float-quantized float8 channel");
    }
}

TEST(CompressedFp8, OtherScaleShapesAreRefused) {
  struct Row {
    uint64_t rows;
    std::vector<uint64_t> shape;
    bool channel, legal; ///< strategy, outcome
  };
  const Row table[] = {
      {4, {4}, true, true},     {4, {4, 1}, true, true},  {4, {1, 4}, true, false},
      {4, {}, true, false},     {4, {1}, true, false},    {4, {2}, true, false},
      {4, {1, 1}, true, false}, {4, {2, 32}, true, false}, {4, {4, 64}, true, false},
      {64, {1, 64}, true, false}, {4, {4}, false, false}, {4, {1, 4}, false, false}};
  for (const Row &row : table) {
    Case c;
    c.model.intermediate = row.rows;
    c.model.quantization = compressedConfig(
        "float-quantized",
        row.channel ? kFp8 : R"({"num_bits":8,"type":"float","strategy":"tensor"})", kOnlyGate);
    uint64_t count = 1;
    for (uint64_t d : row.shape)
      count *= d;
    c.model.modules["mlp.gate_proj"] = {
        {"weight", "F8_E4M3", {row.rows, 64}, std::string(row.rows * 64, '\x38')},
        {"weight_scale", "BF16", row.shape,
         words16(std::vector<uint16_t>(count, 0x3f80))}};
    c.run();
    EXPECT_EQ(c.error.empty(), row.legal) << row.rows << " " << count << "\n" << c.error;
    if (!row.legal) {
      EXPECT_EQ(c.code, "NB0325") << c.error;
      EXPECT_TRUE(c.says("gate_proj.weight_scale")) << c.error;
    }
  }
}

TEST(CompressedFp8, OneScalePerTensorIsWrittenPerRowOnlyWhenAsked) {
  for (const std::vector<uint64_t> &shape :
       {std::vector<uint64_t>{}, std::vector<uint64_t>{1}, std::vector<uint64_t>{1, 1}}) {
    Case c;
    c.model.intermediate = 4;
    c.model.quantization = compressedConfig(
        "float-quantized", R"({"num_bits":8,"type":"float","strategy":"tensor"})", kOnlyGate);
    c.model.modules["mlp.gate_proj"] = {
        {"weight", "F8_E4M3", {4, 64}, std::string(256, '\x38')},
        {"weight_scale", "BF16", shape, words16({0x3fc0})}};
    c.run();
    EXPECT_EQ(c.code, "NB0324");
    EXPECT_TRUE(c.says("gate_proj.weight: refused (one scale per tensor")) << c.error;
    EXPECT_TRUE(c.says("--tensor-scale replicate")) << c.error;
    c.options.imports.replicateTensorScale = true;
    c.run();
    ASSERT_EQ(c.error, "");
    for (uint64_t n = 0; n < 4; ++n)
      EXPECT_EQ(fp8Scale(c.objectOf(kGate), 4, 64, n), 0x3fc0);
    EXPECT_EQ(c.lineOf(kGate).provenance, Provenance::WidenedExactly);
    EXPECT_NE(reportTable(*c.report).find("one scale per tensor, written once per row"),
              std::string::npos);
    EXPECT_NE(c.artifact->directory().provenance.dump().find("written once per row"),
              std::string::npos);
  }
}

TEST(CompressedFp8, WiderScalesNeedToBeBfloat16Values) {
  struct Row {
    std::string dtype, bytes; ///< of two rows
    uint16_t first, second;   ///< stored, when legal
    const char *rule;         ///< else
    const char *code;
  };
  const Row table[] = {
      {"F32", words32({0x3f800000, 0x00400000}), 0x3f80, 0x0040, nullptr, ""},
      {"F32", words32({0x3f800000, 0x3f800001}), 0, 0, "row 1: scale 0x3f800001", "NB0327"},
      {"F32", words32({0x3f808000, 0x3f800000}), 0, 0, "row scale must be bfloat16", "NB0327"},
      {"F16", words16({0x3c00, 0x0001}), 0x3f80, 0x3380, nullptr, ""},
      {"F16", words16({0x3c00, 0x3c01}), 0, 0, "row scale must be bfloat16", "NB0327"},
      {"BF16", words16({0x3f80, 0x7fc0}), 0, 0, "is NaN", "NB0326"},
      {"BF16", words16({0x3f80, 0x7f80}), 0, 0, "is infinite", "NB0326"},
      {"BF16", words16({0x3f80, 0xbf80}), 0, 0, "is negative", "NB0326"},
      {"BF16", words16({0x8000, 0x3f80}), 0, 0, "is negative", "NB0326"},
      {"BF16", words16({0x0000, 0x3f80}), 0, 0, "scale zero", "NB0327"},
  };
  for (const Row &row : table) {
    Case c;
    c.model.intermediate = 2;
    c.model.quantization = compressedConfig("float-quantized", kFp8, kOnlyGate);
    c.model.modules["mlp.gate_proj"] = {{"weight", "F8_E4M3", {2, 64}, std::string(128, '\x38')},
                                        {"weight_scale", row.dtype, {2, 1}, row.bytes}};
    c.run();
    EXPECT_EQ(c.code, row.code) << c.error;
    if (row.rule) {
      EXPECT_TRUE(c.says(row.rule)) << c.error;
      continue;
    }
    EXPECT_EQ(fp8Scale(c.objectOf(kGate), 2, 64, 0), row.first);
    EXPECT_EQ(fp8Scale(c.objectOf(kGate), 2, 64, 1), row.second);
    EXPECT_EQ(c.lineOf(kGate).provenance,
              row.dtype == "F32" ? Provenance::NarrowedExactly : Provenance::WidenedExactly);
  }
  // NaN codes.
  for (char nan : {'\x7f', '\xff'}) {
    Case c;
    c.model.intermediate = 2;
    c.model.quantization = compressedConfig("float-quantized", kFp8, kOnlyGate);
    std::string codes(128, '\x38');
    codes[64 + 9] = nan;
    c.model.modules["mlp.gate_proj"] = {{"weight", "F8_E4M3", {2, 64}, codes},
                                        {"weight_scale", "BF16", {2}, words16({0x3f80, 0x3f80})}};
    c.run();
    EXPECT_EQ(c.code, "NB0326");
    EXPECT_TRUE(c.says("row 1 column 9: code byte 0x")) << c.error;
  }
}

} // namespace
} // namespace ninfer
