// The order of a build. Every step is someone else's; this file connects them and keeps the clock.
#include "compiler/Compiler.h"

#include "artifact/container/Reader.h"
#include "artifact/container/Signature.h"
#include "codegen/plan/PlanBuilder.h"
#include "compiler/Lowering.h"
#include "compiler/Prepack.h"
#include "compiler/Targets.h"
#include "compiler/Tune.h"
#include "models/Decoder.h"
#include "schema/Describe.h"
#include "schema/PackedFile.h"
#include "schema/View.h"
#include "support/File.h"
#include "support/FileKind.h"
#include "support/Sha256.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <sys/resource.h>
#include <thread>

namespace ninfer {
namespace {

constexpr int64_t kDefaultContext = 4096, kDefaultChunk = 64, kDefaultPatches = 4096;
constexpr const char *kVersion = "0.1.0";

std::optional<KvCodec> kvCodecFromName(std::string_view name) {
  if (name == "bf16")
    return KvCodec::BF16;
  if (name == "f32")
    return KvCodec::F32;
  if (name == "int8")
    return KvCodec::Int8;
  return std::nullopt;
}

uint64_t peakRss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

class Clock {
public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

Error usage(std::string text) { return makeError(ErrorKind::Usage, "NB0403", std::move(text)); }

/// A plan may replace a plan or an empty file, nothing else (NB0905): a slip on the command line
/// must not cost a model. The same for packed weights; `magic` are the first eight bytes.
Status checkReplaceable(const std::filesystem::path &output, const char (&magic)[8], const char *kind) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(output, ignored))
    return {}; // nothing there, or AtomicFile refuses it
  if (std::filesystem::file_size(output, ignored) == 0 && !ignored)
    return {};
  std::array<char, sizeof magic> head{};
  std::ifstream in(output, std::ios::binary);
  if (in.read(head.data(), head.size()) && std::memcmp(head.data(), magic, head.size()) == 0)
    return {};
  Status status = makeError(ErrorKind::Usage, "NB0905",
                            output.string() + ": exists and is " + describeFileKind(output) +
                                "; only " + kind + " or an empty file is replaced");
  status.help("give another output, or remove the file first");
  return status;
}

class Builder {
public:
  explicit Builder(const BuildOptions &options) : options_(options), tuner_(options) {}

  Result<BuildReport> run() {
    NINFER_RETURN_IF_ERROR(checkOptions());
    NINFER_ASSIGN_OR_RETURN(targets_, resolveTargets(options_.targets));
    NINFER_RETURN_IF_ERROR(tuner_.prepare(targets_));
    NINFER_RETURN_IF_ERROR(openArtifact());
    NINFER_RETURN_IF_ERROR(chooseSizes());
    prepareContext(context_);
    NINFER_RETURN_IF_ERROR(makeGraphs());

    std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
    PlanInput input;
    for (const BuildTarget &target : targets_) {
      mlir::ModuleOp graph = *graphs_.at(takesImages(target));
      modules.push_back(mlir::OwningOpRef<mlir::ModuleOp>(mlir::cast<mlir::ModuleOp>(graph->clone())));
      NINFER_RETURN_IF_ERROR(lowerToPlan(*modules.back(), target, options_));
      NINFER_RETURN_IF_ERROR(stage("passes " + target.name));
      if (!passesOnly())
        NINFER_RETURN_IF_ERROR(generate(*modules.back(), target, input));
    }
    if (passesOnly())
      return std::move(report_);
    describeArtifact(input);
    NINFER_ASSIGN_OR_RETURN(auto plan, buildPlanBytes(input));
    NINFER_RETURN_IF_ERROR(stage("plan"));
    NINFER_RETURN_IF_ERROR(pack(plan));
    NINFER_RETURN_IF_ERROR(publish(plan));
    NINFER_RETURN_IF_ERROR(publishPacked());
    NINFER_RETURN_IF_ERROR(tuner_.writeFile());
    report_.tuningFile = tuner_.written();
    NINFER_RETURN_IF_ERROR(fillReport(plan));
    return std::move(report_);
  }

private:
  /// Whether prompts may hold images: there are no CUDA kernels for it yet.
  bool takesImages(const BuildTarget &target) const { return options_.vision && target.executor != "cuda"; }

