#include "codegen/cuda/ir/Specialize.h"

#include "codegen/cuda/AttentionRows.h"
#include "codegen/cuda/GatedDeltaRows.h"
#include "codegen/cuda/Tuning.h"
#include "codegen/cuda/VisionText.h"
#include "codegen/cuda/ir/RecordBuilder.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;

namespace ninfer::cuda {
namespace {

constexpr double kLog2E = 1.4426950408889634; // exponentials of the kernels have base 2

ni::Format formatOf(WeightType type) { return static_cast<ni::Format>(type.getFormat()); }

class Specializer : RecordBuilder {
public:
  Specializer(KernelOp kernel, const Device &device, const std::set<std::string> &spilled)
      : RecordBuilder(kernel, device), spilled_(spilled),
        operands_(device.sm < 80 ? ni::Operands::F16 : ni::Operands::Bf16) {}

  Result<SpecializedKernel> run() {
    Operation *body = nullptr;
    for (Operation &op : kernel_.getBlock()->without_terminator()) {
      if (body)
        return fail("has more than one operation");
      body = &op;
    }
    if (!body)
      return fail("is empty");
    body_ = body;
    Status status = llvm::TypeSwitch<Operation *, Status>(body)
                        .Case([&](FusedOp op) { return fused(op); })
                        .Case([&](LinearOp op) { return linear({}, op); })
                        .Case([&](EmbeddingOp op) { return embedding(op); })
                        .Case([&](RmsNormOp op) {
                          return norm(op.getX(), op.getWeight(), {}, 1, op.getEps(),
                                      op.getUnitOffset() ? ni::NormKind::UnitOffset : ni::NormKind::Plain);
                        })
                        .Case([&](HeadNormOp op) {
                          return norm(op.getX(), op.getWeight(), {}, op.getHeads(), op.getEps(),
                                      op.getUnitOffset() ? ni::NormKind::UnitOffset : ni::NormKind::Plain);
                        })
                        .Case([&](GatedHeadNormOp op) {
                          return norm(op.getX(), op.getWeight(), op.getGate(), op.getHeads(), op.getEps(),
                                      ni::NormKind::Gated);
                        })
                        .Case([&](AttentionOp op) { return attention(op); })
                        .Case([&](CausalConvOp op) { return causalConv(op); })
                        .Case([&](GatedDeltaOp op) { return gatedDelta(op); })
                        .Case([&](MoeRouteOp op) { return moeRoute(op); })
                        .Case([&](MoeUpOp op) { return moeUp(op); })
                        .Case([&](MoeDownOp op) { return moeDown(op); })
                        .Case<StoreRowsOp, LoadRowsOp, ConcatOp, LastRowOp>([&](auto op) { return copyRows(op, *this); })
                        .Case<LayerNormOp, BiasOp, GeluOp, AxialRopeOp, InterpolateOp, FullAttentionOp>(
                            [&](auto op) { return vision(op, *this); })
                        .Case([&](SwigluOp op) { return elementwise(op, ni::ElementwiseOp::Swiglu); })
                        .Case([&](AddOp op) { return elementwise(op, ni::ElementwiseOp::Add); })
                        .Case([&](SigmoidGateOp op) {
                          const bool row = widthOf(op.getGate()) != widthOf(op.getX());
                          return elementwise(op, row ? ni::ElementwiseOp::SigmoidRowGate : ni::ElementwiseOp::SigmoidGate);
                        })
                        .Default([&](Operation *op) -> Status {
                          return fail("no CUDA kernel computes " + op->getName().getStringRef().str());
                        });
    NINFER_RETURN_IF_ERROR(std::move(status));
    return checked();
  }

private:
  // --- operators

  Status fused(FusedOp op) {
    if (op.getKind() == "rope_append")
      return ropeAppend(op);
    auto linears = llvm::to_vector(op.getBlock()->getOps<LinearOp>());
    if (op->getNumResults() > 1)
      return segments(op);
    return linears.empty() ? Status(fail("is a group without a linear")) : linear(op, linears.front());
  }

  static ni::Prologue prologueOf(RmsNormOp norm) {
    return !norm                  ? ni::Prologue::None
           : norm.getUnitOffset() ? ni::Prologue::RmsNormUnitOffset
                                  : ni::Prologue::RmsNorm;
  }

