// Gated delta rule, row after row, per value head with state S [valueDim][keyDim] in binary32:
//   S = exp(g) S;  e = v - S k;  S = S + beta e k^T;  y = S q / sqrt(keyDim)
//   g = -exp(aLog) * softplus(a + dtBias), beta = sigmoid(b), q and k divided by sqrt(sum of squares + 1e-6)
// A warp keeps four rows of S in registers for the whole call, keyDim spread over its lanes; rows of S do not meet.
// Launch: grid (deltaBlocksX, valueHeads), deltaThreads.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_GATED_DELTA_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_GATED_DELTA_CUH

#include "delta_gates.cuh"

namespace ni {

struct GatedDeltaArgs {
  const u16 *query, *key, *value; ///< bfloat16; row r starts at r * stride
  const u16 *a, *b;               ///< bfloat16; row r starts at r * scalarStride
  const float *aLog, *dtBias;     ///< [valueHeads]
  float *state;                   ///< [valueHeads][valueDim][keyDim]
  u16 *out;                       ///< bfloat16 [rows][valueHeads * valueDim]
  u32 rows, queryStride, keyStride, valueStride, scalarStride;
};

template <GatedDeltaSpec S>
struct GatedDelta {
  static_assert(deltaAccepts(S), "delta_spec.cuh: deltaAccepts");
  static constexpr u32 kPerLane = S.keyDim / 32, kRows = kDeltaRowsPerWarp;

  NI_FN void run(const GatedDeltaArgs &a) {
    const u32 head = blockY(), keyHead = head / (S.valueHeads / S.keyHeads), lane = laneIndex();
    const u32 first = (blockX() * kDeltaWarps + warpIndex()) * kRows; // of valueDim
    float *rowsOfState = a.state + (static_cast<u64>(head) * S.valueDim + first) * S.keyDim + lane * kPerLane;
    float state[kRows][kPerLane];
    NI_UNROLL
    for (u32 i = 0; i < kRows; ++i)
      loadRow(rowsOfState + i * S.keyDim, state[i]);
    const float rate = exp2Approx(load(a.aLog + head) * kLog2e), bias = load(a.dtBias + head);
    for (u32 r = 0; r < a.rows; ++r) {
      float q[kPerLane], k[kPerLane];
      unit(a.query + static_cast<u64>(r) * a.queryStride + keyHead * S.keyDim, q);
      unit(a.key + static_cast<u64>(r) * a.keyStride + keyHead * S.keyDim, k);
      const u64 scalar = static_cast<u64>(r) * a.scalarStride + head;
      const float decay = exp2Approx(deltaDecay(rate, load(a.a + scalar), bias));
      const float beta = sigmoid(bf16ToFloat(load(a.b + scalar)));
      const u16 *value = a.value + static_cast<u64>(r) * a.valueStride + head * S.valueDim + first;
      u16 *out = a.out + (static_cast<u64>(r) * S.valueHeads + head) * S.valueDim + first;
      NI_UNROLL
      for (u32 i = 0; i < kRows; ++i) {
        float seen = 0.0f;
        NI_UNROLL
        for (u32 d = 0; d < kPerLane; ++d) {
          state[i][d] *= decay;
          seen = fusedMultiplyAdd(state[i][d], k[d], seen);
        }
        const float change = beta * (bf16ToFloat(load(value + i)) - warpSum(seen));
        float y = 0.0f;
        NI_UNROLL
        for (u32 d = 0; d < kPerLane; ++d) {
          state[i][d] = fusedMultiplyAdd(change, k[d], state[i][d]);
          y = fusedMultiplyAdd(state[i][d], q[d], y);
        }
        y = warpSum(y) * deltaScale(S.keyDim);
        if (lane == 0)
          store(out + i, floatToBf16(y));
      }
    }
    if constexpr (!S.peek) {
      NI_UNROLL
      for (u32 i = 0; i < kRows; ++i)
        storeRow(rowsOfState + i * S.keyDim, state[i]);
    }
  }

private:
  /// One instruction per pair where a lane has an even number of elements.
  NI_FN void loadRow(const float *row, float (&v)[kPerLane]) {
    if constexpr (kPerLane % 2 == 0) {
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; d += 2) {
        const Words2 pair = load(reinterpret_cast<const Words2 *>(row + d));
        v[d] = asFloat(pair.x);
        v[d + 1] = asFloat(pair.y);
      }
    } else {
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; ++d)
        v[d] = load(row + d);
    }
  }
  NI_FN void storeRow(float *row, const float (&v)[kPerLane]) {
    if constexpr (kPerLane % 2 == 0) {
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; d += 2)
        store(reinterpret_cast<Words2 *>(row + d), Words2{asBits(v[d]), asBits(v[d + 1])});
    } else {
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; ++d)
        store(row + d, v[d]);
    }
  }

  NI_FN void unit(const u16 *x, float (&v)[kPerLane]) {
    const u16 *own = x + laneIndex() * kPerLane;
    if constexpr (kPerLane % 2 == 0) {
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; d += 2) {
        const u32 pair = load(reinterpret_cast<const u32 *>(own + d));
        v[d] = bf16Low(pair);
        v[d + 1] = bf16High(pair);
      }
    } else {
      NI_UNROLL
      for (u32 d = 0; d < kPerLane; ++d)
        v[d] = bf16ToFloat(load(own + d));
    }
    float sum = 0.0f;
    NI_UNROLL
    for (u32 d = 0; d < kPerLane; ++d)
      sum = fusedMultiplyAdd(v[d], v[d], sum);
    const float inverse = rootReciprocalApprox(warpSum(sum) + kDeltaEps);
    NI_UNROLL
    for (u32 d = 0; d < kPerLane; ++d)
      v[d] *= inverse;
  }
};

} // namespace ni

#define NI_GATED_DELTA(name, ...)                                                                                      \
  namespace ni {                                                                                                       \
  constexpr GatedDeltaSpec name##_spec = __VA_ARGS__;                                                                  \
  }                                                                                                                    \
  NI_KERNEL(name, ni::deltaThreads(), 4)                                                                               \
  (const ni::u16 *query, const ni::u16 *key, const ni::u16 *value, const ni::u16 *a, const ni::u16 *b,                 \
   const float *aLog, const float *dtBias, float *state, ni::u16 *out, ni::u32 rows, ni::u32 queryStride,              \
   ni::u32 keyStride, ni::u32 valueStride, ni::u32 scalarStride) {                                                     \
    ni::GatedDelta<ni::name##_spec>::run({query, key, value, a, b, aLog, dtBias, state, out, rows, queryStride,        \
                                          keyStride, valueStride, scalarStride});                                      \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_GATED_DELTA_CUH
