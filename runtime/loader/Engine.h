// An opened plan: verified, one target chosen for this machine, its kernels resolved, the artifact's weights
// mapped and proven to be the ones the plan was built for. Immutable; shared by contexts.
#ifndef NINFER_RUNTIME_LOADER_ENGINE_H
#define NINFER_RUNTIME_LOADER_ENGINE_H

#include "artifact/container/Reader.h"
#include "runtime/abi/kernel_abi.h"
#include "runtime/cuda/DeviceWeights.h"
#include "runtime/loader/ElfImage.h"
#include "runtime/loader/Machine.h"
#include "runtime/reference/Builtin.h"
#include "schema/View.h"
#include "support/Status.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ninfer {

enum class LogLevel { Info = 1, Warning = 2 };
using LogSink = std::function<void(LogLevel, const std::string &)>;

enum class CodeMapping { Auto, Direct, Memory };
enum class Preload { Auto, Always, Never };

struct EngineOptions {
  std::filesystem::path plan = {};
  std::filesystem::path weights = {}; ///< empty: the name stored in the plan, beside the plan
  std::string target = {};            ///< empty: the first one that this machine supports
  CodeMapping codeMapping = CodeMapping::Auto;
  Preload preload = Preload::Auto;
  LogSink log = {};
  /// File of ninfer-build --prepack; empty: the artifact's weights are packed on the device.
  std::filesystem::path prepacked = {};
  /// Takes the place of packing the artifact's weights for a device.
  std::shared_ptr<gpu::PackedSource> packed = {};
  /// Called while weights go to a device: bytes done, bytes in all.
  std::function<void(uint64_t, uint64_t)> progress = {};
  std::optional<Machine> machine = {}; ///< empty: this one. For tests.
};

/// A plan file, opened once: the descriptor serves the direct mapping of its machine code.
class PlanFile {
public:
  static Result<PlanFile> open(const std::filesystem::path &path);
  PlanFile() = default;
  PlanFile(PlanFile &&other) noexcept;
  PlanFile &operator=(PlanFile &&other) noexcept;
  ~PlanFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  int descriptor() const { return fd_; }
  /// Takes the pages that were read out of the resident set; what is used again comes back from the page cache.
  void release() const;

private:
  int fd_ = -1;
  const std::byte *data_ = nullptr;
  size_t size_ = 0;
};

/// Exactly one of the two is set; none for kernels of a device.
struct EngineKernel {
  ninfer_kernel_fn code = nullptr;
  std::unique_ptr<reference::Builtin> builtin;
};

class Engine {
public:
  /// Errors: NB05xx and NB0901 for the plan, NB01xx for the artifact, NB0601 no usable target, NB0602 weights of
  /// another storage signature, NB0603 no artifact name, NB0604 a launch that a built-in cannot serve,
  /// NB0605 symbol missing, NB0610..NB0612 machine code, NB0620..NB0621 built-ins, NB0644..NB0646 the device, NB0647..NB0649 packed weights.
  static Result<std::shared_ptr<const Engine>> open(const EngineOptions &options);

  const plan::Plan &plan() const { return view_->plan(); }
  const plan::Target &target() const { return *target_; }
  const plan::Phase *phase(plan::PhaseKind kind) const { return PlanView::findPhase(*target_, kind); }
  const std::vector<EngineKernel> &kernels() const { return kernels_; }
  std::span<const std::byte> blob(uint32_t index) const { return view_->blob(index); }
  /// The whole payload in one range, all parts of the artifact together.
  std::span<const std::byte> payload() const { return payload_; }
  /// Bytes of a resource of the text or the vision component, or an empty span.
  Result<std::span<const std::byte>> resource(const std::string &role) const;

  const std::filesystem::path &planPath() const { return planPath_; }
  const std::filesystem::path &weightsPath() const { return weightsPath_; }
  /// The file that packed weights came from, or empty.
  const std::filesystem::path &prepackedPath() const { return prepackedPath_; }
  uint64_t planBytes() const { return file_.bytes().size(); }
  uint64_t codeBytes() const;
  /// What malloc took from the system while the plan was opened, the memory of parsing included, and at least what is in use since;
  /// other threads that allocate meanwhile count too. 0 where the C library cannot tell.
  uint64_t heapBytes() const { return heapBytes_; }
  /// Private memory per thread: the largest need of the plan and of the built-ins.
  uint64_t scratchBytes() const { return scratchBytes_; }
  const Machine &machine() const { return machine_; }
  /// Executor "cuda": the device with the packed weights.
  const std::shared_ptr<const gpu::DeviceWeights> &device() const { return device_; }
  /// "direct", "memory", or "none".
  const char *codeMapped() const;
  void log(LogLevel level, const std::string &text) const;

  struct Times {
    uint64_t plan = 0, weights = 0, code = 0; ///< nanoseconds
    uint64_t device = 0;                      ///< of code: the weights going to a device
  };
  const Times &times() const { return times_; }

private:
  Engine() = default;

  Status openPlan(const EngineOptions &options);
  Status chooseTarget(const std::string &wanted);
  /// Why this machine cannot run `target`, or nothing.
  std::string unsupported(const plan::Target &target);
  std::string unsupportedDevice(const plan::Target &target);
  Status loadDevice(const EngineOptions &options);
  Status openWeights(const EngineOptions &options);
  bool openKnownArtifact();
  Status openArtifact(const EngineOptions &options);
  void advise(MappedFile::Access access) const;
  void preload(Preload preload) const;
  Status resolveKernels(CodeMapping mapping);
  Result<const ElfImage *> image(uint32_t blob, CodeMapping mapping);
  Status checkBuiltinLaunches() const;
  Status checkBuiltinLaunch(const plan::Phase &phase, const plan::Launch &launch) const;

  std::filesystem::path planPath_, weightsPath_, prepackedPath_;
  Machine machine_;
  LogSink log_;
  PlanFile file_;
  std::optional<PlanView> view_;
  const plan::Target *target_ = nullptr;
  // One of the two: the file the plan was built from, or another one, whose directory was parsed.
  MappedFile known_;
  std::optional<Artifact> artifact_;
  std::span<const std::byte> payload_; ///< of that
  std::map<uint32_t, ElfImage> images_; ///< by blob
  std::vector<EngineKernel> kernels_;   ///< as in target().kernels()
  uint64_t scratchBytes_ = 0, heapBytes_ = 0;
  std::optional<Result<std::shared_ptr<const gpu::Driver>>> driver_; ///< set at the first CUDA target looked at
  std::optional<gpu::DeviceInfo> deviceInfo_;
  std::shared_ptr<const gpu::DeviceWeights> device_;
  Times times_;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_LOADER_ENGINE_H
