// Which source tensor feeds which decoder parameter, for Hugging Face and GGUF names.
#include "convert/Checkpoint.h"

#include "models/Decoder.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace ninfer {

namespace {

struct Name {
  const char *parameter;
  const char *huggingFace;
  const char *gguf;
};

constexpr Name kGlobalNames[] = {
    {"text/token_embedding", "model.embed_tokens.weight", "token_embd.weight"},
    {"text/final_norm", "model.norm.weight", "output_norm.weight"},
    {"text/output_head", "lm_head.weight", "output.weight"},
};

/// Behind "text/layers/{i}/", "model.layers.{i}." and "blk.{i}.".
constexpr Name kLayerNames[] = {
    {"input_norm", "input_layernorm.weight", "attn_norm.weight"},
    {"attention/query", "self_attn.q_proj.weight", "attn_q.weight"},
    {"attention/key", "self_attn.k_proj.weight", "attn_k.weight"},
    {"attention/value", "self_attn.v_proj.weight", "attn_v.weight"},
    {"attention/query_norm", "self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"attention/key_norm", "self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"attention/output", "self_attn.o_proj.weight", "attn_output.weight"},
    {"post_attention_norm", "post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp/gate", "mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp/up", "mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp/down", "mlp.down_proj.weight", "ffn_down.weight"},
};

std::string sourceName(const std::string &parameter, bool gguf) {
  constexpr std::string_view kLayers = "text/layers/";
  if (parameter.compare(0, kLayers.size(), kLayers) != 0) {
    for (const Name &n : kGlobalNames)
      if (parameter == n.parameter)
        return gguf ? n.gguf : n.huggingFace;
    return "";
  }
  size_t slash = parameter.find('/', kLayers.size());
  std::string layer = parameter.substr(kLayers.size(), slash - kLayers.size());
  for (const Name &n : kLayerNames)
    if (parameter.compare(slash + 1, std::string::npos, n.parameter) == 0)
      return gguf ? "blk." + layer + "." + n.gguf : "model.layers." + layer + "." + n.huggingFace;
  return "";
}

bool endsWith(const std::string &text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

/// Tensors that are known and carry no parameter: rotary tables, and a head beside tied embeddings,
/// which Hugging Face replaces by the embedding.
bool isIgnorable(const std::string &name, bool gguf, bool tied) {
  if (gguf)
    return name == "rope_freqs.weight";
  return endsWith(name, ".rotary_emb.inv_freq") || (tied && name == "lm_head.weight");
}

} // namespace

std::string huggingFaceName(const std::string &parameter) { return sourceName(parameter, false); }

Status bindParameters(Checkpoint &checkpoint, const std::string &fileName) {
  bool gguf = checkpoint.kind == "gguf";
  const auto &config = std::get<DecoderConfig>(checkpoint.config);
  std::unordered_map<std::string, uint32_t> byName;
  for (size_t i = 0; i < checkpoint.tensors.tensors.size(); ++i)
    byName.emplace(checkpoint.tensors.tensors[i].name, static_cast<uint32_t>(i));

  TensorFaults faults;
  std::set<uint32_t> consumed;
  checkpoint.parameters.clear();
  for (const ParameterSpec &p : decoderInventory(config)) {
    bool tiedHead = p.name == "text/output_head" && config.tieWordEmbeddings;
    std::string name = sourceName(tiedHead ? "text/token_embedding" : p.name, gguf);
    auto it = byName.find(name);
    if (it == byName.end()) {
      if (!tiedHead)
        faults.add("missing: tensor '" + name + "' " + shapeText(p.shape) + " for " + p.name);
      continue;
    }
    const SourceTensor &tensor = checkpoint.tensors.tensors[it->second];
    consumed.insert(it->second);
    if (tensor.shape != p.shape)
      faults.add("misshaped: tensor '" + name + "' is " + shapeText(tensor.shape) + ", " + p.name +
                 " needs " + shapeText(p.shape));
    else if (tensor.type == SourceType::Other)
      faults.add("tensor '" + name + "' has type " + tensor.typeName +
                 "; parameters must be F32, F16 or BF16");
    else if (tensor.type == SourceType::Packed && p.direct)
      faults.add("tensor '" + name + "' is quantized; " + p.name + " must be F32, F16 or BF16");
    ParameterSource source;
    source.parameter = p.name;
    source.shape = p.shape;
    source.direct = p.direct;
    source.input = p.input;
    source.tensor = it->second;
    // The llama converter of GGUF interleaves the rotary halves of q and k; the qwen3 one does not.
    if (gguf && config.architecture == "LlamaForCausalLM" &&
        (endsWith(p.name, "/attention/query") || endsWith(p.name, "/attention/key"))) {
      source.rowOrder = RowOrder::Paired;
      source.headDim = static_cast<uint64_t>(config.headDim);
    }
    checkpoint.parameters.push_back(std::move(source));
  }
  for (size_t i = 0; i < checkpoint.tensors.tensors.size(); ++i) {
    const std::string &name = checkpoint.tensors.tensors[i].name;
    if (consumed.count(static_cast<uint32_t>(i)))
      continue;
    if (!isIgnorable(name, gguf, config.tieWordEmbeddings))
      faults.add("extra: tensor '" + name + "' " + shapeText(checkpoint.tensors.tensors[i].shape) +
                 " feeds no parameter of " + config.architecture);
    else if (name == "lm_head.weight")
      checkpoint.notes.push_back("tensor 'lm_head.weight' is ignored: tie_word_embeddings is true");
  }
  return faults.status(fileName);
}

Status TensorFaults::status(const std::string &fileName) const {
  constexpr size_t kMaxListed = 24;
  if (faults_.empty())
    return Status();
  Status status(
      makeError(ErrorKind::BadFile, "NB0319", fileName + ": the tensors do not match the config"));
  for (size_t i = 0; i < std::min(faults_.size(), kMaxListed); ++i)
    status.note(faults_[i]);
  if (faults_.size() > kMaxListed)
    status.note("and " + std::to_string(faults_.size() - kMaxListed) + " more");
  return status;
}

uint64_t destinationRow(uint64_t row, RowOrder order, uint64_t headDim) {
  if (order == RowOrder::Plain)
    return row;
  uint64_t head = row / headDim, inHead = row % headDim;
  return head * headDim + (inHead % 2) * (headDim / 2) + inHead / 2;
}

} // namespace ninfer
