// Every wrapper of codegen/cuda/kernels/ni.cuh in a small kernel of its own, words in and words out: compiled by NVRTC for
// the device and, through test/emulator/ni_host.h, for the emulator. What goes in and what must come out: WrapperCases.cpp.
#include "ni.cuh"

namespace check {
using namespace ni;

struct Matrices {
  u32 words[4][128]; ///< per warp: four 8x8 matrices of 16-bit words
};
struct Exchange {
  Words4 wide[128];
  Words2 pairs[128];
  u32 words[128];
  float floats[128];
};
struct Copies {
  Words4 pieces[3][128];
};

/// Tables [First, First + Count) of lop3, one word each; halves, because a compiler bounds the depth of recursion.
template <u32 First, u32 Count>
NI_FN void everyTable(u32 a, u32 b, u32 c, u32 *out) {
  if constexpr (Count == 1) {
    store(out + First, bitwise<First>(a, b, c));
  } else {
    everyTable<First, Count / 2>(a, b, c, out);
    everyTable<First + Count / 2, Count / 2>(a, b, c, out);
  }
}
} // namespace check

NI_KERNEL(check_identity, 64, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  // The grid is 3 x 2 x 2 (WrapperCases.cpp).
  u32 *mine = out + (((blockZ() * 2 + blockY()) * 3 + blockX()) * 64 + threadIndex()) * 8;
  store(mine + 0, threadIndex());
  store(mine + 1, laneIndex());
  store(mine + 2, warpIndex());
  store(mine + 3, blockX());
  store(mine + 4, blockY());
  store(mine + 5, blockZ());
  store(mine + 6, gridX());
  store(mine + 7, load(in) + count);
}
NI_EXPORT(check_identity)

NI_KERNEL(check_shuffle, 64, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  const u32 t = blockX() * 64 + threadIndex(), v = load(in + 3 * t), from = load(in + 3 * t + 1) & 31u;
  const float f = asFloat(load(in + 3 * t + 2));
  u32 *mine = out + t * 16;
  store(mine + 0, shuffle(v, from));
  store(mine + 1, asBits(shuffle(f, from)));
  store(mine + 2, shuffleXor(v, 1));
  store(mine + 3, shuffleXor(v, 2));
  store(mine + 4, shuffleXor(v, 4));
  store(mine + 5, shuffleXor(v, 8));
  store(mine + 6, shuffleXor(v, 16));
  store(mine + 7, shuffleXor(v, 31));
  store(mine + 8, asBits(shuffleXor(f, 5)));
  store(mine + 9, uniform(load(in + 3 * (t / 32 * 32)) + warpIndex()));
  store(mine + 10, asBits(warpSum(f)));
  store(mine + 11, asBits(warpMaximum(f)));
}
NI_EXPORT(check_shuffle)

NI_KERNEL(check_bitwise, 64, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  const u32 t = blockX() * 64 + threadIndex();
  check::everyTable<0, 256>(load(in + 3 * t), load(in + 3 * t + 1), load(in + 3 * t + 2), out + t * 256);
}
NI_EXPORT(check_bitwise)

NI_KERNEL(check_memory, 64, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  const u32 t = blockX() * 64 + threadIndex();
  const u32 *from = in + 4 * t;
  u32 *mine = out + 40 * t;
  for (u32 i = 0; i < 4; ++i) {
    store(mine + i, static_cast<u32>(load(reinterpret_cast<const u8 *>(from) + i)));
    store(mine + 4 + i, static_cast<u32>(static_cast<i32>(load(reinterpret_cast<const i8 *>(from) + i))));
    store(mine + 8 + i, static_cast<u32>(load(reinterpret_cast<const u16 *>(from) + i)));
    store(reinterpret_cast<u16 *>(mine + 12) + i, load(reinterpret_cast<const u16 *>(from) + 7 - i));
  }
  store(mine + 14, load(from));
  store(reinterpret_cast<i32 *>(mine + 15), load(reinterpret_cast<const i32 *>(from) + 1));
  store(reinterpret_cast<float *>(mine + 16), load(reinterpret_cast<const float *>(from) + 2));
  store(mine + 17, loadStream(from + 3));
  store(reinterpret_cast<Words2 *>(mine + 18), load(reinterpret_cast<const Words2 *>(from)));
  store(reinterpret_cast<Words2 *>(mine + 20), loadStream(reinterpret_cast<const Words2 *>(from) + 1));
  store(reinterpret_cast<Words4 *>(mine + 24), load(reinterpret_cast<const Words4 *>(from)));
  store(reinterpret_cast<Words4 *>(mine + 28), loadStream(reinterpret_cast<const Words4 *>(from)));
}
NI_EXPORT(check_memory)

