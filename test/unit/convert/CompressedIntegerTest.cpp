// Integer forms of compressed-tensors (pack-quantized, int-quantized, naive-quantized): where their
// codes and scales move exactly into Q4G64_F16S and W8G32_F16S, and where not.
#include "QuantizedBuilders.h"
#include "artifact/container/Reader.h"
#include "artifact/layouts/Layout.h"
#include "convert/Converter.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

constexpr const char *kGate = "text/layers/0/mlp/gate";
constexpr const char *kOnlyGate = R"(["model.layers.0.mlp.gate_proj"])";

std::string intArgs(int bits, const std::string &rest) {
  return R"({"type":"int","num_bits":)" + std::to_string(bits) + "," + rest + "}";
}
std::string groupArgs(int bits, uint64_t group) {
  return intArgs(bits, R"("strategy":"group","group_size":)" + std::to_string(group));
}

/// Codes packed as the library does: offset, lowest bits first, rows padded to whole words.
std::string packCodes(const std::vector<int> &codes, uint64_t columns, int bits) {
  std::string out;
  uint64_t perWord = 32 / static_cast<uint64_t>(bits);
  for (size_t row = 0; row < codes.size() / columns; ++row)
    for (uint64_t k = 0; k < columns; k += perWord) {
      uint32_t word = 0;
      for (uint64_t i = 0; i < perWord && k + i < columns; ++i)
        word |= static_cast<uint32_t>(codes[row * columns + k + i] + (1 << (bits - 1)))
                << (static_cast<uint64_t>(bits) * i);
      put<uint32_t>(out, word);
    }
  return out;
}

struct Integer : QuantizedCase {
  uint64_t rows = 6, columns = 256, group = 64; ///< group 0: one scale per row
  int bits = 4;
  bool packed = true;
  std::string scaleType = "F16";
  std::string args; ///< overrides the weights object
  std::vector<int> codes;
  std::vector<uint16_t> scales; ///< words of F16 or BF16, row-major
  std::vector<RawTensor> more;
  std::function<void(ConvertOptions &)> edit = [](ConvertOptions &) {};

  uint64_t groups() const { return group ? (columns + group - 1) / group : 1; }
  void fill() {
    for (uint64_t i = 0; i < rows * columns; ++i)
      codes.push_back(static_cast<int>(i * 7 % (bits == 4 ? 16 : 255)) - (bits == 4 ? 8 : 127));
    for (uint64_t i = 0; i < rows * groups(); ++i)
      scales.push_back(static_cast<uint16_t>(scaleType == "F16" ? 0x2001 + 3 * i : 0x3c00 + i));
  }

  void run() {
    model.hidden = columns;
    model.intermediate = rows;
    std::string format = packed ? "pack-quantized" : "int-quantized";
    std::string weights = !args.empty() ? args
                          : group       ? groupArgs(bits, group)
                                        : intArgs(bits, R"("strategy":"channel")");
    model.quantization = compressedConfig(format, weights, kOnlyGate);
    std::vector<RawTensor> tensors;
    uint64_t perWord = 32 / static_cast<uint64_t>(bits);
    if (packed) {
      tensors.push_back({"weight_packed", "I32", {rows, (columns + perWord - 1) / perWord},
                         packCodes(codes, columns, bits)});
      tensors.push_back({"weight_shape", "I64", {2}, words64({rows, columns})});
    } else {
      std::string bytes;
      for (int c : codes)
        bytes += static_cast<char>(c);
      tensors.push_back({"weight", "I8", {rows, columns}, bytes});
    }
    std::string scaleBytes = words16(scales);
    if (scaleType == "F32") {
      scaleBytes.clear();
      for (uint16_t s : scales)
        put<uint32_t>(scaleBytes, static_cast<uint32_t>(s) << 16 | 0x0000);
    }
    tensors.push_back({"weight_scale", scaleType, {rows, groups()}, scaleBytes});
    tensors.insert(tensors.end(), more.begin(), more.end());
    model.modules["mlp.gate_proj"] = tensors;
    model.write(in.path());
    const ConvertOptions untouched = options;
    edit(options); // may also change the files
    convertWritten();
    options = untouched;
  }
  std::span<const std::byte> object() const { return objectOf(kGate); }
  const TensorReport &line() const { return lineOf(kGate); }
};

/// binary16 of a BF16 value 2^e * m in the normal range, from the definitions of both words.
uint16_t f16OfBf16(uint16_t word) {
  int exponent = (word >> 7 & 0xff) - 127 + 15;
  return static_cast<uint16_t>(exponent << 10 | (word & 0x7f) << 3);
}

