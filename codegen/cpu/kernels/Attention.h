// Softmax attention over a KV cache of one kv head, in blocks of positions with a running maximum.
//
// Up to kMicroAttentionQueries queries take a block in turn, one to four at a time, so that it comes from memory once.
// Three loops over a block: scores, weights, sums of values. A block is read as streams far apart with a prefetch in each of
// them, which reaches 1.3 times the bandwidth of one stream; one without prefetch has half of it.
//
// Every query is computed in the same order whatever queries are beside it, so that a position has the same bits alone
// and among others: what a block is depends on the number of a position only.
#ifndef NINFER_CODEGEN_CPU_KERNELS_ATTENTION_H
#define NINFER_CODEGEN_CPU_KERNELS_ATTENTION_H

#include "codegen/cpu/kernels/MicroKernels.h"
#include "codegen/cpu/kernels/Vec.h"

namespace ninfer::micro {

inline constexpr int64_t kChannels = 2 * kLanes; ///< channels that are read together
inline constexpr float kMasked = -__builtin_inff();

// The keys or values of one kv head. open() makes a block ready, at(p) is the row of its position p; read() are kChannels
// channels from d on in two registers, readPart() the same with the channels from n on 0. Which channel is in which lane
// is the cache's choice: toLanes() brings a pair of registers of consecutive channels there, fromLanes() back.
struct Bf16Cache {
  const uint16_t *words;
  using Row = const uint16_t *;
  __attribute__((always_inline)) Bf16Cache open(int64_t p0, int64_t, int64_t dim, float *) const {
    return {words + p0 * dim};
  }
  __attribute__((always_inline)) Row at(int64_t p, int64_t dim) const { return words + p * dim; }
  __attribute__((always_inline)) const void *line(int64_t p, int64_t dim) const { return words + p * dim; }
  static constexpr int64_t rowBytes(int64_t dim) { return dim * 2; }
  // Two channels of a 32-bit word: no shuffle, one operation each.
  NI_INLINE void split(I v, F &a, F &b) { a = castF(sll32<16>(v)), b = castF(highWords(v)); }
  NI_INLINE void read(Row row, int64_t d, F &a, F &b) { split(load(row + d), a, b); }
  NI_INLINE void readPart(Row row, int64_t d, int64_t n, F &a, F &b) { split(loadWordsPart(row + d, n), a, b); }
  NI_INLINE void toLanes(F lo, F hi, F &a, F &b) { deinterleave(lo, hi, a, b); }
  NI_INLINE void fromLanes(F a, F b, F &lo, F &hi) { interleave(a, b, lo, hi); }
};
struct F32Cache {
  const float *words;
  using Row = const float *;
  __attribute__((always_inline)) F32Cache open(int64_t p0, int64_t, int64_t dim, float *) const {
    return {words + p0 * dim};
  }
  __attribute__((always_inline)) Row at(int64_t p, int64_t dim) const { return words + p * dim; }
  __attribute__((always_inline)) const void *line(int64_t p, int64_t dim) const { return words + p * dim; }
  static constexpr int64_t rowBytes(int64_t dim) { return dim * 4; }
  NI_INLINE void read(Row row, int64_t d, F &a, F &b) { a = loadF(row + d), b = loadF(row + d + kLanes); }
  NI_INLINE void readPart(Row row, int64_t d, int64_t n, F &a, F &b) {
    a = loadSome(row + d, n);
    b = n > kLanes ? loadPart(row + d + kLanes, n - kLanes) : zeroF();
  }
  NI_INLINE void toLanes(F lo, F hi, F &a, F &b) { a = lo, b = hi; }
  NI_INLINE void fromLanes(F a, F b, F &lo, F &hi) { lo = a, hi = b; }
};
struct Int8Cache {
  const int8_t *codes;
  const uint16_t *stored;
  const float *scales; ///< of the open block
  struct Row {
    const int8_t *codes;
    const float *scales;
  };
  static_assert(kMicroKvGroup % kChannels == 0);
  NI_INLINE int64_t groups(int64_t dim) { return microRoundUp(dim, kMicroKvGroup) / kMicroKvGroup; }
  __attribute__((always_inline)) Int8Cache open(int64_t p0, int64_t count, int64_t dim, float *decoded) const {
    const uint16_t *from = stored + p0 * groups(dim);
    const int64_t n = count * groups(dim);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      storeF(decoded + i, loadF16(from + i, kLanes));
    for (; i < n; ++i)
      decoded[i] = f16ToFloat(from[i]);
    return {codes + p0 * dim, from, decoded};
  }
  __attribute__((always_inline)) Row at(int64_t p, int64_t dim) const {
    return {codes + p * dim, scales + p * groups(dim)};
  }
  __attribute__((always_inline)) const void *line(int64_t p, int64_t dim) const { return codes + p * dim; }
  static constexpr int64_t rowBytes(int64_t dim) { return dim; }
  NI_INLINE void read(const Row &row, int64_t d, F &a, F &b) { readPart(row, d, kChannels, a, b); }
  NI_INLINE void readPart(const Row &row, int64_t d, int64_t n, F &a, F &b) {
    const F scale = setF(row.scales[d / kMicroKvGroup]);
    a = mul(toFloat(loadS8As32(row.codes + d, n)), scale);
    b = n > kLanes ? mul(toFloat(loadS8As32(row.codes + d + kLanes, n - kLanes)), scale) : zeroF();
  }
  NI_INLINE void toLanes(F lo, F hi, F &a, F &b) { a = lo, b = hi; }
  NI_INLINE void fromLanes(F a, F b, F &lo, F &hi) { lo = a, hi = b; }
};

/// f(d, read(row, a, b)) for every pair of channels d of [from, to).
template <class C, class Step> NI_INLINE void forPairs(int64_t from, int64_t to, int64_t dim, const Step &step) {
  for (int64_t d = from; d < minOf(to, dim); d += kChannels)
    if (d + kChannels <= dim)
      step(d, [&](const typename C::Row &row, F &a, F &b) __attribute__((always_inline)) { C::read(row, d, a, b); });
    else
      step(d, [&](const typename C::Row &row, F &a, F &b)
                  __attribute__((always_inline)) { C::readPart(row, d, dim - d, a, b); });
}

/// Where the queries of a pass and their sums are, in the lanes of the cache; query i is at i * padded.
struct AttentionPass {
  float *queries; ///< times the scale
  float *sums;    ///< of weight * value
  float *top;     ///< largest score so far
  float *total;   ///< sum of weights
  float *scores;  ///< [4][block], then weights
  int64_t dim, padded;
};

template <int Q> inline constexpr int kSlots = Q == 3 ? 4 : Q; ///< queries of a tile of scores

/// A block is read as far streams: kStretch positions apart, the rows of all streams in turn. Scores and weights lie in that
/// order, entry e is position placeOf(e) of the block, in every block and however many positions are present.
inline constexpr int64_t kStreams = 8, kStretch = kMicroAttentionBlock / kStreams;
NI_INLINE int64_t placeOf(int64_t e) { return e % kStreams * kStretch + e / kStreams; }

/// scores[i * block + e + j] = q_i . k_row(j) for kLanes / kSlots<Q> rows.
template <class C, int Q, class RowOf>
NI_INLINE F scoreTile(const AttentionPass &s, const float *q, const RowOf &rowOf) {
  constexpr int P = kLanes / kSlots<Q>;
  typename C::Row row[P];
  staticFor<P>([&](auto j) __attribute__((always_inline)) { row[j.value] = rowOf(j.value); });
  F acc[kLanes];
  staticFor<kLanes>([&](auto j) __attribute__((always_inline)) { acc[j.value] = zeroF(); });
  forPairs<C>(0, s.dim, s.dim, [&](int64_t d, const auto &read) __attribute__((always_inline)) {
    F x[Q], y[Q];
    staticFor<Q>([&](auto i) __attribute__((always_inline)) {
      x[i.value] = loadF(q + i.value * s.padded + d), y[i.value] = loadF(q + i.value * s.padded + d + kLanes);
    });
    staticFor<P>([&](auto j) __attribute__((always_inline)) {
      F a, b;
      read(row[j.value], a, b);
      staticFor<Q>([&](auto i) __attribute__((always_inline)) {
        F &sum = acc[i.value * P + j.value];
        sum = fma(y[i.value], b, fma(x[i.value], a, sum));
      });
    });
  });
  return sumLanes(acc);
}

NI_INLINE void prefetchRow(const void *line, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64)
    prefetch(static_cast<const char *>(line) + at);
}

