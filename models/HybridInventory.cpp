// The parameter inventory of the hybrid family: names, shapes, the activation each matrix reads,
// and the counts that follow. Order within a group of matrices of one input is the row order of
// their fused parents.
#include "models/Bind.h"
#include "models/Hybrid.h"

#include <algorithm>

namespace ninfer {

namespace {

uint64_t size(int64_t n) { return static_cast<uint64_t>(n); }

/// Appends the parameters of one component.
class Inventory {
public:
  explicit Inventory(const HybridConfig &config) : c_(config), hidden_(size(config.hiddenSize)) {}

  void direct(std::string name, std::vector<uint64_t> shape, Format format = Format::BF16) {
    ParameterSpec p;
    p.name = std::move(name);
    p.shape = std::move(shape);
    p.direct = true;
    p.directFormat = format;
    out.push_back(std::move(p));
  }
  void norm(std::string name) { direct(std::move(name), {hidden_}); }

  void matrix(std::string name, uint64_t rows, uint64_t columns, std::string input) {
    ParameterSpec p;
    p.name = std::move(name);
    p.shape = {rows, columns};
    p.input = std::move(input);
    out.push_back(std::move(p));
  }

  /// One layer under `layer`, which ends in a slash.
  void layer(const std::string &layer, HybridLayer kind) {
    norm(layer + "input_norm");
    if (kind == HybridLayer::FullAttention)
      attention(layer);
    else
      delta(layer);
    norm(layer + "post_attention_norm");
    if (c_.moe)
      moe(layer);
    else
      mlp(layer);
  }

  void attention(const std::string &layer) {
    const HybridAttention &a = *c_.attention;
    const std::string p = layer + "attention/", input = layer + "mixer_input";
    const uint64_t query = size(a.queryWidth()), key = size(a.keyWidth());
    matrix(p + "query", query, hidden_, input);
    matrix(p + "key", key, hidden_, input);
    matrix(p + "gate", query, hidden_, input);
    matrix(p + "value", key, hidden_, input);
    direct(p + "query_norm", {size(a.headDim)});
    direct(p + "key_norm", {size(a.headDim)});
    matrix(p + "output", hidden_, query, p + "gated_output");
  }

  void delta(const std::string &layer) {
    const HybridDelta &d = *c_.delta;
    const std::string p = layer + "gdn/", input = layer + "mixer_input";
    const uint64_t heads = size(d.numValueHeads);
    matrix(p + "query", size(d.keyWidth()), hidden_, input);
    matrix(p + "key", size(d.keyWidth()), hidden_, input);
    matrix(p + "value", size(d.valueWidth()), hidden_, input);
    matrix(p + "z", size(d.valueWidth()), hidden_, input);
    matrix(p + "a_projection", heads, hidden_, input);
    matrix(p + "b_projection", heads, hidden_, input);
    direct(p + "a_log", {heads}, Format::FP32);
    direct(p + "dt_bias", {heads}, Format::FP32);
    direct(p + "convolution", {size(d.taps), size(d.channels())});
    direct(p + "norm", {size(d.valueDim)});
    matrix(p + "output", hidden_, size(d.valueWidth()), p + "gated_output");
  }

  void mlp(const std::string &layer) {
    const uint64_t inner = size(c_.intermediateSize);
    matrix(layer + "mlp/gate", inner, hidden_, layer + "ffn_input");
    matrix(layer + "mlp/up", inner, hidden_, layer + "ffn_input");
    matrix(layer + "mlp/down", hidden_, inner, layer + "mlp/product");
  }

  void moe(const std::string &layer) {
    const HybridMoe &m = *c_.moe;
    const std::string p = layer + "moe/", input = layer + "ffn_input";
    const uint64_t routed = size(m.intermediateSize), shared = size(m.sharedIntermediate);
    matrix(p + "router", size(m.numExperts), hidden_, input);
    matrix(p + "shared_score", 1, hidden_, input);
    auto expert = [&](int64_t e) { return p + "experts/" + std::to_string(e) + "/"; };
    for (int64_t e = 0; e < m.numExperts; ++e) {
      matrix(expert(e) + "gate", routed, hidden_, input);
      matrix(expert(e) + "up", routed, hidden_, input);
    }
    for (int64_t e = 0; e < m.numExperts; ++e)
      matrix(expert(e) + "down", hidden_, routed, expert(e) + "product");
    matrix(p + "shared/gate", shared, hidden_, input);
    matrix(p + "shared/up", shared, hidden_, input);
    matrix(p + "shared/down", hidden_, shared, p + "shared/product");
  }

