// Entry points of NVIDIA's driver over host memory and the emulator (README.md). Work runs when it is enqueued; a stream in
// capture records it instead. Handles are checked where a wrong one would crash.
#include "codegen/cuda/Cubin.h"
#include "runtime/cuda/DriverTypes.h"
#include "support/Bytes.h"
#include "test/emulator/Emulator.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

using namespace ninfer;
using gpu::DevicePointer;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kOk = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidDevice = 101, kInvalidImage = 200,
              kNoBinary = 209, kNotFound = 500, kLaunchFailed = 719;
constexpr unsigned kSharedDefault = 48 * 1024;

std::string setting(const char *name, const char *otherwise) {
  const char *value = std::getenv(name);
  return value ? value : otherwise;
}

/// Dynamic shared memory a block may opt in to (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
unsigned sharedOptin(unsigned sm) {
  switch (sm) {
  case 75:
    return 64 * 1024;
  case 80:
    return 163 * 1024;
  case 86:
  case 89:
  case 120:
  case 121:
    return 99 * 1024;
  default:
    return 227 * 1024;
  }
}

struct FakeDevice {
  unsigned sm;
  std::string name;
};

struct FakeModule {
  cuda::CubinFacts facts;
};
struct FakeFunction {
  cuda::CubinKernel kernel;
  void (*thunk)(void **) = nullptr;
  unsigned shared = kSharedDefault;
};
struct FakeGraph {
  std::vector<std::function<int()>> work;
};
struct FakeStream {
  FakeGraph *capture = nullptr;
};

class FakeDriver {
public:
  FakeDriver() {
    const std::string list = setting("NINFER_FAKECUDA_DEVICES", "89=Fake GPU sm_89");
    for (size_t at = 0; at < list.size();) {
      const size_t end = std::min(list.find(';', at), list.size()), equals = list.find('=', at);
      devices.push_back({unsigned(std::atoi(list.c_str() + at)), list.substr(equals + 1, end - equals - 1)});
      at = end + 1;
    }
    limit = std::strtoull(setting("NINFER_FAKECUDA_MEMORY", "1073741824").c_str(), nullptr, 10);
    const std::string fail = setting("NINFER_FAKECUDA_FAIL", "");
    if (const size_t first = fail.find(':'); first != std::string::npos) {
      failName = fail.substr(0, first);
      failCall = std::atoi(fail.c_str() + first + 1);
      failCode = std::atoi(fail.c_str() + fail.find(':', first + 1) + 1);
    }
    if (const std::string path = setting("NINFER_FAKECUDA_KERNELS", ""); !path.empty()) {
      kernels = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!kernels)
        std::fprintf(stderr, "fakecuda: %s\n", dlerror());
    }
  }
  ~FakeDriver() {
    if (setting("NINFER_FAKECUDA_REPORT", "0") != "1")
      return;
    std::fprintf(stderr, "fakecuda: live: device %zu, host %zu, modules %d, streams %d, events %d, graphs %d, contexts %d\n",
                 device.size(), host.size(), modules, streams, events, graphs, contexts);
  }

  /// The planned failure of a call, else 0.
  int failing(const char *name) { return failName == name && ++calls == failCall ? failCode : kOk; }

  static bool inside(const std::map<uint64_t, uint64_t> &blocks, uint64_t at, uint64_t bytes) {
    const auto next = blocks.upper_bound(at);
    if (next == blocks.begin())
      return false;
    const auto &[base, size] = *std::prev(next);
    return at - base <= size && bytes <= size - (at - base);
  }

  static uint64_t take(std::map<uint64_t, uint64_t> &blocks, uint64_t bytes) {
    void *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(p, 0xff, bytes);
    blocks[reinterpret_cast<uint64_t>(p)] = bytes;
    return reinterpret_cast<uint64_t>(p);
  }
  static bool give(std::map<uint64_t, uint64_t> &blocks, uint64_t p) {
    if (!blocks.erase(p))
      return false;
    std::free(reinterpret_cast<void *>(p));
    return true;
  }

  std::mutex mutex;
  std::vector<FakeDevice> devices;
  std::map<uint64_t, uint64_t> device, host; ///< base -> bytes
  uint64_t limit = 0, used = 0;
  std::string failName;
  int failCall = 0, failCode = 0, calls = 0;
  int modules = 0, streams = 0, events = 0, graphs = 0, contexts = 0;
  void *kernels = nullptr;
  unsigned currentSm = 0;
};

FakeDriver &fake() {
  static FakeDriver driver;
  return driver;
}

