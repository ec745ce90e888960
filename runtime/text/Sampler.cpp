#include "runtime/text/Sampler.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstdio>
#include <functional>
#include <string>

namespace ninfer {

namespace {

/// Tokens of one largest logit: what is far below the cut is passed over in blocks of this size.
constexpr size_t kBlock = 64;
constexpr size_t kLanes = 16; ///< independent running values, so that loops over a block become vector code

size_t blocksOf(size_t tokens) { return (tokens + kBlock - 1) / kBlock; }

/// exp((x - best) / temperature) = 2^t, 0 below 2^-126. `scale` is log2(e) / temperature. Relative error below 1.3e-7 |t| + 4e-7: three roundings of
/// t to 24 bits; a Taylor series of degree 7 in its fraction times ln 2, which is at most 0.35 (5e-9), and the roundings of its evaluation.
/// Returns their sum.
[[gnu::always_inline]] inline double exponentialsBody(const float *x, size_t count, float best, float scale, float *out) {
  for (size_t i = 0; i < count; ++i) {
    const float exponent = (x[i] - best) * scale;
    const float t = exponent > -126.0f ? exponent : -126.0f;
    const int32_t whole = int32_t(t - 0.5f); // to nearest: t <= 0
    const float f = (t - float(whole)) * 0.69314718f;
    const float series =
        1 + f * (1 + f * (1.0f / 2 + f * (1.0f / 6 + f * (1.0f / 24 + f * (1.0f / 120 + f * (1.0f / 720 + f * (1.0f / 5040)))))));
    const float power = std::bit_cast<float>((whole + 127) << 23);
    out[i] = exponent > -126.0f ? series * power : 0.0f;
  }
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += out[i + lane];
  for (; i < count; ++i)
    sums[0] += out[i];
  double sum = 0;
  for (float lane : sums)
    sum += double(lane);
  return sum;
}

// Wider vectors, the same operations in the same order: no fused ones, so the same bits.
#if defined(__x86_64__)
[[gnu::target("avx2")]] double exponentialsAvx2(const float *x, size_t count, float best, float scale, float *out) {
  return exponentialsBody(x, count, best, scale, out);
}
#endif

double exponentials(const float *x, size_t count, float best, float scale, float *out) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2)
    return exponentialsAvx2(x, count, best, scale, out);
#endif
  return exponentialsBody(x, count, best, scale, out);
}

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

void Sampler::accept(int32_t token) {
  if (token < 0 || !penalises())
    return;
  if (size_t(token) >= counts_.size())
    counts_.resize(size_t(token) + 1);
  if (counts_[size_t(token)]++ == 0)
    seen_.push_back(token);
}

/// Address space only: pages become resident as they are written.
void Sampler::reserve(size_t vocabulary) {
  blockMax_.reserve(blocksOf(vocabulary));
  maxima_.reserve(blocksOf(vocabulary));
  blockSum_.reserve(blocksOf(vocabulary));
  candidates_.reserve(vocabulary);
  weights_.reserve(blocksOf(vocabulary) * kBlock);
  if (penalises()) {
    penalised_.reserve(vocabulary);
    counts_.resize(std::max(counts_.size(), vocabulary));
    seen_.reserve(counts_.size());
  }
}

float Sampler::scan(std::span<const float> row) {
  blockMax_.resize(blocksOf(row.size()));
  float largest = -INFINITY;
  bool legal = true;
  for (size_t block = 0; block < blockMax_.size(); ++block) {
    const auto values = row.subspan(block * kBlock, std::min(kBlock, row.size() - block * kBlock));
    float best[kLanes];
    int32_t bad[kLanes] = {}; // as wide as a float
    std::fill(best, best + kLanes, -INFINITY);
    size_t i = 0;
    for (; i + kLanes <= values.size(); i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float v = values[i + lane];
        best[lane] = v > best[lane] ? v : best[lane];
        bad[lane] |= v < INFINITY ? 0 : 1;
      }
    for (; i < values.size(); ++i) {
      best[0] = values[i] > best[0] ? values[i] : best[0];
      bad[0] |= values[i] < INFINITY ? 0 : 1;
    }
    blockMax_[block] = *std::max_element(best, best + kLanes);
    largest = std::max(largest, blockMax_[block]);
    legal &= std::find(bad, bad + kLanes, 1) == bad + kLanes;
  }
  return legal ? largest : NAN;
}

