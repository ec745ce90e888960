#include "runtime/executor/Attendance.h"

#include <gtest/gtest.h>

using namespace ninfer;

namespace {

constexpr uint64_t kMs = 1'000'000;

/// A team in simulated time: how long a run takes with so many threads, and which shares of it are stolen from them.
struct Simulation {
  Attendance attendance;
  std::vector<uint64_t> stolen;
  uint64_t now = 1'000 * kMs, kind = 7;
  std::vector<unsigned> left;
  std::vector<double> milliseconds; ///< by active threads, from 1
  std::vector<double> shares;       ///< with the whole team; nothing is stolen from a smaller one

  Simulation(std::vector<double> milliseconds, std::vector<double> shares)
      : attendance(static_cast<unsigned>(shares.size())), stolen(shares.size()), milliseconds(std::move(milliseconds)),
        shares(std::move(shares)) {}

  void run() {
    attendance.begin(now, stolen);
    const uint64_t start = now;
    now += static_cast<uint64_t>(milliseconds[attendance.active() - 1] * kMs);
    if (attendance.active() == shares.size())
      for (size_t i = 0; i < shares.size(); ++i)
        stolen[i] += static_cast<uint64_t>(shares[i] * static_cast<double>(now - start));
    if (auto thread = attendance.end(start, now, stolen, kind))
      left.push_back(*thread);
  }
  void runFor(uint64_t ms) {
    for (const uint64_t until = now + ms * kMs; now < until;)
      run();
  }
  /// Milliseconds until `active` threads take part in a run.
  uint64_t until(unsigned active) {
    const uint64_t from = now;
    while (attendance.active() != active && now < from + 100'000 * kMs)
      run();
    return (now - from) / kMs;
  }
};

} // namespace

TEST(Attendance, ACpuThatIsHalfTakenIsLeftAfterOneWindow) {
  Simulation s({10, 20}, {0.5, 0});
  s.runFor(80);
  EXPECT_EQ(s.attendance.active(), 2u);
  s.run();
  EXPECT_EQ(s.attendance.active(), 1u);
  EXPECT_EQ(s.left, std::vector<unsigned>{0});
}

TEST(Attendance, ANeighbourThatMovesCountsWhole) {
  Simulation s({10, 20}, {0.18, 0.2});
  s.runFor(100);
  EXPECT_EQ(s.left, std::vector<unsigned>{1});
}

TEST(Attendance, WhatOneThreadLessWouldCostIsBorne) {
  Simulation two({10, 5}, {0.34, 0});
  two.runFor(5000);
  EXPECT_TRUE(two.left.empty());
  Simulation eight(std::vector<double>(8, 5.0), {0, 0, 0, 0, 0, 0.09, 0, 0}); // above 0.7 / 8, but little
  eight.runFor(5000);
  EXPECT_TRUE(eight.left.empty());
  eight.shares[5] = 0.11;
  eight.runFor(100);
  EXPECT_EQ(eight.left, std::vector<unsigned>{5});
}

TEST(Attendance, IsTriedAgainAndLeftForLonger) {
  Simulation s({10, 20}, {0, 0.5});
  std::vector<uint64_t> away;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(s.until(1), i == 0 ? 100u : 80u); // one window, of which the run that came back is a part
    away.push_back(s.until(2));
  }
  // The window of the trial, what holds, and the run that comes back.
  EXPECT_EQ(away, (std::vector<uint64_t>{620, 1120, 2120, 4120, 4120}));
}

TEST(Attendance, ComesBackAtOnceWhenRunsAreLongerWithout) {
  Simulation s({10, 8}, {0.25, 0.25}); // a quota of 1.5 CPUs
  s.until(1);
  EXPECT_EQ(s.until(2), 100u);
  const uint64_t from = s.now;
  s.until(1);
  EXPECT_NEAR(static_cast<double>(s.now - from) / kMs, 500, 110);
  s.until(2);
  const uint64_t again = s.now;
  s.until(1);
  EXPECT_NEAR(static_cast<double>(s.now - again) / kMs, 1000, 110);
}

TEST(Attendance, RunsOfAnotherKindAreNotCompared) {
  Simulation s({10, 8}, {0.5, 0.5});
  s.until(1);
  s.kind = 8;
  s.runFor(400);
  EXPECT_EQ(s.attendance.active(), 1u);
}

TEST(Attendance, AWindowWithoutANeighbourForgets) {
  Simulation s({10, 20}, {0, 0.5});
  s.runFor(5000);
  s.shares[1] = 0;
  s.runFor(6000);
  EXPECT_EQ(s.attendance.active(), 2u);
  s.shares[1] = 0.5;
  s.until(1);
  EXPECT_EQ(s.until(2), 620u);
}

TEST(Attendance, MeasuresFromTheFirstRunOfItsReturn) {
  Simulation s({10, 20}, {0, 0.5});
  EXPECT_FALSE(s.attendance.curious());
  s.until(1);
  s.until(2);
  EXPECT_TRUE(s.attendance.curious());
  s.shares[1] = 0;
  s.runFor(100);
  EXPECT_FALSE(s.attendance.curious());
}
