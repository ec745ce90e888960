// Gated DeltaNet between its projections: causal convolution, the gated delta rule, the gated norm of its heads; and
// the sigmoid gate of attention.
//
// The delta rule sweeps over the state once per token: a sweep applies the update of token t and takes the dot products
// of the rows with k and q of token t + 1 (S q after the update follows from S q before it and q.k). Four rows at a time
// share the loads of k and q; groups of sixteen rows stay in the nearest cache for a block of tokens, and the scalar
// chain between two sweeps of a group runs beside the sweeps of the others. Decays are not applied to the state but
// collected in a factor per block, which is folded in by the last token of the block, or as soon as it becomes small.
#ifndef NINFER_CODEGEN_CPU_KERNELS_HYBRID_H
#define NINFER_CODEGEN_CPU_KERNELS_HYBRID_H

#include "codegen/cpu/kernels/Elementwise.h"
#include "codegen/cpu/kernels/MicroKernels.h"

namespace ninfer::micro {

NI_INLINE F sigmoid(F x) { return div(setF(1.0f), add(setF(1.0f), exp(sub(zeroF(), x)))); }
NI_INLINE F silu(F x) { return div(x, add(setF(1.0f), exp(sub(zeroF(), x)))); }

/// log(1 + exp(x)), relative error below 6e-7 from x = -87 on (0 far below): max(x, 0) + log1p(t), t = exp(-|x|), with
/// log1p(t) = 2 atanh(t / (2 + t)) as its series.
NI_INLINE F softplus(F x) {
  const F positive = max(x, zeroF()), t = exp(sub(sub(x, positive), positive)); // x - 2 max(x, 0) = -|x|
  const F z = div(t, add(setF(2.0f), t)), y = mul(z, z);                        // y <= 1/9
  F p = setF(1.0f / 15);
  p = fma(p, y, setF(1.0f / 13));
  p = fma(p, y, setF(1.0f / 11));
  p = fma(p, y, setF(1.0f / 9));
  p = fma(p, y, setF(1.0f / 7));
  p = fma(p, y, setF(1.0f / 5));
  p = fma(p, y, setF(1.0f / 3));
  p = fma(p, y, setF(1.0f));
  return fma(add(z, z), p, positive);
}

NI_INLINE void sigmoidMul(const float *x, const float *gate, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i += kLanes)
    storeSome(out + i, n - i, mul(loadSome(x + i, n - i), sigmoid(loadSome(gate + i, n - i))));
}

NI_INLINE void gatedHeadNorm(const float *x, const uint16_t *w, const float *gate, float eps, int64_t dim, float *y) {
  const F norm = setF(inverseRms(x, eps, dim));
  for (int64_t i = 0; i < dim; i += kLanes) {
    const F scaled = mul(mul(loadSome(x + i, dim - i), norm), loadBf16Some(w + i, dim - i));
    storeSome(y + i, dim - i, mul(scaled, silu(loadSome(gate + i, dim - i))));
  }
}

/// V registers of channels from one pointer on, at most `n` channels: the taps - 1 last inputs stay in registers.
template <int Taps, int V>
NI_INLINE void convChannels(const float *x, int64_t xStride, int64_t rows, const uint16_t *w, int64_t n, int64_t wStride,
                            float *tail, float *out, int64_t outStride,
                            bool peek) {
  F weight[Taps][V], past[Taps][V]; // past[j]: u of row t - (Taps - 1) + j
#pragma unroll
  for (int j = 0; j < Taps; ++j)
#pragma unroll
    for (int i = 0; i < V; ++i)
      weight[j][i] = loadBf16Some(w + j * wStride + i * kLanes, n - i * kLanes);
#pragma unroll
  for (int j = 0; j < Taps - 1; ++j)
#pragma unroll
    for (int i = 0; i < V; ++i)
      past[j + 1][i] = loadSome(tail + j * wStride + i * kLanes, n - i * kLanes);
#pragma clang loop unroll(disable)
  for (int64_t t = 0; t < rows; ++t) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
#pragma unroll
      for (int j = 0; j < Taps - 1; ++j)
        past[j][i] = past[j + 1][i];
      past[Taps - 1][i] = loadSome(x + t * xStride + i * kLanes, n - i * kLanes);
      F sum = mul(weight[0][i], past[0][i]);
#pragma unroll
      for (int j = 1; j < Taps; ++j)
        sum = fma(weight[j][i], past[j][i], sum);
      storeSome(out + t * outStride + i * kLanes, n - i * kLanes, silu(sum));
    }
  }
  if (peek)
    return;
#pragma unroll
  for (int j = 0; j < Taps - 1; ++j)
