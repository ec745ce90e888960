#include "test/unit/runtime/AllocationCount.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace {
std::atomic<uint64_t> gAllocations{0};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NINFER_TEST_SANITIZER_HOOKS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NINFER_TEST_SANITIZER_HOOKS
#endif
#endif
#if defined(NINFER_TEST_SANITIZER_HOOKS)
#include <sanitizer/allocator_interface.h>
namespace {
const int gHooks = __sanitizer_install_malloc_and_free_hooks([](const volatile void *, size_t) { ++gAllocations; },
                                                             [](const volatile void *) {});
} // namespace
#else
// The C library's own functions under their second names; those of an executable come before any library's.
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t bytes) {
  ++gAllocations;
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
  ++gAllocations;
  return __libc_calloc(count, bytes);
}
void *realloc(void *memory, size_t bytes) {
  ++gAllocations;
  return __libc_realloc(memory, bytes);
}
void *memalign(size_t align, size_t bytes) {
  ++gAllocations;
  return __libc_memalign(align, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }
int posix_memalign(void **out, size_t align, size_t bytes) {
  void *memory = memalign(align, bytes);
  if (!memory)
    return ENOMEM;
  *out = memory;
  return 0;
}
}
#endif

namespace ninfer::test {

uint64_t allocationCount() { return gAllocations; }

uint64_t privateMappedBytes() {
  char text[4096];
  const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0)
    close(fd);
  text[got < 0 ? 0 : got] = '\0';
  const char *line = std::strstr(text, "VmData:");
  return line ? std::strtoull(line + 7, nullptr, 10) * 1024 : 0;
}

} // namespace ninfer::test