TEST(CompressedInteger, FourBitGroupsOfEveryMultipleOf64KeepCodesAndScales) {
  for (uint64_t columns : {256u, 320u}) // 320: padded to 384, last group of 128 is partial
    for (uint64_t group : {64u, 128u, 192u, 256u, 0u})
      for (const char *type : {"F16", "BF16"})
        for (bool packed : {true, false}) {
          Integer t;
          t.columns = columns;
          t.group = group;
          t.scaleType = type;
          t.packed = packed;
          t.fill();
          t.run();
          ASSERT_EQ(t.error, "");
          ASSERT_EQ(t.line().format, Format::Q4G64_F16S);
          auto object = t.object();
          for (uint64_t n = 0; n < t.rows; ++n) {
            for (uint64_t k = 0; k < columns; ++k)
              ASSERT_EQ(q4Code(object, n, k, columns), t.codes[n * columns + k])
                  << group << " " << n << " " << k;
            for (uint64_t g = 0; g < columns / 64; ++g) {
              uint64_t from = group ? g * 64 / group : 0;
              uint16_t word = t.scales[n * t.groups() + from];
              ASSERT_EQ(groupScaleWord(object, t.rows, columns, 4, 64, n, g),
                        std::string(type) == "F16" ? word : f16OfBf16(word));
            }
          }
          bool same = group == 64 && std::string(type) == "F16";
          EXPECT_EQ(t.line().provenance,
                    same ? Provenance::Preserved : Provenance::WidenedExactly);
        }
}

TEST(CompressedInteger, EightBitAndSmallGroupsMoveIntoW8) {
  struct Row {
    int bits;
    uint64_t group;
  };
  for (Row row : {Row{4, 32}, Row{4, 96}, Row{8, 32}, Row{8, 64}, Row{8, 128}, Row{8, 0}})
    for (bool packed : {true, false}) {
      Integer t;
      t.bits = row.bits;
      t.group = row.group;
      t.columns = 192;
      t.packed = packed;
      t.fill();
      t.run();
      ASSERT_EQ(t.error, "") << row.bits << " " << row.group;
      ASSERT_EQ(t.line().format, Format::W8G32_F16S);
      auto object = t.object();
      for (uint64_t n = 0; n < t.rows; ++n) {
        for (uint64_t k = 0; k < t.columns; ++k)
          ASSERT_EQ(w8Code(object, n, k, t.columns), t.codes[n * t.columns + k]);
        for (uint64_t g = 0; g < t.columns / 32; ++g)
          ASSERT_EQ(groupScaleWord(object, t.rows, t.columns, 8, 32, n, g),
                    t.scales[n * t.groups() + (row.group ? g * 32 / row.group : 0)]);
      }
      EXPECT_EQ(t.line().provenance, row.bits == 8 && row.group == 32
                                         ? Provenance::Preserved
                                         : Provenance::WidenedExactly);
    }
}

