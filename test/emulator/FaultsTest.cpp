// Faults planted on purpose, each with the modes that must catch it and the words of the report. The correct variant of
// each kernel passes in every mode, so that a report is about the fault.
#include "codegen/cuda/kernels/ni.cuh"
#include "test/emulator/Emulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace {

using namespace ninfer;
using ni::u32;

enum class Fault {
  None,
  MissingBarrier,   ///< tiles are read before the other threads' copies are known to be there
  StageOverwritten, ///< a stage is refilled while slower threads still read it
  ShortWait,        ///< waits for one group too few
  Overrun,          ///< the last row reads 4 elements past the end of its input
  WrongCount,       ///< n built in: rows above are computed, rows beyond it never stored
  SharedOverrun,
  Misaligned,
  WriteToInput,
  DivergentCollective,
  DivergentBarrier,
  LostLane,
  UnwaitedCopy,
  MissingWarpSync,
  LostUpdate, ///< two blocks add to one cell without an atomic
  MissingFence ///< the last block reads what others stored without having acquired it
};

constexpr u32 kTile = 64, kTiles = 6, kStages = 3, kThreads = 64;

struct Arguments {
  const u32 *in; ///< [kTiles * kTile]
  u32 *out;      ///< [n]
  u32 *counter;
  u32 n;
  Fault fault;
} arguments;

/// out[i] = sum of the tiles' element (i + 1) mod kTile: every thread reads what another one copied.
void pipeline(void **) {
  const Arguments &a = arguments;
  auto *stage = reinterpret_cast<u32(*)[kTile]>(ni::host::sharedMemory(kStages * kTile * 4));
  const u32 t = ni::threadIndex();
  const auto fill = [&](u32 tile) {
    if (tile < kTiles && t < kTile / 4)
      ni::copyAsync(&stage[tile % kStages][t * 4], a.in + tile * kTile + t * 4);
    ni::copyAsyncCommit();
  };
  for (u32 s = 0; s + 1 < kStages; ++s)
    fill(s);
  u32 sum = 0;
  for (u32 tile = 0; tile < kTiles; ++tile) {
    if (a.fault == Fault::ShortWait)
      ni::copyAsyncWait<kStages - 1>();
    else
      ni::copyAsyncWait<kStages - 2>();
    if (a.fault == Fault::StageOverwritten)
      fill(tile + kStages - 1);
    if (a.fault != Fault::MissingBarrier)
      ni::blockSync();
    if (a.fault != Fault::StageOverwritten)
      fill(tile + kStages - 1);
    sum += ni::sharedLoad(&stage[tile % kStages][(t + 1) % kTile]);
  }
  if (a.fault != Fault::UnwaitedCopy)
    ni::copyAsyncWait<0>();
  if (a.fault == Fault::UnwaitedCopy && t < 4)
    ni::copyAsync(&stage[0][0], a.in);
  const u32 count = a.fault == Fault::WrongCount ? 32 : a.n;
  if (t < count)
    ni::store(a.out + t, sum);
  if (a.fault == Fault::Overrun && t == 0)
    ni::load(a.in + kTiles * kTile + 4);
  if (a.fault == Fault::SharedOverrun && t == 0)
    ni::sharedLoad(&stage[kStages][0]);
  if (a.fault == Fault::Misaligned && t == 0)
    ni::load(reinterpret_cast<const ni::Words4 *>(a.in + 1));
  if (a.fault == Fault::WriteToInput && t == 0)
    ni::store(const_cast<u32 *>(a.in), 0u);
  if (a.fault == Fault::DivergentCollective) {
    if (t % 2)
      ni::warpSync();
    else
      ni::shuffle(t, 0u);
  }
  if (a.fault == Fault::DivergentBarrier) {
    if (t < 32)
      ni::blockSync();
    else
      ni::blockSync();
  }
  if (a.fault == Fault::LostLane && t != 5)
    ni::shuffleXor(t, 1u);
}

