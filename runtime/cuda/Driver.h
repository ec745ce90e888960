// NVIDIA's driver, loaded with dlopen: one list of symbols, nothing linked.
#ifndef NINFER_RUNTIME_CUDA_DRIVER_H
#define NINFER_RUNTIME_CUDA_DRIVER_H

#include "runtime/cuda/DriverTypes.h"
#include "support/Status.h"

#include <memory>
#include <string>
#include <vector>

namespace ninfer::gpu {

/// Every entry point: member, exported name (with the suffix of its newest ABI), parameters.
#define NINFER_CUDA_SYMBOLS(X)                                                                                         \
  X(init, "cuInit", unsigned)                                                                                          \
  X(driverVersion, "cuDriverGetVersion", int *)                                                                        \
  X(errorName, "cuGetErrorName", Result32, const char **)                                                              \
  X(deviceCount, "cuDeviceGetCount", int *)                                                                            \
  X(device, "cuDeviceGet", DeviceNumber *, int)                                                                        \
  X(deviceName, "cuDeviceGetName", char *, int, DeviceNumber)                                                          \
  X(deviceAttribute, "cuDeviceGetAttribute", int *, int, DeviceNumber)                                                 \
  X(primaryRetain, "cuDevicePrimaryCtxRetain", ContextHandle *, DeviceNumber)                                          \
  X(primaryRelease, "cuDevicePrimaryCtxRelease_v2", DeviceNumber)                                                      \
  X(setCurrent, "cuCtxSetCurrent", ContextHandle)                                                                      \
  X(memoryInfo, "cuMemGetInfo_v2", size_t *, size_t *)                                                                 \
  X(allocate, "cuMemAlloc_v2", DevicePointer *, size_t)                                                                \
  X(release, "cuMemFree_v2", DevicePointer)                                                                            \
  X(allocateHost, "cuMemHostAlloc", void **, size_t, unsigned)                                                         \
  X(releaseHost, "cuMemFreeHost", void *)                                                                              \
  X(copyToDevice, "cuMemcpyHtoDAsync_v2", DevicePointer, const void *, size_t, StreamHandle)                           \
  X(copyToHost, "cuMemcpyDtoHAsync_v2", void *, DevicePointer, size_t, StreamHandle)                                   \
  X(fill, "cuMemsetD8Async", DevicePointer, unsigned char, size_t, StreamHandle)                                       \
  X(streamCreate, "cuStreamCreate", StreamHandle *, unsigned)                                                          \
  X(streamDestroy, "cuStreamDestroy_v2", StreamHandle)                                                                 \
  X(streamSynchronize, "cuStreamSynchronize", StreamHandle)                                                            \
  X(beginCapture, "cuStreamBeginCapture_v2", StreamHandle, int)                                                        \
  X(endCapture, "cuStreamEndCapture", StreamHandle, GraphHandle *)                                                     \
  X(graphInstantiate, "cuGraphInstantiateWithFlags", GraphExecHandle *, GraphHandle, unsigned long long)               \
  X(graphLaunch, "cuGraphLaunch", GraphExecHandle, StreamHandle)                                                       \
  X(graphExecDestroy, "cuGraphExecDestroy", GraphExecHandle)                                                           \
  X(graphDestroy, "cuGraphDestroy", GraphHandle)                                                                       \
  X(eventCreate, "cuEventCreate", EventHandle *, unsigned)                                                             \
  X(eventDestroy, "cuEventDestroy_v2", EventHandle)                                                                    \
  X(eventRecord, "cuEventRecord", EventHandle, StreamHandle)                                                           \
  X(eventSynchronize, "cuEventSynchronize", EventHandle)                                                               \
  X(moduleLoad, "cuModuleLoadData", ModuleHandle *, const void *)                                                      \
  X(moduleUnload, "cuModuleUnload", ModuleHandle)                                                                      \
  X(moduleFunction, "cuModuleGetFunction", FunctionHandle *, ModuleHandle, const char *)                               \
  X(functionAttribute, "cuFuncSetAttribute", FunctionHandle, int, int)                                                 \
  X(launch, "cuLaunchKernel", FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,    \
    StreamHandle, void **, void **)

/// A device as it is chosen and named.
struct DeviceInfo {
  DeviceNumber number = 0;
  std::string name; ///< "NVIDIA GeForce RTX 4090"
  uint32_t sm = 0;  ///< 89
  uint32_t multiprocessors = 0;
  uint32_t sharedBytes = 0; ///< most dynamic shared memory of a block
};

class Driver {
public:
  /// Loads $NINFER_CUDA_DRIVER, or libcuda.so.1, and starts it. NB0643 (TargetMismatch): no library, a symbol is missing,
  /// or it does not start; the message is a phrase that follows "this machine: ".
  static Result<std::shared_ptr<const Driver>> load();

  uint32_t version() const { return version_; } ///< 13000: CUDA 13.0
  const std::vector<DeviceInfo> &devices() const { return devices_; }

  /// Ok, or NB0644 naming the call and the driver's error; out of memory is NB0645.
  Status check(Result32 result, const char *call) const;
  /// An entry point that the runtime itself does not need, or null.
  void *symbol(const char *name) const;

#define NINFER_CUDA_MEMBER(member, name, ...) Result32 (*member)(__VA_ARGS__) = nullptr;
  NINFER_CUDA_SYMBOLS(NINFER_CUDA_MEMBER)
#undef NINFER_CUDA_MEMBER

private:
  Status bind(void *library, const std::string &path);
  Status findDevices();

  void *library_ = nullptr;
  uint32_t version_ = 0;
  std::vector<DeviceInfo> devices_;
};

/// "CUDA 13.0" for 13000.
std::string cudaVersionText(uint32_t version);

} // namespace ninfer::gpu

#endif // NINFER_RUNTIME_CUDA_DRIVER_H
