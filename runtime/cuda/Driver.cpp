#include "runtime/cuda/Driver.h"

#include <cstdlib>
#include <dlfcn.h>

namespace ninfer::gpu {

namespace {

Status absent(std::string why) { return makeError(ErrorKind::TargetMismatch, "NB0643", std::move(why)); }

} // namespace

Result<std::shared_ptr<const Driver>> Driver::load() {
  const char *named = std::getenv("NINFER_CUDA_DRIVER");
  const std::string path = named && *named ? named : "libcuda.so.1";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); // stays loaded: drivers keep threads
  if (!library) {
    const char *why = dlerror();
    return absent("no NVIDIA driver (" + std::string(why ? why : path) + ")");
  }
  auto driver = std::make_shared<Driver>();
  NINFER_RETURN_IF_ERROR(driver->bind(library, path));
  if (const Result32 result = driver->init(0); result != kSuccess) {
    if (result == kErrorNoDevice)
      return absent("no CUDA device");
    return absent("the NVIDIA driver does not start: " + driver->check(result, "cuInit").error().message);
  }
  int version = 0;
  NINFER_RETURN_IF_ERROR(driver->check(driver->driverVersion(&version), "cuDriverGetVersion"));
  driver->version_ = uint32_t(version);
  NINFER_RETURN_IF_ERROR(driver->findDevices());
  return std::shared_ptr<const Driver>(std::move(driver));
}

void *Driver::symbol(const char *name) const { return dlsym(library_, name); }

Status Driver::bind(void *library, const std::string &path) {
  library_ = library;
#define NINFER_CUDA_BIND(member, name, ...)                                                                            \
  member = reinterpret_cast<Result32 (*)(__VA_ARGS__)>(dlsym(library, name));                                          \
  if (!member)                                                                                                         \
    return absent("the NVIDIA driver " + path + " has no " + name + ", it is too old");
  NINFER_CUDA_SYMBOLS(NINFER_CUDA_BIND)
#undef NINFER_CUDA_BIND
  return {};
}

Status Driver::findDevices() {
  int count = 0;
  NINFER_RETURN_IF_ERROR(check(deviceCount(&count), "cuDeviceGetCount"));
  for (int i = 0; i < count; ++i) {
    DeviceInfo info;
    char name[256] = {};
    int major = 0, minor = 0, processors = 0, shared = 0;
    NINFER_RETURN_IF_ERROR(check(device(&info.number, i), "cuDeviceGet"));
    NINFER_RETURN_IF_ERROR(check(deviceName(name, sizeof name - 1, info.number), "cuDeviceGetName"));
    for (auto [attribute, value] : {std::pair(kAttributeMajor, &major), std::pair(kAttributeMinor, &minor),
                                    std::pair(kAttributeMultiprocessors, &processors),
                                    std::pair(kAttributeSharedOptin, &shared)})
      NINFER_RETURN_IF_ERROR(check(deviceAttribute(value, attribute, info.number), "cuDeviceGetAttribute"));
    info.name = name;
    info.sm = uint32_t(major * 10 + minor);
    info.multiprocessors = uint32_t(processors);
    info.sharedBytes = uint32_t(shared);
    devices_.push_back(std::move(info));
  }
  return {};
}

Status Driver::check(Result32 result, const char *call) const {
  if (result == kSuccess)
    return {};
  const char *name = nullptr;
  if (errorName(result, &name) != kSuccess || !name)
    name = "unknown error";
  const std::string text = std::string(call) + ": " + name + " (" + std::to_string(result) + ")";
  if (result == kErrorOutOfMemory)
    return makeError(ErrorKind::OutOfMemory, "NB0645", text);
  return makeError(ErrorKind::Failed, "NB0644", text);
}

std::string cudaVersionText(uint32_t version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

} // namespace ninfer::gpu
