// What every kernel of the gated delta rule shares: how the gates of a row follow from its projections, the scale of a query.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_DELTA_GATES_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_DELTA_GATES_CUH

#include "delta_spec.cuh"
#include "ni.cuh"

namespace ni {

constexpr float kLog2e = 1.44269504f;
constexpr float kDeltaEps = 1e-6f; ///< beside the sum of squares of a query or key

/// log(1 + exp(x)). Where 1 + e would lose e, the first terms of the series: off by less than e^3 / 3.
NI_FN float softplus(float x) {
  const float e = exp2Approx(x * kLog2e);
  const float small = e - 0.5f * e * e, large = log2Approx(1.0f + e) * 0.693147181f;
  return x > 20.0f ? x : e < 0x1p-8f ? small : large;
}

/// Base 2 logarithm of a row's decay; `rate` is exp(aLog).
NI_FN float deltaDecay(float rate, u16 a, float bias) { return -rate * softplus(bf16ToFloat(a) + bias) * kLog2e; }

/// 1 / sqrt(keyDim).
constexpr float deltaScale(u32 keyDim) {
  constexpr float kScales[] = {0.17677669529663688f, 0.125f,               0.10206207261596575f, 0.088388347648318441f,
                               0.079056941504209483f, 0.072168783648703223f, 0.066815310478106094f, 0.0625f};
  return kScales[keyDim / 32 - 1];
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_DELTA_GATES_CUH
