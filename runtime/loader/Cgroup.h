// Limits that the control groups of this process set (versions 1 and 2): CPU quota and memory.
#ifndef NINFER_RUNTIME_LOADER_CGROUP_H
#define NINFER_RUNTIME_LOADER_CGROUP_H

#include <cstdint>
#include <string>

namespace ninfer {

struct CgroupLimits {
  uint64_t cpus = UINT64_MAX;        ///< whole CPUs of the smallest quota, rounded up
  uint64_t memoryBytes = UINT64_MAX; ///< smallest rest of a memory limit; clean file pages count as free
};

/// `membership` is the text of /proc/self/cgroup, `root` the mount point /sys/fs/cgroup. A group's limits and those
/// of every group above it apply. What cannot be read sets no limit.
CgroupLimits readCgroupLimits(const std::string &membership, const std::string &root);

} // namespace ninfer

#endif // NINFER_RUNTIME_LOADER_CGROUP_H
