// Query, key and value of new rows: optional norm of query and key heads, rotation, query to its buffer, key and value to
// the cache. One warp per head of a row. Row r is at position positions[0] + r; the rotation takes pairs (i, i + pairs):
//   y[i] = x[i] cos - x[i + pairs] sin,  y[i + pairs] = x[i + pairs] cos + x[i] sin
// An int8 cache stores per 64 values scale = binary16(max|x| / 127) and codes round(x * (1 / scale)) within +-127.
// Launch: grid ropeBlocks(spec, rows), kRopeWarps * 32, ropeShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ROPE_APPEND_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ROPE_APPEND_CUH

#include "ni.cuh"
#include "rows_spec.cuh"

namespace ni {

struct RopeAppendArgs {
  const u16 *query, *key, *value; ///< bfloat16; row r starts at r * stride
  const u16 *queryNorm, *keyNorm; ///< bfloat16 [dim]; spec.norm only
  const float *table;             ///< [capacity][pairs][2] of cos, sin
  u16 *queryOut;                  ///< bfloat16 [rows][heads * dim]
  u8 *keys, *values;              ///< cache planes
  const u32 *position;            ///< of row 0, in device memory: a captured graph serves every position
  u32 rows, capacity, queryStride, keyStride, valueStride;
  float eps;
};

template <RopeAppendSpec S>
struct RopeAppend {
  static_assert(ropeAccepts(S), "rows_spec.cuh: ropeAccepts");
  struct Shared {
    float x[kRopeWarps][S.dim];
  };
  static_assert(sizeof(Shared) == ropeShared(S));
  static constexpr u32 kSteps = divideUp(S.dim, 64); ///< a lane holds elements 64 s + 2 lane, + 1

  NI_FN void run(const RopeAppendArgs &a, Shared *sm) {
    const u32 lane = laneIndex(), item = blockX() * kRopeWarps + uniform(warpIndex());
    const u32 row = item / ropeItems(S), head = item % ropeItems(S);
    const bool here = row < a.rows;
    const bool isQuery = head < S.heads, isKey = !isQuery && head < S.heads + S.kvHeads;
    const u32 part = isQuery ? head : isKey ? head - S.heads : head - S.heads - S.kvHeads;
    const u16 *x = isQuery ? a.query : isKey ? a.key : a.value;
    x += static_cast<u64>(here ? row : 0) * (isQuery ? a.queryStride : isKey ? a.keyStride : a.valueStride) + part * S.dim;
    const u32 position = load(a.position) + row;
    float v[kSteps][2];
    NI_UNROLL
    for (u32 s = 0; s < kSteps; ++s) {
      const u32 d = 64 * s + 2 * lane;
      const u32 pair = here && d < S.dim ? load(reinterpret_cast<const u32 *>(x + d)) : 0u;
      v[s][0] = bf16Low(pair);
      v[s][1] = bf16High(pair);
    }
    if constexpr (S.norm != HeadNorm::None)
      normalise(v, a, isQuery, isQuery || isKey, lane);
    if constexpr (S.pairs > 0)
      rotate(v, a, sm->x[warpIndex()], here && (isQuery || isKey), here ? position : 0, lane);
    if (isQuery) {
      NI_UNROLL
      for (u32 s = 0; s < kSteps; ++s) {
        const u32 d = 64 * s + 2 * lane;
        if (here && d < S.dim)
          store(reinterpret_cast<u32 *>(a.queryOut + (static_cast<u64>(row) * S.heads + part) * S.dim + d),
                packBf16(v[s][0], v[s][1]));
      }
    }
    append(v, a, here && !isQuery, isKey ? a.keys : a.values, part, position, lane);
  }

private:
  NI_FN void normalise(float (&v)[kSteps][2], const RopeAppendArgs &a, bool isQuery, bool wanted, u32 lane) {
    float sum = 0.0f;
    NI_UNROLL
    for (u32 s = 0; s < kSteps; ++s) {
      sum = fusedMultiplyAdd(v[s][0], v[s][0], sum);
      sum = fusedMultiplyAdd(v[s][1], v[s][1], sum);
    }
    const float inverse = rootReciprocalApprox(warpSum(sum) / S.dim + a.eps);
    const u16 *weight = isQuery ? a.queryNorm : a.keyNorm;
    constexpr float kOffset = S.norm == HeadNorm::UnitOffset ? 1.0f : 0.0f;
    NI_UNROLL
    for (u32 s = 0; s < kSteps; ++s) {
      const u32 d = 64 * s + 2 * lane;
      if (wanted && d < S.dim) {
        const u32 pair = load(reinterpret_cast<const u32 *>(weight + d));
        v[s][0] = v[s][0] * inverse * (bf16Low(pair) + kOffset);
        v[s][1] = v[s][1] * inverse * (bf16High(pair) + kOffset);
      }
    }
  }

