#include "runtime/loader/Cgroup.h"

#include "runtime/loader/SystemFile.h"

#include <algorithm>

namespace ninfer {

namespace {

uint64_t readNumber(const std::string &path, uint64_t otherwise) { return leadingNumber(readSystemFile(path), otherwise); }

uint64_t statField(const std::string &path, const std::string &name) {
  return leadingNumber(lineAfter(readSystemFile(path), name + " "), 0);
}

void limitCpus(CgroupLimits &limits, uint64_t quota, uint64_t period) {
  if (quota != 0 && period != 0)
    limits.cpus = std::min(limits.cpus, std::max<uint64_t>(1, (quota + period - 1) / period));
}

void limitMemory(CgroupLimits &limits, uint64_t limit, uint64_t used, uint64_t reclaimable) {
  used -= std::min(used, reclaimable);
  limits.memoryBytes = std::min(limits.memoryBytes, limit > used ? limit - used : 0);
}

void readUnified(CgroupLimits &limits, const std::string &folder) {
  const std::string text = readSystemFile(folder + "/cpu.max"); // "max 100000" or "150000 100000"
  std::string_view period = text;
  const std::string_view quota = takeUntil(period, ' ');
  limitCpus(limits, leadingNumber(quota, 0), leadingNumber(period, 0));
  // The file of use is long and slow to read: only where there is a limit.
  if (const uint64_t limit = readNumber(folder + "/memory.max", UINT64_MAX); limit != UINT64_MAX)
    limitMemory(limits, limit, readNumber(folder + "/memory.current", 0), statField(folder + "/memory.stat", "inactive_file"));
}

void readCpuV1(CgroupLimits &limits, const std::string &folder) {
  limitCpus(limits, readNumber(folder + "/cpu.cfs_quota_us", 0), readNumber(folder + "/cpu.cfs_period_us", 0));
}

void readMemoryV1(CgroupLimits &limits, const std::string &folder) {
  if (const uint64_t limit = readNumber(folder + "/memory.limit_in_bytes", UINT64_MAX); limit != UINT64_MAX)
    limitMemory(limits, limit, readNumber(folder + "/memory.usage_in_bytes", 0),
                statField(folder + "/memory.stat", "total_inactive_file"));
}

/// Calls `read` for the folder of a group and of every group above it, up to the mount point.
template <typename Read>
void forEachLevel(CgroupLimits &limits, const std::string &mount, std::string group, Read read) {
  for (;;) {
    while (!group.empty() && group.back() == '/')
      group.pop_back();
    read(limits, mount + group);
    if (group.empty())
      return;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

} // namespace

CgroupLimits readCgroupLimits(const std::string &membership, const std::string &root) {
  CgroupLimits limits;
  // "hierarchy:controllers:group"; hierarchy 0 without controllers is version 2.
  for (std::string_view lines = membership; !lines.empty();) {
    std::string_view group = takeUntil(lines, '\n');
    if (std::count(group.begin(), group.end(), ':') < 2)
      continue;
    takeUntil(group, ':');
    const std::string controllers(takeUntil(group, ':'));
    if (controllers.empty())
      forEachLevel(limits, root, std::string(group), readUnified);
    for (std::string_view names = controllers; !names.empty();) {
      const std::string_view name = takeUntil(names, ',');
      if (name == "cpu")
        forEachLevel(limits, root + "/" + controllers, std::string(group), readCpuV1);
      else if (name == "memory")
        forEachLevel(limits, root + "/" + controllers, std::string(group), readMemoryV1);
    }
  }
  return limits;
}

} // namespace ninfer
