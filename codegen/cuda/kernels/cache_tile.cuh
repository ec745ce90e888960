// Tiles of the KV cache in shared memory, and their way to the B operand of mma.m16n8k16. Both codecs give exact bfloat16
// numbers: the words themselves, or int8 codes, whose scales join later: key scales the scores per 64 of dim, value scales
// the weights. With binary16 operands bfloat16 rows are scaled numbers too, by powers of two (half_operand.cuh), and weights
// are brought into its range tile by tile. Cache planes: runtime/abi/kernel_abi.h; the capacity is a multiple of 32.
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
  static constexpr bool kInt8 = S.codec == CacheCodec::Int8, kHalf = S.operands == Operands::F16;
  static constexpr bool kScaled = kInt8 || kHalf;
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
      const bool valid = first + key < end && at < cacheRowBytes(S);
      const u64 from = valid ? (row + key) * cacheRowBytes(S) + at : 0;
      u8 *keyTo = tile + key * tileKeyStride(S) + at, *valueTo = tile + kValuesAt + key * tileValueStride(S) + at;
      if constexpr (kHalf && !kInt8) {
        const u32 group = key * kGroups + at / (kCacheGroup * 2);
        scaleEight(keyTo, tile + kKeyScalesAt, group, p.keys + from, valid, at);
        scaleEight(valueTo, tile + kValueScalesAt, group, p.values + from, valid, at);
      } else {
        copyAsync(keyTo, p.keys + from, valid);
        copyAsync(valueTo, p.values + from, valid);
      }
    }
    if constexpr (kInt8) { // whole tiles lie within the capacity
      const u64 from = cacheScalesAt(p.kvHeads, p.capacity, S.dim) + row * kGroups * 2;
      if constexpr (kHalf) {
        for (u32 c = threadIndex(); c < S.keys * kGroups; c += Threads) {
          const bool valid = first + c / kGroups < end;
          sharedStore(reinterpret_cast<float *>(tile + kKeyScalesAt) + c, valid ? halfScale(p.keys + from, c) : 0.0f);
          sharedStore(reinterpret_cast<float *>(tile + kValueScalesAt) + c, valid ? halfScale(p.values + from, c) : 0.0f);
        }
      } else {
        for (u32 c = threadIndex(); c < tileScaleBytes(S) / 16; c += Threads) {
          copyAsync(tile + kKeyScalesAt + c * 16, p.keys + from + c * 16);
          copyAsync(tile + kValueScalesAt + c * 16, p.values + from + c * 16);
        }
      }
    }
  }

  /// Elements d .. d + 7 of a query vector in the order of keyWords; zeros when not `valid` and beyond dim.
  NI_FN Words4 queryWords(const u16 *query, u32 d, bool valid) {
    Words4 w = {0, 0, 0, 0};
    if (valid && d < S.dim)
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
      b[0] = signedBytePair<S.operands>(codes.x); // elements 0, 2
      b[1] = signedBytePair<S.operands>(codes.x >> 8);
      b[2] = signedBytePair<S.operands>(codes.y);
      b[3] = signedBytePair<S.operands>(codes.y >> 8);
    } else {
      const Words4 words = sharedLoad(at<Words4>(tile, key * tileKeyStride(S) + d * 2));
      b[0] = words.x;
      b[1] = words.y;
      b[2] = words.z;
      b[3] = words.w;
    }
  }
  NI_FN float keyScale(const u8 *tile, u32 key, u32 group) { return scaleAt(tile + kKeyScalesAt, key, group); }

  /// F16: the power of two that brings the largest value scale of a group to 2^14 .. 2^15, and its reciprocal. Weights are at
  /// most 1, so their products with scale and power fit; those below 2^-29 of the largest have an error of at most
  /// 2^-25, 2^-39 of it.
  struct Range {
    float factor, unit;
  };
  NI_FN Range rangeOf(const u8 *tile, u32 group, u32 lane) {
    if constexpr (!kHalf) {
      return {1.0f, 1.0f};
    } else {
      const float top = warpMaximum(lane < S.keys ? scaleAt(tile + kValueScalesAt, lane, group) : 0.0f);
      const u32 exponent = larger(asBits(top) >> 23, 15u);
      return {asFloat((268u - exponent) << 23), asFloat((exponent - 14u) << 23)};
    }
  }
  /// Weights of keys `key`, key + 1 as a pair, times the value scales of a group.
  NI_FN u32 weightPair(const u8 *tile, float low, float high, u32 key, u32 group, const Range &range) {
    if constexpr (kScaled) { // beyond the end weights are 0 and scales whatever the cache holds
      low = low == 0.0f ? 0.0f : low * (scaleAt(tile + kValueScalesAt, key, group) * range.factor);
      high = high == 0.0f ? 0.0f : high * (scaleAt(tile + kValueScalesAt, key + 1, group) * range.factor);
    }
    if constexpr (kHalf)
      return packF16(low, high);
    else
      return packBf16(low, high);
  }
  /// sums += weights times two column tiles of values, which weightPair's range scales.
  NI_FN void add(float (&first)[4], float (&second)[4], const u32 (&weights)[4], const u32 (&b)[4], const Range &range) {
    if constexpr (kHalf) {
      float part[2][4];
      multiplyOperands<S.operands, true>(part[0], weights, b[0], b[1]);
      multiplyOperands<S.operands, true>(part[1], weights, b[2], b[3]);
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        first[i] = fusedMultiplyAdd(part[0][i], range.unit, first[i]);
        second[i] = fusedMultiplyAdd(part[1][i], range.unit, second[i]);
      }
    } else {
      mmaBf16(first, weights, b[0], b[1]);
      mmaBf16(second, weights, b[2], b[3]);
    }
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
        b[half] = signedBytePair<S.operands>(codes);
        b[2 + half] = signedBytePair<S.operands>(codes >> 8);
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
    if constexpr (kHalf)
      return sharedLoad(at<float>(scales, (key * kGroups + group) * 4));
    else
      return f16ToFloat(sharedLoad(at<u16>(scales, (key * kGroups + group) * 2)));
  }
  /// Scale `index` of the binary16 ones at `scales`.
  NI_FN float halfScale(const u8 *scales, u32 index) { return f16ToFloat(load(at<u16>(scales, index * 2))); }
  /// Eight bfloat16 numbers as binary16; 8 lanes have the 64 of a group.
  NI_FN void scaleEight(u8 *to, u8 *scales, u32 group, const u8 *from, bool valid, u32 place) {
    Words4 v = {0, 0, 0, 0};
    if (valid)
      v = load(reinterpret_cast<const Words4 *>(from));
    const u32 top = topOfLanes<8>(topWord(v));
    sharedStore(reinterpret_cast<Words4 *>(to), halfWords(v, halfFactor(top)));
    if (place % (kCacheGroup * 2) == 0)
      sharedStore(reinterpret_cast<float *>(scales) + group, valid ? halfUnit(top) : 0.0f);
  }
};

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_CACHE_TILE_CUH
