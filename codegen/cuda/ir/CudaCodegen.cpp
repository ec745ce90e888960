#include "codegen/cuda/ir/CudaCodegen.h"

#include "codegen/common/ObjectCache.h"
#include "codegen/cuda/Cubin.h"
#include "codegen/cuda/KernelSources.h"
#include "codegen/cuda/Nvrtc.h"
#include "support/File.h"
#include "support/Sha256.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

using namespace mlir;

namespace ninfer::cuda {
namespace {

struct Job {
  Cubin cubin;
  bool fromCache = false;
  bool spills = false; ///< compiled, but uses a stack frame
  Status status;
};

/// Text, headers and options: what the machine code is a function of, beside the compiler.
Sha256Digest sourceDigest(const KernelText &text, uint32_t sm) {
  Sha256 hash;
  const auto field = [&](std::string_view value) { hash.update(std::to_string(value.size()) + ":").update(value); };
  field(text.source());
  for (const KernelHeader &header : kernelHeaders()) {
    field(header.name);
    field(header.text);
  }
  for (const std::string &option : Nvrtc::options(sm))
    field(option);
  return hash.finish();
}

class Compilation {
public:
  /// `last`: a kernel that spills registers is an error.
  Compilation(const Nvrtc &nvrtc, uint32_t sm, const CodegenOptions &options, bool last)
      : nvrtc_(nvrtc), sm_(sm), options_(options), last_(last) {}

  void run(std::vector<Job> &jobs) {
    std::atomic<size_t> next = 0;
    std::atomic<bool> stop = false;
    size_t done = 0;
    std::mutex progress;
    auto work = [&] {
      for (size_t index; !stop && (index = next++) < jobs.size();) {
        Job &job = jobs[index];
        job.status = one(job);
        if (!job.status.ok())
          stop = true;
        std::lock_guard<std::mutex> lock(progress);
        ++done;
        if (options_.progress)
          options_.progress(done, jobs.size(), job.cubin.text.name);
      }
    };
    std::vector<std::thread> team;
    for (size_t i = 1; i < std::min<size_t>(std::max(options_.threads, 1u), jobs.size()); ++i)
      team.emplace_back(work);
    work();
    for (std::thread &thread : team)
      thread.join();
  }

private:
  Status one(Job &job) const {
    const KernelText &text = job.cubin.text;
    const Sha256Digest digest = sourceDigest(text, sm_);
    job.cubin.sourceDigest = digest;
    const std::string source = text.source();
    if (!options_.dumpDir.empty())
      NINFER_RETURN_IF_ERROR(writeFileAtomically(options_.dumpDir + "/" + text.name + ".cu", std::as_bytes(std::span(source))));
    const std::string version = std::to_string(nvrtc_.major()) + "." + std::to_string(nvrtc_.minor()), hex = toHex(digest);
    const std::string_view fields[] = {"ninfer cubin", version, hex};
    const std::string key = objectKey(fields);
    ObjectCache cache(options_.cache);
    if (std::optional<std::vector<char>> known = cache.find(key)) {
      job.cubin.bytes.assign(known->begin(), known->end());
      job.fromCache = true;
    } else {
      NINFER_ASSIGN_OR_RETURN(CompiledKernel compiled, nvrtc_.compile(text, sm_, failureFolder()));
      job.cubin.bytes = std::move(compiled.cubin);
    }
    if (!job.fromCache) {
      const auto *bytes = reinterpret_cast<const char *>(job.cubin.bytes.data());
      NINFER_RETURN_IF_ERROR(cache.store(key, {bytes, job.cubin.bytes.size()}));
    }
    // Also of what comes from the cache: a plan relies on these rules.
    NINFER_ASSIGN_OR_RETURN(const CubinFacts facts, readCubin(job.cubin.bytes));
    job.spills = std::any_of(facts.kernels.begin(), facts.kernels.end(), [](const CubinKernel &k) { return k.frameBytes > 0; });
    if (job.spills && !last_)
      return {}; // another record is tried
    NINFER_ASSIGN_OR_RETURN(const CubinKernel kernel, checkCubin(job.cubin.bytes, text, sm_));
    job.cubin.registers = kernel.registers;
    return {};
  }

  /// Where the source of a kernel that does not compile is kept.
  std::string failureFolder() const {
    if (!options_.dumpDir.empty())
      return options_.dumpDir;
    std::error_code ignored;
    return std::filesystem::temp_directory_path(ignored).string();
  }

  const Nvrtc &nvrtc_;
  uint32_t sm_;
  const CodegenOptions &options_;
  bool last_;
};

/// Records of all kernels, with the texts they and the packing of their weights need.
Result<std::map<std::string, KernelText>> specializeAll(ModuleOp module, const std::set<std::string> &spilled, CudaObject &out) {
  const uint32_t sm = out.device.sm;
  std::map<std::string, KernelText> texts;
  out.kernels.clear();
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    NINFER_ASSIGN_OR_RETURN(SpecializedKernel special, specialize(kernel, out.device, spilled));
    for (size_t i = 0; i < special.panels.size(); ++i)
      if (special.panels[i]) {
        const auto weight = cast<WeightType>(kernel.getBlock()->getArgument(i).getType());
        const KernelText pack = packKernel(static_cast<ni::Format>(weight.getFormat()), sm);
        out.pack.emplace(static_cast<ni::Format>(weight.getFormat()), pack.name);
        texts.emplace(pack.name, pack);
      }
    texts.emplace(special.text.name, special.text);
    out.kernels.push_back(std::move(special));
  }
  return texts;
}

} // namespace

size_t CudaObject::cubinOf(const std::string &name) const {
  const auto it = std::lower_bound(cubins.begin(), cubins.end(), name,
                                   [](const Cubin &cubin, const std::string &wanted) { return cubin.text.name < wanted; });
  return size_t(it - cubins.begin());
}

Result<CudaObject> compileKernels(ModuleOp module, const Device &device, const CodegenOptions &options) {
  CudaObject out;
  out.device = device;
  const uint32_t sm = device.sm;
  NINFER_ASSIGN_OR_RETURN(const Nvrtc nvrtc, Nvrtc::load());
  // Any driver of the same major version runs the machine code (CUDA Compatibility, "Minor Version Compatibility").
  out.minDriver = nvrtc.major() * 1000;
  if (!options.dumpDir.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(options.dumpDir, failed);
    if (failed)
      return makeError(ErrorKind::Failed, "NB0907",
                       options.dumpDir + ": cannot make the dump directory: " + failed.message());
  }
  std::map<std::string, Job> done;
  std::set<std::string> spilled;
  for (bool last : {false, true}) {
    NINFER_ASSIGN_OR_RETURN(const auto texts, specializeAll(module, spilled, out));
    std::vector<Job> jobs;
    for (const auto &[name, text] : texts)
      if (!done.contains(name))
        jobs.emplace_back().cubin.text = text;
    Compilation(nvrtc, sm, options, last).run(jobs);
    std::erase_if(done, [&, &known = texts](const auto &entry) { return !known.contains(entry.first); });
    for (Job &job : jobs) {
      NINFER_RETURN_IF_ERROR(std::move(job.status));
      if (job.spills)
        spilled.insert(job.cubin.text.name);
      else
        done.emplace(job.cubin.text.name, std::move(job));
    }
    if (spilled.empty())
      break;
  }
  for (auto &[name, job] : done) {
    out.cubins.push_back(std::move(job.cubin));
    out.cacheHits += job.fromCache;
  }
  return out;
}

} // namespace ninfer::cuda
