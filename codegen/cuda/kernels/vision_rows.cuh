// A vision tower's operators that treat rows on their own, in binary32 with one rounding:
//   LayerNorm    y = (x - mean) / sqrt(variance + eps) * weight + bias
//   Bias         y[r] = x[r] + bias[r % group]
//   Gelu         y = x * Phi(x), or with tanh x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
//   AxialRope    pair (i, i + 2 pairs) of a head, i < 2 pairs, turns by entry i % pairs of the table at positions[r][i / pairs]
//   Interpolate  y[r] = sum over t of weights[r][t] * table[indices[r][t]]
// A position or an index outside of its table gives NaN.
// Launch: LayerNorm grid (rows), kVisionThreads, kLayerNormShared; the others grid (visionBlocksX(elements of a row, AxialRope:
// pairs of a row), rows), kVisionThreads, no shared memory.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_VISION_ROWS_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_VISION_ROWS_CUH

#include "ni.cuh"
#include "vision_spec.cuh"

namespace ni {

struct LayerNormArgs {
  const u16 *x;             ///< bfloat16 [rows][width]
  const u16 *weight, *bias; ///< bfloat16 [width]
  u16 *out;                 ///< like x; may be x
  float eps;
};

template <LayerNormSpec S>
struct LayerNorm {
  static constexpr u32 kWarps = kVisionThreads / 32;
  struct Shared {
    float sums[kWarps];
  };
  static_assert(sizeof(Shared) == kLayerNormShared);

  NI_FN void run(const LayerNormArgs &a, Shared *sm) {
    const u64 at = static_cast<u64>(blockX()) * S.width;
    float sum = 0.0f;
    for (u32 i = threadIndex(); i < S.width; i += kVisionThreads)
      sum += bf16ToFloat(load(a.x + at + i));
    const float mean = blockSum(sum, sm) / S.width;
    float squares = 0.0f;
    for (u32 i = threadIndex(); i < S.width; i += kVisionThreads) {
      const float d = bf16ToFloat(load(a.x + at + i)) - mean;
      squares = fusedMultiplyAdd(d, d, squares);
    }
    const float inverse = rootReciprocalApprox(blockSum(squares, sm) / S.width + a.eps);
    for (u32 i = threadIndex(); i < S.width; i += kVisionThreads) {
      const float y = (bf16ToFloat(load(a.x + at + i)) - mean) * inverse;
      store(a.out + at + i, floatToBf16(fusedMultiplyAdd(y, bf16ToFloat(load(a.weight + i)), bf16ToFloat(load(a.bias + i)))));
    }
  }

private:
  NI_FN float blockSum(float v, Shared *sm) {
    v = warpSum(v);
    if (laneIndex() == 0)
      sharedStore(&sm->sums[warpIndex()], v);
    blockSync();
    v = 0.0f;
    NI_UNROLL
    for (u32 warp = 0; warp < kWarps; ++warp)
      v += sharedLoad(&sm->sums[warp]);
    blockSync(); // read before the second use writes
    return v;
  }
};

struct BiasArgs {
  const u16 *x;    ///< bfloat16 [rows][width]
  const u16 *bias; ///< bfloat16 [group][width]
  u8 *out;         ///< [rows][width] of spec.output
  u32 width;
};

template <BiasSpec S>
struct Bias {
  NI_FN void run(const BiasArgs &a) {
    const u32 c = blockX() * kVisionThreads + threadIndex();
    if (c >= a.width)
      return;
    const u64 i = static_cast<u64>(blockY()) * a.width + c;
    const float y = bf16ToFloat(load(a.x + i)) + bf16ToFloat(load(a.bias + static_cast<u64>(blockY() % S.group) * a.width + c));
    if constexpr (S.output == OutputType::Float)
      store(reinterpret_cast<float *>(a.out) + i, y);
    else
      store(reinterpret_cast<u16 *>(a.out) + i, floatToBf16(y));
  }
};

struct GeluArgs {
  const u16 *x; ///< bfloat16 [rows][width]
  u16 *out;     ///< like x; may be x
  u32 width;
};

template <GeluSpec S>
struct Gelu {
  NI_FN void run(const GeluArgs &a) {
    const u32 c = blockX() * kVisionThreads + threadIndex();
    if (c >= a.width)
      return;
    const u64 i = static_cast<u64>(blockY()) * a.width + c;
    const float x = bf16ToFloat(load(a.x + i));
    store(a.out + i, floatToBf16(S.tanh ? x * sigmoid(1.59576912f * fusedMultiplyAdd(0.044715f * x * x, x, x)) : normal(x)));
  }

private:
  /// x / 2 * erfc(-x / sqrt(2)). Abramowitz and Stegun, 7.1.26: erfc(z), z >= 0, to 1.5e-7.
  NI_FN float normal(float x) {
    const float z = magnitude(x) * 0.707106781f, t = reciprocalApprox(fusedMultiplyAdd(0.3275911f, z, 1.0f));
    float p = 1.061405429f;
    p = fusedMultiplyAdd(p, t, -1.453152027f);
    p = fusedMultiplyAdd(p, t, 1.421413741f);
    p = fusedMultiplyAdd(p, t, -0.284496736f);
    p = fusedMultiplyAdd(p, t, 0.254829592f);
    const float tail = p * t * exp2Approx(z * z * -1.44269504f); // erfc(|x| / sqrt(2))
    return 0.5f * x * (x < 0.0f ? tail : 2.0f - tail);
  }
};

struct AxialRopeArgs {
  const u16 *x;         ///< bfloat16 [rows][heads * 4 * pairs]
  const float *table;   ///< [capacity][pairs]: cosine, sine
  const i32 *positions; ///< [rows][2]
  u16 *out;             ///< like x; may be x
  u32 capacity;
};

template <AxialRopeSpec S>
struct AxialRope {
  NI_FN void run(const AxialRopeArgs &a) {
    const u32 e = blockX() * kVisionThreads + threadIndex(), half = 2 * S.pairs, r = blockY();
    if (e >= S.heads * half)
      return;
    const u32 head = e / half, i = e % half;
    const u64 at = static_cast<u64>(r) * S.heads * 2 * half + head * 2 * half + i;
    const u32 position = static_cast<u32>(load(a.positions + 2 * static_cast<u64>(r) + i / S.pairs));
    const bool inside = position < a.capacity;
    const float *angle = a.table + (static_cast<u64>(inside ? position : 0) * S.pairs + i % S.pairs) * 2;
    const float none = asFloat(0x7fc00000u), c = inside ? load(angle) : none, s = inside ? load(angle + 1) : none;
    const float x = bf16ToFloat(load(a.x + at)), y = bf16ToFloat(load(a.x + at + half));
    store(a.out + at, floatToBf16(fusedMultiplyAdd(x, c, -(y * s))));
    store(a.out + at + half, floatToBf16(fusedMultiplyAdd(y, c, x * s)));
  }
};

struct InterpolateArgs {
  const i32 *indices; ///< [rows][taps]
  const u16 *weights; ///< bfloat16 [rows][taps]
  const u16 *table;   ///< bfloat16 [n][width]
  u16 *out;           ///< bfloat16 [rows][width]
  u32 n, width;
};

template <InterpolateSpec S>
struct Interpolate {
  NI_FN void run(const InterpolateArgs &a) {
    const u32 c = blockX() * kVisionThreads + threadIndex();
    const u64 r = blockY();
    if (c >= a.width)
      return;
    float sum = 0.0f;
    NI_UNROLL
    for (u32 t = 0; t < S.taps; ++t) {
      const u32 index = static_cast<u32>(load(a.indices + r * S.taps + t));
      const float row = bf16ToFloat(load(a.table + static_cast<u64>(index < a.n ? index : 0) * a.width + c));
      sum = fusedMultiplyAdd(bf16ToFloat(load(a.weights + r * S.taps + t)), index < a.n ? row : asFloat(0x7fc00000u), sum);
    }
    store(a.out + r * a.width + c, floatToBf16(sum));
  }
};

} // namespace ni

