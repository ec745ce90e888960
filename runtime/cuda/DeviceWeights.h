// A CUDA target on its device: machine code loaded, weights uploaded and packed. Shared by the contexts of an engine.
#ifndef NINFER_RUNTIME_CUDA_DEVICEWEIGHTS_H
#define NINFER_RUNTIME_CUDA_DEVICEWEIGHTS_H

#include "runtime/cuda/Device.h"
#include "schema/View.h"

#include <functional>
#include <map>
#include <span>
#include <vector>

namespace ninfer::gpu {

/// Device memory of a target and one context, bytes, before rounding to pages.
struct DeviceLedger {
  uint64_t packed = 0;  ///< weights, for as long as the engine lives
  uint64_t staging = 0; ///< while they are loaded
  uint64_t arena = 0, states = 0, call = 0; ///< of one context
  uint64_t contextBytes() const { return devicePages(arena + states + call); }
  uint64_t weightBytes() const { return devicePages(packed); }
};
DeviceLedger deviceLedger(const plan::Target &target);

/// How one parameter of a launch is made; addresses are of the device.
struct LaunchParam {
  plan::CudaParamKind kind = plan::CudaParamKind::Null;
  uint64_t base = 0; ///< Pointer, Position: address; Word: value
  uint32_t perRow = 0;
  uint64_t at(int64_t rows) const {
    return kind == plan::CudaParamKind::Pointer ? base + uint64_t(perRow) * uint64_t(rows - 1)
           : kind == plan::CudaParamKind::Word  ? uint32_t(base + uint64_t(perRow) * uint64_t(rows))
                                                : base;
  }
};

/// A launch with everything resolved.
struct DeviceLaunch {
  FunctionHandle function = nullptr;
  uint32_t threads = 0, sharedBytes = 0;
  uint32_t grid[3] = {0, 1, 1}; ///< 0: takes the blocks
  uint64_t blocksConst = 0, blocksPerRow = 0, rowsPerTile = 1;
  std::vector<LaunchParam> params;

  /// Enqueues the kernel.
  Status run(const Device &device, StreamHandle stream, int64_t rows) const;
};

/// Bytes that have gone to the device, and bytes in all.
using UploadProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Where packed weights come from when they are not packed from the payload.
class PackedSource {
public:
  virtual ~PackedSource() = default;
  /// Device memory it needs beside the weights.
  virtual uint64_t stagingBytes() const = 0;
  /// Writes all of `packed`: target.cuda()->packed_bytes() bytes of the device.
  virtual Status fill(const DevicePtr &device, const plan::Target &target, DevicePointer packed, const UploadProgress &progress) = 0;
};

class DeviceWeights {
public:
  using Progress = UploadProgress;
  /// Checks the memory of the device for weights and one context, loads modules, then uploads and packs `payload`, or
  /// lets `source` fill the weights when it is there.
  static Result<std::shared_ptr<const DeviceWeights>> load(DevicePtr device, const PlanView &view, const plan::Target &target,
                                                           std::span<const std::byte> payload, PackedSource *source,
                                                           const Progress &progress);

  const DevicePtr &device() const { return device_; }
  DevicePointer packed() const { return packed_.get(); }
  /// `address` gives the place of a reference.
  DeviceLaunch resolve(const plan::Kernel &kernel, const plan::Launch &launch, DevicePointer position,
                       const std::function<DevicePointer(const plan::Ref &)> &address) const;

private:
  explicit DeviceWeights(DevicePtr device) : device_(std::move(device)) {}
  Status loadModules(const PlanView &view, const plan::Target &target);
  Status fill(const plan::Target &target, std::span<const std::byte> payload, const Progress &progress);

  DevicePtr device_;
  std::map<uint32_t, Module> modules_; ///< by blob
  std::map<const plan::Kernel *, FunctionHandle> functions_;
  DeviceMemory packed_;
};

} // namespace ninfer::gpu

#endif // NINFER_RUNTIME_CUDA_DEVICEWEIGHTS_H
