// Hand-made source files for the converter's tests: safetensors and GGUF writers that share no code
// with the readers under test, a temporary folder, and a tiny decoder in both forms.
#ifndef NINFER_TEST_UNIT_CONVERT_SOURCEBUILDERS_H
#define NINFER_TEST_UNIT_CONVERT_SOURCEBUILDERS_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

namespace ninfer::test {

namespace fs = std::filesystem;

/// A fresh folder, removed with everything in it.
class TempFolder {
public:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "ninfer-convert-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path &path() const { return path_; }
  fs::path operator/(const std::string &name) const { return path_ / name; }

private:
  fs::path path_;
};

inline void writeBytes(const fs::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string readBytes(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

template <typename T>
void put(std::string &out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
}

inline std::string f32Bytes(const std::vector<float> &values) {
  std::string out(values.size() * 4, '\0');
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// bfloat16 by truncation; exact for the values the tests use.
inline std::string bf16Bytes(const std::vector<float> &values) {
  std::string out;
  for (float v : values) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    put<uint16_t>(out, static_cast<uint16_t>(bits >> 16));
  }
  return out;
}

/// 8-byte length, header text, data.
inline std::string safetensorsFile(const std::string &header, const std::string &data) {
  std::string out;
  put<uint64_t>(out, header.size());
  return out + header + data;
}

class SafetensorsBuilder {
public:
  void add(const std::string &name, const std::string &dtype, const std::vector<uint64_t> &shape,
           const std::string &bytes) {
    std::string dims;
    for (uint64_t d : shape)
      dims += (dims.empty() ? "" : ",") + std::to_string(d);
    header_ += (header_.empty() ? "" : ",") + std::string("\"") + name + "\":{\"dtype\":\"" +
               dtype + "\",\"shape\":[" + dims + "],\"data_offsets\":[" +
               std::to_string(data_.size()) + "," + std::to_string(data_.size() + bytes.size()) +
               "]}";
    data_ += bytes;
  }
  std::string file() const { return safetensorsFile("{" + header_ + "}", data_); }

private:
  std::string header_, data_;
};

/// GGUF version 3. Metadata helpers write key, type and value; tensors are padded to 32 bytes.
class GgufBuilder {
public:
  static std::string text(const std::string &value) {
    std::string out;
    put<uint64_t>(out, value.size());
    return out + value;
  }
  void raw(const std::string &key, uint32_t type, const std::string &value) {
    meta_ += text(key);
    put<uint32_t>(meta_, type);
    meta_ += value;
    ++entries_;
  }
  void u32(const std::string &key, uint32_t value) {
    std::string v;
    put<uint32_t>(v, value);
    raw(key, 4, v);
  }
  void f32(const std::string &key, float value) { raw(key, 6, f32Bytes({value})); }
  void boolean(const std::string &key, bool value) {
    raw(key, 7, std::string(1, value ? '\1' : '\0'));
  }
  void string(const std::string &key, const std::string &value) { raw(key, 8, text(value)); }
  void strings(const std::string &key, const std::vector<std::string> &values) {
    std::string v;
    put<uint32_t>(v, 8);
    put<uint64_t>(v, values.size());
    for (const std::string &s : values)
      v += text(s);
    raw(key, 9, v);
  }
  void ints(const std::string &key, const std::vector<int32_t> &values) {
    std::string v;
    put<uint32_t>(v, 5);
    put<uint64_t>(v, values.size());
    for (int32_t i : values)
      put<uint32_t>(v, static_cast<uint32_t>(i));
    raw(key, 9, v);
  }
  /// `shape` is row-major; the file stores it reversed.
  void tensor(const std::string &name, uint32_t type, const std::vector<uint64_t> &shape,
              const std::string &bytes) {
    while (data_.size() % 32)
      data_ += '\0';
    tensorAt(name, type, shape, data_.size());
    data_ += bytes;
  }
  void tensorAt(const std::string &name, uint32_t type, const std::vector<uint64_t> &shape,
                uint64_t offset) {
    infos_ += text(name);
    put<uint32_t>(infos_, static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;)
      put<uint64_t>(infos_, shape[i]);
    put<uint32_t>(infos_, type);
    put<uint64_t>(infos_, offset);
    ++tensors_;
  }
  std::string file() const {
    std::string out = "GGUF";
    put<uint32_t>(out, version);
    put<uint64_t>(out, tensorCount ? tensorCount : tensors_);
    put<uint64_t>(out, entryCount ? entryCount : entries_);
    out += meta_ + infos_;
    while (out.size() % 32)
      out += '\0';
    return out + data_;
  }

  uint32_t version = 3;
  uint64_t tensorCount = 0, entryCount = 0; ///< lies, when set

private:
  std::string meta_, infos_, data_;
  uint64_t entries_ = 0, tensors_ = 0;
};

// A decoder small enough to read: hidden 64, 4 query and 2 key/value heads of 16, mlp 96,
// vocabulary 40, 2 layers. All weights are bfloat16 values, so every float source type holds them
// exactly.

struct TinyTensor {
  std::string huggingFace, gguf;
  std::vector<uint64_t> shape;
  std::vector<float> values;
  uint64_t pairedHeads = 0; ///< q and k: rows are interleaved in a llama GGUF
};

inline std::vector<TinyTensor> tinyTensors(bool qkNorm = false, bool tied = true) {
  std::vector<TinyTensor> out;
  uint32_t seed = 12345;
  auto add = [&](std::string hf, std::string gguf, std::vector<uint64_t> shape,
                 uint64_t heads = 0) {
    TinyTensor t{std::move(hf), std::move(gguf), std::move(shape), {}, heads};
    uint64_t n = 1;
    for (uint64_t d : t.shape)
      n *= d;
    for (uint64_t i = 0; i < n; ++i) {
      seed = seed * 1664525u + 1013904223u;
      int mantissa = static_cast<int>((seed >> 16) % 255) - 127;
      t.values.push_back(
          std::ldexp(static_cast<float>(mantissa), -8 - static_cast<int>((seed >> 8) % 3)));
    }
    out.push_back(std::move(t));
  };
  add("model.embed_tokens.weight", "token_embd.weight", {40, 64});
  for (int i = 0; i < 2; ++i) {
    std::string h = "model.layers." + std::to_string(i) + ".", g = "blk." + std::to_string(i) + ".";
    add(h + "input_layernorm.weight", g + "attn_norm.weight", {64});
    add(h + "self_attn.q_proj.weight", g + "attn_q.weight", {64, 64}, 4);
    add(h + "self_attn.k_proj.weight", g + "attn_k.weight", {32, 64}, 2);
    add(h + "self_attn.v_proj.weight", g + "attn_v.weight", {32, 64});
    if (qkNorm) {
      add(h + "self_attn.q_norm.weight", g + "attn_q_norm.weight", {16});
      add(h + "self_attn.k_norm.weight", g + "attn_k_norm.weight", {16});
    }
    add(h + "self_attn.o_proj.weight", g + "attn_output.weight", {64, 64});
    add(h + "post_attention_layernorm.weight", g + "ffn_norm.weight", {64});
    add(h + "mlp.gate_proj.weight", g + "ffn_gate.weight", {96, 64});
    add(h + "mlp.up_proj.weight", g + "ffn_up.weight", {96, 64});
    add(h + "mlp.down_proj.weight", g + "ffn_down.weight", {64, 96});
  }
  add("model.norm.weight", "output_norm.weight", {64});
  if (!tied)
    add("lm_head.weight", "output.weight", {40, 64});
  return out;
}

inline std::string tinyConfig(bool qkNorm = false, bool tied = true) {
  return std::string(R"({"architectures":[")") +
         (qkNorm ? "Qwen3ForCausalLM" : "LlamaForCausalLM") +
         R"("],"hidden_size":64,"vocab_size":40,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
         R"("head_dim":16,"intermediate_size":96,"max_position_embeddings":128,"rms_norm_eps":0.0001220703125,)"
         R"("tie_word_embeddings":)" +
         (tied ? "true" : "false") + R"(,"rope_theta":10000.0,"eos_token_id":2,"bos_token_id":1})";
}

/// Vocabulary of 40 letters and one merge.
inline std::string tinyTokenizer() {
  std::string vocab;
  for (int i = 0; i < 38; ++i)
    vocab += "\"" + std::string(1, static_cast<char>('A' + i % 26)) + (i >= 26 ? "x" : "") +
             "\":" + std::to_string(i) + ",";
  return R"({"version":"1.0","added_tokens":[],"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{)" + vocab +
         R"("AB":38,"<e>":39},"merges":["A B"]}})";
}

/// A complete model folder; `dtype` is F32, BF16 or F16 (F16 not offered by the tests that need
/// exact bytes).
inline void writeTinyFolder(const fs::path &folder, const std::vector<TinyTensor> &tensors,
                            const std::string &dtype, const std::string &config = tinyConfig()) {
  SafetensorsBuilder file;
  for (const TinyTensor &t : tensors)
    file.add(t.huggingFace, dtype, t.shape,
             dtype == "F32" ? f32Bytes(t.values) : bf16Bytes(t.values));
  writeBytes(folder / "model.safetensors", file.file());
  writeBytes(folder / "config.json", config);
  writeBytes(folder / "tokenizer.json", tinyTokenizer());
}

/// The row order a llama GGUF uses, from its definition: rows [head][half][pair] become
/// [head][pair][half].
inline std::vector<float> pairRows(const TinyTensor &t) {
  uint64_t k = t.shape[1], d = t.shape[0] / t.pairedHeads;
  std::vector<float> out(t.values.size());
  for (uint64_t h = 0; h < t.pairedHeads; ++h)
    for (uint64_t half = 0; half < 2; ++half)
      for (uint64_t pair = 0; pair < d / 2; ++pair)
        for (uint64_t c = 0; c < k; ++c)
          out[(h * d + pair * 2 + half) * k + c] =
              t.values[(h * d + half * (d / 2) + pair) * k + c];
  return out;
}

inline void tinyGgufMetadata(GgufBuilder &file, const std::string &architecture = "llama") {
  file.string("general.architecture", architecture);
  file.string("general.name", "tiny");
  std::string a = architecture + ".";
  file.u32(a + "block_count", 2);
  file.u32(a + "context_length", 128);
  file.u32(a + "embedding_length", 64);
  file.u32(a + "feed_forward_length", 96);
  file.u32(a + "attention.head_count", 4);
  file.u32(a + "attention.head_count_kv", 2);
  file.f32(a + "attention.layer_norm_rms_epsilon", 0.0001220703125f);
  file.f32(a + "rope.freq_base", 10000.0f);
}

inline void tinyGgufTokenizer(GgufBuilder &file) {
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types = {3, 3, 3};
  for (char c = 'a'; c <= 'z'; ++c)
    tokens.push_back(std::string(1, c));
  tokens.push_back("ab");
  tokens.push_back("abc");
  while (types.size() < tokens.size())
    types.push_back(1);
  file.string("tokenizer.ggml.model", "gpt2");
  file.string("tokenizer.ggml.pre", "smollm");
  file.strings("tokenizer.ggml.tokens", tokens);
  file.ints("tokenizer.ggml.token_type", types);
  file.strings("tokenizer.ggml.merges", {"a b", "ab c"});
  file.u32("tokenizer.ggml.bos_token_id", 1);
  file.u32("tokenizer.ggml.eos_token_id", 2);
  file.string("tokenizer.chat_template", "{{ messages }}");
}

/// `type` is ggml's 0 (F32) or 30 (BF16); norms are always F32.
inline GgufBuilder tinyGguf(const std::vector<TinyTensor> &tensors, uint32_t type,
                            const std::string &architecture = "llama") {
  GgufBuilder file;
  tinyGgufMetadata(file, architecture);
  tinyGgufTokenizer(file);
  for (const TinyTensor &t : tensors) {
    bool norm = t.shape.size() == 1;
    std::vector<float> values = t.pairedHeads && architecture == "llama" ? pairRows(t) : t.values;
    file.tensor(t.gguf, norm ? 0 : type, t.shape,
                norm || type == 0 ? f32Bytes(values) : bf16Bytes(values));
  }
  return file;
}

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_CONVERT_SOURCEBUILDERS_H
