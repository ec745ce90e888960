// Launches on a device. Calls that a conversation repeats (decode, and those of speculative decoding) are captured into a
// graph per number of rows, on their first use; the position of a call is in device memory, so that a graph serves every
// position.
#ifndef NINFER_RUNTIME_EXECUTOR_CUDAEXECUTOR_H
#define NINFER_RUNTIME_EXECUTOR_CUDAEXECUTOR_H

#include "runtime/executor/CudaPorts.h"
#include "runtime/executor/Executor.h"

#include <map>

namespace ninfer {

class CudaExecutor final : public Executor {
public:
  static Result<std::unique_ptr<Executor>> create(const Engine &engine);
  bool run(ProgramPhase &phase, int64_t rows, int64_t position, const std::atomic<bool> &stop) override;
  bool clearStates() override;
  std::byte *memoryOf(const plan::Port &port) override { return ports_.memory(port); }

  /// The launches of a phase that runs on the device, for measurements of one by one.
  std::span<const gpu::DeviceLaunch> launches(const plan::Phase &phase) const { return phases_.at(&phase).launches; }
  using Executor::launches;

  /// Memory of the host: tokens and logits of every phase, and the call, pinned; ports.
  static uint64_t hostBytes(const plan::Target &target);

private:
  explicit CudaExecutor(const Engine &engine) : engine_(engine) {}

  /// What a phase needs on the device, beside its launches.
  struct PhaseDevice {
    std::vector<gpu::DeviceLaunch> launches;
    gpu::DevicePointer tokens = 0, logits = 0;
    std::map<int64_t, gpu::GraphExec> graphs; ///< by rows
  };

  void resolve(const plan::Target &target);
  gpu::DevicePointer address(const plan::Ref &ref) const;
  /// Host code: built-ins of Setup, whose states then go to the device.
  Status setup(ProgramPhase &phase);
  /// Pinned memory of the host.
  static uint64_t pinnedBytes(const plan::Target &target);
  Status call(ProgramPhase &phase, PhaseDevice &device, int64_t rows, int64_t position);
  /// Copies in, kernels, copies out.
  Status enqueue(const ProgramPhase &phase, const PhaseDevice &device, int64_t rows) const;
  Result<gpu::GraphExec> capture(const ProgramPhase &phase, const PhaseDevice &device, int64_t rows);
  /// Keeps the failure; true when there is none.
  bool keep(Status status);

  const Engine &engine_;
  std::vector<uint64_t> stateOffsets_;
  uint64_t statesBytes_ = 0, arenaBytes_ = 0;
  gpu::DeviceMemory memory_; ///< states, arena, call
  gpu::HostMemory host_;
  CudaPorts ports_;
  int32_t *callHost_ = nullptr; ///< rows, position
  std::map<const plan::Phase *, PhaseDevice> phases_;
  gpu::Stream stream_; ///< last: destroyed before the memory its work uses
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_CUDAEXECUTOR_H
