// Hand-made quantized checkpoints: a decoder of one layer whose matrices a test replaces by the
// tensors of a quantizer, and readers of stored objects by the byte tables of docs/formats.md that
// share no code with artifact/layouts.
#ifndef NINFER_TEST_UNIT_CONVERT_QUANTIZEDBUILDERS_H
#define NINFER_TEST_UNIT_CONVERT_QUANTIZEDBUILDERS_H

#include "SourceBuilders.h"
#include "artifact/container/Reader.h"
#include "convert/Converter.h"

#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <span>
#include <stdexcept>

namespace ninfer::test {

struct RawTensor {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

/// Pseudo-random bytes, the same for equal seeds.
inline std::string noise(size_t count, uint32_t seed) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    out += static_cast<char>(seed >> 24);
  }
  return out;
}

inline std::string words16(const std::vector<uint16_t> &words) {
  std::string out;
  for (uint16_t w : words)
    put<uint16_t>(out, w);
  return out;
}
inline std::string words32(const std::vector<uint32_t> &words) {
  std::string out;
  for (uint32_t w : words)
    put<uint32_t>(out, w);
  return out;
}
inline std::string words64(const std::vector<uint64_t> &words) {
  std::string out;
  for (uint64_t w : words)
    put<uint64_t>(out, w);
  return out;
}

/// One llama layer with tied embeddings: hidden size, mlp width, four heads of hidden/4.
struct QuantizedModel {
  uint64_t hidden = 64, intermediate = 128;
  std::string quantization; ///< value of quantization_config; empty: none
  std::string extraConfig;  ///< more members, with a leading comma
  std::map<std::string, std::vector<RawTensor>>
      modules; ///< "mlp.gate_proj" -> tensors in place of its weight; names behind the module's
  std::vector<RawTensor> more; ///< full names
  bool tied = true;

  std::string config() const {
    std::string h = std::to_string(hidden);
    return R"({"architectures":["LlamaForCausalLM"],"hidden_size":)" + h +
           R"(,"vocab_size":40,"num_hidden_layers":1,"num_attention_heads":4,"head_dim":)" +
           std::to_string(hidden / 4) + R"(,"intermediate_size":)" + std::to_string(intermediate) +
           R"(,"max_position_embeddings":128,"rms_norm_eps":0.0001220703125,"rope_theta":10000.0,)" +
           R"("eos_token_id":2,"bos_token_id":1,"tie_word_embeddings":)" +
           (tied ? "true" : "false") +
           (quantization.empty() ? "" : ",\"quantization_config\":" + quantization) + extraConfig +
           "}";
  }

  static const std::vector<std::string> &linears() {
    static const std::vector<std::string> names = {
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
    return names;
  }
  std::vector<uint64_t> shapeOf(const std::string &module) const {
    if (module == "mlp.down_proj")
      return {hidden, intermediate};
    return module.compare(0, 4, "mlp.") == 0 ? std::vector<uint64_t>{intermediate, hidden}
                                             : std::vector<uint64_t>{hidden, hidden};
  }

  void write(const fs::path &folder) const {
    SafetensorsBuilder file;
    auto plain = [&](const std::string &name, std::vector<uint64_t> shape) {
      uint64_t n = 1;
      for (uint64_t d : shape)
        n *= d;
      std::vector<float> values;
      for (uint64_t i = 0; i < n; ++i)
        values.push_back(std::ldexp(static_cast<float>(static_cast<int>(i * 37 % 255) - 127), -9));
      file.add(name, "BF16", shape, bf16Bytes(values));
    };
    const std::string layer = "model.layers.0.";
    plain("model.embed_tokens.weight", {40, hidden});
    plain(layer + "input_layernorm.weight", {hidden});
    plain(layer + "post_attention_layernorm.weight", {hidden});
    plain("model.norm.weight", {hidden});
    for (const std::string &module : linears()) {
      auto it = modules.find(module);
      if (it == modules.end()) {
        plain(layer + module + ".weight", shapeOf(module));
        continue;
      }
      for (const RawTensor &t : it->second)
        file.add(layer + module + "." + t.name, t.dtype, t.shape, t.bytes);
    }
    if (!tied && !modules.count("lm_head"))
      plain("lm_head.weight", {40, hidden});
    for (const RawTensor &t : more)
      file.add(t.name, t.dtype, t.shape, t.bytes);
    writeBytes(folder / "model.safetensors", file.file());
    writeBytes(folder / "config.json", config());
    writeBytes(folder / "tokenizer.json", tinyTokenizer());
  }
};

/// A model, its conversion into a fresh file, and the outcome.
struct QuantizedCase {
  TempFolder in, out;
  QuantizedModel model;
  ConvertOptions options;
  std::optional<Artifact> artifact;    ///< of a conversion that wrote one
  std::optional<ConvertReport> report; ///< of a conversion that succeeded
  std::string error, code;             ///< rendered error and its id; empty on success
  ErrorKind kind = ErrorKind::Failed;

