// Plans of large shapes over an artifact of holes: weights made on the device, then every kernel of decode and prefill timed
// by itself, and whole calls through the runtime.
#include "test/gpu/Models.h"

#include "codegen/cuda/kernels/panel.cuh"
#include "runtime/executor/Context.h"
#include "runtime/executor/CudaExecutor.h"
#include "support/File.h"
#include "test/gpu/Section.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace ninfer::gpucheck {

Status RandomWeights::fill(const gpu::DevicePtr &, const plan::Target &target, gpu::DevicePointer packed,
                           const gpu::UploadProgress &) {
  uint32_t seed = 1;
  const plan::Phase *load = PlanView::findPhase(target, plan::PhaseKind::Load);
  for (const plan::Launch *launch : *load->launches()) {
    const plan::Kernel &kernel = *target.kernels()->Get(launch->kernel());
    const plan::Ref &to = *launch->args()->Get(launch->args()->size() - 1);
    std::string symbol = "check_fill_vector";
    uint32_t k = 0;
    if (kernel.kind() == plan::KernelKind::Cuda) { // "ni_pack_q4g64_sm90", parameters ..., n, k
      const std::string name = kernel.symbol()->str();
      symbol = "check_fill_" + name.substr(8, name.rfind("_sm") - 8);
      k = kernel.cuda()->params()->Get(kernel.cuda()->params()->size() - 1)->value();
    }
    NINFER_ASSIGN_OR_RETURN(const gpu::FunctionHandle function, gpu_.function(pack_, "check_fill", symbol, 0));
    const uint64_t values[] = {packed + to.offset(), to.bytes(), k, seed++};
    const uint32_t blocks = uint32_t(std::clamp<uint64_t>(to.bytes() / 4096, 1, 4096));
    NINFER_RETURN_IF_ERROR(gpu_.launch(function, {blocks}, 256, 0, values));
  }
  return gpu_.wait();
}

