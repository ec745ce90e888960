#include "codegen/cuda/Devices.h"

#include <string>

namespace ninfer::cuda {

namespace {

constexpr uint32_t kKib = 1024;

// Shared memory: CUDA C Programming Guide, "Technical Specifications per Compute Capability". Multiprocessors, memory and
// rates: vendor data sheets.
constexpr Device kDevices[] = {
    {"Tesla T4", "t4", 75, 40, 64 * kKib, 64 * kKib, 4, 16, 320, 0},
    {"GeForce RTX 2080 Ti", "rtx2080ti", 75, 68, 64 * kKib, 64 * kKib, 5, 11, 616, 0},
    {"A100 SXM 80 GB", "a100", 80, 108, 163 * kKib, 164 * kKib, 40, 80, 2039, 312},
    {"A100 40 GB", "a100-40", 80, 108, 163 * kKib, 164 * kKib, 40, 40, 1555, 312},
    {"GeForce RTX 3090", "rtx3090", 86, 82, 99 * kKib, 100 * kKib, 6, 24, 936, 71},
    {"GeForce RTX 4090", "rtx4090", 89, 128, 99 * kKib, 100 * kKib, 72, 24, 1008, 165},
    {"H100 SXM", "h100", 90, 132, 227 * kKib, 228 * kKib, 50, 80, 3350, 989},
    {"H200 SXM", "h200", 90, 132, 227 * kKib, 228 * kKib, 50, 141, 4800, 989},
    {"B200", "b200", 100, 148, 227 * kKib, 228 * kKib, 126, 180, 7700, 2250},
    {"GeForce RTX 5090", "rtx5090", 120, 170, 99 * kKib, 100 * kKib, 96, 32, 1792, 209},
    {"GeForce RTX 5060 Ti 16 GB", "rtx5060ti", 120, 36, 99 * kKib, 100 * kKib, 32, 16, 448, 0},
    {"GB10 (DGX Spark)", "gb10", 121, 48, 99 * kKib, 100 * kKib, 24, 128, 273, 0},
};

} // namespace

std::span<const Device> devices() { return kDevices; }

Result<Device> findDevice(std::string_view name) {
  for (const Device &device : kDevices)
    if (name == device.alias || name == "sm_" + std::to_string(device.sm))
      return device;
  Error error = makeError(ErrorKind::Usage, "NB0490", "unknown CUDA target '" + std::string(name) + "'");
  std::string list;
  for (const Device &device : kDevices)
    list += (list.empty() ? "" : ", ") + std::string(device.alias) + " (sm_" + std::to_string(device.sm) + ")";
  error.notes.push_back("known: " + list);
  return error;
}

} // namespace ninfer::cuda
