// The whole way from an artifact to a plan: open the directory, recognise the model, build the
// graph, run the passes, compile kernels, write the plan. The payload is read for `prepack` only, so time and
// memory do not depend on the size of the weights otherwise. Free of MLIR in this header.
#ifndef NINFER_COMPILER_COMPILER_H
#define NINFER_COMPILER_COMPILER_H

#include "artifact/formats/Format.h"
#include "codegen/common/ObjectCache.h"
#include "support/Progress.h"
#include "support/Status.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ninfer {

struct BuildOptions {
  std::filesystem::path artifact;
  /// A file already there is replaced when it is a plan or empty, else refused (NB0905).
  /// Empty: nothing is written (dry run); the plan is still built and verified. Empty with
  /// `emitStage`: the build ends after the passes, and the report has no plan.
  std::filesystem::path output;
  /// Packed weights of the CUDA targets go to this file (schema/PackedFile.h); a file already there is replaced when it is
  /// one of these or empty, else refused (NB0905). Empty: none. Published behind the plan.
  std::filesystem::path prepack;
  /// Any of reference, cpu:native, cpu:x86-64-v3, cpu:x86-64-v4, cpu:znver4, cpu:aarch64, cuda:sm_N; one section
  /// of the plan each.
  std::vector<std::string> targets = {"cpu:native"};
  std::optional<int64_t> maxContext;   ///< positions; default min(model, 4096)
  std::optional<int64_t> prefillChunk; ///< rows; default min(64, maxContext)
  std::string kvDtype = "bf16";        ///< bf16, f32, int8
  /// Tokens that the draft layer (component mtp) may propose per step, 1..15; 0: no speculation.
  int64_t draftTokens = 0;
  bool vision = false;                 ///< the vision tower too: images to embeddings
  /// Patches of the largest image, a multiple of spatial_merge_size squared; default 4096, rounded down
  /// to one. An error without `vision`.
  std::optional<int64_t> visionMaxPatches;
  /// Policy of uses that state none. An error when every use states one.
  std::optional<ActivationPolicy> activationPolicy;
  bool traceLayers = false; ///< the residual stream after every step of it is an output of each phase
  unsigned threads = 0; ///< kernels compiled at the same time; 0: number of CPUs, at most 8
  CachePlace cache; ///< compiled objects and measured choices by content hash
  enum class Tune {
    Off,     ///< kernels as they always were
    Cache,   ///< choices measured by earlier builds, from the cache; the defaults for the others
    Measure, ///< what the cache does not have is timed here, for tuneSeconds in all
  };
  Tune tune = Tune::Off;
  double tuneSeconds = 0; ///< for timing; compiling the variants comes on top
  /// Every choice comes from a tuning file: lockFile, or the one beside the output. Not with `tune`.
  bool locked = false;
  std::filesystem::path lockFile;
  std::string dumpDir;  ///< kernel code (.mlir, .ll) for reading; empty: none
  /// Name of a stage (emitStages()); its IR is handed to `emit` once per target.
  std::string emitStage;
  std::function<void(const std::string &target, const std::string &ir)> emit;
  ProgressMode progress = ProgressMode::Off; ///< on stderr
  /// Polled between steps; true makes the build stop with Interrupted.
  std::function<bool()> cancelled;
};

/// "graph", then the passes in order without their prefix: "bind-parameters", ..., "plan-memory".
std::vector<std::string> emitStages();

struct KernelReport {
  std::string name, family, profile, code;
  std::string tuning, tuningFrom; ///< "row_block=128 ..."; "locked", "cache", "measured", "default"; empty: no choices
  uint64_t scratchBytes = 0;
  std::vector<std::pair<std::string, size_t>> launches; ///< per phase
};

struct TargetReport {
  std::string name, executor;
  std::vector<std::string> cpuFeatures;
  std::vector<KernelReport> kernels;
  std::vector<std::pair<std::string, size_t>> launches; ///< per phase
  size_t cacheHits = 0;
  uint64_t codeBytes = 0;
  // Ledger of one context, bytes.
  uint64_t stateBytes = 0, arenaBytes = 0, scratchBytesPerThread = 0;
  bool onDevice = false; ///< states, arena and packed weights are memory of a device
  uint64_t packedBytes = 0;
  // Cost model.
  uint64_t decodeBytesRead = 0, decodeFlops = 0;
};

struct BuildReport {
  std::string artifact, publicName, architecture, storageSignature; ///< signature in hexadecimal
  uint64_t payloadBytes = 0;
  int64_t layers = 0, vocabSize = 0, maxContext = 0, prefillChunk = 0;
  size_t parameters = 0;
  int64_t visionMaxPatches = 0; ///< 0: no vision tower
  std::string tuningFile; ///< written beside the plan, or empty
  std::string output; ///< empty: dry run
  std::string prepacked; ///< file of packed weights; empty: none
  uint64_t prepackedBytes = 0;
  size_t prepackedSections = 0; ///< targets that pack alike share one
  uint64_t planBytes = 0;
  std::string planSha256; ///< of the whole file
  std::vector<TargetReport> targets;
  std::vector<std::pair<std::string, double>> stages; ///< name, seconds; in order
  double seconds = 0;
  uint64_t peakRssBytes = 0; ///< of this process
  std::string explain;       ///< describeTrace() of the plan
};

/// Builds, verifies, publishes. On failure nothing new is under options.output and an old file is
/// untouched. A tuning file is written after the plan. Errors: of the folders below, of Tune.h, and NB0402 unknown or repeated target, NB0403 option
/// out of range (Usage); NB0404 packing; NB0410 graph or pass failed, NB0412 no admissible kernel (Unsupported);
/// NB0540 cancelled (Interrupted).
Result<BuildReport> build(const BuildOptions &options);

/// One JSON object; sizes in bytes, times in seconds. With `explain`, the trace is its member
/// "explain".
std::string reportJson(const BuildReport &report, bool explain = false);
/// A few lines for people.
std::string reportText(const BuildReport &report);

} // namespace ninfer

#endif // NINFER_COMPILER_COMPILER_H
