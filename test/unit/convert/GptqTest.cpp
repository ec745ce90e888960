// GPTQ and AutoRound storage through the whole converter: zero points against labels, groups, signs
// of scales, orders, configs. Objects are read by the byte tables of docs/formats.md.
#include "QuantizedBuilders.h"
#include "artifact/container/Reader.h"
#include "convert/Converter.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

constexpr const char *kGate = "text/layers/0/mlp/gate"; // N = 128, K = 64 or 128 or 256

/// The tensors of one GPTQ matrix [N, K].
struct GptqMatrix {
  uint64_t n = 128, k = 128, group = 64; ///< columns per scale
  uint32_t bits = 4;
  uint32_t zero = 7; ///< stored
  std::function<uint32_t(uint64_t, uint64_t)> code = [](uint64_t, uint64_t k) {
    return uint32_t(k % 16);
  };
  std::function<uint16_t(uint64_t, uint64_t)> scale = [](uint64_t, uint64_t) {
    return uint16_t(0x3c00);
  };
  std::vector<RawTensor> tensors(const std::vector<uint32_t> &order = {}) const {
    const uint64_t per = 32 / bits, groups = (k + group - 1) / group,
                   zeroWords = (n + per - 1) / per;
    std::vector<uint32_t> words(k / per * n), zeros(groups * zeroWords);
    std::vector<uint16_t> scales;
    for (uint64_t c = 0; c < k; ++c)
      for (uint64_t r = 0; r < n; ++r)
        words[c / per * n + r] |= code(r, c) << (bits * (c % per));
    for (uint64_t g = 0; g < groups; ++g)
      for (uint64_t r = 0; r < n; ++r) {
        zeros[g * zeroWords + r / per] |= zero << (bits * (r % per));
        scales.push_back(scale(r, g));
      }
    std::vector<RawTensor> out = {{"qweight", "I32", {k / per, n}, words32(words)},
                                  {"qzeros", "I32", {groups, zeroWords}, words32(zeros)},
                                  {"scales", "F16", {groups, n}, words16(scales)}};
    if (!order.empty())
      out.push_back({"g_idx", "I32", {k}, words32(order)});
    return out;
  }
};

std::string gptqConfig(const std::string &format, int bits = 4, int group = 64,
                       const std::string &more = "") {
  return R"({"quant_method":"gptq","bits":)" + std::to_string(bits) + R"(,"group_size":)" +
         std::to_string(group) +
         (format.empty() ? "" : R"(,"checkpoint_format":")" + format + "\"") +
         (more.find("\"sym\"") == std::string::npos ? R"(,"sym":true)" : "") +
         (more.find("\"desc_act\"") == std::string::npos ? R"(,"desc_act":false)" : "") + more +
         "}";
}

struct Case : QuantizedCase {
  Case() { model.hidden = 128; }
  Case &gate(const GptqMatrix &matrix, const std::vector<uint32_t> &order = {}) {
    model.modules["mlp.gate_proj"] = matrix.tensors(order);
    return *this;
  }
  Case &run() {
    convert();
    return *this;
  }
  std::span<const std::byte> object() const { return objectOf(kGate); }
  Format format() const { return artifact->geometry(indexOf(kGate))->format; }
  const TensorReport &line() const { return lineOf(kGate); }
};

/// Every code and scale of the gate, in columns of `k`.
void expectWords(Case &c, const GptqMatrix &m) {
  ASSERT_TRUE(c.artifact) << c.error;
  const bool w8 = m.bits == 8;
  const uint64_t stored = w8 ? 32 : 64;
  const int offset = 1 << (m.bits - 1);
  for (uint64_t n = 0; n < m.n; ++n)
    for (uint64_t k = 0; k < m.k; ++k) {
      ASSERT_EQ(w8 ? w8Code(c.object(), n, k, m.k) : q4Code(c.object(), n, k, m.k),
                int(m.code(n, k)) - offset)
          << n << "," << k;
      ASSERT_EQ(groupScaleWord(c.object(), m.n, m.k, m.bits, stored, n, k / stored),
                m.scale(n, k / m.group));
    }
}

// --- zero points and labels ---