namespace {

/// The artifact: what of it is no hole, at its place in a file of its full size. Removed at the end.
class SparseFile {
public:
  SparseFile() = default;
  SparseFile(const SparseFile &) = delete;
  ~SparseFile() {
    if (!path_.empty())
      unlink(path_.c_str());
  }
  /// Extents: [[offset, bytes], ...], their content one after the other in `head`.
  Status make(const std::filesystem::path &path, uint64_t bytes, const std::string &head, const Json &extents) {
    const auto failed = [&](const char *what) {
      return makeError(ErrorKind::Failed, "gpu-check", path.string() + ": " + what + ": " + std::strerror(errno));
    };
    const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
      return failed("cannot make a file");
    path_ = path;
    size_t at = 0;
    Status status;
    if (ftruncate(fd, off_t(bytes)) != 0)
      status = failed("cannot make a sparse file");
    for (const Json &extent : extents) {
      const size_t size = extent.at(1).get<size_t>();
      if (status.ok() && pwrite(fd, head.data() + at, size, off_t(extent.at(0).get<uint64_t>())) != ssize_t(size))
        status = failed("cannot write");
      at += size;
    }
    close(fd);
    return status;
  }

private:
  std::filesystem::path path_;
};

struct KernelTime {
  std::string phase, kernel;
  uint64_t launches = 0, bytes = 0, flops = 0;
  double ms = 0; ///< of all its launches in one call
};

/// Every kernel of a phase: all its launches of one call back to back, so that weights come from memory and not from a cache.
Status timeKernels(Run &run, const CudaExecutor &executor, const plan::Target &target, const plan::Phase &phase, int64_t rows,
                   std::vector<KernelTime> &times) {
  const std::span<const gpu::DeviceLaunch> launches = executor.launches(phase);
  for (uint32_t k = 0; k < target.kernels()->size(); ++k) {
    KernelTime time{phase.name()->str(), target.kernels()->Get(k)->name()->str()};
    std::vector<const gpu::DeviceLaunch *> mine;
    for (uint32_t i = 0; i < phase.launches()->size(); ++i) {
      const plan::Launch &launch = *phase.launches()->Get(i);
      if (launch.kernel() != k)
        continue;
      mine.push_back(&launches[i]);
      time.bytes += launch.bytes_read_const() + launch.bytes_read_per_row() * uint64_t(rows);
      time.flops += launch.flops_const() + launch.flops_per_row() * uint64_t(rows);
    }
    if (mine.empty())
      continue;
    if (run.late())
      return {};
    time.launches = mine.size();
    const gpu::Device &device = *run.gpu->device();
    NINFER_ASSIGN_OR_RETURN(time.ms, run.gpu->milliseconds(run.pack.small() ? 1 : 5, [&]() -> Status {
                              for (const gpu::DeviceLaunch *launch : mine)
                                NINFER_RETURN_IF_ERROR(launch->run(device, run.gpu->stream(), rows));
                              return {};
                            }));
    times.push_back(std::move(time));
  }
  return {};
}

Status kernels(Run &run, const std::shared_ptr<const Engine> &engine, double copyRate, Json &model) {
  NINFER_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> made, CudaExecutor::create(*engine));
  auto &executor = static_cast<CudaExecutor &>(*made);
  const std::atomic<bool> never = false;
  std::vector<KernelTime> times;
  for (auto kind : {plan::PhaseKind::Decode, plan::PhaseKind::Prefill}) {
    ProgramPhase *phase = made->program().phase(kind);
    if (!phase)
      continue;
    const int64_t rows = phase->maxRows;
    if (phase->tokens)
      std::fill_n(phase->tokens, rows, 1);
    // One call first: it fills the activations, and puts rows and position where the kernels look for them.
    if (ProgramPhase *setup = made->program().phase(plan::PhaseKind::Setup); setup && kind == plan::PhaseKind::Decode)
      if (!made->run(*setup, 1, 0, never))
        return made->failure();
    if (!made->run(*phase, rows, 0, never))
      return made->failure();
    NINFER_RETURN_IF_ERROR(timeKernels(run, executor, engine->target(), *phase->source, rows, times));
  }
  model["kernels"] = Json::array();
  for (const KernelTime &t : times) {
    Json row;
    row["phase"] = t.phase;
    row["kernel"] = t.kernel;
    row["launches"] = t.launches;
    row["us_per_launch"] = t.ms * 1000 / double(t.launches);
    row["ms_per_call"] = t.ms;
    row["gb_s"] = double(t.bytes) / (t.ms * 1e6);
    row["share_of_copy"] = double(t.bytes) / (t.ms / 1000) / copyRate;
    row["tflop_s"] = double(t.flops) / (t.ms * 1e9);
    model["kernels"].push_back(std::move(row));
  }
  return {};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

Status calls(Run &run, const std::shared_ptr<const Engine> &engine, double copyRate, Json &model) {
  NINFER_ASSIGN_OR_RETURN(const std::unique_ptr<Context> context, Context::create(engine, {}));
  const plan::ModelInfo &info = *engine->plan().model();
  const uint32_t chunk = info.prefill_chunk(), steps = run.pack.small() ? 3 : 48;
  const uint32_t chunks = std::min<uint32_t>(run.pack.small() ? 1 : 4, (info.max_context() - steps) / std::max(chunk, 1u));
  std::vector<int32_t> prompt(chunk);
  std::vector<double> prefill, decode;
  for (uint32_t i = 0; i < chunks && !run.late(); ++i) {
    for (uint32_t t = 0; t < chunk; ++t)
      prompt[t] = int32_t((t * 37u + i * 911u + 11u) % info.vocab_size());
    const auto start = Run::Clock::now();
    NINFER_RETURN_IF_ERROR(context->submit(prompt));
    prefill.push_back(std::chrono::duration<double>(Run::Clock::now() - start).count());
  }
  uint64_t launches = 0, bytes = 0;
  const plan::Phase *phase = engine->phase(plan::PhaseKind::Decode);
  for (const plan::Launch *launch : *phase->launches()) {
    ++launches;
    // The cost model counts states at full capacity: without them it is weights and activations.
    const uint64_t read = launch->bytes_read_const() + launch->bytes_read_per_row();
    uint64_t states = 0;
    for (const plan::Ref *ref : *launch->args())
      states += ref->space() == plan::Space::State ? ref->bytes() : 0;
    bytes += read - std::min(read, states);
  }
  bool finite = true;
  for (uint32_t i = 0; i < steps && !run.late(); ++i) {
    const int32_t token = int32_t(i * 101 % info.vocab_size());
    const auto start = Run::Clock::now();
    NINFER_RETURN_IF_ERROR(context->submit({&token, 1}));
    if (i > 1) // the first captures the graph
      decode.push_back(std::chrono::duration<double>(Run::Clock::now() - start).count());
    for (float logit : context->logits())
      finite &= std::isfinite(logit);
  }
  if (decode.empty() || prefill.empty())
    return {};
  const double step = median(decode);
  model["prefill_rows"] = chunk;
  model["prefill_tok_s"] = double(chunk) / median(prefill);
  model["decode_tok_s"] = 1 / step;
  model["decode_position"] = context->position();
  model["decode_ms_min"] = *std::min_element(decode.begin(), decode.end()) * 1000;
  model["decode_ms_max"] = *std::max_element(decode.begin(), decode.end()) * 1000;
  model["launches_per_token"] = launches;
  model["read_bytes_per_token"] = bytes;
  model["decode_gb_s"] = double(bytes) / step / 1e9;
  model["decode_share_of_copy"] = double(bytes) / step / copyRate;
  model["logits_finite"] = finite;
  return {};
}

Status measure(Run &run, const Json &description, double copyRate, Json &model) {
  const std::string weights = description.at("weights");
  NINFER_ASSIGN_OR_RETURN(const std::string head, readFile(run.pack.path(description.at("head").get<std::string>())));
  std::filesystem::path path = run.pack.path(weights);
  if (access(path.parent_path().c_str(), W_OK) != 0)
    path = std::filesystem::temp_directory_path() / (std::to_string(getpid()) + "-" + weights);
  SparseFile file;
  NINFER_RETURN_IF_ERROR(file.make(path, description.at("bytes"), head, description.at("extents")));
  EngineOptions options;
  options.plan = run.pack.path(description.at("plan").get<std::string>());
  options.weights = path;
  options.target = "cuda:sm_" + std::to_string(run.gpu->sm());
  options.preload = Preload::Never; // holes
  options.packed = std::make_shared<RandomWeights>(run.pack, *run.gpu);
  const auto start = Run::Clock::now();
  NINFER_ASSIGN_OR_RETURN(const std::shared_ptr<const Engine> engine, Engine::open(options));
  model["packed_bytes"] = engine->target().cuda()->packed_bytes();
  model["open_s"] = std::chrono::duration<double>(Run::Clock::now() - start).count();
  NINFER_RETURN_IF_ERROR(calls(run, engine, copyRate, model)); // its context is gone before the next one is made
  return kernels(run, engine, copyRate, model);
}

} // namespace