  NI_FN void rotate(float (&v)[kSteps][2], const RopeAppendArgs &a, float *x, bool wanted, u32 position, u32 lane) {
    NI_UNROLL
    for (u32 s = 0; s < kSteps; ++s)
      NI_UNROLL
      for (u32 b = 0; b < 2; ++b)
        if (64 * s + 2 * lane + b < S.dim)
          sharedStore(x + 64 * s + 2 * lane + b, v[s][b]);
    warpSync();
    const Words2 *angles = reinterpret_cast<const Words2 *>(a.table) + static_cast<u64>(position) * S.pairs;
    NI_UNROLL
    for (u32 s = 0; s < kSteps; ++s)
      NI_UNROLL
      for (u32 b = 0; b < 2; ++b) {
        const u32 d = 64 * s + 2 * lane + b;
        if (wanted && d < 2 * S.pairs) {
          const bool second = d >= S.pairs;
          const Words2 angle = load(angles + (second ? d - S.pairs : d));
          const float cosine = asFloat(angle.x), sine = asFloat(angle.y);
          const float other = sharedLoad(x + (second ? d - S.pairs : d + S.pairs));
          v[s][b] = v[s][b] * cosine + (second ? other : -other) * sine;
        }
      }
  }

  NI_FN void append(const float (&v)[kSteps][2], const RopeAppendArgs &a, bool wanted, u8 *plane, u32 head, u32 position,
                    u32 lane) {
    const u64 row = static_cast<u64>(head) * a.capacity + position;
    NI_UNROLL
    for (u32 s = 0; s < kSteps; ++s) {
      const u32 d = 64 * s + 2 * lane;
      const bool stored = wanted && d < S.dim;
      if constexpr (S.codec == CacheCodec::Bf16) {
        if (stored)
          store(reinterpret_cast<u32 *>(plane + (row * S.dim + d) * 2), packBf16(v[s][0], v[s][1]));
      } else {
        const float top = warpMaximum(d < S.dim ? maximum(magnitude(v[s][0]), magnitude(v[s][1])) : 0.0f);
        const u32 word = floatToF16(smallest(divide(top, 127.0f), 65504.0f));
        const float scale = f16ToFloat(word), inverse = scale > 0.0f ? divide(1.0f, scale) : 0.0f;
        if (stored)
          store(reinterpret_cast<u16 *>(plane + row * S.dim + d),
                static_cast<u16>(code(v[s][0] * inverse) | code(v[s][1] * inverse) << 8));
        if (wanted && lane == 0)
          store(reinterpret_cast<u16 *>(plane + cacheScalesAt(S.kvHeads, a.capacity, S.dim)) + row * cacheGroups(S.dim) + s,
                static_cast<u16>(word));
      }
    }
  }
  NI_FN float smallest(float a, float b) { return a < b ? a : b; }
  NI_FN u32 code(float x) {
    const float rounded = roundToEven(x);
    const float clamped = rounded > 127.0f ? 127.0f : rounded < -127.0f ? -127.0f : rounded;
    return clamped != clamped ? 0u : static_cast<u32>(static_cast<i32>(clamped)) & 0xffu; // NaN has code 0
  }
};

} // namespace ni

#define NI_ROPE_APPEND(name, ...)                                                                                      \
  namespace ni {                                                                                                       \
  constexpr RopeAppendSpec name##_spec = __VA_ARGS__;                                                                  \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kRopeWarps * 32, 4)                                                                              \
  (const ni::u16 *query, const ni::u16 *key, const ni::u16 *value, const ni::u16 *queryNorm, const ni::u16 *keyNorm,   \
   const float *table, ni::u16 *queryOut, ni::u8 *keys, ni::u8 *values, const ni::u32 *position, ni::u32 rows,         \
   ni::u32 capacity, ni::u32 queryStride, ni::u32 keyStride, ni::u32 valueStride, float eps) {                         \
    NI_SHARED(ni::RopeAppend<ni::name##_spec>::Shared, shared);                                                        \
    ni::RopeAppend<ni::name##_spec>::run({query, key, value, queryNorm, keyNorm, table, queryOut, keys, values,        \
                                          position, rows, capacity, queryStride, keyStride, valueStride, eps},         \
                                         shared);                                                                      \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_ROPE_APPEND_CUH
