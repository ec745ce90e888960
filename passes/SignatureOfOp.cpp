#include "passes/SignatureOfOp.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace ninfer {
namespace {

WeightSignature weightOf(WeightType type) {
  return {type.getFormat(), type.getLayout(), type.getN(), type.getK()};
}

RowRange rowsOf(Value value, const PhaseInfo &phase) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.isDynamicDim(0))
    return {1, phase.maxRows};
  return {type.getDimSize(0), type.getDimSize(0)};
}

int64_t widthOf(Value value) { return cast<RankedTensorType>(value.getType()).getDimSize(1); }

/// Fills the fields of one signature from single operations and from groups of them.
class SignatureBuilder {
public:
  SignatureBuilder(Operation *op, const PhaseInfo &phase) : op_(op), phase_(phase) {
    s_.phase = phase.phase;
    s_.wide = op->hasAttr(NinferDialect::kWide);
  }

  FailureOr<KernelSignature> build() {
    if (auto fused = dyn_cast<FusedOp>(op_)) {
      s_.fused = true;
      if (failed(fromGroup(fused)))
        return failure();
    } else if (failed(fromSingle(op_))) {
      return failure();
    }
    return s_;
  }

private:
  void rows(Value input, Value result) {
    s_.inputRows = rowsOf(input, phase_);
    s_.rows = rowsOf(result, phase_);
  }

  void cache(KvCacheType type) {
    s_.kvHeads = type.getKvHeads();
    s_.headDim = type.getHeadDim();
    s_.capacity = type.getCapacity();
    s_.codec = type.getElementType().isF32()         ? StateCodec::F32
               : type.getElementType().isInteger(8) ? StateCodec::Int8
                                                    : StateCodec::BF16;
  }

  void grouped(int64_t group) {
    s_.rowGroup = group;
    for (RowRange *range : {&s_.rows, &s_.inputRows}) {
      range->min = std::max<int64_t>(1, range->min / group);
      range->max = std::max<int64_t>(1, range->max / group);
    }
  }

  void linear(LinearOp op) {
    s_.weights.push_back(weightOf(op.getWeight().getType()));
    s_.policy = s_.weights.size() == 1 ? op.getPolicy() : std::min(s_.policy, op.getPolicy());
  }

