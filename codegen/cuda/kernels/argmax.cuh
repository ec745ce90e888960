// Number of the largest logit of each row; the lowest of equal ones. NaN is never chosen; a row of NaN gives 0. Each of
// spec.blocks thread blocks searches a part of the row; the last one to finish compares their candidates.
// Launch: grid (spec.blocks, rows), kArgmaxThreads, kArgmaxShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_ARGMAX_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_ARGMAX_CUH

#include "ni.cuh"
#include "rows_spec.cuh"

namespace ni {

struct ArgmaxArgs {
  const float *logits; ///< [rows][n]
  Words2 *candidates;  ///< scratch [rows][spec.blocks]: value, number
  u32 *counters;       ///< [rows], zero before the first launch; every launch leaves zero
  i32 *out;            ///< [rows]
  u32 n;
};

template <ArgmaxSpec S>
struct Argmax {
  static constexpr u32 kWarps = kArgmaxThreads / 32;
  struct Best {
    float value;
    u32 number;
  };
  struct Shared {
    float values[kWarps];
    u32 numbers[kWarps];
    u32 last;
  };
  static_assert(sizeof(Shared) == kArgmaxShared);

  NI_FN void run(const ArgmaxArgs &a, Shared *sm) {
    const u32 row = blockY(), part = divideUp(a.n, S.blocks);
    const u32 begin = smaller(blockX() * part, a.n), end = smaller(begin + part, a.n);
    const float *logits = a.logits + static_cast<u64>(row) * a.n;
    Best best = none();
    for (u32 i = begin + threadIndex(); i < end; i += kArgmaxThreads)
      best = better(best, {load(logits + i), i});
    best = ofBlock(best, sm);
    Words2 *mine = a.candidates + static_cast<u64>(row) * S.blocks;
    if (threadIndex() == 0) {
      store(mine + blockX(), Words2{asBits(best.value), best.number});
      gpuFence();
      sharedStore(&sm->last, atomicIncrement(a.counters + row) == S.blocks - 1 ? 1u : 0u);
    }
    blockSync();
    if (sharedLoad(&sm->last) == 0)
      return;
    gpuFence();
    best = none();
    for (u32 i = threadIndex(); i < S.blocks; i += kArgmaxThreads) {
      const Words2 other = load(mine + i);
      best = better(best, {asFloat(other.x), other.y});
    }
    best = ofBlock(best, sm);
    if (threadIndex() == 0) {
      store(a.out + row, static_cast<i32>(best.number == ~0u ? 0u : best.number));
      store(a.counters + row, 0u);
    }
  }

private:
  NI_FN Best none() { return {asFloat(0xff800000u), ~0u}; }
  /// A candidate with number ~0 is none; comparisons with NaN are false, so NaN never wins.
  NI_FN Best better(Best a, Best b) {
    const bool take = b.number != ~0u && (b.value > a.value || (b.value == a.value && b.number < a.number));
    return take ? b : a;
  }
  NI_FN Best ofBlock(Best best, Shared *sm) {
    NI_UNROLL
    for (u32 mask = 16; mask != 0; mask >>= 1) {
      const float value = shuffleXor(best.value, mask);
      const u32 number = shuffleXor(best.number, mask);
      best = better(best, {value, number});
    }
    if (laneIndex() == 0) {
      sharedStore(&sm->values[warpIndex()], best.value);
      sharedStore(&sm->numbers[warpIndex()], best.number);
    }
    blockSync();
    best = none();
    NI_UNROLL
    for (u32 warp = 0; warp < kWarps; ++warp)
      best = better(best, {sharedLoad(&sm->values[warp]), sharedLoad(&sm->numbers[warp])});
    blockSync(); // read before the second use writes
    return best;
  }
};

} // namespace ni

#define NI_ARGMAX(name, ...)                                                                                           \
  namespace ni {                                                                                                       \
  constexpr ArgmaxSpec name##_spec = __VA_ARGS__;                                                                      \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kArgmaxThreads, 2)                                                                               \
  (const float *logits, ni::Words2 *candidates, ni::u32 *counters, ni::i32 *out, ni::u32 n) {                          \
    NI_SHARED(ni::Argmax<ni::name##_spec>::Shared, shared);                                                            \
    ni::Argmax<ni::name##_spec>::run({logits, candidates, counters, out, n}, shared);                                  \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_ARGMAX_CUH
