// Conversions of a qwen35 GGUF: what its writer does to a checkpoint's values and order is taken back, word by word.
#include "convert/Converter.h"

#include "SourceBuilders.h"
#include "artifact/container/Reader.h"
#include "support/Bytes.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <map>

namespace ninfer {
namespace {

using namespace test;

constexpr uint64_t H = 64, V = 24, Hq = 4, Hkv = 2, D = 8, I = 96, taps = 4, dk = 32;
constexpr uint32_t kF32 = 0, kQ8 = 8;

float widen(uint16_t word) { return floatFromBits(uint32_t{word} << 16); }

/// The values of a checkpoint by parameter, and the GGUF its writer makes of them.
struct Model {
  uint64_t nk, nv;
  uint32_t outputType = kF32; ///< of ssm_out
  std::function<void(GgufBuilder &)> more = [](GgufBuilder &) {};
  float decayFactor = -1;      ///< ssm_a = decayFactor * exp(a_log)
  bool recurrentArray = false; ///< which layers are recurrent: an array, not the interval
  uint32_t draftLayers = 0;
  int32_t fourthSection = 0;
  uint32_t inner = static_cast<uint32_t>(nv * dk);

  std::map<std::string, std::vector<uint16_t>> words = {};
  std::map<std::string, std::vector<uint64_t>> shapes;

  uint64_t perKey() const { return nv / nk; }
  uint64_t vw() const { return nv * dk; }
  uint64_t kw() const { return nk * dk; }

  const std::vector<uint16_t> &make(const std::string &parameter, std::vector<uint64_t> shape, bool small = false) {
    uint64_t n = 1, seed = std::hash<std::string>()(parameter);
    for (uint64_t d : shape)
      n *= d;
    std::vector<uint16_t> out;
    for (uint64_t i = 0; i < n; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const auto draw = static_cast<uint16_t>(seed >> 40);
      // Magnitudes 2^-7 to 2^1, small ones 2^-7 to 2^-3, so that 1 + w is exact in binary32.
      out.push_back(static_cast<uint16_t>((draw & 0x807f) | (120 + draw % (small ? 4 : 8)) << 7));
    }
    shapes[parameter] = std::move(shape);
    return words[parameter] = std::move(out);
  }