  /// [last_row] [rms_norm] linear [linear swiglu | add].
  Status linear(FusedOp group, LinearOp first) {
    LastRowOp last;
    RmsNormOp normOp;
    SwigluOp swiglu;
    AddOp add;
    LinearOp up;
    if (group)
      for (Operation &op : *group.getBlock())
        llvm::TypeSwitch<Operation *>(&op)
            .Case([&](LastRowOp o) { last = o; })
            .Case([&](RmsNormOp o) { normOp = o; })
            .Case([&](SwigluOp o) { swiglu = o; })
            .Case([&](AddOp o) { add = o; })
            .Case([&](LinearOp o) { up = o != first ? o : up; });
    if (swiglu) { // operand order, not program order
      first = swiglu.getGate().getDefiningOp<LinearOp>();
      up = swiglu.getUp().getDefiningOp<LinearOp>();
    }
    WeightType weight = first.getWeight().getType();
    const auto prologue = prologueOf(normOp);
    const auto epilogue = swiglu ? ni::Epilogue::Swiglu : add ? ni::Epilogue::Residual : ni::Epilogue::Store;
    const uint32_t rows = rowsOf(first.getX()), n = static_cast<uint32_t>(weight.getN());
    const auto output = body_->hasAttr(NinferDialect::kWide) ? ni::OutputType::Float : ni::OutputType::Bf16;
    Value residual;
    if (add)
      residual = add.getLhs().getDefiningOp() == first ? add.getRhs() : add.getLhs();
    if (kernel_.getFamily() == "cuda.gemm") {
      if (normOp || last)
        return fail("is a linear map of many rows with a prologue");
      return gemm(first, up, residual, epilogue, output);
    }
    const auto bucket = llvm::find_if(kRowBuckets, [&](uint32_t capacity) { return capacity >= rows; });
    if (bucket == std::end(kRowBuckets))
      return fail("has " + std::to_string(rows) + " rows, a linear kernel at most 16");
    ni::LinearSpec spec =
        tunedLinear(formatOf(weight), *bucket, static_cast<uint32_t>(weight.getK()), prologue, epilogue, output, operands_);
    if (spilled_.contains(linearKernel(spec, sm_).name))
      spec.depth = 1; // half the registers for codes
    out_.text = linearKernel(spec, sm_);
    panels(first.getWeight());
    swiglu ? panels(up.getWeight()) : null();
    Value x = last ? last.getX() : normOp ? normOp.getX() : first.getX();
    // The last row of the call is a pointer, not a copy.
    const bool offset = last && cast<RankedTensorType>(x.getType()).isDynamicDim(0);
    pointer(x, 0, offset ? static_cast<uint32_t>(weight.getK()) * kActivationBytes : 0);
    normOp ? pointer(normOp.getWeight()) : null();
    residual ? pointer(residual) : null();
    result().word(n).perRow(first.getX(), 1).number(normOp ? normOp.getEps() : 0.0);
    blocks(ni::linearBlocks(spec, n));
    return {};
  }

  /// [last_row] [rms_norm] linear linear ..., a result each.
  Status segments(FusedOp group) {
    llvm::SmallVector<LinearOp> linears;
    std::vector<ni::Format> formats;
    std::vector<uint32_t> n;
    for (Value value : group.getYield().getValues()) {
      auto linear = value.getDefiningOp<LinearOp>();
      if (!linear || (!linears.empty() && linear.getX() != linears.front().getX()))
        return fail("is a group of more than linear maps of one input");
      linears.push_back(linear);
      formats.push_back(formatOf(linear.getWeight().getType()));
      n.push_back(static_cast<uint32_t>(linear.getWeight().getType().getN()));
    }
    LinearOp first = linears.front();
    auto normOp = first.getX().getDefiningOp<RmsNormOp>();
    auto last = (normOp ? normOp.getX() : first.getX()).getDefiningOp<LastRowOp>();
    if (kernel_.getFamily() != "cuda.linear" || body_->hasAttr(NinferDialect::kWide) || linears.size() > ni::kMaxSegments)
      return fail("is a group of " + std::to_string(linears.size()) + " linear maps that no kernel takes");
    const auto bucket = llvm::find_if(kRowBuckets, [&](uint32_t capacity) { return capacity >= rowsOf(first.getX()); });
    if (bucket == std::end(kRowBuckets))
      return fail("has " + std::to_string(rowsOf(first.getX())) + " rows, a linear kernel at most 16");
    const auto k = static_cast<uint32_t>(first.getWeight().getType().getK());
    ni::LinearSegmentsSpec spec = tunedSegments(formats, n, *bucket, k, prologueOf(normOp), operands_);
    if (spilled_.contains(segmentsKernel(spec, sm_).name))
      spec = tunedSegments(formats, n, *bucket, k, prologueOf(normOp), operands_, true);
    out_.text = segmentsKernel(spec, sm_);
    const size_t count = linears.size();
    for (size_t i = 0; i < ni::kMaxSegments; ++i)
      i < count ? panels(linears[i].getWeight()) : null();
    for (size_t i = 0; i < ni::kMaxSegments; ++i)
      i < count ? result(i) : null();
    for (size_t i = 0; i < ni::kMaxSegments; ++i)
      word(i < count ? n[i] : 0);
    const Value x = last ? last.getX() : normOp ? normOp.getX() : first.getX();
    const bool offset = last && cast<RankedTensorType>(x.getType()).isDynamicDim(0);
    pointer(x, 0, offset ? k * kActivationBytes : 0);
    normOp ? pointer(normOp.getWeight()) : null();
    perRow(first.getX(), 1).number(normOp ? normOp.getEps() : 0.0);
    blocks(ni::segmentsBlocks(spec, n.data()));
    return {};
  }

