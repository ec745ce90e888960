// The graph of the hybrid family: gated full attention and Gated DeltaNet mixers by layer.
#include "models/graph/GraphEmitter.h"
#include "models/graph/Graphs.h"

using namespace mlir;

namespace ninfer {
namespace {

class HybridGraph final : public GraphEmitter {
public:
  HybridGraph(MLIRContext &context, const ModelSpec &spec, const Directory &directory,
              const GraphOptions &options)
      : GraphEmitter(context, spec, directory, options), config(spec.hybridConfig()) {}

private:
  double normEps() const override { return config.rmsNormEps; }
  bool unitOffset() const override { return true; }

  bool isFull(int64_t layer) const {
    return config.layerTypes[static_cast<size_t>(layer)] == HybridLayer::FullAttention;
  }
  static std::string tailName(int64_t layer) { return layerPath(layer) + "/gdn/tail"; }
  static std::string deltaName(int64_t layer) { return layerPath(layer) + "/gdn/state"; }

  static std::string upBank(const std::string &layer) { return layer + "/moe/experts/gate_up"; }
  static std::string downBank(const std::string &layer) { return layer + "/moe/experts/down"; }

  /// One parameter per bank instead of three per expert: gate and up rows of expert 0, of expert 1, ...
  /// lie side by side in one object, and so do the down rows.
  LogicalResult prepareParameters(std::vector<ParameterSpec> &parameters) override {
    if (!config.moe)
      return success();
    std::map<std::string, ParameterSpec> banks;
    std::vector<ParameterSpec> kept;
    for (ParameterSpec &p : parameters) {
      const size_t at = p.name.find("/moe/experts/");
      if (at == std::string::npos) {
        kept.push_back(std::move(p));
        continue;
      }
      const std::string layer = p.name.substr(0, at);
      const bool down = StringRef(p.name).ends_with("/down");
      const std::string name = down ? downBank(layer) : upBank(layer);
      auto [slot, fresh] = banks.try_emplace(name, p);
      ParameterSpec &bank = slot->second;
      if (fresh) {
        bank.name = name;
        bank.input.clear();
        kept.push_back(bank); // its place; replaced below
        continue;
      }
      if (p.binding.parts.size() != 1 || bank.binding.parts.size() != 1 ||
          p.binding.parts[0].object != bank.binding.parts[0].object ||
          p.binding.parts[0].begin != bank.binding.parts[0].end)
        return emitError(label(p.name))
               << "parameter '" << p.name
               << "' does not follow its predecessor in one object; the gate and up rows of all "
                  "experts of a layer must lie side by side in expert order, and so must the down rows";
      bank.binding.parts[0].end = p.binding.parts[0].end;
      bank.binding.whole = false;
      bank.shape[0] += p.shape[0];
      bank.policy = std::min(bank.policy, p.policy);
    }
    for (ParameterSpec &p : kept)
      if (auto bank = banks.find(p.name); bank != banks.end())
        p = bank->second;
    parameters = std::move(kept);
    return success();
  }

  LogicalResult emitStates() override {
    KvCacheType cache;
    if (config.attention) {
      cache = cacheType(config.attention->numKvHeads, config.attention->headDim);
      RopeTableType table =
          cache ? tableType(config.attention->rotaryDim() / 2) : RopeTableType();
      if (!table)
        return failure();
      emitState("text/rope", table, config.attention->ropeInverseFrequencies());
    }
    auto refuse = [&] { return emitError(label("text")) << "state of the context: "; };
    for (int64_t layer = 0; layer < config.numLayers; ++layer) {
      if (isFull(layer)) {
        emitState(kvName(layer), cache);
        continue;
      }
      const HybridDelta &delta = *config.delta;
      auto tail = ConvStateType::getChecked(refuse, builder.getContext(), delta.taps - 1,
                                            delta.channels());
      auto matrix = DeltaStateType::getChecked(refuse, builder.getContext(), delta.numValueHeads,
                                               delta.valueDim, delta.keyDim);
      if (!tail || !matrix)
        return failure();
      emitState(tailName(layer), tail);
      emitState(deltaName(layer), matrix);
    }
    return success();
  }

