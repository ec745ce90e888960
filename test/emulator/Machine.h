// State of a running launch, shared by the files of the emulator. One launch runs on one OS thread.
#ifndef NINFER_TEST_EMULATOR_MACHINE_H
#define NINFER_TEST_EMULATOR_MACHINE_H

#include "test/emulator/Emulator.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ninfer::emulator {

struct Block;
struct Warp;

struct Site {
  int line = 0;
  const char *file = "";
};

enum class State : uint8_t { Ready, AtCollective, AtBarrier, Done };
const char *stateName(State state);

struct PendingCopy {
  uint8_t *to;
  const uint8_t *from; ///< null: zeros
  uint32_t group;      ///< number of the commit that covers it, from 0
  Site site;
};

/// One CUDA thread.
struct Fiber {
  void *stackPointer = nullptr;
  uint8_t *stack = nullptr;
  uint32_t thread = 0;
  Block *block = nullptr;
  Warp *warp = nullptr;
  State state = State::Ready;
  Site site; ///< where it waits
  std::vector<PendingCopy> copies;
  uint32_t groups = 0; ///< committed
  void *sanitizer = nullptr;

  uint32_t lane() const { return thread % 32; }
};

enum class Collective : uint8_t { Shuffle, Sync, MmaBf16, MmaF16, LoadMatrix, LoadMatrixTransposed };

struct Warp {
  Fiber *fibers = nullptr; ///< 32 of them
  uint32_t arrived = 0;
  uint32_t epoch = 0; ///< completed warp syncs
  uint32_t turn = 0;  ///< completed collectives: results of turn i stay until turn i + 2
  Collective op = Collective::Shuffle;
  Site site;
  uint32_t in[2][8][32];
  const void *rows[32];
  uint32_t out[2][4][32];
};

/// Who touched a word of two bytes.
struct Stamp {
  uint32_t block = ~0u; ///< number of the block in the launch, ~0: nobody
  uint32_t thread = 0;
  uint32_t epoch = 0;     ///< block barriers the thread had passed
  uint32_t warpEpoch = 0; ///< warp syncs its warp had passed
  uint32_t release = 0;   ///< releases its block had done
  Site site;
};
struct Cell {
  Stamp write;
  Stamp reads[2]; ///< the last two different readers
  uint32_t pendingBlock = ~0u; ///< an asynchronous copy of that block is on its way here
};

struct Block {
  uint32_t number = 0; ///< in launch order: x fastest
  uint32_t x = 0, y = 0, z = 0;
  std::vector<uint8_t> sharedStorage;
  uint8_t *shared = nullptr;
  std::vector<Cell> cells; ///< of shared memory
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  uint32_t arrived = 0, done = 0;
  uint32_t epoch = 0; ///< completed barriers
  Site site;          ///< of the barrier threads wait at
  uint32_t releases = 0;
  std::vector<uint32_t> known; ///< per block: releases this block has acquired
};

struct GlobalBuffer {
  const uint8_t *begin = nullptr, *end = nullptr;
  bool writable = false;
  const char *name = "";
  std::vector<Cell> cells;
};

struct Machine {
  const Launch *launch = nullptr;
  Options options;
  Outcome outcome;
  std::vector<GlobalBuffer> globals;
  size_t lastGlobal = 0;
  std::vector<std::unique_ptr<Block>> resident;
  std::map<const void *, std::vector<uint32_t>> clocks; ///< of atomic variables
  void *mainStack = nullptr;
  void *mainSanitizer = nullptr;
  uint64_t random = 1;

  uint32_t draw() { return uint32_t((random = random * 6364136223846793005ull + 1442695040888963407ull) >> 33); }
};

extern thread_local Machine *machine;
extern thread_local Fiber *current; ///< null in the scheduler

/// Ends the launch with `rule`, and does not return to the fiber.
[[noreturn]] void fail(const std::string &rule, Site site);
std::string describe(const Fiber &fiber);
std::string describe(Site site);

/// Hands the turn to another lane of the warp, or to the scheduler. Returns when this fiber is chosen again.
void yieldLane();
void yieldToScheduler();

/// Records an access for the race check and tests it against earlier ones.
void touch(Cell &cell, bool write, Site site, const char *memory);
void forgetPending(Fiber &fiber);

} // namespace ninfer::emulator

#endif // NINFER_TEST_EMULATOR_MACHINE_H
