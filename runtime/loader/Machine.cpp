#include "runtime/loader/Machine.h"

#include "runtime/loader/Cgroup.h"
#include "runtime/loader/SystemFile.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace ninfer {

namespace {

#if defined(__x86_64__)

enum Register { Eax, Ebx, Ecx, Edx };

/// Which state the operating system saves: without it the instructions fault although the CPU has them.
enum class Saved { Nothing, Ymm, Zmm };

struct FeatureBit {
  const char *name;
  uint32_t leaf, subleaf;
  Register reg;
  uint32_t bit;
  Saved needs;
};

// Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E. Names are LLVM's.
constexpr FeatureBit kBits[] = {
    {"cmov", 1, 0, Edx, 15, Saved::Nothing},
    {"cx8", 1, 0, Edx, 8, Saved::Nothing},
    {"fxsr", 1, 0, Edx, 24, Saved::Nothing},
    {"mmx", 1, 0, Edx, 23, Saved::Nothing},
    {"sse", 1, 0, Edx, 25, Saved::Nothing},
    {"sse2", 1, 0, Edx, 26, Saved::Nothing},
    {"sse3", 1, 0, Ecx, 0, Saved::Nothing},
    {"pclmul", 1, 0, Ecx, 1, Saved::Nothing},
    {"ssse3", 1, 0, Ecx, 9, Saved::Nothing},
    {"fma", 1, 0, Ecx, 12, Saved::Ymm},
    {"cx16", 1, 0, Ecx, 13, Saved::Nothing},
    {"sse4.1", 1, 0, Ecx, 19, Saved::Nothing},
    {"sse4.2", 1, 0, Ecx, 20, Saved::Nothing},
    {"movbe", 1, 0, Ecx, 22, Saved::Nothing},
    {"popcnt", 1, 0, Ecx, 23, Saved::Nothing},
    {"aes", 1, 0, Ecx, 25, Saved::Nothing},
    {"xsave", 1, 0, Ecx, 26, Saved::Nothing},
    {"avx", 1, 0, Ecx, 28, Saved::Ymm},
    {"f16c", 1, 0, Ecx, 29, Saved::Ymm},
    {"bmi", 7, 0, Ebx, 3, Saved::Nothing},
    {"avx2", 7, 0, Ebx, 5, Saved::Ymm},
    {"bmi2", 7, 0, Ebx, 8, Saved::Nothing},
    {"avx512f", 7, 0, Ebx, 16, Saved::Zmm},
    {"avx512dq", 7, 0, Ebx, 17, Saved::Zmm},
    {"avx512ifma", 7, 0, Ebx, 21, Saved::Zmm},
    {"avx512cd", 7, 0, Ebx, 28, Saved::Zmm},
    {"avx512bw", 7, 0, Ebx, 30, Saved::Zmm},
    {"avx512vl", 7, 0, Ebx, 31, Saved::Zmm},
    {"avx512vbmi", 7, 0, Ecx, 1, Saved::Zmm},
    {"avx512vbmi2", 7, 0, Ecx, 6, Saved::Zmm},
    {"gfni", 7, 0, Ecx, 8, Saved::Nothing},
    {"vaes", 7, 0, Ecx, 9, Saved::Ymm},
    {"vpclmulqdq", 7, 0, Ecx, 10, Saved::Ymm},
    {"avx512vnni", 7, 0, Ecx, 11, Saved::Zmm},
    {"avx512bitalg", 7, 0, Ecx, 12, Saved::Zmm},
    {"avx512vpopcntdq", 7, 0, Ecx, 14, Saved::Zmm},
    {"avx512fp16", 7, 0, Edx, 23, Saved::Zmm},
    {"avxvnni", 7, 1, Eax, 4, Saved::Ymm},
    {"avx512bf16", 7, 1, Eax, 5, Saved::Zmm},
    {"avxvnniint8", 7, 1, Edx, 4, Saved::Ymm},
    {"sahf", 0x80000001u, 0, Ecx, 0, Saved::Nothing},
    {"lzcnt", 0x80000001u, 0, Ecx, 5, Saved::Nothing},
};

bool cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
  return __get_cpuid_count(leaf, subleaf, &out[0], &out[1], &out[2], &out[3]) != 0;
}

/// XCR0: bits 1, 2 (xmm, ymm) and 5, 6, 7 (opmask, upper zmm).
uint64_t savedStates() {
  uint32_t r[4];
  if (!cpuid(1, 0, r) || !((r[Ecx] >> 27) & 1u))
    return 0;
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t(high) << 32) | low;
}

void detectCpu(Machine &machine) {
  machine.architecture = "x86-64";
  const uint64_t xcr0 = savedStates();
  uint32_t r[4];
  bool there = false; // r is the answer for the bit before; the table is in order of leaves, and a virtual machine traps every question
  for (const FeatureBit *bit0 = kBits; const FeatureBit &bit : kBits) {
    if (&bit == kBits || bit.leaf != bit0->leaf || bit.subleaf != bit0->subleaf)
      there = !(bit.leaf == 7 && bit.subleaf == 1 && (!cpuid(7, 0, r) || r[Eax] < 1)) && cpuid(bit.leaf, bit.subleaf, r);
    bit0 = &bit;
    if (!there || !((r[bit.reg] >> bit.bit) & 1u))
      continue;
    const uint64_t mask = bit.needs == Saved::Zmm ? 0xe6 : bit.needs == Saved::Ymm ? 0x6 : 0;
    if ((xcr0 & mask) == mask)
      machine.features.insert(bit.name);
  }
  char brand[49] = {};
  for (uint32_t i = 0; i < 3; ++i)
    if (cpuid(0x80000002u + i, 0, r))
      std::memcpy(brand + 16 * i, r, 16);
  machine.brand = brand;
  machine.brand.erase(0, machine.brand.find_first_not_of(' '));
  machine.brand.erase(machine.brand.find_last_not_of(' ') + 1);
}

