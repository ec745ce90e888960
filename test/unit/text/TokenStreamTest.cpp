// The law of speculative decoding: shares against exact probabilities for fixed p and q, and for equal seeds the very
// tokens of plain sampling, whatever the drafts are and wherever the answer ends.
#include "runtime/text/TokenStream.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <memory>

using namespace ninfer;

namespace {

using Tokens = std::vector<int32_t>;

Error misuse(const char *what) { return makeError(ErrorKind::Failed, "NB0659", what); }

/// A sequence whose rows are a function of its tokens. Refuses what a context refuses.
class FakeSequence final : public Sequence {
public:
  using Row = std::function<std::vector<float>(const Tokens &)>;
  using Draft = std::function<int32_t(const Tokens &)>; ///< proposal after these tokens

  FakeSequence(Row row, Draft draft) : row_(std::move(row)), draft_(std::move(draft)) {}

  uint32_t position() const override { return uint32_t(held.size()); }
  Status submit(int32_t token) override {
    if (!tried_.empty())
      return misuse("submit before accept");
    ++submits;
    held.push_back(token);
    hasLogits_ = true;
    return interrupt();
  }
  Result<std::span<const float>> logits() override {
    if (!hasLogits_)
      return misuse("no logits");
    return keep(held);
  }
  Result<size_t> draft(int32_t next, std::span<int32_t> drafts) override {
    if (!tried_.empty() || drafts.empty())
      return misuse("draft");
    hasLogits_ = false;
    Tokens tokens = held;
    tokens.push_back(next);
    const size_t room = tokens.size() < capacity ? capacity - tokens.size() : 0;
    const size_t count = std::min(drafts.size(), room);
    longest = std::max(longest, count);
    for (size_t i = 0; i < count; ++i) {
      drafts[i] = draft_(tokens);
      tokens.push_back(drafts[i]);
    }
    return count;
  }
  Status verify(std::span<const int32_t> tokens) override {
    if (!tried_.empty() || tokens.size() < 2 || held.size() + tokens.size() > capacity)
      return misuse("verify");
    hasLogits_ = false;
    NINFER_RETURN_IF_ERROR(interrupt());
    tried_.assign(tokens.begin(), tokens.end());
    return {};
  }
  Result<std::span<const float>> rowLogits(size_t row) override {
    if (row >= tried_.size())
      return misuse("row");
    Tokens tokens = held;
    tokens.insert(tokens.end(), tried_.begin(), tried_.begin() + ptrdiff_t(row) + 1);
    return keep(tokens);
  }
  Status accept(size_t count) override {
    if (tried_.empty() || count > tried_.size())
      return misuse("accept");
    held.insert(held.end(), tried_.begin(), tried_.begin() + ptrdiff_t(count));
    tried_.clear();
    return {};
  }

  Tokens held = {0}; ///< the prompt
  size_t capacity = SIZE_MAX;
  size_t longest = 0;  ///< round
  size_t submits = 0;
  int callsUntilInterrupt = -1; ///< submit and verify calls; -1: never

private:
  Status interrupt() {
    if (callsUntilInterrupt < 0 || callsUntilInterrupt-- > 0)
      return {};
    return makeError(ErrorKind::Interrupted, "NB0653", "cancelled");
  }
  std::span<const float> keep(const Tokens &tokens) { return kept_ = row_(tokens); }

  Row row_;
  Draft draft_;
  Tokens tried_;
  bool hasLogits_ = true;
  std::vector<float> kept_;
};

Sampler samplerOf(const SamplingOptions &options) { return Sampler::create(options).take(); }

uint64_t hashOf(const Tokens &tokens, uint64_t salt) {
  uint64_t hash = salt;
  for (int32_t token : tokens)
    hash = (hash ^ uint64_t(token + 1)) * 0x9E3779B97F4A7C15ull, hash ^= hash >> 29;
  return hash;
}

/// Eight logits in [0, 4), other ones after every history.
std::vector<float> rowAfter(const Tokens &tokens) {
  std::vector<float> row;
  uint64_t hash = hashOf(tokens, 7);
  for (int i = 0; i < 8; ++i)
    row.push_back(float(hash >> (8 * i) & 0xff) / 64.0f);
  return row;
}

int32_t bestAfter(const Tokens &tokens) {
  const auto row = rowAfter(tokens);
  return int32_t(std::max_element(row.begin(), row.end()) - row.begin());
}

/// Right more often than not.
int32_t guessAfter(const Tokens &tokens) {
  const uint64_t hash = hashOf(tokens, 99);
  return hash % 10 < 7 ? bestAfter(tokens) : int32_t(hash >> 8 & 7);
}

} // namespace

