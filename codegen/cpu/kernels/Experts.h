// Sparse mixture of experts: choice of the experts of a row, and the small sums around their linear maps.
#ifndef NINFER_CODEGEN_CPU_KERNELS_EXPERTS_H
#define NINFER_CODEGEN_CPU_KERNELS_EXPERTS_H

#include "codegen/cpu/kernels/Hybrid.h"

namespace ninfer::micro {

/// Slot by slot the largest logit behind the one chosen before, in the order (value falling, number rising). A NaN is
/// behind nothing: then expert 0 stands in, so that a number always names an expert, and the weights are NaN.
NI_INLINE void moeRoute(const float *logits, int64_t experts, int64_t slots, float *out) {
  float last = 0.0f, top = 0.0f;
  int64_t lastAt = -1;
  for (int64_t s = 0; s < slots; ++s) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; ++e) {
      const bool left = lastAt < 0 || logits[e] < last || (logits[e] == last && e > lastAt);
      if (left && (best < 0 || logits[e] > logits[best]))
        best = e;
    }
    best = best < 0 ? 0 : best;
    last = logits[best];
    lastAt = best;
    top = s == 0 ? last : top;
    out[s] = static_cast<float>(best);
    out[slots + s] = last - top;
  }
  float total = 0.0f;
  for (int64_t s = 0; s < slots; s += kLanes) {
    const int64_t count = minOf(kLanes, slots - s);
    storeSome(out + slots + s, count, exp(loadSome(out + slots + s, count)));
    for (int64_t i = 0; i < count; ++i)
      total += out[slots + s + i];
  }
  for (int64_t s = 0; s < slots; ++s)
    out[slots + s] /= total;
}

/// Entries r * slots + s of all routes, sorted by their expert, in rising order within one (a counting sort, so the
/// order does not depend on anything but the routes). What names no expert is taken for expert 0.
NI_INLINE void expertGroups(const float *routes, int64_t rows, int64_t slots, int64_t experts, int64_t *first,
                            int64_t *entries) {
  const auto expertOf = [&](int64_t row, int64_t slot) {
    const float number = routes[row * 2 * slots + slot];
    return number >= 0.0f && number < static_cast<float>(experts) ? static_cast<int64_t>(number) : 0;
  };
  for (int64_t e = 0; e <= experts; ++e)
    first[e] = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t s = 0; s < slots; ++s)
      ++first[expertOf(r, s) + 1];
  for (int64_t e = 0; e < experts; ++e)
    first[e + 1] += first[e];
  // first[e] walks to the end of expert e, which is where e + 1 began.
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t s = 0; s < slots; ++s)
      entries[first[expertOf(r, s)]++] = r * slots + s;
  for (int64_t e = experts; e > 0; --e)
    first[e] = first[e - 1];
  first[0] = 0;
}

NI_INLINE void gatherRows(const float *x, const int64_t *entries, int64_t divisor, int64_t count, int64_t k,
                          float *out) {
  for (int64_t i = 0; i < count; ++i) {
    const float *from = x + entries[i] / divisor * k;
    for (int64_t j = 0; j < k; j += kLanes)
      storeSome(out + i * k + j, k - j, loadSome(from + j, k - j));
  }
}

NI_INLINE void sigmoidScale(const float *x, const float *gate, int64_t n, float *out) {
  const F factor = sigmoid(setF(*gate));
  for (int64_t i = 0; i < n; i += kLanes)
    storeSome(out + i, n - i, mul(loadSome(x + i, n - i), factor));
}

NI_INLINE void scaleAdd(const float *x, float factor, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i += kLanes)
    storeSome(out + i, n - i, fma(loadSome(x + i, n - i), setF(factor), loadSome(out + i, n - i)));
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_EXPERTS_H
