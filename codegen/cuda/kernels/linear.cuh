// F1: linear maps of 1..16 rows. The weight is the A operand of mma.m16n8k16, straight from registers (PanelBlock); the
// rows are the B operand, kept in shared memory in operand order. A warp owns one panel of 16 outputs and every
// warpsK-th block of 128 k; the partial sums of the warps meet in shared memory and are added in a fixed order.
//
//   y[r][n] = sum over k of x'[r][k] * w[n][k],  x' = x or its RMS norm rounded to bfloat16
//   Store: y.  Residual: residual + y.  Swiglu: silu(y of `weight`) * (y of `up`).
//
// Launch: grid (1..linearBlocks(spec, n)), linearThreads, linearShared. Thread block b takes panels b, b + grid, ...
#ifndef NINFER_CODEGEN_CUDA_KERNELS_LINEAR_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_LINEAR_CUH

#include "linear_spec.cuh"
#include "panel_block.cuh"

namespace ni {

struct LinearArgs {
  const u8 *weight;    ///< packed, ceil(n / 16) panels
  const u8 *up;        ///< packed like weight; Swiglu only
  const u16 *x;        ///< bfloat16 [rows][k], 16-byte aligned
  const u16 *norm;     ///< bfloat16 [k]; prologue only
  const u16 *residual; ///< bfloat16 [rows][n]; Residual only; may be `out`
  void *out;           ///< [rows][n]
  u32 n;
  u32 rows; ///< 1..spec.rows
  float eps;
};

template <LinearSpec S>
struct Linear {
  static_assert(linearAccepts(S), "linear_spec.cuh: linearAccepts");
  static constexpr u32 kThreads = linearThreads(S), kWarps = kThreads / 32;
  static constexpr u32 kTiles = linearTiles(S), kWeights = linearWeights(S);
  static constexpr u32 kChunk = linearChunk(S), kChunks = linearChunks(S), kBlocks = panelBlocks(S.k);
  static constexpr u32 kPanelBytes = panelBytes(S.format, S.k);
  static constexpr u32 kRound = S.depth * S.warpsK; ///< blocks of 128 k that the warps of a panel take together
  static constexpr u32 kXBlock = S.rows * 64;       ///< words of x per block of 128 k
  static constexpr bool kNorm = S.prologue != Prologue::None;
  static constexpr bool kHalf = S.operands == Operands::F16;
  using Block = PanelBlock<S.format, S.operands>;

  struct Shared {
    /// Operand order: [k / 32][row][t][2 h + e] pairs at k = 32 j + 16 h + 8 e + 2 t.
    u32 x[kChunks > 1 ? 2 : 1][kChunk / 32 * S.rows * 16];
    float partial[S.warpsN][S.warpsK][kWeights][kTiles * 8 * kPartialStride];
    float units[linearUnitFloats(S)]; ///< F16: [k / 128][tiles * 8]
    float squares[kNorm ? S.rows * kWarps : 1];
    float inverse[kNorm ? S.rows : 1];
  };
  static_assert(sizeof(Shared) == linearShared(S), "linear_spec.cuh: linearShared");

  struct Ring {
    Block blocks[S.depth][kWeights];
  };
  /// The lane's place in the weights, of the first block that is not in the ring: addresses are kept, not computed, since
  /// the loop over blocks has about two instructions per weight to spend (docs/cuda.md).
  struct Next {
    BlockPlace at[kWeights];
  };

  NI_FN void run(const LinearArgs &a, Shared *sm) { run(a, sm, blockX(), gridX()); }
  /// As block `block` of `blocks`.
  NI_FN void run(const LinearArgs &a, Shared *sm, u32 block, u32 blocks) {
    const u32 warp = uniform(warpIndex()), lane = laneIndex();
    const u32 warpK = warp % S.warpsK, warpN = warp / S.warpsK;
    const u32 panels = divideUp(a.n, kPanelRows);
    Ring ring;
    Next next;
    // A warp without a panel in the last round computes with the last panel and stores nothing.
    u32 first = block * S.warpsN;
    prime(ring, next, a, smaller(first + warpN, panels - 1), warpK, lane);
    if constexpr (kNorm)
      normFactors(a, sm);
    if constexpr (kChunks == 1) {
      stage(a, sm, 0);
      blockSync();
    }
    NI_NO_UNROLL
    for (; first < panels; first += blocks * S.warpsN) {
      float sums[kWeights][kTiles][4];
      NI_UNROLL
      for (u32 w = 0; w < kWeights; ++w)
        NI_UNROLL
        for (u32 tile = 0; tile < kTiles; ++tile)
          NI_UNROLL
          for (u32 i = 0; i < 4; ++i)
            sums[w][tile][i] = 0.0f;
      multiplyPanel(ring, next, a, sm, warpK, lane, sums);
      const u32 after = first + blocks * S.warpsN;
      if (after < panels)
        prime(ring, next, a, smaller(after + warpN, panels - 1), warpK, lane);
      storePartial(sm, sums, warpK, warpN, lane);
      blockSync();
      finish(a, sm, first, panels);
      if (after < panels)
        blockSync(); // the sums are read before the next panel overwrites them
    }
  }

private:
  NI_FN const u8 *panelOf(const LinearArgs &a, u32 weight, u32 panel) {
    return (weight ? a.up : a.weight) + static_cast<u64>(panel) * kPanelBytes;
  }

