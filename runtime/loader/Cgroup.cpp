#include "runtime/loader/Cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ninfer {

namespace {

std::string readLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The number at the start of `text`, or `otherwise` when there is none ("max", "-1", "").
uint64_t number(const std::string &text, uint64_t otherwise) {
  if (text.empty() || text[0] < '0' || text[0] > '9')
    return otherwise;
  return std::strtoull(text.c_str(), nullptr, 10);
}

uint64_t statField(const std::string &path, const std::string &name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.rfind(name + " ", 0) == 0)
      return number(line.substr(name.size() + 1), 0);
  return 0;
}

void limitCpus(CgroupLimits &limits, uint64_t quota, uint64_t period) {
  if (quota != 0 && period != 0)
    limits.cpus = std::min(limits.cpus, std::max<uint64_t>(1, (quota + period - 1) / period));
}

void limitMemory(CgroupLimits &limits, uint64_t limit, uint64_t used, uint64_t reclaimable) {
  if (limit == UINT64_MAX)
    return;
  used -= std::min(used, reclaimable);
  limits.memoryBytes = std::min(limits.memoryBytes, limit > used ? limit - used : 0);
}

void readUnified(CgroupLimits &limits, const std::string &folder) {
  const std::string quota = readLine(folder + "/cpu.max"); // "max 100000" or "150000 100000"
  if (const size_t space = quota.find(' '); space != std::string::npos)
    limitCpus(limits, number(quota, 0), number(quota.substr(space + 1), 0));
  limitMemory(limits, number(readLine(folder + "/memory.max"), UINT64_MAX),
              number(readLine(folder + "/memory.current"), 0),
              statField(folder + "/memory.stat", "inactive_file"));
}

void readCpuV1(CgroupLimits &limits, const std::string &folder) {
  limitCpus(limits, number(readLine(folder + "/cpu.cfs_quota_us"), 0),
            number(readLine(folder + "/cpu.cfs_period_us"), 0));
}

void readMemoryV1(CgroupLimits &limits, const std::string &folder) {
  limitMemory(limits, number(readLine(folder + "/memory.limit_in_bytes"), UINT64_MAX),
              number(readLine(folder + "/memory.usage_in_bytes"), 0),
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
  std::istringstream lines(membership);
  // "hierarchy:controllers:group"; hierarchy 0 without controllers is version 2.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty())
      forEachLevel(limits, root, group, readUnified);
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');) {
      if (name == "cpu")
        forEachLevel(limits, root + "/" + controllers, group, readCpuV1);
      else if (name == "memory")
        forEachLevel(limits, root + "/" + controllers, group, readMemoryV1);
    }
  }
  return limits;
}

} // namespace ninfer