struct ZeroCase {
  const char *label; ///< checkpoint_format; empty: none
  uint32_t stored;
  GptqZeros option;
  const char *code; ///< "" accepted
};

TEST(Gptq, ZeroPointsAgainstLabels) {
  const ZeroCase table[] = {
      {"gptq", 7, GptqZeros::AsLabelled, ""},
      {"", 7, GptqZeros::AsLabelled, ""},
      {"gptq_v2", 8, GptqZeros::AsLabelled, ""},
      {"gptq", 8, GptqZeros::AsLabelled, "NB0340"},
      {"", 8, GptqZeros::AsLabelled, "NB0340"},
      {"gptq_v2", 7, GptqZeros::AsLabelled, "NB0340"},
      {"gptq", 8, GptqZeros::Plain, ""},
      {"", 8, GptqZeros::Plain, ""},
      {"gptq_v2", 7, GptqZeros::MinusOne, ""},
      {"gptq", 7, GptqZeros::Plain, "NB0340"},
      {"gptq_v2", 8, GptqZeros::MinusOne, "NB0340"},
  };
  for (uint64_t group : {uint64_t(64), uint64_t(128)})
    for (const ZeroCase &z : table) {
      SCOPED_TRACE(std::string(z.label) + " " + std::to_string(z.stored) + " group " +
                   std::to_string(group));
      Case c;
      GptqMatrix m;
      m.group = group;
      m.zero = z.stored;
      m.scale = [](uint64_t n, uint64_t g) { return uint16_t(0x3c00 + n + 16 * g); };
      c.model.quantization = gptqConfig(z.label, 4, static_cast<int>(group));
      c.options.imports.gptqZeros = z.option;
      c.gate(m).run();
      EXPECT_EQ(c.code, z.code) << c.error;
      if (c.code.empty()) {
        EXPECT_EQ(c.line().provenance,
                  group == 64 ? Provenance::Preserved : Provenance::WidenedExactly);
        expectWords(c, m);
        continue;
      }
      EXPECT_EQ(c.kind, ErrorKind::BadFile);
      EXPECT_TRUE(c.says("model.layers.0.mlp.gate_proj.qzeros")) << c.error;
      EXPECT_TRUE(c.says(z.stored == 7 ? "--gptq-zero-points v1" : "--gptq-zero-points v2"))
          << c.error;
    }
}

TEST(Gptq, EveryOtherZeroPointIsRefusedEvenOnce) {
  for (const char *label : {"gptq", "gptq_v2"})
    for (uint32_t stored = 0; stored < 16; ++stored) {
      if (stored == 7 || stored == 8)
        continue;
      Case c;
      GptqMatrix m;
      m.zero = stored;
      c.model.quantization = gptqConfig(label);
      c.gate(m).run();
      EXPECT_EQ(c.code, "NB0327") << label << stored << c.error;
      EXPECT_TRUE(c.says("zero point " + std::to_string(stored))) << c.error;
    }
  // One that differs, at each end, with each label: mixed 7 and 8.
  for (auto [label, base, odd] : {std::tuple("gptq", 7u, 8u), std::tuple("gptq_v2", 8u, 7u),
                                  std::tuple("gptq", 8u, 7u), std::tuple("gptq_v2", 7u, 8u)})
    for (uint64_t at : {uint64_t(0), uint64_t(127), uint64_t(128), uint64_t(255)}) {
      Case c;
      GptqMatrix m;
      m.zero = base;
      c.model.quantization = gptqConfig(label);
      c.gate(m);
      std::string &bytes = c.model.modules["mlp.gate_proj"][1].bytes;
      uint8_t byte = static_cast<uint8_t>(bytes[at / 2]);
      byte = at % 2 ? uint8_t((byte & 15) | odd << 4) : uint8_t((byte & 0xf0) | odd);
      bytes[at / 2] = static_cast<char>(byte);
      c.run();
      EXPECT_EQ(c.code, "NB0327") << label << at << c.error;
      EXPECT_TRUE(c.says("no zero point")) << c.error;
      // The first zero point that the label does not expect.
      const bool oddIsWrong = (base == 7) == (std::string(label) == "gptq");
      const uint64_t place = oddIsWrong ? at : at == 0;
      EXPECT_TRUE(c.says("row " + std::to_string(place % 128) + " group " +
                         std::to_string(place / 128) + ": stored zero point"))
          << c.error;
    }
}

