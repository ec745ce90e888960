#include "runtime/executor/CudaExecutor.h"

#include <algorithm>
#include <vector>

namespace ninfer {

namespace {

constexpr uint64_t kAlign = 256;
constexpr uint64_t kCallBytes = 8; ///< int32 rows, int32 position

/// Rows of a call that is worth a graph: those of verified drafts, which are at most a block of the delta rule.
constexpr int64_t kGraphRows = 16;

/// Prompts come in chunks of every length, once each; everything else comes again.
bool isRepeated(const plan::Phase &phase, int64_t rows) {
  return rows <= kGraphRows && (phase.kind() != plan::PhaseKind::Prefill && phase.kind() != plan::PhaseKind::Encode);
}

uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

uint64_t bytesOf(const plan::Ref *ref) { return ref ? ref->bytes() : 0; }

} // namespace

uint64_t CudaExecutor::hostBytes(const plan::Target &target) { return pinnedBytes(target) + CudaPorts::hostBytes(target); }

uint64_t CudaExecutor::pinnedBytes(const plan::Target &target) {
  uint64_t bytes = kAlign;
  for (const plan::Phase *phase : *target.phases())
    bytes += alignUp(bytesOf(phase->tokens()), kAlign) + alignUp(bytesOf(phase->logits()), kAlign);
  return bytes;
}

Result<std::unique_ptr<Executor>> CudaExecutor::create(const Engine &engine) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(engine));
  const plan::Target &target = engine.target();
  const gpu::DevicePtr &device = engine.device()->device();
  const gpu::DeviceLedger ledger = gpu::deviceLedger(target);
  NINFER_RETURN_IF_ERROR(checkDeviceMemory(*device, ledger.contextBytes(),
                                           "states " + std::to_string(ledger.states) + " bytes, activations " +
                                               std::to_string(ledger.arena) + " bytes"));
  uint64_t at = 0;
  for (const plan::State *state : *target.states()) {
    at = alignUp(at, std::max<uint64_t>(state->align(), kAlign));
    executor->stateOffsets_.push_back(at);
    at += state->bytes();
  }
  executor->statesBytes_ = ledger.states;
  executor->arenaBytes_ = ledger.arena;
  NINFER_ASSIGN_OR_RETURN(executor->memory_,
                          gpu::allocateDevice(device, ledger.arena + ledger.states + ledger.call, "a context"));
  NINFER_ASSIGN_OR_RETURN(executor->host_, gpu::allocateHost(device, pinnedBytes(target), "tokens and logits"));
  NINFER_ASSIGN_OR_RETURN(executor->stream_, gpu::createStream(device));
  executor->program_ = std::make_unique<Program>(engine, ContextMemory{});
  NINFER_RETURN_IF_ERROR(
      executor->ports_.create(device, target, [&](const plan::Ref &ref) { return executor->address(ref); }));
  executor->resolve(target);
  if (!executor->clearStates())
    return executor->failure();
  return std::unique_ptr<Executor>(std::move(executor));
}

void CudaExecutor::resolve(const plan::Target &target) {
  auto *host = static_cast<std::byte *>(host_.get());
  callHost_ = reinterpret_cast<int32_t *>(host);
  host += kAlign;
  const gpu::DevicePointer call = memory_.get() + statesBytes_ + arenaBytes_;
  for (ProgramPhase &phase : program_->phases()) {
    const plan::Phase &source = *phase.source;
    PhaseDevice &device = phases_[&source];
    if (source.tokens()) {
      phase.tokens = reinterpret_cast<int32_t *>(host);
      device.tokens = address(*source.tokens());
      host += alignUp(source.tokens()->bytes(), kAlign);
    }
    if (source.logits()) {
      phase.logits = reinterpret_cast<const float *>(host);
      device.logits = address(*source.logits());
      host += alignUp(source.logits()->bytes(), kAlign);
    }
    for (ProgramOutput &output : phase.outputs)
      output.data = ports_.memory(*output.source);
    if (source.kind() == plan::PhaseKind::Setup || source.kind() == plan::PhaseKind::Load)
      continue;
    for (const plan::Launch *launch : *source.launches())
      device.launches.push_back(engine_.device()->resolve(*target.kernels()->Get(launch->kernel()), *launch, call + 4,
                                                          [this](const plan::Ref &ref) { return address(ref); }));
  }
}

gpu::DevicePointer CudaExecutor::address(const plan::Ref &ref) const {
  switch (ref.space()) {
  case plan::Space::Arena:
    return memory_.get() + statesBytes_ + ref.offset();
  case plan::Space::State:
    return memory_.get() + stateOffsets_[ref.index()] + ref.offset();
  case plan::Space::Packed:
    return engine_.device()->packed() + ref.offset();
  default:
    return 0; // the verifier refuses every other space
  }
}

bool CudaExecutor::keep(Status status) {
  if (status.ok())
    return true;
  Error error = status.takeError();
  error.message = engine_.planPath().string() + ": " + engine_.target().name()->str() + ": " + error.message + " (" +
                  engine_.device()->device()->info().name + ")";
  failure_ = std::move(error);
  return false;
}

bool CudaExecutor::clearStates() {
  const gpu::Device &device = *engine_.device()->device();
  const gpu::Driver &d = device.driver();
  if (!keep(device.makeCurrent()))
    return false;
  return statesBytes_ == 0 || (keep(d.check(d.fill(memory_.get(), 0, statesBytes_, stream_.get()), "cuMemsetD8Async")) &&
                               keep(d.check(d.streamSynchronize(stream_.get()), "cuStreamSynchronize")));
}

