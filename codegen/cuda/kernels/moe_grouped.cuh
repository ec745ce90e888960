// Sparse mixture of experts for many rows (prefill; operators: moe.cuh): the entries of an expert, which are the (row, slot)
// that chose it, are the rows of a linear map of many rows (gemm.cuh), so that its weight is read once per 64 of them and not
// once per entry. A thread block has one expert and finds its entries itself, in rising order, by looking through the routes.
//
// Down: the maps of an entry go to scratch; the block that finishes the last slot of a row sums them, in the order of slots.
// Launch: grid (groupedBlocksX, experts), kGemmThreads, groupedShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_MOE_GROUPED_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_MOE_GROUPED_CUH

#include "gemm.cuh"
#include "moe.cuh"

namespace ni {

struct MoeGroupedArgs {
  const u8 *bank;      ///< packed; an expert has n rows (up: n gate rows, then n up rows)
  const u16 *x;        ///< bfloat16, 16-byte aligned; up: [rows][k], down: [rows][topK][k]
  const float *routes; ///< [rows][2 topK]
  u16 *out;            ///< bfloat16; up: [rows][topK][n], down: [rows][n]
  float *scratch;      ///< down: [rows][topK][n]
  u32 *counters;       ///< down: [rows][groupedBlocksX], zero before the first launch; every launch leaves zero
  u32 rows, experts, n;
};

template <MoeGroupedSpec S>
struct MoeGrouped {
  static_assert(groupedAccepts(S), "moe_spec.cuh: groupedAccepts");
  static constexpr GemmSpec kGemm = groupedGemm(S);
  static constexpr u32 kRows = gemmRows(kGemm), kOutputs = gemmOutputs(kGemm), kWarps = kGemmThreads / 32;
  using Map = Gemm<kGemm, S.down ? 1 : S.topK>;

  struct Shared {
    typename Map::Shared gemm;
    u32 entries[kRows]; ///< row * topK + slot
    u32 last[kRows];    ///< down: this entry was the last one of its row
    u32 found[kWarps];
  };
  static_assert(sizeof(Shared) == groupedShared(S), "moe_spec.cuh: groupedShared");

  NI_FN void run(const MoeGroupedArgs &a, Shared *sm) {
    const u64 half = static_cast<u64>(a.n / kPanelRows) * panelBytes(S.format, S.k);
    const u8 *weight = a.bank + blockY() * (S.down ? half : 2 * half);
    u32 next = 0;
    NI_NO_UNROLL
    while (true) {
      const u32 count = collect(a, sm, next);
      if (count == 0)
        break;
      void *out = S.down ? static_cast<void *>(a.scratch) : static_cast<void *>(a.out);
      Map::run({weight, weight + half, a.x, nullptr, out, a.n, count, sm->entries}, &sm->gemm, 0);
      if constexpr (S.down)
        sumRows(a, sm, count);
    }
  }

private:
  /// The next entries of this block's expert from `next` on, at most kRows; `next` becomes the first one not looked at. Its first
  /// barrier is also the one between the use of a list and the next list.
  NI_FN u32 collect(const MoeGroupedArgs &a, Shared *sm, u32 &next) {
    const u32 total = a.rows * S.topK, lane = laneIndex(), warp = warpIndex();
    u32 count = 0;
    NI_NO_UNROLL
    while (count < kRows && next < total) {
      u32 chosen[4], mine = 0;
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        const u32 entry = next + threadIndex() * 4 + i;
        chosen[i] = entry < total && expertOf(a.routes, S.topK, entry / S.topK, entry % S.topK, a.experts) == blockY() ? 1u : 0u;
        mine += chosen[i];
      }
      u32 upTo = mine; // of the lanes up to this one
      NI_UNROLL
      for (u32 distance = 1; distance < 32; distance *= 2) {
        const u32 other = shuffle(upTo, (lane - distance) & 31u);
        upTo += lane >= distance ? other : 0u;
      }
      if (lane == 31)
        sharedStore(&sm->found[warp], upTo);
      blockSync();
      u32 place = count + upTo - mine, all = count;
      NI_UNROLL
      for (u32 i = 0; i < kWarps; ++i) {
        const u32 found = sharedLoad(&sm->found[i]);
        place += i < warp ? found : 0u;
        all += found;
      }
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        if (chosen[i] && place < kRows)
          sharedStore(&sm->entries[place], next + threadIndex() * 4 + i);
        place += chosen[i];
      }
      blockSync();
      next = all > kRows ? sharedLoad(&sm->entries[kRows - 1]) + 1 : next + kGroupedWindow;
      count = smaller(all, kRows);
    }
    return count;
  }

  /// Rows whose slots are all there: their weighted sum, of this block's outputs.
  NI_FN void sumRows(const MoeGroupedArgs &a, Shared *sm, u32 count) {
    blockSync(); // the maps of this tile are stored
    if (threadIndex() < count) {
      u32 *counter = a.counters + sharedLoad(&sm->entries[threadIndex()]) / S.topK * gridX() + blockX();
      gpuFence();
      const bool last = atomicIncrement(counter) == S.topK - 1;
      sharedStore(&sm->last[threadIndex()], last ? 1u : 0u);
      if (last)
        store(counter, 0u);
    }
    blockSync();
    gpuFence();
    for (u32 i = threadIndex(); i < count * (kOutputs / 2); i += kGemmThreads) {
      const u32 entry = i / (kOutputs / 2), n = blockX() * kOutputs + i % (kOutputs / 2) * 2;
      if (n >= a.n || sharedLoad(&sm->last[entry]) == 0)
        continue;
      const u64 row = sharedLoad(&sm->entries[entry]) / S.topK;
      float low = 0.0f, high = 0.0f;
      NI_NO_UNROLL
      for (u32 slot = 0; slot < S.topK; ++slot) {
        const float share = load(a.routes + row * 2 * S.topK + S.topK + slot);
        const Words2 y = load(reinterpret_cast<const Words2 *>(a.scratch + (row * S.topK + slot) * a.n + n));
        low += share * asFloat(y.x);
        high += share * asFloat(y.y);
      }
      store(reinterpret_cast<u32 *>(a.out + row * a.n + n), packBf16(low, high));
    }
  }
};

} // namespace ni

#define NI_MOE_GROUPED(name, ...)                                                                                      \
  namespace ni {                                                                                                       \
  constexpr MoeGroupedSpec name##_spec = __VA_ARGS__;                                                                  \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kGemmThreads, 1)                                                                                 \
  (const ni::u8 *bank, const ni::u16 *x, const float *routes, ni::u16 *out, float *scratch, ni::u32 *counters,         \
   ni::u32 rows, ni::u32 experts, ni::u32 n) {                                                                         \
    NI_SHARED(ni::MoeGrouped<ni::name##_spec>::Shared, shared);                                                        \
    ni::MoeGrouped<ni::name##_spec>::run({bank, x, routes, out, scratch, counters, rows, experts, n}, shared);         \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_MOE_GROUPED_CUH