TEST(Gptq, AsymmetricConfigIsRefused) {
  Case c;
  c.model.quantization = gptqConfig("gptq", 4, 64, R"(,"sym":false)");
  c.gate({}).run();
  EXPECT_EQ(c.code, "NB0324") << c.error;
  EXPECT_TRUE(c.says("sym: false")) << c.error;
}

// --- bits and groups ---

TEST(Gptq, GroupsAndWidths) {
  struct Row {
    int bits, group;
    const char *code;
  };
  for (Row row :
       {Row{4, 64, ""}, Row{4, 128, ""}, Row{4, 192, ""}, Row{4, -1, ""}, Row{4, 32, "NB0324"},
        Row{4, 16, "NB0324"}, Row{4, 96, "NB0324"}, Row{8, 32, ""}, Row{8, 64, ""}, Row{8, 128, ""},
        Row{8, -1, ""}, Row{8, 16, "NB0324"}, Row{8, 48, "NB0324"}, Row{2, 64, "NB0324"},
        Row{3, 64, "NB0324"}, Row{5, 64, "NB0324"}, Row{4, 0, "NB0323"}, Row{4, -2, "NB0323"},
        Row{33, 64, "NB0323"}}) {
    SCOPED_TRACE(std::to_string(row.bits) + " bit group " + std::to_string(row.group));
    Case c;
    GptqMatrix m;
    m.bits = row.bits == 8 ? 8 : 4;
    m.zero = m.bits == 8 ? 127 : 7;
    m.group = row.group > 0 ? static_cast<uint64_t>(row.group) : m.k;
    m.code = [&](uint64_t n, uint64_t k) {
      return m.bits == 8 ? uint32_t(1 + (n * 7 + k * 3) % 255) : uint32_t((n + k) % 16);
    };
    m.scale = [](uint64_t n, uint64_t g) { return uint16_t(0x2000 + 3 * n + g); };
    c.model.quantization = gptqConfig("gptq", row.bits, row.group);
    c.gate(m).run();
    EXPECT_EQ(c.code, row.code) << c.error;
    if (!c.code.empty())
      continue;
    expectWords(c, m);
    const bool same = row.group == (row.bits == 8 ? 32 : 64);
    EXPECT_EQ(c.line().provenance, same ? Provenance::Preserved : Provenance::WidenedExactly);
  }
}

TEST(Gptq, TheLastGroupMayBePartial) {
  Case c;
  GptqMatrix m;
  m.n = 128;
  m.k = 192;
  m.group = 128;
  c.model.intermediate = 192;
  m.scale = [](uint64_t n, uint64_t g) { return uint16_t(0x2c00 + n + 200 * g); };
  c.model.quantization = gptqConfig("gptq", 4, 128);
  c.model.modules["mlp.down_proj"] = m.tensors();
  c.run();
  ASSERT_TRUE(c.artifact) << c.error;
  uint32_t index = c.artifact->directory().bindings.at("text/layers/0/mlp/down").parts.at(0).object;
  std::span<const std::byte> object = *c.artifact->object(index);
  for (uint64_t n = 0; n < 128; ++n)
    for (uint64_t g = 0; g < 3; ++g)
      ASSERT_EQ(groupScaleWord(object, 128, 192, 4, 64, n, g), m.scale(n, g / 2));
}

TEST(Gptq, CodeMinus128HasNoPlace) {
  Case c;
  GptqMatrix m;
  m.bits = 8;
  m.zero = 127;
  m.group = 32;
  m.code = [](uint64_t n, uint64_t k) { return n == 77 && k == 101 ? 0u : 128u; };
  c.model.quantization = gptqConfig("gptq", 8, 32);
  c.gate(m).run();
  EXPECT_EQ(c.code, "NB0327") << c.error;
  EXPECT_TRUE(c.says("row 77 group 3 column 101: code -128")) << c.error;
}

