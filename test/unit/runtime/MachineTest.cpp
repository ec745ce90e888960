#include "runtime/loader/Machine.h"

#include "runtime/loader/Cgroup.h"
#include "test/unit/runtime/TinyModel.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <sstream>

using namespace ninfer;

TEST(Machine, LacksNamesInOrder) {
  Machine machine;
  machine.features = {"avx2", "fma"};
  EXPECT_EQ(machine.lacks({"fma", "avx512f", "avx2", "made-up"}), (std::vector<std::string>{"avx512f", "made-up"}));
  EXPECT_TRUE(machine.lacks({}).empty());
}

#if defined(__x86_64__)
// The kernel reports the same bits under its own names: an independent reading of CPUID and XCR0.
TEST(Machine, FeaturesAgreeWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line);)
    if (line.rfind("flags", 0) == 0) {
      std::istringstream words(line.substr(line.find(':') + 1));
      for (std::string word; words >> word;)
        flags.insert(word);
      break;
    }
  if (flags.empty())
    GTEST_SKIP() << "/proc/cpuinfo has no flags here";
  const Machine machine = Machine::detect();
  const std::pair<const char *, const char *> names[] = {
      {"sse3", "pni"},           {"ssse3", "ssse3"},       {"sse4.1", "sse4_1"},         {"sse4.2", "sse4_2"},
      {"popcnt", "popcnt"},      {"cx16", "cx16"},         {"sahf", "lahf_lm"},          {"movbe", "movbe"},
      {"avx", "avx"},            {"avx2", "avx2"},         {"fma", "fma"},               {"f16c", "f16c"},
      {"bmi", "bmi1"},           {"bmi2", "bmi2"},         {"lzcnt", "abm"},             {"avx512f", "avx512f"},
      {"avx512bw", "avx512bw"},  {"avx512cd", "avx512cd"}, {"avx512dq", "avx512dq"},     {"avx512vl", "avx512vl"},
      {"avx512vnni", "avx512_vnni"}, {"avx512bf16", "avx512_bf16"}, {"avxvnni", "avx_vnni"}, {"gfni", "gfni"},
      {"avx512vbmi", "avx512vbmi"}, {"avx512vbmi2", "avx512_vbmi2"}, {"avx512ifma", "avx512ifma"}};
  for (const auto &[ours, kernel] : names)
    EXPECT_EQ(machine.features.contains(ours), flags.contains(kernel)) << ours;
  EXPECT_FALSE(machine.brand.empty());
}
#endif

TEST(Machine, UsableCpusFollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const std::vector<int> all = usableCpus();
  ASSERT_FALSE(all.empty());
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all.back(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usableCpus(), std::vector<int>{all.back()});
  sched_setaffinity(0, sizeof(before), &before);
}

TEST(Machine, MemoryFiguresAreSane) {
  EXPECT_GT(availableMemory(), uint64_t(16) << 20);
  const uint64_t current = currentResidentBytes(); // read first: reading the peak may itself touch a new page
  EXPECT_GE(peakResidentBytes(), current);
  EXPECT_GT(currentResidentBytes(), uint64_t(1) << 20);
}

namespace {

void put(const test::TemporaryFolder &root, const std::string &path, const std::string &text) {
  std::filesystem::create_directories((root / path).parent_path());
  test::writeBytes(root / path, std::as_bytes(std::span(text.data(), text.size())));
}

} // namespace

TEST(Cgroup, UnifiedLimitsOfEveryLevel) {
  test::TemporaryFolder root;
  put(root, "a/cpu.max", "250000 100000\n");
  put(root, "a/memory.max", "1000000\n");
  put(root, "a/memory.current", "400000\n");
  put(root, "a/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");
  put(root, "a/b/cpu.max", "max 100000\n");
  put(root, "a/b/memory.max", "max\n");
  const CgroupLimits limits = readCgroupLimits("0::/a/b\n", root.path().string());
  EXPECT_EQ(limits.cpus, 3u);
  EXPECT_EQ(limits.memoryBytes, 700000u);
  const CgroupLimits above = readCgroupLimits("0::/\n", root.path().string());
  EXPECT_EQ(above.cpus, UINT64_MAX);
  EXPECT_EQ(above.memoryBytes, UINT64_MAX);
}

TEST(Cgroup, Version1Controllers) {
  test::TemporaryFolder root;
  put(root, "cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n");
  put(root, "cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  put(root, "memory/x/memory.limit_in_bytes", "5000\n");
  put(root, "memory/x/memory.usage_in_bytes", "6000\n");
  put(root, "memory/x/memory.stat", "total_inactive_file 2000\n");
  const std::string membership = "9:name=systemd:/\n4:cpu,cpuacct:/x\n3:memory:/x\n";
  const CgroupLimits limits = readCgroupLimits(membership, root.path().string());
  EXPECT_EQ(limits.cpus, 1u); // half a CPU still runs one thread
  EXPECT_EQ(limits.memoryBytes, 1000u);
  put(root, "cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(readCgroupLimits(membership, root.path().string()).cpus, UINT64_MAX);
}

TEST(Cgroup, NothingReadableSetsNoLimit) {
  for (const char *membership : {"", "nonsense", "0::", "1:memory:/gone\n", "0::/gone/deeper\n"}) {
    const CgroupLimits limits = readCgroupLimits(membership, "/no/such/root");
    EXPECT_EQ(limits.cpus, UINT64_MAX);
    EXPECT_EQ(limits.memoryBytes, UINT64_MAX);
  }
}
