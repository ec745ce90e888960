// Built plans run without asking for memory: no allocation and no new private mapping once the first token is there, in prefill, decode,
// sampling and speculative rounds, on every thread.
#include "HybridModel.h"

#include "runtime/text/TokenStream.h"
#include "test/unit/runtime/AllocationCount.h"

using namespace ninfer;
using namespace ninfer::test;

using AllocationTest = HybridModel;

TEST_F(AllocationTest, NothingAfterTheFirstToken) {
  buildGolden("plan.bin", {.context = 80, .chunk = 8, .kv = "bf16", .draftTokens = 3});
  std::vector<int32_t> prompt(30);
  for (size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = int32_t(i * 7 % size_t(kVocab));
  for (const std::string &target : targets()) {
    auto engine = open("plan.bin", target);
    ASSERT_TRUE(engine);
    for (const bool draft : {false, true})
      for (const unsigned threads : {1u, 2u, 3u}) {
        auto context = Context::create(engine, {.threads = threads, .draft = draft});
        ASSERT_TRUE(context.ok()) << context.error().render();
        Sampler sampler = Sampler::create({.temperature = 1.0, .topP = 0.9, .minP = 0.01, .repetitionPenalty = 1.1}).take();
        ASSERT_TRUE((*context)->submit(std::span(prompt).first(1)).ok());
        auto token = sampler.sample((*context)->logits());
        ASSERT_TRUE(token.ok());

        const uint64_t before = allocationCount(), mapped = privateMappedBytes();
        bool ok = (*context)->submit(std::span(prompt).subspan(1)).ok();
        for (int step = 0; step < 10; ++step) {
          ok &= (token = sampler.sample((*context)->logits())).ok();
          sampler.accept(*token);
          ok &= (*context)->submit({&*token, 1}).ok();
        }
        int32_t drafts[3];
        for (int round = 0; draft && round < 5; ++round) {
          ok &= (*context)->draft(3, drafts).ok();
          ok &= (*context)->verify(drafts).ok();
          ok &= sampler.sample((*context)->rowLogits(1)).ok();
          ok &= (*context)->accept(1 + size_t(round) % 3).ok();
        }
        ok &= (*context)->truncate(0).ok();
        const uint64_t after = allocationCount(), mappedAfter = privateMappedBytes();
        EXPECT_TRUE(ok);
        EXPECT_EQ(after - before, 0u) << target << ", " << threads << " threads" << (draft ? ", drafts" : "");
        EXPECT_EQ(mappedAfter, mapped) << target << ", " << threads << " threads" << (draft ? ", drafts" : "");
      }
  }
}
