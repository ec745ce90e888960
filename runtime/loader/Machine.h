// What this machine is, as far as running a plan is concerned: CPU features by name, brand, CPUs that may be
// used, memory that is available. Everything is read once, at the call; nothing is cached globally.
#ifndef NINFER_RUNTIME_LOADER_MACHINE_H
#define NINFER_RUNTIME_LOADER_MACHINE_H

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// CPU of this machine. Tests fill their own.
struct Machine {
  std::string brand;              ///< "AMD EPYC", for messages
  std::string architecture;       ///< "x86-64", "aarch64"
  std::set<std::string> features; ///< LLVM spelling: "avx2", "fma", "avx512vnni", ...

  static Machine detect();

  /// Names of `needed` that this machine lacks, in the given order. A name this build does not know is lacking.
  std::vector<std::string> lacks(const std::vector<std::string> &needed) const;
};

/// CPUs the calling thread may run on, at most as many as the control group's CPU quota allows, ordered so that
/// the first hardware thread of every core comes before the second ones. Never empty.
std::vector<int> usableCpus();

/// Bytes that can be allocated now: the smallest of the system's available memory, the rest of the control group's
/// limit and the rest of the address-space limit.
uint64_t availableMemory();

/// Resident set of this process in bytes: the highest so far, and now.
uint64_t peakResidentBytes();
uint64_t currentResidentBytes();
/// Resident memory of this process that is no page of a file.
uint64_t anonymousResidentBytes();
struct HeapUse {
  uint64_t taken = 0; ///< bytes that malloc has from the system
  uint64_t used = 0;  ///< of them in use
};
/// All zero where the C library cannot tell.
HeapUse heapUse();

/// Monotonic time in nanoseconds.
uint64_t nowNs();

} // namespace ninfer

#endif // NINFER_RUNTIME_LOADER_MACHINE_H