// --- the law (case of fixed distributions) -------------------------------------------------------------------

namespace {

struct Law {
  const char *name;
  std::vector<double> p, q;
  SamplingOptions options;
  std::vector<double> expected; ///< p after temperature and truncation
};

std::vector<double> scaled(const std::vector<double> &p, double temperature) {
  std::vector<double> out;
  double sum = 0;
  for (double v : p) {
    out.push_back(std::pow(v, 1 / temperature));
    sum += out.back();
  }
  for (double &v : out)
    v /= sum;
  return out;
}

SamplingOptions at(double temperature, int64_t topK = 0, double topP = 1.0) {
  SamplingOptions options;
  options.temperature = temperature;
  options.topK = topK;
  options.topP = topP;
  return options;
}

} // namespace

TEST(SpeculativeLaw, SharesFollowTheTarget) {
  const std::vector<double> half = {0.5, 0.5}, nine = {0.9, 0.1};
  const std::vector<double> three = {0.7, 0.2, 0.1}, uniform = {1.0 / 3, 1.0 / 3, 1.0 / 3};
  const Law laws[] = {
      {"half", half, nine, at(1), half},
      {"half, 0.3", half, nine, at(0.3), half},
      {"three", three, uniform, at(1), three},
      {"three, 0.3", three, uniform, at(0.3), scaled(three, 0.3)},
      {"three, 2", three, uniform, at(2), scaled(three, 2)},
      {"reversed", {0.1, 0.2, 0.7}, three, at(2), scaled({0.1, 0.2, 0.7}, 2)},
      {"top-k 2", three, uniform, at(1, 2), {0.7 / 0.9, 0.2 / 0.9, 0}},
      // At 2 the shares are 0.52, 0.28, 0.20: two of them reach 0.75.
      {"top-p 0.75, 2", three, uniform, at(2, 0, 0.75), scaled({0.7, 0.2, 0}, 2)},
      {"top-k 2, 0.3, draft left out", {0.1, 0.2, 0.7}, three, at(0.3, 2), scaled({0, 0.2, 0.7}, 0.3)},
  };
  constexpr int kDraws = 200000;
  for (const Law &law : laws) {
    std::vector<float> row;
    for (double v : law.p)
      row.push_back(float(std::log(v)));
    // Two drafters: greedy on q, as the runtime's, and one that draws from q. The law holds for any that does not see
    // the sampler's draw; a draft d is kept with probability p(d).
    const int32_t greedy = int32_t(std::max_element(law.q.begin(), law.q.end()) - law.q.begin());
    uint64_t draws = 0;
    const auto draw = [&](const Tokens &) {
      double u = counterUniform(4711, draws++);
      int32_t token = 0;
      while (token + 1 < int32_t(law.q.size()) && (u -= law.q[size_t(token)]) >= 0)
        ++token;
      return token;
    };
    double crossing = 0;
    for (size_t i = 0; i < law.q.size(); ++i)
      crossing += law.q[i] * law.expected[i];
    for (bool drawn : {false, true}) {
      SCOPED_TRACE(std::string(law.name) + (drawn ? ", drawn" : ", greedy"));
      FakeSequence sequence([&](const Tokens &) { return row; },
                            drawn ? FakeSequence::Draft(draw) : [&](const Tokens &) { return greedy; });
      SamplingOptions options = law.options;
      options.seed = drawn ? 3 : 2;
      TokenStream stream(sequence, samplerOf(options), 3);
      std::vector<double> counts(law.p.size());
      for (int i = 0; i < kDraws; ++i) {
        auto token = stream.next();
        ASSERT_TRUE(token.ok());
        ++counts[size_t(*token)];
        sequence.held.resize(1); // the rows do not depend on it; keeps it short
        ASSERT_TRUE(stream.advance().ok());
      }
      double chiSquare = 0;
      size_t kinds = 0;
      for (size_t i = 0; i < counts.size(); ++i) {
        if (law.expected[i] == 0) {
          EXPECT_EQ(counts[i], 0);
          continue;
        }
        const double mean = law.expected[i] * kDraws;
        chiSquare += (counts[i] - mean) * (counts[i] - mean) / mean;
        ++kinds;
      }
      ASSERT_GE(kinds, 2u);
      // The 0.999 quantiles of chi-square with one and two degrees of freedom.
      EXPECT_LT(chiSquare, kinds == 2 ? 10.83 : 13.82);
      // Each comparison is a coin of its own: within four standard deviations of the rate.
      const DraftStats &stats = stream.stats();
      double compared = 0, accepted = 0;
      for (size_t i = 0; i < 3; ++i) {
        compared += double(stats.compared[i]);
        accepted += double(stats.accepted[i]);
      }
      const double rate = drawn ? crossing : law.expected[size_t(greedy)];
      EXPECT_NEAR(accepted / compared, rate, 4 * std::sqrt(rate * (1 - rate) / compared));
      RecordProperty(std::string(law.name) + (drawn ? " drawn" : " greedy"), std::to_string(accepted / compared));
    }
  }
}

