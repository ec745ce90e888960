// Checkpoints of the published shapes as sparse files: the inventory, the element counts and the formats a dry run
// reports are the published ones.
#include "convert/Converter.h"

#include "SourceBuilders.h"
#include "support/Json.h"

#include <gtest/gtest.h>

namespace ninfer {
namespace {

using namespace test;

struct Shape {
  uint64_t H, L, Hq, Hkv, nk, nv, I, E, Ir, Is; // I 0: sparse
  uint64_t towerDepth = 27;
  uint64_t V = 248320, D = 256, dk = 128, dv = 128, taps = 4;
};

/// The header of a checkpoint without its data.
class SparseCheckpoint {
public:
  explicit SparseCheckpoint(const Shape &s) : s_(s) {
    const std::string m = "model.language_model.";
    add(m + "embed_tokens.weight", {s.V, s.H});
    for (uint64_t i = 0; i < s.L; ++i)
      layer(m + "layers." + std::to_string(i) + ".", i % 4 == 3);
    add(m + "norm.weight", {s.H});
    add("lm_head.weight", {s.V, s.H});
    add("mtp.fc.weight", {s.H, 2 * s.H});
    for (const char *norm : {"pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"})
      add(std::string("mtp.") + norm + ".weight", {s.H});
    layer("mtp.layers.0.", true);
    tower("model.visual.");
  }

  void write(const fs::path &folder) const {
    const std::string text = header_.dump();
    writeBytes(folder / "model.safetensors", safetensorsFile(text, ""));
    fs::resize_file(folder / "model.safetensors", 8 + text.size() + bytes_);
    writeBytes(folder / "config.json", config().dump());
  }

private:
  void add(const std::string &name, std::vector<uint64_t> shape) {
    uint64_t n = 2;
    for (uint64_t d : shape)
      n *= d;
    header_[name] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {bytes_, bytes_ + n}}};
    bytes_ += n;
  }
  void linear(const std::string &name, uint64_t rows, uint64_t columns) {
    add(name + ".weight", {rows, columns});
    add(name + ".bias", {rows});
  }

  void layer(const std::string &p, bool full) {
    add(p + "input_layernorm.weight", {s_.H});
    add(p + "post_attention_layernorm.weight", {s_.H});
    const uint64_t key = s_.nk * s_.dk, value = s_.nv * s_.dv, channels = 2 * key + value;
    if (full) {
      const std::string a = p + "self_attn.";
      add(a + "q_proj.weight", {2 * s_.Hq * s_.D, s_.H});
      add(a + "k_proj.weight", {s_.Hkv * s_.D, s_.H});
      add(a + "v_proj.weight", {s_.Hkv * s_.D, s_.H});
      add(a + "o_proj.weight", {s_.H, s_.Hq * s_.D});
      add(a + "q_norm.weight", {s_.D});
      add(a + "k_norm.weight", {s_.D});
    } else {
      const std::string a = p + "linear_attn.";
      add(a + "in_proj_qkv.weight", {channels, s_.H});
      add(a + "in_proj_z.weight", {value, s_.H});
      add(a + "in_proj_a.weight", {s_.nv, s_.H});
      add(a + "in_proj_b.weight", {s_.nv, s_.H});
      add(a + "conv1d.weight", {channels, 1, s_.taps});
      add(a + "A_log", {s_.nv});
      add(a + "dt_bias", {s_.nv});
      add(a + "norm.weight", {s_.dv});
      add(a + "out_proj.weight", {s_.H, value});
    }
    const std::string f = p + "mlp.";
    auto ffn = [&](const std::string &name, uint64_t inner) {
      add(name + "gate_proj.weight", {inner, s_.H});
      add(name + "up_proj.weight", {inner, s_.H});
      add(name + "down_proj.weight", {s_.H, inner});
    };
    if (s_.I != 0)
      return ffn(f, s_.I);
    add(f + "gate.weight", {s_.E, s_.H});
    add(f + "experts.gate_up_proj", {s_.E, 2 * s_.Ir, s_.H});
    add(f + "experts.down_proj", {s_.E, s_.H, s_.Ir});
    add(f + "shared_expert_gate.weight", {1, s_.H});
    ffn(f + "shared_expert.", s_.Is);
  }

  void tower(const std::string &v) {
    constexpr uint64_t width = 1152, inner = 4304, merged = 4 * width;
    add(v + "patch_embed.proj.weight", {width, 3, 2, 16, 16});
    add(v + "patch_embed.proj.bias", {width});
    add(v + "pos_embed.weight", {2304, width});
    auto norm = [&](const std::string &name) {
      add(name + ".weight", {width});
      add(name + ".bias", {width});
    };
    for (uint64_t i = 0; i < s_.towerDepth; ++i) {
      const std::string b = v + "blocks." + std::to_string(i) + ".";
      norm(b + "norm1");
      norm(b + "norm2");
      linear(b + "attn.qkv", 3 * width, width);
      linear(b + "attn.proj", width, width);
      linear(b + "mlp.linear_fc1", inner, width);
      linear(b + "mlp.linear_fc2", width, inner);
    }
    norm(v + "merger.norm");
    linear(v + "merger.linear_fc1", merged, merged);
    linear(v + "merger.linear_fc2", s_.H, merged);
  }

