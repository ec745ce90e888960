// The law of the sampler: shares against exact probabilities, truncation rules, penalties, refusals.
#include "runtime/text/Sampler.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>

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
  }
}

} // namespace
