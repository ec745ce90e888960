// Answers of a built model with speculative decoding: the tokens of plain decoding, at every depth.
#include "HybridModel.h"

#include "runtime/text/TokenStream.h"

using namespace ninfer;
using namespace ninfer::test;

namespace {

/// A context. The draft layer's weights are random and so its proposals mostly wrong; with `truth`, the tokens to come,
/// six of seven are replaced by right ones, so that every number of accepted rows occurs.
class ContextSequence final : public Sequence {
public:
  ContextSequence(Context &context, const std::vector<int32_t> *truth) : context_(context), truth_(truth) {}
  uint32_t position() const override { return context_.position(); }
  Status submit(int32_t token) override { return context_.submit({&token, 1}); }
  Result<std::span<const float>> logits() override { return context_.logits(); }
  Result<size_t> draft(int32_t next, std::span<int32_t> drafts) override {
    auto count = context_.draft(next, drafts);
    for (size_t i = 0; truth_ && count.ok() && i < *count; ++i)
      if (const size_t at = position() + 1 + i; ++calls_ % 7 != 0 && at < truth_->size())
        drafts[i] = (*truth_)[at];
    return count;
  }
  Status verify(std::span<const int32_t> tokens) override { return context_.verify(tokens); }
  Result<std::span<const float>> rowLogits(size_t row) override { return context_.rowLogits(row); }
  Status accept(size_t count) override { return context_.accept(count); }

private:
  Context &context_;
  const std::vector<int32_t> *truth_;
  size_t calls_ = 0;
};

class SpeculativeDecoding : public HybridModel {
protected:
  /// A prompt of `prompt` tokens and the answer of `count` to it.
  static std::vector<int32_t> answer(Context &context, const SamplingOptions &sampling, size_t drafts, size_t prompt,
                                     size_t count, DraftStats &stats, const std::vector<int32_t> *truth = nullptr) {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < prompt; ++i)
      tokens.push_back(int32_t((i * i + 3) % size_t(kVocab)));
    EXPECT_TRUE(context.truncate(0).ok());
    EXPECT_TRUE(context.submit(tokens).ok());
    ContextSequence sequence(context, truth);
    TokenStream stream(sequence, Sampler::create(sampling).take(), drafts);
    for (size_t left = count; left > 0; --left) {
      auto token = stream.next();
      EXPECT_TRUE(token.ok()) << (token.ok() ? "" : token.error().message);
      Status status = stream.advance(left - 1);
      EXPECT_TRUE(status.ok()) << status.error().message;
      if (!token.ok() || !status.ok())
        break;
      tokens.push_back(*token);
    }
    EXPECT_TRUE(stream.finish().ok());
    EXPECT_EQ(context.position(), prompt + count);
    stats.add(stream.stats());
    return tokens;
  }
};

} // namespace

// The proposals come from the golden artifact's indexed head. A verified row of the reference target is a decoded one to
// the bit, so sampled answers are equal too; the cpu targets sum in another order for several rows, where a draw may fall
// between the two sums: greedy answers only.
TEST_F(SpeculativeDecoding, AnswersAreThePlainOnes) {
  buildGolden("plan.bin", {.context = 80, .chunk = 8, .draftTokens = 5});
  for (const std::string &target : targets()) {
    auto engine = open("plan.bin", target);
    ASSERT_TRUE(engine);
    auto plain = Context::create(engine, {.threads = 1});
    auto drafting = Context::create(engine, {.threads = 1, .draft = true});
    ASSERT_TRUE(plain.ok() && drafting.ok());
    DraftStats none, own, helped;
    std::vector<SamplingOptions> samplings = {{}};
    if (target == "reference")
      samplings.insert(samplings.end(), {{.temperature = 1.0, .seed = 5},
                                         {.temperature = 0.5, .topP = 0.9, .repetitionPenalty = 1.2, .seed = 6}});
    for (const SamplingOptions &sampling : samplings)
      for (size_t prompt : {1, 9}) {
        const std::vector<int32_t> expected = answer(**plain, sampling, 0, prompt, 60, none);
        for (size_t drafts = 1; drafts <= 5; ++drafts) {
          EXPECT_EQ(answer(**drafting, sampling, drafts, prompt, 60, helped, &expected), expected)
              << target << " " << sampling.temperature << " prompt " << prompt << " drafts " << drafts;
          if (drafts % 2 != 0)
            EXPECT_EQ(answer(**drafting, sampling, drafts, prompt, 60, own), expected)
                << target << " " << sampling.temperature << " prompt " << prompt << " drafts " << drafts;
        }
      }
    EXPECT_EQ(none.rounds, 0u);
    EXPECT_GT(own.rounds, 100u) << target;
    for (size_t i = 0; i < 5; ++i)
      EXPECT_GT(helped.accepted[i], 5u) << target << " " << i;
    for (size_t i = 0; i < 3; ++i)
      EXPECT_GT(helped.compared[i], helped.accepted[i] + 5) << target << " " << i;
  }
}