  /// One graph for all targets, or two where only some of them take images.
  Status makeGraphs() {
    for (const BuildTarget &target : targets_) {
      const bool images = takesImages(target);
      if (graphs_.contains(images))
        continue;
      graphOptions_.imagesInText = images;
      NINFER_ASSIGN_OR_RETURN(graphs_[images], lowerToGraph(context_, spec_, directory_, graphOptions_));
    }
    if (options_.emitStage == "graph" && options_.emit)
      for (const auto &[images, graph] : graphs_)
        options_.emit(graphs_.size() == 1 ? "all targets" : images ? "targets that take images" : "other targets",
                      printIr(*graph));
    return stage("graph");
  }

  /// Ends a stage of the clock; the place where a cancelled build stops.
  Status stage(std::string name) {
    const double seconds = clock_.lap();
    report_.seconds += seconds;
    report_.stages.emplace_back(std::move(name), seconds);
    return checkCancelled();
  }

  /// Only the IR of a stage is wanted.
  bool passesOnly() const { return options_.output.empty() && !options_.emitStage.empty(); }

  Status checkCancelled() const {
    if (options_.cancelled && options_.cancelled())
      return makeError(ErrorKind::Interrupted, "NB0540", "interrupted, no plan written");
    return {};
  }

  Status checkOptions() {
    constexpr int64_t kMostDrafts = 15; // with the certain one, a block of rows of the delta rule
    if (options_.draftTokens < 0 || options_.draftTokens > kMostDrafts)
      return usage("--draft-tokens: expected 1 to " + std::to_string(kMostDrafts) + ", got " +
                   std::to_string(options_.draftTokens));
    if (options_.visionMaxPatches && !options_.vision)
      return usage("--vision-max-patches is of no use without --vision");
    if (!kvCodecFromName(options_.kvDtype))
      return usage("kv dtype: expected bf16, f32 or int8, got '" + options_.kvDtype + "'");
    const std::vector<std::string> stages = emitStages();
    if (!options_.emitStage.empty() &&
        std::find(stages.begin(), stages.end(), options_.emitStage) == stages.end()) {
      std::string known;
      for (const std::string &name : stages)
        known += (known.empty() ? "" : ", ") + name;
      Status status = usage("unknown stage '" + options_.emitStage + "'");
      status.help("stages: " + known);
      return status;
    }
    if (options_.output.empty())
      return {};
    std::error_code ignored;
    if (std::filesystem::equivalent(options_.artifact, options_.output, ignored))
      return usage("the output '" + options_.output.string() + "' is the artifact itself");
    NINFER_RETURN_IF_ERROR(checkReplaceable(options_.output, kPlanMagic, "a plan"));
    NINFER_RETURN_IF_ERROR(preparePacked());
    // Before any work: the folder must take a new file (kept unnamed until the plan is ready).
    NINFER_ASSIGN_OR_RETURN(file_, AtomicFile::create(options_.output));
    return {};
  }

  Status preparePacked() {
    if (options_.prepack.empty())
      return {};
    std::error_code ignored;
    const auto same = [&](const std::filesystem::path &other) { // files that are not there yet have no other names than these
      const auto place = [&](const std::filesystem::path &path) { return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored); };
      return place(options_.prepack) == place(other) || std::filesystem::equivalent(options_.prepack, other, ignored);
    };
    if (same(options_.artifact) || same(options_.output) || same(options_.output.string() + ".tuning"))
      return usage("--prepack: '" + options_.prepack.string() + "' is the artifact, the plan or its tuning file");
    if (std::none_of(options_.targets.begin(), options_.targets.end(),
                     [](const std::string &name) { return name.rfind("cuda:", 0) == 0; }))
      return usage("--prepack is of no use without a CUDA target: others read the weights as they are stored");
    NINFER_RETURN_IF_ERROR(checkReplaceable(options_.prepack, kPackedMagic, "a file of --prepack"));
    NINFER_ASSIGN_OR_RETURN(packed_, AtomicFile::create(options_.prepack));
    return {};
  }

