#include "runtime/text/Sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>

namespace ninfer {

namespace {

uint64_t mix(uint64_t z) {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// As a person would write it: no trailing zeros.
std::string shortNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

} // namespace

double counterUniform(uint64_t seed, uint64_t counter) {
  return static_cast<double>(mix(mix(seed) ^ mix(~counter)) >> 11) * 0x1p-53;
}

Result<Sampler> Sampler::create(const SamplingOptions &o) {
  auto bad = [](const std::string &rule, double value) {
    return makeError(ErrorKind::Usage, "NB0708", rule + ", got " + shortNumber(value));
  };
  // Written so that NaN fails too.
  if (!(o.temperature >= 0 && o.temperature <= 100))
    return bad("temperature (--temp) must be in [0, 100]", o.temperature);
  if (o.topK < 0)
    return bad("top_k (--top-k) must not be negative", double(o.topK));
  if (!(o.topP > 0 && o.topP <= 1))
    return bad("top_p (--top-p) must be in (0, 1]", o.topP);
  if (!(o.minP >= 0 && o.minP <= 1))
    return bad("min_p (--min-p) must be in [0, 1]", o.minP);
  if (!(o.repetitionPenalty > 0 && std::isfinite(o.repetitionPenalty)))
    return bad("repetition_penalty (--repeat-penalty) must be positive and finite", o.repetitionPenalty);
  if (!std::isfinite(o.presencePenalty))
    return bad("presence_penalty (--presence-penalty) must be finite", o.presencePenalty);
  if (!std::isfinite(o.frequencyPenalty))
    return bad("frequency_penalty (--frequency-penalty) must be finite", o.frequencyPenalty);
  return Sampler(o);
}

Result<int32_t> Sampler::sample(std::span<const float> row) {
  if (row.empty())
    return makeError(ErrorKind::Failed, "NB0705", "no logits to sample from");
  for (size_t i = 0; i < row.size(); ++i)
    if (std::isnan(row[i]) || row[i] == INFINITY)
      return makeError(ErrorKind::Failed, "NB0705",
                       "logit of token " + std::to_string(i) + " is not a number below infinity");
  std::span<const float> logits = row;
  const SamplingOptions &o = options_;
  if (o.repetitionPenalty != 1.0 || o.presencePenalty != 0.0 || o.frequencyPenalty != 0.0) {
    penalised_.assign(row.begin(), row.end());
    for (auto [token, count] : counts_) {
      if (token < 0 || static_cast<size_t>(token) >= penalised_.size())
        continue;
      double v = penalised_[token];
      v = v > 0 ? v / o.repetitionPenalty : v * o.repetitionPenalty;
      v -= o.presencePenalty + o.frequencyPenalty * static_cast<double>(count);
      penalised_[token] = static_cast<float>(v);
    }
    logits = penalised_;
  }
  if (o.temperature == 0.0)
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());

  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  auto before = [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  size_t kept = o.topK > 0 ? std::min<size_t>(o.topK, logits.size()) : logits.size();
  std::partial_sort(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(kept), order_.end(), before);

  double best = logits[order_[0]];
  if (best == -INFINITY)
    return makeError(ErrorKind::Failed, "NB0705", "every logit is minus infinity");
  std::vector<double> weight(kept);
  double total = 0;
  for (size_t i = 0; i < kept; ++i)
    total += weight[i] = std::exp((logits[order_[i]] - best) / o.temperature);
  while (kept > 1 && weight[kept - 1] < o.minP) // relative to the best weight, which is 1
    --kept;
  if (o.topP < 1.0) {
    double sum = 0;
    size_t n = 0;
    while (n < kept && sum < o.topP * total)
      sum += weight[n++];
    kept = std::max<size_t>(n, 1);
  }
  double sum = std::accumulate(weight.begin(), weight.begin() + static_cast<ptrdiff_t>(kept), 0.0);
  double u = counterUniform(o.seed, draws_++) * sum;
  for (size_t i = 0; i + 1 < kept; ++i) {
    u -= weight[i];
    if (u < 0)
      return order_[i];
  }
  return order_[kept - 1];
}

} // namespace ninfer