  QuantizedCase() {
    options.tokenizer = false;
    options.threads = 2;
    options.source = in.path();
    options.output = out / "m.ninfer";
  }
  void convert() {
    model.write(in.path());
    convertWritten();
  }
  /// Converts what lies in the folder.
  void convertWritten() {
    artifact.reset();
    report.reset();
    error = code = "";
    fs::remove(options.output);
    auto result = convertCheckpoint(options);
    if (!result.ok()) {
      error = result.error().render();
      code = result.error().code;
      kind = result.error().kind;
      EXPECT_FALSE(fs::exists(options.output));
      return;
    }
    report = result.take();
    if (options.dryRun)
      return;
    auto opened = Artifact::open(options.output);
    ASSERT_TRUE(opened.ok()) << opened.error().render();
    artifact.emplace(opened.take());
  }

  uint32_t indexOf(const std::string &parameter) const {
    return artifact->directory().bindings.at(parameter).parts.at(0).object;
  }
  std::span<const std::byte> objectOf(const std::string &parameter) const {
    return *artifact->object(indexOf(parameter));
  }
  const TensorReport &lineOf(const std::string &object) const {
    for (const TensorReport &t : report->tensors)
      if (t.object == object)
        return t;
    throw std::out_of_range(object);
  }
  bool says(const std::string &text) const { return error.find(text) != std::string::npos; }
};

/// Scheme of compressed-tensors with one group for `targets` (JSON array).
inline std::string compressedConfig(const std::string &format, const std::string &weights,
                                    const std::string &targets = R"(["Linear"])",
                                    const std::string &ignore = R"(["lm_head"])",
                                    const std::string &more = "") {
  return R"({"quant_method":"compressed-tensors","format":")" + format +
         R"(","quantization_status":"compressed","ignore":)" + ignore +
         R"(,"config_groups":{"group_0":{"targets":)" + targets + R"(,"weights":)" + weights +
         R"(,"input_activations":null,"output_activations":null}})" + more + "}";
}

// Stored words by the byte tables of docs/formats.md.

inline uint64_t up(uint64_t n, uint64_t m) { return (n + m - 1) / m * m; }
inline uint8_t byteAt(std::span<const std::byte> object, uint64_t at) {
  return static_cast<uint8_t>(object[at]);
}
inline uint16_t wordAt(std::span<const std::byte> object, uint64_t at) {
  return static_cast<uint16_t>(byteAt(object, at) | byteAt(object, at + 1) << 8);
}

/// Signed 4-bit code (n, k) of Q4G64_F16S with K columns.
inline int q4Code(std::span<const std::byte> object, uint64_t n, uint64_t k, uint64_t columns) {
  uint8_t byte = byteAt(object, (n * up(columns, 128) + k) / 2);
  int nibble = k % 2 ? byte >> 4 : byte & 15;
  return nibble < 8 ? nibble : nibble - 16;
}
/// binary16 word of group `group` of row n; Q4 has groups of 64, W8 of 32.
inline uint16_t groupScaleWord(std::span<const std::byte> object, uint64_t rows, uint64_t columns,
                               uint64_t bits, uint64_t groupSize, uint64_t n, uint64_t group) {
  uint64_t padded = up(columns, 128), base = up(rows * padded * bits / 8, 256);
  return wordAt(object, base + 2 * (n * (padded / groupSize) + group));
}
inline int w8Code(std::span<const std::byte> object, uint64_t n, uint64_t k, uint64_t columns) {
  return static_cast<int8_t>(byteAt(object, n * up(columns, 128) + k));
}
inline uint8_t nvfp4Code(std::span<const std::byte> object, uint64_t n, uint64_t k,
                         uint64_t columns) {
  uint8_t byte = byteAt(object, n * columns / 2 + k / 2);
  return k % 2 ? byte >> 4 : byte & 15;
}
inline uint8_t nvfp4Scale(std::span<const std::byte> object, uint64_t rows, uint64_t columns,
                          uint64_t n, uint64_t group) {
  uint64_t at = ((n / 128) * (columns / 64) + group / 4) * 512 + (n % 32) * 16 +
                (n % 128 / 32) * 4 + group % 4;
  return byteAt(object, up(rows * columns / 2, 256) + at);
}
inline uint32_t nvfp4Divisor(std::span<const std::byte> object) {
  uint64_t at = object.size() - 4;
  return wordAt(object, at) | static_cast<uint32_t>(wordAt(object, at + 2)) << 16;
}
inline uint16_t fp8Scale(std::span<const std::byte> object, uint64_t rows, uint64_t columns,
                         uint64_t n) {
  return wordAt(object, up(rows * columns, 256) + 2 * n);
}

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_CONVERT_QUANTIZEDBUILDERS_H
