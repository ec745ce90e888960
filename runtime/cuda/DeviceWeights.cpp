#include "runtime/cuda/DeviceWeights.h"

#include "runtime/cuda/Upload.h"

#include <algorithm>
#include <cstring>

namespace ninfer::gpu {

namespace {

constexpr uint64_t kAlign = 256;
constexpr uint32_t kSharedWithoutAsking = 48 * 1024;

uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

const plan::Phase *loadPhase(const plan::Target &target) { return PlanView::findPhase(target, plan::PhaseKind::Load); }

} // namespace

DeviceLedger deviceLedger(const plan::Target &target) {
  DeviceLedger ledger;
  ledger.packed = target.cuda()->packed_bytes();
  ledger.staging = target.cuda()->staging_bytes();
  ledger.arena = alignUp(target.arena_bytes(), kAlign);
  for (const plan::State *state : *target.states())
    ledger.states = alignUp(ledger.states, std::max<uint64_t>(state->align(), kAlign)) + state->bytes();
  ledger.states = alignUp(ledger.states, kAlign);
  ledger.call = kAlign;
  return ledger;
}

Status DeviceLaunch::run(const Device &device, StreamHandle stream, int64_t rows) const {
  uint64_t values[64];
  void *pointers[64];
  for (size_t i = 0; i < params.size(); ++i) {
    values[i] = params[i].at(rows); // little-endian: a word is the first half
    pointers[i] = &values[i];
  }
  const uint64_t blocks = blocksConst + blocksPerRow * ((uint64_t(rows) + rowsPerTile - 1) / rowsPerTile);
  uint64_t fixed = 1;
  for (uint32_t extent : grid)
    fixed *= extent ? extent : 1;
  unsigned extents[3];
  for (int axis = 0; axis < 3; ++axis)
    extents[axis] = grid[axis] ? grid[axis] : unsigned(blocks / fixed);
  const Driver &d = device.driver();
  return d.check(d.launch(function, extents[0], extents[1], extents[2], threads, 1, 1, sharedBytes, stream, pointers, nullptr),
                 "cuLaunchKernel");
}

Result<std::shared_ptr<const DeviceWeights>> DeviceWeights::load(DevicePtr device, const PlanView &view,
                                                                 const plan::Target &target,
                                                                 std::span<const std::byte> payload, PackedSource *source,
                                                                 const Progress &progress) {
  std::shared_ptr<DeviceWeights> weights(new DeviceWeights(std::move(device)));
  DeviceLedger ledger = deviceLedger(target);
  if (source)
    ledger.staging = source->stagingBytes();
  const auto text = [](const char *what, uint64_t bytes) { return std::string(what) + " " + std::to_string(bytes) + " bytes"; };
  NINFER_RETURN_IF_ERROR(checkDeviceMemory(
      *weights->device_, ledger.weightBytes() + std::max(devicePages(ledger.staging), ledger.contextBytes()),
      text("weights", ledger.packed) + text(", staging while they load", ledger.staging) + text("; a context: states", ledger.states) +
          text(", activations", ledger.arena)));
  NINFER_RETURN_IF_ERROR(weights->loadModules(view, target));
  NINFER_ASSIGN_OR_RETURN(weights->packed_, allocateDevice(weights->device_, ledger.packed, "weights"));
  NINFER_RETURN_IF_ERROR(source ? source->fill(weights->device_, target, weights->packed(), progress)
                                : weights->fill(target, payload, progress));
  return std::shared_ptr<const DeviceWeights>(std::move(weights));
}

Status DeviceWeights::loadModules(const PlanView &view, const plan::Target &target) {
  const Driver &d = device_->driver();
  NINFER_RETURN_IF_ERROR(device_->makeCurrent());
  for (const plan::Kernel *kernel : *target.kernels()) {
    if (kernel->kind() != plan::KernelKind::Cuda)
      continue;
    const auto of = [&](Status status) {
      if (status.ok())
        return status;
      Error error = status.takeError();
      error.message = "kernel '" + kernel->name()->str() + "': " + error.message;
      return Status(std::move(error));
    };
    Module &module = modules_[kernel->blob()];
    if (!module) {
      ModuleHandle handle = nullptr;
      NINFER_RETURN_IF_ERROR(of(d.check(d.moduleLoad(&handle, view.blob(kernel->blob()).data()), "cuModuleLoadData")));
      module = Module(device_, handle);
    }
    FunctionHandle function = nullptr;
    const std::string symbol = kernel->symbol()->str();
    NINFER_RETURN_IF_ERROR(of(d.check(d.moduleFunction(&function, module.get(), symbol.c_str()), "cuModuleGetFunction")));
    const uint32_t shared = kernel->cuda()->shared_bytes();
    if (shared > kSharedWithoutAsking)
      NINFER_RETURN_IF_ERROR(
          of(d.check(d.functionAttribute(function, kFunctionMaxDynamicShared, int(shared)), "cuFuncSetAttribute")));
    functions_[kernel] = function;
  }
  return {};
}

DeviceLaunch DeviceWeights::resolve(const plan::Kernel &kernel, const plan::Launch &launch, DevicePointer position,
                                    const std::function<DevicePointer(const plan::Ref &)> &address) const {
  const plan::CudaCode &code = *kernel.cuda();
  DeviceLaunch made;
  made.function = functions_.at(&kernel);
  made.threads = code.threads();
  made.sharedBytes = code.shared_bytes();
  made.grid[0] = code.grid_x();
  made.grid[1] = code.grid_y();
  made.grid[2] = code.grid_z();
  made.blocksConst = launch.tiles_const();
  made.blocksPerRow = launch.tiles_per_row();
  made.rowsPerTile = code.rows_per_tile();
  for (const plan::CudaParam *param : *code.params()) {
    LaunchParam value{param->kind(), param->value(), param->per_row()};
    if (param->kind() == plan::CudaParamKind::Pointer)
      value.base = address(*launch.args()->Get(param->arg())) + param->value();
    if (param->kind() == plan::CudaParamKind::Position)
      value.base = position;
    made.params.push_back(value);
  }
  return made;
}

Status DeviceWeights::fill(const plan::Target &target, std::span<const std::byte> payload, const Progress &progress) {
  const plan::Phase *phase = loadPhase(target);
  if (!phase)
    return {};
  const Driver &d = device_->driver();
  const uint64_t bytes = target.cuda()->staging_bytes();
  // Freed in reverse order: the stream first, so that nothing runs on freed memory.
  NINFER_ASSIGN_OR_RETURN(Upload upload, Upload::create(device_, bytes));
  NINFER_ASSIGN_OR_RETURN(DeviceMemory staging, allocateDevice(device_, bytes, "uploading weights"));
  NINFER_ASSIGN_OR_RETURN(Stream stream, createStream(device_));
  uint64_t total = 0, done = 0;
  for (const plan::Launch *launch : *phase->launches())
    for (const plan::Ref *ref : *launch->args())
      total += ref->space() == plan::Space::Payload ? ref->bytes() : 0;

  for (uint32_t i = 0; i < phase->launches()->size(); ++i) {
    const plan::Launch &launch = *phase->launches()->Get(i);
    const plan::Kernel &kernel = *target.kernels()->Get(launch.kernel());
    NINFER_ASSIGN_OR_RETURN(std::byte *host, upload.buffer());
    const plan::Ref &to = *launch.args()->Get(launch.args()->size() - 1);
    const bool copy = kernel.kind() == plan::KernelKind::Builtin;
    // The payload is read here, page by page, while the device works on the launch before.
    uint64_t at = 0;
    std::map<const plan::Ref *, DevicePointer> places;
    for (const plan::Ref *ref : *launch.args()) {
      if (ref->space() != plan::Space::Payload)
        continue;
      std::memcpy(host + at, payload.data() + ref->offset(), ref->bytes());
      const DevicePointer place = copy ? packed_.get() + to.offset() : staging.get() + at;
      NINFER_RETURN_IF_ERROR(d.check(d.copyToDevice(place, host + at, ref->bytes(), stream.get()), "cuMemcpyHtoDAsync"));
      places[ref] = place;
      at = alignUp(at + ref->bytes(), kAlign);
      done += ref->bytes();
    }
    if (!copy) {
      const DeviceLaunch resolved = resolve(kernel, launch, 0, [&](const plan::Ref &ref) {
        const auto staged = places.find(&ref);
        return staged != places.end() ? staged->second : packed_.get() + ref.offset();
      });
      NINFER_RETURN_IF_ERROR(resolved.run(*device_, stream.get(), 1));
    }
    NINFER_RETURN_IF_ERROR(upload.sent(stream.get()));
    if (progress)
      progress(done, total);
  }
  return d.check(d.streamSynchronize(stream.get()), "cuStreamSynchronize");
}

} // namespace ninfer::gpu
