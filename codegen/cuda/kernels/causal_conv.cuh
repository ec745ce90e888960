// Causal depthwise convolution of query, key and value channels, then silu:
//   y[r][c] = silu(sum over j < taps of weight[j][c] * u[r - (taps - 1) + j][c])
// Rows before row 0 are in the tail, oldest first; afterwards it holds the last taps - 1 rows, unless the record peeks. Only
// the blocks of the first rows touch the tail: the others find their past in the input. Launch: grid (convBlocksX,
// convBlocksY), kConvThreads.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_CAUSAL_CONV_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_CAUSAL_CONV_CUH

#include "delta_spec.cuh"
#include "ni.cuh"

namespace ni {

struct CausalConvArgs {
  const u16 *query, *key, *value; ///< bfloat16; row r starts at r * stride
  const u16 *weight;              ///< bfloat16 [taps][channels]
  float *tail;                    ///< [taps - 1][channels]; only read when the record peeks
  u16 *out;                       ///< bfloat16 [rows][channels]; not an input
  u32 rows, queryStride, keyStride, valueStride;
};

template <CausalConvSpec S>
struct CausalConv {
  static_assert(convAccepts(S), "delta_spec.cuh: convAccepts");
  static constexpr u32 kChannels = convChannels(S), kPast = S.taps - 1;
  struct Window {
    float v[S.taps][2];
  };

  NI_FN void run(const CausalConvArgs &a) {
    const u32 c = (blockX() * kConvThreads + threadIndex()) * 2;
    if (c >= kChannels)
      return;
    const bool isQuery = c < S.queryWidth, isKey = !isQuery && c < S.queryWidth + S.keyWidth;
    const u16 *u = isQuery ? a.query + c : isKey ? a.key + (c - S.queryWidth) : a.value + (c - S.queryWidth - S.keyWidth);
    const u32 stride = isQuery ? a.queryStride : isKey ? a.keyStride : a.valueStride;
    const u32 first = blockY() * kConvRows, end = smaller(first + kConvRows, a.rows);
    float weight[S.taps][2];
    NI_UNROLL
    for (u32 j = 0; j < S.taps; ++j) {
      const u32 pair = load(reinterpret_cast<const u32 *>(a.weight + j * kChannels + c));
      weight[j][0] = bf16Low(pair);
      weight[j][1] = bf16High(pair);
    }
    Window window; // v[j]: row r - (taps - 1) + j once row r has been pushed
    NI_UNROLL
    for (u32 j = 0; j < kPast; ++j) {
      if (first == 0)
        past(a, j, c, window.v[j + 1]);
      else
        row(u + static_cast<u64>(first - kPast + j) * stride, window.v[j + 1]);
    }
    for (u32 r = first; r < end; ++r) {
      push(window, u + static_cast<u64>(r) * stride);
      float y[2] = {0.0f, 0.0f};
      NI_UNROLL
      for (u32 j = 0; j < S.taps; ++j)
        NI_UNROLL
        for (u32 b = 0; b < 2; ++b)
          y[b] = fusedMultiplyAdd(weight[j][b], window.v[j][b], y[b]);
      store(reinterpret_cast<u32 *>(a.out + static_cast<u64>(r) * kChannels + c), packBf16(silu(y[0]), silu(y[1])));
    }
    if constexpr (!S.peek) {
      if (first != 0)
        return;
      for (u32 r = end > a.rows - smaller(kPast, a.rows) ? end : a.rows - kPast; r < a.rows; ++r)
        push(window, u + static_cast<u64>(r) * stride); // the last rows, when this block does not end with them
      NI_UNROLL
      for (u32 j = 0; j < kPast; ++j)
        store(reinterpret_cast<Words2 *>(a.tail + j * kChannels + c),
              Words2{asBits(window.v[j + 1][0]), asBits(window.v[j + 1][1])});
    }
  }

private:
  NI_FN void row(const u16 *u, float (&v)[2]) {
    const u32 pair = load(reinterpret_cast<const u32 *>(u));
    v[0] = bf16Low(pair);
    v[1] = bf16High(pair);
  }
  NI_FN void past(const CausalConvArgs &a, u32 j, u32 c, float (&v)[2]) {
    const Words2 pair = load(reinterpret_cast<const Words2 *>(a.tail + j * kChannels + c));
    v[0] = asFloat(pair.x);
    v[1] = asFloat(pair.y);
  }
  NI_FN void push(Window &window, const u16 *u) {
    NI_UNROLL
    for (u32 j = 0; j < kPast; ++j)
      NI_UNROLL
      for (u32 b = 0; b < 2; ++b)
        window.v[j][b] = window.v[j + 1][b];
    row(u, window.v[kPast]);
  }
};

} // namespace ni

#define NI_CAUSAL_CONV(name, ...)                                                                                      \
  namespace ni {                                                                                                       \
  constexpr CausalConvSpec name##_spec = __VA_ARGS__;                                                                  \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kConvThreads, 4)                                                                                 \
  (const ni::u16 *query, const ni::u16 *key, const ni::u16 *value, const ni::u16 *weight, float *tail, ni::u16 *out,   \
   ni::u32 rows, ni::u32 queryStride, ni::u32 keyStride, ni::u32 valueStride) {                                        \
    ni::CausalConv<ni::name##_spec>::run({query, key, value, weight, tail, out, rows, queryStride, keyStride,          \
                                          valueStride});                                                               \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_CAUSAL_CONV_CUH