// --- the tokens of plain sampling ------------------------------------------------------------------------------

namespace {

struct Answer {
  Tokens tokens, held;
  DraftStats stats;
  size_t submits = 0;
};

/// `count` tokens, the last of them drawn only; ends earlier after `stop`.
Answer answer(const SamplingOptions &options, size_t drafts, size_t count, const Tokens &stop = {}, bool bound = true,
              size_t capacity = SIZE_MAX) {
  FakeSequence sequence(rowAfter, guessAfter);
  sequence.capacity = capacity;
  TokenStream stream(sequence, samplerOf(options), drafts);
  Answer answer;
  for (;;) {
    auto token = stream.next();
    EXPECT_TRUE(token.ok()) << (token.ok() ? "" : token.error().message);
    if (!token.ok())
      break;
    answer.tokens.push_back(*token);
    if (answer.tokens.size() == count || stream.position() == capacity ||
        (!stop.empty() && answer.tokens.size() >= stop.size() &&
         std::equal(stop.rbegin(), stop.rend(), answer.tokens.rbegin())))
      break;
    Status status = bound ? stream.advance(count - answer.tokens.size()) : stream.advance();
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(stream.position(), answer.tokens.size() + 1);
  }
  EXPECT_TRUE(stream.finish().ok());
  EXPECT_EQ(sequence.position(), stream.position());
  answer.held = sequence.held;
  answer.stats = stream.stats();
  answer.submits = sequence.submits;
  EXPECT_LE(sequence.longest, drafts);
  return answer;
}

std::vector<SamplingOptions> manyOptions() {
  std::vector<SamplingOptions> all = {at(0), at(0.3), at(1), at(2, 3), at(1, 0, 0.8)};
  SamplingOptions penalised = at(1);
  penalised.repetitionPenalty = 1.3;
  penalised.presencePenalty = 0.4;
  penalised.frequencyPenalty = 0.1;
  all.push_back(penalised);
  penalised.temperature = 0;
  all.push_back(penalised);
  return all;
}

} // namespace

TEST(TokenStream, TokensAreThoseOfThePlainSampler) {
  for (SamplingOptions options : manyOptions())
    for (uint64_t seed : {0, 1, 2}) {
      options.seed = seed;
      // Plain sampling without the class under test.
      Sampler sampler = samplerOf(options);
      Tokens history = {0}, expected;
      for (int i = 0; i < 200; ++i) {
        expected.push_back(*sampler.sample(rowAfter(history)));
        sampler.accept(expected.back());
        history.push_back(expected.back());
      }
      for (size_t drafts = 0; drafts <= 5; ++drafts) {
        SCOPED_TRACE(std::to_string(options.temperature) + " " + std::to_string(seed) + " " + std::to_string(drafts));
        const Answer result = answer(options, drafts, 200);
        EXPECT_EQ(result.tokens, expected);
        // In the sequence: the prompt and all but the last, which nothing followed.
        EXPECT_EQ(result.held, Tokens(history.begin(), history.end() - 1));
        EXPECT_EQ(result.stats.acceptedDrafts() > 0, drafts > 0);
        EXPECT_EQ(result.submits + result.stats.rounds + result.stats.acceptedDrafts(), 199u);
      }
    }
}

