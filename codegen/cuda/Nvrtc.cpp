#include "codegen/cuda/Nvrtc.h"

#include "codegen/cuda/KernelSources.h"
#include "support/File.h"

#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>
#include <span>

namespace ninfer::cuda {

// The few functions of nvrtc.h this needs, by their documented signatures (NVRTC documentation, "User interface").
struct Nvrtc::Impl {
  using Program = void *;
  void *library = nullptr;
  std::string path;
  int major = 0, minor = 0;
  std::vector<uint32_t> architectures;

  int (*version)(int *, int *) = nullptr;
  int (*countArchs)(int *) = nullptr;
  int (*supportedArchs)(int *) = nullptr;
  int (*create)(Program *, const char *, const char *, int, const char *const *, const char *const *) = nullptr;
  int (*compile)(Program, int, const char *const *) = nullptr;
  int (*cubinSize)(Program, size_t *) = nullptr;
  int (*cubin)(Program, char *) = nullptr;
  int (*logSize)(Program, size_t *) = nullptr;
  int (*log)(Program, char *) = nullptr;
  int (*destroy)(Program *) = nullptr;
  const char *(*errorText)(int) = nullptr;

  template <typename F>
  bool bind(F &function, const char *symbol) {
    function = reinterpret_cast<F>(dlsym(library, symbol));
    return function != nullptr;
  }
  bool bindAll() {
    return bind(version, "nvrtcVersion") && bind(countArchs, "nvrtcGetNumSupportedArchs") &&
           bind(supportedArchs, "nvrtcGetSupportedArchs") && bind(create, "nvrtcCreateProgram") &&
           bind(compile, "nvrtcCompileProgram") && bind(cubinSize, "nvrtcGetCUBINSize") &&
           bind(cubin, "nvrtcGetCUBIN") && bind(logSize, "nvrtcGetProgramLogSize") &&
           bind(log, "nvrtcGetProgramLog") && bind(destroy, "nvrtcDestroyProgram") &&
           bind(errorText, "nvrtcGetErrorString");
  }
};

namespace {

/// Loads libnvrtc-builtins of the same folder first: NVRTC opens it by name only, and finds it then.
void preloadBuiltins(const std::string &library) {
  const size_t slash = library.rfind('/');
  if (slash == std::string::npos)
    return;
  const std::string folder = library.substr(0, slash);
  DIR *dir = opendir(folder.c_str());
  if (!dir)
    return;
  std::vector<std::string> names;
  while (const dirent *entry = readdir(dir))
    if (const std::string name = entry->d_name; name.starts_with("libnvrtc-builtins.so."))
      names.push_back(name);
  closedir(dir);
  std::sort(names.begin(), names.end());
  for (const std::string &name : names)
    dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
}

std::vector<std::string> candidates(const std::string &path) {
  if (!path.empty())
    return {path};
  if (const char *named = std::getenv("NINFER_NVRTC"); named && *named)
    return {named};
  return {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13", "libnvrtc.so.12",
          "/usr/local/cuda/lib64/libnvrtc.so.12"};
}

Error notFound(const std::vector<std::string> &tried, const std::string &why) {
  Error error = makeError(ErrorKind::Failed, "NB0485", "NVRTC, which compiles CUDA kernels, cannot be loaded");
  for (const std::string &path : tried)
    error.notes.push_back("tried " + path);
  error.notes.push_back(why);
  error.help.push_back("install it without a toolkit: pip install nvidia-cuda-nvrtc, or conda install cuda-nvrtc, or "
                       "libnvrtc12 of Debian and Ubuntu; no GPU and no driver is needed");
  error.help.push_back("set NINFER_NVRTC to the full path of libnvrtc.so.13; libnvrtc-builtins lies beside it");
  return error;
}

} // namespace

Nvrtc::Nvrtc(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Nvrtc::Nvrtc(Nvrtc &&) noexcept = default;
Nvrtc &Nvrtc::operator=(Nvrtc &&) noexcept = default;
Nvrtc::~Nvrtc() = default; // the library stays loaded: it keeps threads and tables of its own

const std::string &Nvrtc::path() const { return impl_->path; }
uint32_t Nvrtc::major() const { return uint32_t(impl_->major); }
uint32_t Nvrtc::minor() const { return uint32_t(impl_->minor); }
const std::vector<uint32_t> &Nvrtc::architectures() const { return impl_->architectures; }

Result<Nvrtc> Nvrtc::load(const std::string &path) {
  const std::vector<std::string> tried = candidates(path);
  auto impl = std::make_unique<Impl>();
  std::string why;
  for (const std::string &candidate : tried) {
    preloadBuiltins(candidate);
    impl->library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (impl->library) {
      impl->path = candidate;
      break;
    }
    const char *text = dlerror();
    why = text ? text : "unknown reason";
  }
  if (!impl->library)
    return notFound(tried, why);
  int count = 0;
  if (!impl->bindAll() || impl->version(&impl->major, &impl->minor) != 0 || impl->countArchs(&count) != 0 || count <= 0)
    return notFound(tried, impl->path + " is not an NVRTC of CUDA 11.2 or later");
  std::vector<int> archs(size_t(count), 0);
  if (impl->supportedArchs(archs.data()) != 0)
    return notFound(tried, impl->path + " does not list its architectures");
  impl->architectures.assign(archs.begin(), archs.end());
  std::sort(impl->architectures.begin(), impl->architectures.end());
  return Nvrtc(std::move(impl));
}

std::vector<std::string> Nvrtc::options(uint32_t sm) {
  // No contraction: a * b + c stays two roundings where the source says so, as on the host.
  return {"-arch=sm_" + std::to_string(sm), "-default-device", "--std=c++20", "--fmad=false", "-lineinfo"};
}

Result<CompiledKernel> Nvrtc::compile(const KernelText &kernel, uint32_t sm, const std::string &failureFolder) const {
  return compileText(kernel.name, kernel.source(), sm, failureFolder);
}

Result<CompiledKernel> Nvrtc::compileText(const std::string &name, const std::string &text, uint32_t sm,
                                          const std::string &failureFolder) const {
  const Impl &n = *impl_;
  if (std::find(n.architectures.begin(), n.architectures.end(), sm) == n.architectures.end()) {
    std::string list;
    for (uint32_t arch : n.architectures)
      list += (list.empty() ? "" : ", ") + std::to_string(arch);
    Error error = makeError(ErrorKind::Unsupported, "NB0486",
                            "NVRTC " + std::to_string(n.major) + "." + std::to_string(n.minor) +
                                " does not compile for sm_" + std::to_string(sm) + ", expected one of " + list);
    error.notes.push_back("library: " + n.path);
    error.help.push_back("older cards (sm_50 to sm_72) need an NVRTC of CUDA 12");
    return error;
  }
  std::vector<const char *> headerText, headerNames;
  for (const KernelHeader &header : kernelHeaders()) {
    headerText.push_back(header.text);
    headerNames.push_back(header.name);
  }
  Impl::Program program = nullptr;
  int status = n.create(&program, text.c_str(), (name + ".cu").c_str(), int(headerText.size()), headerText.data(),
                        headerNames.data());
  if (status != 0)
    return makeError(ErrorKind::Failed, "NB0487", name + ": NVRTC creates no program: " + n.errorText(status));
  const std::vector<std::string> flags = options(sm);
  std::vector<const char *> arguments;
  for (const std::string &flag : flags)
    arguments.push_back(flag.c_str());
  status = n.compile(program, int(arguments.size()), arguments.data());
  CompiledKernel result;
  size_t bytes = 0;
  if (n.logSize(program, &bytes) == 0 && bytes > 1) {
    result.log.resize(bytes);
    n.log(program, result.log.data());
    result.log.resize(bytes - 1);
  }
  if (status == 0 && (status = n.cubinSize(program, &bytes)) == 0) {
    result.cubin.resize(bytes);
    status = n.cubin(program, reinterpret_cast<char *>(result.cubin.data()));
  }
  n.destroy(&program);
  if (status == 0)
    return result;
  Error error = makeError(ErrorKind::Failed, "NB0487",
                          name + ": NVRTC refuses the kernel for sm_" + std::to_string(sm) + ": " + n.errorText(status));
  error.notes.push_back(result.log);
  error.notes.push_back("source: " + text);
  if (!failureFolder.empty()) {
    const std::string file = failureFolder + "/" + name + ".cu";
    Status saved = writeFileAtomically(file, std::as_bytes(std::span(text)));
    error.notes.push_back(saved.ok() ? "the translation unit is in " + file : saved.error().message);
  }
  return error;
}

} // namespace ninfer::cuda
