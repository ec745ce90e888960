#include "codegen/common/Families.h"

#include "codegen/common/Tiling.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

namespace ninfer {
namespace {

constexpr std::string_view kAvx2[] = {"avx2", "fma", "f16c"};
constexpr std::string_view kNeon[] = {"neon", "dotprod"};
constexpr std::string_view kSm80[] = {"sm_80"}; ///< mma of bfloat16, cp.async
constexpr std::string_view kSm75[] = {"sm_75"}; ///< mma of binary16: kernels that are proven with both

const EnumSet<Format> kIntegerCodes = {Format::Q4G64_F16S, Format::Q5G64_F16S, Format::Q6G64_F16S,
                                       Format::W8G32_F16S};
const EnumSet<Format> kAllFormats = {
    Format::BF16,       Format::FP32,       Format::I32,
    Format::Q4G64_F16S, Format::Q5G64_F16S, Format::Q6G64_F16S,
    Format::W8G32_F16S, Format::NVFP4,      Format::FP8_E4M3FN_ROW_BF16S};
/// Formats whose words decode to real numbers: everything but I32.
const EnumSet<Format> kRealFormats = {
    Format::BF16,       Format::FP32,       Format::Q4G64_F16S, Format::Q5G64_F16S,
    Format::Q6G64_F16S, Format::W8G32_F16S, Format::NVFP4,      Format::FP8_E4M3FN_ROW_BF16S};
const EnumSet<KernelPrologue> kAllPrologues = {KernelPrologue::None, KernelPrologue::RmsNorm,
                                               KernelPrologue::LastRow,
                                               KernelPrologue::LastRowRmsNorm};
const EnumSet<KernelEpilogue> kAllEpilogues = {KernelEpilogue::Store, KernelEpilogue::Residual,
                                               KernelEpilogue::Swiglu};
const EnumSet<StateCodec> kAllCodecs = {StateCodec::BF16, StateCodec::F32, StateCodec::Int8};

const EnumSet<StateCodec> kCudaCodecs = {StateCodec::BF16, StateCodec::Int8};
/// Formats that have a panel layout (codegen/cuda/kernels/panel.cuh).
const EnumSet<Format> kPanelFormats = {Format::BF16,       Format::Q4G64_F16S, Format::Q5G64_F16S,
                                       Format::Q6G64_F16S, Format::W8G32_F16S, Format::NVFP4,
                                       Format::FP8_E4M3FN_ROW_BF16S};

constexpr Limit kTensorRows{1, 16}; ///< of the small operand of an mma, two tiles of 8
constexpr Limit kRows{1, 4096};
constexpr Limit kWidth{1, 1 << 20};
constexpr Limit kCapacity{1, 1 << 22};
constexpr Limit kOutputs{1, 1 << 24};
constexpr Limit kHeads{1, 1024};
constexpr Limit kHeadDim{1, 1024};
constexpr Limit kRotatedDim{2, 1024, 2}; ///< rope turns pairs
constexpr Limit kTurnedHead{2, 1024};    ///< holds at least one pair
constexpr Limit kTaps{2, 8};
constexpr Limit kDeltaPeekRows{1, 16}; ///< one block of tokens of the micro-kernel
constexpr Limit kTableRows{1, 16}; ///< table rows that one row of interpolate sums
constexpr Limit kRowGroup{1, 4096};
constexpr Limit kAxialDim{4, 1024, 4}; ///< two axes of pairs
constexpr Limit kExperts{1, 4096};
constexpr Limit kTopK{1, 64};

int onlyChoice(const KernelSignature &, const KernelTarget &) { return 0; }
int priorityFewRows(const KernelSignature &, const KernelTarget &) { return 20; } ///< every weight is read once, at full speed
/// Kernels that take rows together pay when a call has many; up to the 16 rows of a verification they come one by one.
int priorityManyRows(const KernelSignature &signature, const KernelTarget &) { return signature.rows.max > 16 ? 20 : -1; }
int priorityLast(const KernelSignature &, const KernelTarget &) { return -2; } ///< behind all that take fewer shapes
int priorityHalf(const KernelSignature &, const KernelTarget &) { return 15; } ///< where bfloat16 operands are not there
int priorityF32(const KernelSignature &, const KernelTarget &) { return 10; }
int priorityA16(const KernelSignature &, const KernelTarget &) { return 20; }

/// int8 activations pay where unpacking narrow codes dominates; for 8-bit codes int16 activations
/// measured as fast (1.71-1.92x against 1.74-2.03x of the same peer, one thread) with 250 times
/// less error. With many rows products dominate, and an instruction that adds four of bytes makes
/// twice as many (docs/status.md).
int priorityA8(const KernelSignature &signature, const KernelTarget &target) {
  bool narrow =
      std::any_of(signature.weights.begin(), signature.weights.end(),
                  [](const WeightSignature &w) { return w.format != Format::W8G32_F16S; });
  bool fourBytes = target.hasFeature("avx512vnni") || target.hasFeature("neon");
  return narrow || (fourBytes && signature.rows.max > 16) ? 30 : 15;
}

KernelFamily family(std::string_view name, std::string_view executor, OpKind op) {
  KernelFamily f;
  f.name = name;
  f.executor = executor;
  f.op = op;
  f.rows = kRows;
  f.priority = onlyChoice;
  return f;
}

KernelFamily cpu(std::string_view name, OpKind op) {
  KernelFamily f = family(name, "cpu", op);
  f.features = kAvx2;
  f.neonFeatures = kNeon;
  f.normFormats = {Format::BF16};
  return f;
}

KernelFamily reference(std::string_view name, OpKind op) {
  KernelFamily f = family(name, "reference", op);
  f.normFormats = {Format::BF16};
  return f;
}

KernelFamily cpuLinear(std::string_view name, KernelProfile profile,
                       KernelPriority priority) {
  KernelFamily f = cpu(name, OpKind::Linear);
  f.profile = profile;
  f.formats = profile == KernelProfile::F32 ? kRealFormats : kIntegerCodes;
  f.needsPolicy =
      profile == KernelProfile::A8 ? ActivationPolicy::AllowA8 : ActivationPolicy::A16Only;
  f.prologues = kAllPrologues;
  f.epilogues = kAllEpilogues;
  f.acceptsFused = true;
  f.segments = {1, kMaxSegments};
  f.n = kOutputs;
  f.k = kWidth;
  f.rowGroup = kRowGroup;
  f.priority = priority;
  return f;
}

/// The first (up) or second (down) linear map of chosen experts.
KernelFamily cpuExperts(std::string_view name, OpKind op, KernelProfile profile,
                        KernelPriority priority) {
  KernelFamily f = cpu(name, op);
  f.profile = profile;
  f.formats = profile == KernelProfile::F32 ? kRealFormats : kIntegerCodes;
  f.needsPolicy =
      profile == KernelProfile::A8 ? ActivationPolicy::AllowA8 : ActivationPolicy::A16Only;
  f.priority = priority;
  return f;
}

/// Limits that follow from the operator alone, equal for all executors.
KernelFamily withShapes(KernelFamily f) {
  switch (f.op) {
  case OpKind::Embedding:
    f.segments = {1, 1};
    f.n = kOutputs;
    f.k = kWidth;
    break;
  case OpKind::Linear:
    f.n = kOutputs;
    f.k = kWidth;
    f.rowGroup = kRowGroup;
    break;
  case OpKind::HeadNorm:
    f.heads = kHeads;
    f.headDim = kHeadDim;
    break;
  case OpKind::Rope:
    f.heads = kHeads;
    f.headDim = kTurnedHead;
    f.rotaryDim = kRotatedDim;
    f.capacity = kCapacity;
    break;
  case OpKind::KvAppend:
    f.kvHeads = kHeads;
    f.headDim = kHeadDim;
    f.capacity = kCapacity;
    f.codecs = kAllCodecs;
    break;
  case OpKind::Attention:
    f.heads = kHeads;
    f.kvHeads = kHeads;
    f.headDim = kHeadDim;
    f.capacity = kCapacity;
    f.codecs = kAllCodecs;
    break;
  case OpKind::RopeAppend:
    f.heads = kHeads;
    f.kvHeads = kHeads;
    f.headDim = kTurnedHead;
    f.rotaryDim = kRotatedDim;
    f.capacity = kCapacity;
    f.codecs = kAllCodecs;
    break;
  case OpKind::CausalConv:
    f.width = kWidth;
    f.taps = kTaps;
    f.peekRows = kRows;
    f.normFormats = {Format::BF16};
    break;
  case OpKind::GatedDelta:
    f.heads = kHeads;
    f.kvHeads = kHeads;
    f.headDim = kHeadDim;
    f.keyDim = kHeadDim;
    f.peekRows = f.executor == "cpu" ? kDeltaPeekRows : kRows;
    f.normFormats = {Format::FP32};
    break;
  case OpKind::MoeRoute:
    f.experts = kExperts;
    f.topK = kTopK;
    break;
  case OpKind::MoeUp:
  case OpKind::MoeDown:
    f.segments = {1, 1};
    f.n = kOutputs;
    f.k = kWidth;
    f.experts = kExperts;
    f.topK = kTopK;
    break;
  case OpKind::GatedHeadNorm:
    f.heads = kHeads;
    f.headDim = kHeadDim;
    break;
  case OpKind::RmsNorm:
  case OpKind::Swiglu:
  case OpKind::SigmoidGate:
  case OpKind::Add:
  case OpKind::LastRow:
  case OpKind::StoreRows:
  case OpKind::LoadRows:
  case OpKind::Concat:
  case OpKind::ReplaceRows:
    f.width = kWidth;
    break;
  case OpKind::PlaceAngles:
    f.width = kWidth;
    f.capacity = kCapacity;
    break;
  case OpKind::Bias:
    f.rowGroup = kRowGroup;
    [[fallthrough]];
  case OpKind::LayerNorm:
  case OpKind::Gelu:
    f.width = kWidth;
    break;
  case OpKind::AxialRope:
    f.heads = kHeads;
    f.headDim = kAxialDim;
    f.rotaryDim = kAxialDim;
    f.capacity = kCapacity;
    break;
  case OpKind::FullAttention:
    f.heads = kHeads;
    f.headDim = kHeadDim;
    break;
  case OpKind::Interpolate:
    f.segments = {1, 1};
    f.formats = {Format::BF16};
    f.n = kOutputs;
    f.k = kWidth;
    f.taps = kTableRows;
    break;
  }
  return f;
}

KernelFamily cuda(std::string_view name, OpKind op) {
  KernelFamily f = withShapes(family(name, "cuda", op));
  f.profile = KernelProfile::BF16;
  f.rowGroup = {1, 1};
  f.features = kSm80;
  f.normFormats = {Format::BF16};
  f.storesWide = false;
  return f;
}

/// What codegen/cuda/kernels has, no more.
void addCudaFamilies(std::vector<KernelFamily> &all) {
  KernelFamily linear = cuda("cuda.linear", OpKind::Linear); // linear.cuh
  linear.features = kSm75;
  linear.formats = kPanelFormats;
  linear.prologues = kAllPrologues;
  linear.epilogues = kAllEpilogues;
  linear.acceptsFused = linear.storesWide = true;
  linear.uniformFormats = {KernelEpilogue::Swiglu};
  linear.segments = {1, kMaxSegments}; // linear_segments.cuh
  linear.wideSegments = 1;
  linear.rows = kTensorRows;
  linear.priority = priorityFewRows;
  all.push_back(linear);

  KernelFamily gemm = linear; // gemm.cuh
  gemm.name = "cuda.gemm";
  gemm.prologues = {KernelPrologue::None};
  gemm.segments = {1, 2};
  gemm.storeSegments = 1;
  gemm.k = {8, 1 << 20, 8};
  gemm.rowGroup = kRowGroup; // gemm_grouped.cuh
  gemm.rows = kRows;
  gemm.priority = onlyChoice;
  all.push_back(gemm);

  KernelFamily embedding = cuda("cuda.embedding", OpKind::Embedding);
  embedding.features = kSm75;
  embedding.formats = kPanelFormats;
  all.push_back(embedding);

  KernelFamily append = cuda("cuda.rope_append", OpKind::RopeAppend);
  append.features = kSm75;
  append.acceptsFused = true;
  append.headDim = append.rotaryDim = {2, 512, 2};
  append.headNorms = {0, 2, 2};
  append.codecs = kCudaCodecs;
  all.push_back(append);

  KernelFamily prefill = cuda("cuda.attention_prefill", OpKind::Attention); // attention_prefill.cuh
  prefill.features = kSm75;
  prefill.headDim = {16, 256, 16};
  prefill.capacity = {32, 1 << 22, 32};
  prefill.codecs = kCudaCodecs;
  prefill.priority = priorityF32;
  KernelFamily decode = prefill; // attention_decode.cuh
  decode.name = "cuda.attention_decode";
  decode.features = kSm80;
  decode.rows = decode.groupRows = {1, 64}; // four tiles of 16 query vectors
  decode.priority = priorityFewRows;
  KernelFamily half = decode; // the same with binary16 operands
  half.name = "cuda.attention_decode_half";
  half.features = kSm75;
  half.rows = half.groupRows = {1, 32}; // what 64 KiB of shared memory hold with heads of 256
  half.priority = priorityHalf;
  KernelFamily attention = cuda("cuda.attention_rows", OpKind::Attention); // attention_rows.cuh
  attention.features = kSm75;
  attention.headDim = {2, 512, 2};
  attention.codecs = kCudaCodecs;
  all.insert(all.end(), {decode, half, prefill, attention});

  KernelFamily conv = cuda("cuda.causal_conv", OpKind::CausalConv);
  conv.features = kSm75;
  conv.width = {2, 1 << 20, 2};
  KernelFamily delta = cuda("cuda.gated_delta", OpKind::GatedDelta);
  delta.features = kSm75;
  delta.keyDim = {32, 256, 32};
  delta.headDim = {16, 1024, 16};
  delta.normFormats = {Format::FP32};
  KernelFamily chunked = delta; // delta_chunked.cuh
  chunked.name = "cuda.gated_delta_chunked";
  chunked.features = kSm80;
  chunked.peekRows = {0, 0};
  chunked.priority = priorityManyRows;
  KernelFamily deltaRows = delta; // gated_delta_rows.cuh
  deltaRows.name = "cuda.gated_delta_rows";
  deltaRows.keyDim = {1, 256};
  deltaRows.headDim = {1, 1024};
  deltaRows.priority = priorityLast;
  KernelFamily route = cuda("cuda.moe_route", OpKind::MoeRoute);
  route.features = kSm75;
  route.experts = {1, 1024};
  KernelFamily up = cuda("cuda.moe_up", OpKind::MoeUp);
  up.features = kSm75;
  up.formats = kPanelFormats;
  up.n = up.expertRows = {32, 1 << 24, 32}; // whole panels of gate and of up
  KernelFamily down = cuda("cuda.moe_down", OpKind::MoeDown);
  down.features = kSm75;
  down.formats = kPanelFormats;
  down.k = {8, 1 << 20, 8};
  down.topK = {1, 16};
  down.n = down.expertRows = {16, 1 << 24, 16};
  all.insert(all.end(), {conv, delta, chunked, deltaRows, route, up, down});
  for (KernelFamily f : {up, down}) { // moe_grouped.cuh
    f.name = f.op == OpKind::MoeUp ? "cuda.moe_up_grouped" : "cuda.moe_down_grouped";
    f.k = {8, 1 << 20, 8};
    f.features = kSm80;
    f.topK = kTopK;
    f.priority = priorityManyRows;
    all.push_back(f);
  }

  KernelFamily bias = cuda("cuda.bias", OpKind::Bias); // vision_rows.cuh, and the four behind it
  bias.storesWide = true;
  bias.rowGroup = kRowGroup;
  KernelFamily layerNorm = cuda("cuda.layer_norm", OpKind::LayerNorm), gelu = cuda("cuda.gelu", OpKind::Gelu),
               axialRope = cuda("cuda.axial_rope", OpKind::AxialRope), interpolate = cuda("cuda.interpolate", OpKind::Interpolate);
  KernelFamily full = cuda("cuda.full_attention", OpKind::FullAttention); // full_attention.cuh
  full.headDim = {2, 192, 2};
  for (KernelFamily *f : {&layerNorm, &bias, &gelu, &axialRope, &interpolate, &full}) {
    f->features = kSm75;
    all.push_back(*f);
  }

  const std::pair<std::string_view, OpKind> singles[] = {{"cuda.rms_norm", OpKind::RmsNorm},
                                                         {"cuda.head_norm", OpKind::HeadNorm},
                                                         {"cuda.gated_head_norm", OpKind::GatedHeadNorm},
                                                         {"cuda.swiglu", OpKind::Swiglu},
                                                         {"cuda.sigmoid_gate", OpKind::SigmoidGate},
                                                         {"cuda.add", OpKind::Add},
                                                         {"cuda.store_rows", OpKind::StoreRows}, // copy_rows.cuh
                                                         {"cuda.load_rows", OpKind::LoadRows},
                                                         {"cuda.concat", OpKind::Concat},
                                                         {"cuda.last_row", OpKind::LastRow}};
  for (auto [name, op] : singles) {
    all.push_back(cuda(name, op));
    all.back().features = kSm75;
  }
}

std::vector<KernelFamily> makeFamilies() {
  std::vector<KernelFamily> all;
  all.push_back(cpuLinear("linear_a8", KernelProfile::A8, priorityA8));
  all.push_back(cpuLinear("linear_a16", KernelProfile::A16, priorityA16));
  all.push_back(cpuLinear("linear_f32", KernelProfile::F32, priorityF32));

  const std::tuple<std::string_view, OpKind, KernelProfile, KernelPriority>
      experts[] = {{"moe_up_a8", OpKind::MoeUp, KernelProfile::A8, priorityA8},
                   {"moe_up_a16", OpKind::MoeUp, KernelProfile::A16, priorityA16},
                   {"moe_up_f32", OpKind::MoeUp, KernelProfile::F32, priorityF32},
                   {"moe_down_a8", OpKind::MoeDown, KernelProfile::A8, priorityA8},
                   {"moe_down_a16", OpKind::MoeDown, KernelProfile::A16, priorityA16},
                   {"moe_down_f32", OpKind::MoeDown, KernelProfile::F32, priorityF32}};
  for (auto [name, op, profile, priority] : experts)
    all.push_back(withShapes(cpuExperts(name, op, profile, priority)));

  KernelFamily embedding = withShapes(cpu("embedding", OpKind::Embedding));
  embedding.formats = kRealFormats;
  all.push_back(embedding);

  KernelFamily ropeAppend = withShapes(cpu("rope_append", OpKind::RopeAppend));
  ropeAppend.acceptsFused = true;
  all.push_back(ropeAppend);

  const std::pair<std::string_view, OpKind> singles[] = {{"attention", OpKind::Attention},
                                                         {"rms_norm", OpKind::RmsNorm},
                                                         {"head_norm", OpKind::HeadNorm},
                                                         {"rope", OpKind::Rope},
                                                         {"kv_append", OpKind::KvAppend},
                                                         {"swiglu", OpKind::Swiglu},
                                                         {"add", OpKind::Add},
                                                         {"last_row", OpKind::LastRow},
                                                         {"sigmoid_gate", OpKind::SigmoidGate},
                                                         {"causal_conv", OpKind::CausalConv},
                                                         {"gated_delta", OpKind::GatedDelta},
                                                         {"gated_head_norm", OpKind::GatedHeadNorm},
                                                         {"moe_route", OpKind::MoeRoute},
                                                         {"store_rows", OpKind::StoreRows},
                                                         {"load_rows", OpKind::LoadRows},
                                                         {"concat", OpKind::Concat},
                                                         {"layer_norm", OpKind::LayerNorm},
                                                         {"bias", OpKind::Bias},
                                                         {"gelu", OpKind::Gelu},
                                                         {"axial_rope", OpKind::AxialRope},
                                                         {"full_attention", OpKind::FullAttention},
                                                         {"interpolate", OpKind::Interpolate},
                                                         {"place_angles", OpKind::PlaceAngles},
                                                         {"replace_rows", OpKind::ReplaceRows}};
  for (auto [name, op] : singles)
    all.push_back(withShapes(cpu(name, op)));

  const std::pair<std::string_view, OpKind> builtins[] = {{"ref.embedding", OpKind::Embedding},
                                                          {"ref.rms_norm", OpKind::RmsNorm},
                                                          {"ref.head_norm", OpKind::HeadNorm},
                                                          {"ref.linear", OpKind::Linear},
                                                          {"ref.rope", OpKind::Rope},
                                                          {"ref.kv_append", OpKind::KvAppend},
                                                          {"ref.attention", OpKind::Attention},
                                                          {"ref.swiglu", OpKind::Swiglu},
                                                          {"ref.add", OpKind::Add},
                                                          {"ref.last_row", OpKind::LastRow},
                                                          {"ref.sigmoid_gate", OpKind::SigmoidGate},
                                                          {"ref.causal_conv", OpKind::CausalConv},
                                                          {"ref.gated_delta", OpKind::GatedDelta},
                                                          {"ref.gated_head_norm", OpKind::GatedHeadNorm},
                                                          {"ref.moe_route", OpKind::MoeRoute},
                                                          {"ref.moe_up", OpKind::MoeUp},
                                                          {"ref.moe_down", OpKind::MoeDown},
                                                          {"ref.store_rows", OpKind::StoreRows},
                                                          {"ref.load_rows", OpKind::LoadRows},
                                                          {"ref.concat", OpKind::Concat},
                                                          {"ref.layer_norm", OpKind::LayerNorm},
                                                          {"ref.bias", OpKind::Bias},
                                                          {"ref.gelu", OpKind::Gelu},
                                                          {"ref.axial_rope", OpKind::AxialRope},
                                                          {"ref.full_attention", OpKind::FullAttention},
                                                          {"ref.interpolate", OpKind::Interpolate},
                                                          {"ref.place_angles", OpKind::PlaceAngles},
                                                          {"ref.replace_rows", OpKind::ReplaceRows}};
  for (auto [name, op] : builtins) {
    KernelFamily f = withShapes(reference(name, op));
    if (op == OpKind::Linear || op == OpKind::Embedding || op == OpKind::MoeUp ||
        op == OpKind::MoeDown || op == OpKind::Interpolate) {
      f.segments = {1, 1};
      f.formats = kAllFormats;
    }
    all.push_back(f);
  }
  addCudaFamilies(all);
  return all;
}

/// At most this many bytes per packed activation element: the value, group sums, group scales.
double packedBytesPerElement(KernelProfile profile) {
  switch (profile) {
  case KernelProfile::BF16: // no kernel that packs activations
  case KernelProfile::F32:
    return 4.0;
  case KernelProfile::A16:
    return 3.25;
  case KernelProfile::A8:
    return 2.25;
  }
  return 4.0;
}

} // namespace

std::span<const KernelFamily> kernelFamilies() {
  static const std::vector<KernelFamily> families = makeFamilies();
  return families;
}

FusionLimits fusionLimits(std::string_view executor, int64_t rows) {
  FusionLimits limits;
  limits.uniformFormats = kAllEpilogues;
  std::optional<KernelProfile> profile;
  for (const KernelFamily &f : kernelFamilies()) {
    if (f.executor != executor || !f.acceptsFused || !f.rows.accepts(rows))
      continue;
    limits.ropeAppend |= f.op == OpKind::RopeAppend;
    if (f.op != OpKind::Linear)
      continue;
    limits.prologues.bits |= f.prologues.bits;
    limits.epilogues.bits |= f.epilogues.bits;
    limits.storeSegments = std::max(limits.storeSegments, std::min(f.storeSegments, f.segments.max));
    limits.wideSegments = std::max(limits.wideSegments, std::min(f.wideSegments, f.segments.max));
    limits.uniformFormats.bits &= f.uniformFormats.bits;
    limits.oneProfile &= f.profile == profile.value_or(f.profile);
    profile = f.profile;
  }
  return limits;
}

uint64_t scratchBound(const KernelSignature &signature, const KernelFamily &family) {
  if (family.executor != "cpu")
    return 0;
  auto bounded = [](int64_t value, int64_t max) {
    return static_cast<uint64_t>(std::clamp<int64_t>(value, 1, max));
  };
  if (signature.op == OpKind::FullAttention) // a block of keys and values, the scores, sums of 256 queries
    return (64 * (2 * bounded(signature.headDim, 1 << 20) + 160 + 4) + 512) * 4;
  if (signature.op == OpKind::Attention) { // scores of a block, 32 queries and their sums, scales of an int8 block; of many rows a
                                           // decoded block, 12 queries, their scores, sums of 1024 queries
    const uint64_t dim = bounded(signature.headDim, 1 << 20), padded = (dim + 31) / 32 * 32;
    const uint64_t few = (4 * 512 + 32 * 2 * (1 + padded) + 512 * 2 * ((dim + 63) / 64)) * 4;
    return signature.rows.max > 16 ? std::max(few, ((2 * 128 + 12) * padded + 12 * 128 + 2 * 1024) * 4) : few;
  }
  if (signature.op == OpKind::RopeAppend) // one rotated key
    return bounded(signature.headDim, 1 << 20) * 4 + 64;
  if (signature.op == OpKind::GatedDelta) { // normalised query and key, scalars, of a block of 16 rows
    const uint64_t key = bounded(signature.keyDim, 1 << 20);
    return 16 * ((key + 15) * 8 + 32) + (signature.peek ? 16 * key * 4 : 0); // a copy of 16 state rows
  }
  const bool experts = signature.op == OpKind::MoeUp || signature.op == OpKind::MoeDown;
  if ((signature.op != OpKind::Linear && !experts) || signature.weights.empty())
    return 0;
  if (experts) {
    const uint64_t n =
        bounded(signature.weights.front().n / std::max<int64_t>(1, signature.experts), 1 << 24);
    const uint64_t k = (bounded(signature.weights.front().k, 1 << 24) + 127) / 128 * 128;
    if (signature.rows.max == 1) // one packed row, the products of one slot
      return k * 4 * 4 + n * 4 * 2 + 1024;
    // A block of gathered and packed rows, a panel of weights, two blocks of products, the sorted routes.
    const uint64_t entries = bounded(signature.rows.max, 1 << 20) * bounded(signature.topK, 1 << 20);
    const uint64_t rows =
        std::min<uint64_t>((entries + 15) / 16 * 16, static_cast<uint64_t>(kExpertRowBlock));
    return rows * (k * 8 + 64) + 32 * (512 * 4 + 32 * 4 + rows * 4) +
           2 * std::max(rows * 64, n) * 4 + (entries + bounded(signature.experts, 1 << 24) + 1) * 8 +
           1024;
  }
  std::set<bool> groupSizes; // W8 quantises activations per 32 inputs, the others per 64
  for (const WeightSignature &weight : signature.weights)
    groupSizes.insert(weight.format == Format::W8G32_F16S);
  const uint64_t k = (bounded(signature.weights.front().k, 1 << 24) + 127) / 128 * 128;
  const uint64_t rows = (bounded(signature.rows.max, 1 << 20) + 15) / 16 * 16;
  const uint64_t copies = family.profile == KernelProfile::F32 ? 1 : groupSizes.size();
  const double packed = packedBytesPerElement(family.profile) * static_cast<double>(rows * k);
  const uint64_t panel = 32 * (512 * 4 + 32 * 4 + rows * 4); // unpacked weights, their scales, sums
  const uint64_t results = rows * 32 * 2 * 4;                // one tile of gate and up
  const uint64_t normalised = std::min<uint64_t>(rows, 16) * k * 4; // what is packed at a time
  return static_cast<uint64_t>(packed) * copies + rows * 64 * copies + normalised + panel + results;
}

} // namespace ninfer
