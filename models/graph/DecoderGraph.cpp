// The graph of the dense decoder family.
#include "models/graph/GraphEmitter.h"
#include "models/graph/Graphs.h"

using namespace mlir;

namespace ninfer {
namespace {

class DecoderGraph final : public GraphEmitter {
public:
  DecoderGraph(MLIRContext &context, const ModelSpec &spec, const Directory &directory,
               const GraphOptions &options)
      : GraphEmitter(context, spec, directory, options), config(spec.decoderConfig()) {}

private:
  double normEps() const override { return config.rmsNormEps; }
  bool unitOffset() const override { return false; }

  LogicalResult emitStates() override {
    KvCacheType cache = cacheType(config.numKvHeads, config.headDim);
    RopeTableType table = cache ? tableType(config.headDim / 2) : RopeTableType();
    if (!table)
      return failure();
    for (int64_t layer = 0; layer < config.numLayers; ++layer)
      emitState(kvName(layer), cache);
    emitState("text/rope", table, config.ropeInverseFrequencies());
    return success();
  }

  Value emitLayers(Value x) override {
    for (int64_t layer = 0; layer < config.numLayers; ++layer) {
      x = emitAttention(layerPath(layer), kvName(layer), x);
      tap(x, layerPath(layer) + "/mixer");
      x = emitFeedForward(layerPath(layer), x);
      tap(x, layerPath(layer));
    }
    return x;
  }

  /// x + output(attention(rope(q), cache)) with q, k, v from the normed x.
  Value emitAttention(const std::string &layer, const std::string &kv, Value x) {
    const std::string prefix = layer + "/attention";
    setLabel(prefix);
    Value input = norm(x, layer + "/input_norm");
    Value query = linear(input, prefix + "/query");
    Value key = linear(input, prefix + "/key");
    Value value = linear(input, prefix + "/value");
    if (config.qkNorm) {
      query = headNorm(query, prefix + "/query_norm", config.numHeads);
      key = headNorm(key, prefix + "/key_norm", config.numKvHeads);
    }
    Value mixed =
        attend(query, key, value, kv, config.numHeads, config.numKvHeads, config.headDim);
    return AddOp::create(builder, loc, linear(mixed, prefix + "/output"), x);
  }

  const DecoderConfig &config;
};

} // namespace

OwningOpRef<ModuleOp> emitDecoderGraph(MLIRContext &context, const ModelSpec &spec,
                                       const Directory &directory, const GraphOptions &options) {
  return DecoderGraph(context, spec, directory, options).build();
}

} // namespace ninfer