  /// Packed weights are complete before the plan appears, and appear behind it.
  Status pack(const std::vector<std::byte> &plan) {
    if (options_.prepack.empty())
      return {};
    NINFER_ASSIGN_OR_RETURN(const PlanView view, PlanView::open(plan, options_.output.string()));
    NINFER_ASSIGN_OR_RETURN(const Artifact artifact, Artifact::open(options_.artifact));
    NINFER_ASSIGN_OR_RETURN(const PrepackSize size,
                            writePacked(packed_, view, artifact, signature_,
                                        {threads(), options_.progress, [this] { return checkCancelled(); }}));
    report_.prepackedBytes = size.bytes;
    report_.prepackedSections = size.sections;
    return stage("prepack");
  }

  Status publishPacked() {
    if (options_.prepack.empty())
      return {};
    NINFER_RETURN_IF_ERROR(checkReplaceable(options_.prepack, kPackedMagic, "a file of --prepack"));
    NINFER_RETURN_IF_ERROR(packed_.publish());
    report_.prepacked = options_.prepack.string();
    return {};
  }

  Status openArtifact() {
    auto artifact = Artifact::open(options_.artifact);
    if (!artifact.ok())
      return explained(artifact.takeStatus());
    const std::string name = options_.artifact.filename().string();
    directory_ = artifact->directory();
    NINFER_RETURN_IF_ERROR(checkAllObjects(directory_, name));
    fillPolicies();
    report_.artifact = name;
    report_.payloadBytes = artifact->payloadBytes();
    // The signature describes the file as it is, not as the options change the reading of it.
    signature_ = storageSignature(artifact->directory());
    if (directory_.files.size() == 1) {
      head_.headBytes = artifact->head().size();
      head_.headSha256 = headDigest(artifact->head());
      for (const auto &[role, object] : directory_.resourcesByRole())
        head_.resources.push_back({role, directory_.objects[object].offset, directory_.objects[object].bytes});
    }
    report_.storageSignature = toHex(signature_);
    if (directory_.metadata.is_object() && directory_.metadata.contains("name") &&
        directory_.metadata["name"].is_string())
      report_.publicName = directory_.metadata["name"].get<std::string>();
    NINFER_RETURN_IF_ERROR(stage("open"));
    NINFER_ASSIGN_OR_RETURN(spec_, recogniseModel(directory_, name,
                                                  {.mtp = options_.draftTokens != 0,
                                                   .vision = options_.vision}));
    NINFER_RETURN_IF_ERROR(narrowPolicies(name));
    return stage("model");
  }

  /// Says what a file that is no artifact is.
  Status explained(Status status) const {
    const std::string &code = status.error().code;
    std::error_code ignored;
    if ((code != "NB0101" && code != "NB0901") ||
        !std::filesystem::exists(options_.artifact, ignored))
      return status;
    const std::string kind = describeFileKind(options_.artifact);
    status.note(options_.artifact.string() + " is " + kind);
    if (kind == "a plan of ninfer-build")
      status.help("ninfer-exec runs a plan; ninfer-build wants the .ninfer artifact");
    else if (kind == "a folder" || kind == "a GGUF model" || kind == "a safetensors file")
      status.help("ninfer-convert makes a .ninfer artifact of a model");
    return status;
  }

  /// --activation-policy, first half: recognition wants a policy at every use of the artifact.
  void fillPolicies() {
    if (!options_.activationPolicy)
      return;
    for (Use &use : directory_.uses)
      if (!use.policy) {
        use.policy = options_.activationPolicy;
        policyUsed_ = true;
      }
  }

