// Ports of the phases of a CUDA target: their values in memory of the host, float32 and int32 as the caller wants them, and the way
// to and from the device, which may have bfloat16 instead. Calls with ports are traces and towers: one pinned buffer carries them all,
// port by port.
#ifndef NINFER_RUNTIME_EXECUTOR_CUDAPORTS_H
#define NINFER_RUNTIME_EXECUTOR_CUDAPORTS_H

#include "runtime/cuda/Device.h"
#include "schema/View.h"

#include <functional>
#include <map>
#include <vector>

namespace ninfer {

class CudaPorts {
public:
  /// Memory of the host for the ports of `target`.
  static uint64_t hostBytes(const plan::Target &target);

  /// `address` tells where a range of the arena lies.
  Status create(const gpu::DevicePtr &device, const plan::Target &target,
                const std::function<gpu::DevicePointer(const plan::Ref &)> &address);
  /// Where the caller finds the values of a port: max_rows rows of float32 or int32.
  std::byte *memory(const plan::Port &port) { return values_.at(&port).host.data(); }
  /// Inputs of a call of `rows` rows, before it; outputs, behind what was enqueued. Both return when the stream has nothing left to do.
  Status send(gpu::StreamHandle stream, const plan::Phase &phase, int64_t rows);
  Status fetch(gpu::StreamHandle stream, const plan::Phase &phase, int64_t rows);

private:
  struct Values {
    std::vector<std::byte> host;
    gpu::DevicePointer device = 0;
  };
  gpu::DevicePtr device_;
  std::map<const plan::Port *, Values> values_;
  gpu::HostMemory staging_; ///< as large as the largest port on the device
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_CUDAPORTS_H
