// The packed weight layout of CUDA plans, written by the host: what ni_pack_* writes on a device, byte for byte. For
// ninfer-build --prepack. Byte table: docs/cuda.md, "Packed weights".
#ifndef NINFER_CODEGEN_CUDA_PACKHOST_H
#define NINFER_CODEGEN_CUDA_PACKHOST_H

#include "codegen/cuda/kernels/types.cuh"

#include <cstddef>
#include <cstdint>

namespace ninfer::cuda {

/// Planes of a stored weight (docs/formats.md): as the arguments of ni_pack_*, those that a format lacks null.
struct StoredPlanes {
  const std::byte *codes = nullptr, *high = nullptr, *scales = nullptr, *divisor = nullptr;
};

/// Panels [first, last) of a weight of n x k, to their place behind `packed`, where panel 0 is. The host is little-endian.
void packPanels(ni::Format format, uint32_t n, uint32_t k, const StoredPlanes &planes, uint32_t first, uint32_t last,
                std::byte *packed);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_PACKHOST_H