  /// The writer's order of value heads, from its definition: [key head][value head of it][row] becomes
  /// [value head][key head][row].
  template <typename T>
  std::vector<T> tiled(const std::vector<T> &in, uint64_t width) const {
    std::vector<T> out;
    for (uint64_t v = 0; v < perKey(); ++v)
      for (uint64_t k = 0; k < nk; ++k)
        for (uint64_t i = 0; i < width; ++i)
          out.push_back(in[(k * perKey() + v) * width + i]);
    return out;
  }
  /// The same along the last axis of rows of `nv * width`.
  template <typename T>
  std::vector<T> tiledColumns(const std::vector<T> &in, uint64_t width) const {
    std::vector<T> out;
    for (uint64_t at = 0; at < in.size(); at += nv * width) {
      const auto from = in.begin() + static_cast<std::ptrdiff_t>(at);
      const std::vector<T> row = tiled(std::vector<T>(from, from + static_cast<std::ptrdiff_t>(nv * width)), width);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

  static std::string bytes(const std::vector<uint16_t> &words, const std::function<float(float)> &map = {}) {
    std::vector<float> values;
    for (uint16_t w : words)
      values.push_back(map ? map(widen(w)) : widen(w));
    return f32Bytes(values);
  }
  static float onePlus(float w) { return 1 + w; }

  std::string file() {
    GgufBuilder b;
    const std::string a = "qwen35.";
    b.string("general.architecture", "qwen35");
    for (const auto &[key, value] : std::map<std::string, uint32_t>{{"context_length", 256}, {"embedding_length", H},
             {"block_count", 2 + draftLayers}, {"feed_forward_length", I}, {"attention.head_count", Hq},
             {"attention.head_count_kv", Hkv}, {"attention.key_length", D}, {"attention.value_length", D},
             {"rope.dimension_count", D / 2}, {"ssm.conv_kernel", taps}, {"ssm.state_size", dk},
             {"ssm.group_count", static_cast<uint32_t>(nk)}, {"ssm.time_step_rank", static_cast<uint32_t>(nv)}})
      b.u32(a + key, value);
    b.ints(a + "rope.dimension_sections", {1, 1, 0, fourthSection});
    b.f32(a + "rope.freq_base", 1e7f);
    b.f32(a + "attention.layer_norm_rms_epsilon", 1e-6f);
    if (draftLayers)
      b.u32(a + "nextn_predict_layers", draftLayers);
    if (recurrentArray)
      b.ints(a + "attention.recurrent_layers", {1, 0});
    else
      b.u32(a + "full_attention_interval", 2);
    if (inner)
      b.u32(a + "ssm.inner_size", inner);
    more(b);

    b.tensor("token_embd.weight", kF32, {V, H}, bytes(make("text/token_embedding", {V, H})));
    for (int layer : {0, 1}) {
      const std::string p = "text/layers/" + std::to_string(layer) + "/", t = "blk." + std::to_string(layer) + ".";
      auto add = [&](const std::string &parameter, const std::string &tensor, std::vector<uint64_t> shape) {
        make(p + parameter, shape);
        b.tensor(t + tensor, kF32, shape, bytes(words[p + parameter]));
      };
      auto norm = [&](const std::string &parameter, const std::string &tensor, uint64_t n) {
        b.tensor(t + tensor, kF32, {n}, bytes(make(p + parameter, {n}, true), onePlus));
      };
      norm("input_norm", "attn_norm.weight", H);
      norm("post_attention_norm", "post_attention_norm.weight", H);
      if (layer == 1) {
        std::vector<uint16_t> both; // query and gate, head by head
        make(p + "attention/query", {Hq * D, H});
        make(p + "attention/gate", {Hq * D, H});
        for (uint64_t head = 0; head < Hq; ++head)
          for (const char *half : {"attention/query", "attention/gate"}) {
            const auto from = words[p + half].begin() + static_cast<std::ptrdiff_t>(head * D * H);
            both.insert(both.end(), from, from + D * H);
          }
        b.tensor(t + "attn_q.weight", kF32, {2 * Hq * D, H}, bytes(both));
        add("attention/key", "attn_k.weight", {Hkv * D, H});
        add("attention/value", "attn_v.weight", {Hkv * D, H});
        add("attention/output", "attn_output.weight", {H, Hq * D});
        norm("attention/query_norm", "attn_q_norm.weight", D);
        norm("attention/key_norm", "attn_k_norm.weight", D);
      } else {
        std::vector<uint16_t> qkv = make(p + "gdn/query", {kw(), H});
        const auto &key = make(p + "gdn/key", {kw(), H});
        qkv.insert(qkv.end(), key.begin(), key.end());
        const auto value = tiled(make(p + "gdn/value", {vw(), H}), dk * H);
        qkv.insert(qkv.end(), value.begin(), value.end());
        b.tensor(t + "attn_qkv.weight", kF32, {2 * kw() + vw(), H}, bytes(qkv));
        b.tensor(t + "attn_gate.weight", kF32, {vw(), H}, bytes(tiled(make(p + "gdn/z", {vw(), H}), dk * H)));
        b.tensor(t + "ssm_alpha.weight", kF32, {nv, H}, bytes(tiled(make(p + "gdn/a_projection", {nv, H}), H)));
        b.tensor(t + "ssm_beta.weight", kF32, {nv, H}, bytes(tiled(make(p + "gdn/b_projection", {nv, H}), H)));
        b.tensor(t + "ssm_a", kF32, {nv},
                 bytes(tiled(make(p + "gdn/a_log", {nv}), 1), [&](float x) { return decayFactor * std::exp(x); }));
        b.tensor(t + "ssm_dt.bias", kF32, {nv}, bytes(tiled(make(p + "gdn/dt_bias", {nv}), 1)));
        add("gdn/norm", "ssm_norm.weight", {dk});
        // The convolution by channel, from [taps][channel].
        const uint64_t channels = 2 * kw() + vw();
        const auto &conv = make(p + "gdn/convolution", {taps, channels});
        std::vector<std::vector<uint16_t>> byChannel(channels);
        for (uint64_t c = 0; c < channels; ++c)
          for (uint64_t tap = 0; tap < taps; ++tap)
            byChannel[c].push_back(conv[tap * channels + c]);
        const auto middle = byChannel.begin() + static_cast<std::ptrdiff_t>(2 * kw());
        const auto values = tiled(std::vector<std::vector<uint16_t>>(middle, byChannel.end()), dk);
        std::copy(values.begin(), values.end(), middle);
        std::vector<uint16_t> flat;
        for (const auto &channel : byChannel)
          flat.insert(flat.end(), channel.begin(), channel.end());
        b.tensor(t + "ssm_conv1d.weight", kF32, {channels, taps}, bytes(flat));
        const auto &output = make(p + "gdn/output", {H, vw()});
        if (outputType == kF32) {
          b.tensor(t + "ssm_out.weight", kF32, {H, vw()}, bytes(tiledColumns(output, dk)));
        } else { // blocks of 34 bytes: a scale, 32 codes
          std::vector<std::string> cells;
          for (uint64_t i = 0; i < H * nv; ++i) {
            std::string cell(34, static_cast<char>(i * 7 % 101));
            cell[0] = static_cast<char>(i % 200);
            cell[1] = 0x2c; // a binary16 near 0.06
            cells.push_back(cell);
          }
          std::string all;
          for (const std::string &cell : tiledColumns(cells, 1))
            all += cell;
          b.tensor(t + "ssm_out.weight", kQ8, {H, vw()}, all);
        }
      }
      add("mlp/gate", "ffn_gate.weight", {I, H});
      add("mlp/up", "ffn_up.weight", {I, H});
      add("mlp/down", "ffn_down.weight", {H, I});
    }
    b.tensor("output_norm.weight", kF32, {H}, bytes(make("text/final_norm", {H}, true), onePlus));
    if (draftLayers)
      b.tensor("blk.2.nextn.enorm.weight", kF32, {H}, std::string(4 * H, '\0'));
    return b.file();
  }
};

Result<ConvertReport> convert(Model &model, const fs::path &output, const std::string &recipe = "bf16") {
  TempFolder in;
  writeBytes(in / "m.gguf", model.file());
  ConvertOptions options;
  options.source = in / "m.gguf";
  options.output = output;
  options.recipe = *Recipe::builtIn(recipe);
  options.tokenizer = false;
  options.force = true;
  options.threads = 2;
  return convertCheckpoint(options);
}

std::vector<std::byte> objectOf(const Artifact &artifact, const std::string &parameter) {
  auto bytes = artifact.object(artifact.directory().bindings.at(parameter).parts.at(0).object);
  return {bytes->begin(), bytes->end()};
}

void expectWords(Model model) {
  TempFolder out;
  auto report = convert(model, out / "m.ninfer");
  ASSERT_TRUE(report.ok()) << report.error().render();
  auto artifact = Artifact::open(out / "m.ninfer");
  ASSERT_TRUE(artifact.ok()) << artifact.error().render();
  for (const auto &[parameter, words] : model.words) {
    const std::vector<std::byte> bytes = objectOf(*artifact, parameter);
    if (parameter.ends_with("a_log") || parameter.ends_with("dt_bias")) {
      ASSERT_EQ(bytes.size(), 4 * words.size());
      for (size_t i = 0; i < words.size(); ++i) {
        const float value = floatFromBits(loadLe32(bytes.data() + 4 * i));
        // exp in binary32 and back: an error of 2^-23 of exp(x) is one of about 2^-23 of x + 1.
        EXPECT_NEAR(value, widen(words[i]), 4e-7f) << parameter << " " << i;
      }
      continue;
    }
    ASSERT_EQ(bytes.size(), 2 * words.size()) << parameter;
    std::vector<uint16_t> got;
    for (size_t i = 0; i < words.size(); ++i)
      got.push_back(loadLe16(bytes.data() + 2 * i));
    EXPECT_EQ(got, words) << parameter;
  }
  EXPECT_EQ(artifact->directory().bindings.size(), model.words.size() + 1); // the tied head
}

TEST(GgufHybrid, EveryWordIsTheCheckpoints) { expectWords({.nk = 3, .nv = 3}); }
TEST(GgufHybrid, ValueHeadsAreBackBehindTheirKeyHead) { expectWords({.nk = 2, .nv = 6}); }
TEST(GgufHybrid, RecurrentLayersMayBeAnArray) { expectWords({.nk = 2, .nv = 4, .recurrentArray = true}); }

TEST(GgufHybrid, ColumnsOfQuantizedOutputsChangePlacesByBlocks) {
  for (uint32_t type : {kF32, kQ8}) {
    Model tiled{.nk = 2, .nv = 6, .outputType = type}, plain{.nk = 6, .nv = 6, .outputType = type};
    TempFolder out;
    ASSERT_TRUE(convert(tiled, out / "t.ninfer", "w8").ok());
    ASSERT_TRUE(convert(plain, out / "p.ninfer", "w8").ok());
    auto t = Artifact::open(out / "t.ninfer"), p = Artifact::open(out / "p.ninfer");
    EXPECT_EQ(objectOf(*t, "text/layers/0/gdn/output"), objectOf(*p, "text/layers/0/gdn/output")) << type;
  }
}

TEST(GgufHybrid, TheDraftLayerIsLeftOutAndTold) {
  Model model{.nk = 2, .nv = 4, .draftLayers = 1};
  TempFolder out;
  auto report = convert(model, out / "m.ninfer");
  ASSERT_TRUE(report.ok()) << report.error().render();
  EXPECT_NE(std::find(report->notes.begin(), report->notes.end(), "the draft layer of a GGUF is not converted"),
            report->notes.end());
}

struct Refused {
  const char *name;
  std::function<void(Model &)> change;
  const char *code;
  const char *message;
};

class GgufHybridRefused : public testing::TestWithParam<Refused> {};

TEST_P(GgufHybridRefused, ByName) {
  Model model{.nk = 2, .nv = 4};
  GetParam().change(model);
  TempFolder out;
  auto report = convert(model, out / "m.ninfer");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, GetParam().code);
  EXPECT_NE(report.error().render().find(GetParam().message), std::string::npos) << report.error().render();
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GgufHybridRefused,
    testing::Values(
        Refused{"decay", [](Model &m) { m.decayFactor = 1; }, "NB0317", "is not below zero, so it is not -exp of anything"},
        Refused{"inner", [](Model &m) { m.inner = 7; }, "NB0315",
                "ssm.inner_size 7 differs from time_step_rank * state_size (128)"},
        Refused{"sections", [](Model &m) { m.fourthSection = 1; }, "NB0314", "or of 4 with a last 0"},
        Refused{"scaling",
                [](Model &m) { m.more = [](GgufBuilder &b) { b.string("qwen35.rope.scaling.type", "yarn"); }; }, "NB0315",
                "rope scaling 'yarn'"},
        Refused{"draft", [](Model &m) { m.draftLayers = 0x10000; }, "NB0314", "must be at most 4096"},
        Refused{"flags",
                [](Model &m) {
                  m.more = [](GgufBuilder &b) { b.ints("qwen35.attention.recurrent_layers", {1}); };
                },
                "NB0314", "must be an array of block_count (2) numbers"},
        Refused{"extra",
                [](Model &m) {
                  m.more = [](GgufBuilder &b) { b.tensor("blk.0.attn_q.weight", kF32, {2, 16}, std::string(128, '\0')); };
                },
                "NB0319", "extra: tensor 'blk.0.attn_q.weight'"}),
    [](const auto &info) { return info.param.name; });

} // namespace
} // namespace ninfer
