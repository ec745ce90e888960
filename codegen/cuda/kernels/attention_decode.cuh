// Causal attention of few rows over a long cache (flash decoding). The query heads of one KV head and their rows are the
// 16-row A operand; a thread block walks the keys of its split in tiles of 32:
//   scores  warp w: keys 8 w .. 8 w + 7 of the tile, all of dim      (mma, keys as B)
//   softmax one warp per query vector, running maximum and sum
//   values  warp w: a quarter of dim, all 32 keys                    (mma, values as B)
// Splits leave sums and statistics in scratch; the last block of a KV head combines them in split order.
// An int8 cache is multiplied as exact integers: key scales join the scores per 64 of dim, value scales the weights; with
// binary16 operands bfloat16 caches and queries have such scales too (cache_tile.cuh).
//
// Row r is at position[0] + r and sees keys 0 .. position[0] + r. Launch: grid (kvHeads, splits), attentionThreads,
// attentionShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_DECODE_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_DECODE_CUH

#include "cache_tile.cuh"

namespace ni {

struct AttentionDecodeArgs {
  const u16 *query;         ///< bfloat16 [rows][heads * dim]
  const u8 *keys, *values;  ///< cache planes, 256-byte aligned; capacity a multiple of 32
  const u16 *gate;          ///< like query; spec.gate only
  u16 *out;                 ///< like query
  float *scratch;           ///< [kvHeads][splits][attentionScratch]; unused with one split
  u32 *counters;            ///< [kvHeads], zero before the first launch; every launch leaves zero
  const u32 *position;      ///< of row 0, in device memory
  u32 rows, capacity, splits;
  float scale; ///< of the scores, times log2(e)
};

template <AttentionDecodeSpec S>
struct AttentionDecode {
  static_assert(attentionAccepts(S), "attention_spec.cuh: attentionAccepts");
  static constexpr u32 kGroup = S.heads / S.kvHeads, kTiles = attentionTiles(S), kThreads = attentionThreads();
  static constexpr u32 kDim = paddedDim(S.dim), kColumns = kDim / 32; ///< tiles of 8 of dim that a warp sums
  static constexpr u32 kGroups = cacheGroups(S.dim), kStages = attentionDecodeStages(S);
  static constexpr bool kHalf = S.operands == Operands::F16;
  /// A warp's quarter of dim has scales of two groups.
  static constexpr bool kTwoGroups = kCacheGroup % (kDim / 4) != 0;
  static constexpr float kNone = -1e30f; ///< maximum before the first key: finite, so that differences are numbers

  using Tile = CacheTile<attentionTile(S)>;
  struct Shared {
    u8 stages[kStages][tileBytes(attentionTile(S))];
    u8 query[kTiles * 16 * attentionQueryStride(S)];
    float scores[kTiles * 16][kScoreStride];
    float maximum[kTiles * 16], total[kTiles * 16], rescale[kTiles * 16];
    u32 last[4 + kTiles * 16 * attentionQueryUnits(S)]; ///< then, F16, what 64 of a query were multiplied by
  };
  static_assert(sizeof(Shared) == attentionShared(S), "attention_spec.cuh: attentionShared");
  struct Sums {
    float v[kTiles][kColumns][4];
  };