TEST(CompressedInteger, WhatCannotBeHeldIsRefusedByItsRule) {
  auto refused = [](const char *rule, const std::function<void(Integer &)> &change,
                    const char *code) {
    Integer t;
    t.fill();
    change(t);
    t.run();
    EXPECT_EQ(t.code, code) << rule << "\n" << t.error;
    EXPECT_TRUE(t.says(rule)) << rule << "\n" << t.error;
    EXPECT_TRUE(t.says("gate_proj")) << t.error;
    EXPECT_FALSE(fs::exists(t.out / "m.ninfer"));
  };
  auto refill = [](Integer &t, int bits, uint64_t group) {
    t.codes.clear();
    t.scales.clear();
    t.bits = bits;
    t.group = group;
    t.fill();
  };
  refused("refused (group size 16", [&](Integer &t) { refill(t, 4, 16); }, "NB0324");
  refused("refused (group size 80", [&](Integer &t) { refill(t, 8, 80); }, "NB0324");
  refused("no zero point",
          [](Integer &t) {
            t.args = intArgs(4, R"("strategy":"group","group_size":64,"symmetric":false)");
          },
          "NB0324");
  refused("act-order",
          [](Integer &t) {
            t.args = intArgs(4, R"("strategy":"group","group_size":64,"actorder":"group")");
          },
          "NB0324");
  refused("act-order",
          [](Integer &t) {
            std::vector<uint32_t> order;
            for (uint32_t k = 0; k < 256; ++k)
              order.push_back(k % 4);
            t.more.push_back({"weight_g_idx", "I32", {256}, words32(order)});
          },
          "NB0324");
  refused("3-bit codes",
          [](Integer &t) { t.args = intArgs(3, R"("strategy":"group","group_size":64)"); },
          "NB0324");
  refused("one scale per tensor",
          [](Integer &t) { t.args = intArgs(4, R"("strategy":"tensor")"); }, "NB0324");
  refused("one scale per group of a row",
          [](Integer &t) {
            t.args = intArgs(4, R"("strategy":"block","block_structure":[64,64])");
          },
          "NB0324");
  refused("row 2 group 1 column 70: code -128: refused (W8G32_F16S codes are -127..127)",
          [&](Integer &t) {
            refill(t, 8, 64);
            t.codes[2 * 256 + 70] = -128;
          },
          "NB0327");
  refused("row 3 group 2: scale 0x38800100",
          [&](Integer &t) { // 2^-14 + 2^-29: binary16 has steps of 2^-24 there
            t.scaleType = "F32";
            t.scales.assign(t.scales.size(), 0x3880);
            t.scales[3 * 4 + 2] = 0x3880;
            t.edit = [](ConvertOptions &o) {
              std::string file = readBytes(o.source / "model.safetensors");
              // The words of weight_scale are the only run of 0x3880'0000.
              std::string run = words32({0x38800000, 0x38800000, 0x38800000, 0x38800000});
              size_t start = file.find(run);
              file[start + 4 * (3 * 4 + 2) + 1] = '\1';
              writeBytes(o.source / "model.safetensors", file);
            };
          },
          "NB0327");
  refused("group scale must be binary16",
          [&](Integer &t) {
            t.scaleType = "BF16";
            t.scales.assign(t.scales.size(), 0x3880);
            t.scales[5] = 0x3101; // 2^-29: below the smallest binary16
          },
          "NB0327");
  refused("is NaN", [](Integer &t) { t.scales[0] = 0x7e00; }, "NB0326");
  refused("is infinite", [](Integer &t) { t.scales[0] = 0x7c00; }, "NB0326");
  refused("is negative", [](Integer &t) { t.scales[0] = 0xa000; }, "NB0326");
  refused("scale zero", [](Integer &t) { t.scales[23] = 0; }, "NB0327");
  refused("is not zero, though",
          [](Integer &t) {
            t.more.push_back({"weight_zero_point", "I8", {6, 4}, std::string(23, '\0') + '\1'});
          },
          "NB0325");
  refused("must hold [N,K]",
          [](Integer &t) {
            t.packed = false;
            t.args = groupArgs(4, 64);
            t.packed = true;
            t.edit = [](ConvertOptions &o) {
              std::string file = readBytes(o.source / "model.safetensors");
              size_t at = file.find(words64({6, 256}));
              file[at] = 7;
              writeBytes(o.source / "model.safetensors", file);
            };
          },
          "NB0325");
}

TEST(CompressedInteger, NeutralExtrasChangeNothing) {
  Integer t;
  t.fill();
  std::vector<uint32_t> order;
  for (uint32_t k = 0; k < 256; ++k)
    order.push_back(k / 64);
  t.more = {{"weight_g_idx", "I32", {256}, words32(order)},
            {"weight_zero_point", "I8", {6, 4}, std::string(24, '\0')},
            {"input_scale", "BF16", {1}, words16({0x3f80})}};
  t.run();
  ASSERT_EQ(t.error, "");
  EXPECT_EQ(t.line().provenance, Provenance::Preserved);
  bool told = false;
  for (const std::string &note : t.report->notes)
    told |= note.find("1 scales of activations are not used") != std::string::npos;
  EXPECT_TRUE(told);
  // The library's mark for "no order": all -1.
  t.more = {{"weight_g_idx", "I32", {256}, words32(std::vector<uint32_t>(256, 0xffffffff))}};
  t.run();
  EXPECT_EQ(t.error, "");
}

TEST(CompressedInteger, RowsThatDoNotFillTheirLastWord) {
  // 252 columns of 4 bits: 31 words and a half, three groups of 64 and one of 60.
  QuantizedModel model;
  model.intermediate = 252;
  model.quantization = compressedConfig("pack-quantized", groupArgs(4, 64), R"(["re:.*down_proj$"])");
  std::vector<int> codes;
  std::vector<uint16_t> scales;
  for (int i = 0; i < 64 * 252; ++i)
    codes.push_back(i * 5 % 16 - 8);
  for (uint16_t i = 0; i < 64 * 4; ++i)
    scales.push_back(static_cast<uint16_t>(0x1000 + i));
  std::string packed = packCodes(codes, 252, 4);
  TempFolder in, out;
  ConvertOptions options;
  options.source = in.path();
  options.output = out / "m.ninfer";
  auto run = [&] {
    model.modules["mlp.down_proj"] = {{"weight_packed", "I32", {64, 32}, packed},
                                      {"weight_shape", "I32", {2}, words32({64, 252})},
                                      {"weight_scale", "F16", {64, 4}, words16(scales)}};
    model.write(in.path());
    return convertCheckpoint(options);
  };
  auto result = run();
  ASSERT_TRUE(result.ok()) << result.error().render();
  Artifact artifact = Artifact::open(options.output).take();
  auto object =
      *artifact.object(artifact.directory().bindings.at("text/layers/0/mlp/down").parts[0].object);
  for (uint64_t n = 0; n < 64; ++n) {
    for (uint64_t k = 0; k < 252; ++k)
      ASSERT_EQ(q4Code(object, n, k, 252), codes[n * 252 + k]) << n << " " << k;
    for (uint64_t g = 0; g < 4; ++g)
      ASSERT_EQ(groupScaleWord(object, 64, 252, 4, 64, n, g), scales[n * 4 + g]);
  }
  packed[(5 * 32 + 31) * 4 + 2] = '\1';
  options.force = true;
  result = run();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, "NB0326");
  EXPECT_NE(result.error().message.find("row 5: bits behind the last code"), std::string::npos)
      << result.error().message;
}

