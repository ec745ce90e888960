// Sparse mixture of experts for few rows (decode). Every (row, slot) is a linear map with one row, its weight found by the
// number the route names; many rows work too, but read an expert once per row.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_MOE_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_MOE_CUH

#include "linear.cuh"
#include "moe_spec.cuh"

namespace ni {

/// The topK largest logits of a row in falling order, equal ones by rising number, and their softmax. A NaN is less than
/// every number but is chosen before an expert is chosen twice. Launch: grid (rows), kRouteThreads, routeShared.
template <MoeRouteSpec S>
struct MoeRoute {
  static_assert(routeAccepts(S), "moe_spec.cuh: routeAccepts");
  static constexpr u32 kWarps = kRouteThreads / 32;
  struct Shared {
    float logits[S.experts];
    float values[kWarps];
    u32 numbers[kWarps];
    float chosen[S.topK];
    u32 order[S.topK];
  };
  static_assert(sizeof(Shared) == routeShared(S));

  NI_FN void run(const float *logits, float *routes, Shared *sm) {
    for (u32 e = threadIndex(); e < S.experts; e += kRouteThreads)
      sharedStore(&sm->logits[e], load(logits + static_cast<u64>(blockX()) * S.experts + e));
    u32 taken[divideUp(S.experts, kRouteThreads)] = {}; // this thread's experts that have a slot
    for (u32 slot = 0; slot < S.topK; ++slot) {
      float value = asFloat(0xff800000u);
      u32 number = ~0u;
      NI_UNROLL
      for (u32 i = 0; i < divideUp(S.experts, kRouteThreads); ++i) {
        const u32 e = i * kRouteThreads + threadIndex();
        if (e < S.experts && !taken[i])
          better(value, number, sharedLoad(&sm->logits[e]), e);
      }
      NI_UNROLL
      for (u32 mask = 16; mask != 0; mask >>= 1) {
        const float otherValue = shuffleXor(value, mask);
        const u32 otherNumber = shuffleXor(number, mask);
        better(value, number, otherValue, otherNumber);
      }
      if (laneIndex() == 0) {
        sharedStore(&sm->values[warpIndex()], value);
        sharedStore(&sm->numbers[warpIndex()], number);
      }
      blockSync();
      value = asFloat(0xff800000u);
      number = ~0u;
      NI_UNROLL
      for (u32 warp = 0; warp < kWarps; ++warp)
        better(value, number, sharedLoad(&sm->values[warp]), sharedLoad(&sm->numbers[warp]));
      NI_UNROLL
      for (u32 i = 0; i < divideUp(S.experts, kRouteThreads); ++i)
        taken[i] |= number == i * kRouteThreads + threadIndex() ? 1u : 0u;
      if (threadIndex() == 0) {
        sharedStore(&sm->chosen[slot], value);
        sharedStore(&sm->order[slot], number);
      }
      blockSync();
    }
    if (threadIndex() != 0)
      return;
    const float top = sharedLoad(&sm->chosen[0]);
    float sum = 0.0f;
    for (u32 slot = 0; slot < S.topK; ++slot)
      sum += exp2Approx((sharedLoad(&sm->chosen[slot]) - top) * 1.44269504f);
    float *row = routes + static_cast<u64>(blockX()) * 2 * S.topK;
    for (u32 slot = 0; slot < S.topK; ++slot) {
      store(row + slot, static_cast<float>(sharedLoad(&sm->order[slot])));
      store(row + S.topK + slot, divide(exp2Approx((sharedLoad(&sm->chosen[slot]) - top) * 1.44269504f), sum));
    }
  }

private:
  NI_FN void better(float &value, u32 &number, float otherValue, u32 otherNumber) {
    const bool nan = value != value, otherNan = otherValue != otherValue;
    const bool larger = nan != otherNan ? nan : otherValue > value;
    const bool equal = nan == otherNan && (nan || otherValue == value);
    if (otherNumber != ~0u && (number == ~0u || larger || (equal && otherNumber < number))) {
      value = otherValue;
      number = otherNumber;
    }
  }
};

/// The expert a route names; anything else is taken for expert 0, as in the reference.
NI_FN u32 expertOf(const float *routes, u32 topK, u32 row, u32 slot, u32 experts) {
  const float number = load(routes + static_cast<u64>(row) * 2 * topK + slot);
  return number >= 0.0f && number < static_cast<float>(experts) ? static_cast<u32>(number) : 0u;
}

/// out[row][slot][i] = silu(gate_e x) * (up_e x). Launch: grid (1..linearBlocks(moeUpLinear, inner), rows * topK),
/// linearThreads and linearShared of moeUpLinear.
template <MoeUpSpec S>
struct MoeUp {
  static constexpr LinearSpec kLinear = moeUpLinear(S);
  using Shared = typename Linear<kLinear>::Shared;

