// F2: linear maps of many rows (prefill). As in F1 the weight is the A operand; blocks of 128 k of rows and packed weight
// go to shared memory by asynchronous copies, codes are unpacked in registers, sums of a scale group are exact products
// added in binary32 and scaled once. Operator and epilogues: linear.cuh (no prologue). With binary16 operands the rows pass
// through registers on their way (half_operand.cuh).
//
// A thread block has gemmOutputs outputs and gemmRows rows; warp w has panels 2 (w % 4), 2 (w % 4) + 1 and rows
// (w / 4) * 8 * tiles .. of them. Launch: grid (gemmBlocksX, gemmBlocksY), kGemmThreads, gemmShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_GEMM_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_GEMM_CUH

#include "gemm_spec.cuh"
#include "panel_block.cuh"

namespace ni {

struct GemmArgs {
  const u8 *weight;    ///< packed, ceil(n / 16) panels
  const u8 *up;        ///< packed like weight; Swiglu only
  const u16 *x;        ///< bfloat16 [rows][k], 16-byte aligned
  const u16 *residual; ///< bfloat16 [rows][n]; Residual only; may be `out`
  void *out;           ///< [rows][n]
  u32 n, rows;
  const u32 *entries = nullptr; ///< PerRow only, in shared memory: which entries the rows are
};

/// PerRow 0: rows of x are rows of the result. Else row i of the call is entry e = entries[i]: row e / PerRow of x, row e of
/// the result.
template <GemmSpec S, u32 PerRow = 0>
struct Gemm {
  static_assert(gemmAccepts(S), "gemm_spec.cuh: gemmAccepts");
  static constexpr Format F = S.format;
  static constexpr u32 kBlocks = panelBlocks(S.k), kRows = gemmRows(S), kOutputs = gemmOutputs(S);
  static constexpr u32 kPanelBytes = panelBytes(F, S.k), kPanelsAt = kRows * kBlockK * 2;
  static constexpr bool kPair = S.epilogue == Epilogue::Swiglu;
  static constexpr bool kHalf = S.operands == Operands::F16;
  static constexpr u32 kUnitsAt = kPanelsAt + kGemmPanels * gemmBlockBytes(F); ///< F16: what the rows were multiplied by
  using Block = PanelBlock<F, S.operands>;

  union Shared {
    u8 stages[S.stages][gemmStageBytes(S)];
    float results[kRows][gemmResultStride(S)]; ///< after the last block, behind a barrier
  };
  static_assert(sizeof(Shared) == gemmShared(S), "gemm_spec.cuh: gemmShared");
  struct Sums {
    float v[2][S.tiles][4]; ///< panel, tile of rows
  };

  NI_FN void run(const GemmArgs &a, Shared *sm) { run(a, sm, blockY() * kRows); }
  NI_FN void run(const GemmArgs &a, Shared *sm, u32 firstRow) {
    const u32 warp = uniform(warpIndex()), warpN = warp % kGemmWarpsN, warpRows = warp / kGemmWarpsN;
    NI_UNROLL
    for (u32 s = 0; s + 1 < S.stages; ++s) {
      if (s < kBlocks)
        copyBlock(a, sm->stages[s], firstRow, s);
      copyAsyncCommit();
    }
    Sums sums;
    NI_UNROLL
    for (u32 p = 0; p < 2; ++p)
      NI_UNROLL
      for (u32 tile = 0; tile < S.tiles; ++tile)
        NI_UNROLL
        for (u32 i = 0; i < 4; ++i)
          sums.v[p][tile][i] = 0.0f;
    NI_NO_UNROLL
    for (u32 c = 0; c < kBlocks; ++c) {
      if constexpr (S.stages == 1) {
        blockSync(); // block c - 1 is read
        copyBlock(a, sm->stages[0], firstRow, c);
        copyAsyncCommit();
      }
      copyAsyncWait<(S.stages > 2 ? S.stages - 2 : 0)>();
      blockSync(); // block c is there for all, and the stage of block c - 1 is free
      if (S.stages > 1 && c + S.stages - 1 < kBlocks)
        copyBlock(a, sm->stages[(c + S.stages - 1) % S.stages], firstRow, c + S.stages - 1);
      copyAsyncCommit();
      multiply(sm->stages[c % S.stages], warpN, warpRows, a.rows, sums);
    }
    copyAsyncWait<0>();
    blockSync();
    place(a, sm, sums, warpN, warpRows);
    blockSync();
    finish(a, sm, firstRow);
  }

private:
  NI_FN u32 entryOf(const GemmArgs &a, u32 row) { return PerRow ? sharedLoad(a.entries + row) : row; }
  NI_FN u64 sourceOf(const GemmArgs &a, u32 row) { return PerRow ? entryOf(a, row) / PerRow : row; }

