// Memory: bounds, alignment, the order of conflicting accesses, asynchronous copies, atomics; and the scalar functions
// that need more than one line.
#include "test/emulator/Machine.h"

#include "test/emulator/Sanitizers.h"
#include "test/emulator/ni_host.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ninfer::emulator {

namespace {

/// True when the access behind `stamp` happens before whatever the current thread does now.
bool ordered(const Stamp &stamp) {
  const Fiber &self = *current;
  if (stamp.block == ~0u)
    return true;
  if (stamp.block != self.block->number)
    return self.block->known[stamp.block] > stamp.release;
  if (stamp.thread == self.thread || stamp.epoch < self.block->epoch)
    return true;
  return stamp.thread / 32 == self.thread / 32 && stamp.warpEpoch < self.warp->epoch;
}

Stamp stampOf(Site site) {
  const Fiber &self = *current;
  return {self.block->number, self.thread, self.block->epoch, self.warp->epoch, self.block->releases, site};
}

[[noreturn]] void reportRace(const char *what, const Stamp &earlier, const char *memory, Site site) {
  const char *when = earlier.block == current->block->number ? " of thread " : " of another block, thread ";
  fail(std::string("race in ") + memory + ": this " + what + when + std::to_string(earlier.thread) + " at " +
           describe(earlier.site) + ", with no barrier between",
       site);
}

GlobalBuffer *findGlobal(const uint8_t *p, uint32_t bytes) {
  const auto holds = [&](const GlobalBuffer &b) { return p >= b.begin && p + bytes <= b.end; };
  auto &all = machine->globals;
  if (machine->lastGlobal < all.size() && holds(all[machine->lastGlobal]))
    return &all[machine->lastGlobal];
  for (GlobalBuffer &b : all)
    if (holds(b)) {
      machine->lastGlobal = size_t(&b - all.data());
      return &b;
    }
  return nullptr;
}

/// "16 bytes at x + 4080 of 4096" for the buffer whose end or start is nearest.
std::string whereOutside(const uint8_t *p, uint32_t bytes) {
  const GlobalBuffer *nearest = nullptr;
  int64_t distance = INT64_MAX;
  for (const GlobalBuffer &b : machine->globals) {
    const int64_t d = p < b.begin ? b.begin - p : p + bytes - b.end;
    if (d < distance) {
      distance = d;
      nearest = &b;
    }
  }
  std::string text = std::to_string(bytes) + " bytes";
  if (nearest)
    text += std::string(" at ") + nearest->name + " " + std::to_string(p - nearest->begin) + " of " +
            std::to_string(nearest->end - nearest->begin);
  return text;
}

bool inShared(const uint8_t *p, uint32_t bytes) {
  const uint8_t *shared = current->block->shared;
  return p >= shared && p + bytes <= shared + machine->launch->sharedBytes;
}

void touchShared(const uint8_t *p, uint32_t bytes, bool write, Site site) {
  Block &block = *current->block;
  const auto first = size_t(p - block.shared) / 2, last = (size_t(p - block.shared) + bytes + 1) / 2;
  for (size_t i = first; i < last; ++i) {
    if (block.cells[i].pendingBlock == block.number)
      fail("shared memory is touched before the asynchronous copy into it has been waited for", site);
    if (machine->options.races)
      touch(block.cells[i], write, site, "shared memory");
  }
}

void finishCopy(const PendingCopy &copy) {
  Block &block = *current->block;
  const auto first = size_t(copy.to - block.shared) / 2;
  for (size_t i = first; i < first + 8; ++i) {
    block.cells[i].pendingBlock = ~0u;
    block.cells[i].write = stampOf(copy.site); // visible to others from this thread's next barrier on
  }
  if (machine->options.copies == Copies::Eager)
    return;
  sanitizers::write16(copy.to);
  const sanitizers::Ignore ignore;
  if (copy.from)
    std::memcpy(copy.to, copy.from, 16);
  else
    std::memset(copy.to, 0, 16);
}

} // namespace

void touch(Cell &cell, bool write, Site site, const char *memory) {
  if (!ordered(cell.write))
    reportRace(write ? "write meets a write" : "read meets a write", cell.write, memory, site);
  if (!write) {
    const Stamp stamp = stampOf(site);
    if (cell.reads[0].block != stamp.block || cell.reads[0].thread != stamp.thread)
      cell.reads[1] = cell.reads[0];
    cell.reads[0] = stamp;
    return;
  }
  for (const Stamp &read : cell.reads)
    if (!ordered(read))
      reportRace("write meets a read", read, memory, site);
  cell.write = stampOf(site);
  cell.reads[0] = cell.reads[1] = Stamp();
}

} // namespace ninfer::emulator

using namespace ninfer::emulator;