  Status gemm(LinearOp first, LinearOp up, Value residual, ni::Epilogue epilogue, ni::OutputType output) {
    WeightType weight = first.getWeight().getType();
    const auto n = static_cast<uint32_t>(weight.getN());
    const auto tuned = [&](uint32_t rows) {
      return tunedGemm(formatOf(weight), rows, static_cast<uint32_t>(weight.getK()), epilogue, output, device_.sharedPerBlock,
                       operands_);
    };
    const auto group = static_cast<uint32_t>(first.getRowGroup());
    const auto text = [&](const ni::GemmSpec &s) { return group == 1 ? gemmKernel(s, sm_) : groupedGemmKernel(s, group, sm_); };
    ni::GemmSpec spec = tuned(rowsOf(first.getX()) / group);
    if (spilled_.contains(text(spec).name))
      spec = tuned(1); // the smallest tiles
    out_.text = text(spec);
    panels(first.getWeight());
    up ? panels(up.getWeight()) : null();
    pointer(first.getX());
    residual ? pointer(residual) : null();
    result().word(n).perRow(first.getX(), 1);
    const uint32_t columns = ni::gemmBlocksX(spec, n);
    out_.grid = {columns, 0, 1};
    blocksPerRow(first.getX(), columns, ni::gemmRows(spec) * group);
    return {};
  }

  Status embedding(EmbeddingOp op) {
    WeightType table = op.getWeight().getType();
    out_.text = embeddingKernel({.format = formatOf(table), .k = static_cast<uint32_t>(table.getK())}, sm_);
    pointer(op.getTokens()).panels(op.getWeight()).result().word(table.getN());
    blocksPerRow(op.getResult(), 1);
    return {};
  }

  Status norm(Value x, Value weight, Value gate, int64_t heads, double eps, ni::NormKind kind) {
    const ni::NormSpec spec{.width = static_cast<uint32_t>(widthOf(x) / heads), .kind = kind};
    out_.text = normKernel(spec, sm_);
    pointer(x).pointer(weight);
    gate ? pointer(gate) : null();
    result().perRow(x, heads).number(eps);
    blocksPerRow(x, ni::normBlocks(spec, static_cast<uint32_t>(heads)));
    return {};
  }

  Status elementwise(Operation *op, ni::ElementwiseOp kind) {
    const Value a = op->getOperand(0), b = op->getOperand(1);
    const uint64_t width = widthOf(a);
    out_.text = elementwiseKernel({.op = kind}, sm_);
    pointer(a).pointer(b).result().perRow(a, width).word(width);
    blocksPerRow(a, ni::divideUp(static_cast<uint32_t>(width), ni::kElementwiseThreads * ni::kElementwisePerThread));
    return {};
  }

  Result<ni::CacheCodec> codecOf(KvCacheType cache) const {
    if (cache.getElementType().isInteger(8))
      return ni::CacheCodec::Int8;
    if (cache.getElementType().isF32())
      return fail("has a cache of float32");
    return ni::CacheCodec::Bf16;
  }