void measureModels(Run &run, Section &section) {
  const size_t bytes = run.pack.small() ? size_t(1) << 20 : size_t(1) << 30;
  Result<double> rate = run.gpu->copyRate(bytes);
  if (!rate.ok()) {
    section.fail(rate.error());
    return;
  }
  run.gpu->releaseScratch(); // the model needs the memory
  section.details["copy_gb_s"] = *rate / 1e9;
  section.details["models"] = Json::array();
  size_t measured = 0;
  std::string skipped;
  for (const Json &description : run.pack.manifest().at("models")) {
    Json model;
    model["name"] = description.at("name");
    Status status = run.late() ? Status(makeError(ErrorKind::OutOfMemory, "gpu-check", "time")) : measure(run, description, *rate, model);
    // A card that is too small, or no time left, is no fault.
    const bool absent = !status.ok() && status.error().kind == ErrorKind::OutOfMemory;
    const bool complete = status.ok() && model.contains("decode_tok_s") && model.contains("kernels") && !run.late();
    if (!status.ok())
      model["reason"] = status.error().message;
    model["status"] = complete ? "pass" : status.ok() || absent ? "not run" : "fail";
    if (complete && !model["logits_finite"].get<bool>()) {
      model["status"] = "fail";
      model["reason"] = "logits are no numbers";
    }
    if (model["status"] == "fail")
      section.fail(model["name"].get<std::string>() + ": " + model["reason"].get<std::string>());
    else if (!complete)
      skipped = model["name"].get<std::string>() + ": " + model.value("reason", "time");
    measured += complete;
    section.details["models"].push_back(std::move(model));
  }
  if (section.outcome == Outcome::Fail)
    return;
  if (!skipped.empty())
    section.notRun(skipped);
  else if (measured)
    section.outcome = Outcome::Pass;
  else
    section.notRun("the pack has no model");
}

} // namespace ninfer::gpucheck
