// Writes a random but valid LlamaForCausalLM checkpoint: BF16 safetensors shards of at most one
// gigabyte, model.safetensors.index.json and config.json, no tokenizer. The values are a function
// of the position, so two runs give equal files. For measurements only.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHidden = 2048, kMlp = 8192, kVocabulary = 128256, kHeads = 32, kKvHeads = 8;
constexpr uint64_t kShardBytes = 1'000'000'000;

struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;
  uint64_t bytes() const {
    uint64_t out = 2;
    for (uint64_t d : shape)
      out *= d;
    return out;
  }
};

std::vector<Tensor> inventory(int layers) {
  const uint64_t head = kHidden / kHeads, kv = kKvHeads * head;
  std::vector<Tensor> out = {{"model.embed_tokens.weight", {kVocabulary, kHidden}}};
  for (int i = 0; i < layers; ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    out.push_back({p + "input_layernorm.weight", {kHidden}});
    out.push_back({p + "self_attn.q_proj.weight", {kHidden, kHidden}});
    out.push_back({p + "self_attn.k_proj.weight", {kv, kHidden}});
    out.push_back({p + "self_attn.v_proj.weight", {kv, kHidden}});
    out.push_back({p + "self_attn.o_proj.weight", {kHidden, kHidden}});
    out.push_back({p + "post_attention_layernorm.weight", {kHidden}});
    out.push_back({p + "mlp.gate_proj.weight", {kMlp, kHidden}});
    out.push_back({p + "mlp.up_proj.weight", {kMlp, kHidden}});
    out.push_back({p + "mlp.down_proj.weight", {kHidden, kMlp}});
  }
  out.push_back({"model.norm.weight", {kHidden}});
  out.push_back({"lm_head.weight", {kVocabulary, kHidden}});
  return out;
}

[[noreturn]] void fail(const fs::path &path) {
  std::perror(path.c_str());
  std::exit(1);
}

class File {
public:
  explicit File(fs::path path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb")) {
    if (!file_)
      fail(path_);
  }
  ~File() {
    if (std::fclose(file_) != 0)
      fail(path_);
  }
  void write(const void *bytes, size_t count) {
    if (std::fwrite(bytes, 1, count, file_) != count)
      fail(path_);
  }
  void write(const std::string &text) { write(text.data(), text.size()); }

private:
  fs::path path_;
  std::FILE *file_;
};

void writeTensor(File &file, uint64_t bytes, uint64_t &state) {
  std::vector<uint16_t> words(std::min<uint64_t>(bytes / 2, 1 << 20));
  for (uint64_t left = bytes / 2; left > 0;) {
    const uint64_t count = std::min<uint64_t>(left, words.size());
    for (uint64_t i = 0; i < count; ++i) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      words[i] = uint16_t((state >> 63) << 15 | (118 + (state >> 40) % 5) << 7 | (state & 127));
    }
    file.write(words.data(), count * 2);
    left -= count;
  }
}

void writeShard(const fs::path &path, const std::vector<Tensor> &tensors, uint64_t &state) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const Tensor &t : tensors) {
    std::string dims;
    for (uint64_t d : t.shape)
      dims += (dims.empty() ? "" : ",") + std::to_string(d);
    header += (offset ? ",\"" : "\"") + t.name + "\":{\"dtype\":\"BF16\",\"shape\":[" + dims +
              "],\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(offset + t.bytes()) + "]}";
    offset += t.bytes();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  File file(path);
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i)
    length[size_t(i)] = char(header.size() >> (8 * i));
  file.write(length + header);
  for (const Tensor &t : tensors)
    writeTensor(file, t.bytes(), state);
}

std::string shardName(size_t index, size_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return text;
}

} // namespace

int main(int argc, char **argv) {
  const int layers = argc == 3 ? std::atoi(argv[2]) : 24;
  if (argc < 2 || argc > 3 || layers < 1 || layers > 200) {
    std::fputs("usage: ninfer-make-checkpoint FOLDER [LAYERS]   (24 layers: 2.0e9 parameters)\n",
               stderr);
    return 2;
  }
  const fs::path folder = argv[1];
  fs::create_directories(folder);
  std::vector<std::vector<Tensor>> shards(1);
  uint64_t parameters = 0, inShard = 0;
  for (Tensor &t : inventory(layers)) {
    parameters += t.bytes() / 2;
    if (inShard > 0 && inShard + t.bytes() > kShardBytes) {
      shards.emplace_back();
      inShard = 0;
    }
    inShard += t.bytes();
    shards.back().push_back(std::move(t));
  }
  uint64_t state = 0x2545f4914f6cdd1du;
  std::string map;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shardName(i, shards.size());
    writeShard(folder / name, shards[i], state);
    for (const Tensor &t : shards[i])
      map += (map.empty() ? "\"" : ",\"") + t.name + "\":\"" + name + "\"";
  }
  File(folder / "model.safetensors.index.json")
      .write("{\"metadata\":{\"total_size\":" + std::to_string(parameters * 2) +
             "},\"weight_map\":{" + map + "}}");
  File(folder / "config.json")
      .write("{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":" +
             std::to_string(kHidden) + ",\"vocab_size\":" + std::to_string(kVocabulary) +
             ",\"num_hidden_layers\":" + std::to_string(layers) + ",\"num_attention_heads\":" +
             std::to_string(kHeads) + ",\"num_key_value_heads\":" + std::to_string(kKvHeads) +
             ",\"intermediate_size\":" + std::to_string(kMlp) +
             ",\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-05,"
             "\"tie_word_embeddings\":false,\"rope_theta\":500000.0}");
  std::printf("%s: %.3e parameters in %zu shards\n", folder.c_str(), double(parameters),
              shards.size());
  return 0;
}