  Json config() const {
    const std::string family = s_.I ? "qwen3_5" : "qwen3_5_moe";
    Json text = {{"model_type", family + "_text"},
                 {"hidden_size", s_.H},
                 {"vocab_size", s_.V},
                 {"num_hidden_layers", s_.L},
                 {"max_position_embeddings", 262144},
                 {"full_attention_interval", 4},
                 {"attn_output_gate", true},
                 {"mamba_ssm_dtype", "float32"},
                 {"num_attention_heads", s_.Hq},
                 {"num_key_value_heads", s_.Hkv},
                 {"head_dim", s_.D},
                 {"linear_num_key_heads", s_.nk},
                 {"linear_key_head_dim", s_.dk},
                 {"linear_num_value_heads", s_.nv},
                 {"linear_value_head_dim", s_.dv},
                 {"linear_conv_kernel_dim", s_.taps},
                 {"mtp_num_hidden_layers", 1},
                 {"mtp_use_dedicated_embeddings", false}};
    if (s_.I)
      text["intermediate_size"] = s_.I;
    else
      text.update({{"num_experts", s_.E},
                   {"num_experts_per_tok", 8},
                   {"moe_intermediate_size", s_.Ir},
                   {"shared_expert_intermediate_size", s_.Is}});
    return {{"architectures",
             {s_.I ? "Qwen3_5ForConditionalGeneration" : "Qwen3_5MoeForConditionalGeneration"}},
            {"model_type", family},
            {"tie_word_embeddings", false},
            {"text_config", std::move(text)},
            {"vision_config",
             {{"model_type", family + "_vision"},
              {"depth", s_.towerDepth},
              {"hidden_size", 1152},
              {"intermediate_size", 4304},
              {"num_heads", 16},
              {"patch_size", 16},
              {"temporal_patch_size", 2},
              {"spatial_merge_size", 2},
              {"num_position_embeddings", 2304},
              {"out_hidden_size", s_.H},
              {"deepstack_visual_indexes", Json::array()}}}};
  }

  Shape s_;
  Json header_ = Json::object();
  uint64_t bytes_ = 0;
};

struct Totals {
  uint64_t elements = 0;
  std::map<std::string, uint64_t> bytes;  ///< by component
  std::map<Format, uint64_t> counts;
};

Totals dryRun(const Shape &shape, const char *recipe) {
  TempFolder in;
  SparseCheckpoint(shape).write(in.path());
  ConvertOptions options;
  options.source = in.path();
  options.output = in / "m.ninfer";
  options.recipe = *Recipe::builtIn(recipe);
  options.tokenizer = false;
  options.vision = true;
  options.dryRun = true;
  auto report = convertCheckpoint(options);
  Totals out;
  if (!report.ok()) {
    ADD_FAILURE() << report.error().render();
    return out;
  }
  EXPECT_TRUE(report->notes.empty());
  for (const TensorReport &t : report->tensors) {
    uint64_t n = 1;
    for (uint64_t d : t.shape)
      n *= d;
    out.elements += n;
    out.bytes[t.object.substr(0, t.object.find('/'))] += t.bytes;
    ++out.counts[t.format];
  }
  return out;
}

TEST(HybridShapes, Dense27B) {
  const Shape shape{5120, 64, 24, 4, 16, 48, 17408, 0, 0, 0};
  Totals totals = dryRun(shape, "qwen3.6-27b-int");
  EXPECT_EQ(totals.elements, 27'781'427'952u); // with draft layer and tower, as published
  // Published counts where fusing neighbours changes nothing: 582 BF16, 96 FP32, 3 Q6.
  EXPECT_EQ(totals.counts[Format::BF16], 582u);
  EXPECT_EQ(totals.counts[Format::FP32], 96u);
  EXPECT_EQ(totals.counts[Format::Q6G64_F16S], 3u);
  // What a decode step reads: the text model but for the embedding's rows, 15.38 GB.
  const uint64_t embedding = 248320ull * 5120 * 25 / 32;
  EXPECT_NEAR(static_cast<double>(totals.bytes["text"] - embedding) / 1e9, 15.385, 0.005);
}

TEST(HybridShapes, Sparse35B) {
  const Shape shape{2048, 40, 16, 2, 16, 32, 0, 256, 512, 512};
  Totals totals = dryRun(shape, "qwen3.6-35b-a3b-int");
  EXPECT_EQ(totals.elements, 35'951'822'704u); // as published
  EXPECT_EQ(totals.counts[Format::FP32], 60u);
  EXPECT_EQ(totals.counts[Format::Q6G64_F16S], 5u); // patches, head, three down banks
}

} // namespace
} // namespace ninfer