#pragma unroll
    for (int i = 0; i < V; ++i)
      storeSome(tail + j * wStride + i * kLanes, n - i * kLanes, past[j + 1][i]);
}

template <int Taps>
NI_INLINE void convTaps(const float *x, int64_t xStride, int64_t rows, const uint16_t *w, int64_t channels,
                        int64_t wStride, float *tail, float *out, int64_t outStride,
                        bool peek) {
  constexpr int V = Taps <= 4 ? 2 : 1;
  int64_t c = 0;
#pragma clang loop unroll(disable)
  for (; c + V * kLanes <= channels; c += V * kLanes)
    convChannels<Taps, V>(x + c, xStride, rows, w + c, V * kLanes, wStride, tail + c, out + c, outStride, peek);
#pragma clang loop unroll(disable)
  for (; c < channels; c += kLanes)
    convChannels<Taps, 1>(x + c, xStride, rows, w + c, channels - c, wStride, tail + c, out + c, outStride, peek);
}

NI_INLINE void causalConv(const float *x, int64_t xStride, int64_t rows, const uint16_t *w, int64_t taps,
                          int64_t channels, int64_t wStride, float *tail, float *out, int64_t outStride,
                          bool peek) {
  switch (taps) {
  case 1: return convTaps<1>(x, xStride, rows, w, channels, wStride, tail, out, outStride, peek);
  case 2: return convTaps<2>(x, xStride, rows, w, channels, wStride, tail, out, outStride, peek);
  case 3: return convTaps<3>(x, xStride, rows, w, channels, wStride, tail, out, outStride, peek);
  case 4: return convTaps<4>(x, xStride, rows, w, channels, wStride, tail, out, outStride, peek);
  case 5: return convTaps<5>(x, xStride, rows, w, channels, wStride, tail, out, outStride, peek);
  case 6: return convTaps<6>(x, xStride, rows, w, channels, wStride, tail, out, outStride, peek);
  case 7: return convTaps<7>(x, xStride, rows, w, channels, wStride, tail, out, outStride, peek);
  default: return convTaps<8>(x, xStride, rows, w, channels, wStride, tail, out, outStride, peek);
  }
}

/// What one token does to every row of the state. The state is `stored * before` on entry; with token t it becomes
/// decay * S + c k^T, kept as stored * factor + (c * inverse) k^T under the new factor (1 after folding).
struct DeltaToken {
  float decay;   ///< factor of the stored state once this token's decay is in
  float factor;  ///< what the sweep multiplies the stored state by: decay when it folds, else 1
  float inverse; ///< 1 when it folds, else 1 / decay
  float beta;
  float dotKq;   ///< k . q of the token
  float fold;    ///< not 0: folds
};

inline constexpr float kSmallestFactor = 0x1p-20f;

/// to[dk, padded with zeros to dkp] = x * scale / sqrt(sum x^2 + 1e-6)
NI_INLINE void deltaNormalise(const float *x, int64_t dk, int64_t dkp, float scale, float *to) {
  F squares[2] = {zeroF(), zeroF()};
  int64_t i = 0;
  for (; i + 2 * kLanes <= dk; i += 2 * kLanes) {
    const F a = loadF(x + i), b = loadF(x + i + kLanes);
    squares[0] = fma(a, a, squares[0]), squares[1] = fma(b, b, squares[1]);
  }
  for (; i < dk; i += kLanes) {
    const F a = loadSome(x + i, dk - i);
    squares[0] = fma(a, a, squares[0]);
  }
  const float total = sum(add(squares[0], squares[1]));
  const F norm = setF(scale / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(total + 1e-6f))));
  for (i = 0; i < dkp; i += kLanes)
    storeF(to + i, i < dk ? mul(loadSome(x + i, dk - i), norm) : zeroF());
}

/// Fills kMicroDeltaTokens rows of q, k [dkp] and their scalars for `count` tokens.
NI_INLINE void deltaPrepare(const float *q, const float *k, int64_t qkStride, const float *a, const float *b,
                            int64_t abStride, float aLog, float dtBias, int64_t count, int64_t dk, int64_t dkp,
                            float *qs, float *ks, DeltaToken *tokens) {
  alignas(64) float as[kMicroDeltaTokens] = {}, bs[kMicroDeltaTokens] = {};
#pragma clang loop unroll(disable)
  for (int64_t t = 0; t < count; ++t)
    as[t] = a[t * abStride], bs[t] = b[t * abStride];
#pragma unroll
  for (int64_t t = 0; t < kMicroDeltaTokens; t += kLanes) {
    const F rate = mul(exp(setF(aLog)), softplus(add(loadF(as + t), setF(dtBias))));
    storeF(as + t, exp(sub(zeroF(), rate)));
    storeF(bs + t, sigmoid(loadF(bs + t)));
  }
  const float scale = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(float(dk))));
  float decay = 1.0f;