// An answer may end at any token, also within accepted drafts: the sequence holds what it would hold without them.
TEST(TokenStream, EveryEndIsThatOfPlainDecoding) {
  for (SamplingOptions options : {at(0), at(1)})
    for (size_t count = 1; count <= 40; ++count)
      for (bool bound : {true, false}) {
        const Answer plain = answer(options, 0, count);
        for (size_t drafts : {1, 3, 5}) {
          const Answer spec = answer(options, drafts, count, {}, bound);
          EXPECT_EQ(spec.tokens, plain.tokens);
          EXPECT_EQ(spec.held, plain.held);
          EXPECT_EQ(spec.held.size(), count);
        }
      }
  const Answer whole = answer(at(1), 0, 60);
  for (size_t end = 2; end < 60; ++end) {
    const Tokens stop(whole.tokens.begin() + ptrdiff_t(end) - 2, whole.tokens.begin() + ptrdiff_t(end));
    const Answer plain = answer(at(1), 0, 60, stop), spec = answer(at(1), 4, 60, stop);
    EXPECT_EQ(spec.tokens, plain.tokens);
    EXPECT_EQ(spec.held, plain.held);
  }
}

TEST(TokenStream, EndOfTheContext) {
  for (size_t capacity = 2; capacity < 30; ++capacity) {
    const Answer plain = answer(at(0), 0, 1000, {}, true, capacity);
    EXPECT_EQ(plain.held.size(), capacity);
    for (size_t drafts : {1, 3, 5}) {
      const Answer spec = answer(at(0), drafts, 1000, {}, true, capacity);
      EXPECT_EQ(spec.tokens, plain.tokens);
      EXPECT_EQ(spec.held, plain.held);
    }
  }
}

// No draft is made that nobody would read.
TEST(TokenStream, DraftsNoMoreThanWanted) {
  FakeSequence sequence(rowAfter, bestAfter);
  TokenStream stream(sequence, samplerOf(at(0)), 5);
  ASSERT_TRUE(stream.next().ok());
  ASSERT_TRUE(stream.advance(1).ok()); // one more to come: the row of the token itself has it
  EXPECT_EQ(sequence.longest, 0u);
  EXPECT_EQ(sequence.submits, 1u);
  ASSERT_TRUE(stream.next().ok());
  ASSERT_TRUE(stream.advance(3).ok());
  EXPECT_EQ(sequence.longest, 2u);
  EXPECT_EQ(stream.stats().rounds, 1u);
}

TEST(TokenStream, PerfectAndUselessDrafts) {
  const auto run = [](FakeSequence::Draft draft) {
    FakeSequence sequence(rowAfter, std::move(draft));
    TokenStream stream(sequence, samplerOf(at(0)), 3);
    for (int i = 0; i < 81; ++i) {
      EXPECT_TRUE(stream.next().ok());
      EXPECT_TRUE(stream.advance().ok());
    }
    EXPECT_TRUE(stream.finish().ok());
    return stream.stats();
  };
  const DraftStats perfect = run(bestAfter);
  EXPECT_EQ(perfect.rounds, 21u); // four tokens each, the last round is left after its first
  EXPECT_EQ(perfect.drafted, 63u);
  EXPECT_EQ(perfect.compared, (std::vector<uint64_t>{20, 20, 20}));
  EXPECT_EQ(perfect.accepted, perfect.compared);
  const DraftStats useless = run([](const Tokens &tokens) { return (bestAfter(tokens) + 1) % 8; });
  EXPECT_EQ(useless.rounds, 81u);
  EXPECT_EQ(useless.compared, (std::vector<uint64_t>{80, 0, 0}));
  EXPECT_EQ(useless.acceptedDrafts(), 0u);
  DraftStats sum = perfect;
  sum.add(useless);
  EXPECT_EQ(sum.rounds, 102u);
  EXPECT_EQ(sum.compared, (std::vector<uint64_t>{100, 20, 20}));
  DraftStats fresh;
  fresh.add(perfect);
  EXPECT_EQ(fresh.accepted, perfect.accepted);
}

// A cancelled call: the answer can be ended, and holds the tokens advanced over.
TEST(TokenStream, Interruption) {
  for (int calls = 0; calls < 12; ++calls) {
    FakeSequence sequence(rowAfter, guessAfter);
    sequence.callsUntilInterrupt = calls;
    TokenStream stream(sequence, samplerOf(at(1)), 3);
    Tokens advanced = {0};
    for (;;) {
      auto token = stream.next();
      ASSERT_TRUE(token.ok());
      Status status = stream.advance();
      if (!status.ok()) {
        EXPECT_EQ(status.error().kind, ErrorKind::Interrupted);
        break;
      }
      advanced.push_back(*token);
    }
    ASSERT_TRUE(stream.finish().ok());
    EXPECT_EQ(sequence.held, advanced);
    EXPECT_EQ(stream.position(), advanced.size());
  }
}
