#include "codegen/common/Signature.h"

namespace ninfer {

std::string_view opKindName(OpKind op) {
  switch (op) {
  case OpKind::Embedding:
    return "embedding";
  case OpKind::RmsNorm:
    return "rms_norm";
  case OpKind::HeadNorm:
    return "head_norm";
  case OpKind::Linear:
    return "linear";
  case OpKind::Rope:
    return "rope";
  case OpKind::KvAppend:
    return "kv_append";
  case OpKind::Attention:
    return "attention";
  case OpKind::Swiglu:
    return "swiglu";
  case OpKind::Add:
    return "add";
  case OpKind::LastRow:
    return "last_row";
  case OpKind::RopeAppend:
    return "rope_append";
  case OpKind::SigmoidGate:
    return "sigmoid_gate";
  case OpKind::CausalConv:
    return "causal_conv";
  case OpKind::GatedDelta:
    return "gated_delta";
  case OpKind::GatedHeadNorm:
    return "gated_head_norm";
  case OpKind::MoeRoute:
    return "moe_route";
  case OpKind::MoeUp:
    return "moe_up";
  case OpKind::MoeDown:
    return "moe_down";
  case OpKind::StoreRows:
    return "store_rows";
  case OpKind::LoadRows:
    return "load_rows";
  case OpKind::Concat:
    return "concat";
  case OpKind::LayerNorm:
    return "layer_norm";
  case OpKind::Bias:
    return "bias";
  case OpKind::Gelu:
    return "gelu";
  case OpKind::AxialRope:
    return "axial_rope";
  case OpKind::FullAttention:
    return "full_attention";
  case OpKind::Interpolate:
    return "interpolate";
  case OpKind::PlaceAngles:
    return "place_angles";
  case OpKind::ReplaceRows:
    return "replace_rows";
  }
  return "unknown";
}

std::string_view kernelPhaseName(KernelPhase phase) {
  constexpr std::string_view names[kNumKernelPhases] = {
      "decode", "prefill", "verify", "draft", "draft_next", "commit", "encode", "place"};
  return names[static_cast<size_t>(phase)];
}

std::optional<KernelPhase> parseKernelPhase(std::string_view name) {
  for (int i = 0; i < kNumKernelPhases; ++i)
    if (auto phase = static_cast<KernelPhase>(i); kernelPhaseName(phase) == name)
      return phase;
  return std::nullopt;
}

std::string_view profileName(KernelProfile profile) {
  switch (profile) {
  case KernelProfile::F32:
    return "f32";
  case KernelProfile::A16:
    return "a16";
  case KernelProfile::A8:
    return "a8";
  case KernelProfile::BF16:
    return "bf16";
  }
  return "unknown";
}

std::string_view prologueName(KernelPrologue prologue) {
  switch (prologue) {
  case KernelPrologue::None:
    return "none";
  case KernelPrologue::RmsNorm:
    return "rms_norm";
  case KernelPrologue::LastRow:
    return "last_row";
  case KernelPrologue::LastRowRmsNorm:
    return "last_row+rms_norm";
  }
  return "unknown";
}

std::string_view epilogueName(KernelEpilogue epilogue) {
  switch (epilogue) {
  case KernelEpilogue::Store:
    return "store";
  case KernelEpilogue::Residual:
    return "residual";
  case KernelEpilogue::Swiglu:
    return "swiglu";
  }
  return "unknown";
}

std::string_view stateCodecName(StateCodec codec) {
  switch (codec) {
  case StateCodec::BF16:
    return "bf16";
  case StateCodec::F32:
    return "f32";
  case StateCodec::Int8:
    return "int8";
  }
  return "unknown";
}

std::string_view formatShortName(Format format) {
  switch (format) {
  case Format::BF16:
    return "bf16";
  case Format::FP32:
    return "fp32";
  case Format::I32:
    return "i32";
  case Format::Q4G64_F16S:
    return "q4g64";
  case Format::Q5G64_F16S:
    return "q5g64";
  case Format::Q6G64_F16S:
    return "q6g64";
  case Format::W8G32_F16S:
    return "w8g32";
  case Format::NVFP4:
    return "nvfp4";
  case Format::FP8_E4M3FN_ROW_BF16S:
    return "fp8row";
  }
  return "unknown";
}

namespace {

std::string number(int64_t value) { return std::to_string(value); }

/// "Q4G64_F16S" when all segments agree, otherwise "Q4G64_F16S+W8G32_F16S+..." in segment order.
std::string segmentFormats(const std::vector<WeightSignature> &weights) {
  bool uniform = true;
  for (const WeightSignature &weight : weights)
    uniform &= weight.format == weights.front().format;
  std::string text;
  for (const WeightSignature &weight : weights) {
    if (!text.empty())
      text += '+';
    text += canonicalName(weight.format);
    if (uniform)
      break;
  }
  return text;
}

/// "576+192+192x576".
std::string segmentShapes(const std::vector<WeightSignature> &weights) {
  std::string text;
  for (const WeightSignature &weight : weights)
    text += (text.empty() ? "" : "+") + number(weight.n);
  return text + "x" + number(weights.front().k);
}

std::string cacheText(const KernelSignature &s) {
  std::string text =
      number(s.kvHeads) + " kv heads of " + number(s.headDim) + ", capacity " + number(s.capacity);
  if (s.codec)
    text += ", " + std::string(stateCodecName(*s.codec)) + " cache";
  return text;
}

/// ", 64 of them rotated" when a rotation leaves a part of the head as it is.
std::string rotaryText(const KernelSignature &s) {
  return s.rotaryDim == 0 || s.rotaryDim == s.headDim ? ""
                                                      : ", " + number(s.rotaryDim) + " rotated";
}

std::string head(const KernelSignature &s) {
  std::string op(opKindName(s.op));
  switch (s.op) {
  case OpKind::Linear:
  case OpKind::Embedding:
    if (s.weights.empty())
      return op;
    return segmentFormats(s.weights) + " " + op + " " + segmentShapes(s.weights);
  case OpKind::Interpolate:
    if (s.weights.empty())
      return op;
    return segmentFormats(s.weights) + " " + op + " " + segmentShapes(s.weights) + ", " +
           number(s.taps) + " rows each";
  case OpKind::HeadNorm:
  case OpKind::GatedHeadNorm:
  case OpKind::FullAttention:
    return op + " of " + number(s.heads) + " heads of " + number(s.headDim);
  case OpKind::Rope:
  case OpKind::AxialRope:
    return op + " of " + number(s.heads) + " heads of " + number(s.headDim) + rotaryText(s);
  case OpKind::Gelu:
    return op + (s.tanh ? " (tanh)" : "") + " of width " + number(s.width);
  case OpKind::MoeRoute:
    return op + " to " + number(s.topK) + " of " + number(s.experts) + " experts";
  case OpKind::MoeUp:
  case OpKind::MoeDown:
    if (s.weights.empty())
      return op;
    return segmentFormats(s.weights) + " " + op + " " + segmentShapes(s.weights) + " of " +
           number(s.topK) + " of " + number(s.experts) + " experts";
  case OpKind::CausalConv:
    return op + " of " + number(s.width) + " channels, " + number(s.taps) + " taps";
  case OpKind::GatedDelta:
    return op + " of " + number(s.heads) + " value heads of " + number(s.headDim) + " over " +
           number(s.kvHeads) + " key heads of " + number(s.keyDim);
  case OpKind::PlaceAngles:
    return op + " of width " + number(s.width) + ", capacity " + number(s.capacity);
  case OpKind::KvAppend:
    return op + " of " + cacheText(s);
  case OpKind::Attention:
  case OpKind::RopeAppend:
    return op + " of " + number(s.heads) + " heads over " + cacheText(s) + rotaryText(s);
  default:
    return op + " of width " + number(s.width);
  }
}

} // namespace

std::string describe(const KernelSignature &s) {
  std::string text = head(s) + ", rows ";
  text += s.rows.isStatic() ? number(s.rows.min) : number(s.rows.min) + ".." + number(s.rows.max);
  if (s.rowGroup != 1)
    text += ", row groups of " + number(s.rowGroup);
  if (s.prologue != KernelPrologue::None)
    text += ", prologue " + std::string(prologueName(s.prologue));
  if (s.epilogue != KernelEpilogue::Store)
    text += ", epilogue " + std::string(epilogueName(s.epilogue));
  if (s.op == OpKind::RopeAppend && !s.normFormats.empty())
    text += ", head norms";
  if (s.peek)
    text += ", state left as it was";
  if (s.wide)
    text += ", stored in float32";
  return text;
}

} // namespace ninfer
