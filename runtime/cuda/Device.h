// One device held for a plan, and things on it that free themselves. Every call makes the device current for its thread.
#ifndef NINFER_RUNTIME_CUDA_DEVICE_H
#define NINFER_RUNTIME_CUDA_DEVICE_H

#include "runtime/cuda/Driver.h"

#include <cstddef>
#include <utility>

namespace ninfer::gpu {

class Device {
public:
  static Result<std::shared_ptr<const Device>> open(std::shared_ptr<const Driver> driver, const DeviceInfo &info);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const Driver &driver() const { return *driver_; }
  const DeviceInfo &info() const { return info_; }
  Status makeCurrent() const { return driver_->check(driver_->setCurrent(context_), "cuCtxSetCurrent"); }
  /// Device memory, bytes.
  struct Memory {
    uint64_t free = 0, total = 0;
  };
  Result<Memory> memory() const;

private:
  Device(std::shared_ptr<const Driver> driver, const DeviceInfo &info) : driver_(std::move(driver)), info_(info) {}
  std::shared_ptr<const Driver> driver_;
  DeviceInfo info_;
  ContextHandle context_ = nullptr;
};
using DevicePtr = std::shared_ptr<const Device>;

/// Handles are released in the destructor, with the device current; a failure there is ignored.
template <typename Handle, auto Release>
class Owned {
public:
  Owned() = default;
  Owned(DevicePtr device, Handle handle) : device_(std::move(device)), handle_(handle) {}
  Owned(Owned &&other) noexcept { *this = std::move(other); }
  Owned &operator=(Owned &&other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (!handle_ || !device_ || !device_->makeCurrent().ok())
      return;
    (device_->driver().*Release)(handle_);
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Handle(); }

private:
  DevicePtr device_;
  Handle handle_ = Handle();
};

using DeviceMemory = Owned<DevicePointer, &Driver::release>;
using HostMemory = Owned<void *, &Driver::releaseHost>; ///< pinned
using Stream = Owned<StreamHandle, &Driver::streamDestroy>;
using Event = Owned<EventHandle, &Driver::eventDestroy>;
using Module = Owned<ModuleHandle, &Driver::moduleUnload>;
using Graph = Owned<GraphHandle, &Driver::graphDestroy>;
using GraphExec = Owned<GraphExecHandle, &Driver::graphExecDestroy>;

/// What the driver takes for an allocation of `bytes`: whole pages of 2 MiB.
uint64_t devicePages(uint64_t bytes);

// 0 bytes give an empty handle. `purpose` is for the message.
Result<DeviceMemory> allocateDevice(const DevicePtr &device, uint64_t bytes, const char *purpose);
Result<HostMemory> allocateHost(const DevicePtr &device, uint64_t bytes, const char *purpose);
Result<Stream> createStream(const DevicePtr &device);
Result<Event> createEvent(const DevicePtr &device);

/// NB0646 (OutOfMemory) when `needed` device bytes are not free; `parts` says what they are.
Status checkDeviceMemory(const Device &device, uint64_t needed, const std::string &parts);

} // namespace ninfer::gpu

#endif // NINFER_RUNTIME_CUDA_DEVICE_H