  NI_FN void run(const AttentionDecodeArgs &a, Shared *sm) {
    const u32 head = blockX(), split = blockY(), position = load(a.position), length = position + a.rows;
    const u32 part = divideUp(divideUp(length, kAttentionKeys), a.splits) * kAttentionKeys;
    const u32 begin = smaller(split * part, length), end = smaller(begin + part, length);
    const u32 tiles = divideUp(end - begin, kAttentionKeys);
    const CachePlanes cache = {a.keys, a.values, S.kvHeads, a.capacity};
    if (kStages > 1 && tiles > 0)
      Tile::template copy<kThreads>(sm->stages[0], cache, head, begin, end);
    copyAsyncCommit();
    loadQuery(a, sm, head);
    for (u32 v = threadIndex(); v < kTiles * 16; v += kThreads) {
      sharedStore(&sm->maximum[v], kNone);
      sharedStore(&sm->total[v], 0.0f);
    }
    Sums sums;
    NI_UNROLL
    for (u32 tile = 0; tile < kTiles; ++tile)
      NI_UNROLL
      for (u32 n = 0; n < kColumns; ++n)
        NI_UNROLL
        for (u32 i = 0; i < 4; ++i)
          sums.v[tile][n][i] = 0.0f;
    NI_NO_UNROLL
    for (u32 it = 0; it < tiles; ++it) {
      const u32 first = begin + it * kAttentionKeys;
      if constexpr (kStages == 1) {
        blockSync(); // nobody reads the tile before any more
        Tile::template copy<kThreads>(sm->stages[0], cache, head, first, end);
        copyAsyncCommit();
      }
      copyAsyncWait<0>();
      blockSync(); // the tile is there, and nobody reads the other stage or the scores any more
      if (kStages > 1 && it + 1 < tiles)
        Tile::template copy<kThreads>(sm->stages[(it + 1) % kStages], cache, head, first + kAttentionKeys, end);
      copyAsyncCommit();
      const u8 *stage = sm->stages[it % kStages];
      score(stage, sm);
      blockSync();
      weigh(a, sm, first, end, position);
      blockSync();
      addValues(stage, sm, sums);
    }
    copyAsyncWait<0>();
    blockSync();
    if (a.splits == 1) {
      finish(a, sm, sums, head);
      return;
    }
    leave(a, sm, sums, head, split);
    combineIfLast(a, sm, head);
  }

private:
  NI_FN void loadQuery(const AttentionDecodeArgs &a, Shared *sm, u32 head) {
    constexpr u32 kChunks = kDim / 8;
    for (u32 i = threadIndex(); i < kTiles * 16 * kChunks; i += kThreads) {
      const u32 v = i / kChunks, at = i % kChunks * 8;
      Words4 words = Tile::queryWords(a.query + vectorAt(head, v), at, v < a.rows * kGroup);
      if constexpr (kHalf) { // 8 lanes have the 64 of a group
        const u32 top = topOfLanes<8>(topWord(words));
        words = halfWords(words, halfFactor(top));
        if (at % kCacheGroup == 0)
          sharedStore(queryUnit(sm, v, at / kCacheGroup), halfUnit(top));
      }
      sharedStore(reinterpret_cast<Words4 *>(sm->query + v * attentionQueryStride(S) + at * 2), words);
    }
  }
  NI_FN float *queryUnit(Shared *sm, u32 v, u32 group) {
    return reinterpret_cast<float *>(sm->last + 4) + v * kGroups + group;
  }
  /// First element of query vector v of a KV head in [rows][heads * dim].
  NI_FN u64 vectorAt(u32 head, u32 v) {
    return (static_cast<u64>(v / kGroup) * S.heads + head * kGroup + v % kGroup) * S.dim;
  }