  /// Panel i of the thread block; beyond the weight: the last one, whose outputs nobody stores.
  NI_FN const u8 *panelOf(const GemmArgs &a, u32 i) {
    const u32 panels = divideUp(a.n, kPanelRows);
    const u32 number = blockX() * (kOutputs / kPanelRows) + (kPair ? i / 2 : i);
    return (kPair && i % 2 ? a.up : a.weight) + static_cast<u64>(smaller(number, panels - 1)) * kPanelBytes;
  }

  /// Starts the copies of block c. Rows lie as [row][16 chunks of 16 bytes], chunk j of row r at j ^ (r & 7), so that the
  /// 8 rows of an ldmatrix lie in different banks.
  NI_FN void copyBlock(const GemmArgs &a, u8 *stage, u32 firstRow, u32 c) {
    NI_NO_UNROLL // unrolled, the addresses of all chunks would stay in registers across the main loop, and those spill
    for (u32 i = 0; i < kRows * 16 / kGemmThreads; ++i) {
      const u32 chunk = threadIndex() + i * kGemmThreads, row = chunk / 16, j = chunk % 16, k = c * kBlockK + j * 8;
      const bool valid = firstRow + row < a.rows && k < S.k;
      const u16 *from = a.x + (valid ? sourceOf(a, firstRow + row) * S.k + k : 0);
      u8 *to = stage + row * 256 + ((j ^ (row & 7)) * 16);
      if constexpr (kHalf) { // 16 lanes have the 128 k of a row
        Words4 v = {0, 0, 0, 0};
        if (valid)
          v = load(reinterpret_cast<const Words4 *>(from));
        const u32 top = topOfLanes<16>(topWord(v));
        sharedStore(reinterpret_cast<Words4 *>(to), halfWords(v, halfFactor(top)));
        if (j == 0)
          sharedStore(reinterpret_cast<float *>(stage + kUnitsAt) + row, halfUnit(top));
      } else {
        copyAsync(to, from, valid);
      }
    }
    constexpr u32 kChunks = gemmBlockBytes(F) / 16, kCodes = blockCodeBytes(F) / 16, kHigh = blockHighBytes(F) / 16;
    NI_NO_UNROLL
    for (u32 i = threadIndex(); i < kGemmPanels * kChunks; i += kGemmThreads) {
      const u32 panel = i / kChunks, j = i % kChunks;
      const BlockPlace from = placeOf(F, panelOf(a, panel), S.k, c);
      const u8 *source = j < kCodes ? from.codes + j * 16
                         : j < kCodes + kHigh ? from.high + (j - kCodes) * 16
                                              : from.scales + (j - kCodes - kHigh) * 16;
      copyAsync(stage + kPanelsAt + panel * gemmBlockBytes(F) + j * 16, source);
    }
  }

  NI_FN void multiply(const u8 *stage, u32 warpN, u32 warpRows, u32 count, Sums &sums) {
    constexpr u32 kGroupSteps = Block::kGroupSteps, kUnit = kGroupSteps == 4 ? 4 : 2; // steps whose operands are held
    const u32 lane = laneIndex();
    const u8 *rows = stage + (warpRows * S.tiles * 8 + (lane & 7)) * 256; // row & 7 is lane & 7 in every tile
    Block blocks[2];
    NI_UNROLL
    for (u32 p = 0; p < 2; ++p) {
      const u8 *at = stage + kPanelsAt + (2 * warpN + p) * gemmBlockBytes(F);
      blocks[p].template load<FromShared>(
          lanePlace(F, {at, at + blockCodeBytes(F), at + blockCodeBytes(F) + blockHighBytes(F)}, lane));
      blocks[p].prepare();
    }
    NI_UNROLL
    for (u32 unit = 0; unit < kBlockSteps; unit += kUnit) {
      u32 weights[2][kUnit][4];
      NI_UNROLL
      for (u32 p = 0; p < 2; ++p)
        NI_UNROLL
        for (u32 s = 0; s < kUnit; ++s)
          blocks[p].fragment(unit + s, weights[p][s]);
      NI_UNROLL
      for (u32 tile = 0; tile < S.tiles; ++tile) {
        if (PerRow && (warpRows * S.tiles + tile) * 8 >= count)
          break; // an expert has few rows
        float group[2][4] = {}, units[2] = {1.0f, 1.0f};
        if constexpr (kHalf) {
          const u8 *at = stage + kUnitsAt + ((warpRows * S.tiles + tile) * 8 + lane % 4 * 2) * 4;
          const Words2 pair = sharedLoad(reinterpret_cast<const Words2 *>(at));
          units[0] = asFloat(pair.x);
          units[1] = asFloat(pair.y);
        }
        NI_UNROLL
        for (u32 s = 0; s < kUnit; s += 2) {
          u32 x[4]; // both halves of k of steps s and s + 1
          loadMatrix(x, rows + tile * 8 * 256 + (((2 * (unit + s) + lane / 8) ^ (lane & 7)) * 16));
          NI_UNROLL
          for (u32 h = 0; h < 2; ++h)
            NI_UNROLL
            for (u32 p = 0; p < 2; ++p)
              multiplyStep(blocks[p], unit + s + h, weights[p][s + h], x[2 * h], x[2 * h + 1], units, group[p],
                           sums.v[p][tile]);
        }
        if (tile % 2 == 1)
          warpSync(); // keeps ptxas from loading the operands of all tiles at once, which spills
      }
    }
  }