  Value emitLayers(Value x) override {
    for (int64_t layer = 0; layer < config.numLayers; ++layer) {
      x = isFull(layer) ? emitAttention(layerPath(layer), kvName(layer), x) : emitDelta(layer, x);
      x = config.moe ? emitExperts(layerPath(layer), x) : emitFeedForward(layerPath(layer), x);
    }
    return x;
  }

  /// x + output(attention(rope(norm(q)), cache) * sigmoid(gate)), all from the normed x.
  Value emitAttention(const std::string &layer, const std::string &kv, Value x) {
    const HybridAttention &a = *config.attention;
    const std::string prefix = layer + "/attention";
    setLabel(prefix);
    Value input = norm(x, layer + "/input_norm");
    Value query = linear(input, prefix + "/query");
    Value key = linear(input, prefix + "/key");
    Value gate = linear(input, prefix + "/gate");
    Value value = linear(input, prefix + "/value");
    query = headNorm(query, prefix + "/query_norm", a.numHeads);
    key = headNorm(key, prefix + "/key_norm", a.numKvHeads);
    Value mixed = attend(query, key, value, kv, a.numHeads, a.numKvHeads, a.headDim);
    Value gated = SigmoidGateOp::create(builder, loc, mixed, gate);
    return AddOp::create(builder, loc, linear(gated, prefix + "/output"), x);
  }

  /// x + output(norm(delta(conv(q, k, v), a, b)) * silu(z)), all from the normed x.
  Value emitDelta(int64_t layer, Value x) {
    const HybridDelta &d = *config.delta;
    const std::string prefix = layerPath(layer) + "/gdn";
    setLabel(prefix);
    Value input = norm(x, layerPath(layer) + "/input_norm");
    Value query = linear(input, prefix + "/query");
    Value key = linear(input, prefix + "/key");
    Value value = linear(input, prefix + "/value");
    Value z = linear(input, prefix + "/z");
    Value a = linear(input, prefix + "/a_projection");
    Value b = linear(input, prefix + "/b_projection");
    auto mixed = CausalConvOp::create(builder, loc, query, key, value,
                                      parameter(prefix + "/convolution"), state(tailName(layer)));
    Value out = GatedDeltaOp::create(builder, loc, mixed.getQueryResult(), mixed.getKeyResult(),
                                     mixed.getValueResult(), a, b, parameter(prefix + "/a_log"),
                                     parameter(prefix + "/dt_bias"), state(deltaName(layer)),
                                     d.numKeyHeads);
    Value gated = GatedHeadNormOp::create(builder, loc, out, parameter(prefix + "/norm"), z,
                                          d.numValueHeads, config.rmsNormEps);
    return AddOp::create(builder, loc, linear(gated, prefix + "/output"), x);
  }

  /// x + experts(input) + sigmoid(score) * shared(input), all from the normed x.
  Value emitExperts(const std::string &layer, Value x) {
    const HybridMoe &m = *config.moe;
    const std::string prefix = layer + "/moe";
    setLabel(prefix);
    Value input = norm(x, layer + "/post_attention_norm");
    Value logits = linear(input, prefix + "/router");
    Value score = linear(input, prefix + "/shared_score");
    const int64_t rows = cast<RankedTensorType>(x.getType()).getDimSize(0);
    Value routes = MoeRouteOp::create(builder, loc, activation(2 * m.expertsPerToken, rows), logits,
                                      m.expertsPerToken);
    Value products = MoeUpOp::create(
        builder, loc, activation(m.expertsPerToken * m.intermediateSize, rows), input, routes,
        parameter(upBank(layer)), m.numExperts, m.expertsPerToken, policies.at(upBank(layer)));
    Value routed = MoeDownOp::create(builder, loc, activation(config.hiddenSize, rows), products,
                                     routes, parameter(downBank(layer)), m.numExperts,
                                     m.expertsPerToken, policies.at(downBank(layer)));
    Value shared = SigmoidGateOp::create(builder, loc, emitSwiglu(prefix + "/shared", input), score);
    Value sum = AddOp::create(builder, loc, routed, shared);
    return AddOp::create(builder, loc, sum, x);
  }

  const HybridConfig &config;
};

} // namespace

OwningOpRef<ModuleOp> emitHybridGraph(MLIRContext &context, const ModelSpec &spec,
                                      const Directory &directory, const GraphOptions &options) {
  return HybridGraph(context, spec, directory, options).build();
}

} // namespace ninfer
