// Bytes on their way to a device: two pinned buffers, one filled while the other is copied.
#ifndef NINFER_RUNTIME_CUDA_UPLOAD_H
#define NINFER_RUNTIME_CUDA_UPLOAD_H

#include "runtime/cuda/Device.h"

namespace ninfer::gpu {

class Upload {
public:
  static Result<Upload> create(const DevicePtr &device, uint64_t bytes);
  /// Pinned memory of that size which no copy reads any more.
  Result<std::byte *> buffer();
  /// What was enqueued since buffer() reads it.
  Status sent(StreamHandle stream);

private:
  explicit Upload(DevicePtr device) : device_(std::move(device)) {}
  DevicePtr device_;
  HostMemory host_[2];
  Event sent_[2];
  int half_ = 1;
};

} // namespace ninfer::gpu

#endif // NINFER_RUNTIME_CUDA_UPLOAD_H