  /// Second half: a stated policy is a permission, which the option may narrow but not widen. Framings
  /// 1 and 2 state none.
  Status narrowPolicies(const std::string &name) {
    if (!options_.activationPolicy)
      return {};
    const ActivationPolicy wanted = *options_.activationPolicy;
    for (ParameterSpec &parameter : spec_.parameters) {
      if (parameter.input.empty())
        continue;
      const bool stated = directory_.framing == 3;
      const ActivationPolicy chosen = stated ? std::min(parameter.policy, wanted) : wanted;
      policyUsed_ |= !stated || chosen != parameter.policy || parameter.policy == wanted;
      parameter.policy = chosen;
    }
    if (spec_.mtp) // a head that text and draft layer share has a policy for each
      spec_.mtp->headPolicy = directory_.framing == 3 ? std::min(spec_.mtp->headPolicy, wanted) : wanted;
    if (policyUsed_)
      return {};
    Status status = usage("--activation-policy: every use of " + name +
                          " states a narrower activation_policy than " +
                          std::string(canonicalName(wanted)) + ", and that binds");
    status.help("leave the option out, or convert again with another policy");
    return status;
  }

  Status chooseSizes() {
    const int64_t positions = spec_.maxPositions();
    const int64_t context =
        options_.maxContext.value_or(std::min(positions, kDefaultContext));
    if (context < 1 || context > positions)
      return usage("--max-context: expected 1 to " + std::to_string(positions) +
                   " (max_position_embeddings of the model), got " + std::to_string(context));
    const int64_t chunk = options_.prefillChunk.value_or(std::min(context, kDefaultChunk));
    if (chunk < 1 || chunk > context)
      return usage("--prefill-chunk: expected 1 to " + std::to_string(context) +
                   " (the context), got " + std::to_string(chunk));
    if (options_.draftTokens >= context)
      return usage("--draft-tokens: expected less than the " + std::to_string(context) +
                   " positions of the context, got " + std::to_string(options_.draftTokens));
    graphOptions_.draftTokens = options_.draftTokens;
    graphOptions_.maxContext = report_.maxContext = context;
    graphOptions_.prefillChunk = report_.prefillChunk = chunk;
    graphOptions_.kvCodec = *kvCodecFromName(options_.kvDtype);
    graphOptions_.traceLayers = options_.traceLayers;
    NINFER_RETURN_IF_ERROR(choosePatches());
    report_.architecture = spec_.architecture();
    report_.layers = spec_.numLayers();
    report_.vocabSize = spec_.vocabSize();
    report_.parameters = spec_.parameters.size();
    return {};
  }

  Status choosePatches() {
    if (!spec_.vision)
      return {};
    const int64_t merged = spec_.vision->mergedPatches();
    const int64_t patches =
        options_.visionMaxPatches.value_or(std::max(merged, kDefaultPatches / merged * merged));
    if (patches < merged || patches % merged != 0)
      return usage("--vision-max-patches: expected a multiple of " + std::to_string(merged) +
                   " (spatial_merge_size squared), got " + std::to_string(patches));
    graphOptions_.visionMaxPatches = report_.visionMaxPatches = patches;
    return {};
  }

  unsigned threads() const {
    return options_.threads ? options_.threads : std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  }

  /// Shows kernels as they are done.
  std::function<void(size_t, size_t, std::string_view)> progressOf(const BuildTarget &target) const {
    return [bar = std::shared_ptr<Progress>(), before = size_t(0), name = "kernels " + target.name,
            mode = options_.progress](size_t done, size_t total, std::string_view kernel) mutable {
      if (!bar)
        bar = std::make_shared<Progress>(name, total, mode);
      bar->detail(std::string(kernel));
      bar->add(done - before);
      before = done;
    };
  }

