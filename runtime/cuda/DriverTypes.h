// Types and constants of NVIDIA's driver API, by its documented ABI ("CUDA Driver API", sections Data types and the modules
// of each function). No header of theirs is needed to build the runtime.
#ifndef NINFER_RUNTIME_CUDA_DRIVERTYPES_H
#define NINFER_RUNTIME_CUDA_DRIVERTYPES_H

#include <cstddef>
#include <cstdint>

namespace ninfer::gpu {

using Result32 = int; ///< CUresult
using DeviceNumber = int;
using DevicePointer = uint64_t;
using ContextHandle = struct CUctx_opaque *;
using ModuleHandle = struct CUmod_opaque *;
using FunctionHandle = struct CUfunc_opaque *;
using StreamHandle = struct CUstream_opaque *;
using EventHandle = struct CUevent_opaque *;
using GraphHandle = struct CUgraph_opaque *;
using GraphExecHandle = struct CUgraphExec_opaque *;

inline constexpr Result32 kSuccess = 0, kErrorOutOfMemory = 2, kErrorNoDevice = 100;
inline constexpr int kAttributeMultiprocessors = 16, kAttributeMajor = 75, kAttributeMinor = 76, kAttributeSharedOptin = 97;
inline constexpr int kFunctionMaxDynamicShared = 8;
inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
inline constexpr int kCaptureThreadLocal = 1;

} // namespace ninfer::gpu

#endif // NINFER_RUNTIME_CUDA_DRIVERTYPES_H