NI_KERNEL(check_shared, 128, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  NI_SHARED(check::Exchange, shared);
  const u32 t = threadIndex(), other = 127 - t, neighbour = t ^ 7u, at = (blockX() * 128 + t) * 4;
  const Words4 v = load(reinterpret_cast<const Words4 *>(in + at));
  sharedStore(&shared->wide[t], v);
  sharedStore(&shared->pairs[t], Words2{v.y, v.z});
  sharedStore(&shared->words[t], v.w);
  blockSync();
  const Words4 far = sharedLoad(&shared->wide[other]);
  const Words2 pair = sharedLoad(&shared->pairs[other]);
  const u32 word = sharedLoad(&shared->words[other]);
  sharedStore(&shared->floats[t], asFloat(v.x));
  warpSync();
  const float near = sharedLoad(&shared->floats[neighbour]);
  u32 *mine = out + (blockX() * 128 + t) * 8;
  store(reinterpret_cast<Words4 *>(mine), far);
  store(reinterpret_cast<Words2 *>(mine + 4), pair);
  store(mine + 6, word);
  store(mine + 7, asBits(near));
}
NI_EXPORT(check_shared)

/// out: [0, grid) the old values, [grid, 2 grid) data of each block, then the sum by the last block, the counter (0 before).
NI_KERNEL(check_atomic, 32, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  const u32 blocks = gridX(), b = blockX();
  if (threadIndex() == 0) {
    store(out + blocks + b, load(in + b));
    gpuFence();
    const u32 old = atomicIncrement(out + 2 * blocks + 1);
    store(out + b, old);
    if (old == blocks - 1) {
      u32 sum = 0;
      for (u32 i = 0; i < blocks; ++i)
        sum += load(out + blocks + i);
      store(out + 2 * blocks, sum);
    }
  }
}
NI_EXPORT(check_atomic)

/// Per lane: a[4], b0, b1, c[4]; out: d of mmaBf16, d of mmaBf16Set.
NI_KERNEL(check_mma, 128, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  const u32 t = blockX() * 128 + threadIndex();
  const u32 *from = in + 10 * t;
  u32 a[4];
  float d[4], e[4];
  NI_UNROLL
  for (u32 i = 0; i < 4; ++i) {
    a[i] = load(from + i);
    d[i] = asFloat(load(from + 6 + i));
  }
  const u32 b0 = load(from + 4), b1 = load(from + 5);
  mmaBf16(d, a, b0, b1);
  mmaBf16Set(e, a, b0, b1);
  NI_UNROLL
  for (u32 i = 0; i < 4; ++i) {
    store(out + 8 * t + i, asBits(d[i]));
    store(out + 8 * t + 4 + i, asBits(e[i]));
  }
}
NI_EXPORT(check_mma)

/// The same with binary16 operands: two steps of 8 k.
NI_KERNEL(check_mma_f16, 128, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  const u32 t = blockX() * 128 + threadIndex();
  const u32 *from = in + 10 * t;
  float d[4], e[4];
  NI_UNROLL
  for (u32 i = 0; i < 4; ++i)
    d[i] = asFloat(load(from + 6 + i));
  mmaF16(d, load(from), load(from + 1), load(from + 4));
  mmaF16Set(e, load(from + 2), load(from + 3), load(from + 5));
  NI_UNROLL
  for (u32 i = 0; i < 4; ++i) {
    store(out + 8 * t + i, asBits(d[i]));
    store(out + 8 * t + 4 + i, asBits(e[i]));
  }
}
NI_EXPORT(check_mma_f16)

