// The device table: what a plan may assume about a card. Never read from the machine that builds. A target names a card
// ("rtx4090") or an architecture ("sm_89"), which stands for its first card below.
#ifndef NINFER_CODEGEN_CUDA_DEVICES_H
#define NINFER_CODEGEN_CUDA_DEVICES_H

#include "support/Status.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace ninfer::cuda {

struct Device {
  std::string_view name;        ///< "GeForce RTX 4090"
  std::string_view alias;       ///< "rtx4090"
  uint32_t sm;                  ///< compute capability times 10: 89
  uint32_t multiprocessors;
  uint32_t sharedPerBlock;      ///< bytes a block may opt in to
  uint32_t sharedPerSm;         ///< bytes
  uint32_t l2Mib;
  uint32_t memoryGib;
  uint32_t bandwidthGBs;        ///< of device memory, vendor figure
  uint32_t bf16Tflops;          ///< dense, float accumulation, vendor figure; 0: the card has no bfloat16 mma or no figure
};

std::span<const Device> devices();

/// By alias or "sm_<N>". NB0490 lists what there is.
Result<Device> findDevice(std::string_view name);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_DEVICES_H
