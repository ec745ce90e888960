// Causal attention of many rows: a warp keeps 16 rows of one query head and walks the keys in tiles that its thread
// block shares. Scores, weights and sums stay in registers, queries up to a dim of 128 too: the scores of two column tiles are the A operand of
// the product with the values. Cache, scales and the order of elements: cache_tile.cuh.
//
// Row r is at position[0] + r and sees keys 0 .. position[0] + r. Launch: grid (divideUp(rows, prefillRows), heads),
// prefillThreads, prefillShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_PREFILL_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_PREFILL_CUH

#include "cache_tile.cuh"

namespace ni {

struct AttentionPrefillArgs {
  const u16 *query;        ///< bfloat16 [rows][heads * dim]
  const u8 *keys, *values; ///< cache planes, 256-byte aligned; capacity a multiple of 32
  const u16 *gate;         ///< like query; spec.gate only
  u16 *out;                ///< like query
  const u32 *position;     ///< of row 0, in device memory
  u32 rows, capacity;
  float scale; ///< of the scores, times log2(e)
};

template <AttentionPrefillSpec S>
struct AttentionPrefill {
  static_assert(prefillAccepts(S), "attention_spec.cuh: prefillAccepts");
  static constexpr u32 kThreads = prefillThreads(S), kGroups = cacheGroups(S.dim), kDim = paddedDim(S.dim);
  static constexpr u32 kStages = attentionStages(S.operands);
  static constexpr bool kHalf = S.operands == Operands::F16;
  static constexpr u32 kKeys = prefillTile(S).keys, kKeyTiles = kKeys / 8, kColumns = kDim / 8;
  static constexpr bool kQueryShared = prefillQueryShared(S);
  using Tile = CacheTile<prefillTile(S)>;
  struct Shared {
    u8 stages[kStages][tileBytes(prefillTile(S))];
    u8 query[kQueryShared ? prefillRows(S) * prefillQueryStride(S) : 16];
  };
  static_assert(sizeof(Shared) == prefillShared(S), "attention_spec.cuh: prefillShared");

  /// What a lane holds of rows g and g + 8 of its warp.
  struct State {
    u32 query[kQueryShared ? 1 : kDim / 32][8]; ///< per 32 of dim: operands of two mma steps
    float units[2][kHalf ? kGroups : 1];        ///< F16: what 64 of the query were multiplied by
    float sums[kColumns][4];
    float maximum[2], total[2];
  };

  NI_FN void run(const AttentionPrefillArgs &a, Shared *sm) {
    const u32 head = blockY(), kvHead = head / (S.heads / S.kvHeads), position = load(a.position);
    const u32 firstRow = blockX() * prefillRows(S), row = firstRow + warpIndex() * 16 + laneIndex() / 4;
    const u32 end = position + smaller(firstRow + prefillRows(S), a.rows), tiles = divideUp(end, kKeys);
    const CachePlanes cache = {a.keys, a.values, S.kvHeads, a.capacity};
    if constexpr (kStages > 1)
      Tile::template copy<kThreads>(sm->stages[0], cache, kvHead, 0, end);
    copyAsyncCommit();
    State state;
    start(a, sm, state, head, row);
    NI_NO_UNROLL
    for (u32 it = 0; it < tiles; ++it) {
      if constexpr (kStages == 1) {
        blockSync(); // nobody reads the tile before any more
        Tile::template copy<kThreads>(sm->stages[0], cache, kvHead, it * kKeys, end);
        copyAsyncCommit();
      }
      copyAsyncWait<0>();
      blockSync(); // the tile is there, and nobody reads the other stage any more
      if (kStages > 1 && it + 1 < tiles)
        Tile::template copy<kThreads>(sm->stages[(it + 1) % kStages], cache, kvHead, (it + 1) * kKeys, end);
      copyAsyncCommit();
      const u8 *tile = sm->stages[it % kStages];
      float scores[kKeyTiles][4];
      score(tile, sm, state, scores);
      weigh(state, scores, it * kKeys, position + row, a.scale);
      addValues(tile, state, scores);
    }
    copyAsyncWait<0>();
    finish(a, state, head, row);
  }

private:
  NI_FN void start(const AttentionPrefillArgs &a, Shared *sm, State &state, u32 head, u32 row) {
    NI_UNROLL
    for (u32 r = 0; r < 2; ++r) {
      const bool valid = row + 8 * r < a.rows;
      const u16 *query = a.query + (static_cast<u64>(valid ? row + 8 * r : 0) * S.heads + head) * S.dim;
      NI_UNROLL
      for (u32 group = 0; group < kGroups; ++group) {
        Words4 w[2];
        NI_UNROLL
        for (u32 half = 0; half < 2; ++half)
          w[half] = Tile::queryWords(query, group * 64 + half * 32 + laneIndex() % 4 * 8, valid);
        if constexpr (kHalf) { // four lanes have the 64 of a group
          const u32 top = topOfLanes<4>(larger(topWord(w[0]), topWord(w[1])));
          w[0] = halfWords(w[0], halfFactor(top));
          w[1] = halfWords(w[1], halfFactor(top));
          state.units[r][group] = halfUnit(top);
        }
        NI_UNROLL
        for (u32 half = 0; half < 2; ++half) {
          const u32 i = group * 2 + half;
          if constexpr (kQueryShared) {
            sharedStore(queryAt(sm, r, i), w[half]);
          } else {
            state.query[i][r] = w[half].x;
            state.query[i][2 + r] = w[half].y;
            state.query[i][4 + r] = w[half].z;
            state.query[i][6 + r] = w[half].w;
          }
        }
      }
      state.maximum[r] = -1e30f; // finite, so that differences are numbers
      state.total[r] = 0.0f;
    }
    NI_UNROLL
    for (u32 n = 0; n < kColumns; ++n)
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i)
        state.sums[n][i] = 0.0f;
  }

