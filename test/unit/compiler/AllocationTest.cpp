// Built plans run without asking for memory: no allocation and no new private mapping once the first token is there, in prefill, decode,
// sampling and speculative rounds, on every thread.
#include "HybridModel.h"

#include "runtime/text/TokenStream.h"
#include "test/unit/runtime/AllocationCount.h"

using namespace ninfer;
using namespace ninfer::test;

using AllocationTest = HybridModel;

// A context filled to its end is resident within its ledger. Twice: the first time, libraries bind their functions.
TEST_F(AllocationTest, ResidentWithinTheLedger) {
  const std::string target = targets().back();
  buildGolden("plan.bin", {.context = 1024, .chunk = 64, .kv = "bf16"}, {target});
  std::vector<int32_t> tokens(1024);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = int32_t(i * 7 % size_t(kVocab));
  for (const unsigned threads : {1u, 2u})
    for (const bool measured : {false, true}) {
      const uint64_t before = anonymousResidentBytes();
      auto engine = open("plan.bin", target);
      ASSERT_TRUE(engine);
      auto context = Context::create(engine, {.threads = threads});
      ASSERT_TRUE(context.ok()) << context.error().render();
      ASSERT_TRUE((*context)->submit(tokens).ok());
      const uint64_t after = anonymousResidentBytes();
      const Ledger &ledger = (*context)->ledger();
      if (!measured)
        continue;
      EXPECT_LE(after, before + ledger.anonymousBytes() + ledger.engineBytes) << target << ", " << threads << " threads";
      // The check can fail: most of the ledger is states, and they are full.
      EXPECT_GT(after, before + ledger.stateBytes / 2) << target << ", " << threads << " threads";
    }
}

TEST_F(AllocationTest, NothingAfterTheFirstToken) {
  const std::vector<std::string> tried = {"reference", targets().back()};
  buildGolden("plan.bin", {.context = 80, .chunk = 8, .kv = "bf16", .draftTokens = 3}, tried);
  std::vector<int32_t> prompt(30);
  for (size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = int32_t(i * 7 % size_t(kVocab));
  for (const std::string &target : tried) {
    auto engine = open("plan.bin", target);
    ASSERT_TRUE(engine);
    for (const bool draft : {false, true})
      for (const unsigned threads : {1u, 2u}) {
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