int complain(int code, const std::string &text) {
  std::fprintf(stderr, "fakecuda: %s\n", text.c_str());
  return code;
}

int submit(FakeStream *stream, std::function<int()> work) {
  if (!stream)
    return complain(kInvalidValue, "work without a stream");
  if (stream->capture) {
    stream->capture->work.push_back(std::move(work));
    return kOk;
  }
  return work();
}

int copy(FakeStream *stream, uint64_t to, uint64_t from, size_t bytes, uint64_t devicePart) {
  if (!FakeDriver::inside(fake().device, devicePart, bytes))
    return complain(kInvalidValue, "copy of " + std::to_string(bytes) + " bytes outside device memory");
  return submit(stream, [=] {
    std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
    return kOk;
  });
}

int runKernel(const FakeFunction &function, emulator::Grid grid, unsigned threads, unsigned shared,
              const std::vector<uint64_t> &values) {
  emulator::Launch launch;
  launch.kernel = function.thunk;
  launch.boundThreads = function.kernel.maxThreads;
  launch.grid = grid;
  launch.threads = threads;
  launch.sharedBytes = shared;
  std::vector<uint64_t> words(values);
  for (uint64_t &word : words)
    launch.args.push_back(&word);
  // The allocations that a parameter points into; all others are out of bounds.
  for (const auto &[base, bytes] : fake().device)
    if (std::any_of(values.begin(), values.end(), [&, b = base, n = bytes](uint64_t value) { return value - b < n; }))
      launch.buffers.push_back({reinterpret_cast<const void *>(base), size_t(bytes), true, "device memory"});
  emulator::Options options;
  options.races = setting("NINFER_FAKECUDA_RACES", "0") == "1";
  const std::string order = setting("NINFER_FAKECUDA_ORDER", "forward");
  options.order = order == "reverse"  ? emulator::Order::Reverse
                  : order == "random" ? emulator::Order::Random
                                      : emulator::Order::Forward;
  const emulator::Outcome outcome = emulator::run(launch, options);
  return outcome.ok() ? kOk : complain(kLaunchFailed, function.kernel.name + ": " + outcome.message);
}

} // namespace

#define FAKE_ENTRY(name)                                                                                               \
  std::lock_guard<std::mutex> lock(fake().mutex);                                                                      \
  if (const int code = fake().failing(name))                                                                           \
  return code