void Sampler::collect(std::span<const float> row, double least) {
  candidates_.clear();
  for (size_t block = 0; block < blockMax_.size(); ++block) {
    if (blockMax_[block] < least)
      continue;
    const size_t end = std::min(row.size(), (block + 1) * kBlock);
    for (size_t i = block * kBlock; i < end; ++i)
      if (row[i] >= least)
        candidates_.push_back({row[i], int32_t(i)});
  }
}

float Sampler::reachedBy(size_t count) {
  if (count > blockMax_.size())
    return -INFINITY;
  maxima_.assign(blockMax_.begin(), blockMax_.end());
  const auto at = maxima_.begin() + ptrdiff_t(count - 1);
  std::nth_element(maxima_.begin(), at, maxima_.end(), std::greater<>());
  return *at;
}

template <typename Weight> Sampler::Candidate Sampler::lastOfMass(double mass, const Weight &weight) {
  size_t begin = 0, end = candidates_.size(); // the last one is in [begin, end)
  const auto at = [&](size_t i) { return candidates_.begin() + ptrdiff_t(i); };
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(at(begin), at(middle), at(end), before);
    double upper = 0;
    for (size_t i = begin; i < middle; ++i)
      upper += weight(candidates_[i]);
    if (upper >= mass) {
      end = middle;
    } else {
      mass -= upper;
      begin = middle;
    }
  }
  return candidates_[begin];
}

template <typename Body> void Sampler::forKept(std::span<const float> row, const Cut &cut, size_t block, const Body &body) {
  const size_t end = std::min(row.size(), (block + 1) * kBlock);
  for (size_t i = block * kBlock; i < end; ++i)
    if (cut.keeps(row[i], int32_t(i)))
      body(Candidate{row[i], int32_t(i)});
}

template <typename Weight> int32_t Sampler::draw(std::span<const float> row, const Cut &cut, const Weight &weight) {
  blockSum_.assign(blockMax_.size(), 0.0);
  double total = 0;
  for (size_t block = 0; block < blockMax_.size(); ++block) {
    if (blockMax_[block] >= cut.logit && blockMax_[block] >= cut.floor)
      forKept(row, cut, block, [&](const Candidate &c) { blockSum_[block] += weight(c); });
    total += blockSum_[block];
  }
  return choose(row, cut, weight, total);
}

template <typename Weight>
int32_t Sampler::choose(std::span<const float> row, const Cut &cut, const Weight &weight, double total) {
  double left = counterUniform(options_.seed, draws_++) * total;
  size_t block = 0;
  for (size_t i = 0; i < blockMax_.size(); ++i) {
    if (blockSum_[i] == 0)
      continue;
    block = i;
    if (left < blockSum_[i])
      break;
    left -= blockSum_[i];
  }
  int32_t chosen = 0;
  bool done = false;
  forKept(row, cut, block, [&](const Candidate &c) {
    const double w = done ? 0 : weight(c);
    if (w == 0)
      return;
    chosen = c.id; // the last one of any weight when rounding leaves a rest
    left -= w;
    done = left < 0;
  });
  return chosen;
}

double Sampler::collectAtMass(std::span<const float> row, double mass) {
  const auto binOf = [](float weight) { return std::bit_cast<uint32_t>(weight) >> 16; };
  bins_.assign(binOf(1.0f) + 1, 0.0); // weights are in [0, 1]
  for (float weight : weights_)
    bins_[binOf(weight)] += double(weight);
  size_t bin = bins_.size() - 1;
  double above = 0;
  for (; bin > 0 && above + bins_[bin] < mass; --bin)
    above += bins_[bin];
  candidates_.clear();
  for (size_t i = 0; i < weights_.size(); ++i)
    if (binOf(weights_[i]) == bin)
      candidates_.push_back({row[i], int32_t(i)});
  return above;
}

