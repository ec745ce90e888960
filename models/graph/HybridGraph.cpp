// The graph of the hybrid family: gated full attention and Gated DeltaNet mixers by layer.
#include "models/graph/GraphEmitter.h"
#include "models/graph/Graphs.h"

#include <cmath>

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
  static std::string kvName(int64_t layer) { return layerPath(layer) + "/attention/kv"; }
  static std::string tailName(int64_t layer) { return layerPath(layer) + "/gdn/tail"; }
  static std::string deltaName(int64_t layer) { return layerPath(layer) + "/gdn/state"; }

  LogicalResult emitStates() override {
    if (config.moe)
      return emitError(label("text"))
             << config.architecture << ": sparse mixture-of-experts layers have no operators yet";
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
      x = emitFeedForward(layerPath(layer), x);
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
    Value table = state("text/rope"), cache = state(kv);
    query = RopeOp::create(builder, loc, query, table, position, a.numHeads);
    key = RopeOp::create(builder, loc, key, table, position, a.numKvHeads);
    KvAppendOp::create(builder, loc, key, value, cache, position);
    double scale = 1.0 / std::sqrt(static_cast<double>(a.headDim));
    Value mixed = AttentionOp::create(builder, loc, query, cache, position, a.numHeads,
                                      a.numKvHeads, scale);
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

  const HybridConfig &config;
};

} // namespace

OwningOpRef<ModuleOp> emitHybridGraph(MLIRContext &context, const ModelSpec &spec,
                                      const Directory &directory, const GraphOptions &options) {
  return HybridGraph(context, spec, directory, options).build();
}

} // namespace ninfer
