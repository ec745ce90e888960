#include "runtime/loader/Engine.h"

#include "artifact/container/Signature.h"
#include "runtime/cuda/Prepacked.h"
#include "support/Sha256.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ninfer {

// --- plan file ---------------------------------------------------------------------------------------------

Result<PlanFile> PlanFile::open(const std::filesystem::path &path) {
  const auto fail = [&](const char *what, const char *reason) {
    return makeError(ErrorKind::BadFile, "NB0901", path.string() + ": " + what + ": " + reason);
  };
  PlanFile file;
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  if (file.fd_ < 0 || fstat(file.fd_, &info) != 0)
    return fail("cannot open plan", std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    return fail("cannot open plan", "not a regular file");
  if (info.st_size == 0)
    return makeError(ErrorKind::BadFile, "NB0501", path.string() + ": not a ninfer plan: the file is empty");
  void *data = mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, file.fd_, 0);
  if (data == MAP_FAILED)
    return fail("cannot map plan", std::strerror(errno));
  file.data_ = static_cast<const std::byte *>(data);
  file.size_ = size_t(info.st_size);
  return file;
}

PlanFile::PlanFile(PlanFile &&other) noexcept { *this = std::move(other); }

PlanFile &PlanFile::operator=(PlanFile &&other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void PlanFile::release() const { (void)madvise(const_cast<std::byte *>(data_), size_, MADV_DONTNEED); }

PlanFile::~PlanFile() {
  if (data_)
    munmap(const_cast<std::byte *>(data_), size_);
  if (fd_ >= 0)
    close(fd_);
}

// --- opening -----------------------------------------------------------------------------------------------

Result<std::shared_ptr<const Engine>> Engine::open(const EngineOptions &options) {
  std::shared_ptr<Engine> engine(new Engine());
  engine->log_ = options.log;
  engine->machine_ = options.machine ? *options.machine : Machine::detect();
  const uint64_t start = nowNs();
  const HeapUse heap = heapUse();
  NINFER_RETURN_IF_ERROR(engine->openPlan(options));
  NINFER_RETURN_IF_ERROR(engine->chooseTarget(options.target));
  const uint64_t planned = nowNs();
  NINFER_RETURN_IF_ERROR(engine->openWeights(options));
  const uint64_t weighted = nowNs();
  NINFER_RETURN_IF_ERROR(engine->resolveKernels(options.codeMapping));
  NINFER_RETURN_IF_ERROR(engine->checkBuiltinLaunches());
  const uint64_t resolved = nowNs();
  NINFER_RETURN_IF_ERROR(engine->loadDevice(options));
  const uint64_t end = nowNs();
  engine->file_.release(); // machine code is mapped a second time, and of the rest most was for the verifier
  const HeapUse now = heapUse();
  engine->heapBytes_ = std::max({now.taken - std::min(now.taken, heap.taken), now.used - std::min(now.used, heap.used)});
  engine->times_ = {planned - start, weighted - planned, end - weighted, engine->device_ ? end - resolved : 0};
  return std::shared_ptr<const Engine>(std::move(engine));
}

Status Engine::openPlan(const EngineOptions &options) {
  planPath_ = options.plan;
  NINFER_ASSIGN_OR_RETURN(file_, PlanFile::open(planPath_));
  NINFER_ASSIGN_OR_RETURN(view_, PlanView::open(file_.bytes(), planPath_.string()));
  return {};
}

std::string Engine::unsupported(const plan::Target &target) {
  const std::string name = target.name()->str();
  const std::string executor = target.executor()->str();
  if (executor == "cuda")
    return unsupportedDevice(target);
  if (executor != "cpu" && executor != "reference")
    return "plan: " + name + " needs the executor '" + executor + "', this build: cpu, cuda, reference";
  std::vector<std::string> needed;
  if (target.cpu_features())
    for (const auto *feature : *target.cpu_features())
      needed.push_back(feature->str());
  const std::vector<std::string> missing = machine_.lacks(needed);
  if (missing.empty())
    return {};
  std::string list;
  for (const std::string &feature : missing)
    list += (list.empty() ? "" : ", ") + feature;
  return "plan: " + name + " needs " + list + ", this machine: " + machine_.brand + " lacks " +
         (missing.size() == 1 ? "it" : "them");
}

std::string Engine::unsupportedDevice(const plan::Target &target) {
  const std::string name = "plan: " + target.name()->str();
  if (!driver_)
    driver_.emplace(gpu::Driver::load());
  if (!driver_->ok())
    return name + ", this machine: " + driver_->error().message;
  const gpu::Driver &driver = ***driver_;
  std::string found;
  for (const gpu::DeviceInfo &info : driver.devices()) {
    const std::string text = "sm_" + std::to_string(info.sm) + " (" + info.name + ")";
    found += (found.empty() ? "" : ", ") + text;
    if (info.sm != target.cuda()->sm())
      continue;
    if (driver.version() < target.cuda()->min_driver())
      return name + " needs a driver of " + gpu::cudaVersionText(target.cuda()->min_driver()) + " or later, this machine: " +
             gpu::cudaVersionText(driver.version()) + " (" + info.name + ")";
    for (const plan::Kernel *kernel : *target.kernels())
      if (kernel->cuda() && kernel->cuda()->shared_bytes() > info.sharedBytes)
        return name + ": kernel '" + kernel->name()->str() + "' needs " + std::to_string(kernel->cuda()->shared_bytes()) +
               " bytes of shared memory, this machine: " + std::to_string(info.sharedBytes) + " (" + info.name + ")";
    deviceInfo_ = info;
    return {};
  }
  return name + ", this machine: " + (found.empty() ? "no CUDA device" : found);
}

Status Engine::loadDevice(const EngineOptions &options) {
  if (!target_->cuda()) {
    if (options.prepacked.empty())
      return {};
    Status status = makeError(ErrorKind::Usage, "NB0649",
                              planPath_.string() + ": target " + target_->name()->str() + " reads weights as they are stored, and '" +
                                  options.prepacked.string() + "' has packed ones for a CUDA target");
    status.help("choose a CUDA target with --target, or leave out --prepacked");
    return status;
  }
  std::shared_ptr<gpu::PackedSource> source = options.packed;
  if (!options.prepacked.empty()) { // before the device is touched; its messages name the file
    Sha256Digest signature; // the artifact has it, else it would not be open
    std::copy_n(plan().artifact()->storage_signature()->begin(), signature.size(), signature.begin());
    NINFER_ASSIGN_OR_RETURN(source, gpu::PrepackedFile::open(options.prepacked, *target_, signature, payload_));
    prepackedPath_ = options.prepacked;
  }
  const auto load = [&]() -> Status {
    NINFER_ASSIGN_OR_RETURN(gpu::DevicePtr device, gpu::Device::open(**driver_, *deviceInfo_));
    NINFER_ASSIGN_OR_RETURN(device_,
                            gpu::DeviceWeights::load(std::move(device), *view_, *target_, payload_, source.get(),
                                                     options.progress));
    return {};
  };
  Status status = load();
  if (status.ok())
    return status;
  Error error = status.takeError();
  error.message = planPath_.string() + ": " + target_->name()->str() + ": " + error.message + " (" + deviceInfo_->name + ")";
  return error;
}

Status Engine::chooseTarget(const std::string &wanted) {
  std::string names;
  std::vector<std::string> reasons;
  for (const plan::Target *candidate : *plan().targets()) {
    const std::string name = candidate->name()->str();
    names += (names.empty() ? "" : ", ") + name;
    if (!wanted.empty() && wanted != name && wanted != candidate->executor()->str())
      continue;
    const std::string reason = unsupported(*candidate);
    if (reason.empty()) {
      target_ = candidate;
      for (const std::string &skipped : reasons)
        log(LogLevel::Warning, "running " + name + "; " + skipped);
      return {};
    }
    reasons.push_back(reason);
  }
  if (reasons.empty())
    return makeError(ErrorKind::TargetMismatch, "NB0601",
                     planPath_.string() + ": the plan has no target '" + wanted + "', it has " + names);
  Status status = makeError(ErrorKind::TargetMismatch, "NB0601", planPath_.string() + ": " + reasons.front());
  for (size_t i = 1; i < reasons.size(); ++i)
    status.note(reasons[i]);
  status.help("build a plan for this machine: ninfer-build --target cpu:native, or cuda:sm_N for its GPU");
  return status;
}

Status Engine::openWeights(const EngineOptions &options) {
  const plan::ArtifactBinding &binding = *plan().artifact();
  const std::string stored = binding.file_name() ? binding.file_name()->str() : std::string();
  weightsPath_ = options.weights;
  if (weightsPath_.empty()) {
    if (stored.empty())
      return makeError(ErrorKind::Usage, "NB0603",
                       planPath_.string() + ": the plan stores no artifact name; give the artifact with --weights");
    weightsPath_ = planPath_.parent_path() / stored;
  }
  if (!openKnownArtifact())
    NINFER_RETURN_IF_ERROR(openArtifact(options));
  if (options.prepacked.empty() && !options.packed) { // else they are read from there
    // Before the first read of the file: its pages stay in the cache as that read left them. A page fault per 2 MiB in place of one
    // per 64 KiB, here and in every later process.
    advise(MappedFile::Access::HugePages);
    preload(options.preload);
  }
  return {};
}

/// The artifact that the plan was built from, by the bytes before its payload: its directory was parsed and checked then. That takes longer
/// than everything else here, and more memory.
bool Engine::openKnownArtifact() {
  const plan::ArtifactBinding &binding = *plan().artifact();
  if (!binding.head())
    return false;
  auto file = MappedFile::open(weightsPath_);
  const uint64_t head = binding.head()->bytes();
  if (!file.ok() || file->size() < head || file->size() - head != binding.payload_bytes())
    return false;
  const Sha256Digest actual = headDigest(file->bytes().first(head));
  if (std::memcmp(actual.data(), binding.head()->sha256()->data(), actual.size()) != 0)
    return false;
  known_ = file.take();
  payload_ = known_.bytes().subspan(head);
  return true;
}

Status Engine::openArtifact(const EngineOptions &options) {
  const plan::ArtifactBinding &binding = *plan().artifact();
  const std::string stored = binding.file_name() ? binding.file_name()->str() : std::string();
  auto artifact = Artifact::open(weightsPath_);
  if (!artifact.ok()) {
    Status status = artifact.takeStatus();
    if (options.weights.empty())
      status.note("the plan '" + planPath_.string() + "' names its artifact '" + stored + "', looked for beside it")
          .help("give another place with --weights");
    return status;
  }
  artifact_ = artifact.take();

  const auto actual = storageSignature(artifact_->directory());
  const auto *expected = binding.storage_signature()->data();
  const bool sameSize = artifact_->payloadBytes() == binding.payload_bytes();
  if (std::memcmp(actual.data(), expected, actual.size()) != 0 || !sameSize) {
    const auto quoted = [](const std::string &text) { return text.empty() ? std::string("unnamed") : "'" + text + "'"; };
    std::string actualName;
    if (auto it = artifact_->directory().metadata.find("name"); it != artifact_->directory().metadata.end() && it->is_string())
      actualName = it->get<std::string>();
    Status status = makeError(
        ErrorKind::TargetMismatch, "NB0602",
        weightsPath_.string() + ": other weights than the plan '" + planPath_.string() + "' was built for: plan: " +
            quoted(stored) + " (" + quoted(binding.public_name() ? binding.public_name()->str() : "") + ", storage " +
            toHex({expected, 6}) + ", " + std::to_string(binding.payload_bytes()) + " bytes), this artifact: " +
            quoted(weightsPath_.filename().string()) + " (" + quoted(actualName) + ", storage " +
            toHex({actual.data(), 6}) + ", " + std::to_string(artifact_->payloadBytes()) + " bytes)");
    status.help("build a plan for this artifact, or give the right artifact with --weights");
    return status;
  }
  NINFER_ASSIGN_OR_RETURN(payload_, artifact_->payload());
  if (artifact_->copiedBytes() > 0)
    log(LogLevel::Warning, weightsPath_.string() + ": " + std::to_string(artifact_->copiedBytes()) +
                               " bytes of the weights were copied into memory: a part of the artifact does not "
                               "start at a page of the payload");
  return {};
}

void Engine::advise(MappedFile::Access access) const {
  if (artifact_)
    artifact_->advise(access);
  else
    known_.advise(access);
}

void Engine::preload(Preload preload) const {
  const auto bytes = payload();
  if (preload == Preload::Never || bytes.empty())
    return;
  if (preload == Preload::Auto) {
    // Pages that are already in memory need no hint, and weights that do not fit would push each other out.
    constexpr size_t kSamples = 64, kPage = 4096;
    size_t absent = 0;
    for (size_t i = 0; i < kSamples; ++i) {
      const uintptr_t at = reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size() / kSamples * i;
      unsigned char resident = 0;
      absent += mincore(reinterpret_cast<void *>(at / kPage * kPage), 1, &resident) == 0 && !(resident & 1);
    }
    if (absent * 16 < kSamples)
      return;
    if (bytes.size() > availableMemory() / 10 * 9)
      return log(LogLevel::Warning, weightsPath_.string() + ": the weights do not fit the available memory");
  }
  advise(MappedFile::Access::WillNeed);
}

// --- kernels -----------------------------------------------------------------------------------------------

Result<const ElfImage *> Engine::image(uint32_t index, CodeMapping mapping) {
  if (auto it = images_.find(index); it != images_.end())
    return &it->second;
  const plan::Blob &blob = *plan().blobs()->Get(index);
  const std::string name = planPath_.string() + ": blob '" + blob.name()->str() + "'";
  const auto mapAs = [&](ElfImage::Mapping kind) {
    return ElfImage::map(kind, file_.descriptor(), blob.offset(), view_->blob(index), name);
  };
  auto image = mapAs(mapping == CodeMapping::Memory ? ElfImage::Mapping::Memory : ElfImage::Mapping::Direct);
  if (!image.ok() && image.error().code == "NB0612" && mapping == CodeMapping::Auto) {
    log(LogLevel::Warning, image.error().message + "; using a memory file");
    image = mapAs(ElfImage::Mapping::Memory);
  }
  if (!image.ok())
    return image.takeStatus();
  return &images_.emplace(index, image.take()).first->second;
}

namespace {

reference::AttributeMap attributesOf(const plan::Kernel &kernel) {
  reference::AttributeMap map;
  if (!kernel.attributes())
    return map;
  for (const plan::Attribute *attribute : *kernel.attributes()) {
    reference::AttributeValue &value = map[attribute->name()->str()];
    switch (attribute->type()) {
    case plan::AttributeType::Int:
      value = int64_t(attribute->i());
      break;
    case plan::AttributeType::Float:
      value = attribute->f();
      break;
    case plan::AttributeType::String:
      value = attribute->s()->str();
      break;
    case plan::AttributeType::Floats:
      value = std::vector<double>(attribute->floats()->begin(), attribute->floats()->end());
      break;
    }
  }
  return map;
}

} // namespace

Status Engine::resolveKernels(CodeMapping mapping) {
  scratchBytes_ = target_->scratch_bytes_per_thread();
  for (const plan::Kernel *kernel : *target_->kernels()) {
    EngineKernel resolved;
    const std::string symbol = kernel->symbol()->str();
    if (kernel->kind() == plan::KernelKind::Cuda || (target_->cuda() && symbol == "copy")) {
      // code of the device: DeviceWeights
    } else if (kernel->kind() == plan::KernelKind::Builtin) {
      auto builtin = reference::makeBuiltin(symbol, attributesOf(*kernel), kernel->name()->str());
      if (!builtin.ok()) {
        Error error = builtin.takeStatus().takeError();
        error.message = planPath_.string() + ": " + error.message;
        return error;
      }
      resolved.builtin = builtin.take();
      scratchBytes_ = std::max(scratchBytes_, resolved.builtin->scratchBytes());
    } else {
      NINFER_ASSIGN_OR_RETURN(const ElfImage *elf, image(kernel->blob(), mapping));
      resolved.code = reinterpret_cast<ninfer_kernel_fn>(const_cast<void *>(elf->function(symbol)));
      if (!resolved.code)
        return makeError(ErrorKind::BadFile, "NB0605",
                         planPath_.string() + ": kernel '" + kernel->name()->str() + "': the machine code has no function '" +
                             symbol + "'");
    }
    kernels_.push_back(std::move(resolved));
  }
  return {};
}

Status Engine::checkBuiltinLaunches() const {
  for (const plan::Phase *phase : *target_->phases())
    for (const plan::Launch *launch : *phase->launches())
      if (kernels_[launch->kernel()].builtin)
        NINFER_RETURN_IF_ERROR(checkBuiltinLaunch(*phase, *launch));
  return {};
}

Status Engine::checkBuiltinLaunch(const plan::Phase &phase, const plan::Launch &launch) const {
  const reference::Builtin &builtin = *kernels_[launch.kernel()].builtin;
  const auto bad = [&](const std::string &rule) -> Status {
    return makeError(ErrorKind::BadFile, "NB0604",
                     planPath_.string() + ": " + phase.name()->str() + ": launch of '" +
                         target_->kernels()->Get(launch.kernel())->name()->str() + "': " + rule);
  };
  const std::vector<reference::ArgNeed> needs = builtin.args(phase.max_rows());
  if (needs.size() != launch.args()->size())
    return bad("has " + std::to_string(launch.args()->size()) + " arguments, the built-in takes " +
               std::to_string(needs.size()));
  for (size_t i = 0; i < needs.size(); ++i) {
    const plan::Ref &ref = *launch.args()->Get(uint32_t(i));
    if (ref.bytes() < needs[i].bytes)
      return bad("argument '" + std::string(needs[i].name) + "' has " + std::to_string(ref.bytes()) +
                 " bytes, the built-in touches " + std::to_string(needs[i].bytes));
    if (needs[i].written && ref.space() != plan::Space::Arena && ref.space() != plan::Space::State)
      return bad("argument '" + std::string(needs[i].name) +
                 "' is written and must lie in the arena or in a state, got " +
                 std::string(plan::EnumNameSpace(ref.space())));
  }
  if (phase.kind() == plan::PhaseKind::Setup)
    return {};
  const plan::ModelInfo &model = *plan().model();
  if (builtin.positionLimit() < int64_t(model.max_context()))
    return bad("holds " + std::to_string(builtin.positionLimit()) + " positions, the plan's context has " +
               std::to_string(model.max_context()));
  if (builtin.tokenLimit() < int64_t(model.vocab_size()))
    return bad("has " + std::to_string(builtin.tokenLimit()) + " rows, the plan's vocabulary has " +
               std::to_string(model.vocab_size()));
  return {};
}

// --- queries -----------------------------------------------------------------------------------------------

Result<std::span<const std::byte>> Engine::resource(const std::string &role) const {
  if (artifact_) {
    const auto roles = artifact_->directory().resourcesByRole();
    const auto found = roles.find(role);
    return found == roles.end() ? std::span<const std::byte>() : artifact_->object(found->second);
  }
  if (const auto *resources = plan().artifact()->head()->resources())
    for (const plan::Resource *resource : *resources)
      if (resource->role()->string_view() == role)
        return payload_.subspan(resource->offset(), resource->bytes());
  return std::span<const std::byte>();
}

uint64_t Engine::codeBytes() const {
  uint64_t total = 0;
  for (const auto &[blob, image] : images_)
    total += image.mappedBytes();
  return total;
}

const char *Engine::codeMapped() const {
  if (images_.empty())
    return "none";
  return images_.begin()->second.mapping() == ElfImage::Mapping::Direct ? "direct" : "memory";
}

void Engine::log(LogLevel level, const std::string &text) const {
  if (log_)
    log_(level, text);
}

} // namespace ninfer