extern "C" {

uint8_t *ni_host_shared(unsigned long long bytes) {
  if (bytes > machine->launch->sharedBytes)
    fail("the kernel's shared memory of " + std::to_string(bytes) + " bytes exceeds the " +
             std::to_string(machine->launch->sharedBytes) + " of the launch",
         {});
  return current->block->shared;
}

void ni_host_access(const void *address, uint32_t bytes, uint32_t alignment, ni::host::Access kind, int line,
                    const char *file) {
  using ni::host::Access;
  const auto *p = static_cast<const uint8_t *>(address);
  const Site site{line, file};
  const bool write = kind == Access::GlobalWrite || kind == Access::SharedWrite;
  if (reinterpret_cast<uintptr_t>(p) % alignment != 0)
    fail("misaligned access of " + std::to_string(bytes) + " bytes", site);
  if (kind == Access::SharedRead || kind == Access::SharedWrite) {
    if (!inShared(p, bytes))
      fail("outside shared memory: " + std::to_string(bytes) + " bytes at " + std::to_string(p - current->block->shared) +
               " of " + std::to_string(machine->launch->sharedBytes),
           site);
    touchShared(p, bytes, write, site);
    return;
  }
  GlobalBuffer *buffer = findGlobal(p, bytes);
  if (!buffer)
    fail("out of bounds: " + whereOutside(p, bytes), site);
  if (write && !buffer->writable)
    fail(std::string("write to read-only ") + buffer->name, site);
  if (!buffer->cells.empty())
    for (size_t i = size_t(p - buffer->begin) / 2; i < (size_t(p - buffer->begin) + bytes + 1) / 2; ++i)
      touch(buffer->cells[i], write, site, buffer->name);
}

void ni_host_copy_async(void *shared, const void *global, bool valid, int line, const char *file) {
  const Site site{line, file};
  auto *to = static_cast<uint8_t *>(shared);
  ni_host_access(shared, 16, 16, ni::host::Access::SharedWrite, line, file);
  if (valid)
    ni_host_access(global, 16, 16, ni::host::Access::GlobalRead, line, file);
  sanitizers::write16(shared);
  if (valid)
    sanitizers::read16(global);
  const sanitizers::Ignore ignore;
  Block &block = *current->block;
  const auto first = size_t(to - block.shared) / 2;
  for (size_t i = first; i < first + 8; ++i)
    block.cells[i].pendingBlock = block.number;
  current->copies.push_back({to, valid ? static_cast<const uint8_t *>(global) : nullptr, current->groups, site});
  if (machine->options.copies == Copies::Lazy)
    std::memset(to, 0xff, 16);
  else if (valid)
    std::memcpy(to, global, 16);
  else
    std::memset(to, 0, 16);
}

void ni_host_copy_commit(int, const char *) { current->groups++; }

void ni_host_copy_wait(uint32_t pending, int, const char *) {
  auto &copies = current->copies;
  const uint32_t finished = current->groups > pending ? current->groups - pending : 0;
  size_t n = 0;
  while (n < copies.size() && copies[n].group < finished)
    finishCopy(copies[n++]);
  const sanitizers::Ignore ignore;
  copies.erase(copies.begin(), copies.begin() + long(n));
}

uint32_t ni_host_atomic_increment(uint32_t *p, int line, const char *file) {
  const Site site{line, file};
  if (reinterpret_cast<uintptr_t>(p) % 4 != 0)
    fail("misaligned atomic", site);
  const GlobalBuffer *buffer = findGlobal(reinterpret_cast<const uint8_t *>(p), 4);
  if (!buffer || !buffer->writable)
    fail(buffer ? "atomic on read-only memory" : "out of bounds: " + whereOutside(reinterpret_cast<uint8_t *>(p), 4), site);
  Block &block = *current->block;
  sanitizers::release(p);
  uint32_t old;
  {
    const sanitizers::Ignore ignore;
    auto &clock = machine->clocks[p];
    clock.resize(block.known.size());
    for (size_t i = 0; i < clock.size(); ++i)
      block.known[i] = std::max(block.known[i], clock[i]);
    block.known[block.number] = ++block.releases;
    clock = block.known;
    old = (*p)++;
  }
  sanitizers::acquire(p);
  if (machine->options.order == Order::Random && machine->draw() % 2)
    yieldToScheduler();
  return old;
}

float ni_host_f16_to_float(uint32_t word) { return float(std::bit_cast<_Float16>(uint16_t(word))); }
uint32_t ni_host_float_to_f16(float f) { return std::bit_cast<uint16_t>(_Float16(f)); }
float ni_host_exp2(float x) { return float(std::exp2(double(x))); }
float ni_host_log2(float x) { return float(std::log2(double(x))); }
float ni_host_root(float x) { return std::sqrt(x); }
float ni_host_round(float x) { return std::nearbyint(x); }
float ni_host_fma(float a, float b, float c) { return std::fma(a, b, c); }

} // extern "C"