  Status attention(AttentionOp op) {
    KvCacheType cache = op.getCache().getType();
    NINFER_ASSIGN_OR_RETURN(const ni::CacheCodec codec, codecOf(cache));
    const auto heads = static_cast<uint32_t>(op.getHeads()), kvHeads = static_cast<uint32_t>(op.getKvHeads()),
               dim = static_cast<uint32_t>(cache.getHeadDim());
    const uint64_t capacity = cache.getCapacity();
    const double scale = op.getScale() * kLog2E;
    pointer(op.getQuery()).pointer(op.getCache()).pointer(op.getCache(), 1);
    if (kernel_.getFamily().starts_with("cuda.attention_decode")) {
      const ni::AttentionDecodeSpec spec{
          .heads = heads, .kvHeads = kvHeads, .dim = dim, .rows = rowsOf(op.getQuery()), .codec = codec, .operands = operands_};
      if (!ni::attentionAccepts(spec))
        return fail("decode attention takes no such heads");
      // Enough blocks for every multiprocessor, none with less than two tiles of keys when the cache is full.
      const uint32_t most = std::max<uint32_t>(1, capacity / (2 * ni::kAttentionKeys));
      const uint32_t splits = std::clamp<uint32_t>(device_.multiprocessors / kvHeads, 1, most);
      out_.text = attentionDecodeKernel(spec, sm_);
      out_.scratchBytes = uint64_t{kvHeads} * splits * ni::attentionScratch(spec) * sizeof(float);
      out_.counterBytes = kvHeads * sizeof(uint32_t);
      null().result().own(0).own(1).position().perRow(op.getQuery(), 1).word(capacity).word(splits).number(scale);
      out_.grid = {kvHeads, 0, 1};
      blocks(uint64_t{kvHeads} * splits);
    } else if (kernel_.getFamily() == "cuda.attention_prefill") {
      ni::AttentionPrefillSpec spec{.heads = heads, .kvHeads = kvHeads, .dim = dim, .codec = codec, .operands = operands_};
      // Twice the rows share each tile of keys and values, where the registers hold them.
      if (rowsOf(op.getQuery()) > ni::prefillRows(spec) && dim <= 128)
        spec.warps = 8;
      if (spilled_.contains(attentionPrefillKernel(spec, sm_).name))
        spec.warps = 4;
      if (!ni::prefillAccepts(spec))
        return fail("prefill attention takes no such heads");
      out_.text = attentionPrefillKernel(spec, sm_);
      null().result().position().perRow(op.getQuery(), 1).word(capacity).number(scale);
      out_.grid = {0, heads, 1};
      blocksPerRow(op.getQuery(), heads, ni::prefillRows(spec));
    } else {
      out_.text = attentionRowsKernel({.heads = heads, .kvHeads = kvHeads, .dim = dim, .codec = codec}, sm_);
      result().position().word(capacity).number(scale);
      out_.grid = {heads, 0, 1};
      blocksPerRow(op.getQuery(), heads);
    }
    return {};
  }

  Status causalConv(CausalConvOp op) {
    if (!op->hasAttr(NinferDialect::kJoined))
      return fail("has results that others than one delta rule read");
    const ni::CausalConvSpec spec{.taps = static_cast<uint32_t>(op.getWeight().getType().getN()),
                                  .queryWidth = static_cast<uint32_t>(widthOf(op.getQuery())),
                                  .keyWidth = static_cast<uint32_t>(widthOf(op.getKey())),
                                  .valueWidth = static_cast<uint32_t>(widthOf(op.getValue())),
                                  .peek = op.getPeek()};
    if (!ni::convAccepts(spec))
      return fail("has a projection of odd width");
    out_.text = causalConvKernel(spec, sm_);
    pointer(op.getQuery()).pointer(op.getKey()).pointer(op.getValue()).pointer(op.getWeight()).pointer(op.getTail());
    result().perRow(op.getQuery(), 1).word(spec.queryWidth).word(spec.keyWidth).word(spec.valueWidth);
    const uint32_t columns = ni::convBlocksX(spec);
    out_.grid = {columns, 0, 1};
    blocksPerRow(op.getQuery(), columns, ni::kConvRows);
    return {};
  }

