// Fibers and the scheduler: which thread of which block runs next, block barriers, deadlock.
#include "test/emulator/Machine.h"

#include "test/emulator/Sanitizers.h"
#include "test/emulator/ni_host.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace ninfer::emulator {

thread_local Machine *machine = nullptr;
thread_local Fiber *current = nullptr;

namespace {

constexpr size_t kStackBytes = 128 * 1024;

#if defined(__x86_64__)
// Saves the callee-saved registers on the stack, stores the stack pointer to *save, continues at `to`.
extern "C" void ninfer_emulator_switch(void **save, void *to);
asm(R"(
.text
.globl ninfer_emulator_switch
.hidden ninfer_emulator_switch
.type ninfer_emulator_switch,@function
ninfer_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size ninfer_emulator_switch,.-ninfer_emulator_switch
)");
void switchContext(void **save, void *to) { ninfer_emulator_switch(save, to); }
/// A stack whose first switch enters `entry`.
void *initialStack(uint8_t *stack, void (*entry)()) {
  auto **top = reinterpret_cast<void **>(stack + kStackBytes - 64);
  *--top = nullptr; // the return address of entry: 16-byte alignment as after a call
  *--top = reinterpret_cast<void *>(entry);
  for (int i = 0; i < 6; ++i)
    *--top = nullptr;
  return top;
}
#else
void switchContext(void **save, void *to) {
  ucontext_t here;
  *save = &here;
  swapcontext(&here, static_cast<ucontext_t *>(to));
}
void *initialStack(uint8_t *stack, void (*entry)()) {
  auto *context = reinterpret_cast<ucontext_t *>(stack);
  getcontext(context);
  context->uc_stack = {stack + sizeof(ucontext_t), 0, kStackBytes - sizeof(ucontext_t)};
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}
#endif

/// Stacks of earlier launches of this thread: mapping 256 of them costs more than a small kernel.
thread_local std::vector<uint8_t *> spareStacks;

uint8_t *newStack() {
  if (!sanitizers::kFreshStacks && !spareStacks.empty()) {
    uint8_t *stack = spareStacks.back();
    spareStacks.pop_back();
    return stack;
  }
  void *p = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(p, 4096, PROT_NONE); // an overflow faults
  return static_cast<uint8_t *>(p) + 4096;
}
void freeStack(uint8_t *stack) {
  if (sanitizers::kFreshStacks)
    munmap(stack - 4096, kStackBytes);
  else
    spareStacks.push_back(stack);
}

void switchTo(Fiber *fiber) {
  void **save = current ? &current->stackPointer : &machine->mainStack;
  current = fiber;
  sanitizers::switchTo(fiber ? fiber->sanitizer : machine->mainSanitizer);
  switchContext(save, fiber ? fiber->stackPointer : machine->mainStack);
}

Fiber *nextReady(Fiber *fiber) {
  Fiber *lanes = fiber->warp->fibers;
  const uint32_t step = machine->options.order == Order::Reverse ? 31 : 1;
  for (uint32_t i = 1, lane = fiber->lane(); i < 32; ++i)
    if (Fiber *next = &lanes[lane = (lane + step) & 31]; next->state == State::Ready)
      return next;
  return nullptr;
}

void entry() {
  machine->launch->kernel(const_cast<void **>(machine->launch->args.data()));
  Fiber *self = current;
  if (!self->copies.empty())
    fail("thread ends with an asynchronous copy it did not wait for, issued at " + describe(self->copies[0].site),
         self->copies[0].site);
  sanitizers::release(machine);
  self->state = State::Done;
  self->block->done++;
  while (true)
    switchTo(nextReady(self));
}

void startBlock(Block &block, uint32_t number, const Launch &launch) {
  block.number = number;
  block.x = number % launch.grid.x;
  block.y = number / launch.grid.x % launch.grid.y;
  block.z = number / launch.grid.x / launch.grid.y;
  block.arrived = block.done = block.epoch = block.releases = 0;
  const uint32_t blocks = launch.grid.x * launch.grid.y * launch.grid.z;
  block.known.assign(blocks, 0);
  // Fresh memory per block: sanitizers tell the blocks apart by address, a stale pointer finds poison.
  block.sharedStorage = std::vector<uint8_t>(launch.sharedBytes + 128, 0xff);
  block.shared = block.sharedStorage.data() + (128 - reinterpret_cast<uintptr_t>(block.sharedStorage.data()) % 128) % 128;
  block.cells.assign((launch.sharedBytes + 1) / 2, Cell());
  block.fibers.resize(launch.threads);
  block.warps.resize(launch.threads / 32);
  for (Warp &warp : block.warps) {
    warp.arrived = warp.epoch = warp.turn = 0;
    warp.fibers = &block.fibers[size_t(&warp - block.warps.data()) * 32];
  }
  for (Fiber &fiber : block.fibers) {
    fiber.thread = uint32_t(&fiber - block.fibers.data());
    fiber.block = &block;
    fiber.warp = &block.warps[fiber.thread / 32];
    fiber.state = State::Ready;
    fiber.copies.clear();
    fiber.groups = 0;
    if (sanitizers::kFreshStacks && fiber.stack) {
      freeStack(fiber.stack);
      fiber.stack = nullptr;
    }
    if (!fiber.stack)
      fiber.stack = newStack();
    fiber.stackPointer = initialStack(fiber.stack - 4096, entry);
    sanitizers::freeFiber(fiber.sanitizer);
    fiber.sanitizer = sanitizers::newFiber();
  }
}

/// One round: every warp of every resident block gets a turn. False when no thread could run.
bool round(std::vector<Block *> &blocks) {
  std::vector<Warp *> warps;
  for (Block *block : blocks)
    for (Warp &warp : block->warps)
      warps.push_back(&warp);
  bool ran = false;
  for (size_t i = 0; i < warps.size(); ++i) {
    size_t w = machine->options.order == Order::Reverse ? warps.size() - 1 - i : i;
    uint32_t lane = machine->options.order == Order::Reverse ? 31 : 0;
    if (machine->options.order == Order::Random) {
      w = machine->draw() % warps.size();
      lane = machine->draw() % 32;
    }
    for (uint32_t l = 0; l < 32; ++l) {
      Fiber *fiber = &warps[w]->fibers[(lane + l) & 31];
      if (fiber->state != State::Ready)
        continue;
      switchTo(fiber);
      ran = true;
      break;
    }
    if (!machine->outcome.ok())
      return true;
  }
  if (ran || machine->options.order != Order::Random)
    return ran;
  for (Warp *warp : warps) // the draw may have missed the only warp that can run
    for (uint32_t l = 0; l < 32; ++l)
      if (warp->fibers[l].state == State::Ready)
        return true;
  return false;
}

/// Why nothing runs: names a waiting thread and what the others do.
void reportDeadlock(const std::vector<Block *> &blocks) {
  for (Block *block : blocks)
    for (Fiber &fiber : block->fibers) {
      if (fiber.state == State::Ready || fiber.state == State::Done)
        continue;
      const bool barrier = fiber.state == State::AtBarrier;
      for (const Fiber &other : block->fibers) {
        const bool together = barrier ? other.state == State::AtBarrier
                                      : other.warp != fiber.warp || other.state == State::AtCollective;
        if (together)
          continue;
        current = &fiber;
        machine->outcome.message = std::string(barrier ? "block barrier" : "warp collective") + " never completes: thread " +
                                   std::to_string(other.thread) + " " + stateName(other.state) +
                                   (other.state == State::Done ? "" : " at " + describe(other.site)) + ": " +
                                   describe(fiber.site) + ", " + describe(fiber);
        return;
      }
    }
  machine->outcome.message = "no thread can run";
}

std::string refuse(const Launch &launch) {
  if (!launch.kernel)
    return "no kernel";
  if (launch.threads == 0 || launch.threads % 32 != 0 || launch.threads > 1024)
    return "threads per block " + std::to_string(launch.threads) + ", expected a multiple of 32 up to 1024";
  if (launch.boundThreads && launch.threads > launch.boundThreads)
    return "threads per block " + std::to_string(launch.threads) + " exceed the launch bound " +
           std::to_string(launch.boundThreads);
  if (uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z == 0)
    return "empty grid";
  return "";
}

} // namespace