  /// Starts the loads of the first blocks of a panel; `next` becomes the place of the block behind them.
  NI_FN void prime(Ring &ring, Next &next, const LinearArgs &a, u32 panel, u32 warpK, u32 lane) {
    NI_UNROLL
    for (u32 w = 0; w < kWeights; ++w)
      next.at[w] = lanePlace(S.format, placeOf(S.format, panelOf(a, w, panel), S.k, warpK), lane);
    NI_UNROLL
    for (u32 d = 0; d < S.depth; ++d)
      if (warpK + d * S.warpsK < kBlocks)
        loadBlock(ring, d, next);
    advance(next);
  }
  NI_FN void loadBlock(Ring &ring, u32 d, const Next &next) {
    NI_UNROLL
    for (u32 w = 0; w < kWeights; ++w)
      ring.blocks[d][w].template load<FromGlobal>(advanced(S.format, next.at[w], d * S.warpsK));
  }
  NI_FN void advance(Next &next) {
    NI_UNROLL
    for (u32 w = 0; w < kWeights; ++w)
      next.at[w] = advanced(S.format, next.at[w], kRound);
  }

  NI_FN void multiplyPanel(Ring &ring, Next &next, const LinearArgs &a, Shared *sm, u32 warpK, u32 lane,
                           float (&sums)[kWeights][kTiles][4]) {
    NI_NO_UNROLL
    for (u32 chunk = 0; chunk < kChunks; ++chunk) {
      if constexpr (kChunks > 1) { // slower warps may still read the other half of x, but not this one
        stage(a, sm, chunk);
        blockSync();
      }
      const u32 begin = chunk * (kChunk / kBlockK), end = smaller(begin + kChunk / kBlockK, kBlocks);
      const u32 *x[kTiles]; // the lane's words of the rows, block after block
      NI_UNROLL
      for (u32 tile = 0; tile < kTiles; ++tile) {
        // Columns without a row repeat the last one: they are never stored, and a column meets no other.
        const u32 row = smaller(tile * 8 + (lane >> 2), smaller(a.rows, S.rows) - 1);
        x[tile] = sm->x[kChunks > 1 ? chunk & 1 : 0] + warpK * kXBlock + (row * 4 + (lane & 3)) * 4;
      }
      const float *units = unitsOf(sm, chunk);
      NI_NO_UNROLL
      for (u32 c = begin + warpK; c < end; c += kRound) {
        NI_UNROLL
        for (u32 d = 0; d < S.depth; ++d)
          if (c + d * S.warpsK < end) {
            multiplyBlock(ring.blocks[d], x, d, units + (c + d * S.warpsK - begin) * kTiles * 8 + (lane & 3) * 2, sums);
            if (c + d * S.warpsK + kRound < kBlocks)
              loadBlock(ring, d, next);
          }
        advance(next);
        NI_UNROLL
        for (u32 tile = 0; tile < kTiles; ++tile)
          x[tile] += kRound * kXBlock;
      }
    }
  }

  /// F16: by what the rows of a chunk were multiplied.
  NI_FN float *unitsOf(Shared *sm, u32 chunk) {
    return sm->units + (kHalf && kChunks > 1 ? (chunk & 1) * (linearUnitFloats(S) / 2) : 0);
  }