  Status gatedDelta(GatedDeltaOp op) {
    DeltaStateType state = op.getState().getType();
    const ni::GatedDeltaSpec spec{.keyHeads = static_cast<uint32_t>(op.getKeyHeads()),
                                  .valueHeads = static_cast<uint32_t>(state.getValueHeads()),
                                  .keyDim = static_cast<uint32_t>(state.getKeyDim()),
                                  .valueDim = static_cast<uint32_t>(state.getValueDim()),
                                  .peek = op.getPeek()};
    const bool chunked = kernel_.getFamily() == "cuda.gated_delta_chunked";
    ni::DeltaChunkedSpec chunks =
        tunedDeltaChunked(spec.keyHeads, spec.valueHeads, spec.keyDim, spec.valueDim, rowsOf(op.getValue()));
    if (spilled_.contains(deltaChunkedKernel(chunks, sm_).name))
      chunks.values = 16; // half the registers of the state
    const bool anySize = kernel_.getFamily() == "cuda.gated_delta_rows";
    out_.text = chunked   ? deltaChunkedKernel(chunks, sm_)
                : anySize ? gatedDeltaRowsKernel(spec, sm_)
                          : gatedDeltaKernel(spec, sm_);
    // Columns of one buffer, if a convolution wrote them.
    const bool joined = op->hasAttr(NinferDialect::kJoined);
    const uint64_t q = widthOf(op.getQuery()), k = widthOf(op.getKey()), v = widthOf(op.getValue());
    pointer(op.getQuery()).pointer(op.getKey(), 0, 0, joined ? q * kActivationBytes : 0);
    pointer(op.getValue(), 0, 0, joined ? (q + k) * kActivationBytes : 0);
    pointer(op.getA()).pointer(op.getB()).pointer(op.getALog()).pointer(op.getDtBias()).pointer(op.getState());
    result().perRow(op.getValue(), 1);
    word(joined ? q + k + v : q).word(joined ? q + k + v : k).word(joined ? q + k + v : v).word(widthOf(op.getA()));
    const uint32_t columns = chunked   ? ni::deltaChunkedBlocksX(chunks)
                             : anySize ? ni::deltaRowsBlocksX(spec)
                                       : ni::deltaBlocksX(spec);
    out_.grid = {columns, 0, 1};
    blocks(uint64_t{columns} * spec.valueHeads);
    return {};
  }

  Status moeRoute(MoeRouteOp op) {
    out_.text = moeRouteKernel({.experts = static_cast<uint32_t>(widthOf(op.getLogits())),
                                .topK = static_cast<uint32_t>(op.getTopK())},
                               sm_);
    pointer(op.getLogits()).result();
    blocksPerRow(op.getLogits(), 1);
    return {};
  }

  Status moeUp(MoeUpOp op) {
    WeightType bank = op.getBank().getType();
    const auto k = static_cast<uint32_t>(bank.getK()), topK = static_cast<uint32_t>(op.getTopK());
    const auto inner = static_cast<uint32_t>(bank.getN() / op.getExperts() / 2);
    if (kernel_.getFamily() == "cuda.moe_up_grouped")
      return grouped(op.getBank(), op.getX(), op.getX(), op.getRoutes(), topK, static_cast<uint32_t>(op.getExperts()), inner, false);
    // As a linear map of one row with gate and up.
    const ni::LinearSpec linear = tunedLinear(formatOf(bank), 1, k, ni::Prologue::None, ni::Epilogue::Swiglu);
    const ni::MoeUpSpec spec{
        .format = formatOf(bank), .k = k, .topK = topK, .warpsK = linear.warpsK, .depth = linear.depth, .operands = operands_};
    out_.text = moeUpKernel(spec, sm_);
    panels(op.getBank()).pointer(op.getX()).pointer(op.getRoutes()).result().word(op.getExperts()).word(inner);
    const uint32_t columns = ni::linearBlocks(ni::moeUpLinear(spec), inner);
    out_.grid = {columns, 0, 1};
    blocksPerRow(op.getX(), uint64_t{columns} * topK);
    return {};
  }

  Status moeDown(MoeDownOp op) {
    WeightType bank = op.getBank().getType();
    const auto n = static_cast<uint32_t>(bank.getN() / op.getExperts());
    if (kernel_.getFamily() == "cuda.moe_down_grouped")
      return grouped(op.getBank(), op.getProducts(), op.getResult(), op.getRoutes(), static_cast<uint32_t>(op.getTopK()),
                     static_cast<uint32_t>(op.getExperts()), n, true);
    const ni::MoeDownSpec spec{.format = formatOf(bank),
                               .k = static_cast<uint32_t>(bank.getK()),
                               .topK = static_cast<uint32_t>(op.getTopK()),
                               .operands = operands_};
    out_.text = moeDownKernel(spec, sm_);
    panels(op.getBank()).pointer(op.getProducts()).pointer(op.getRoutes()).result().word(op.getExperts()).word(n);
    const uint32_t columns = n / ni::kPanelRows;
    out_.grid = {columns, 0, 1};
    blocksPerRow(op.getProducts(), columns);
    return {};
  }