  NI_FN void run(const u8 *bank, const u16 *x, const float *routes, u16 *out, u32 experts, u32 inner, Shared *sm) {
    const u32 row = blockY() / S.topK, slot = blockY() % S.topK;
    const u64 half = static_cast<u64>(inner / kPanelRows) * panelBytes(S.format, S.k); // bytes of one expert's gate
    const u8 *gate = bank + expertOf(routes, S.topK, row, slot, experts) * 2 * half;
    Linear<kLinear>::run({gate, gate + half, x + static_cast<u64>(row) * S.k, nullptr, nullptr,
                          out + static_cast<u64>(blockY()) * inner, inner, 1, 0.0f},
                         sm);
  }
};

/// out[row][n] = sum over slots of weight * (down_e product). Launch: grid (n / 16, rows), moeDownThreads, moeDownShared.
template <MoeDownSpec S>
struct MoeDown {
  static_assert(moeDownAccepts(S), "moe_spec.cuh: moeDownAccepts");
  static constexpr u32 kPadded = roundUp(S.k, kBlockK), kThreads = moeDownThreads(S);
  static constexpr bool kHalf = S.operands == Operands::F16;
  using Block = PanelBlock<S.format, S.operands>;
  struct Shared {
    u32 x[S.topK][kPadded / 2]; ///< operand order of linear.cuh, one row
    float units[S.topK][moeDownUnits(S)]; ///< F16: [k / 128], what they were multiplied by
    float partial[S.topK][kPanelRows];
  };
  static_assert(sizeof(Shared) == moeDownShared(S));