  LogicalResult fromSingle(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case([&](EmbeddingOp e) {
          s_.op = OpKind::Embedding;
          s_.weights = {weightOf(e.getWeight().getType())};
          rows(e.getTokens(), e.getResult());
          return success();
        })
        .Case([&](RmsNormOp n) {
          s_.op = OpKind::RmsNorm;
          norm(n);
          s_.width = widthOf(n.getX());
          rows(n.getX(), n.getResult());
          return success();
        })
        .Case([&](HeadNormOp n) {
          s_.op = OpKind::HeadNorm;
          s_.normFormats = {n.getWeight().getType().getFormat()};
          s_.heads = n.getHeads();
          s_.headDim = n.getWeight().getType().getK();
          rows(n.getX(), n.getResult());
          return success();
        })
        .Case([&](LinearOp l) {
          s_.op = OpKind::Linear;
          linear(l);
          rows(l.getX(), l.getResult());
          grouped(l.getRowGroup());
          return success();
        })
        .Case([&](RopeOp r) {
          s_.op = OpKind::Rope;
          s_.heads = r.getHeads();
          s_.headDim = widthOf(r.getX()) / r.getHeads();
          s_.rotaryDim = 2 * r.getTable().getType().getPairs();
          s_.capacity = r.getTable().getType().getCapacity();
          rows(r.getX(), r.getResult());
          return success();
        })
        .Case([&](KvAppendOp a) {
          s_.op = OpKind::KvAppend;
          cache(a.getCache().getType());
          rows(a.getKey(), a.getKey());
          return success();
        })
        .Case([&](AttentionOp a) {
          s_.op = OpKind::Attention;
          cache(a.getCache().getType());
          s_.heads = a.getHeads();
          rows(a.getQuery(), a.getResult());
          return success();
        })
        .Case([&](CausalConvOp c) {
          s_.op = OpKind::CausalConv;
          s_.width = c.getTail().getType().getChannels();
          s_.segmentWidths = {widthOf(c.getQuery()), widthOf(c.getKey()), widthOf(c.getValue())};
          s_.taps = c.getWeight().getType().getN();
          s_.normFormats = {c.getWeight().getType().getFormat()};
          s_.peek = c.getPeek();
          rows(c.getQuery(), c.getQueryResult());
          return success();
        })
        .Case([&](GatedDeltaOp d) {
          s_.op = OpKind::GatedDelta;
          DeltaStateType state = d.getState().getType();
          s_.heads = state.getValueHeads();
          s_.headDim = state.getValueDim();
          s_.kvHeads = d.getKeyHeads();
          s_.keyDim = state.getKeyDim();
          s_.normFormats = {d.getALog().getType().getFormat(),
                            d.getDtBias().getType().getFormat()};
          s_.peek = d.getPeek();
          rows(d.getValue(), d.getResult());
          return success();
        })
        .Case([&](MoeRouteOp m) {
          s_.op = OpKind::MoeRoute;
          s_.experts = widthOf(m.getLogits());
          s_.topK = m.getTopK();
          rows(m.getLogits(), m.getResult());
          return success();
        })
        .Case<MoeUpOp, MoeDownOp>([&](auto m) {
          s_.op = isa<MoeUpOp>(m.getOperation()) ? OpKind::MoeUp : OpKind::MoeDown;
          s_.weights = {weightOf(m.getBank().getType())};
          s_.policy = m.getPolicy();
          s_.experts = m.getExperts();
          s_.topK = m.getTopK();
          rows(m.getRoutes(), m.getResult());
          return success();
        })
        .Case([&](GatedHeadNormOp n) {
          s_.op = OpKind::GatedHeadNorm;
          s_.normFormats = {n.getWeight().getType().getFormat()};
          s_.heads = n.getHeads();
          s_.headDim = n.getWeight().getType().getK();
          rows(n.getX(), n.getResult());
          return success();
        })
        .Case([&](StoreRowsOp o) {
          s_.op = OpKind::StoreRows;
          s_.width = widthOf(o.getX());
          s_.column = o.getColumn();
          rows(o.getX(), o.getX());
          return success();
        })
        .Case([&](LoadRowsOp o) {
          s_.op = OpKind::LoadRows;
          s_.width = widthOf(o.getResult());
          s_.column = o.getColumn();
          rows(o.getResult(), o.getResult());
          return success();
        })
        .Case([&](ConcatOp o) {
          s_.op = OpKind::Concat;
          s_.width = widthOf(o.getResult());
          rows(o.getResult(), o.getResult());
          return success();
        })
        .Case([&](PlaceAnglesOp o) {
          s_.op = OpKind::PlaceAngles;
          s_.width = 2 * o.getPlaced().getType().getPairs();
          s_.capacity = o.getPlaced().getType().getCapacity();
          rows(o.getPositions(), o.getPositions());
          return success();
        })
        .Case([&](LayerNormOp n) {
          s_.op = OpKind::LayerNorm;
          s_.normFormats = {n.getWeight().getType().getFormat(),
                            n.getBias().getType().getFormat()};
          s_.width = widthOf(n.getX());
          rows(n.getX(), n.getResult());
          return success();
        })
        .Case([&](BiasOp b) {
          s_.op = OpKind::Bias;
          s_.normFormats = {b.getBias().getType().getFormat()};
          s_.width = widthOf(b.getX());
          s_.rowGroup = b.getRowGroup();
          rows(b.getX(), b.getResult());
          return success();
        })
        .Case([&](GeluOp g) {
          s_.op = OpKind::Gelu;
          s_.tanh = g.getTanh();
          s_.width = widthOf(g.getX());
          rows(g.getX(), g.getResult());
          return success();
        })
        .Case([&](AxialRopeOp r) {
          s_.op = OpKind::AxialRope;
          s_.heads = r.getHeads();
          s_.headDim = s_.rotaryDim = widthOf(r.getX()) / r.getHeads();
          s_.capacity = r.getTable().getType().getCapacity();
          rows(r.getX(), r.getResult());
          return success();
        })
        .Case([&](FullAttentionOp a) {
          s_.op = OpKind::FullAttention;
          s_.heads = a.getHeads();
          s_.headDim = widthOf(a.getQuery()) / a.getHeads();
          rows(a.getQuery(), a.getResult());
          return success();
        })
        .Case([&](InterpolateOp i) {
          s_.op = OpKind::Interpolate;
          s_.weights = {weightOf(i.getTable().getType())};
          s_.taps = widthOf(i.getIndices());
          rows(i.getIndices(), i.getResult());
          return success();
        })
        .Case<SwigluOp, SigmoidGateOp, AddOp, LastRowOp, ReplaceRowsOp>([&](auto e) {
          Operation *element = e;
          s_.op = isa<SwigluOp>(element)        ? OpKind::Swiglu
                  : isa<SigmoidGateOp>(element) ? OpKind::SigmoidGate
                  : isa<AddOp>(element)         ? OpKind::Add
                  : isa<ReplaceRowsOp>(element) ? OpKind::ReplaceRows
                                                : OpKind::LastRow;
          s_.width = widthOf(element->getOperand(0));
          rows(element->getOperand(0), element->getResult(0));
          return success();
        })
        .Default([](Operation *other) { return other->emitOpError("has no kernel signature"); });
  }

