#include "codegen/cuda/KernelText.h"

#include "artifact/formats/Format.h"

namespace ninfer::cuda {

namespace {

constexpr bool sameNumber(ni::Format kernel, Format registry) {
  return static_cast<uint32_t>(kernel) == static_cast<uint32_t>(registry);
}
static_assert(sameNumber(ni::Format::Bf16, Format::BF16) && sameNumber(ni::Format::Fp32, Format::FP32) &&
                  sameNumber(ni::Format::I32, Format::I32) && sameNumber(ni::Format::Q4, Format::Q4G64_F16S) &&
                  sameNumber(ni::Format::Q5, Format::Q5G64_F16S) && sameNumber(ni::Format::Q6, Format::Q6G64_F16S) &&
                  sameNumber(ni::Format::W8, Format::W8G32_F16S) && sameNumber(ni::Format::Nvfp4, Format::NVFP4) &&
                  sameNumber(ni::Format::Fp8, Format::FP8_E4M3FN_ROW_BF16S),
              "kernels/types.cuh: Format numbers are those of the registry");

std::string_view enumerator(ni::Format format) {
  constexpr std::string_view names[] = {"Bf16", "Fp32", "I32", "Q4", "Q5", "Q6", "W8", "Nvfp4", "Fp8"};
  return names[static_cast<size_t>(format)];
}

/// Text of a designated initialiser list, field by field in declaration order.
class Record {
public:
  Record &number(std::string_view field, uint64_t value) { return text(field, std::to_string(value)); }
  Record &flag(std::string_view field, bool value) { return text(field, value ? "true" : "false"); }
  Record &choice(std::string_view field, std::string_view type, std::string_view enumerator) {
    return text(field, "ni::" + std::string(type) + "::" + std::string(enumerator));
  }
  std::string str() const { return "{" + text_ + "}"; }

private:
  Record &text(std::string_view field, const std::string &value) {
    text_ += (text_.empty() ? "." : ", .") + std::string(field) + " = " + value;
    return *this;
  }
  std::string text_;
};

constexpr std::string_view kPrologues[] = {"None", "RmsNorm", "RmsNormUnitOffset"};
constexpr std::string_view kPrologueSuffix[] = {"", "_norm", "_norm1"};
constexpr std::string_view kEpilogues[] = {"Store", "Residual", "Swiglu"};
constexpr std::string_view kEpilogueSuffix[] = {"", "_add", "_swiglu"};
constexpr std::string_view kOutputs[] = {"Bf16", "Float"};

template <typename Enum>
constexpr size_t index(Enum value) {
  return static_cast<size_t>(value);
}

std::string_view enumerator(ni::CacheCodec codec) { return codec == ni::CacheCodec::Bf16 ? "Bf16" : "Int8"; }
std::string_view enumerator(ni::Operands operands) { return operands == ni::Operands::Bf16 ? "Bf16" : "F16"; }
std::string suffix(ni::Operands operands) { return operands == ni::Operands::Bf16 ? "" : "_half"; }
std::string codecSuffix(ni::CacheCodec codec) { return codec == ni::CacheCodec::Bf16 ? "_bf16" : "_int8"; }
/// field("k", 5120) is "_k5120".
std::string field(std::string_view key, uint32_t value) { return "_" + std::string(key) + std::to_string(value); }

/// What every text has. `arguments` follow the name in the instantiating macro.
KernelText text(std::string_view family, std::string_view header, std::string_view macro, const std::string &name,
                const std::string &arguments, uint32_t sm) {
  KernelText t;
  t.family = family;
  t.header = header;
  t.name = name + (sm ? "_sm" + std::to_string(sm) : std::string());
  t.line = std::string(macro) + "(" + t.name + ", " + arguments + ")";
  return t;
}

} // namespace

std::string KernelText::source() const { return "#include \"" + header + "\"\n" + line + "\n"; }

std::string_view shortName(ni::Format format) {
  constexpr std::string_view names[] = {"bf16", "fp32", "i32", "q4g64", "q5g64", "q6g64", "w8g32", "nvfp4", "fp8"};
  return names[static_cast<size_t>(format)];
}

namespace {

/// How a record splits its work: "_w8x1d2c1024".
std::string splitSuffix(const ni::LinearSpec &s) {
  return "_w" + std::to_string(s.warpsK) + "x" + std::to_string(s.warpsN) + "d" + std::to_string(s.depth) +
         (s.chunk ? "c" + std::to_string(s.chunk) : "") + suffix(s.operands);
}

std::string recordOf(const ni::LinearSpec &s) {
  Record record;
  record.choice("format", "Format", enumerator(s.format)).number("rows", s.rows).number("k", s.k);
  record.choice("prologue", "Prologue", kPrologues[index(s.prologue)]);
  record.choice("epilogue", "Epilogue", kEpilogues[index(s.epilogue)]);
  record.choice("output", "OutputType", kOutputs[index(s.output)]);
  record.number("warpsK", s.warpsK).number("warpsN", s.warpsN).number("chunk", s.chunk).number("depth", s.depth);
  record.number("blocksPerSm", s.blocksPerSm).choice("operands", "Operands", enumerator(s.operands));
  return record.str();
}

} // namespace

KernelText linearKernel(const ni::LinearSpec &s, uint32_t sm) {
  std::string name = "ni_linear_" + std::string(shortName(s.format)) + field("r", s.rows) + field("k", s.k);
  name += kPrologueSuffix[index(s.prologue)];
  name += kEpilogueSuffix[index(s.epilogue)];
  name += s.output == ni::OutputType::Float ? "_f32" : "";
  name += splitSuffix(s);
  KernelText t = text("linear", "linear.cuh", "NI_LINEAR", name, recordOf(s), sm);
  t.params = {{"weight", 8}, {"up", 8}, {"x", 8}, {"norm", 8}, {"residual", 8}, {"out", 8}, {"n", 4}, {"rows", 4}, {"eps", 4}};
  t.threads = ni::linearThreads(s);
  t.sharedBytes = ni::linearShared(s);
  return t;
}

KernelText segmentsKernel(const ni::LinearSegmentsSpec &s, uint32_t sm) {
  const ni::LinearSpec &any = s.kind[0];
  std::string name = "ni_segments" + field("r", any.rows) + field("k", any.k) + std::string(kPrologueSuffix[index(any.prologue)]);
  std::string record = "{.kinds = " + std::to_string(s.kinds) + ", .kind = {";
  for (uint32_t i = 0; i < s.kinds; ++i) {
    name += "_" + std::string(shortName(s.kind[i].format)) + (s.kind[i].output == ni::OutputType::Float ? "f32" : "") +
            splitSuffix(s.kind[i]);
    record += (i ? ", " : "") + recordOf(s.kind[i]);
  }
  record += "}, .segments = " + std::to_string(s.segments) + ", .kindOf = {";
  name += "_";
  for (uint32_t i = 0; i < s.segments; ++i) {
    name += std::to_string(s.kindOf[i]);
    record += (i ? ", " : "") + std::to_string(s.kindOf[i]);
  }
  record += "}, .blocksPerSm = " + std::to_string(s.blocksPerSm) + "}";
  name += field("b", s.blocksPerSm);
  KernelText t = text("linear", "linear_segments.cuh", "NI_LINEAR_SEGMENTS", name, record, sm);
  static constexpr std::string_view kWeights[] = {"weight0", "weight1", "weight2", "weight3",
                                                  "weight4", "weight5", "weight6", "weight7"},
                                    kResults[] = {"out0", "out1", "out2", "out3", "out4", "out5", "out6", "out7"},
                                    kSizes[] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"};
  static_assert(std::size(kWeights) == ni::kMaxSegments);
  for (std::string_view weight : kWeights)
    t.params.push_back({weight, 8});
  for (std::string_view result : kResults)
    t.params.push_back({result, 8});
  for (std::string_view n : kSizes)
    t.params.push_back({n, 4});
  for (KernelParam param : {KernelParam{"x", 8}, {"norm", 8}, {"rows", 4}, {"eps", 4}})
    t.params.push_back(param);
  t.threads = ni::segmentsThreads(s);
  t.sharedBytes = ni::segmentsShared(s);
  return t;
}

KernelText gemmKernel(const ni::GemmSpec &s, uint32_t sm) {
  std::string name = "ni_gemm_" + std::string(shortName(s.format)) + field("k", s.k);
  name += kEpilogueSuffix[index(s.epilogue)];
  name += s.output == ni::OutputType::Float ? "_f32" : "";
  name += "_t" + std::to_string(ni::gemmRows(s)) + "s" + std::to_string(s.stages) + suffix(s.operands);
  Record record;
  record.choice("format", "Format", enumerator(s.format)).number("k", s.k);
  record.choice("epilogue", "Epilogue", kEpilogues[index(s.epilogue)]);
  record.choice("output", "OutputType", kOutputs[index(s.output)]);
  record.number("tiles", s.tiles).number("stages", s.stages).number("blocksPerSm", s.blocksPerSm);
  record.choice("operands", "Operands", enumerator(s.operands));
  KernelText t = text("gemm", "gemm.cuh", "NI_GEMM", name, record.str(), sm);
  t.params = {{"weight", 8}, {"up", 8}, {"x", 8}, {"residual", 8}, {"out", 8}, {"n", 4}, {"rows", 4}};
  t.threads = ni::kGemmThreads;
  t.sharedBytes = ni::gemmShared(s);
  return t;
}

KernelText packKernel(ni::Format format, uint32_t sm) {
  KernelText t = text("pack", "pack.cuh", "NI_PACK", "ni_pack_" + std::string(shortName(format)),
                      "ni::Format::" + std::string(enumerator(format)), sm);
  t.params = {{"codes", 8}, {"high", 8}, {"scales", 8}, {"divisor", 8}, {"packed", 8}, {"n", 4}, {"k", 4}};
  t.threads = ni::kPackThreads;
  return t;
}

KernelText normKernel(const ni::NormSpec &s, uint32_t sm) {
  constexpr std::string_view kinds[] = {"Plain", "UnitOffset", "Gated"}, suffixes[] = {"", "_unit", "_gated"};
  Record record;
  record.number("width", s.width).choice("kind", "NormKind", kinds[index(s.kind)]);
  KernelText t = text("rows", "norm.cuh", "NI_NORM", "ni_norm" + field("k", s.width) + std::string(suffixes[index(s.kind)]),
                      record.str(), sm);
  t.params = {{"x", 8}, {"weight", 8}, {"gate", 8}, {"out", 8}, {"vectors", 4}, {"eps", 4}};
  t.threads = ni::kNormThreads;
  t.sharedBytes = ni::normShared(s);
  return t;
}

KernelText elementwiseKernel(const ni::ElementwiseSpec &s, uint32_t sm) {
  constexpr std::string_view ops[] = {"Add", "Swiglu", "SigmoidGate", "SigmoidRowGate"};
  constexpr std::string_view names[] = {"add", "swiglu", "sigmoid_gate", "sigmoid_row_gate"};
  Record record;
  record.choice("op", "ElementwiseOp", ops[index(s.op)]);
  KernelText t = text("rows", "elementwise.cuh", "NI_ELEMENTWISE", "ni_" + std::string(names[index(s.op)]), record.str(), sm);
  t.params = {{"a", 8}, {"b", 8}, {"out", 8}, {"count", 4}, {"width", 4}};
  t.threads = ni::kElementwiseThreads;
  return t;
}

KernelText embeddingKernel(const ni::EmbeddingSpec &s, uint32_t sm) {
  Record record;
  record.choice("format", "Format", enumerator(s.format)).number("k", s.k);
  KernelText t = text("rows", "embedding.cuh", "NI_EMBEDDING",
                      "ni_embedding_" + std::string(shortName(s.format)) + field("k", s.k), record.str(), sm);
  t.params = {{"tokens", 8}, {"table", 8}, {"out", 8}, {"n", 4}};
  t.threads = ni::kEmbeddingThreads;
  return t;
}

KernelText argmaxKernel(const ni::ArgmaxSpec &s, uint32_t sm) {
  Record record;
  record.number("blocks", s.blocks);
  KernelText t = text("rows", "argmax.cuh", "NI_ARGMAX", "ni_argmax" + field("b", s.blocks), record.str(), sm);
  t.params = {{"logits", 8}, {"candidates", 8}, {"counters", 8}, {"out", 8}, {"n", 4}};
  t.threads = ni::kArgmaxThreads;
  t.sharedBytes = ni::kArgmaxShared;
  return t;
}

KernelText ropeAppendKernel(const ni::RopeAppendSpec &s, uint32_t sm) {
  constexpr std::string_view norms[] = {"None", "Plain", "UnitOffset"}, suffixes[] = {"", "_norm", "_norm1"};
  Record record;
  record.number("heads", s.heads).number("kvHeads", s.kvHeads).number("dim", s.dim).number("pairs", s.pairs);
  record.choice("codec", "CacheCodec", enumerator(s.codec)).choice("norm", "HeadNorm", norms[index(s.norm)]);
  KernelText t = text("rows", "rope_append.cuh", "NI_ROPE_APPEND",
                      "ni_rope_append" + field("h", s.heads) + field("kv", s.kvHeads) + field("d", s.dim) +
                          field("rot", 2 * s.pairs) + codecSuffix(s.codec) + std::string(suffixes[index(s.norm)]),
                      record.str(), sm);
  t.params = {{"query", 8},  {"key", 8},      {"value", 8},       {"queryNorm", 8}, {"keyNorm", 8}, {"table", 8},
              {"queryOut", 8}, {"keys", 8},   {"values", 8},      {"position", 8},  {"rows", 4},    {"capacity", 4},
              {"queryStride", 4}, {"keyStride", 4}, {"valueStride", 4}, {"eps", 4}};
  t.threads = ni::kRopeWarps * 32;
  t.sharedBytes = ni::ropeShared(s);
  return t;
}

KernelText attentionDecodeKernel(const ni::AttentionDecodeSpec &s, uint32_t sm) {
  Record record;
  record.number("heads", s.heads).number("kvHeads", s.kvHeads).number("dim", s.dim).number("rows", s.rows);
  record.choice("codec", "CacheCodec", enumerator(s.codec)).flag("gate", s.gate).choice("operands", "Operands", enumerator(s.operands));
  KernelText t = text("attention", "attention_decode.cuh", "NI_ATTENTION_DECODE",
                      "ni_attention_decode" + field("h", s.heads) + field("kv", s.kvHeads) + field("d", s.dim) +
                          field("r", s.rows) + codecSuffix(s.codec) + (s.gate ? "_gate" : "") + suffix(s.operands),
                      record.str(), sm);
  t.params = {{"query", 8},    {"keys", 8},     {"values", 8}, {"gate", 8},     {"out", 8},    {"scratch", 8},
              {"counters", 8}, {"position", 8}, {"rows", 4},   {"capacity", 4}, {"splits", 4}, {"scale", 4}};
  t.threads = ni::attentionThreads();
  t.sharedBytes = ni::attentionShared(s);
  return t;
}

KernelText attentionPrefillKernel(const ni::AttentionPrefillSpec &s, uint32_t sm) {
  Record record;
  record.number("heads", s.heads).number("kvHeads", s.kvHeads).number("dim", s.dim);
  record.choice("codec", "CacheCodec", enumerator(s.codec)).flag("gate", s.gate).number("warps", s.warps);
  record.choice("operands", "Operands", enumerator(s.operands));
  KernelText t = text("attention", "attention_prefill.cuh", "NI_ATTENTION_PREFILL",
                      "ni_attention_prefill" + field("h", s.heads) + field("kv", s.kvHeads) + field("d", s.dim) +
                          codecSuffix(s.codec) + (s.gate ? "_gate" : "") + field("w", s.warps) + suffix(s.operands),
                      record.str(), sm);
  t.params = {{"query", 8},    {"keys", 8}, {"values", 8},   {"gate", 8}, {"out", 8},
              {"position", 8}, {"rows", 4}, {"capacity", 4}, {"scale", 4}};
  t.threads = ni::prefillThreads(s);
  t.sharedBytes = ni::prefillShared(s);
  return t;
}

KernelText causalConvKernel(const ni::CausalConvSpec &s, uint32_t sm) {
  Record record;
  record.number("taps", s.taps).number("queryWidth", s.queryWidth).number("keyWidth", s.keyWidth);
  record.number("valueWidth", s.valueWidth).flag("peek", s.peek);
  KernelText t = text("delta", "causal_conv.cuh", "NI_CAUSAL_CONV",
                      "ni_causal_conv" + field("t", s.taps) + field("c", s.queryWidth) + "x" + std::to_string(s.keyWidth) +
                          "x" + std::to_string(s.valueWidth) + (s.peek ? "_peek" : ""),
                      record.str(), sm);
  t.params = {{"query", 8}, {"key", 8},  {"value", 8},       {"weight", 8},    {"tail", 8},
              {"out", 8},   {"rows", 4}, {"queryStride", 4}, {"keyStride", 4}, {"valueStride", 4}};
  t.threads = ni::kConvThreads;
  return t;
}

/// Of both delta rules.
static std::vector<KernelParam> deltaParams() {
  return {{"query", 8}, {"key", 8}, {"value", 8}, {"a", 8},           {"b", 8},         {"aLog", 8},        {"dtBias", 8},
          {"state", 8}, {"out", 8}, {"rows", 4},  {"queryStride", 4}, {"keyStride", 4}, {"valueStride", 4}, {"scalarStride", 4}};
}

KernelText gatedDeltaKernel(const ni::GatedDeltaSpec &s, uint32_t sm) {
  Record record;
  record.number("keyHeads", s.keyHeads).number("valueHeads", s.valueHeads).number("keyDim", s.keyDim);
  record.number("valueDim", s.valueDim).flag("peek", s.peek);
  KernelText t = text("delta", "gated_delta.cuh", "NI_GATED_DELTA",
                      "ni_gated_delta" + field("v", s.valueHeads) + "x" + std::to_string(s.valueDim) + field("k", s.keyHeads) +
                          "x" + std::to_string(s.keyDim) + (s.peek ? "_peek" : ""),
                      record.str(), sm);
  t.params = deltaParams();
  t.threads = ni::deltaThreads();
  return t;
}

KernelText deltaChunkedKernel(const ni::DeltaChunkedSpec &s, uint32_t sm) {
  Record record;
  record.number("keyHeads", s.keyHeads).number("valueHeads", s.valueHeads).number("keyDim", s.keyDim);
  record.number("valueDim", s.valueDim).number("values", s.values).number("warps", s.warps);
  KernelText t = text("delta", "delta_chunked.cuh", "NI_DELTA_CHUNKED",
                      "ni_delta_chunked" + field("v", s.valueHeads) + "x" + std::to_string(s.valueDim) + field("k", s.keyHeads) +
                          "x" + std::to_string(s.keyDim) + field("t", s.values) + field("c", ni::deltaChunk(s)),
                      record.str(), sm);
  t.params = deltaParams();
  t.threads = ni::deltaChunkedThreads(s);
  t.sharedBytes = ni::deltaChunkedShared(s);
  return t;
}

KernelText moeRouteKernel(const ni::MoeRouteSpec &s, uint32_t sm) {
  Record record;
  record.number("experts", s.experts).number("topK", s.topK);
  KernelText t = text("moe", "moe.cuh", "NI_MOE_ROUTE", "ni_moe_route" + field("e", s.experts) + field("top", s.topK),
                      record.str(), sm);
  t.params = {{"logits", 8}, {"routes", 8}};
  t.threads = ni::kRouteThreads;
  t.sharedBytes = ni::routeShared(s);
  return t;
}

KernelText moeUpKernel(const ni::MoeUpSpec &s, uint32_t sm) {
  Record record;
  record.choice("format", "Format", enumerator(s.format)).number("k", s.k).number("topK", s.topK);
  record.number("warpsK", s.warpsK).number("depth", s.depth).choice("operands", "Operands", enumerator(s.operands));
  KernelText t = text("moe", "moe.cuh", "NI_MOE_UP",
                      "ni_moe_up_" + std::string(shortName(s.format)) + field("k", s.k) + field("top", s.topK) + suffix(s.operands), record.str(), sm);
  t.params = {{"bank", 8}, {"x", 8}, {"routes", 8}, {"out", 8}, {"experts", 4}, {"inner", 4}};
  t.threads = ni::linearThreads(ni::moeUpLinear(s));
  t.sharedBytes = ni::linearShared(ni::moeUpLinear(s));
  return t;
}

KernelText moeDownKernel(const ni::MoeDownSpec &s, uint32_t sm) {
  Record record;
  record.choice("format", "Format", enumerator(s.format)).number("k", s.k).number("topK", s.topK);
  record.choice("operands", "Operands", enumerator(s.operands));
  KernelText t = text("moe", "moe.cuh", "NI_MOE_DOWN",
                      "ni_moe_down_" + std::string(shortName(s.format)) + field("k", s.k) + field("top", s.topK) + suffix(s.operands), record.str(), sm);
  t.params = {{"bank", 8}, {"products", 8}, {"routes", 8}, {"out", 8}, {"experts", 4}, {"n", 4}};
  t.threads = ni::moeDownThreads(s);
  t.sharedBytes = ni::moeDownShared(s);
  return t;
}

KernelText moeGroupedKernel(const ni::MoeGroupedSpec &s, uint32_t sm) {
  Record record;
  record.choice("format", "Format", enumerator(s.format)).number("k", s.k).number("topK", s.topK);
  record.flag("down", s.down).number("stages", s.stages);
  KernelText t = text("moe", "moe_grouped.cuh", "NI_MOE_GROUPED",
                      std::string(s.down ? "ni_moe_grouped_down_" : "ni_moe_grouped_up_") + std::string(shortName(s.format)) +
                          field("k", s.k) + field("top", s.topK) + field("s", s.stages),
                      record.str(), sm);
  t.params = {{"bank", 8},     {"x", 8},    {"routes", 8},  {"out", 8}, {"scratch", 8},
              {"counters", 8}, {"rows", 4}, {"experts", 4}, {"n", 4}};
  t.threads = ni::kGemmThreads;
  t.sharedBytes = ni::groupedShared(s);
  return t;
}

} // namespace ninfer::cuda
