#include "test/gpu/Gpu.h"

#include "support/File.h"

#include <algorithm>

namespace ninfer::gpucheck {

namespace {

// "CUDA Driver API", CUdevice_attribute.
constexpr int kClock = 13, kMemoryClock = 36, kBusWidth = 37, kL2 = 38, kSharedPerSm = 81, kRegistersPerSm = 82, kEcc = 32;

} // namespace

Result<std::unique_ptr<Gpu>> Gpu::open(const Pack &pack) {
  NINFER_ASSIGN_OR_RETURN(const std::shared_ptr<const gpu::Driver> driver, gpu::Driver::load());
  if (driver->devices().empty())
    return makeError(ErrorKind::TargetMismatch, "NB0643", "no CUDA device");
  const std::vector<uint32_t> known = pack.architectures();
  std::string found, wanted;
  for (uint32_t sm : known)
    wanted += (wanted.empty() ? "sm_" : ", sm_") + std::to_string(sm);
  for (const gpu::DeviceInfo &info : driver->devices()) {
    found += (found.empty() ? "sm_" : ", sm_") + std::to_string(info.sm) + " (" + info.name + ")";
    if (std::find(known.begin(), known.end(), info.sm) == known.end())
      continue;
    std::unique_ptr<Gpu> gpu(new Gpu());
    NINFER_ASSIGN_OR_RETURN(gpu->device_, gpu::Device::open(driver, info));
    NINFER_ASSIGN_OR_RETURN(gpu->stream_, gpu::createStream(gpu->device_));
    gpu->elapsed_ = reinterpret_cast<decltype(gpu->elapsed_)>(driver->symbol("cuEventElapsedTime"));
    gpu->copy_ = reinterpret_cast<decltype(gpu->copy_)>(driver->symbol("cuMemcpyDtoDAsync_v2"));
    if (!gpu->elapsed_ || !gpu->copy_)
      return makeError(ErrorKind::TargetMismatch, "gpu-check", "the NVIDIA driver has no cuEventElapsedTime or cuMemcpyDtoDAsync_v2");
    return gpu;
  }
  return makeError(ErrorKind::TargetMismatch, "gpu-check", "pack: " + wanted + ", this machine: " + found);
}

Json Gpu::facts() const {
  Json facts;
  facts["name"] = info().name;
  facts["sm"] = sm();
  facts["driver"] = gpu::cudaVersionText(driver().version());
  facts["multiprocessors"] = info().multiprocessors;
  facts["shared_bytes_per_block"] = info().sharedBytes;
  for (auto [name, attribute] : {std::pair("clock_khz", kClock), std::pair("memory_clock_khz", kMemoryClock),
                                 std::pair("memory_bus_bits", kBusWidth), std::pair("l2_bytes", kL2),
                                 std::pair("shared_bytes_per_multiprocessor", kSharedPerSm),
                                 std::pair("registers_per_multiprocessor", kRegistersPerSm), std::pair("ecc", kEcc)}) {
    int value = 0;
    if (driver().deviceAttribute(&value, attribute, info().number) == gpu::kSuccess)
      facts[name] = value;
  }
  if (auto memory = device_->memory(); memory.ok()) {
    facts["memory_bytes"] = memory->total;
    facts["memory_free_bytes"] = memory->free;
  }
  return facts;
}

Result<gpu::FunctionHandle> Gpu::function(const Pack &pack, const std::string &cubin, const std::string &symbol,
                                          uint32_t sharedBytes) {
  NINFER_RETURN_IF_ERROR(device_->makeCurrent());
  gpu::Module &module = modules_[cubin];
  if (!module) {
    const std::filesystem::path path = pack.path("sm_" + std::to_string(sm()) + "/" + cubin + ".cubin");
    NINFER_ASSIGN_OR_RETURN(const std::string bytes, readFile(path));
    gpu::ModuleHandle handle = nullptr;
    Status loaded = driver().check(driver().moduleLoad(&handle, bytes.data()), "cuModuleLoadData");
    NINFER_RETURN_IF_ERROR(std::move(loaded.note(path.string())));
    module = gpu::Module(device_, handle);
  }
  gpu::FunctionHandle function = nullptr;
  NINFER_RETURN_IF_ERROR(driver().check(driver().moduleFunction(&function, module.get(), symbol.c_str()), "cuModuleGetFunction"));
  if (sharedBytes > 48 * 1024)
    NINFER_RETURN_IF_ERROR(driver().check(driver().functionAttribute(function, gpu::kFunctionMaxDynamicShared, int(sharedBytes)),
                                          "cuFuncSetAttribute"));
  return function;
}

Status Gpu::launch(gpu::FunctionHandle function, emulator::Grid grid, uint32_t threads, uint32_t sharedBytes,
                   std::span<const uint64_t> values) const {
  std::vector<uint64_t> words(values.begin(), values.end());
  std::vector<void *> pointers;
  for (uint64_t &word : words)
    pointers.push_back(&word);
  NINFER_RETURN_IF_ERROR(device_->makeCurrent());
  return driver().check(driver().launch(function, grid.x, grid.y, grid.z, threads, 1, 1, sharedBytes, stream(), pointers.data(), nullptr),
                        "cuLaunchKernel");
}

Status Gpu::upload(gpu::DevicePointer to, const void *from, size_t bytes) const {
  NINFER_RETURN_IF_ERROR(device_->makeCurrent());
  return driver().check(driver().copyToDevice(to, from, bytes, stream()), "cuMemcpyHtoDAsync");
}

Status Gpu::download(void *to, gpu::DevicePointer from, size_t bytes) const {
  NINFER_RETURN_IF_ERROR(device_->makeCurrent());
  NINFER_RETURN_IF_ERROR(driver().check(driver().copyToHost(to, from, bytes, stream()), "cuMemcpyDtoHAsync"));
  return wait();
}

Status Gpu::wait() const { return driver().check(driver().streamSynchronize(stream()), "cuStreamSynchronize"); }

Result<gpu::DevicePointer> Gpu::scratch(size_t bytes) {
  if (bytes > scratchBytes_) {
    releaseScratch();
    NINFER_ASSIGN_OR_RETURN(scratch_, gpu::allocateDevice(device_, bytes, "checks"));
    scratchBytes_ = bytes;
  }
  return scratch_.get();
}

void Gpu::releaseScratch() {
  scratch_ = gpu::DeviceMemory();
  scratchBytes_ = 0;
}

Result<double> Gpu::milliseconds(int repeats, const std::function<Status()> &enqueue) const {
  NINFER_RETURN_IF_ERROR(device_->makeCurrent());
  gpu::Event ends[2];
  for (gpu::Event &event : ends) {
    gpu::EventHandle handle = nullptr;
    NINFER_RETURN_IF_ERROR(driver().check(driver().eventCreate(&handle, 0), "cuEventCreate"));
    event = gpu::Event(device_, handle);
  }
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    NINFER_RETURN_IF_ERROR(driver().check(driver().eventRecord(ends[0].get(), stream()), "cuEventRecord"));
    NINFER_RETURN_IF_ERROR(enqueue());
    NINFER_RETURN_IF_ERROR(driver().check(driver().eventRecord(ends[1].get(), stream()), "cuEventRecord"));
    NINFER_RETURN_IF_ERROR(wait());
    float ms = 0;
    NINFER_RETURN_IF_ERROR(driver().check(elapsed_(&ms, ends[0].get(), ends[1].get()), "cuEventElapsedTime"));
    if (i > 0)
      times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

Result<double> Gpu::copyRate(size_t bytes) {
  NINFER_ASSIGN_OR_RETURN(const gpu::DevicePointer memory, scratch(2 * bytes));
  NINFER_RETURN_IF_ERROR(driver().check(driver().fill(memory, 0x5a, 2 * bytes, stream()), "cuMemsetD8Async"));
  NINFER_ASSIGN_OR_RETURN(const double ms, milliseconds(7, [&] {
                            return driver().check(copy_(memory + bytes, memory, bytes, stream()), "cuMemcpyDtoDAsync");
                          }));
  return 2.0 * double(bytes) / (ms / 1000);
}

} // namespace ninfer::gpucheck
