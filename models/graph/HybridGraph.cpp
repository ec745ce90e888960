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
  /// Inputs of the convolution and of the delta rule, row by row: query, key, value, a, b.
  static std::string recordName(int64_t layer) { return layerPath(layer) + "/gdn/record"; }
  static constexpr const char *kHidden = "text/hidden", *kDraftHidden = "mtp/hidden",
                              *kDraftLayer = "mtp/layers/0",
                              *kDraftKv = "mtp/layers/0/attention/kv";

  bool speculates() const { return options.draftTokens != 0; }
  bool keepsHidden() const override { return speculates(); }
  void keepHidden(Value x) override { StoreRowsOp::create(builder, loc, x, state(kHidden), 0); }

  LogicalResult checkMoreOptions() override {
    constexpr int64_t kMostDrafts = 15; // rows of a verify call: one block of the delta rule
    if (options.draftTokens < 0 || options.draftTokens > kMostDrafts)
      return emitError(label("text")) << "draft tokens must be in 0.." << kMostDrafts << ", got "
                                      << options.draftTokens;
    if (speculates() && !spec.mtp)
      return emitError(label("mtp"))
             << "draft tokens must be 0 without the draft layer (component mtp), got "
             << options.draftTokens;
    if (options.draftTokens >= options.maxContext)
      return emitError(label("text")) << "draft tokens must be below max context "
                                      << options.maxContext << ", got " << options.draftTokens;
    return success();
  }

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
      emitState(kRope, table, config.attention->ropeInverseFrequencies());
      if (takesImages())
        emitState(kPositionTable, table, config.attention->ropeInverseFrequencies());
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
      if (speculates())
        emitState(recordName(layer),
                  RowBufferType::get(builder.getContext(), options.draftTokens + 1,
                                     delta.channels() + 2 * delta.numValueHeads));
    }
    if (speculates()) {
      const int64_t rows = std::max(options.prefillChunk, options.draftTokens + 1);
      emitState(kHidden, RowBufferType::get(builder.getContext(), rows, config.hiddenSize));
      emitState(kDraftHidden, RowBufferType::get(builder.getContext(), 1, config.hiddenSize));
      emitState(kDraftKv, cache);
    }
    return success();
  }

  Value emitLayers(Value x) override {
    for (int64_t layer = 0; layer < config.numLayers; ++layer) {
      x = isFull(layer) ? emitAttention(layerPath(layer), kvName(layer), x) : emitDelta(layer, x);
      tap(x, layerPath(layer) + "/mixer");
      x = config.moe ? emitExperts(layerPath(layer), x) : emitFeedForward(layerPath(layer), x);
      tap(x, layerPath(layer));
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
    if (peek) {
      int64_t column = 0;
      for (Value part : {query, key, value, a, b}) {
        StoreRowsOp::create(builder, loc, part, state(recordName(layer)), column);
        column += widthOf(part);
      }
    }
    Value out = emitRecurrence(layer, query, key, value, a, b);
    Value gated = GatedHeadNormOp::create(builder, loc, out, parameter(prefix + "/norm"), z,
                                          d.numValueHeads, config.rmsNormEps);
    return AddOp::create(builder, loc, linear(gated, prefix + "/output"), x);
  }

  static int64_t widthOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getDimSize(1);
  }

  /// Convolution and delta rule: the heads before their norm. The states advance unless `peek`.
  Value emitRecurrence(int64_t layer, Value query, Value key, Value value, Value a, Value b) {
    const std::string prefix = layerPath(layer) + "/gdn";
    auto mixed =
        CausalConvOp::create(builder, loc, query, key, value, parameter(prefix + "/convolution"),
                             state(tailName(layer)), peek);
    return GatedDeltaOp::create(builder, loc, mixed.getQueryResult(), mixed.getKeyResult(),
                                mixed.getValueResult(), a, b, parameter(prefix + "/a_log"),
                                parameter(prefix + "/dt_bias"), state(deltaName(layer)),
                                config.delta->numKeyHeads, peek);
  }

  void emitMoreFunctions() override {
    if (takesImages() && config.attention)
      emitPlace(config.attention->ropeAxes());
    if (!speculates())
      return;
    peek = true;
    emitText("text.verify", {"verify"}, /*allRows=*/true);
    peek = false;
    if (config.delta)
      emitCommit();
    emitDraft("draft", kHidden);
    emitDraft("draft_next", kDraftHidden);
  }

  /// The recurrent states take in rows of the last verify call, from the records it left.
  void emitCommit() {
    openFunction("text.commit", "text", {"commit"}, 0, 0);
    const HybridDelta &d = *config.delta;
    for (int64_t layer = 0; layer < config.numLayers; ++layer) {
      if (isFull(layer))
        continue;
      setLabel(layerPath(layer) + "/gdn");
      int64_t column = 0;
      auto load = [&](int64_t width) -> Value {
        Value part = LoadRowsOp::create(builder, loc, activation(width), state(recordName(layer)), column);
        column += width;
        return part;
      };
      Value query = load(d.keyWidth()), key = load(d.keyWidth()), value = load(d.valueWidth());
      Value a = load(d.numValueHeads), b = load(d.numValueHeads);
      emitRecurrence(layer, query, key, value, a, b);
    }
    func::ReturnOp::create(builder, loc);
  }

  /// The draft layer (spec section 2): hidden rows of positions p, p + 1, ... in `hidden` and the tokens
  /// that follow them, to logits of the token after the last.
  void emitDraft(StringRef phase, const char *hidden) {
    const MtpSpec &mtp = *spec.mtp;
    const std::string name = ("mtp." + phase).str();
    // Behind its own last row comes a token that it proposed.
    const bool images = takesImages() && phase == "draft";
    Value tokens = openFunction(name, "mtp", {phase}, static_cast<int64_t>(mtp.rows), 1, images);
    if (mtp.indexed)
      function->setAttr(NinferDialect::kTokenIds,
                        FlatSymbolRefAttr::get(builder.getContext(), "proposal/token_ids"));
    setLabel("mtp/stem");
    Value embedding = norm(embed(tokens), "mtp/embedding_norm");
    Value last = LoadRowsOp::create(builder, loc, activation(config.hiddenSize), state(hidden), 0);
    Value stem = ConcatOp::create(builder, loc, activation(2 * config.hiddenSize), embedding,
                                  norm(last, "mtp/hidden_norm"));
    Value x = linear(stem, "mtp/input_projection");
    x = emitAttention(kDraftLayer, kDraftKv, x);
    x = config.moe ? emitExperts(kDraftLayer, x) : emitFeedForward(kDraftLayer, x);
    setLabel("mtp/head");
    Value row = LastRowOp::create(builder, loc, activation(config.hiddenSize, 1), x);
    row = norm(row, "mtp/final_norm");
    StoreRowsOp::create(builder, loc, row, state(kDraftHidden), 0);
    func::ReturnOp::create(builder, loc, linear(row, mtp.head, mtp.headPolicy));
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
  bool peek = false; ///< emitting operations that leave recurrent states as they were
};

} // namespace

OwningOpRef<ModuleOp> emitHybridGraph(MLIRContext &context, const ModelSpec &spec,
                                      const Directory &directory, const GraphOptions &options) {
  return HybridGraph(context, spec, directory, options).build();
}

} // namespace ninfer