#define NI_LAYER_NORM(name, ...)                                                                                       \
  namespace ni {                                                                                                       \
  constexpr LayerNormSpec name##_spec = __VA_ARGS__;                                                                   \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kVisionThreads, 4)                                                                               \
  (const ni::u16 *x, const ni::u16 *weight, const ni::u16 *bias, ni::u16 *out, float eps) {                            \
    NI_SHARED(ni::LayerNorm<ni::name##_spec>::Shared, shared);                                                         \
    ni::LayerNorm<ni::name##_spec>::run({x, weight, bias, out, eps}, shared);                                          \
  }                                                                                                                    \
  NI_EXPORT(name)

#define NI_BIAS(name, ...)                                                                                             \
  namespace ni {                                                                                                       \
  constexpr BiasSpec name##_spec = __VA_ARGS__;                                                                        \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kVisionThreads, 4)                                                                               \
  (const ni::u16 *x, const ni::u16 *bias, ni::u8 *out, ni::u32 width) {                                                \
    ni::Bias<ni::name##_spec>::run({x, bias, out, width});                                                             \
  }                                                                                                                    \
  NI_EXPORT(name)

#define NI_GELU(name, ...)                                                                                             \
  namespace ni {                                                                                                       \
  constexpr GeluSpec name##_spec = __VA_ARGS__;                                                                        \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kVisionThreads, 4)                                                                               \
  (const ni::u16 *x, ni::u16 *out, ni::u32 width) { ni::Gelu<ni::name##_spec>::run({x, out, width}); }                 \
  NI_EXPORT(name)

#define NI_AXIAL_ROPE(name, ...)                                                                                       \
  namespace ni {                                                                                                       \
  constexpr AxialRopeSpec name##_spec = __VA_ARGS__;                                                                   \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kVisionThreads, 4)                                                                               \
  (const ni::u16 *x, const float *table, const ni::i32 *positions, ni::u16 *out, ni::u32 capacity) {                   \
    ni::AxialRope<ni::name##_spec>::run({x, table, positions, out, capacity});                                         \
  }                                                                                                                    \
  NI_EXPORT(name)

#define NI_INTERPOLATE(name, ...)                                                                                      \
  namespace ni {                                                                                                       \
  constexpr InterpolateSpec name##_spec = __VA_ARGS__;                                                                 \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kVisionThreads, 4)                                                                               \
  (const ni::i32 *indices, const ni::u16 *weights, const ni::u16 *table, ni::u16 *out, ni::u32 n, ni::u32 width) {     \
    ni::Interpolate<ni::name##_spec>::run({indices, weights, table, out, n, width});                                   \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_VISION_ROWS_CUH