bool CudaExecutor::run(ProgramPhase &phase, int64_t rows, int64_t position, const std::atomic<bool> &stop) {
  if (failure_ || stop.load(std::memory_order_relaxed))
    return false;
  if (!keep(engine_.device()->device()->makeCurrent()))
    return false;
  const uint64_t start = nowNs();
  const bool isSetup = phase.source->kind() == plan::PhaseKind::Setup;
  if (!keep(isSetup ? setup(phase) : call(phase, phases_.at(phase.source), rows, position)))
    return false;
  launches_ += phase.launches.size();
  // The device runs a call as a whole: its time is shared out evenly.
  const uint64_t ns = (nowNs() - start) / std::max<size_t>(phase.launches.size(), 1);
  for (ProgramLaunch &launch : phase.launches) {
    ++launch.calls;
    launch.rows += uint64_t(rows);
    launch.ns += ns;
  }
  return true;
}

Status CudaExecutor::setup(ProgramPhase &phase) {
  const gpu::Driver &d = engine_.device()->device()->driver();
  for (const ProgramLaunch &launch : phase.launches) {
    std::vector<std::vector<std::byte>> states;
    std::vector<void *> args;
    for (const plan::Ref *ref : *launch.source->args())
      args.push_back(states.emplace_back(ref->bytes()).data());
    std::vector<std::byte> scratch(engine_.scratchBytes());
    launch.builtin->run({args.data(), 1, 0, scratch.data()}, 0, launch.builtin->units(1));
    for (size_t i = 0; i < states.size(); ++i)
      NINFER_RETURN_IF_ERROR(d.check(d.copyToDevice(address(*launch.source->args()->Get(uint32_t(i))), states[i].data(),
                                                    states[i].size(), stream_.get()),
                                     "cuMemcpyHtoDAsync"));
    NINFER_RETURN_IF_ERROR(d.check(d.streamSynchronize(stream_.get()), "cuStreamSynchronize"));
  }
  return {};
}

Status CudaExecutor::call(ProgramPhase &phase, PhaseDevice &device, int64_t rows, int64_t position) {
  const gpu::Driver &d = engine_.device()->device()->driver();
  callHost_[0] = int32_t(rows);
  callHost_[1] = int32_t(position);
  NINFER_RETURN_IF_ERROR(ports_.send(stream_.get(), *phase.source, rows));
  if (isRepeated(*phase.source, rows)) {
    gpu::GraphExec &graph = device.graphs[rows];
    if (!graph) {
      NINFER_ASSIGN_OR_RETURN(graph, capture(phase, device, rows));
    }
    NINFER_RETURN_IF_ERROR(d.check(d.graphLaunch(graph.get(), stream_.get()), "cuGraphLaunch"));
  } else {
    NINFER_RETURN_IF_ERROR(enqueue(phase, device, rows));
  }
  NINFER_RETURN_IF_ERROR(d.check(d.streamSynchronize(stream_.get()), "cuStreamSynchronize"));
  return ports_.fetch(stream_.get(), *phase.source, rows);
}

Status CudaExecutor::enqueue(const ProgramPhase &phase, const PhaseDevice &device, int64_t rows) const {
  const gpu::Device &on = *engine_.device()->device();
  const gpu::Driver &d = on.driver();
  const gpu::DevicePointer call = memory_.get() + statesBytes_ + arenaBytes_;
  NINFER_RETURN_IF_ERROR(d.check(d.copyToDevice(call, callHost_, kCallBytes, stream_.get()), "cuMemcpyHtoDAsync"));
  if (phase.tokens)
    NINFER_RETURN_IF_ERROR(
        d.check(d.copyToDevice(device.tokens, phase.tokens, size_t(rows) * 4, stream_.get()), "cuMemcpyHtoDAsync"));
  for (const gpu::DeviceLaunch &launch : device.launches)
    NINFER_RETURN_IF_ERROR(launch.run(on, stream_.get(), rows));
  if (!phase.logits)
    return {};
  const int64_t logitRows = phase.source->kind() == plan::PhaseKind::Verify ? rows : 1;
  return d.check(d.copyToHost(const_cast<float *>(phase.logits), device.logits,
                              size_t(logitRows * phase.logitCount) * sizeof(float), stream_.get()),
                 "cuMemcpyDtoHAsync");
}

Result<gpu::GraphExec> CudaExecutor::capture(const ProgramPhase &phase, const PhaseDevice &device, int64_t rows) {
  const gpu::DevicePtr &on = engine_.device()->device();
  const gpu::Driver &d = on->driver();
  NINFER_RETURN_IF_ERROR(d.check(d.beginCapture(stream_.get(), gpu::kCaptureThreadLocal), "cuStreamBeginCapture"));
  Status enqueued = enqueue(phase, device, rows);
  gpu::GraphHandle handle = nullptr;
  // Also after a failure: a stream must leave capture.
  Status ended = d.check(d.endCapture(stream_.get(), &handle), "cuStreamEndCapture");
  const gpu::Graph graph(on, handle);
  NINFER_RETURN_IF_ERROR(std::move(enqueued));
  NINFER_RETURN_IF_ERROR(std::move(ended));
  gpu::GraphExecHandle exec = nullptr;
  NINFER_RETURN_IF_ERROR(d.check(d.graphInstantiate(&exec, graph.get(), 0), "cuGraphInstantiate"));
  return gpu::GraphExec(on, exec);
}

} // namespace ninfer