#elif defined(__aarch64__)

/// AT_HWCAP of Linux (arch/arm64/include/uapi/asm/hwcap.h) under LLVM's names.
constexpr struct {
  const char *name;
  unsigned long bit;
} kCaps[] = {{"fp-armv8", 1ul << 0}, {"neon", 1ul << 1},       {"crc", 1ul << 7},     {"lse", 1ul << 8},
             {"fullfp16", 1ul << 10}, {"rdm", 1ul << 12}, {"dotprod", 1ul << 20}, {"sve", 1ul << 22}};

void detectCpu(Machine &machine) {
  machine.architecture = "aarch64";
  const unsigned long caps = getauxval(AT_HWCAP);
  for (const auto &cap : kCaps)
    if (caps & cap.bit)
      machine.features.insert(cap.name);
}

#else

void detectCpu(Machine &machine) { machine.architecture = "other"; }

#endif

CgroupLimits cgroupLimits() { return readCgroupLimits(readSystemFile("/proc/self/cgroup"), "/sys/fs/cgroup"); }

/// 0 for the first hardware thread of its core, 1 for the second, ...
int siblingRank(int cpu) {
  const std::string list =
      readSystemFile("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int rank = 0;
  for (size_t at = 0; at < list.size();) {
    char *end = nullptr;
    const long first = std::strtol(list.c_str() + at, &end, 10);
    if (end == list.c_str() + at)
      break;
    long last = first;
    if (*end == '-')
      last = std::strtol(end + 1, &end, 10);
    for (long sibling = first; sibling <= last; ++sibling)
      rank += sibling < cpu;
    at = size_t(end - list.c_str()) + 1;
  }
  return rank;
}

uint64_t statusField(const char *name) { return leadingNumber(lineAfter(readSystemFile("/proc/self/status"), name), 0) * 1024; }

} // namespace

Machine Machine::detect() {
  Machine machine;
  detectCpu(machine);
  if (machine.brand.empty())
    machine.brand = machine.architecture + " CPU";
  return machine;
}

std::vector<std::string> Machine::lacks(const std::vector<std::string> &needed) const {
  std::vector<std::string> missing;
  std::copy_if(needed.begin(), needed.end(), std::back_inserter(missing),
               [&](const std::string &name) { return !features.contains(name); });
  return missing;
}

std::vector<int> usableCpus() {
  std::vector<int> cpus;
  // The mask has as many bits as the kernel was built for; grow until it fits.
  for (size_t count = 1024; count <= size_t(1) << 20; count *= 2) {
    cpu_set_t *set = CPU_ALLOC(count);
    if (!set)
      break;
    const size_t bytes = CPU_ALLOC_SIZE(count);
    CPU_ZERO_S(bytes, set);
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    if (ok)
      for (size_t cpu = 0; cpu < count; ++cpu)
        if (CPU_ISSET_S(cpu, bytes, set))
          cpus.push_back(int(cpu));
    CPU_FREE(set);
    if (ok)
      break;
  }
  if (cpus.empty())
    for (unsigned cpu = 0; cpu < std::max(1u, std::thread::hardware_concurrency()); ++cpu)
      cpus.push_back(int(cpu));
  std::vector<std::pair<int, int>> ranked;
  for (int cpu : cpus)
    ranked.emplace_back(siblingRank(cpu), cpu);
  std::sort(ranked.begin(), ranked.end());
  for (size_t i = 0; i < ranked.size(); ++i)
    cpus[i] = ranked[i].second;
  cpus.resize(std::min<uint64_t>(cpus.size(), cgroupLimits().cpus));
  return cpus;
}

uint64_t availableMemory() {
  const std::string text = readSystemFile("/proc/meminfo");
  const std::string_view free = lineAfter(text, "MemAvailable:");
  uint64_t available = free.empty() ? UINT64_MAX : leadingNumber(free, 0) * 1024;
  available = std::min(available, cgroupLimits().memoryBytes);
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const uint64_t mapped = leadingNumber(readSystemFile("/proc/self/statm"), 0) * uint64_t(sysconf(_SC_PAGESIZE));
    available = std::min(available, limit.rlim_cur > mapped ? limit.rlim_cur - mapped : 0);
  }
  return available;
}

uint64_t peakResidentBytes() { return statusField("VmHWM:"); }
uint64_t currentResidentBytes() { return statusField("VmRSS:"); }
uint64_t anonymousResidentBytes() { return statusField("RssAnon:"); }

HeapUse heapUse() {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  const struct mallinfo2 info = mallinfo2();
  return {info.arena + info.hblkhd, info.uordblks + info.hblkhd};
#else
  return {};
#endif
}

uint64_t nowNs() {
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now().time_since_epoch())
                      .count());
}

} // namespace ninfer