/// Queries first, ..., first + Q - 1 of the pass, the first of which attends `length` positions of the block and query i
/// of it more(i) more (negative and beyond the block allowed). ahead: they are the first to read the block.
template <class C, int Q, class More>
NI_INLINE void attendBlock(const AttentionPass &s, int64_t first, const C &k, const C &v, bool ahead, int64_t length,
                           int64_t count, const More &more) {
  const float *q = s.queries + first * s.padded;
  constexpr int P = kLanes / kSlots<Q>;
  // 1 KiB ahead in its stream; from the end of a stream of keys on to its values, from there to the keys of the next block.
  const int64_t rowBytes = C::rowBytes(s.dim), distance = rowBytes >= 1024 ? 1 : 1024 / rowBytes;
  const bool far = count > kMicroAttentionBlock / 2;
  if (far) {
#pragma clang loop unroll(disable)
    for (int64_t e = 0; e < kMicroAttentionBlock; e += P) {
      if (ahead) {
        staticFor<P>([&](auto j) __attribute__((always_inline)) {
          const int64_t t = (e + j.value) / kStreams + distance, base = (e + j.value) % kStreams * kStretch;
          prefetchRow(t < kStretch ? k.line(base + t, s.dim) : v.line(base + t - kStretch, s.dim), rowBytes);
        });
      }
      storeParts<kSlots<Q>>(s.scores + e, kMicroAttentionBlock, scoreTile<C, Q>(s, q, [&](int j) __attribute__((always_inline)) {
        return k.at(minOf(placeOf(e + j), count - 1), s.dim);
      }));
    }
  } else {
#pragma clang loop unroll(disable)
    for (int64_t p = 0; p < count; p += P) {
      if (ahead)
        prefetchRow(v.line(p, s.dim), P * rowBytes);
      alignas(64) float tile[kLanes];
      storeF(tile, scoreTile<C, Q>(s, q, [&](int j) __attribute__((always_inline)) {
        return k.at(minOf(p + j, count - 1), s.dim);
      }));
      for (int i = 0; i < Q; ++i)
        for (int64_t j = 0; j < minOf(P, count - p); ++j)
          s.scores[i * kMicroAttentionBlock + (p + j) % kStretch * kStreams + (p + j) / kStretch] = tile[i * P + j];
    }
  }

  const int64_t entries = microRoundUp(minOf(count, kStretch) * kStreams, kLanes);
  alignas(64) int32_t places[kLanes];
  for (int e = 0; e < kLanes; ++e)
    places[e] = int(placeOf(e));
  float factor[Q];
#pragma unroll
  for (int i = 0; i < Q; ++i) {
    float *scores = s.scores + i * kMicroAttentionBlock;
    const int64_t valid = minOf(length + more(i), count);
    I place = load(places);
    F blockTop = setF(s.top[first + i]);
#pragma clang loop unroll(disable)
    for (int64_t e = 0; e < entries; e += kLanes) {
      const F value = selectPlaces(place, valid, loadF(scores + e), setF(kMasked));
      place = add32(place, set32(int(kLanes / kStreams)));
      storeF(scores + e, value);
      blockTop = max(blockTop, value);
    }
    const float top = maxLane(blockTop);
    F blockTotal = zeroF();
#pragma clang loop unroll(disable)
    for (int64_t e = 0; e < entries; e += kLanes) {
      const F weight = exp(sub(loadF(scores + e), setF(top)));
      storeF(scores + e, weight);
      blockTotal = add(blockTotal, weight);
    }
    factor[i] = firstLane(exp(setF(s.top[first + i] - top)));
    s.total[first + i] = s.total[first + i] * factor[i] + sum(blockTotal);
    s.top[first + i] = top;
  }

  constexpr int D = (kLanes == 16 ? 8 : 4) / (Q == 1 ? 2 : kSlots<Q>); // pairs of registers of the head at a time
#pragma clang loop unroll(disable)
  for (int64_t d0 = 0; d0 < s.dim; d0 += D * kChannels) {
    F acc[Q][2 * D];
    float *sums = s.sums + first * s.padded + d0;
    staticFor<Q>([&](auto i) __attribute__((always_inline)) {
      staticFor<2 * D>([&](auto j) __attribute__((always_inline)) {
        acc[i.value][j.value] = d0 + j.value / 2 * kChannels < s.dim
                                    ? mul(loadF(sums + i.value * s.padded + j.value * kLanes), setF(factor[i.value]))
                                    : zeroF();
      });
    });
#pragma clang loop unroll(disable)
    for (int64_t t = 0; t < minOf(count, kStretch); ++t) {
      const float *weights = s.scores + t * kStreams;
#pragma clang loop unroll(disable)
      for (int64_t p = t; p < count; p += kStretch, ++weights) {
        if (ahead && far && d0 == 0)
          prefetchRow(t + distance < kStretch ? v.line(p + distance, s.dim)
                                              : k.line(p + distance - kStretch + kMicroAttentionBlock, s.dim),
                      rowBytes);
        const typename C::Row row = v.at(p, s.dim);
        F weight[Q];
        staticFor<Q>([&](auto i) __attribute__((always_inline)) {
          weight[i.value] = setF(weights[i.value * kMicroAttentionBlock]);
        });
        staticFor<D>([&](auto j) __attribute__((always_inline)) {
          const int64_t d = d0 + j.value * kChannels;
          if (d >= s.dim)
            return;
          F a, b;
          if (d + kChannels <= s.dim)
            C::read(row, d, a, b);
          else
            C::readPart(row, d, s.dim - d, a, b);
          staticFor<Q>([&](auto i) __attribute__((always_inline)) {
            F *pair = acc[i.value] + 2 * j.value;
            pair[0] = fma(weight[i.value], a, pair[0]), pair[1] = fma(weight[i.value], b, pair[1]);
          });
        });
      }
    }
    staticFor<Q>([&](auto i) __attribute__((always_inline)) {
      staticFor<2 * D>([&](auto j) __attribute__((always_inline)) {
        if (d0 + j.value / 2 * kChannels < s.dim)
          storeF(sums + i.value * s.padded + j.value * kLanes, acc[i.value][j.value]);
      });
    });
  }
}