#pragma clang loop unroll(disable)
  for (int64_t t = 0; t < count; ++t) {
    decay *= as[t];
    const bool fold = t + 1 == count || decay < kSmallestFactor;
    float *qt = qs + t * dkp, *kt = ks + t * dkp;
    deltaNormalise(q + t * qkStride, dk, dkp, scale, qt);
    deltaNormalise(k + t * qkStride, dk, dkp, 1.0f, kt);
    F dot = zeroF();
    for (int64_t i = 0; i < dkp; i += kLanes)
      dot = fma(loadF(kt + i), loadF(qt + i), dot);
    tokens[t] = {decay, fold ? decay : 1.0f, fold ? 1.0f : 1.0f / decay, bs[t], sum(dot), fold ? 1.0f : 0.0f};
    decay = fold ? 1.0f : decay;
  }
}

/// R values, 1 or 4; the other lanes are 0.
template <int R> NI_INLINE __m128 loadRows(const float *p) { return R == 4 ? _mm_loadu_ps(p) : _mm_load_ss(p); }
template <int R> NI_INLINE void storeRows(float *p, __m128 v) {
  if constexpr (R == 4)
    _mm_storeu_ps(p, v);
  else
    _mm_store_ss(p, v);
}

enum class DeltaSweep { Look, Add, FoldAdd, FoldLast };

/// One register of columns, n of them, of R rows at s.
template <DeltaSweep Kind, int R>
NI_INLINE void deltaColumns(float *s, int64_t dk, int64_t n, float factor, const F (&gain)[4], const float *k,
                            const float *nextK, const float *nextQ, F (&accK)[4], F (&accQ)[4]) {
  // Loaded before the stores below, which the compiler cannot tell from these addresses.
  const F key = loadF(k), otherK = loadF(nextK), otherQ = loadF(nextQ);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    float *at = s + r * dk;
    if constexpr (Kind == DeltaSweep::Look) // one row of a state comes from memory: the rows of the next block
      __builtin_prefetch(at + kMicroDeltaRows * dk, 1);
    F x = loadSome(at, n);
    if constexpr (Kind == DeltaSweep::FoldAdd || Kind == DeltaSweep::FoldLast)
      x = mul(x, setF(factor));
    if constexpr (Kind != DeltaSweep::Look) {
      x = fma(gain[r], key, x);
      storeSome(at, n, x);
    }
    if constexpr (Kind != DeltaSweep::FoldLast) {
      accK[r] = fma(x, otherK, accK[r]);
      accQ[r] = fma(x, otherQ, accQ[r]);
    }
  }
}

/// R rows of the state at s: the update (c[r], k) of this token unless Look, then the dots with the next token's k and
/// q unless FoldLast.
template <DeltaSweep Kind, int R>
NI_INLINE void deltaSweep(float *s, int64_t dk, float factor, const float *c, const float *k, const float *nextK,
                          const float *nextQ, float *dotK, float *dotQ) {
  F accK[4] = {zeroF(), zeroF(), zeroF(), zeroF()}, accQ[4] = {zeroF(), zeroF(), zeroF(), zeroF()}, gain[4];
  if constexpr (Kind != DeltaSweep::Look)
#pragma unroll
    for (int r = 0; r < R; ++r)
      gain[r] = setF(c[r]);
  int64_t d = 0;
#pragma clang loop unroll_count(2)
  for (; d + kLanes <= dk; d += kLanes)
    deltaColumns<Kind, R>(s + d, dk, kLanes, factor, gain, k + d, nextK + d, nextQ + d, accK, accQ);
  if (d < dk)
    deltaColumns<Kind, R>(s + d, dk, dk - d, factor, gain, k + d, nextK + d, nextQ + d, accK, accQ);
  if constexpr (Kind != DeltaSweep::FoldLast) {
    storeRows<R>(dotK, sum4(accK[0], accK[1], accK[2], accK[3]));
    storeRows<R>(dotQ, sum4(accQ[0], accQ[1], accQ[2], accQ[3]));
  }
}

