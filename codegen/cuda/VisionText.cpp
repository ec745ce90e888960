#include "codegen/cuda/VisionText.h"

namespace ninfer::cuda {
namespace {

/// `arguments` are those of the instantiating macro, behind the name.
KernelText text(std::string_view header, std::string_view macro, const std::string &name, const std::string &arguments, uint32_t sm) {
  KernelText t;
  t.family = "vision";
  t.header = header;
  t.name = name + (sm ? "_sm" + std::to_string(sm) : std::string());
  t.line = std::string(macro) + "(" + t.name + ", " + arguments + ")";
  t.threads = ni::kVisionThreads;
  return t;
}

std::string number(uint32_t value) { return std::to_string(value); }

} // namespace

KernelText layerNormKernel(const ni::LayerNormSpec &s, uint32_t sm) {
  KernelText t = text("vision_rows.cuh", "NI_LAYER_NORM", "ni_layer_norm_k" + number(s.width), "{.width = " + number(s.width) + "}", sm);
  t.params = {{"x", 8}, {"weight", 8}, {"bias", 8}, {"out", 8}, {"eps", 4}};
  t.sharedBytes = ni::kLayerNormShared;
  return t;
}

KernelText biasKernel(const ni::BiasSpec &s, uint32_t sm) {
  const bool wide = s.output == ni::OutputType::Float;
  KernelText t = text("vision_rows.cuh", "NI_BIAS", "ni_bias_g" + number(s.group) + (wide ? "_f32" : ""),
                      "{.group = " + number(s.group) + ", .output = ni::OutputType::" + (wide ? "Float" : "Bf16") + "}", sm);
  t.params = {{"x", 8}, {"bias", 8}, {"out", 8}, {"width", 4}};
  return t;
}

KernelText geluKernel(const ni::GeluSpec &s, uint32_t sm) {
  KernelText t = text("vision_rows.cuh", "NI_GELU", s.tanh ? "ni_gelu_tanh" : "ni_gelu",
                      std::string("{.tanh = ") + (s.tanh ? "true" : "false") + "}", sm);
  t.params = {{"x", 8}, {"out", 8}, {"width", 4}};
  return t;
}

KernelText axialRopeKernel(const ni::AxialRopeSpec &s, uint32_t sm) {
  KernelText t = text("vision_rows.cuh", "NI_AXIAL_ROPE", "ni_axial_rope_h" + number(s.heads) + "_p" + number(s.pairs),
                      "{.heads = " + number(s.heads) + ", .pairs = " + number(s.pairs) + "}", sm);
  t.params = {{"x", 8}, {"table", 8}, {"positions", 8}, {"out", 8}, {"capacity", 4}};
  return t;
}

KernelText interpolateKernel(const ni::InterpolateSpec &s, uint32_t sm) {
  KernelText t = text("vision_rows.cuh", "NI_INTERPOLATE", "ni_interpolate_t" + number(s.taps), "{.taps = " + number(s.taps) + "}", sm);
  t.params = {{"indices", 8}, {"weights", 8}, {"table", 8}, {"out", 8}, {"n", 4}, {"width", 4}};
  return t;
}

KernelText fullAttentionKernel(const ni::FullAttentionSpec &s, uint32_t sm) {
  KernelText t = text("full_attention.cuh", "NI_FULL_ATTENTION", "ni_full_attention_h" + number(s.heads) + "_d" + number(s.dim),
                      "{.heads = " + number(s.heads) + ", .dim = " + number(s.dim) + "}", sm);
  t.params = {{"query", 8}, {"key", 8}, {"value", 8}, {"out", 8}, {"rows", 4}, {"scale", 4}};
  t.threads = ni::kFullThreads;
  t.sharedBytes = ni::fullShared(s);
  return t;
}

KernelText groupedGemmKernel(const ni::GemmSpec &s, uint32_t group, uint32_t sm) {
  KernelText t = gemmKernel(s, sm);
  const std::string plain = t.name, suffix = sm ? "_sm" + number(sm) : std::string();
  t.name = plain.substr(0, plain.size() - suffix.size()) + "_g" + number(group) + suffix;
  t.header = "gemm_grouped.cuh";
  t.line = "NI_GEMM_GROUPED(" + t.name + ", " + number(group) + t.line.substr(t.line.find(plain) + plain.size());
  return t;
}

} // namespace ninfer::cuda
