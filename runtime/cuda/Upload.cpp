#include "runtime/cuda/Upload.h"

namespace ninfer::gpu {

Result<Upload> Upload::create(const DevicePtr &device, uint64_t bytes) {
  Upload upload(device);
  for (int half = 0; half < 2; ++half) {
    NINFER_ASSIGN_OR_RETURN(upload.host_[half], allocateHost(device, bytes, "uploading weights"));
    NINFER_ASSIGN_OR_RETURN(upload.sent_[half], createEvent(device));
  }
  return upload;
}

Result<std::byte *> Upload::buffer() {
  half_ ^= 1;
  const Driver &d = device_->driver();
  NINFER_RETURN_IF_ERROR(d.check(d.eventSynchronize(sent_[half_].get()), "cuEventSynchronize"));
  return static_cast<std::byte *>(host_[half_].get());
}

Status Upload::sent(StreamHandle stream) {
  const Driver &d = device_->driver();
  return d.check(d.eventRecord(sent_[half_].get(), stream), "cuEventRecord");
}

} // namespace ninfer::gpu
