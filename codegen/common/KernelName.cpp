#include "codegen/common/KernelName.h"

namespace ninfer {
namespace {

std::string field(std::string_view key, int64_t value) {
  return "_" + std::string(key) + std::to_string(value);
}

std::string rowsField(const RowRange &rows) {
  if (rows.isStatic())
    return field("r", rows.max);
  return field("r", rows.min) + "to" + std::to_string(rows.max);
}

std::string weightFields(const KernelSignature &s) {
  std::string formats, outputs;
  bool uniform = true;
  for (const WeightSignature &weight : s.weights) {
    uniform &= weight.format == s.weights.front().format;
    formats += "_" + std::string(formatShortName(weight.format));
    outputs += (outputs.empty() ? "_n" : "x") + std::to_string(weight.n);
  }
  if (uniform)
    formats = "_" + std::string(formatShortName(s.weights.front().format));
  return formats + outputs + field("k", s.weights.front().k);
}

std::string headFields(const KernelSignature &s) {
  std::string text;
  if (s.heads)
    text += field("h", s.heads);
  if (s.kvHeads)
    text += field("kv", s.kvHeads);
  text += field("d", s.headDim);
  if (s.rotaryDim && s.rotaryDim != s.headDim)
    text += field("rot", s.rotaryDim);
  if (s.capacity)
    text += field("c", s.capacity);
  if (s.codec)
    text += "_" + std::string(stateCodecName(*s.codec));
  return text;
}

std::string linearSuffix(const KernelSignature &s) {
  std::string text;
  if (s.prologue == KernelPrologue::LastRow || s.prologue == KernelPrologue::LastRowRmsNorm)
    text += "_last";
  if (s.prologue == KernelPrologue::RmsNorm || s.prologue == KernelPrologue::LastRowRmsNorm)
    text += "_norm";
  if (s.epilogue == KernelEpilogue::Residual)
    text += "_add";
  if (s.epilogue == KernelEpilogue::Swiglu)
    text += "_swiglu";
  if (s.rowGroup != 1)
    text += field("g", s.rowGroup);
  return text;
}

} // namespace

std::string kernelName(const KernelSignature &s, const KernelFamily &family) {
  std::string name = family.executor == "reference" ? "ref_" : "";
  name += opKindName(s.op);
  // What drives the launch: the rows of the call, which last_row turns into one.
  std::string rows = rowsField(s.inputRows);
  switch (s.op) {
  case OpKind::Embedding:
    return name + weightFields(s) + rows;
  case OpKind::Linear:
    name += weightFields(s) + rows;
    if (family.executor == "cpu") // the others have one profile
      name += "_" + std::string(profileName(family.profile));
    return name + linearSuffix(s) + (s.wide ? "_f32" : "");
  case OpKind::CausalConv:
    return name + field("c", s.width) + field("t", s.taps) + rows + (s.peek ? "_peek" : "");
  case OpKind::GatedDelta:
    return name + field("v", s.heads) + "x" + std::to_string(s.headDim) + field("k", s.kvHeads) +
           "x" + std::to_string(s.keyDim) + rows + (s.peek ? "_peek" : "");
  case OpKind::MoeRoute:
    return name + field("e", s.experts) + field("top", s.topK) + rows;
  case OpKind::MoeUp:
  case OpKind::MoeDown:
    name += weightFields(s) + field("e", s.experts) + field("top", s.topK) + rows;
    return family.executor == "cpu" ? name + "_" + std::string(profileName(family.profile)) : name;
  case OpKind::Interpolate:
    return name + weightFields(s) + field("t", s.taps) + rows;
  case OpKind::Bias:
    return name + field("k", s.width) + (s.rowGroup == 1 ? "" : field("g", s.rowGroup)) + rows;
  case OpKind::Gelu:
    return name + (s.tanh ? "_tanh" : "") + field("k", s.width) + rows;
  case OpKind::HeadNorm:
  case OpKind::GatedHeadNorm:
  case OpKind::AxialRope:
  case OpKind::FullAttention:
  case OpKind::Rope:
  case OpKind::KvAppend:
  case OpKind::Attention:
    return name + headFields(s) + rows;
  case OpKind::RopeAppend:
    return name + headFields(s) + rows + (s.normFormats.empty() ? "" : "_norm");
  case OpKind::PlaceAngles:
    return name + field("k", s.width) + field("c", s.capacity) + rows;
  case OpKind::StoreRows:
  case OpKind::LoadRows:
    return name + field("k", s.width) + field("at", s.column) + rows;
  case OpKind::RmsNorm:
  case OpKind::LayerNorm:
  case OpKind::Swiglu:
  case OpKind::SigmoidGate:
  case OpKind::Add:
  case OpKind::LastRow:
  case OpKind::Concat:
  case OpKind::ReplaceRows:
    return name + field("k", s.width) + rows;
  }
  return name;
}

} // namespace ninfer