/// Token t of the block for R rows of the state: result, update, and the dots of token t + 1.
template <int R>
NI_INLINE void deltaStep(float *s, int64_t dk, int64_t dkp, const DeltaToken &token, bool last, const float *v,
                         const float *q, const float *k, float *dotK, float *dotQ, float *out) {
  const __m128 decay = _mm_set1_ps(token.decay);
  const __m128 e = _mm_sub_ps(loadRows<R>(v), _mm_mul_ps(decay, loadRows<R>(dotK)));
  const __m128 be = _mm_mul_ps(_mm_set1_ps(token.beta), e);
  const __m128 o = _mm_add_ps(_mm_mul_ps(decay, loadRows<R>(dotQ)), _mm_mul_ps(be, _mm_set1_ps(token.dotKq)));
  storeRows<R>(out, o);
  alignas(16) float c[4];
  _mm_store_ps(c, _mm_mul_ps(be, _mm_set1_ps(token.inverse)));
  if (last)
    deltaSweep<DeltaSweep::FoldLast, R>(s, dk, token.factor, c, k, k, q, dotK, dotQ);
  else if (token.fold != 0)
    deltaSweep<DeltaSweep::FoldAdd, R>(s, dk, token.factor, c, k, k + dkp, q + dkp, dotK, dotQ);
  else
    deltaSweep<DeltaSweep::Add, R>(s, dk, token.factor, c, k, k + dkp, q + dkp, dotK, dotQ);
}

NI_INLINE void gatedDelta(const float *q, const float *k, int64_t qkStride, const float *v, int64_t vStride,
                          const float *a, const float *b, int64_t abStride, float aLog, float dtBias, float *state,
                          int64_t rows, int64_t dk, int64_t dv, float *out, int64_t outStride, void *scratch,
                          bool peek) {
  const int64_t dkp = microRoundUp(dk, 16);
  float *qs = static_cast<float *>(scratch), *ks = qs + kMicroDeltaTokens * dkp;
  auto *tokens = reinterpret_cast<DeltaToken *>(ks + kMicroDeltaTokens * dkp);
  static_assert(sizeof(DeltaToken) <= 32);
  float *copy = reinterpret_cast<float *>(reinterpret_cast<char *>(scratch) + microGatedDeltaScratchBytes(dk, false));
#pragma clang loop unroll(disable)
  for (int64_t t0 = 0; t0 < rows; t0 += kMicroDeltaTokens) {
    const int64_t count = minOf(kMicroDeltaTokens, rows - t0);
    deltaPrepare(q + t0 * qkStride, k + t0 * qkStride, qkStride, a + t0 * abStride, b + t0 * abStride, abStride, aLog,
                 dtBias, count, dk, dkp, qs, ks, tokens);
#pragma clang loop unroll(disable)
    for (int64_t r0 = 0; r0 < dv; r0 += kMicroDeltaRows) {
      const int64_t end = minOf(kMicroDeltaRows, dv - r0), fours = end & -4;
      float *s = state + r0 * dk;
      if (peek) { // one block of tokens: nobody needs the rows afterwards
        for (int64_t i = 0; i < end * dk; i += kLanes)
          storeSome(copy + i, end * dk - i, loadSome(s + i, end * dk - i));
        s = copy;
      }
      alignas(16) float dotK[kMicroDeltaRows], dotQ[kMicroDeltaRows];
#pragma clang loop unroll(disable)
      for (int64_t r = 0; r < fours; r += 4)
        deltaSweep<DeltaSweep::Look, 4>(s + r * dk, dk, 1, nullptr, ks, ks, qs, dotK + r, dotQ + r);
#pragma clang loop unroll(disable)
      for (int64_t r = fours; r < end; ++r)
        deltaSweep<DeltaSweep::Look, 1>(s + r * dk, dk, 1, nullptr, ks, ks, qs, dotK + r, dotQ + r);
#pragma clang loop unroll(disable)
      for (int64_t t = 0; t < count; ++t) {
        const float *vt = v + (t0 + t) * vStride + r0, *qt = qs + t * dkp, *kt = ks + t * dkp;
        float *to = out + (t0 + t) * outStride + r0;
        __builtin_prefetch(vt + kMicroDeltaRows), __builtin_prefetch(to + kMicroDeltaRows, 1); // rows lie too far apart for hardware
#pragma clang loop unroll(disable)
        for (int64_t r = 0; r < fours; r += 4)
          deltaStep<4>(s + r * dk, dk, dkp, tokens[t], t + 1 == count, vt + r, qt, kt, dotK + r, dotQ + r, to + r);
#pragma clang loop unroll(disable)
        for (int64_t r = fours; r < end; ++r)
          deltaStep<1>(s + r * dk, dk, dkp, tokens[t], t + 1 == count, vt + r, qt, kt, dotK + r, dotQ + r, to + r);
      }
    }
  }
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_HYBRID_H