  Status generate(mlir::ModuleOp module, const BuildTarget &target, PlanInput &input) {
    PlanTargetInput section;
    section.module = module;
    section.name = target.name;
    section.executor = target.executor;
    TargetReport report;
    if (target.cpu) {
      section.cpuFeatures = target.cpu->features;
      CpuCodegenOptions codegen;
      codegen.dumpDir = options_.dumpDir;
      codegen.cache = options_.cache;
      codegen.threads = threads();
      codegen.progress = progressOf(target);
      NINFER_ASSIGN_OR_RETURN(codegen.tuning, tuner_.choose(module, target, tuningFrom_[target.name]));
      if (tuner_.active())
        NINFER_RETURN_IF_ERROR(stage("tuning " + target.name));
      tuning_[target.name] = codegen.tuning;
      auto object = compileKernels(module, *target.cpu, codegen);
      if (!object.ok())
        return object.takeStatus();
      for (const CpuKernel &kernel : object->kernels)
        section.code.push_back({kernel.name, kernel.symbol, kernel.scratchBytes});
      report.cacheHits = object->cacheHits;
      report.codeBytes = object->elf.size();
      section.elf = std::move(object->elf);
      NINFER_RETURN_IF_ERROR(stage("code " + target.name));
    } else if (target.executor == "cuda") {
      cuda::CodegenOptions codegen;
      codegen.dumpDir = options_.dumpDir;
      codegen.cache = options_.cache;
      codegen.threads = threads();
      codegen.progress = progressOf(target);
      NINFER_ASSIGN_OR_RETURN(section.cuda, cuda::compileKernels(module, *target.device, codegen));
      report.cacheHits = section.cuda->cacheHits;
      for (const cuda::Cubin &cubin : section.cuda->cubins)
        report.codeBytes += cubin.bytes.size();
      NINFER_RETURN_IF_ERROR(stage("code " + target.name));
    }
    report_.targets.push_back(std::move(report));
    input.targets.push_back(std::move(section));
    return {};
  }

  void describeArtifact(PlanInput &input) const {
    input.artifact = head_;
    input.artifact.framing = static_cast<uint32_t>(directory_.framing);
    input.artifact.storageSignature = signature_;
    input.artifact.fileName = report_.artifact;
    input.artifact.publicName = report_.publicName;
    input.artifact.payloadBytes = report_.payloadBytes;
    input.provenance = {{"builder", std::string("ninfer-build ") + kVersion},
                        {"max_context", std::to_string(report_.maxContext)},
                        {"prefill_chunk", std::to_string(report_.prefillChunk)},
                        {"kv_dtype", options_.kvDtype}};
    if (options_.draftTokens)
      input.provenance.emplace_back("draft_tokens", std::to_string(options_.draftTokens));
    if (tuner_.active())
      input.provenance.emplace_back("tuning", tuner_.digest());
    if (options_.traceLayers)
      input.provenance.emplace_back("trace_layers", "true");
    if (spec_.vision)
      input.provenance.emplace_back("vision_max_patches",
                                    std::to_string(report_.visionMaxPatches));
    if (options_.activationPolicy)
      input.provenance.emplace_back("activation_policy",
                                    std::string(canonicalName(*options_.activationPolicy)));
  }

  /// Write, reopen what was written through the production verifier, publish.
  Status publish(const std::vector<std::byte> &plan) {
    report_.planBytes = plan.size();
    report_.planSha256 = toHex(sha256(plan));
    if (options_.output.empty())
      return {};
    NINFER_RETURN_IF_ERROR(file_.write(plan));
    {
      auto reopened = MappedFile::open(file_.reopenPath());
      if (!reopened.ok())
        return reopened.takeStatus();
      auto view = PlanView::open(reopened->bytes(), options_.output.string());
      if (!view.ok())
        return view.takeStatus();
    }
    NINFER_RETURN_IF_ERROR(checkCancelled());
    NINFER_RETURN_IF_ERROR(checkReplaceable(options_.output, kPlanMagic, "a plan")); // may have appeared meanwhile
    NINFER_RETURN_IF_ERROR(file_.publish());
    report_.output = options_.output.string();
    return stage("write");
  }

