// The device that is checked, through the runtime's own driver layer: functions by file and symbol, one reusable piece of
// memory, times by events.
#ifndef NINFER_TEST_GPU_GPU_H
#define NINFER_TEST_GPU_GPU_H

#include "runtime/cuda/Device.h"
#include "test/emulator/Emulator.h"
#include "test/gpu/Pack.h"

#include <functional>
#include <map>
#include <span>

namespace ninfer::gpucheck {

class Gpu {
public:
  /// The first device that the pack has machine code for. NB0643: no driver or no device; TargetMismatch without NB0643:
  /// devices, but none of the pack's.
  static Result<std::unique_ptr<Gpu>> open(const Pack &pack);

  const gpu::DevicePtr &device() const { return device_; }
  const gpu::DeviceInfo &info() const { return device_->info(); }
  const gpu::Driver &driver() const { return device_->driver(); }
  gpu::StreamHandle stream() const { return stream_.get(); }
  uint32_t sm() const { return info().sm; }
  /// Facts of the device and the driver.
  Json facts() const;

  /// Folder of the pack with the machine code for this device, and a cubin in it.
  Result<gpu::FunctionHandle> function(const Pack &pack, const std::string &cubin, const std::string &symbol, uint32_t sharedBytes);
  /// Enqueues; `values` are parameters of at most 8 bytes each.
  Status launch(gpu::FunctionHandle function, emulator::Grid grid, uint32_t threads, uint32_t sharedBytes,
                std::span<const uint64_t> values) const;
  Status upload(gpu::DevicePointer to, const void *from, size_t bytes) const;
  Status download(void *to, gpu::DevicePointer from, size_t bytes) const; ///< waits
  Status wait() const;
  /// At least `bytes` of device memory, the same at every call until it must grow; contents are lost then.
  Result<gpu::DevicePointer> scratch(size_t bytes);
  void releaseScratch();

  /// Milliseconds of what `enqueue` puts into the stream, by events: the median of `repeats` runs after one more.
  Result<double> milliseconds(int repeats, const std::function<Status()> &enqueue) const;
  /// Bytes per second of a copy inside the device, read and written bytes together.
  Result<double> copyRate(size_t bytes);

private:
  gpu::DevicePtr device_;
  std::map<std::string, gpu::Module> modules_;
  gpu::DeviceMemory scratch_;
  size_t scratchBytes_ = 0;
  gpu::Stream stream_;
  gpu::Result32 (*elapsed_)(float *, gpu::EventHandle, gpu::EventHandle) = nullptr;
  gpu::Result32 (*copy_)(gpu::DevicePointer, gpu::DevicePointer, size_t, gpu::StreamHandle) = nullptr;
};

} // namespace ninfer::gpucheck

#endif // NINFER_TEST_GPU_GPU_H
