// Arena placement against a byte map that is filled step by step.
#include "codegen/common/ArenaPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ninfer {
namespace {

/// Plays the steps: every value owns its bytes from begin to end. True if no byte ever has two
/// owners.
bool playsWithoutConflict(const std::vector<ArenaValue> &values, const ArenaPlan &plan) {
  int64_t last = 0;
  for (const ArenaValue &value : values)
    last = std::max(last, value.end);
  for (int64_t step = 0; step <= last; ++step) {
    std::vector<bool> owned(plan.bytes, false);
    for (size_t i = 0; i < values.size(); ++i) {
      if (step < values[i].begin || step > values[i].end)
        continue;
      for (uint64_t byte = plan.offsets[i]; byte < plan.offsets[i] + values[i].bytes; ++byte) {
        if (byte >= plan.bytes || owned[byte])
          return false;
        owned[byte] = true;
      }
    }
  }
  return true;
}

TEST(ArenaPlan, RandomProgramsKeepLiveValuesApart) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<ArenaValue> values(random() % 30);
    uint64_t sum = 0;
    for (ArenaValue &value : values) {
      value.bytes = random() % 700;
      value.begin = random() % 20;
      value.end = value.begin + random() % 6;
      sum += (std::max<uint64_t>(value.bytes, 1) + 63) / 64 * 64;
    }
    Result<ArenaPlan> plan = planArena(values);
    ASSERT_TRUE(plan.ok());
    EXPECT_TRUE(playsWithoutConflict(values, *plan)) << "round " << round;
    EXPECT_TRUE(checkArena(values, *plan).ok());
    EXPECT_LE(plan->bytes, sum);
    EXPECT_EQ(plan->bytes % kArenaAlignment, 0u);
    for (uint64_t offset : plan->offsets)
      EXPECT_EQ(offset % kArenaAlignment, 0u);
    EXPECT_EQ(planArena(values)->offsets, plan->offsets) << "the same input, another plan";
  }
}

TEST(ArenaPlan, ChainReusesBytes) {
  // x -> a -> b -> c: two values live at every step.
  std::vector<ArenaValue> values = {{256, 0, 1}, {256, 1, 2}, {256, 2, 3}, {256, 3, 4}};
  Result<ArenaPlan> plan = planArena(values);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->bytes, 512u);
  EXPECT_EQ(plan->offsets, (std::vector<uint64_t>{0, 256, 0, 256}));
}

TEST(ArenaPlan, ResultsDoNotLieOverOperands) {
  // Value 0 is read by the step that writes value 1.
  Result<ArenaPlan> plan = planArena(std::vector<ArenaValue>{{64, 0, 1}, {64, 1, 1}});
  ASSERT_TRUE(plan.ok());
  EXPECT_NE(plan->offsets[0], plan->offsets[1]);
}

TEST(ArenaPlan, FillsGaps) {
  std::vector<ArenaValue> values = {{640, 0, 1}, {320, 0, 9}, {128, 5, 9}, {64, 5, 9}};
  Result<ArenaPlan> plan = planArena(values);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->offsets, (std::vector<uint64_t>{0, 640, 0, 128}));
  EXPECT_EQ(plan->bytes, 960u);
}

TEST(ArenaPlan, LayersOfADecoderTakeTheirMost) {
  // Of two models, in units of 64 bytes, and what lives at most: gate and two residuals, or residual, queries and attention. Largest first
  // takes 45 and 96.
  struct {
    uint64_t residual, queries, keys, gate, most;
  } models[] = {{9, 9, 3, 24, 42}, {16, 32, 16, 48, 80}};
  for (const auto &m : models) {
    std::vector<ArenaValue> values = {{m.residual * 64, 0, 4}};
    for (int64_t at = 0; at < 60; at += 6) { // queries are rotated where they lie
      values.push_back({m.queries * 64, at + 1, at + 3});
      values.push_back({m.keys * 64, at + 1, at + 2});
      values.push_back({m.keys * 64, at + 1, at + 2});
      values.push_back({m.queries * 64, at + 3, at + 4});
      values.push_back({m.residual * 64, at + 4, at + 6});
      values.push_back({m.gate * 64, at + 5, at + 6});
      values.push_back({m.residual * 64, at + 6, at + 10});
    }
    Result<ArenaPlan> plan = planArena(values);
    ASSERT_TRUE(plan.ok());
    EXPECT_TRUE(playsWithoutConflict(values, *plan));
    EXPECT_EQ(plan->bytes, m.most * 64);
  }
}

TEST(ArenaPlan, RefusesWhatCannotBe) {
  EXPECT_EQ(planArena(std::vector<ArenaValue>{{UINT64_MAX, 0, 0}}).error().code, "NB0420");
  EXPECT_EQ(planArena(std::vector<ArenaValue>{{uint64_t{1} << 61, 0, 0},
                                              {uint64_t{1} << 61, 0, 0},
                                              {uint64_t{1} << 61, 0, 0}})
                .error()
                .code,
            "NB0420");
  EXPECT_EQ(planArena(std::vector<ArenaValue>{{64, 3, 2}}).error().code, "NB0420");
  EXPECT_EQ(planArena(std::vector<ArenaValue>{{64, 0, 0}}, 48).error().code, "NB0420");
  EXPECT_EQ(planArena({})->bytes, 0u);
}

TEST(ArenaPlan, CheckFindsPlantedFaults) {
  std::vector<ArenaValue> values = {{100, 0, 2}, {100, 1, 3}, {100, 3, 4}};
  ArenaPlan good = *planArena(values);
  ASSERT_TRUE(checkArena(values, good).ok());
  auto message = [&](ArenaPlan plan) {
    Status status = checkArena(values, plan);
    return status.ok() ? std::string() : status.error().message;
  };
  ArenaPlan bad = good;
  bad.offsets[1] = bad.offsets[0] + 64; // bytes 64..100 of value 0
  EXPECT_EQ(message(bad), "arena plan: values 0 and 1 live at the same step and share bytes");
  bad = good;
  bad.offsets[0] = 8;
  EXPECT_NE(message(bad).find("expected a multiple of 64, got 8"), std::string::npos);
  bad = good;
  bad.bytes = 64;
  EXPECT_NE(message(bad).find("expected to end at or before byte 64"), std::string::npos);
  bad = good;
  bad.offsets.pop_back();
  EXPECT_NE(message(bad).find("expected 3 offsets, got 2"), std::string::npos);
}

} // namespace
} // namespace ninfer
