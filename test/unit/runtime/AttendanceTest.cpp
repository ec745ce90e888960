#include "runtime/executor/Attendance.h"

#include <gtest/gtest.h>

using namespace ninfer;

namespace {

constexpr uint64_t kMs = 1'000'000;

/// A team in simulated time: each run takes 5 ms, of which the given shares are stolen.
struct Simulation {
  Attendance attendance;
  std::vector<uint64_t> stolen;
  uint64_t now = 1'000 * kMs;
  std::vector<unsigned> left;

  explicit Simulation(unsigned threads) : attendance(threads), stolen(threads) {}

  void run(const std::vector<double> &shares) {
    attendance.begin(now, stolen);
    const uint64_t start = now;
    now += 5 * kMs;
    for (unsigned i = 0; i < attendance.active(); ++i)
      stolen[i] += static_cast<uint64_t>(shares[i] * 5 * kMs);
    if (auto thread = attendance.end(start, now, stolen))
      left.push_back(*thread);
  }
  void runFor(uint64_t ms, const std::vector<double> &shares) {
    for (const uint64_t until = now + ms * kMs; now < until;)
      run(shares);
  }
};

} // namespace

TEST(Attendance, AThreadThatHasHalfACpuIsLeftAfterOneWindow) {
  Simulation s(2);
  for (int i = 0; i < 4; ++i)
    s.run({0.5, 0});
  EXPECT_EQ(s.attendance.active(), 2u);
  s.run({0.5, 0});
  EXPECT_EQ(s.attendance.active(), 1u);
  EXPECT_EQ(s.left, std::vector<unsigned>{0});
}

TEST(Attendance, WhatOneThreadLessWouldCostIsBorne) {
  Simulation two(2), eight(8);
  two.runFor(2000, {0.34, 0.3});
  EXPECT_EQ(two.attendance.active(), 2u);
  std::vector<double> shares(8, 0.0);
  shares[5] = 0.09; // above 0.7 / 8, but nothing that lasts
  eight.runFor(2000, shares);
  EXPECT_EQ(eight.attendance.active(), 8u);
  shares[5] = 0.11;
  eight.runFor(30, shares);
  EXPECT_EQ(eight.left, std::vector<unsigned>{5});
}

TEST(Attendance, IsTriedAgainAndLeftForLonger) {
  Simulation s(2);
  std::vector<uint64_t> away;
  for (int i = 0; i < 6; ++i) {
    while (s.attendance.active() == 2)
      s.run({0, 0.5});
    const uint64_t from = s.now;
    while (s.attendance.active() == 1)
      s.run({0, 0.5});
    away.push_back((s.now - from) / kMs);
  }
  // The first run of the whole team ends 5 ms behind its return.
  EXPECT_EQ(away, (std::vector<uint64_t>{255, 505, 1005, 2005, 2005, 2005}));
}

TEST(Attendance, AWindowWithoutANeighbourForgets) {
  Simulation s(2);
  s.runFor(1000, {0, 0.5});
  s.runFor(3000, {0, 0});
  EXPECT_EQ(s.attendance.active(), 2u);
  while (s.attendance.active() == 2)
    s.run({0, 0.5});
  const uint64_t from = s.now;
  while (s.attendance.active() == 1)
    s.run({0, 0.5});
  EXPECT_EQ((s.now - from) / kMs, 255u);
}

TEST(Attendance, LeavesOneAfterTheOtherAndKeepsOne) {
  Simulation s(3);
  s.runFor(50, {0.9, 0.9, 0.9});
  EXPECT_EQ(s.attendance.active(), 1u);
  EXPECT_EQ(s.left.size(), 2u);
  s.runFor(100, {0.9, 0.9, 0.9});
  EXPECT_EQ(s.attendance.active(), 1u);
}