  void norm(RmsNormOp n) { s_.normFormats = {n.getWeight().getType().getFormat()}; }

  LogicalResult fromGroup(FusedOp fused) {
    if (fused.getKind() == "linear")
      return fromLinearGroup(fused);
    if (fused.getKind() == "rope_append")
      return fromRopeAppend(fused);
    return fused.emitOpError() << "kind: expected linear or rope_append, got '" << fused.getKind()
                               << "'";
  }

  /// [last_row] [rms_norm] linear+ [swiglu | add].
  LogicalResult fromLinearGroup(FusedOp fused) {
    s_.op = OpKind::Linear;
    auto refuse = [&](llvm::StringRef expected, Operation &got) {
      return fused.emitOpError() << "linear group: expected " << expected << ", got "
                                 << got.getName();
    };
    auto it = fused.getBlock()->begin();
    Value input;
    auto takeInput = [&](Value x) {
      if (!input)
        input = x;
    };
    auto last = dyn_cast<LastRowOp>(*it);
    if (last) {
      takeInput(last.getX());
      ++it;
    }
    auto normOp = dyn_cast<RmsNormOp>(*it);
    if (normOp) {
      takeInput(normOp.getX());
      norm(normOp);
      ++it;
    }
    s_.prologue = last && normOp ? KernelPrologue::LastRowRmsNorm
                  : last         ? KernelPrologue::LastRow
                  : normOp       ? KernelPrologue::RmsNorm
                                 : KernelPrologue::None;
    LinearOp first;
    for (; auto l = dyn_cast<LinearOp>(*it); ++it) {
      if (first && (l.getX() != first.getX() || l.getRowGroup() != first.getRowGroup()))
        return refuse("linears of one input", *l);
      if (!first)
        first = l;
      linear(l);
    }
    if (!first)
      return refuse("a linear", *it);
    takeInput(first.getX());
    if (isa<SwigluOp, AddOp>(*it)) {
      s_.epilogue = isa<SwigluOp>(*it) ? KernelEpilogue::Swiglu : KernelEpilogue::Residual;
      ++it;
    }
    if (!isa<YieldOp>(*it))
      return refuse("the end of the group", *it);
    rows(input, first.getResult());
    grouped(first.getRowGroup());
    return success();
  }

  /// [head_norm] [head_norm] rope, rope, kv_append; the only result is the rotated query.
  LogicalResult fromRopeAppend(FusedOp fused) {
    s_.op = OpKind::RopeAppend;
    auto appends = llvm::to_vector(fused.getBlock()->getOps<KvAppendOp>());
    if (appends.size() != 1 || fused.getOutputs().size() != 1)
      return fused.emitOpError() << "rope_append group: expected one kv_append and one result, got "
                                 << appends.size() << " and " << fused.getOutputs().size();
    auto query = fused.getYield().getValues().front().getDefiningOp<RopeOp>();
    auto key = appends.front().getKey().getDefiningOp<RopeOp>();
    if (!query || !key)
      return fused.emitOpError() << "rope_append group: expected a rotated "
                                 << (query ? "key" : "query");
    for (auto headNorm : fused.getBlock()->getOps<HeadNormOp>())
      s_.normFormats.push_back(headNorm.getWeight().getType().getFormat());
    cache(appends.front().getCache().getType());
    s_.heads = query.getHeads();
    s_.rotaryDim = 2 * query.getTable().getType().getPairs();
    rows(query.getX(), query.getResult());
    return success();
  }

  Operation *op_;
  const PhaseInfo &phase_;
  KernelSignature s_;
};

} // namespace

FailureOr<KernelSignature> signatureOf(Operation *op, const PhaseInfo &phase) {
  return SignatureBuilder(op, phase).build();
}

} // namespace ninfer