/// Per warp: 128 words of matrices, 32 row numbers (which row each lane names).
NI_KERNEL(check_load_matrix, 128, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  NI_SHARED(check::Matrices, shared);
  const u32 warp = warpIndex(), lane = laneIndex(), t = blockX() * 128 + threadIndex();
  const u32 *from = in + (blockX() * 4 + warp) * 160;
  for (u32 i = 0; i < 4; ++i)
    sharedStore(&shared->words[warp][lane * 4 + i], load(from + lane * 4 + i));
  warpSync();
  const u32 row = load(from + 128 + lane) & 31u;
  u32 straight[4], transposed[4];
  loadMatrix(straight, &shared->words[warp][row * 4]);
  loadMatrixTransposed(transposed, &shared->words[warp][row * 4]);
  NI_UNROLL
  for (u32 i = 0; i < 4; ++i) {
    store(out + 8 * t + i, straight[i]);
    store(out + 8 * t + 4 + i, transposed[i]);
  }
}
NI_EXPORT(check_load_matrix)

/// Two groups per thread, the second with a copy of zeros; read after the wait for each, by itself and by another thread.
NI_KERNEL(check_copy_async, 128, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {
  using namespace ni;
  NI_SHARED(check::Copies, shared);
  const u32 t = threadIndex(), at = (blockX() * 128 + t) * 8;
  copyAsync(&shared->pieces[0][t], in + at);
  copyAsyncCommit();
  copyAsync(&shared->pieces[1][t], in + at + 4);
  copyAsync(&shared->pieces[2][t], in + at, (t & 1u) != 0);
  copyAsyncCommit();
  copyAsyncWait<1>();
  const Words4 first = sharedLoad(&shared->pieces[0][t]);
  copyAsyncWait<0>();
  blockSync();
  const Words4 second = sharedLoad(&shared->pieces[1][127 - t]), third = sharedLoad(&shared->pieces[2][t ^ 3u]);
  u32 *mine = out + (blockX() * 128 + t) * 12;
  store(reinterpret_cast<Words4 *>(mine), first);
  store(reinterpret_cast<Words4 *>(mine + 4), second);
  store(reinterpret_cast<Words4 *>(mine + 8), third);
}
NI_EXPORT(check_copy_async)

// Element by element: words a, b, c in, one word out.
#define CHECK_OP(name, expression)                                                                                     \
  NI_KERNEL(name, 256, 1)(const ni::u32 *in, ni::u32 *out, ni::u32 count) {                                            \
    using namespace ni;                                                                                                \
    const u32 i = blockX() * 256 + threadIndex();                                                                      \
    if (i < count) {                                                                                                   \
      const u32 a = load(in + 3 * i), b = load(in + 3 * i + 1), c = load(in + 3 * i + 2);                              \
      const float x = asFloat(a), y = asFloat(b), z = asFloat(c);                                                      \
      (void)a, (void)b, (void)c, (void)x, (void)y, (void)z;                                                            \
      store(out + i, expression);                                                                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  NI_EXPORT(name)

CHECK_OP(check_f16_to_float, asBits(f16ToFloat(a)))
CHECK_OP(check_float_to_f16, floatToF16(x))
CHECK_OP(check_pack_bf16, packBf16(x, y))
CHECK_OP(check_pack_f16, packF16(x, y))
CHECK_OP(check_float_to_bf16, static_cast<u32>(floatToBf16(x)))
CHECK_OP(check_bf16_to_float, asBits(bf16ToFloat(static_cast<u16>(a))))
CHECK_OP(check_bf16_halves, asBits(bf16Low(a)) ^ (asBits(bf16High(a)) >> 16))
CHECK_OP(check_fma, asBits(fusedMultiplyAdd(x, y, z)))
CHECK_OP(check_no_contraction, asBits(x * y + z))
CHECK_OP(check_divide, asBits(divide(x, y)))
CHECK_OP(check_maximum, asBits(maximum(x, y)))
CHECK_OP(check_magnitude, asBits(magnitude(x)))
CHECK_OP(check_round, asBits(roundToEven(x)))
CHECK_OP(check_fma_bf16x2, fmaBf16x2(a, b, c))
CHECK_OP(check_fma_f16x2, fmaF16x2(a, b, c))
CHECK_OP(check_exp2, asBits(exp2Approx(x)))
CHECK_OP(check_log2, asBits(log2Approx(x)))
CHECK_OP(check_reciprocal, asBits(reciprocalApprox(x)))
CHECK_OP(check_root_reciprocal, asBits(rootReciprocalApprox(x)))
CHECK_OP(check_sigmoid, asBits(sigmoid(x)))
CHECK_OP(check_silu, asBits(silu(x)))