  /// The lane's elements of row g + 8 r of its warp, 32 of dim: written and read by the same lane.
  NI_FN Words4 *queryAt(Shared *sm, u32 r, u32 i) {
    const u32 row = warpIndex() * 16 + laneIndex() / 4 + 8 * r;
    return reinterpret_cast<Words4 *>(sm->query + row * prefillQueryStride(S) + i * 64 + laneIndex() % 4 * 16);
  }

  NI_FN void score(const u8 *tile, Shared *sm, const State &state, float (&scores)[kKeyTiles][4]) {
    const u32 g = laneIndex() / 4, t = laneIndex() % 4;
    NI_UNROLL
    for (u32 n = 0; n < kKeyTiles; ++n)
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i)
        scores[n][i] = 0.0f;
    NI_UNROLL
    for (u32 group = 0; group < kGroups; ++group) {
      float part[kKeyTiles][4] = {};
      NI_UNROLL
      for (u32 half = 0; half < 2; ++half) {
        u32 first[4], second[4];
        operands(sm, state, group * 2 + half, first, second);
        NI_UNROLL
        for (u32 n = 0; n < kKeyTiles; ++n) {
          u32 b[4];
          Tile::keyWords(tile, n * 8 + g, group * 64 + half * 32 + t * 8, b);
          multiplyOperands<S.operands>(part[n], first, b[0], b[1]);
          multiplyOperands<S.operands>(part[n], second, b[2], b[3]);
        }
      }
      NI_UNROLL
      for (u32 n = 0; n < kKeyTiles; ++n)
        NI_UNROLL
        for (u32 i = 0; i < 4; ++i)
          if constexpr (Tile::kScaled) {
            float scale = Tile::keyScale(tile, n * 8 + 2 * t + (i & 1), group);
            if constexpr (kHalf)
              scale *= state.units[i >> 1][group];
            scores[n][i] = fusedMultiplyAdd(part[n][i], scale, scores[n][i]);
          } else {
            scores[n][i] += part[n][i];
          }
    }
  }
  /// The query's operands of the two mma steps of 32 of dim.
  NI_FN void operands(Shared *sm, const State &state, u32 i, u32 (&first)[4], u32 (&second)[4]) {
    if constexpr (kQueryShared) {
      const Words4 upper = sharedLoad(queryAt(sm, 0, i)), lower = sharedLoad(queryAt(sm, 1, i));
      first[0] = upper.x;
      first[1] = lower.x;
      first[2] = upper.y;
      first[3] = lower.y;
      second[0] = upper.z;
      second[1] = lower.z;
      second[2] = upper.w;
      second[3] = lower.w;
    } else {
      NI_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        first[j] = state.query[i][j];
        second[j] = state.query[i][4 + j];
      }
    }
  }

  /// Online softmax of rows at `position` and position + 8: scores become weights, sums follow the new maximum.
  NI_FN void weigh(State &state, float (&scores)[kKeyTiles][4], u32 first, u32 position, float scale) {
    const u32 t = laneIndex() % 4;
    NI_UNROLL
    for (u32 r = 0; r < 2; ++r) {
      float top = state.maximum[r];
      NI_UNROLL
      for (u32 n = 0; n < kKeyTiles; ++n)
        NI_UNROLL
        for (u32 b = 0; b < 2; ++b) {
          const bool seen = first + n * 8 + 2 * t + b <= position + 8 * r;
          float &s = scores[n][2 * r + b];
          s = seen ? s * scale : -1e30f;
          top = maximum(top, s);
        }
      top = maximum(top, shuffleXor(top, 1u)); // the four lanes of a row
      top = maximum(top, shuffleXor(top, 2u));
      const float rescale = exp2Approx(state.maximum[r] - top);
      float sum = 0.0f;
      NI_UNROLL
      for (u32 n = 0; n < kKeyTiles; ++n)
        NI_UNROLL
        for (u32 b = 0; b < 2; ++b) {
          float &s = scores[n][2 * r + b];
          s = s > -1e29f ? exp2Approx(s - top) : 0.0f;
          sum += s;
        }
      state.maximum[r] = top;
      state.total[r] = fusedMultiplyAdd(state.total[r], rescale, sum);
      NI_UNROLL
      for (u32 n = 0; n < kColumns; ++n) {
        state.sums[n][2 * r] *= rescale;
        state.sums[n][2 * r + 1] *= rescale;
      }
    }
  }

  NI_FN void addValues(const u8 *tile, State &state, const float (&scores)[kKeyTiles][4]) {
    const u32 lane = laneIndex(), t = lane % 4;
    typename Tile::Range ranges[kGroups];
    NI_UNROLL
    for (u32 group = 0; group < kGroups; ++group)
      ranges[group] = Tile::rangeOf(tile, group, lane);
    NI_UNROLL
    for (u32 step = 0; step < kKeys / 16; ++step)
      NI_UNROLL
      for (u32 group = 0; group < kGroups; ++group) { // of 64 of dim: one value scale per key
        u32 weights[4];
        NI_UNROLL
        for (u32 i = 0; i < 4; ++i) {
          const float(&s)[4] = scores[2 * step + (i >> 1)];
          weights[i] = Tile::weightPair(tile, s[2 * (i & 1)], s[2 * (i & 1) + 1], step * 16 + 8 * (i >> 1) + 2 * t, group,
                                        ranges[group]);
        }
        NI_UNROLL
        for (u32 n = group * 8; n < group * 8 + 8; n += 2) {
          u32 b[4];
          Tile::valueWords(tile, step * 16, n * 8, lane, b);
          Tile::add(state.sums[n], state.sums[n + 1], weights, b, ranges[group]);
        }
      }
  }

  NI_FN void finish(const AttentionPrefillArgs &a, State &state, u32 head, u32 row) {
    NI_UNROLL
    for (u32 r = 0; r < 2; ++r) {
      float total = state.total[r];
      total += shuffleXor(total, 1u);
      total += shuffleXor(total, 2u);
      const u64 to = (static_cast<u64>(row + 8 * r) * S.heads + head) * S.dim;
      if (row + 8 * r < a.rows)
        NI_UNROLL
        for (u32 n = 0; n < kColumns; ++n)
          NI_UNROLL
          for (u32 b = 0; b < 2; ++b) {
            const u32 column = Tile::columnAt(n, laneIndex() % 4, b);
            if (kDim != S.dim && column >= S.dim)
              continue;
            const u64 at = to + column;
            float y = divide(state.sums[n][2 * r + b], total);
            if constexpr (S.gate)
              y *= sigmoid(bf16ToFloat(load(a.gate + at)));
            store(a.out + at, floatToBf16(y));
          }
    }
  }
};

} // namespace ni

#define NI_ATTENTION_PREFILL(name, ...)                                                                                \
  namespace ni {                                                                                                       \
  constexpr AttentionPrefillSpec name##_spec = __VA_ARGS__;                                                            \
  }                                                                                                                    \
  NI_KERNEL(name, ni::prefillThreads(ni::name##_spec), 1)                                                              \
  (const ni::u16 *query, const ni::u8 *keys, const ni::u8 *values, const ni::u16 *gate, ni::u16 *out,                  \
   const ni::u32 *position, ni::u32 rows, ni::u32 capacity, float scale) {                                             \
    NI_SHARED(ni::AttentionPrefill<ni::name##_spec>::Shared, shared);                                                  \
    ni::AttentionPrefill<ni::name##_spec>::run({query, keys, values, gate, out, position, rows, capacity, scale},      \
                                               shared);                                                                \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_PREFILL_CUH
