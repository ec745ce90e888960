// The law of the sampler: shares against exact probabilities, truncation rules, penalties, refusals.
#include "runtime/text/Sampler.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <numeric>

using namespace ninfer;

namespace {

std::map<int32_t, int> draw(SamplingOptions o, const std::vector<float> &logits, int count) {
  Result<Sampler> s = Sampler::create(o);
  EXPECT_TRUE(s.ok());
  std::map<int32_t, int> shares;
  for (int i = 0; i < count; ++i) {
    Result<int32_t> t = s->sample(logits);
    EXPECT_TRUE(t.ok());
    ++shares[*t];
  }
  return shares;
}

/// Chi-square of observed shares against probabilities `p`.
double chiSquare(const std::map<int32_t, int> &shares, const std::vector<double> &p, int count) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0)
      continue;
    auto found = shares.find(static_cast<int32_t>(i));
    double d = (found == shares.end() ? 0 : found->second) - p[i] * count;
    sum += d * d / (p[i] * count);
  }
  return sum;
}

constexpr int kDraws = 200000;

TEST(Sampler, SharesFollowTheSoftmax) {
  // logits log(p): at temperature 1 the law is p; at 2 it is sqrt(p) normalised.
  std::vector<double> p = {0.5, 0.25, 0.15, 0.1};
  std::vector<float> logits;
  for (double v : p)
    logits.push_back(static_cast<float>(std::log(v)));
  // 16.27 is the 0.999 quantile of chi-square with 3 degrees of freedom.
  EXPECT_LT(chiSquare(draw({.temperature = 1.0, .seed = 1}, logits, kDraws), p, kDraws), 16.27);
  std::vector<double> q;
  double sum = 0;
  for (double v : p)
    sum += std::sqrt(v);
  for (double v : p)
    q.push_back(std::sqrt(v) / sum);
  EXPECT_LT(chiSquare(draw({.temperature = 2.0, .seed = 2}, logits, kDraws), q, kDraws), 16.27);
  // The check can fail: the law at temperature 1 is not the law at 2.
  EXPECT_GT(chiSquare(draw({.temperature = 2.0, .seed = 2}, logits, kDraws), p, kDraws), 1000);
}

TEST(Sampler, TruncationKeepsTheRightTokens) {
  std::vector<float> logits = {std::log(0.1f), std::log(0.5f), std::log(0.15f), std::log(0.25f)};
  auto kept = [&](SamplingOptions o) {
    o.temperature = 1;
    std::vector<int32_t> ids;
    for (auto &[id, n] : draw(o, logits, 20000))
      ids.push_back(id);
    return ids;
  };
  using V = std::vector<int32_t>;
  EXPECT_EQ(kept({}), (V{0, 1, 2, 3}));
  EXPECT_EQ(kept({.topK = 2}), (V{1, 3}));
  EXPECT_EQ(kept({.topP = 0.5}), (V{1}));
  EXPECT_EQ(kept({.topP = 0.51}), (V{1, 3}));
  EXPECT_EQ(kept({.topP = 0.8}), (V{1, 2, 3}));
  EXPECT_EQ(kept({.minP = 0.4}), (V{1, 3}));
  EXPECT_EQ(kept({.topK = 1}), (V{1}));
  EXPECT_EQ(kept({.topK = 1000}), (V{0, 1, 2, 3}));
}