// --- scales ---

TEST(Gptq, ANegativeScaleMovesItsSignIntoTheCodes) {
  // Without code -8 under a negative scale Q4 is wide enough; with it Q5 is needed.
  for (bool minus8 : {false, true}) {
    Case c;
    GptqMatrix m;
    m.scale = [](uint64_t n, uint64_t g) { return uint16_t((n + g) % 2 ? 0xb000 : 0x3000); };
    m.code = [&](uint64_t n, uint64_t k) {
      return n == 100 && k == 70 && minus8 ? 0u : uint32_t(1 + (n + k) % 15);
    };
    // Row 100, group 1 has a negative scale.
    c.model.quantization = gptqConfig("gptq");
    c.gate(m).run();
    ASSERT_TRUE(c.artifact) << c.error;
    EXPECT_EQ(c.format(), minus8 ? Format::Q5G64_F16S : Format::Q4G64_F16S);
    EXPECT_EQ(c.line().provenance, Provenance::WidenedExactly);
    ASSERT_FALSE(c.line().remarks.empty());
    EXPECT_NE(c.line().remarks[0].find("128 of 256 scales are negative"), std::string::npos)
        << c.line().remarks[0];
    if (minus8)
      continue; // words of Q5: QuantizedVectorsTest
    for (uint64_t n = 0; n < 128; ++n)
      for (uint64_t k = 0; k < 128; ++k) {
        const int code = int(m.code(n, k)) - 8;
        ASSERT_EQ(q4Code(c.object(), n, k, 128), m.scale(n, k / 64) & 0x8000 ? -code : code);
        ASSERT_EQ(groupScaleWord(c.object(), 128, 128, 4, 64, n, k / 64), 0x3000);
      }
  }
}

TEST(Gptq, EveryKindOfScaleWord) {
  struct Row {
    uint16_t word;
    const char *code;
  };
  for (Row row : {Row{0x0001, ""}, Row{0x03ff, ""}, Row{0x7bff, ""}, Row{0x0000, ""},
                  Row{0x8000, "NB0327"}, Row{0x7c00, "NB0326"}, Row{0xfc00, "NB0326"},
                  Row{0x7e00, "NB0326"}, Row{0x7c01, "NB0326"}, Row{0xffff, "NB0326"}}) {
    Case c;
    GptqMatrix m;
    m.scale = [&](uint64_t n, uint64_t g) {
      return n == 9 && g == 1 ? row.word : uint16_t(0x3c00);
    };
    c.model.quantization = gptqConfig("gptq");
    c.gate(m).run();
    EXPECT_EQ(c.code, row.code) << std::hex << row.word << c.error;
    if (!c.code.empty()) {
      EXPECT_TRUE(c.says("gate_proj.scales' row 9 group 1")) << c.error;
      continue;
    }
    EXPECT_EQ(groupScaleWord(c.object(), 128, 128, 4, 64, 9, 1), row.word);
    EXPECT_EQ(q4Code(c.object(), 9, 64, 128), row.word ? -8 : 0);
    EXPECT_EQ(c.line().provenance, row.word ? Provenance::Preserved : Provenance::WidenedExactly);
  }
}

// --- order, bias, shapes ---

TEST(Gptq, ActOrderIsRefusedAndPlainOrderIsNot) {
  std::vector<uint32_t> plain;
  for (uint32_t k = 0; k < 128; ++k)
    plain.push_back(k / 64);
  Case c;
  c.model.quantization = gptqConfig("gptq");
  c.gate({}, plain).run();
  EXPECT_EQ(c.code, "") << c.error;
  c.model.quantization = gptqConfig("gptq", 4, 64, R"(,"desc_act":true)");
  c.run(); // the order the file tells is plain
  EXPECT_EQ(c.code, "") << c.error;
  c.options.output = c.out / "n.ninfer";
  for (size_t at : {size_t(0), size_t(63), size_t(64), size_t(127)}) {
    std::vector<uint32_t> order = plain;
    order[at] ^= 1;
    c.gate({}, order).run();
    EXPECT_EQ(c.code, "NB0324") << c.error;
    EXPECT_TRUE(c.says("act-order: column " + std::to_string(at))) << c.error;
  }
  c.gate({}).run(); // desc_act without g_idx
  EXPECT_EQ(c.code, "NB0324") << c.error;
  EXPECT_TRUE(c.says("act-order")) << c.error;
}