const char *stateName(State state) {
  switch (state) {
  case State::Ready: return "is ready";
  case State::AtCollective: return "waits in a warp collective";
  case State::AtBarrier: return "waits at a block barrier";
  case State::Done: return "has ended";
  }
  return "";
}

std::string describe(Site site) {
  const char *name = std::strrchr(site.file, '/');
  return std::string(name ? name + 1 : site.file) + ":" + std::to_string(site.line);
}

std::string describe(const Fiber &fiber) {
  const Block &b = *fiber.block;
  return "block (" + std::to_string(b.x) + "," + std::to_string(b.y) + "," + std::to_string(b.z) + ") thread " +
         std::to_string(fiber.thread);
}

void fail(const std::string &rule, Site site) {
  machine->outcome.message = rule + ": " + describe(site) + (current ? ", " + describe(*current) : "");
  while (true)
    switchTo(nullptr);
}

void yieldLane() { switchTo(nextReady(current)); }
void yieldToScheduler() { switchTo(nullptr); }

Outcome run(const Launch &launch, const Options &options) {
  Outcome refused;
  refused.message = refuse(launch);
  if (!refused.ok())
    return refused;
  Machine state;
  state.launch = &launch;
  state.options = options;
  state.random = options.seed * 2654435761u + 1;
  for (const Buffer &b : launch.buffers) {
    const auto *begin = static_cast<const uint8_t *>(b.data);
    GlobalBuffer global{begin, begin + b.bytes, b.writable, b.name, {}};
    if (b.writable && options.races)
      global.cells.resize((b.bytes + 1) / 2);
    state.globals.push_back(std::move(global));
  }
  machine = &state;
  current = nullptr;
  state.mainSanitizer = sanitizers::currentFiber();

  const uint32_t total = launch.grid.x * launch.grid.y * launch.grid.z;
  uint32_t next = 0;
  std::vector<Block *> active;
  while (state.outcome.ok() && (next < total || !active.empty())) {
    while (next < total && active.size() < std::max(1u, options.residentBlocks)) {
      std::unique_ptr<Block> block;
      for (auto &old : state.resident)
        if (!sanitizers::kFreshStacks && old->done == launch.threads && std::find(active.begin(), active.end(), old.get()) == active.end()) {
          block = std::move(old);
          state.resident.erase(state.resident.begin() + (&old - state.resident.data()));
          break;
        }
      if (!block)
        block = std::make_unique<Block>();
      startBlock(*block, options.order == Order::Reverse ? total - 1 - next : next, launch);
      ++next;
      active.push_back(block.get());
      state.resident.push_back(std::move(block));
    }
    const bool ran = round(active);
    std::erase_if(active, [&](Block *b) { return b->done == launch.threads; });
    if (!ran && !active.empty() && state.outcome.ok())
      reportDeadlock(active);
  }
  sanitizers::acquire(machine); // whatever the caller does next comes after all threads
  for (auto &block : state.resident)
    for (Fiber &fiber : block->fibers) {
      sanitizers::freeFiber(fiber.sanitizer);
      freeStack(fiber.stack);
    }
  machine = nullptr;
  current = nullptr;
  return state.outcome;
}

} // namespace ninfer::emulator