  std::vector<ParameterSpec> out;

private:
  const HybridConfig &c_;
  uint64_t hidden_;
};

uint64_t sum(const std::vector<ParameterSpec> &parameters) {
  uint64_t total = 0;
  for (const ParameterSpec &p : parameters)
    total += elementCount(p.shape);
  return total;
}

} // namespace

uint64_t hybridInventorySize(const HybridConfig &c) {
  const uint64_t ffn = c.moe ? 2 + 3 * size(c.moe->numExperts) + 3 : 3;
  uint64_t total = 3;
  for (HybridLayer layer : c.layerTypes)
    total += 2 + (layer == HybridLayer::FullAttention ? 7 : 11) + ffn;
  return total;
}

std::vector<ParameterSpec> hybridInventory(const HybridConfig &c) {
  Inventory inventory(c);
  inventory.out.reserve(hybridInventorySize(c));
  const uint64_t hidden = size(c.hiddenSize), vocab = size(c.vocabSize);
  inventory.matrix("text/token_embedding", vocab, hidden, "");
  for (size_t i = 0; i < c.layerTypes.size(); ++i)
    inventory.layer("text/layers/" + std::to_string(i) + "/", c.layerTypes[i]);
  inventory.norm("text/final_norm");
  inventory.matrix("text/output_head", vocab, hidden, "text/final_hidden");
  return std::move(inventory.out);
}

std::vector<ParameterSpec> mtpInventory(const HybridConfig &c) {
  Inventory inventory(c);
  const uint64_t hidden = size(c.hiddenSize);
  inventory.matrix("mtp/input_projection", hidden, 2 * hidden, "mtp/stem_input");
  inventory.norm("mtp/embedding_norm");
  inventory.norm("mtp/hidden_norm");
  inventory.layer("mtp/layers/0/", HybridLayer::FullAttention);
  inventory.norm("mtp/final_norm");
  return std::move(inventory.out);
}

std::vector<ParameterSpec> proposalInventory(const HybridConfig &c,
                                             const Component::Proposal &proposal) {
  Inventory inventory(c);
  const uint64_t rows = proposal.indexed ? proposal.rows : size(c.vocabSize);
  inventory.matrix("proposal/head", rows, size(c.hiddenSize), "mtp/final_hidden");
  if (proposal.indexed)
    inventory.direct("proposal/token_ids", {rows}, Format::I32);
  return std::move(inventory.out);
}

HybridCounts countParameters(const HybridConfig &config) {
  HybridCounts counts;
  auto part = [&](auto add) {
    Inventory inventory(config);
    add(inventory);
    return sum(inventory.out);
  };
  if (config.attention)
    counts.attentionMixer = part([](Inventory &i) { i.attention("/"); });
  if (config.delta)
    counts.deltaMixer = part([](Inventory &i) { i.delta("/"); });
  counts.ffn = part([&](Inventory &i) { config.moe ? i.moe("/") : i.mlp("/"); });
  for (const ParameterSpec &p : hybridInventory(config)) {
    const uint64_t elements = elementCount(p.shape);
    if (isUnder(p.name, "text/layers"))
      counts.blocks += elements;
    if (p.name == "text/token_embedding")
      counts.embedding = elements;
    if (!config.tieWordEmbeddings || p.name != "text/output_head")
      counts.text += elements;
  }
  counts.activeBlocks = counts.blocks;
  if (config.moe) {
    const uint64_t expert = 3 * size(config.moe->intermediateSize) * size(config.hiddenSize);
    counts.activeBlocks -= size(config.numLayers) * expert *
                           size(config.moe->numExperts - config.moe->expertsPerToken);
  }
  if (config.attention)
    counts.mtp = sum(mtpInventory(config));
  return counts;
}

} // namespace ninfer