  NI_FN void multiplyBlock(Block (&blocks)[kWeights], const u32 *const (&x)[kTiles], u32 d, const float *unitsAt,
                           float (&sums)[kWeights][kTiles][4]) {
    float group[kWeights][kTiles][4] = {};
    float units[kTiles][2];
    NI_UNROLL
    for (u32 tile = 0; tile < kTiles; ++tile) {
      units[tile][0] = units[tile][1] = 1.0f;
      if constexpr (kHalf) {
        const Words2 pair = sharedLoad(reinterpret_cast<const Words2 *>(unitsAt + tile * 8));
        units[tile][0] = asFloat(pair.x);
        units[tile][1] = asFloat(pair.y);
      }
    }
    NI_UNROLL
    for (u32 w = 0; w < kWeights; ++w)
      blocks[w].prepare();
    NI_UNROLL
    for (u32 j = 0; j < kBlockSteps / 2; ++j) {
      Words4 b[kTiles];
      NI_UNROLL
      for (u32 tile = 0; tile < kTiles; ++tile)
        b[tile] = sharedLoad(reinterpret_cast<const Words4 *>(x[tile] + d * S.warpsK * kXBlock + j * S.rows * 16));
      NI_UNROLL
      for (u32 h = 0; h < 2; ++h) {
        const u32 s = 2 * j + h;
        NI_UNROLL
        for (u32 w = 0; w < kWeights; ++w) {
          u32 fragment[4];
          blocks[w].fragment(s, fragment);
          NI_UNROLL
          for (u32 tile = 0; tile < kTiles; ++tile)
            multiplyStep(blocks[w], s, fragment, h ? b[tile].z : b[tile].x, h ? b[tile].w : b[tile].y, units[tile],
                         group[w][tile], sums[w][tile]);
        }
      }
    }
  }

  /// Sums of 16 outputs: column r of tile r / 8, outputs along the column.
  NI_FN void storePartial(Shared *sm, const float (&sums)[kWeights][kTiles][4], u32 warpK, u32 warpN, u32 lane) {
    NI_UNROLL
    for (u32 w = 0; w < kWeights; ++w)
      NI_UNROLL
      for (u32 tile = 0; tile < kTiles; ++tile)
        NI_UNROLL
        for (u32 i = 0; i < 4; ++i)
          sharedStore(&sm->partial[warpN][warpK][w][(tile * 8 + 2 * (lane & 3) + (i & 1)) * kPartialStride +
                                                    (lane >> 2) + 8 * (i >> 1)],
                      sums[w][tile][i]);
  }

  /// Adds the warps' sums, applies what belongs to the row, the epilogue, and stores.
  NI_FN void finish(const LinearArgs &a, Shared *sm, u32 firstPanel, u32 panels) {
    for (u32 i = threadIndex(); i < S.warpsN * a.rows * kPanelRows; i += kThreads) {
      const u32 o = i % kPanelRows, row = i / kPanelRows % a.rows, sub = i / kPanelRows / a.rows;
      const u32 panel = firstPanel + sub, n = panel * kPanelRows + o;
      if (panel >= panels || n >= a.n)
        continue;
      float y = total(a, sm, sub, 0, row, o, panel);
      if constexpr (S.epilogue == Epilogue::Swiglu)
        y = silu(y) * total(a, sm, sub, 1, row, o, panel);
      const u64 index = static_cast<u64>(row) * a.n + n;
      if constexpr (S.epilogue == Epilogue::Residual)
        y += bf16ToFloat(load(a.residual + index));
      if constexpr (S.output == OutputType::Float)
        store(static_cast<float *>(a.out) + index, y);
      else
        store(static_cast<u16 *>(a.out) + index, floatToBf16(y));
    }
  }
  NI_FN float total(const LinearArgs &a, Shared *sm, u32 sub, u32 weight, u32 row, u32 o, u32 panel) {
    float y = 0.0f;
    NI_UNROLL
    for (u32 warp = 0; warp < S.warpsK; ++warp)
      y += sharedLoad(&sm->partial[sub][warp][weight][row * kPartialStride + o]);
    const u8 *tail = panelOf(a, weight, panel) + panelTailOffset(S.format, S.k);
    if constexpr (S.format == Format::Fp8)
      y *= bf16ToFloat(load(at<u16>(tail, o * 2)));
    if constexpr (S.format == Format::Nvfp4)
      y = divide(y, load(at<float>(tail, 0)));
    return y;
  }

  /// inverse[row] = 1 / sqrt(mean of squares + eps). Every row is summed in the same order by all warps.
  NI_FN void normFactors(const LinearArgs &a, Shared *sm) {
    for (u32 row = 0; row < a.rows; ++row) {
      float sum = 0.0f;
      for (u32 i = threadIndex(); i < divideUp(S.k, 8); i += kThreads) {
        u32 pairs[4];
        loadEight(a.x + static_cast<u64>(row) * S.k, i * 8, pairs);
        NI_UNROLL
        for (u32 j = 0; j < 4; ++j) {
          sum = fusedMultiplyAdd(bf16Low(pairs[j]), bf16Low(pairs[j]), sum);
          sum = fusedMultiplyAdd(bf16High(pairs[j]), bf16High(pairs[j]), sum);
        }
      }
      sum = warpSum(sum);
      if (laneIndex() == 0)
        sharedStore(&sm->squares[row * kWarps + warpIndex()], sum);
    }
    blockSync();
    if (threadIndex() < a.rows) {
      float sum = 0.0f;
      for (u32 warp = 0; warp < kWarps; ++warp)
        sum += sharedLoad(&sm->squares[threadIndex() * kWarps + warp]);
      sharedStore(&sm->inverse[threadIndex()], rootReciprocalApprox(sum / S.k + a.eps));
    }
    blockSync();
  }