  /// Scores of the warp's 8 keys. Over 32 of dim, lane t multiplies elements 8 t .. 8 t + 7.
  NI_FN void score(const u8 *stage, Shared *sm) {
    const u32 lane = laneIndex(), g = lane / 4, t = lane % 4, key = warpIndex() * 8 + g;
    float total[kTiles][4] = {};
    NI_UNROLL
    for (u32 group = 0; group < kGroups; ++group) {
      float part[kTiles][4] = {};
      NI_UNROLL
      for (u32 half = 0; half < 2; ++half) {
        const u32 d = group * 64 + half * 32 + t * 8;
        u32 b[4];
        Tile::keyWords(stage, key, d, b);
        NI_UNROLL
        for (u32 tile = 0; tile < kTiles; ++tile) {
          const u8 *query = sm->query + (tile * 16 + g) * attentionQueryStride(S) + d * 2;
          const Words4 upper = sharedLoad(reinterpret_cast<const Words4 *>(query));
          const Words4 lower = sharedLoad(reinterpret_cast<const Words4 *>(query + 8 * attentionQueryStride(S)));
          const u32 first[4] = {upper.x, lower.x, upper.y, lower.y}, second[4] = {upper.z, lower.z, upper.w, lower.w};
          multiplyOperands<S.operands>(part[tile], first, b[0], b[1]);
          multiplyOperands<S.operands>(part[tile], second, b[2], b[3]);
        }
      }
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        float scale = 1.0f;
        if constexpr (Tile::kScaled)
          scale = Tile::keyScale(stage, warpIndex() * 8 + 2 * t + (i & 1), group);
        NI_UNROLL
        for (u32 tile = 0; tile < kTiles; ++tile) {
          float both = scale;
          if constexpr (kHalf)
            both *= sharedLoad(queryUnit(sm, tile * 16 + g + 8 * (i >> 1), group));
          total[tile][i] = fusedMultiplyAdd(part[tile][i], both, total[tile][i]);
        }
      }
    }
    NI_UNROLL
    for (u32 tile = 0; tile < kTiles; ++tile)
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i)
        sharedStore(&sm->scores[tile * 16 + g + 8 * (i >> 1)][warpIndex() * 8 + 2 * t + (i & 1)], total[tile][i]);
  }

  /// Online softmax: scores of one tile become weights, relative to the maximum so far.
  NI_FN void weigh(const AttentionDecodeArgs &a, Shared *sm, u32 first, u32 end, u32 position) {
    const u32 lane = laneIndex(), key = first + lane;
    for (u32 v = uniform(warpIndex()); v < a.rows * kGroup; v += kAttentionWarps) {
      const bool seen = key < end && key <= position + v / kGroup;
      const float s = seen ? sharedLoad(&sm->scores[v][lane]) * a.scale : kNone;
      const float before = sharedLoad(&sm->maximum[v]), now = maximum(before, warpMaximum(s));
      const float weight = seen ? exp2Approx(s - now) : 0.0f;
      const float sum = warpSum(weight);
      sharedStore(&sm->scores[v][lane], weight);
      warpSync(); // every lane has read the old maximum
      if (lane == 0) {
        const float rescale = exp2Approx(before - now);
        sharedStore(&sm->maximum[v], now);
        sharedStore(&sm->total[v], fusedMultiplyAdd(sharedLoad(&sm->total[v]), rescale, sum));
        sharedStore(&sm->rescale[v], rescale);
      }
    }
  }

  /// sums = sums * rescale + weights * values. Tile n of 8 columns; which of dim a column is: columnAt.
  NI_FN void addValues(const u8 *stage, Shared *sm, Sums &sums) {
    const u32 lane = laneIndex(), g = lane / 4, t = lane % 4, base = warpIndex() * (kDim / 4);
    NI_UNROLL
    for (u32 tile = 0; tile < kTiles; ++tile) {
      const float upper = sharedLoad(&sm->rescale[tile * 16 + g]), lower = sharedLoad(&sm->rescale[tile * 16 + g + 8]);
      NI_UNROLL
      for (u32 n = 0; n < kColumns; ++n)
        NI_UNROLL
        for (u32 i = 0; i < 4; ++i)
          sums.v[tile][n][i] *= i < 2 ? upper : lower;
    }
    typename Tile::Range ranges[kTwoGroups ? 2 : 1];
    ranges[0] = Tile::rangeOf(stage, base / kCacheGroup, lane);
    if constexpr (kTwoGroups)
      ranges[1] = Tile::rangeOf(stage, (base + kDim / 4 - 1) / kCacheGroup, lane);
    NI_UNROLL
    for (u32 step = 0; step < kAttentionKeys / 16; ++step) {
      u32 weights[kTiles][4];
      NI_UNROLL
      for (u32 n = 0; n < kColumns; n += 2) {
        const u32 group = (base + n * 8) / kCacheGroup;
        typename Tile::Range range = ranges[0];
        if constexpr (kTwoGroups)
          if (group != base / kCacheGroup)
            range = ranges[1];
        if (n == 0 || (Tile::kScaled && kTwoGroups))
          NI_UNROLL
          for (u32 tile = 0; tile < kTiles; ++tile)
            NI_UNROLL
            for (u32 i = 0; i < 4; ++i)
              weights[tile][i] =
                  weightPair(stage, sm, tile * 16 + g + 8 * (i & 1), step * 16 + 2 * t + 8 * (i >> 1), group, range);
        u32 b[4];
        Tile::valueWords(stage, step * 16, base + n * 8, lane, b);
        NI_UNROLL
        for (u32 tile = 0; tile < kTiles; ++tile)
          Tile::add(sums.v[tile][n], sums.v[tile][n + 1], weights[tile], b, range);
      }
    }
  }
  NI_FN u32 weightPair(const u8 *stage, Shared *sm, u32 v, u32 key, u32 group, const typename Tile::Range &range) {
    const Words2 pair = sharedLoad(reinterpret_cast<const Words2 *>(&sm->scores[v][key]));
    return Tile::weightPair(stage, asFloat(pair.x), asFloat(pair.y), key, group, range);
  }
  /// Where of dim sum i of the warp's column tile n lies.
  NI_FN u32 columnAt(u32 n, u32 i) {
    return warpIndex() * (kDim / 4) + Tile::columnAt(n, laneIndex() % 4, i);
  }

  NI_FN void write(const AttentionDecodeArgs &a, u64 at, float value) {
    if constexpr (S.gate)
      value *= sigmoid(bf16ToFloat(load(a.gate + at)));
    store(a.out + at, floatToBf16(value));
  }
  NI_FN void finish(const AttentionDecodeArgs &a, Shared *sm, const Sums &sums, u32 head) {
    NI_UNROLL
    for (u32 tile = 0; tile < kTiles; ++tile)
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        const u32 v = tile * 16 + laneIndex() / 4 + 8 * (i >> 1);
        if (v < a.rows * kGroup) {
          const float total = sharedLoad(&sm->total[v]);
          NI_UNROLL
          for (u32 n = 0; n < kColumns; ++n)
            if (kDim == S.dim || columnAt(n, i) < S.dim)
              write(a, vectorAt(head, v) + columnAt(n, i), divide(sums.v[tile][n][i], total));
        }
      }
  }
  NI_FN void leave(const AttentionDecodeArgs &a, Shared *sm, const Sums &sums, u32 head, u32 split) {
    float *scratch = a.scratch + static_cast<u64>(head * a.splits + split) * attentionScratch(S);
    NI_UNROLL
    for (u32 tile = 0; tile < kTiles; ++tile)
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        const u32 v = tile * 16 + laneIndex() / 4 + 8 * (i >> 1);
        if (v < a.rows * kGroup)
          NI_UNROLL
          for (u32 n = 0; n < kColumns; ++n)
            if (kDim == S.dim || columnAt(n, i) < S.dim)
              store(scratch + v * S.dim + columnAt(n, i), sums.v[tile][n][i]);
      }
    for (u32 v = threadIndex(); v < a.rows * kGroup; v += kThreads) {
      store(scratch + attentionVectors(S) * S.dim + 2 * v, sharedLoad(&sm->maximum[v]));
      store(scratch + attentionVectors(S) * S.dim + 2 * v + 1, sharedLoad(&sm->total[v]));
    }
  }

  NI_FN void combineIfLast(const AttentionDecodeArgs &a, Shared *sm, u32 head) {
    gpuFence();
    blockSync();
    if (threadIndex() == 0)
      sharedStore(&sm->last[0], atomicIncrement(a.counters + head) == a.splits - 1 ? 1u : 0u);
    blockSync();
    if (sharedLoad(&sm->last[0]) == 0)
      return;
    gpuFence();
    const float *scratch = a.scratch + static_cast<u64>(head * a.splits) * attentionScratch(S);
    const float *statistics = scratch + attentionVectors(S) * S.dim;
    for (u32 v = threadIndex(); v < a.rows * kGroup; v += kThreads) {
      float top = kNone, total = 0.0f;
      for (u32 split = 0; split < a.splits; ++split)
        top = maximum(top, load(statistics + split * attentionScratch(S) + 2 * v));
      for (u32 split = 0; split < a.splits; ++split) {
        const float *of = statistics + split * attentionScratch(S) + 2 * v;
        total = fusedMultiplyAdd(exp2Approx(load(of) - top), load(of + 1), total);
      }
      sharedStore(&sm->maximum[v], top);
      sharedStore(&sm->total[v], total);
    }
    blockSync();
    for (u32 i = threadIndex(); i < a.rows * kGroup * S.dim; i += kThreads) {
      const u32 v = i / S.dim, d = i % S.dim;
      const float top = sharedLoad(&sm->maximum[v]);
      float sum = 0.0f;
      for (u32 split = 0; split < a.splits; ++split) {
        const float weight = exp2Approx(load(statistics + split * attentionScratch(S) + 2 * v) - top);
        sum = fusedMultiplyAdd(weight, load(scratch + split * attentionScratch(S) + v * S.dim + d), sum);
      }
      write(a, vectorAt(head, v) + d, divide(sum, sharedLoad(&sm->total[v])));
    }
    if (threadIndex() == 0)
      store(a.counters + head, 0u);
  }
};

} // namespace ni

#define NI_ATTENTION_DECODE(name, ...)                                                                                 \
  namespace ni {                                                                                                       \
  constexpr AttentionDecodeSpec name##_spec = __VA_ARGS__;                                                             \
  }                                                                                                                    \
  NI_KERNEL(name, ni::attentionThreads(), 1)                                                                           \
  (const ni::u16 *query, const ni::u8 *keys, const ni::u8 *values, const ni::u16 *gate, ni::u16 *out, float *scratch,  \
   ni::u32 *counters, const ni::u32 *position, ni::u32 rows, ni::u32 capacity, ni::u32 splits, float scale) {          \
    NI_SHARED(ni::AttentionDecode<ni::name##_spec>::Shared, shared);                                                   \
    ni::AttentionDecode<ni::name##_spec>::run({query, keys, values, gate, out, scratch, counters, position, rows,      \
                                               capacity, splits, scale},                                               \
                                              shared);                                                                 \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_ATTENTION_DECODE_CUH
