#include "runtime/executor/Team.h"

#include "runtime/loader/Machine.h"

#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
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
    for (unsigned other = 0; other < s.team->active(); ++other)
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

namespace {

using Clock = std::chrono::steady_clock;

void compute(std::chrono::microseconds time) {
  for (const auto until = Clock::now() + time; Clock::now() < until;) {
  }
}

/// Threads that keep one CPU busy.
class Burners {
public:
  Burners(int cpu, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      threads_.emplace_back([this, cpu] {
        cpu_set_t mask;
        CPU_ZERO(&mask);
        CPU_SET(cpu, &mask);
        pthread_setaffinity_np(pthread_self(), sizeof(mask), &mask);
        while (!stop_)
          compute(std::chrono::microseconds(100));
      });
  }
  ~Burners() {
    stop_ = true;
    for (std::thread &thread : threads_)
      thread.join();
  }

private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Twenty steps of work whose result every thread checks of the others.
struct Work {
  Team *team;
  std::vector<uint64_t> cells;
  uint64_t run = 0;
  std::atomic<uint64_t> wrong{0};
  std::atomic<bool> stop{false};
  int microseconds = 100; ///< of work in a step, on one thread
};

void runWork(void *data, unsigned thread) {
  Work &w = *static_cast<Work *>(data);
  for (uint64_t step = 1; step <= 20; ++step) {
    compute(std::chrono::microseconds(w.microseconds));
    w.cells[thread * 16] = w.run * 100 + step;
    w.team->barrier(w.stop);
    for (unsigned other = 0; other < w.team->active(); ++other)
      w.wrong += w.cells[other * 16] != w.run * 100 + step;
    w.team->barrier(w.stop);
  }
}

/// Runs until `active` threads take part; a run takes 2 ms and more, so the limit is some tens of seconds.
bool reaches(Work &work, unsigned active) {
  for (int i = 0; i < 10'000; ++i) {
    ++work.run;
    work.team->run(runWork, &work);
    if (work.team->active() == active)
      return true;
  }
  return false;
}

} // namespace

TEST(Team, LeavesACpuThatOthersUseAndComesBack) {
  // What the scheduler gives decides how long this takes: seconds, or minutes. AttendanceTest has the decisions without a clock.
  if (!std::getenv("NINFER_SCHEDULER_TESTS"))
    GTEST_SKIP() << "depends on the scheduler and on what else runs; NINFER_SCHEDULER_TESTS=1 runs it";
  const std::vector<int> cpus = usableCpus();
  if (cpus.size() < 2)
    GTEST_SKIP() << "needs two CPUs, this process may use one";
  for (int busy : {cpus[0], cpus[1]}) {
    auto team = Team::start({2, cpus, 100'000});
    ASSERT_TRUE(team.ok());
    Work work{team->get(), std::vector<uint64_t>(32)};
    {
      Burners burners(busy, 3);
      EXPECT_TRUE(reaches(work, 1));
      EXPECT_TRUE(reaches(work, 2)); // tried again
      EXPECT_TRUE(reaches(work, 1));
    }
    EXPECT_TRUE(reaches(work, 2));
    EXPECT_EQ(work.wrong, 0u);
  }
}

/// Two threads on one CPU wait for each other's slices.
TEST(Team, OneOfTwoThreadsOnOneCpuIsLeft) {
  auto team = Team::start({2, {usableCpus()[0]}, 0});
  ASSERT_TRUE(team.ok());
  Work work{team->get(), std::vector<uint64_t>(32)};
  work.microseconds = 3000;
  EXPECT_TRUE(reaches(work, 1));
  EXPECT_EQ(work.wrong, 0u);
}
