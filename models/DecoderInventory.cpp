// The parameter inventory of the decoder family: names, shapes and the activation each matrix
// reads.
#include "models/Decoder.h"

namespace ninfer {

namespace {

ParameterSpec norm(std::string name, uint64_t size) {
  ParameterSpec p;
  p.name = std::move(name);
  p.shape = {size};
  p.direct = true;
  return p;
}

ParameterSpec matrix(std::string name, uint64_t rows, uint64_t columns, std::string input) {
  ParameterSpec p;
  p.name = std::move(name);
  p.shape = {rows, columns};
  p.input = std::move(input);
  return p;
}

} // namespace

std::vector<ParameterSpec> decoderInventory(const DecoderConfig &c) {
  auto hidden = static_cast<uint64_t>(c.hiddenSize);
  auto vocab = static_cast<uint64_t>(c.vocabSize);
  auto inner = static_cast<uint64_t>(c.intermediateSize);
  auto headDim = static_cast<uint64_t>(c.headDim);
  uint64_t queryWidth = static_cast<uint64_t>(c.numHeads) * headDim;
  uint64_t keyWidth = static_cast<uint64_t>(c.numKvHeads) * headDim;

  std::vector<ParameterSpec> out;
  out.reserve(static_cast<size_t>(c.numLayers) * (c.qkNorm ? 11 : 9) + 3);
  out.push_back(matrix("text/token_embedding", vocab, hidden, ""));
  for (int64_t i = 0; i < c.numLayers; ++i) {
    std::string layer = "text/layers/" + std::to_string(i) + "/";
    std::string mixer = layer + "mixer_input";
    out.push_back(norm(layer + "input_norm", hidden));
    out.push_back(matrix(layer + "attention/query", queryWidth, hidden, mixer));
    out.push_back(matrix(layer + "attention/key", keyWidth, hidden, mixer));
    out.push_back(matrix(layer + "attention/value", keyWidth, hidden, mixer));
    if (c.qkNorm) {
      out.push_back(norm(layer + "attention/query_norm", headDim));
      out.push_back(norm(layer + "attention/key_norm", headDim));
    }
    out.push_back(
        matrix(layer + "attention/output", hidden, queryWidth, layer + "attention/output_input"));
    out.push_back(norm(layer + "post_attention_norm", hidden));
    out.push_back(matrix(layer + "mlp/gate", inner, hidden, layer + "ffn_input"));
    out.push_back(matrix(layer + "mlp/up", inner, hidden, layer + "ffn_input"));
    out.push_back(matrix(layer + "mlp/down", hidden, inner, layer + "mlp/product"));
  }
  out.push_back(norm("text/final_norm", hidden));
  out.push_back(matrix("text/output_head", vocab, hidden, "text/final_hidden"));
  return out;
}

} // namespace ninfer