  /// Results in [row][output] order: Swiglu joins gate and up, row scales and divisors apply.
  NI_FN void place(const GemmArgs &a, Shared *sm, const Sums &sums, u32 warpN, u32 warpRows) {
    const u32 g = laneIndex() / 4, t = laneIndex() % 4;
    NI_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      const float first = tailFactor(panelOf(a, 2 * warpN), g + 8 * half);
      const float second = tailFactor(panelOf(a, 2 * warpN + 1), g + 8 * half);
      NI_UNROLL
      for (u32 tile = 0; tile < S.tiles; ++tile)
        NI_UNROLL
        for (u32 b = 0; b < 2; ++b) {
          const u32 row = warpRows * S.tiles * 8 + tile * 8 + 2 * t + b;
          const float y = scaled(sums.v[0][tile][2 * half + b], first), z = scaled(sums.v[1][tile][2 * half + b], second);
          if constexpr (kPair) {
            sharedStore(&sm->results[row][warpN * 16 + g + 8 * half], silu(y) * z);
          } else {
            sharedStore(&sm->results[row][warpN * 32 + g + 8 * half], y);
            sharedStore(&sm->results[row][warpN * 32 + 16 + g + 8 * half], z);
          }
        }
    }
  }
  /// FP8: the row's scale. NVFP4: the divisor.
  NI_FN float tailFactor(const u8 *panel, u32 row) {
    if constexpr (F == Format::Fp8)
      return bf16ToFloat(load(at<u16>(panel, panelTailOffset(F, S.k) + row * 2)));
    if constexpr (F == Format::Nvfp4)
      return load(at<float>(panel, panelTailOffset(F, S.k)));
    return 1.0f;
  }
  NI_FN float scaled(float y, float factor) {
    return F == Format::Nvfp4 ? divide(y, factor) : F == Format::Fp8 ? y * factor : y;
  }

  NI_FN void finish(const GemmArgs &a, Shared *sm, u32 firstRow) {
    for (u32 i = threadIndex(); i < kRows * (kOutputs / 2); i += kGemmThreads) {
      const u32 row = i / (kOutputs / 2), o = i % (kOutputs / 2) * 2, n = blockX() * kOutputs + o;
      if (firstRow + row >= a.rows || n >= a.n)
        continue;
      const Words2 pair = sharedLoad(reinterpret_cast<const Words2 *>(&sm->results[row][o]));
      const u64 index = static_cast<u64>(entryOf(a, firstRow + row)) * a.n + n;
      const bool both = n + 1 < a.n;
      float low = asFloat(pair.x), high = asFloat(pair.y);
      if constexpr (S.epilogue == Epilogue::Residual) {
        low += bf16ToFloat(load(a.residual + index));
        high += both ? bf16ToFloat(load(a.residual + index + 1)) : 0.0f;
      }
      if constexpr (S.output == OutputType::Float) {
        store(static_cast<float *>(a.out) + index, low);
        if (both)
          store(static_cast<float *>(a.out) + index + 1, high);
      } else if (both && a.n % 2 == 0) {
        store(reinterpret_cast<u32 *>(static_cast<u16 *>(a.out) + index), packBf16(low, high));
      } else {
        store(static_cast<u16 *>(a.out) + index, floatToBf16(low));
        if (both)
          store(static_cast<u16 *>(a.out) + index + 1, floatToBf16(high));
      }
    }
  }
};

} // namespace ni

#define NI_GEMM(name, ...)                                                                                             \
  namespace ni {                                                                                                       \
  constexpr GemmSpec name##_spec = __VA_ARGS__;                                                                        \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kGemmThreads, ni::name##_spec.blocksPerSm)                                                       \
  (const ni::u8 *weight, const ni::u8 *up, const ni::u16 *x, const ni::u16 *residual, void *out, ni::u32 n,            \
   ni::u32 rows) {                                                                                                     \
    NI_SHARED(ni::Gemm<ni::name##_spec>::Shared, shared);                                                              \
    ni::Gemm<ni::name##_spec>::run({weight, up, x, residual, out, n, rows}, shared);                                   \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_GEMM_CUH
