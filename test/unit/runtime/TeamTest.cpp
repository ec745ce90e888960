#include "runtime/executor/Team.h"

#include "runtime/loader/Machine.h"

#include <gtest/gtest.h>
#include <thread>

using namespace ninfer;

namespace {

/// Each step every thread writes its own cell and, behind the barrier, reads all others: a barrier that lets
/// one thread through too early leaves a cell of the step before.
struct Steps {
  Team *team;
  std::vector<uint64_t> cells;
  std::atomic<uint64_t> wrong{0};
  uint64_t steps;
  std::atomic<bool> stop{false};
  uint64_t stopAt = UINT64_MAX;
  std::vector<uint64_t> ranSteps;
};

void runSteps(void *data, unsigned thread) {
  Steps &s = *static_cast<Steps *>(data);
  // The last barrier ends the run: nothing of `s` may be read after it.
  const uint64_t steps = s.steps;
  for (uint64_t step = 1; step <= steps; ++step) {
    s.cells[thread * 16] = step;
    if (thread == 0 && step == s.stopAt)
      s.stop = true;
    s.team->barrier(s.stop);
    for (unsigned other = 0; other < s.team->threads(); ++other)
      s.wrong += s.cells[other * 16] != step;
    s.ranSteps[thread] = step;
    if (s.team->barrier(s.stop))
      return;
  }
}

void exercise(unsigned threads, uint64_t spinNs, bool pin) {
  TeamOptions options;
  options.threads = threads;
  options.spinNs = spinNs;
  if (pin)
    options.cpus = usableCpus();
  auto team = Team::start(options);
  ASSERT_TRUE(team.ok()) << team.error().message;
  Steps steps{team->get(), std::vector<uint64_t>(threads * 16), {}, spinNs ? 2000u : 200u, {}, UINT64_MAX,
              std::vector<uint64_t>(threads)};
  for (int run = 0; run < 3; ++run)
    (*team)->run(runSteps, &steps);
  EXPECT_EQ(steps.wrong, 0u);
  EXPECT_EQ(steps.ranSteps, std::vector<uint64_t>(threads, steps.steps));
}

} // namespace

TEST(Team, BarrierHoldsEveryThread) {
  exercise(1, 100'000, false);
  exercise(2, 100'000, false);
  exercise(2, 100'000, true);
  exercise(3, 20'000, false);
}

TEST(Team, SleepsWithoutSpinning) {
  exercise(2, 0, false);
  exercise(5, 0, false);
}

TEST(Team, StopReachesEveryThreadAtTheSameBarrier) {
  for (unsigned threads : {1u, 2u, 4u}) {
    auto team = Team::start({threads, {}, 10'000});
    ASSERT_TRUE(team.ok());
    Steps steps{team->get(), std::vector<uint64_t>(threads * 16), {}, 1000, {}, 17, std::vector<uint64_t>(threads)};
    (*team)->run(runSteps, &steps);
    // The first barrier of step 17 may already give the answer; both end the loop in the same step.
    EXPECT_EQ(steps.ranSteps, std::vector<uint64_t>(threads, 17));
  }
}

TEST(Team, IdleTeamEndsAndStarts) {
  for (int i = 0; i < 20; ++i) {
    auto team = Team::start({4, {}, i % 2 ? 0u : 1000u});
    ASSERT_TRUE(team.ok());
    if (i % 3 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

TEST(Team, CallerKeepsItsCpus) {
  const std::vector<int> before = usableCpus();
  auto team = Team::start({2, before, 1000});
  ASSERT_TRUE(team.ok());
  Steps steps{team->get(), std::vector<uint64_t>(32), {}, 10, {}, UINT64_MAX, std::vector<uint64_t>(2)};
  (*team)->run(runSteps, &steps);
  EXPECT_EQ(usableCpus(), before);
}