TEST(Sampler, GreedyTakesTheLowerIdOnATie) {
  Result<Sampler> s = Sampler::create({});
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(*s->sample(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(*s->sample(std::vector<float>{-INFINITY, -5}), 1);
}

TEST(Sampler, PenaltiesMoveSeenTokens) {
  std::vector<float> logits = {2.0f, 1.9f, -1.0f};
  Result<Sampler> presence = Sampler::create({.presencePenalty = 0.2});
  ASSERT_TRUE(presence.ok());
  EXPECT_EQ(*presence->sample(logits), 0);
  presence->accept(0);
  EXPECT_EQ(*presence->sample(logits), 1);
  Result<Sampler> frequency = Sampler::create({.frequencyPenalty = 0.04});
  ASSERT_TRUE(frequency.ok());
  frequency->accept(0);
  frequency->accept(0);
  EXPECT_EQ(*frequency->sample(logits), 0); // 2.0 - 0.08 is still above 1.9
  frequency->accept(0);
  EXPECT_EQ(*frequency->sample(logits), 1);
  Result<Sampler> repetition = Sampler::create({.repetitionPenalty = 1.1});
  ASSERT_TRUE(repetition.ok());
  repetition->accept(0);
  EXPECT_EQ(*repetition->sample(logits), 1);
}

TEST(Sampler, SameSeedSameDrawsOtherSeedOtherDraws) {
  std::vector<float> logits(50, 0.0f);
  auto run = [&](uint64_t seed) {
    Result<Sampler> s = Sampler::create({.temperature = 1, .seed = seed});
    std::vector<int32_t> out;
    for (int i = 0; i < 30; ++i)
      out.push_back(*s->sample(logits));
    return out;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

/// The rules of Sampler.h in double precision over a row sorted whole: cumulative shares of the kept tokens, by ascending id.
std::vector<double> lawOf(const SamplingOptions &o, const std::vector<float> &row) {
  std::vector<size_t> order(row.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
  size_t kept = o.topK > 0 ? std::min(size_t(o.topK), row.size()) : row.size();
  std::vector<double> weight(row.size());
  double total = 0, sum = 0;
  for (size_t i = 0; i < kept; ++i)
    total += weight[order[i]] = std::exp((double(row[order[i]]) - double(row[order[0]])) / o.temperature);
  size_t n = 0;
  while (n < kept && weight[order[n]] >= o.minP && (n == 0 || o.topP == 1.0 || sum < o.topP * total))
    sum += weight[order[n++]];
  for (size_t i = n; i < kept; ++i)
    weight[order[i]] = 0;
  double before = 0;
  for (double &w : weight)
    w = before += w / sum;
  return weight;
}

// Single precision moves a share by 1.3e-7 of the exponent and 4e-7 more (Sampler.cpp); exponents of shares that matter are below 40.
constexpr double kShareError = 1e-5;

TEST(Sampler, DrawsFollowTheSortedRow) {
  uint64_t state = 7;
  const auto uniform = [&] { return counterUniform(11, state++); };
  const auto row = [&](size_t size, double spread, double special) {
    std::vector<float> logits(size);
    for (float &v : logits)
      v = float(std::round((uniform() + uniform() + uniform() - 1.5) * spread * 8) / 8); // many ties
    for (size_t i = 0; i < size; i += 7)
      logits[i] = uniform() < special ? -INFINITY : logits[i];
    return logits;
  };
  const SamplingOptions all[] = {
      {.temperature = 1.0}, {.temperature = 0.3}, {.temperature = 5.0}, {.temperature = 1e-6},
      {.temperature = 1.0, .topK = 1}, {.temperature = 1.0, .topK = 40}, {.temperature = 2.0, .topK = 1500},
      {.temperature = 1.0, .topP = 0.9}, {.temperature = 3.0, .topP = 0.99}, {.temperature = 1.0, .topP = 1e-3},
      {.temperature = 1.0, .minP = 0.05}, {.temperature = 1.0, .minP = 1.0}, {.temperature = 1.0, .topP = 0.9, .minP = 0.1},
      {.temperature = 1.0, .topP = 0.5, .minP = 0.01}, {.temperature = 0.8, .topK = 40, .topP = 0.95, .minP = 0.05},
      {.temperature = 1.5, .topK = 300, .topP = 0.8}};
  for (size_t size : {1u, 2u, 63u, 64u, 65u, 1000u, 5003u})
    for (double spread : {0.0, 2.0, 20.0, 200.0})
      for (SamplingOptions o : all) {
        const std::vector<float> logits = row(size, spread, size > 64 ? 0.3 : 0.0);
        const std::vector<double> upTo = lawOf(o, logits);
        for (uint64_t seed = 0; seed < 8; ++seed) {
          o.seed = seed;
          const auto token = size_t(*Sampler::create(o)->sample(logits));
          const double u = counterUniform(seed, 0), before = token ? upTo[token - 1] : 0;
          const bool right = token < size && before < upTo[token] && before <= u + kShareError && u <= upTo[token] + kShareError;
          ASSERT_TRUE(right) << size << " tokens, spread " << spread << ", temperature " << o.temperature << ", top-k " << o.topK
                             << ", top-p " << o.topP << ", min-p " << o.minP << ", u " << u << ": token " << token << " has " << before
                             << " .. " << upTo[token];
        }
      }
}

TEST(Sampler, IllegalOptionsAndLogitsAreRefused) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  for (SamplingOptions o : {SamplingOptions{.temperature = -1}, {.temperature = nan}, {.topK = -1}, {.topP = 0}, {.topP = 1.5},
                            {.minP = -0.1}, {.minP = 2}, {.repetitionPenalty = 0}, {.presencePenalty = nan}})
    EXPECT_FALSE(Sampler::create(o).ok());
  const Result<Sampler> hot = Sampler::create({.temperature = 100.5});
  ASSERT_FALSE(hot.ok());
  EXPECT_EQ(hot.error().code, "NB0708");
  EXPECT_EQ(hot.error().kind, ErrorKind::Usage);
  EXPECT_EQ(hot.error().message, "temperature (--temp) must be in [0, 100], got 100.5");
  for (double t : {0.0, 1.0}) {
    Result<Sampler> s = Sampler::create({.temperature = t});
    ASSERT_TRUE(s.ok());
    EXPECT_FALSE(s->sample(std::vector<float>{}).ok());
    EXPECT_FALSE(s->sample(std::vector<float>{0, NAN}).ok());
    EXPECT_FALSE(s->sample(std::vector<float>{0, INFINITY}).ok());
    std::vector<float> late(200, 0.0f);
    late[130] = NAN;
    const Result<int32_t> refused = s->sample(late);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message, "logit of token 130 is not a number below infinity");
    s = Sampler::create({.temperature = t, .repetitionPenalty = 1e-300});
    s->accept(1);
    const Result<int32_t> raised = s->sample(std::vector<float>{0, 1});
    ASSERT_FALSE(raised.ok());
    EXPECT_EQ(raised.error().message, "logit of token 1 is not a number below infinity after the penalties");
  }
}

} // namespace
