// Pages about a plan: what the phases of speculative decoding add to them.
#include "schema/Describe.h"

#include "test/unit/schema/PlanFixture.h"

#include <gtest/gtest.h>

using namespace ninfer;
using namespace ninfer::test;

namespace {

std::string pageOf(const plan::PlanT &plan) {
  auto bytes = buildPlan(plan, smallBlobs());
  EXPECT_TRUE(bytes.ok()) << (bytes.ok() ? "" : bytes.error().render());
  auto view = PlanView::open(*bytes, "p.bin");
  EXPECT_TRUE(view.ok());
  return describePlan(*view, "p.bin") + describeKernels(*view);
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST(Describe, PhasesOfSpeculativeDecoding) {
  plan::PlanT plan = smallPlan();
  const std::string plain = pageOf(plan);
  EXPECT_FALSE(contains(plain, "drafts")) << plain;
  EXPECT_TRUE(contains(plain, "\n  decode    1 launch, rows 1,")) << plain;
  EXPECT_TRUE(contains(plain, "\n  memory    states 256 B")) << plain;
  addSpeculation(plan);
  const std::string page = pageOf(plan);
  for (const char *line : {"  decode     1 launch, rows 1,", "  verify     1 launch, rows 1..3,", "  draft      1 launch, rows 1..4,",
                           "  draft_next 1 launch, rows 1,", "  commit     1 launch, rows 1..3,",
                           "  drafts     up to 2 drafts per round from 16 of 32 tokens, recurrent states\n",
                           "  memory     states 256 B"})
    EXPECT_TRUE(contains(page, std::string("\n") + line)) << page;
  EXPECT_TRUE(contains(page, "commit 1, decode 1, draft 1, draft_next 1, prefill 1, verify 1")) << page;
  std::erase_if(plan.targets[0]->phases, [](const auto &phase) { return phase->kind == plan::PhaseKind::Commit; });
  for (auto &phase : plan.targets[0]->phases)
    if (phase->token_ids) {
      phase->token_ids.reset();
      *phase->logits = arena(64, 128);
    }
  EXPECT_TRUE(contains(pageOf(plan), "up to 2 drafts per round from 32 of 32 tokens\n")) << pageOf(plan);
}
