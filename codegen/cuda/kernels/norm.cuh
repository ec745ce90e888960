// Root-mean-square norms of whole rows or of heads:
//   y = x / sqrt(mean(x^2) + eps) * f,  f = w, 1 + w (UnitOffset), or w * silu(gate) (Gated)
// Vector v is x[v * width ..]. Launch: grid normBlocks(spec, vectors), kNormThreads, normShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_NORM_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_NORM_CUH

#include "ni.cuh"
#include "rows_spec.cuh"

namespace ni {

struct NormArgs {
  const u16 *x;      ///< bfloat16 [vectors][width]
  const u16 *weight; ///< bfloat16 [width]
  const u16 *gate;   ///< like x; Gated only
  u16 *out;          ///< like x; may be x
  u32 vectors;
  float eps;
};

template <NormSpec S>
struct Norm {
  static constexpr u32 kWarps = normWarps(S), kLanes = kWarps * 32;
  struct Shared {
    float sums[4];
  };

  NI_FN void run(const NormArgs &a, Shared *sm) {
    const u32 vector = kWarps == 1 ? blockX() * 4 + warpIndex() : blockX();
    const u32 lane = kWarps == 1 ? laneIndex() : threadIndex();
    const bool here = vector < a.vectors;
    const u64 at = static_cast<u64>(here ? vector : 0) * S.width;
    float sum = 0.0f;
    for (u32 i = lane; here && i < S.width; i += kLanes) {
      const float x = bf16ToFloat(load(a.x + at + i));
      sum = fusedMultiplyAdd(x, x, sum);
    }
    sum = warpSum(sum);
    if constexpr (kWarps > 1) {
      if (laneIndex() == 0)
        sharedStore(&sm->sums[warpIndex()], sum);
      blockSync();
      sum = 0.0f;
      NI_UNROLL
      for (u32 warp = 0; warp < kWarps; ++warp)
        sum += sharedLoad(&sm->sums[warp]);
    }
    const float inverse = rootReciprocalApprox(sum / S.width + a.eps);
    for (u32 i = lane; here && i < S.width; i += kLanes) {
      float f = bf16ToFloat(load(a.weight + i));
      if constexpr (S.kind == NormKind::UnitOffset)
        f += 1.0f;
      if constexpr (S.kind == NormKind::Gated)
        f *= silu(bf16ToFloat(load(a.gate + at + i)));
      store(a.out + at + i, floatToBf16(bf16ToFloat(load(a.x + at + i)) * inverse * f));
    }
  }
};

} // namespace ni

#define NI_NORM(name, ...)                                                                                             \
  namespace ni {                                                                                                       \
  constexpr NormSpec name##_spec = __VA_ARGS__;                                                                        \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kNormThreads, 4)                                                                                 \
  (const ni::u16 *x, const ni::u16 *weight, const ni::u16 *gate, ni::u16 *out, ni::u32 vectors, float eps) {           \
    NI_SHARED_UPTO(ni::Norm<ni::name##_spec>::Shared, shared, ni::normShared(ni::name##_spec));                        \
    ni::Norm<ni::name##_spec>::run({x, weight, gate, out, vectors, eps}, shared);                                      \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_NORM_CUH
