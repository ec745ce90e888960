// How often this process asked for memory: every malloc and relative, of any library; and how much private memory it has mapped.
// Linking it replaces malloc, except under a sanitizer, whose own hooks count.
#ifndef NINFER_TEST_UNIT_RUNTIME_ALLOCATIONCOUNT_H
#define NINFER_TEST_UNIT_RUNTIME_ALLOCATIONCOUNT_H

#include <cstdint>

namespace ninfer::test {

/// Allocations since the start of the process, of all threads.
uint64_t allocationCount();

/// Bytes of private writable mappings (VmData of /proc/self/status), stacks of threads and the heap included. Allocates nothing.
uint64_t privateMappedBytes();

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_RUNTIME_ALLOCATIONCOUNT_H