Result<int32_t> Sampler::sample(std::span<const float> row) {
  if (row.empty())
    return makeError(ErrorKind::Failed, "NB0705", "no logits to sample from");
  reserve(row.size());
  const auto illegal = [](std::span<const float> values, const char *when) {
    const auto bad = std::find_if(values.begin(), values.end(), [](float v) { return !(v < INFINITY); });
    return makeError(ErrorKind::Failed, "NB0705",
                     "logit of token " + std::to_string(bad - values.begin()) + " is not a number below infinity" + when);
  };
  float best = scan(row);
  if (std::isnan(best))
    return illegal(row, "");
  std::span<const float> logits = row;
  const SamplingOptions &o = options_;
  if (penalises()) {
    penalised_.assign(row.begin(), row.end());
    for (int32_t token : seen_) {
      if (size_t(token) >= penalised_.size())
        continue;
      double v = penalised_[size_t(token)];
      v = v > 0 ? v / o.repetitionPenalty : v * o.repetitionPenalty;
      v -= o.presencePenalty + o.frequencyPenalty * double(counts_[size_t(token)]);
      penalised_[size_t(token)] = float(v);
    }
    logits = penalised_;
    best = scan(logits);
    if (std::isnan(best))
      return illegal(logits, " after the penalties");
  }
  if (o.temperature == 0.0) {
    const size_t block = size_t(std::find(blockMax_.begin(), blockMax_.end(), best) - blockMax_.begin());
    return int32_t(std::find(logits.begin() + ptrdiff_t(block * kBlock), logits.end(), best) - logits.begin());
  }
  if (best == -INFINITY)
    return makeError(ErrorKind::Failed, "NB0705", "every logit is minus infinity");

  Cut cut;
  // exp of few tokens in double precision, of a whole row in single.
  const auto exact = [&](const Candidate &c) { return std::exp((double(c.logit) - double(best)) / o.temperature); };
  const auto stored = [&](const Candidate &c) { return double(weights_[size_t(c.id)]); };
  const auto cutAtMass = [&](double mass, const auto &weight) {
    const Candidate last = lastOfMass(mass, weight);
    cut.logit = last.logit;
    cut.id = last.id;
  };
  if (o.minP > 0)
    cut.floor = double(best) + o.temperature * std::log(o.minP);
  if (o.topK > 0 && size_t(o.topK) < logits.size()) {
    const auto count = size_t(o.topK);
    collect(logits, reachedBy(count));
    std::nth_element(candidates_.begin(), candidates_.begin() + ptrdiff_t(count - 1), candidates_.end(), before);
    cut.logit = candidates_[count - 1].logit;
    cut.id = candidates_[count - 1].id;
    if (o.topP < 1.0) {
      candidates_.resize(count);
      double total = 0;
      for (const Candidate &c : candidates_)
        total += exact(c);
      cutAtMass(o.topP * total, exact);
    }
    return draw(logits, cut, exact);
  }
  if (o.topP == 1.0 && o.minP > 0)
    return draw(logits, cut, exact);

  weights_.resize(logits.size());
  blockSum_.resize(blockMax_.size());
  const float scale = float(std::min(1.4426950408889634 / o.temperature, double(FLT_MAX)));
  double total = 0;
  for (size_t block = 0; block < blockMax_.size(); ++block) {
    const size_t begin = block * kBlock, count = std::min(kBlock, logits.size() - begin);
    total += blockSum_[block] = exponentials(logits.data() + begin, count, best, scale, weights_.data() + begin);
  }
  if (o.topP == 1.0)
    return choose(logits, cut, stored, total);
  const double mass = o.topP * total;
  constexpr size_t kFew = 1024; // as a rule, fewer tokens have it
  collect(logits, reachedBy(kFew));
  double found = 0;
  for (const Candidate &c : candidates_)
    found += stored(c);
  cutAtMass(found >= mass ? mass : mass - collectAtMass(logits, mass), stored);
  return draw(logits, cut, stored);
}

} // namespace ninfer
