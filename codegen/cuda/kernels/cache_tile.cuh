// Tiles of the KV cache in shared memory, and their way to the B operand of mma.m16n8k16. Both codecs give exact bfloat16
// numbers: the words themselves, or int8 codes, whose scales join later: key scales the scores per 64 of dim, value scales
// the weights. Cache planes: runtime/abi/kernel_abi.h; the capacity is a multiple of 32.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_CACHE_TILE_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_CACHE_TILE_CUH

#include "attention_spec.cuh"
#include "panel_block.cuh"

namespace ni {

struct CachePlanes {
  const u8 *keys, *values;
  u32 kvHeads, capacity;
};

template <CacheTileSpec S>
struct CacheTile {
  static constexpr bool kInt8 = S.codec == CacheCodec::Int8;
  static constexpr u32 kGroups = cacheGroups(S.dim);
  static constexpr u32 kValuesAt = S.keys * tileKeyStride(S);
  static constexpr u32 kKeyScalesAt = kValuesAt + S.keys * tileValueStride(S);
  static constexpr u32 kValueScalesAt = kKeyScalesAt + tileScaleBytes(S);

  /// Starts the copies of keys and values first .. first + S.keys - 1 of a head; zeros from `end` on.
  template <u32 Threads>
  NI_FN void copy(u8 *tile, const CachePlanes &p, u32 head, u32 first, u32 end) {
    constexpr u32 kChunks = tileRowBytes(S) / 16;
    const u64 row = static_cast<u64>(head) * p.capacity + first;
    for (u32 c = threadIndex(); c < S.keys * kChunks; c += Threads) {
      const u32 key = c / kChunks, at = c % kChunks * 16;
      const bool valid = first + key < end;
      const u64 from = (row + (valid ? key : 0)) * tileRowBytes(S) + at;
      copyAsync(tile + key * tileKeyStride(S) + at, p.keys + from, valid);
      copyAsync(tile + kValuesAt + key * tileValueStride(S) + at, p.values + from, valid);
    }
    if constexpr (kInt8) { // whole tiles lie within the capacity
      const u64 from = cacheScalesAt(p.kvHeads, p.capacity, S.dim) + row * kGroups * 2;
      for (u32 c = threadIndex(); c < tileScaleBytes(S) / 16; c += Threads) {
        copyAsync(tile + kKeyScalesAt + c * 16, p.keys + from + c * 16);
        copyAsync(tile + kValueScalesAt + c * 16, p.values + from + c * 16);
      }
    }
  }

  /// Elements d .. d + 7 of a query vector in the order of keyWords; zeros when not `valid`.
  NI_FN Words4 queryWords(const u16 *query, u32 d, bool valid) {
    Words4 w = {0, 0, 0, 0};
    if (valid)
      w = load(reinterpret_cast<const Words4 *>(query + d));
    if constexpr (kInt8) // elements 0, 2, 1, 3 of four
      w = {evens(w.x, w.y), odds(w.x, w.y), evens(w.z, w.w), odds(w.z, w.w)};
    return w;
  }
  /// Elements d .. d + 7 of a key as four pairs: b[0], b[1] of one mma step, b[2], b[3] of the next. Which k of the step
  /// they are called does not matter, as long as queries and keys agree.
  NI_FN void keyWords(const u8 *tile, u32 key, u32 d, u32 (&b)[4]) {
    if constexpr (kInt8) {
      const Words2 codes = sharedLoad(at<Words2>(tile, key * tileKeyStride(S) + d));
      b[0] = signedBytePair(codes.x); // elements 0, 2
      b[1] = signedBytePair(codes.x >> 8);
      b[2] = signedBytePair(codes.y);
      b[3] = signedBytePair(codes.y >> 8);
    } else {
      const Words4 words = sharedLoad(at<Words4>(tile, key * tileKeyStride(S) + d * 2));
      b[0] = words.x;
      b[1] = words.y;
      b[2] = words.z;
      b[3] = words.w;
    }
  }
  NI_FN float keyScale(const u8 *tile, u32 key, u32 group) { return scaleAt(tile + kKeyScalesAt, key, group); }

  /// Weights of keys `key`, key + 1 as a pair, times the value scales of a group.
  NI_FN u32 weightPair(const u8 *tile, float low, float high, u32 key, u32 group) {
    if constexpr (kInt8) { // beyond the end weights are 0 and scales whatever the cache holds
      low = low == 0.0f ? 0.0f : low * scaleAt(tile + kValueScalesAt, key, group);
      high = high == 0.0f ? 0.0f : high * scaleAt(tile + kValueScalesAt, key + 1, group);
    }
    return packBf16(low, high);
  }
  /// B operands of two column tiles from d on (b[0], b[1] and b[2], b[3]), keys key .. key + 15.
  NI_FN void valueWords(const u8 *tile, u32 key, u32 d, u32 lane, u32 (&b)[4]) {
    if constexpr (kInt8) {
      const u32 g = lane / 4, t = lane % 4;
      NI_UNROLL
      for (u32 half = 0; half < 2; ++half) {
        const u32 row = kValuesAt + (key + 8 * half + 2 * t) * tileValueStride(S) + d + 2 * g;
        const u32 codes = static_cast<u32>(sharedLoad(at<u16>(tile, row))) |
                          static_cast<u32>(sharedLoad(at<u16>(tile, row + tileValueStride(S)))) << 16;
        b[half] = signedBytePair(codes);
        b[2 + half] = signedBytePair(codes >> 8);
      }
    } else {
      const u32 m = lane / 8, row = key + (m & 1) * 8 + lane % 8;
      loadMatrixTransposed(b, tile + kValuesAt + row * tileValueStride(S) + (d + (m >> 1) * 8) * 2);
    }
  }
  /// Where of dim, from the first tile on, sum i of lane t of column tile n lies. bfloat16: in order. int8: of 16, tile
  /// n % 2 has the even or the odd ones.
  NI_FN u32 columnAt(u32 n, u32 t, u32 i) {
    return kInt8 ? n / 2 * 16 + 4 * t + 2 * (i & 1) + n % 2 : n * 8 + 2 * t + (i & 1);
  }
private:
  NI_FN u32 evens(u32 a, u32 b) { return (a & 0xffffu) | b << 16; }
  NI_FN u32 odds(u32 a, u32 b) { return a >> 16 | (b & 0xffff0000u); }
  NI_FN float scaleAt(const u8 *scales, u32 key, u32 group) {
    return f16ToFloat(sharedLoad(at<u16>(scales, (key * kGroups + group) * 2)));
  }
};

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_CACHE_TILE_CUH