TEST(Gptq, ABiasOfZerosIsDroppedAnyOtherRefused) {
  Case c;
  c.model.quantization = gptqConfig("gptq");
  c.gate({});
  std::vector<RawTensor> &tensors = c.model.modules["mlp.gate_proj"];
  tensors.push_back({"bias", "F16", {128}, std::string(256, '\0')});
  c.run();
  EXPECT_EQ(c.code, "") << c.error;
  c.options.output = c.out / "n.ninfer";
  tensors.back().bytes[255] = 1;
  c.run();
  EXPECT_EQ(c.code, "NB0324") << c.error;
  EXPECT_TRUE(c.says("bias")) << c.error;
}

TEST(Gptq, MissingForeignAndMisshapedTensors) {
  auto run = [](const std::function<void(std::vector<RawTensor> &)> &edit) {
    Case c;
    c.model.quantization = gptqConfig("gptq");
    c.gate({});
    edit(c.model.modules["mlp.gate_proj"]);
    c.run();
    EXPECT_EQ(c.code, "NB0325") << c.error;
    return c.error;
  };
  EXPECT_NE(run([](auto &t) { t.erase(t.begin() + 1); }).find("qzeros"), std::string::npos);
  EXPECT_NE(run([](auto &t) { t.erase(t.begin() + 2); }).find("scales"), std::string::npos);
  run([](auto &t) { t.push_back({"weight_scale", "F32", {1}, std::string(4, '\0')}); });
  run([](auto &t) { t[0].shape = {128, 16}; }); // transposed
  run([](auto &t) { t[0].shape = {16, 128}, t[0].dtype = "U32"; });
  run([](auto &t) { t[2].shape = {128, 2}; });
  run([](auto &t) { t[1].shape = {1, 32}; });
}

// --- configs ---