extern "C" {

int cuInit(unsigned) {
  FAKE_ENTRY("cuInit");
  return fake().devices.empty() ? kNoDevice : kOk;
}
int cuDriverGetVersion(int *version) {
  FAKE_ENTRY("cuDriverGetVersion");
  *version = std::atoi(setting("NINFER_FAKECUDA_VERSION", "13000").c_str());
  return kOk;
}
int cuGetErrorName(int code, const char **name) {
  static const std::map<int, const char *> names = {
      {0, "CUDA_SUCCESS"},           {1, "CUDA_ERROR_INVALID_VALUE"},    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"}, {200, "CUDA_ERROR_INVALID_IMAGE"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {500, "CUDA_ERROR_NOT_FOUND"},      {719, "CUDA_ERROR_LAUNCH_FAILED"}};
  const auto found = names.find(code);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? kInvalidValue : kOk;
}
int cuDeviceGetCount(int *count) {
  *count = int(fake().devices.size());
  return kOk;
}
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && size_t(ordinal) < fake().devices.size() ? kOk : kInvalidDevice;
}
int cuDeviceGetName(char *name, int bytes, int device) {
  std::snprintf(name, size_t(bytes), "%s", fake().devices.at(size_t(device)).name.c_str());
  return kOk;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  const unsigned sm = fake().devices.at(size_t(device)).sm;
  *value = attribute == gpu::kAttributeMajor             ? int(sm / 10)
           : attribute == gpu::kAttributeMinor           ? int(sm % 10)
           : attribute == gpu::kAttributeMultiprocessors ? 4
           : attribute == gpu::kAttributeSharedOptin     ? int(sharedOptin(sm))
                                                          : 0;
  return kOk;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  FAKE_ENTRY("cuDevicePrimaryCtxRetain");
  *context = &fake();
  fake().currentSm = fake().devices.at(size_t(device)).sm;
  ++fake().contexts;
  return kOk;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  --fake().contexts;
  return kOk;
}
int cuCtxSetCurrent(void *context) { return context == &fake() ? kOk : kInvalidValue; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  FAKE_ENTRY("cuMemGetInfo");
  *total = fake().limit;
  *free = fake().limit - fake().used;
  return kOk;
}
int cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  FAKE_ENTRY("cuMemAlloc");
  constexpr uint64_t kPage = uint64_t(2) << 20;
  const uint64_t pages = (bytes + kPage - 1) / kPage * kPage;
  if (bytes == 0)
    return kInvalidValue;
  if (pages > fake().limit - fake().used)
    return kOutOfMemory;
  fake().used += pages;
  *pointer = FakeDriver::take(fake().device, bytes);
  return kOk;
}
int cuMemFree_v2(DevicePointer pointer) {
  std::lock_guard<std::mutex> lock(fake().mutex);
  constexpr uint64_t kPage = uint64_t(2) << 20;
  const auto found = fake().device.find(pointer);
  if (found == fake().device.end())
    return complain(kInvalidValue, "free of what was not allocated");
  fake().used -= (found->second + kPage - 1) / kPage * kPage;
  FakeDriver::give(fake().device, pointer);
  return kOk;
}
int cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  FAKE_ENTRY("cuMemHostAlloc");
  *pointer = reinterpret_cast<void *>(FakeDriver::take(fake().host, bytes));
  return kOk;
}
int cuMemFreeHost(void *pointer) {
  std::lock_guard<std::mutex> lock(fake().mutex);
  return FakeDriver::give(fake().host, reinterpret_cast<uint64_t>(pointer)) ? kOk : kInvalidValue;
}
int cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes, FakeStream *stream) {
  FAKE_ENTRY("cuMemcpyHtoDAsync");
  return copy(stream, to, reinterpret_cast<uint64_t>(from), bytes, to);
}
int cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, FakeStream *stream) {
  FAKE_ENTRY("cuMemcpyDtoHAsync");
  return copy(stream, reinterpret_cast<uint64_t>(to), from, bytes, from);
}
int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, FakeStream *stream) {
  FAKE_ENTRY("cuMemcpyDtoDAsync");
  if (!FakeDriver::inside(fake().device, to, bytes))
    return complain(kInvalidValue, "copy of " + std::to_string(bytes) + " bytes outside device memory");
  return copy(stream, to, from, bytes, from);
}
int cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes, FakeStream *stream) {
  FAKE_ENTRY("cuMemsetD8Async");
  if (!FakeDriver::inside(fake().device, to, bytes))
    return complain(kInvalidValue, "fill outside device memory");
  return submit(stream, [=] {
    std::memset(reinterpret_cast<void *>(to), value, bytes);
    return kOk;
  });
}
int cuStreamCreate(FakeStream **stream, unsigned) {
  FAKE_ENTRY("cuStreamCreate");
  *stream = new FakeStream();
  ++fake().streams;
  return kOk;
}
int cuStreamDestroy_v2(FakeStream *stream) {
  if (stream->capture) { // never ended
    delete stream->capture;
    --fake().graphs;
  }
  delete stream;
  --fake().streams;
  return kOk;
}
int cuStreamSynchronize(FakeStream *stream) {
  FAKE_ENTRY("cuStreamSynchronize");
  return stream->capture ? complain(kInvalidValue, "a stream in capture is synchronised") : kOk;
}
int cuStreamBeginCapture_v2(FakeStream *stream, int) {
  FAKE_ENTRY("cuStreamBeginCapture");
  if (stream->capture)
    return kInvalidValue;
  stream->capture = new FakeGraph();
  ++fake().graphs;
  return kOk;
}
int cuStreamEndCapture(FakeStream *stream, FakeGraph **graph) {
  FAKE_ENTRY("cuStreamEndCapture");
  *graph = stream->capture;
  stream->capture = nullptr;
  return *graph ? kOk : kInvalidValue;
}
int cuGraphInstantiateWithFlags(FakeGraph **exec, FakeGraph *graph, unsigned long long) {
  FAKE_ENTRY("cuGraphInstantiate");
  *exec = new FakeGraph(*graph);
  ++fake().graphs;
  return kOk;
}
int cuGraphLaunch(FakeGraph *exec, FakeStream *) {
  FAKE_ENTRY("cuGraphLaunch");
  for (const auto &work : exec->work)
    if (const int code = work())
      return code;
  return kOk;
}
int cuGraphExecDestroy(FakeGraph *exec) {
  delete exec;
  --fake().graphs;
  return kOk;
}
int cuGraphDestroy(FakeGraph *graph) {
  delete graph;
  --fake().graphs;
  return kOk;
}
int cuEventCreate(Clock::time_point **event, unsigned) {
  FAKE_ENTRY("cuEventCreate");
  *event = new Clock::time_point();
  ++fake().events;
  return kOk;
}
int cuEventDestroy_v2(Clock::time_point *event) {
  delete event;
  --fake().events;
  return kOk;
}
int cuEventRecord(Clock::time_point *event, FakeStream *stream) {
  FAKE_ENTRY("cuEventRecord");
  return submit(stream, [=] {
    *event = Clock::now();
    return kOk;
  });
}
int cuEventElapsedTime(float *milliseconds, const Clock::time_point *start, const Clock::time_point *end) {
  FAKE_ENTRY("cuEventElapsedTime");
  *milliseconds = std::chrono::duration<float, std::milli>(*end - *start).count();
  return kOk;
}
int cuEventSynchronize(void *) {
  FAKE_ENTRY("cuEventSynchronize");
  return kOk;
}
int cuModuleLoadData(FakeModule **module, const void *image) {
  FAKE_ENTRY("cuModuleLoadData");
  // The end of an ELF file is its section table or its last section; the driver gets no size either.
  const auto *elf = static_cast<const uint8_t *>(image);
  if (loadLe32(reinterpret_cast<const std::byte *>(elf)) != 0x464c457f)
    return kInvalidImage;
  const auto *bytes = reinterpret_cast<const std::byte *>(elf);
  uint64_t size = loadLe64(bytes + 0x28) + uint64_t(loadLe16(bytes + 0x3c)) * 64;
  for (uint32_t i = 0; i < loadLe16(bytes + 0x3c); ++i) {
    const std::byte *section = bytes + loadLe64(bytes + 0x28) + i * 64;
    if (loadLe32(section + 4) != 8)
      size = std::max(size, loadLe64(section + 24) + loadLe64(section + 32));
  }
  Result<cuda::CubinFacts> facts = cuda::readCubin({elf, size});
  if (!facts.ok())
    return complain(kInvalidImage, facts.error().message);
  if (facts->sm != fake().currentSm)
    return kNoBinary;
  *module = new FakeModule{facts.take()};
  ++fake().modules;
  return kOk;
}
int cuModuleUnload(FakeModule *module) {
  delete module;
  --fake().modules;
  return kOk;
}
int cuModuleGetFunction(FakeFunction **function, FakeModule *module, const char *name) {
  FAKE_ENTRY("cuModuleGetFunction");
  static std::vector<std::unique_ptr<FakeFunction>> all; // a function lives as long as its module, the driver says
  for (const cuda::CubinKernel &kernel : module->facts.kernels) {
    if (kernel.name != name)
      continue;
    auto made = std::make_unique<FakeFunction>();
    made->kernel = kernel;
    if (fake().kernels)
      made->thunk = reinterpret_cast<void (*)(void **)>(dlsym(fake().kernels, (kernel.name + "_thunk").c_str()));
    *function = all.emplace_back(std::move(made)).get();
    return kOk;
  }
  return kNotFound;
}
int cuFuncSetAttribute(FakeFunction *function, int attribute, int value) {
  FAKE_ENTRY("cuFuncSetAttribute");
  if (attribute != gpu::kFunctionMaxDynamicShared || value < 0 || unsigned(value) > sharedOptin(fake().currentSm))
    return kInvalidValue;
  function->shared = unsigned(value);
  return kOk;
}
int cuLaunchKernel(FakeFunction *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, FakeStream *stream, void **params, void **extra) {
  FAKE_ENTRY("cuLaunchKernel");
  const cuda::CubinKernel &kernel = function->kernel;
  if (!gx || !gy || !gz || gx > 0x7fffffffu || gy > 65535 || gz > 65535 || by != 1 || bz != 1 || extra)
    return complain(kInvalidValue, kernel.name + ": grid " + std::to_string(gx) + "x" + std::to_string(gy) + "x" + std::to_string(gz));
  if (bx > 1024 || (kernel.maxThreads && bx > kernel.maxThreads) || shared > function->shared)
    return complain(kInvalidValue, kernel.name + ": " + std::to_string(bx) + " threads, " + std::to_string(shared) + " bytes of shared memory");
  if (!function->thunk)
    return complain(kNotFound, kernel.name + ": no host kernel of that name");
  std::vector<uint64_t> values; // by value at the launch, as the driver does
  for (const cuda::CubinParam &param : kernel.params) {
    uint64_t value = 0;
    std::memcpy(&value, params[values.size()], param.bytes);
    values.push_back(value);
  }
  return submit(stream, [=, f = *function] { return runKernel(f, {gx, gy, gz}, bx, shared, values); });
}

} // extern "C"
