// The delta rule of gated_delta.cuh for head sizes that kernel does not take: a warp has one row of the state, a lane every
// 32nd element of it. Launch: grid (deltaRowsBlocksX, valueHeads), kDeltaRowsThreads, no shared memory.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_GATED_DELTA_ROWS_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_GATED_DELTA_ROWS_CUH

#include "delta_gates.cuh"
#include "gated_delta_rows_spec.cuh"

namespace ni {

struct GatedDeltaRowsArgs {
  const u16 *query, *key, *value;  ///< bfloat16; row r starts at r * stride
  const u16 *a, *b;                ///< bfloat16; row r at r * scalarStride, one per value head
  const float *aLog, *dtBias;      ///< [valueHeads]
  float *state;                    ///< [valueHeads][valueDim][keyDim]; only read when the record peeks
  u16 *out;                        ///< bfloat16 [rows][valueHeads * valueDim]
  u32 rows, queryStride, keyStride, valueStride, scalarStride;
};

template <GatedDeltaSpec S>
struct GatedDeltaRows {
  static_assert(deltaRowsAccepts(S), "gated_delta_rows_spec.cuh: deltaRowsAccepts");
  static constexpr u32 kPerLane = divideUp(S.keyDim, 32);
  struct Vector {
    float v[kPerLane]; ///< elements lane + 32 d; zeros beyond keyDim
  };

  NI_FN void run(const GatedDeltaRowsArgs &args) {
    const u32 head = blockY(), row = blockX() * kDeltaRowsWarps + warpIndex(), keyHead = head / (S.valueHeads / S.keyHeads);
    if (row >= S.valueDim)
      return;
    float *place = args.state + (static_cast<u64>(head) * S.valueDim + row) * S.keyDim;
    Vector state;
    NI_UNROLL
    for (u32 d = 0; d < kPerLane; ++d)
      state.v[d] = here(d) ? load(place + element(d)) : 0.0f;
    const float rate = exp2Approx(load(args.aLog + head) * kLog2e), bias = load(args.dtBias + head);
    NI_NO_UNROLL
    for (u32 r = 0; r < args.rows; ++r) {
      const Vector q = unit(args.query + static_cast<u64>(r) * args.queryStride + keyHead * S.keyDim);
      const Vector k = unit(args.key + static_cast<u64>(r) * args.keyStride + keyHead * S.keyDim);
      const u64 scalar = static_cast<u64>(r) * args.scalarStride + head;
      const float decay = exp2Approx(deltaDecay(rate, load(args.a + scalar), bias));
      const float beta = sigmoid(bf16ToFloat(load(args.b + scalar)));
      float seen = 0.0f, y = 0.0f;
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; ++d) {
        state.v[d] *= decay;
        seen = fusedMultiplyAdd(state.v[d], k.v[d], seen);
      }
      const u16 *value = args.value + static_cast<u64>(r) * args.valueStride + head * S.valueDim + row;
      const float change = beta * (bf16ToFloat(load(value)) - warpSum(seen));
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; ++d) {
        state.v[d] = fusedMultiplyAdd(change, k.v[d], state.v[d]);
        y = fusedMultiplyAdd(state.v[d], q.v[d], y);
      }
      y = warpSum(y) * kScale;
      if (laneIndex() == 0)
        store(args.out + (static_cast<u64>(r) * S.valueHeads + head) * S.valueDim + row, floatToBf16(y));
    }
    if constexpr (!S.peek) {
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; ++d)
        if (here(d))
          store(place + element(d), state.v[d]);
    }
  }

private:
  static constexpr float kScale = static_cast<float>(rootReciprocal(S.keyDim));

  NI_FN u32 element(u32 d) { return laneIndex() + 32 * d; }
  NI_FN bool here(u32 d) { return element(d) < S.keyDim; }
  NI_FN Vector unit(const u16 *x) {
    Vector y;
    float sum = 0.0f;
    NI_UNROLL
    for (u32 d = 0; d < kPerLane; ++d) {
      y.v[d] = here(d) ? bf16ToFloat(load(x + element(d))) : 0.0f;
      sum = fusedMultiplyAdd(y.v[d], y.v[d], sum);
    }
    const float inverse = rootReciprocalApprox(warpSum(sum) + 1e-6f);
    NI_UNROLL
    for (u32 d = 0; d < kPerLane; ++d)
      y.v[d] *= inverse;
    return y;
  }
};

} // namespace ni

#define NI_GATED_DELTA_ROWS(name, ...)                                                                                 \
  namespace ni {                                                                                                       \
  constexpr GatedDeltaSpec name##_spec = __VA_ARGS__;                                                                  \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kDeltaRowsThreads, 4)                                                                            \
  (const ni::u16 *query, const ni::u16 *key, const ni::u16 *value, const ni::u16 *a, const ni::u16 *b,                 \
   const float *aLog, const float *dtBias, float *state, ni::u16 *out, ni::u32 rows, ni::u32 queryStride,              \
   ni::u32 keyStride, ni::u32 valueStride, ni::u32 scalarStride) {                                                     \
    ni::GatedDeltaRows<ni::name##_spec>::run({query, key, value, a, b, aLog, dtBias, state, out, rows, queryStride,    \
                                              keyStride, valueStride, scalarStride});                                  \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_GATED_DELTA_ROWS_CUH