TEST(Gptq, ConfigsThatAreRefused) {
  struct Row {
    std::string config;
    const char *code, *text;
  };
  const std::vector<Row> table = {
      {gptqConfig("marlin"), "NB0324", "marlin"},
      {gptqConfig("gptq_p"), "NB0324", "gptq_p"},
      {gptqConfig("gptq", 4, 64, R"(,"format":"gptq_v2")"), "NB0323", "contradict"},
      {gptqConfig("gptq", 4, 64, R"(,"pack_dtype":"int8")"), "NB0324", "pack_dtype"},
      {gptqConfig("gptq", 4, 64, R"(,"is_marlin_format":true)"), "NB0324", "is_marlin_format"},
      {gptqConfig("gptq", 4, 64, R"(,"sym":1)"), "NB0323", "sym"},
      {R"({"quant_method":"gptq","bits":4})", "NB0323", "group_size"},
      {R"({"quant_method":"gptq","bits":4.0,"group_size":64})", "NB0323", "bits"},
      {gptqConfig("gptq", 4, 64, R"(,"dynamic":{"-:.*gate_proj":{}})"), "NB0325", "unquantized"},
      {gptqConfig("gptq", 4, 64, R"(,"dynamic":{"+:.*gate_proj":{"bits":3}})"), "NB0324", "3-bit"},
      {gptqConfig("gptq", 4, 64, R"(,"dynamic":{"+:.*gate_proj":{"sym":false}})"), "NB0324",
       "sym: false"},
      {gptqConfig("gptq", 4, 64, R"(,"dynamic":{"+:(":{}})"), "NB0328", ""},
  };
  for (const Row &row : table) {
    Case c;
    c.model.quantization = row.config;
    c.gate({}).run();
    EXPECT_EQ(c.code, row.code) << row.config << c.error;
    EXPECT_TRUE(c.says(row.text)) << row.config << c.error;
  }
}

TEST(Gptq, DynamicOverridesReachTheirModules) {
  Case c;
  GptqMatrix narrow, wide;
  wide.bits = 8;
  wide.zero = 127;
  wide.group = 32;
  wide.code = [](uint64_t n, uint64_t k) { return uint32_t(1 + (n + k) % 255); };
  c.model.quantization =
      gptqConfig("gptq", 4, 64,
                 R"(,"dynamic":{"-:lm_head":{},"+:.*\\.gate_proj":{"bits":8,"group_size":32}})");
  c.gate(wide);
  c.model.modules["mlp.up_proj"] = narrow.tensors();
  c.run();
  ASSERT_TRUE(c.artifact) << c.error;
  EXPECT_EQ(c.format(), Format::W8G32_F16S);
  expectWords(c, wide);
}

TEST(Gptq, AHeadTheConfigCallsQuantizedMustBeSo) {
  struct Row {
    const char *more;
    bool tied;
    const char *code;
  };
  for (const Row &row : {Row{R"(,"lm_head":true)", false, "NB0325"},
                         Row{R"(,"lm_head":true)", true, ""},
                         Row{R"(,"lm_head":false)", false, ""},
                         Row{R"(,"lm_head":true,"dynamic":{"-:lm_head":{}})", false, ""},
                         Row{R"(,"lm_head":"yes")", false, "NB0323"}}) {
    Case c;
    c.model.tied = row.tied;
    c.model.quantization = gptqConfig("gptq", 4, 64, row.more);
    c.gate({}).run();
    EXPECT_EQ(c.code, row.code) << row.more << c.error;
    if (c.code == "NB0325") {
      EXPECT_TRUE(c.says("missing: tensor 'lm_head.qweight'")) << c.error;
    }
  }
}

TEST(AutoRound, StorageByPackingFormat) {
  struct Row {
    const char *member, *packing;
    uint32_t stored;
    const char *code;
  };
  for (Row row :
       {Row{"packing_format", "auto_round:auto_gptq", 7, ""},
        Row{"packing_format", "auto_round:auto_gptq:exllamav2", 7, ""},
        Row{"packing_format", "auto_round:gptqmodel", 8, ""},
        Row{"backend", "auto_round:gptq:exllamav2", 7, ""},
        Row{"packing_format", "auto_round:auto_gptq", 8, "NB0340"},
        Row{"packing_format", "auto_round:gptqmodel", 7, "NB0340"},
        Row{"packing_format", "auto_round:auto_awq", 7, "NB0324"},
        Row{"packing_format", "auto_round", 7, "NB0324"}, Row{"other", "x", 7, "NB0324"}}) {
    for (const char *method : {"auto-round", "intel/auto-round"}) {
      Case c;
      GptqMatrix m;
      m.zero = row.stored;
      c.model.quantization = std::string(R"({"quant_method":")") + method +
                             R"(","bits":4,"group_size":64,"sym":true,"data_type":"int",")" +
                             row.member + R"(":")" + row.packing + R"("})";
      c.gate(m).run();
      EXPECT_EQ(c.code, row.code) << row.packing << c.error;
      if (c.code.empty())
        expectWords(c, m);
    }
  }
}

TEST(AutoRound, ConfigsThatAreRefused) {
  struct Row {
    const char *more, *code;
  };
  for (Row row :
       {Row{R"(,"sym":false)", "NB0324"}, Row{R"(,"sym":true,"data_type":"mx_fp")", "NB0324"},
        Row{R"(,"sym":true,"act_bits":8)", "NB0324"}, Row{R"(,"sym":true,"act_bits":16)", ""},
        Row{R"(,"sym":true,"extra_config":{"model.layers.0.mlp.gate_proj":{"bits":16}})", "NB0325"},
        Row{R"(,"sym":true,"extra_config":{"gate_proj":{"bits":2}})", "NB0324"},
        Row{R"(,"sym":true,"extra_config":{"lm_head":{"bits":16}})", ""}}) {
    Case c;
    c.model.quantization =
        std::string(
            R"({"quant_method":"auto-round","bits":4,"group_size":64,"packing_format":"auto_round:auto_gptq")") +
        row.more + "}";
    c.gate({}).run();
    EXPECT_EQ(c.code, row.code) << row.more << c.error;
  }
}

} // namespace
} // namespace ninfer