template <class C>
NI_INLINE void attention(const float *q, int64_t qStride, int64_t rows, int64_t heads, const C &k, const C &v,
                         int64_t length, int64_t dim, float scale, float *out, int64_t outStride, void *scratch) {
  constexpr int64_t kQueries = kMicroAttentionQueries, kBlock = kMicroAttentionBlock;
  static_assert(kMicroAttentionPad % kChannels == 0 && kBlock % kLanes == 0);
  AttentionPass s;
  s.dim = dim, s.padded = microRoundUp(dim, kMicroAttentionPad);
  s.scores = static_cast<float *>(scratch);
  s.top = s.scores + 4 * kBlock;
  s.total = s.top + kQueries;
  s.queries = s.total + kQueries;
  s.sums = s.queries + kQueries * s.padded;
  float *keyScales = s.sums + kQueries * s.padded;
  float *valueScales = keyScales + kBlock * (microRoundUp(dim, kMicroKvGroup) / kMicroKvGroup);

  const int64_t all = rows * heads;
#pragma clang loop unroll(disable)
  for (int64_t begin = 0; begin < all; begin += kQueries) {
    const int64_t queries = minOf(kQueries, all - begin);
    const auto rowOf = [&](int64_t i) __attribute__((always_inline)) { return (begin + i) / heads; };
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < queries; ++i) {
      const float *from = q + rowOf(i) * qStride + (begin + i) % heads * dim;
      s.top[i] = kMasked, s.total[i] = 0.0f;
#pragma clang loop unroll(disable)
      for (int64_t d = 0; d < s.padded; d += kChannels) {
        const int64_t n = dim - d;
        F lo = n > 0 ? loadSome(from + d, n) : zeroF(), hi = n > kLanes ? loadSome(from + d + kLanes, n - kLanes) : zeroF();
        C::toLanes(mul(lo, setF(scale)), mul(hi, setF(scale)), lo, hi);
        storeF(s.queries + i * s.padded + d, lo), storeF(s.queries + i * s.padded + d + kLanes, hi);
        storeF(s.sums + i * s.padded + d, zeroF()), storeF(s.sums + i * s.padded + d + kLanes, zeroF());
      }
    }
    const int64_t longest = length + rowOf(queries - 1);
#pragma clang loop unroll(disable)
    for (int64_t p0 = 0; p0 < longest; p0 += kBlock) {
      const int64_t present = minOf(kBlock, longest - p0);
      const C keys = k.open(p0, present, dim, keyScales), values = v.open(p0, present, dim, valueScales);
      bool ahead = true;
      int64_t i = 0;
      const auto turn = [&](auto size) __attribute__((always_inline)) {
        constexpr int Q = decltype(size)::value;
        const int64_t row = rowOf(i), reach = length + rowOf(i + Q - 1) - p0;
        if (reach > 0) {
          attendBlock<C, Q>(s, i, keys, values, ahead, length + row - p0, minOf(kBlock, reach),
                            [&](int j) __attribute__((always_inline)) { return rowOf(i + j) - row; });
          ahead = false;
        }
        i += Q;
      };
#pragma clang loop unroll(disable)
      while (i + 4 <= queries)
        turn(Constant<4>{});
      if (queries - i == 3)
        turn(Constant<3>{});
      else if (queries - i == 2)
        turn(Constant<2>{});
      else if (queries - i == 1)
        turn(Constant<1>{});
    }
#pragma clang loop unroll(disable)
    for (int64_t i = 0; i < queries; ++i) {
      float *to = out + rowOf(i) * outStride + (begin + i) % heads * dim;
      const F norm = setF(1.0f / s.total[i]);
#pragma clang loop unroll(disable)
      for (int64_t d = 0; d < dim; d += kChannels) {
        F lo, hi;
        C::fromLanes(mul(loadF(s.sums + i * s.padded + d), norm), mul(loadF(s.sums + i * s.padded + d + kLanes), norm), lo, hi);
        storeSome(to + d, dim - d, lo);
        if (dim - d > kLanes)
          storeSome(to + d + kLanes, dim - d - kLanes, hi);
      }
    }
  }
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_ATTENTION_H