  NI_FN void run(const u8 *bank, const u16 *products, const float *routes, u16 *out, u32 experts, u32 n, Shared *sm) {
    const u32 row = blockY(), slot = uniform(warpIndex()), lane = laneIndex();
    stage(products + static_cast<u64>(row) * S.topK * S.k, sm);
    const u64 panel = static_cast<u64>(expertOf(routes, S.topK, row, slot, experts)) * (n / kPanelRows) + blockX();
    const u8 *weight = bank + panel * panelBytes(S.format, S.k);
    blockSync();
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    NI_NO_UNROLL
    for (u32 c = 0; c < panelBlocks(S.k); ++c) {
      Block block;
      block.template load<FromGlobal>(lanePlace(S.format, placeOf(S.format, weight, S.k, c), lane));
      block.prepare();
      float group[4] = {0.0f, 0.0f, 0.0f, 0.0f}, units[2] = {1.0f, 1.0f};
      if constexpr (kHalf)
        units[0] = units[1] = sharedLoad(&sm->units[slot][c]);
      NI_UNROLL
      for (u32 j = 0; j < kBlockSteps / 2; ++j) {
        // All columns hold the same row; column 0 is stored.
        const Words4 b = sharedLoad(reinterpret_cast<const Words4 *>(&sm->x[slot][((c * 4 + j) * 4 + (lane & 3)) * 4]));
        u32 fragment[4];
        block.fragment(2 * j, fragment);
        multiplyStep(block, 2 * j, fragment, b.x, b.y, units, group, sums);
        block.fragment(2 * j + 1, fragment);
        multiplyStep(block, 2 * j + 1, fragment, b.z, b.w, units, group, sums);
      }
    }
    if (lane % 4 == 0) {
      const float share = load(routes + static_cast<u64>(row) * 2 * S.topK + S.topK + slot);
      NI_UNROLL
      for (u32 half = 0; half < 2; ++half) {
        const u32 o = lane / 4 + 8 * half;
        float y = sums[2 * half];
        if constexpr (S.format == Format::Fp8)
          y *= bf16ToFloat(load(at<u16>(weight, panelTailOffset(S.format, S.k) + o * 2)));
        if constexpr (S.format == Format::Nvfp4)
          y = divide(y, load(at<float>(weight, panelTailOffset(S.format, S.k))));
        sharedStore(&sm->partial[slot][o], share * y);
      }
    }
    blockSync();
    if (threadIndex() < kPanelRows) {
      float y = 0.0f;
      NI_UNROLL
      for (u32 i = 0; i < S.topK; ++i)
        y += sharedLoad(&sm->partial[i][threadIndex()]);
      store(out + static_cast<u64>(row) * n + blockX() * kPanelRows + threadIndex(), floatToBf16(y));
    }
  }

private:
  /// 16 lanes have 128 k of a slot.
  NI_FN void stage(const u16 *products, Shared *sm) {
    constexpr u32 kEights = kPadded / 8;
    for (u32 base = 0; base < S.topK * kEights; base += kThreads) {
      const u32 i = base + threadIndex(), slot = i / kEights, eight = i % kEights;
      const bool valid = i < S.topK * kEights;
      Words4 v = {0, 0, 0, 0};
      if (valid && eight * 8 < S.k)
        v = load(reinterpret_cast<const Words4 *>(products + static_cast<u64>(slot) * S.k + eight * 8));
      if constexpr (kHalf) {
        const u32 top = topOfLanes<16>(topWord(v));
        v = halfWords(v, halfFactor(top));
        if (valid && eight % 16 == 0)
          sharedStore(&sm->units[slot][eight / 16], halfUnit(top));
      }
      if (valid) {
        u32 *to = &sm->x[slot][(eight >> 2) * 16 + (eight & 3)];
        sharedStore(to, v.x);
        sharedStore(to + 4, v.y);
        sharedStore(to + 8, v.z);
        sharedStore(to + 12, v.w);
      }
    }
  }
};

} // namespace ni

#define NI_MOE_ROUTE(name, ...)                                                                                        \
  namespace ni {                                                                                                       \
  constexpr MoeRouteSpec name##_spec = __VA_ARGS__;                                                                    \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kRouteThreads, 4)(const float *logits, float *routes) {                                          \
    NI_SHARED(ni::MoeRoute<ni::name##_spec>::Shared, shared);                                                          \
    ni::MoeRoute<ni::name##_spec>::run(logits, routes, shared);                                                        \
  }                                                                                                                    \
  NI_EXPORT(name)

#define NI_MOE_UP(name, ...)                                                                                           \
  namespace ni {                                                                                                       \
  constexpr MoeUpSpec name##_spec = __VA_ARGS__;                                                                       \
  }                                                                                                                    \
  NI_KERNEL(name, ni::linearThreads(ni::moeUpLinear(ni::name##_spec)), ni::moeUpLinear(ni::name##_spec).blocksPerSm)                          \
  (const ni::u8 *bank, const ni::u16 *x, const float *routes, ni::u16 *out, ni::u32 experts, ni::u32 inner) {          \
    NI_SHARED(ni::MoeUp<ni::name##_spec>::Shared, shared);                                                             \
    ni::MoeUp<ni::name##_spec>::run(bank, x, routes, out, experts, inner, shared);                                     \
  }                                                                                                                    \
  NI_EXPORT(name)

#define NI_MOE_DOWN(name, ...)                                                                                         \
  namespace ni {                                                                                                       \
  constexpr MoeDownSpec name##_spec = __VA_ARGS__;                                                                     \
  }                                                                                                                    \
  NI_KERNEL(name, ni::moeDownThreads(ni::name##_spec), 1)                                                              \
  (const ni::u8 *bank, const ni::u16 *products, const float *routes, ni::u16 *out, ni::u32 experts, ni::u32 n) {       \
    NI_SHARED(ni::MoeDown<ni::name##_spec>::Shared, shared);                                                           \
    ni::MoeDown<ni::name##_spec>::run(bank, products, routes, out, experts, n, shared);                                \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_MOE_CUH
