// What ThreadSanitizer must know about fibers. Built with NINFER_EMULATOR_TSAN the emulator tells it; else nothing happens.
#ifndef NINFER_TEST_EMULATOR_SANITIZERS_H
#define NINFER_TEST_EMULATOR_SANITIZERS_H

#include <cstdint>

#ifdef NINFER_EMULATOR_TSAN
extern "C" {
void *__tsan_get_current_fiber();
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_read16(void *address);
void __tsan_write16(void *address);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
}
#endif

namespace ninfer::emulator::sanitizers {

#ifdef NINFER_EMULATOR_TSAN
/// Stacks and shared memory are not reused within a launch: they would carry the accesses of another thread.
inline constexpr bool kFreshStacks = true;
inline void *currentFiber() { return __tsan_get_current_fiber(); }
inline void *newFiber() { return __tsan_create_fiber(0); }
inline void freeFiber(void *fiber) {
  if (fiber)
    __tsan_destroy_fiber(fiber);
}
inline void switchTo(void *fiber) { __tsan_switch_to_fiber(fiber, 1); } ///< 1: no happens-before
inline void acquire(void *p) { __tsan_acquire(p); }
inline void release(void *p) { __tsan_release(p); }
inline void read16(const void *p) { __tsan_read16(const_cast<void *>(p)); }
inline void write16(void *p) { __tsan_write16(p); }
/// The emulator's own bookkeeping, as far as interceptors see it (memcpy, delete). Never open across a switch.
struct Ignore {
  Ignore() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Ignore() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
};
#else
inline constexpr bool kFreshStacks = false;
inline void *currentFiber() { return nullptr; }
inline void *newFiber() { return nullptr; }
inline void freeFiber(void *) {}
inline void switchTo(void *) {}
inline void acquire(void *) {}
inline void release(void *) {}
inline void read16(const void *) {}
inline void write16(void *) {}
struct Ignore {
  ~Ignore() {} ///< a destructor, so that an unused variable is none
};
#endif

/// Address that stands for barrier number `epoch` of `owner`: neighbours differ, so a thread that runs ahead orders nothing.
inline void *barrier(void *owner, uint32_t epoch) { return static_cast<char *>(owner) + (epoch & 1); }

} // namespace ninfer::emulator::sanitizers

#endif // NINFER_TEST_EMULATOR_SANITIZERS_H