  /// Brings chunk `chunk` of the rows into operand order, zeros from K on. 16 lanes have 128 k of a row.
  NI_FN void stage(const LinearArgs &a, Shared *sm, u32 chunk) {
    constexpr u32 kEights = kChunk / 8;
    u32 *x = sm->x[kChunks > 1 ? chunk & 1 : 0];
    for (u32 base = 0; base < a.rows * kEights; base += kThreads) {
      const u32 i = base + threadIndex(), row = i / kEights, eight = i % kEights, k = chunk * kChunk + eight * 8;
      const bool valid = i < a.rows * kEights;
      u32 pairs[4] = {0, 0, 0, 0};
      if (valid) {
        loadEight(a.x + static_cast<u64>(row) * S.k, k, pairs);
        if constexpr (kNorm) {
          const float inverse = sharedLoad(&sm->inverse[row]);
          constexpr float kOffset = S.prologue == Prologue::RmsNormUnitOffset ? 1.0f : 0.0f;
          u32 weights[4];
          loadEight(a.norm, k, weights);
          NI_UNROLL
          for (u32 t = 0; t < 4; ++t)
            pairs[t] = packBf16(bf16Low(pairs[t]) * inverse * (bf16Low(weights[t]) + kOffset),
                                bf16High(pairs[t]) * inverse * (bf16High(weights[t]) + kOffset));
        }
      }
      if constexpr (kHalf) {
        const u32 top = topOfLanes<16>(topWord({pairs[0], pairs[1], pairs[2], pairs[3]}));
        NI_UNROLL
        for (u32 t = 0; t < 4; ++t)
          pairs[t] = halfPair(pairs[t], halfFactor(top));
        if (valid && eight % 16 == 0)
          sharedStore(unitsOf(sm, chunk) + eight / 16 * (kTiles * 8) + row, halfUnit(top));
      }
      if (valid) {
        u32 *to = x + ((eight >> 2) * S.rows + row) * 16 + (eight & 3);
        NI_UNROLL
        for (u32 t = 0; t < 4; ++t)
          sharedStore(to + t * 4, pairs[t]);
      }
    }
  }

  /// Words k..k+7 of a row of S.k, as pairs; zeros from S.k on.
  NI_FN void loadEight(const u16 *row, u32 k, u32 (&pairs)[4]) {
    if constexpr (S.k % 8 == 0) { // rows start at multiples of 16 bytes
      Words4 v = {0, 0, 0, 0};
      if (k < S.k)
        v = load(reinterpret_cast<const Words4 *>(row + k));
      pairs[0] = v.x;
      pairs[1] = v.y;
      pairs[2] = v.z;
      pairs[3] = v.w;
    } else {
      NI_UNROLL
      for (u32 t = 0; t < 4; ++t) {
        const u32 at = k + 2 * t;
        pairs[t] = (at < S.k ? load(row + at) : 0u) | (at + 1 < S.k ? static_cast<u32>(load(row + at + 1)) << 16 : 0u);
      }
    }
  }
};

} // namespace ni

/// Defines one kernel: NI_LINEAR(ni_linear_q4g64_r1_k5120, {.format = ni::Format::Q4, .rows = 1, .k = 5120})
#define NI_LINEAR(name, ...)                                                                                           \
  namespace ni {                                                                                                       \
  constexpr LinearSpec name##_spec = __VA_ARGS__;                                                                      \
  }                                                                                                                    \
  NI_KERNEL(name, ni::linearThreads(ni::name##_spec), ni::name##_spec.blocksPerSm)                                     \
  (const ni::u8 *weight, const ni::u8 *up, const ni::u16 *x, const ni::u16 *norm, const ni::u16 *residual, void *out, \
   ni::u32 n, ni::u32 rows, float eps) {                                                                               \
    NI_SHARED(ni::Linear<ni::name##_spec>::Shared, shared);                                                            \
    ni::Linear<ni::name##_spec>::run({weight, up, x, norm, residual, out, n, rows, eps}, shared);                      \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_LINEAR_CUH
