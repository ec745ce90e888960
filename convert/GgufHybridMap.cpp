// Which tensor of a qwen35 GGUF feeds which parameter, and what its conversion did to it.
#include "convert/HybridOrigin.h"

#include <string_view>

namespace ninfer {

namespace {

uint64_t size(int64_t n) { return static_cast<uint64_t>(n); }

struct Name {
  std::string_view parameter;
  const char *tensor;
  ValueMap map = ValueMap::Plain;
};

constexpr Name kGlobals[] = {
    {"text/token_embedding", "token_embd.weight"},
    {"text/final_norm", "output_norm.weight", ValueMap::OnePlus},
    {"text/output_head", "output.weight"},
};

/// Behind "text/layers/{i}/" and "blk.{i}."; parameters that are one tensor.
constexpr Name kLayer[] = {
    {"input_norm", "attn_norm.weight", ValueMap::OnePlus},
    {"post_attention_norm", "post_attention_norm.weight", ValueMap::OnePlus},
    {"attention/key", "attn_k.weight"},
    {"attention/value", "attn_v.weight"},
    {"attention/query_norm", "attn_q_norm.weight", ValueMap::OnePlus},
    {"attention/key_norm", "attn_k_norm.weight", ValueMap::OnePlus},
    {"attention/output", "attn_output.weight"},
    {"gdn/z", "attn_gate.weight"},
    {"gdn/a_projection", "ssm_alpha.weight"},
    {"gdn/b_projection", "ssm_beta.weight"},
    {"gdn/a_log", "ssm_a", ValueMap::NegatedExp},
    {"gdn/dt_bias", "ssm_dt.bias"},
    {"gdn/norm", "ssm_norm.weight"},
    {"gdn/output", "ssm_out.weight"},
    {"mlp/gate", "ffn_gate.weight"},
    {"mlp/up", "ffn_up.weight"},
    {"mlp/down", "ffn_down.weight"},
};

/// Value heads of `width` in this family's order, behind `plain` others. With one value head per key head both
/// orders are one, and `otherwise` is taken.
RowSelection valueHeads(const HybridDelta &d, int64_t width, int64_t plain, RowSelection otherwise) {
  const int64_t perKey = d.numValueHeads / d.numKeyHeads;
  if (perKey == 1)
    return otherwise;
  RowSelection out;
  out.run = size(width);
  out.group = size(perKey);
  out.stride = size(d.numKeyHeads * width);
  out.groupStride = size(width);
  out.plain = size(plain);
  return out;
}

HybridOrigin originInLayer(const HybridConfig &config, const std::string &prefix,
                           std::string_view rest, const ParameterSpec &p) {
  const uint64_t hidden = size(config.hiddenSize);
  for (const Name &n : kLayer) {
    if (rest != n.parameter)
      continue;
    HybridOrigin out{prefix + n.tensor, p.shape};
    out.map = n.map;
    if (!config.delta)
      return out;
    const HybridDelta &d = *config.delta;
    if (rest == "gdn/z")
      out.rows = valueHeads(d, d.valueDim, 0, {});
    else if (rest == "gdn/a_projection" || rest == "gdn/b_projection")
      out.rows = valueHeads(d, 1, 0, {});
    else if (rest == "gdn/a_log" || rest == "gdn/dt_bias")
      out.columns = valueHeads(d, 1, 0, {});
    else if (rest == "gdn/output")
      out.columns = valueHeads(d, d.valueDim, 0, {});
    return out;
  }
  if (rest == "attention/query" || rest == "attention/gate") { // the two halves of each head's rows
    const uint64_t dim = size(config.attention->headDim);
    return {prefix + "attn_q.weight",
            {2 * p.shape[0], hidden},
            {.first = rest == "attention/gate" ? dim : 0, .run = dim, .stride = 2 * dim}};
  }
  const HybridDelta &d = *config.delta;
  if (rest == "gdn/convolution")
    return {prefix + "ssm_conv1d.weight",
            {p.shape[1], p.shape[0]},
            valueHeads(d, d.valueDim, 2 * d.keyWidth(), {}),
            true};
  const uint64_t key = size(d.keyWidth());
  HybridOrigin out{prefix + "attn_qkv.weight", {size(d.channels()), hidden}};
  const uint64_t first = rest == "gdn/query" ? 0 : rest == "gdn/key" ? key : 2 * key;
  out.rows = {.first = first, .run = p.shape[0], .stride = p.shape[0]};
  if (rest == "gdn/value") {
    out.rows = valueHeads(d, d.valueDim, 0, out.rows);
    out.rows.first = first;
  }
  return out;
}

} // namespace

HybridOrigin ggufHybridOrigin(const HybridConfig &config, const ParameterSpec &p) {
  const bool tiedHead = p.name == "text/output_head" && config.tieWordEmbeddings;
  const std::string_view name = tiedHead ? std::string_view("text/token_embedding") : p.name;
  for (const Name &n : kGlobals)
    if (name == n.parameter) {
      HybridOrigin out{n.tensor, p.shape};
      out.map = n.map;
      return out;
    }
  const size_t number = std::string_view("text/layers/").size(), slash = p.name.find('/', number);
  return originInLayer(config, "blk." + p.name.substr(number, slash - number) + ".",
                       std::string_view(p.name).substr(slash + 1), p);
}

} // namespace ninfer
