// Kernels of a module -> one shared object. MLIR work is done here, one kernel after the other;
// LLVM work on units with a context each may run on several threads, and its results are taken in
// kernel order.
#include "codegen/cpu/CpuCodegen.h"

#include "codegen/common/ObjectCache.h"
#include "codegen/cpu/ElfLink.h"
#include "codegen/cpu/KernelLowering.h"
#include "codegen/cpu/LlvmCompile.h"
#include "codegen/cpu/LlvmTranslate.h"
#include "codegen/cpu/kernels/Bitcode.h"
#include "support/File.h"
#include "support/Sha256.h"

#include "mlir/IR/Diagnostics.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <thread>

using namespace mlir;

namespace ninfer {

namespace {

/// LLVM and pipeline version, target, micro-kernel bitcode, LLVM IR of the kernel.
std::string keyOf(std::string_view ir, const CpuTarget &target, std::string_view bitcodeDigest) {
  const std::string pipeline = std::to_string(cpu::kPipelineVersion), width = std::to_string(target.vectorWidth);
  const std::string_view fields[] = {"ninfer cpu object", LLVM_VERSION_STRING, pipeline,      target.llvmCpu, target.llvmFeatures,
                                     target.llvmTune,     width,               bitcodeDigest, ir};
  return objectKey(fields);
}

struct Job {
  CpuKernel kernel;
  cpu::LlvmUnit unit;
  cpu::KernelBuilder::Outlined outlined; ///< what it calls
  std::string ir;
  std::vector<char> object;
  bool fromCache = false;
  Status status;
};

std::string printed(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream);
  return text;
}

/// Writes one debugging aid; does nothing without a directory.
Status dump(const CpuCodegenOptions &options, const std::string &fileName, std::string_view text) {
  if (options.dumpDir.empty())
    return {};
  std::error_code failed;
  std::filesystem::create_directories(options.dumpDir, failed);
  if (failed)
    return makeError(ErrorKind::Failed, "NB0907",
                     options.dumpDir + ": cannot make the dump directory: " + failed.message());
  return writeFileAtomically(options.dumpDir + "/" + fileName, std::as_bytes(std::span(text)));
}

/// Puts the kernel before the message and says where to look.
Status ofKernel(const std::string &name, const CpuCodegenOptions &options, Status status) {
  if (status.ok())
    return status;
  Error error = status.takeError();
  error.message = "kernel " + name + ": " + error.message;
  if (error.code == "NB0483")
    error.help.push_back(options.dumpDir.empty()
                             ? "build again with a dump directory to keep the code of the kernel"
                             : "the code of the kernel is in " + options.dumpDir);
  return error;
}

CpuTuning tuningOf(KernelOp kernel, const CpuCodegenOptions &options) {
  const auto it = options.tuning.find(kernel.getSymName().str());
  return it == options.tuning.end() ? CpuTuning() : it->second;
}

/// ninfer.kernel -> LLVM IR in a context of its own.
Status prepare(KernelOp kernel, const CpuCodegenOptions &options, Job &job) {
  std::string messages;
  ScopedDiagnosticHandler handler(kernel.getContext(), [&messages](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    messages += (messages.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  auto failed = [&messages](const char *code, const char *what) {
    ErrorKind kind =
        std::string_view(code) == "NB0482" ? ErrorKind::Unsupported : ErrorKind::Failed;
    return makeError(kind, code, messages.empty() ? what : messages);
  };

  job.kernel.name = kernel.getSymName().str();
  job.kernel.symbol = cpu::kernelSymbol(kernel);
  std::string text = printed(kernel) + "\n";
  NINFER_RETURN_IF_ERROR(dump(options, job.kernel.symbol + ".mlir", text));
  FailureOr<cpu::LoweredKernel> lowered = cpu::lowerKernel(kernel, tuningOf(kernel, options));
  if (mlir::failed(lowered))
    return failed("NB0482", "not implemented");
  job.kernel.scratchBytes = lowered->scratchBytes;
  job.outlined = std::move(lowered->outlined);
  NINFER_RETURN_IF_ERROR(
      dump(options, job.kernel.symbol + ".mlir", text + printed(*lowered->module)));
  if (mlir::failed(cpu::lowerToLlvmDialect(*lowered->module)))
    return failed("NB0483", "lowering to the llvm dialect failed");
  job.unit.module = cpu::translateToLlvm(*lowered->module, *job.unit.context, job.kernel.symbol);
  if (!job.unit.module)
    return failed("NB0483", "translation to LLVM IR failed");
  llvm::raw_string_ostream stream(job.ir);
  job.unit.module->print(stream, nullptr);
  return dump(options, job.kernel.symbol + ".ll", job.ir);
}

/// The code of one outlined micro-kernel.
Status prepareOutlined(MLIRContext *context, const std::string &microKernel, LLVM::LLVMFunctionType type,
                       const CpuCodegenOptions &options, Job &job) {
  job.kernel.name = job.kernel.symbol = cpu::outlinedSymbol(microKernel);
  OwningOpRef<ModuleOp> module = cpu::outlinedModule(context, microKernel, type);
  job.unit.module = cpu::translateToLlvm(*module, *job.unit.context, job.kernel.symbol);
  if (!job.unit.module)
    return makeError(ErrorKind::Failed, "NB0483", "translation to LLVM IR failed");
  llvm::raw_string_ostream stream(job.ir);
  job.unit.module->print(stream, nullptr);
  return dump(options, job.kernel.symbol + ".ll", job.ir);
}

/// LLVM IR -> object, or the object of an earlier build.
Status finish(Job &job, const CpuTarget &target, const CpuCodegenOptions &options,
              std::string_view bitcode, const std::string &bitcodeDigest) {
  ObjectCache cache(options.cache);
  std::string key = keyOf(job.ir, target, bitcodeDigest);
  if (options.dumpDir.empty()) // dumps want the optimised code
    if (std::optional<std::vector<char>> object = cache.find(key)) {
      job.object = std::move(*object);
      job.fromCache = true;
      return {};
    }
  std::string optimised;
  Result<std::vector<char>> object =
      cpu::compileModule(job.unit, target, bitcode, {job.kernel.symbol},
                         options.dumpDir.empty() ? nullptr : &optimised);
  if (!optimised.empty())
    NINFER_RETURN_IF_ERROR(dump(options, job.kernel.symbol + ".opt.ll", optimised));
  if (!object.ok())
    return object.takeStatus();
  job.object = object.take();
  return cache.store(key, job.object);
}

void finishAll(std::vector<Job> &jobs, const CpuTarget &target, const CpuCodegenOptions &options,
               std::string_view bitcode, const std::string &bitcodeDigest) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> stop = false;
  size_t done = 0;
  std::mutex progress;
  auto work = [&] {
    for (size_t index; !stop && (index = next++) < jobs.size();) {
      Job &job = jobs[index];
      job.status = finish(job, target, options, bitcode, bitcodeDigest);
      job.unit.module.reset();
      if (!job.status.ok())
        stop = true;
      std::lock_guard<std::mutex> lock(progress);
      ++done;
      if (options.progress)
        options.progress(done, jobs.size(), job.kernel.name);
    }
  };
  size_t extra = std::min<size_t>(std::max(options.threads, 1u), jobs.size()) - 1;
  std::vector<std::thread> team;
  for (size_t i = 0; i < extra; ++i)
    team.emplace_back(work);
  work();
  for (std::thread &thread : team)
    thread.join();
}

} // namespace

Result<CpuObject> compileKernels(ModuleOp module, const CpuTarget &target,
                                 const CpuCodegenOptions &options) {
  cpu::loadLoweringDialects(*module.getContext());
  std::string_view bitcode = microKernelBitcode(target.level);
  Sha256Digest digest = sha256(bitcode);

  std::vector<Job> jobs;
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    Job &job = jobs.emplace_back();
    NINFER_RETURN_IF_ERROR(
        ofKernel(kernel.getSymName().str(), options, prepare(kernel, options, job)));
    for (const Job &other : jobs)
      if (&other != &job && other.kernel.symbol == job.kernel.symbol)
        return makeError(ErrorKind::Failed, "NB0483",
                         "kernels " + other.kernel.name + " and " + job.kernel.name +
                             " have the same ELF symbol " + job.kernel.symbol);
  }
  CpuObject out;
  if (jobs.empty())
    return out;

  // Outlined micro-kernels first, by name: they are the largest.
  cpu::KernelBuilder::Outlined outlined;
  for (const Job &job : jobs)
    outlined.insert(job.outlined.begin(), job.outlined.end());
  std::vector<Job> kernels = std::move(jobs);
  jobs = std::vector<Job>(outlined.size());
  for (size_t i = 0; const auto &[microKernel, type] : outlined) {
    Job &job = jobs[i++];
    NINFER_RETURN_IF_ERROR(ofKernel(microKernel, options,
                                    prepareOutlined(module.getContext(), microKernel, type, options, job)));
  }
  std::move(kernels.begin(), kernels.end(), std::back_inserter(jobs));

  finishAll(jobs, target, options, bitcode, toHex(digest));
  std::vector<std::vector<char>> objects;
  std::vector<std::string> symbols;
  for (Job &job : jobs) {
    NINFER_RETURN_IF_ERROR(ofKernel(job.kernel.name, options, std::move(job.status)));
    objects.push_back(std::move(job.object));
    out.cacheHits += job.fromCache;
    if (cpu::isOutlined(job.kernel.symbol))
      continue;
    symbols.push_back(job.kernel.symbol);
    out.kernels.push_back(std::move(job.kernel));
  }
  NINFER_ASSIGN_OR_RETURN(out.elf, cpu::linkSharedObject(objects, architectureOf(target.level)));
  NINFER_RETURN_IF_ERROR(cpu::checkSharedObject(out.elf, symbols, architectureOf(target.level)));
  NINFER_RETURN_IF_ERROR(
      dump(options, "kernels.so", std::string_view(out.elf.data(), out.elf.size())));
  return out;
}

} // namespace ninfer