/// Lane i + 1 reads what lane i wrote.
void neighbours(void **) {
  const Arguments &a = arguments;
  auto *words = reinterpret_cast<u32 *>(ni::host::sharedMemory(kThreads * 4));
  const u32 t = ni::threadIndex();
  ni::sharedStore(words + t, t * 3);
  if (a.fault != Fault::MissingWarpSync)
    ni::warpSync();
  const u32 other = ni::sharedLoad(words + (t / 32 * 32 + (t + 1) % 32));
  if (t < a.n)
    ni::store(a.out + t, other);
}

/// Each block stores one number; the last one to finish adds them up. All blocks together also count themselves.
void lastBlock(void **) {
  const Arguments &a = arguments;
  auto *last = reinterpret_cast<u32 *>(ni::host::sharedMemory(8));
  const u32 t = ni::threadIndex(), b = ni::blockX();
  if (a.fault == Fault::LostUpdate) {
    if (t == 0)
      ni::store(a.out, ni::load(a.out) + 1);
    return;
  }
  if (t == 0)
    ni::store(a.out + 1 + b, b + 1);
  ni::blockSync();
  if (t == 0) {
    ni::gpuFence();
    const u32 before = a.fault == Fault::MissingFence ? b : ni::atomicIncrement(a.counter);
    ni::sharedStore(last, u32(before == ni::gridX() - 1));
  }
  ni::blockSync();
  if (ni::sharedLoad(last) && t == 0) {
    u32 sum = 0;
    for (u32 i = 0; i < ni::gridX(); ++i)
      sum += ni::load(a.out + 1 + i);
    ni::store(a.out, sum);
  }
}

struct Report {
  std::string message;
  bool right = false; ///< the output has the expected values
};

Report runMode(void (*kernel)(void **), Fault fault, const emulator::Options &options) {
  // Apart, as allocations of a device are: an overrun lands in no other buffer of the launch.
  static struct {
    alignas(256) u32 in[kTiles * kTile];
    alignas(256) u32 gap[64];
    alignas(256) u32 out[kThreads];
    alignas(256) u32 counter;
  } memory;
  auto &in = memory.in;
  auto &out = memory.out;
  u32 &counter = memory.counter;
  for (u32 i = 0; i < kTiles * kTile; ++i)
    in[i] = i * i + 1;
  std::fill(std::begin(out), std::end(out), kernel == lastBlock ? 0u : 0xffffffffu);
  counter = 0;
  const u32 n = kernel == pipeline ? 48 : kThreads, blocks = kernel == lastBlock ? 5 : 1;
  arguments = {in, out, &counter, n, fault};
  emulator::Launch launch;
  launch.kernel = kernel;
  launch.grid = {blocks};
  launch.threads = kThreads;
  launch.sharedBytes = kStages * kTile * 4;
  launch.buffers = {{in, sizeof in, false, "in"}, {out, sizeof out, true, "out"}, {&counter, 4, true, "counter"}};
  Report run;
  run.message = emulator::run(launch, options).message;
  run.right = true;
  for (u32 i = 0; i < kThreads; ++i) {
    u32 expected = kernel == neighbours ? (i / 32 * 32 + (i + 1) % 32) * 3 : 0xffffffffu;
    if (kernel == pipeline && i < n) {
      expected = 0;
      for (u32 tile = 0; tile < kTiles; ++tile)
        expected += in[tile * kTile + (i + 1) % kTile];
    }
    if (kernel == lastBlock)
      expected = i == 0 ? (fault == Fault::LostUpdate ? 5 : 15) : i <= blocks && fault != Fault::LostUpdate ? i : 0;
    run.right &= out[i] == expected;
  }
  return run;
}

struct Modes {
  emulator::Options options;
  std::string name;
};

std::vector<Modes> modes(bool races) {
  std::vector<Modes> all;
  for (int order = 0; order < 3; ++order)
    for (int eager = 0; eager < 2; ++eager) {
      Modes m;
      m.options.order = emulator::Order(order);
      m.options.copies = eager ? emulator::Copies::Eager : emulator::Copies::Lazy;
      m.options.races = races;
      m.options.residentBlocks = 3;
      m.name = std::string(order == 0 ? "forward" : order == 1 ? "reverse" : "random") + (eager ? " eager" : " lazy");
      all.push_back(m);
    }
  return all;
}