  Status fillReport(const std::vector<std::byte> &bytes) {
    auto opened = PlanView::open(bytes, "plan");
    if (!opened.ok())
      return opened.takeStatus();
    const PlanView &view = *opened;
    report_.explain = describeTrace(view);
    for (uint32_t t = 0; t < view->targets()->size(); ++t)
      describeTarget(view, *view->targets()->Get(t), report_.targets[t]);
    for (TargetReport &target : report_.targets)
      for (KernelReport &kernel : target.kernels)
        if (const auto it = tuning_[target.name].find(kernel.name); it != tuning_[target.name].end()) {
          kernel.tuning = tuningText(it->second);
          kernel.tuningFrom = tuningFrom_[target.name][kernel.name];
        }
    report_.peakRssBytes = peakRss();
    return {};
  }

  static void describeTarget(const PlanView &view, const plan::Target &target,
                             TargetReport &report) {
    report.name = target.name()->str();
    report.executor = target.executor()->str();
    if (target.cpu_features())
      for (const auto *feature : *target.cpu_features())
        report.cpuFeatures.push_back(feature->str());
    std::vector<std::vector<std::pair<std::string, size_t>>> uses(target.kernels()->size());
    for (const plan::Phase *phase : *target.phases()) {
      report.launches.emplace_back(phase->name()->str(), phase->launches()->size());
      for (const plan::Launch *launch : *phase->launches()) {
        auto &list = uses[launch->kernel()];
        if (list.empty() || list.back().first != phase->name()->string_view())
          list.emplace_back(phase->name()->str(), 0);
        ++list.back().second;
      }
    }
    for (uint32_t i = 0; i < target.kernels()->size(); ++i) {
      const plan::Kernel &kernel = *target.kernels()->Get(i);
      const auto text = [](const flatbuffers::String *value) {
        return value ? value->str() : std::string();
      };
      report.kernels.push_back({kernel.name()->str(), text(kernel.family()), text(kernel.profile()),
                                kernel.kind() == plan::KernelKind::Elf    ? "elf"
                                : kernel.kind() == plan::KernelKind::Cuda ? "cubin"
                                                                          : "builtin",
                                {}, {}, kernel.scratch_bytes(), std::move(uses[i])});
    }
    const PlanLedger ledger = planLedger(view, target);
    report.stateBytes = ledger.states;
    report.arenaBytes = ledger.arena;
    report.onDevice = ledger.onDevice;
    report.packedBytes = ledger.packed;
    report.scratchBytesPerThread = ledger.scratchPerThread;
    if (const plan::Phase *decode = PlanView::findPhase(target, plan::PhaseKind::Decode)) {
      report.decodeBytesRead = phaseBytesRead(*decode, 1);
      report.decodeFlops = phaseFlops(*decode, 1);
    }
  }

  const BuildOptions &options_;
  Clock clock_;
  BuildReport report_;
  AtomicFile file_;
  AtomicFile packed_; ///< --prepack
  std::vector<BuildTarget> targets_;
  Directory directory_;
  PlanArtifact head_; ///< what comes before the payload, of an artifact in one file
  std::array<uint8_t, 32> signature_{};
  ModelSpec spec_;
  bool policyUsed_ = false; ///< --activation-policy decided something
  GraphOptions graphOptions_;
  Tuner tuner_;
  std::map<std::string, std::map<std::string, CpuTuning>> tuning_;         ///< target, kernel
  std::map<std::string, std::map<std::string, std::string>> tuningFrom_;
  mlir::MLIRContext context_;
  std::map<bool, mlir::OwningOpRef<mlir::ModuleOp>> graphs_; ///< by takesImages
};

} // namespace

Result<BuildReport> build(const BuildOptions &options) { return Builder(options).run(); }

} // namespace ninfer
