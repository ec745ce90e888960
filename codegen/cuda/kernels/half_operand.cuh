// bfloat16 numbers as operands of a binary16 mma (sm_75). A segment of a row, or a row of a weight in a block of 128 k, is
// multiplied by the power of two that brings its largest number to 2^15 .. 2^16, and the sums by its reciprocal. So nothing
// overflows; a number down to 2^-32 of the largest stays exact (8 significant bits above the last bit of binary16,
// 2^-24), and what is smaller is off by at most 2^-25, which is 2^-40 of the largest.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_HALF_OPERAND_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_HALF_OPERAND_CUH

#include "ni.cuh"

namespace ni {

/// Largest magnitude of the words as a bfloat16 word; infinity and NaN are larger than numbers.
NI_FN u32 topWord(u32 pair) { return larger(pair & 0x7fffu, pair >> 16 & 0x7fffu); }
NI_FN u32 topWord(const Words4 &v) { return larger(larger(topWord(v.x), topWord(v.y)), larger(topWord(v.z), topWord(v.w))); }
/// Over `Lanes` neighbours.
template <u32 Lanes>
NI_FN u32 topOfLanes(u32 top) {
  NI_UNROLL
  for (u32 mask = Lanes / 2; mask != 0; mask >>= 1)
    top = larger(top, shuffleXor(top, mask));
  return top;
}

/// 2^(15 - exponent of `top`) and its reciprocal. Exponents below -111 are taken for -111, whose factor is the largest.
NI_FN float halfFactor(u32 top) { return asFloat((269u - larger(top >> 7, 16u)) << 23); }
NI_FN float halfUnit(u32 top) { return asFloat((larger(top >> 7, 16u) - 15u) << 23); }
/// Two bfloat16, times the factor, as binary16.
NI_FN u32 halfPair(u32 pair, float factor) { return packF16(bf16Low(pair) * factor, bf16High(pair) * factor); }
NI_FN Words4 halfWords(const Words4 &v, float factor) {
  return {halfPair(v.x, factor), halfPair(v.y, factor), halfPair(v.z, factor), halfPair(v.w, factor)};
}

/// One step of 16 k, either way. `Set`: d = A * B.
template <Operands O, bool Set = false>
NI_FN void multiplyOperands(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (O == Operands::F16) {
    if constexpr (Set)
      mmaF16Set(d, a[0], a[1], b0);
    else
      mmaF16(d, a[0], a[1], b0);
    mmaF16(d, a[2], a[3], b1);
  } else if constexpr (Set) {
    mmaBf16Set(d, a, b0, b1);
  } else {
    mmaBf16(d, a, b0, b1);
  }
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_HALF_OPERAND_CUH