using namespace ninfer::emulator;

extern "C" {

uint32_t ni_host_thread() { return current->thread; }
uint32_t ni_host_block(uint32_t axis) {
  const Block &b = *current->block;
  return axis == 0 ? b.x : axis == 1 ? b.y : b.z;
}
uint32_t ni_host_grid() { return machine->launch->grid.x; }

void ni_host_block_sync(int line, const char *file) {
  Fiber *self = current;
  Block *block = self->block;
  self->site = {line, file};
  if (block->done)
    fail("block barrier after a thread of the block has ended", self->site);
  if (block->arrived == 0)
    block->site = self->site;
  else if (block->site.line != line || std::strcmp(block->site.file, file) != 0)
    fail("threads of a block at different barriers, the other one at " + describe(block->site), self->site);
  sanitizers::release(sanitizers::barrier(block, block->epoch));
  const uint32_t epoch = block->epoch;
  if (++block->arrived == machine->launch->threads) {
    block->arrived = 0;
    block->epoch++;
    for (Fiber &fiber : block->fibers)
      if (fiber.state == State::AtBarrier)
        fiber.state = State::Ready;
  } else {
    self->state = State::AtBarrier;
    yieldLane();
  }
  sanitizers::acquire(sanitizers::barrier(block, epoch));
}

} // extern "C"