struct Planted {
  const char *name;
  void (*kernel)(void **);
  Fault fault;
  const char *report; ///< part of the message; "": only the values are wrong
};

const Planted kPlanted[] = {
    {"missing_barrier", pipeline, Fault::MissingBarrier, "shared memory"},
    {"stage_overwritten", pipeline, Fault::StageOverwritten, "race in shared memory: this write meets a read"},
    {"short_wait", pipeline, Fault::ShortWait, "touched before the asynchronous copy into it has been waited for"},
    {"overrun", pipeline, Fault::Overrun, "out of bounds: 4 bytes at in 1552 of 1536"},
    {"wrong_count", pipeline, Fault::WrongCount, ""},
    {"shared_overrun", pipeline, Fault::SharedOverrun, "outside shared memory: 4 bytes at 768 of 768"},
    {"misaligned", pipeline, Fault::Misaligned, "misaligned access of 16 bytes"},
    {"write_to_input", pipeline, Fault::WriteToInput, "write to read-only in"},
    {"divergent_collective", pipeline, Fault::DivergentCollective, "lanes of a warp in different collectives"},
    {"divergent_barrier", pipeline, Fault::DivergentBarrier, "threads of a block at different barriers"},
    {"lost_lane", pipeline, Fault::LostLane, "warp collective never completes: thread 5 has ended"},
    {"unwaited_copy", pipeline, Fault::UnwaitedCopy, "thread ends with an asynchronous copy it did not wait for"},
    {"missing_warp_sync", neighbours, Fault::MissingWarpSync, "race in shared memory"},
    {"lost_update", lastBlock, Fault::LostUpdate, "race in out: this read meets a write of another block"},
    {"missing_acquire", lastBlock, Fault::MissingFence, "race in out: this read meets a write of another block"},
};

class Faults : public testing::TestWithParam<Planted> {};

TEST_P(Faults, EveryModeReportsWithPlace) {
  const Planted &p = GetParam();
  for (const Modes &m : modes(true)) {
    const Report correct = runMode(p.kernel, Fault::None, m.options);
    ASSERT_EQ(correct.message, "") << m.name;
    ASSERT_TRUE(correct.right) << m.name;
    const Report faulty = runMode(p.kernel, p.fault, m.options);
    if (!*p.report) {
      EXPECT_FALSE(faulty.right) << m.name;
      continue;
    }
    EXPECT_NE(faulty.message.find(p.report), std::string::npos) << m.name << ": " << faulty.message;
    EXPECT_NE(faulty.message.find("FaultsTest.cpp:"), std::string::npos) << faulty.message;
    EXPECT_NE(faulty.message.find("block ("), std::string::npos) << faulty.message;
  }
}

std::string plantedName(const testing::TestParamInfo<Planted> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Planted, Faults, testing::ValuesIn(kPlanted), plantedName);

/// Without the race check the values still betray ordering faults in some order: what remains if that check were wrong.
TEST(Faults, ValuesAloneBetrayOrderingFaultsInSomeMode) {
  for (Fault fault : {Fault::MissingBarrier, Fault::StageOverwritten, Fault::ShortWait, Fault::MissingWarpSync}) {
    int caught = 0;
    for (const Modes &m : modes(false)) {
      const Report run = runMode(fault == Fault::MissingWarpSync ? neighbours : pipeline, fault, m.options);
      caught += !run.message.empty() || !run.right;
    }
    EXPECT_GT(caught, 0) << int(fault);
  }
}

TEST(Launch, RefusesWhatTheDriverWouldRefuse) {
  emulator::Launch launch;
  launch.kernel = neighbours;
  launch.threads = 48;
  EXPECT_NE(emulator::run(launch).message.find("multiple of 32"), std::string::npos);
  launch.threads = 64;
  launch.boundThreads = 32;
  EXPECT_NE(emulator::run(launch).message.find("exceed the launch bound 32"), std::string::npos);
  launch.boundThreads = 64;
  launch.sharedBytes = 16;
  EXPECT_NE(emulator::run(launch).message.find("exceeds the 16 of the launch"), std::string::npos);
}

} // namespace
