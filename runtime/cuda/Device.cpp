#include "runtime/cuda/Device.h"

#include <cstdio>

namespace ninfer::gpu {

namespace {

std::string mebibytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", double(bytes) / 1048576.0);
  return text;
}

Status ofPurpose(Status status, uint64_t bytes, const char *purpose) {
  if (status.ok())
    return status;
  Error error = status.takeError();
  error.message = "cannot allocate " + std::to_string(bytes) + " bytes for " + purpose + ": " + error.message;
  return error;
}

} // namespace

Result<std::shared_ptr<const Device>> Device::open(std::shared_ptr<const Driver> driver, const DeviceInfo &info) {
  std::shared_ptr<Device> device(new Device(std::move(driver), info));
  const Driver &d = *device->driver_;
  NINFER_RETURN_IF_ERROR(d.check(d.primaryRetain(&device->context_, info.number), "cuDevicePrimaryCtxRetain"));
  NINFER_RETURN_IF_ERROR(device->makeCurrent());
  return std::shared_ptr<const Device>(std::move(device));
}

Device::~Device() {
  if (context_)
    driver_->primaryRelease(info_.number);
}

Result<Device::Memory> Device::memory() const {
  NINFER_RETURN_IF_ERROR(makeCurrent());
  size_t free = 0, total = 0;
  NINFER_RETURN_IF_ERROR(driver_->check(driver_->memoryInfo(&free, &total), "cuMemGetInfo"));
  return Memory{free, total};
}

uint64_t devicePages(uint64_t bytes) {
  constexpr uint64_t kPage = uint64_t(2) << 20;
  return (bytes + kPage - 1) / kPage * kPage;
}

Result<DeviceMemory> allocateDevice(const DevicePtr &device, uint64_t bytes, const char *purpose) {
  if (bytes == 0)
    return DeviceMemory();
  NINFER_RETURN_IF_ERROR(device->makeCurrent());
  DevicePointer pointer = 0;
  const Driver &d = device->driver();
  NINFER_RETURN_IF_ERROR(ofPurpose(d.check(d.allocate(&pointer, bytes), "cuMemAlloc"), bytes, purpose));
  return DeviceMemory(device, pointer);
}

Result<HostMemory> allocateHost(const DevicePtr &device, uint64_t bytes, const char *purpose) {
  if (bytes == 0)
    return HostMemory();
  NINFER_RETURN_IF_ERROR(device->makeCurrent());
  void *pointer = nullptr;
  const Driver &d = device->driver();
  NINFER_RETURN_IF_ERROR(ofPurpose(d.check(d.allocateHost(&pointer, bytes, 0), "cuMemHostAlloc"), bytes, purpose));
  return HostMemory(device, pointer);
}

Result<Stream> createStream(const DevicePtr &device) {
  NINFER_RETURN_IF_ERROR(device->makeCurrent());
  StreamHandle stream = nullptr;
  const Driver &d = device->driver();
  NINFER_RETURN_IF_ERROR(d.check(d.streamCreate(&stream, kStreamNonBlocking), "cuStreamCreate"));
  return Stream(device, stream);
}

Result<Event> createEvent(const DevicePtr &device) {
  NINFER_RETURN_IF_ERROR(device->makeCurrent());
  EventHandle event = nullptr;
  const Driver &d = device->driver();
  NINFER_RETURN_IF_ERROR(d.check(d.eventCreate(&event, kEventDisableTiming), "cuEventCreate"));
  return Event(device, event);
}

Status checkDeviceMemory(const Device &device, uint64_t needed, const std::string &parts) {
  NINFER_ASSIGN_OR_RETURN(const Device::Memory memory, device.memory());
  if (needed <= memory.free)
    return {};
  Status status = makeError(ErrorKind::OutOfMemory, "NB0646",
                            "device memory: needs " + mebibytes(needed) + ", free: " + mebibytes(memory.free) + " of " +
                                mebibytes(memory.total));
  status.note(parts).help("build the plan with a smaller --max-context, or free memory of the device");
  return status;
}

} // namespace ninfer::gpu