TEST(CompressedInteger, RequantizeDecodesExactlyAndEncodesByTheRecipe) {
  Integer t;
  t.fill();
  t.edit = [](ConvertOptions &o) {
    o.requantize = true;
    o.recipe = Recipe::builtIn("bf16");
  };
  // Scales that are powers of two: every product is a BF16 value.
  t.scales.assign(t.scales.size(), 0x2c00); // 2^-4
  t.run();
  ASSERT_EQ(t.error, "");
  EXPECT_EQ(t.line().format, Format::BF16);
  EXPECT_EQ(t.line().provenance, Provenance::Converted);
  auto object = t.object();
  for (uint64_t i = 0; i < t.codes.size(); ++i) {
    float wanted = static_cast<float>(t.codes[i]) / 16.0f;
    ASSERT_EQ(words16({wordAt(object, 2 * i)}), bf16Bytes({wanted})) << i;
  }
  // A recipe in the words' own format keeps them.
  t.edit = [](ConvertOptions &o) {
    o.requantize = true;
    o.recipe = Recipe::builtIn("q4");
  };
  t.run();
  ASSERT_EQ(t.error, "");
  EXPECT_EQ(t.line().provenance, Provenance::Preserved);
  // Without --requantize the recipe is for the others.
  t.edit = [](ConvertOptions &o) { o.recipe = Recipe::builtIn("w8"); };
  t.run();
  ASSERT_EQ(t.error, "");
  EXPECT_EQ(t.line().format, Format::Q4G64_F16S);
  for (const TensorReport &r : t.report->tensors) {
    if (r.object == "text/layers/0/mlp/up") {
      EXPECT_EQ(r.format, Format::W8G32_F16S);
    }
  }
  // --requantize without a recipe means w8, as everywhere.
  t.edit = [](ConvertOptions &o) { o.requantize = true; };
  t.run();
  ASSERT_EQ(t.error, "");
  EXPECT_EQ(t.line().format, Format::W8G32_F16S);
}

TEST(CompressedInteger, AllRefusalsOfARunAreListed) {
  QuantizedModel model;
  model.hidden = model.intermediate = 64;
  model.quantization = compressedConfig(
      "pack-quantized", intArgs(4, R"("strategy":"group","group_size":64,"symmetric":false)"));
  for (const std::string &module : QuantizedModel::linears())
    model.modules[module] = {{"weight_packed", "I32", {64, 8}, noise(64 * 32, 3)},
                             {"weight_shape", "I64", {2}, words64({64, 64})},
                             {"weight_scale", "F16", {64, 1}, words16(std::vector<uint16_t>(64, 1))},
                             {"weight_zero_point", "I32", {8, 1}, noise(32, 4)}};
  TempFolder in, out;
  model.write(in.path());
  ConvertOptions options;
  options.source = in.path();
  options.output = out / "m.ninfer";
  auto result = convertCheckpoint(options);
  ASSERT_FALSE(result.ok());
  std::string text = result.error().render();
  for (const std::string &module : QuantizedModel::linears())
    EXPECT_NE(text.find("model.layers.0." + module + ".weight: refused ("), std::string::npos)
        << text;
  EXPECT_NE(text.find("7 tensors have no exact registered form"), std::string::npos) << text;
  EXPECT_NE(text.find("help: convert the original"), std::string::npos) << text;
  EXPECT_EQ(result.error().kind, ErrorKind::Unsupported);

  // Faults only the data shows are collected too.
  model.quantization = compressedConfig("pack-quantized", groupArgs(4, 64));
  for (const std::string &module : QuantizedModel::linears()) {
    model.modules[module].pop_back();
    model.modules[module][2].bytes = words16(std::vector<uint16_t>(64, 0x7c00));
  }
  model.write(in.path());
  result = convertCheckpoint(options);
  ASSERT_FALSE(result.ok());
  text = result.error().render();
  for (const std::string &module : QuantizedModel::linears())
    EXPECT_NE(text.find(module + ".weight_scale' row 0 group 0"), std::string::npos) << text;
}

} // namespace
} // namespace ninfer
