// Requests that the CPU and reference catalogs accept, as starting points of the tests.
#ifndef NINFER_TEST_UNIT_CATALOG_REQUESTS_H
#define NINFER_TEST_UNIT_CATALOG_REQUESTS_H

#include "codegen/common/Admission.h"

#include <vector>

namespace ninfer::test {

inline KernelTarget target(std::string_view name) {
  Result<KernelTarget> parsed = parseKernelTarget(name);
  return parsed.ok() ? parsed.take() : KernelTarget{};
}

inline KernelSignature linear(Format format, int64_t n, int64_t k,
                              ActivationPolicy policy = ActivationPolicy::A16Only) {
  KernelSignature s;
  s.op = OpKind::Linear;
  s.weights = {{format, layoutOf(format), n, k}};
  s.policy = policy;
  return s;
}

/// One request per operator of the graph that both executors serve.
inline KernelSignature request(OpKind op) {
  KernelSignature s;
  s.op = op;
  switch (op) {
  case OpKind::Embedding:
    s.weights = {{Format::W8G32_F16S, Layout::RowSplitK128V1, 49152, 576}};
    break;
  case OpKind::Linear:
    return linear(Format::Q6G64_F16S, 192, 576);
  case OpKind::RmsNorm:
    s.normFormats = {Format::BF16};
    s.width = 576;
    break;
  case OpKind::HeadNorm:
    s.normFormats = {Format::BF16};
    s.heads = 9;
    s.headDim = 64;
    break;
  case OpKind::GatedHeadNorm:
    s.normFormats = {Format::BF16};
    s.heads = 48;
    s.headDim = 128;
    break;
  case OpKind::MoeRoute:
    s.experts = 256;
    s.topK = 8;
    break;
  case OpKind::MoeUp:
    s.weights = {{Format::Q4G64_F16S, Layout::RowSplitK128V1, 262144, 2048}};
    s.experts = 256;
    s.topK = 8;
    break;
  case OpKind::MoeDown:
    s.weights = {{Format::Q5G64_F16S, Layout::RowSplitK128V1, 524288, 512}};
    s.experts = 256;
    s.topK = 8;
    break;
  case OpKind::CausalConv:
    s.normFormats = {Format::BF16};
    s.width = 10240;
    s.segmentWidths = {2048, 2048, 6144};
    s.taps = 4;
    break;
  case OpKind::GatedDelta:
    s.normFormats = {Format::FP32, Format::FP32};
    s.heads = 48;
    s.headDim = 128;
    s.kvHeads = 16;
    s.keyDim = 128;
    break;
  case OpKind::LayerNorm:
    s.normFormats = {Format::BF16, Format::BF16};
    s.width = 1152;
    break;
  case OpKind::Bias:
    s.normFormats = {Format::BF16};
    s.width = 1152;
    s.rowGroup = 4;
    break;
  case OpKind::Gelu:
    s.width = 4304;
    break;
  case OpKind::AxialRope:
    s.heads = 16;
    s.headDim = s.rotaryDim = 72;
    s.capacity = 4096;
    break;
  case OpKind::FullAttention:
    s.heads = 16;
    s.headDim = 72;
    break;
  case OpKind::Interpolate:
    s.weights = {{Format::BF16, Layout::ContiguousLeV1, 2304, 1152}};
    s.taps = 4;
    break;
  case OpKind::Rope:
    s.heads = 9;
    s.headDim = 64;
    s.rotaryDim = 64;
    s.capacity = 2048;
    break;
  case OpKind::KvAppend:
    s.kvHeads = 3;
    s.headDim = 64;
    s.capacity = 2048;
    s.codec = StateCodec::BF16;
    break;
  case OpKind::RopeAppend:
    s.fused = true;
    s.rotaryDim = 64;
    [[fallthrough]];
  case OpKind::Attention:
    s.heads = 9;
    s.kvHeads = 3;
    s.headDim = 64;
    s.capacity = 2048;
    s.codec = StateCodec::BF16;
    break;
  case OpKind::Swiglu:
  case OpKind::SigmoidGate:
  case OpKind::Add:
  case OpKind::LastRow:
  case OpKind::StoreRows:
  case OpKind::LoadRows:
  case OpKind::Concat:
  case OpKind::ReplaceRows:
    s.width = 576;
    break;
  case OpKind::PlaceAngles:
    s.width = 64;
    s.capacity = 2048;
    break;
  }
  return s;
}

/// Verdict of one family, or null when it was no candidate.
inline const Verdict *verdictOf(const AdmissionResult &result, std::string_view family) {
  for (const Verdict &verdict : result.verdicts)
    if (verdict.family->name == family)
      return &verdict;
  return nullptr;
}

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_CATALOG_REQUESTS_H