  /// A map of experts for many rows; `n` outputs of an expert (of its gate, of its up). `rowsLike` has a row per row of the call.
  Status grouped(Value bank, Value x, Value rowsLike, Value routes, uint32_t topK, uint32_t experts, uint32_t n, bool down) {
    const auto type = cast<WeightType>(bank.getType());
    const ni::MoeGroupedSpec spec =
        tunedGrouped(formatOf(type), static_cast<uint32_t>(type.getK()), topK, down, device_.sharedPerBlock);
    out_.text = moeGroupedKernel(spec, sm_);
    panels(bank).pointer(x).pointer(routes).result();
    if (down) {
      out_.scratchBytes = ni::groupedScratch(spec, rowsOf(rowsLike), n) * sizeof(float);
      out_.counterBytes = uint64_t{ni::groupedCounters(spec, rowsOf(rowsLike), n)} * sizeof(uint32_t);
      own(0).own(1);
    } else {
      null().null();
    }
    perRow(rowsLike, 1).word(experts).word(n);
    const uint32_t columns = ni::groupedBlocksX(spec, n);
    out_.grid = {columns, 0, 1};
    blocks(uint64_t{columns} * experts);
    return {};
  }

  /// [head_norm] [head_norm] rope, rope, kv_append.
  Status ropeAppend(FusedOp group) {
    auto append = *group.getBlock()->getOps<KvAppendOp>().begin();
    auto query = group.getYield().getValues().front().getDefiningOp<RopeOp>();
    auto key = append.getKey().getDefiningOp<RopeOp>();
    KvCacheType cache = append.getCache().getType();
    RopeTableType table = query.getTable().getType();
    if (query.getTable() != key.getTable() || query.getPosition() != append.getPosition() ||
        key.getPosition() != append.getPosition())
      return fail("query, key and cache have different rope tables or positions");
    auto queryNorm = query.getX().getDefiningOp<HeadNormOp>(), keyNorm = key.getX().getDefiningOp<HeadNormOp>();
    if (!queryNorm != !keyNorm ||
        (queryNorm && (queryNorm.getEps() != keyNorm.getEps() || queryNorm.getUnitOffset() != keyNorm.getUnitOffset())))
      return fail("query and key have different norms");
    NINFER_ASSIGN_OR_RETURN(const ni::CacheCodec codec, codecOf(cache));
    const ni::RopeAppendSpec spec{.heads = static_cast<uint32_t>(query.getHeads()),
                                  .kvHeads = static_cast<uint32_t>(cache.getKvHeads()),
                                  .dim = static_cast<uint32_t>(cache.getHeadDim()),
                                  .pairs = static_cast<uint32_t>(table.getPairs()),
                                  .codec = codec,
                                  .norm = !queryNorm                  ? ni::HeadNorm::None
                                          : queryNorm.getUnitOffset() ? ni::HeadNorm::UnitOffset
                                                                      : ni::HeadNorm::Plain};
    out_.text = ropeAppendKernel(spec, sm_);
    const Value q = queryNorm ? queryNorm.getX() : query.getX(), k = keyNorm ? keyNorm.getX() : key.getX();
    pointer(q).pointer(k).pointer(append.getValue());
    queryNorm ? pointer(queryNorm.getWeight()).pointer(keyNorm.getWeight()) : null().null();
    pointer(query.getTable()).result().pointer(append.getCache()).pointer(append.getCache(), 1).position();
    perRow(q, 1).word(cache.getCapacity()).word(widthOf(q)).word(widthOf(k)).word(widthOf(append.getValue()));
    number(queryNorm ? queryNorm.getEps() : 0.0);
    blocksPerRow(q, ni::ropeBlocks(spec, 1));
    return {};
  }

  Operation *body_ = nullptr;
  const std::set<std::string> &spilled_;
  ni::Operands operands_; ///< of the architecture's tensor cores
};

} // namespace

Result<SpecializedKernel> specialize(KernelOp kernel, const Device &device, const std::set<std::string> &spilled) {
  return Specializer(kernel, device, spilled).run();
}

} // namespace ninfer::cuda
