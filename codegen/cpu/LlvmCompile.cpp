#include "codegen/cpu/LlvmCompile.h"

#include "codegen/cpu/KernelBuilder.h"

#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace ninfer::cpu {

namespace {

const char *tripleOf(const CpuTarget &target) {
  return architectureOf(target.level) == CpuArchitecture::Aarch64 ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
}

Error codegenError(std::string message) {
  return makeError(ErrorKind::Failed, "NB0483", std::move(message));
}

/// Collects LLVM's errors; without a handler LLVM ends the process on the first one.
struct Diagnostics {
  std::string errors;

  static void handle(const llvm::DiagnosticInfo *info, void *self) {
    if (info->getSeverity() != llvm::DS_Error)
      return;
    std::string &errors = static_cast<Diagnostics *>(self)->errors;
    if (!errors.empty())
      errors += "; ";
    llvm::raw_string_ostream stream(errors);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info->print(printer);
  }
};

/// While one exists, an abort inside LLVM unwinds to the CrashRecoveryContext of its thread, and
/// fatal errors that LLVM would answer with exit() abort as well. Units on other threads go on.
class CrashGuard {
public:
  CrashGuard() {
    std::lock_guard<std::mutex> lock(mutex);
    if (users++ == 0) {
      llvm::CrashRecoveryContext::Enable();
      llvm::install_fatal_error_handler(onFatalError);
    }
    message.clear();
  }
  ~CrashGuard() {
    std::lock_guard<std::mutex> lock(mutex);
    if (--users == 0) {
      llvm::remove_fatal_error_handler();
      llvm::CrashRecoveryContext::Disable();
    }
  }
  const std::string &fatalError() const { return message; }

private:
  static void onFatalError(void *, const char *reason, bool) {
    message = reason;
    std::abort();
  }

  static std::mutex mutex;
  static int users;
  static thread_local std::string message;
};
std::mutex CrashGuard::mutex;
int CrashGuard::users = 0;
thread_local std::string CrashGuard::message;

Status linkBitcode(llvm::Module &module, std::string_view bitcode) {
  llvm::MemoryBufferRef buffer(llvm::StringRef(bitcode.data(), bitcode.size()), "micro-kernels");
  llvm::Expected<std::unique_ptr<llvm::Module>> library =
      llvm::getLazyBitcodeModule(buffer, module.getContext(), /*ShouldLazyLoadMetadata=*/true);
  if (!library)
    return codegenError("micro-kernel bitcode: " + llvm::toString(library.takeError()));
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  if (llvm::Linker::linkModules(module, std::move(*library), llvm::Linker::LinkOnlyNeeded))
    return codegenError("micro-kernel bitcode cannot be linked");
  return {};
}

void hideAndRetarget(llvm::Module &module, const CpuTarget &target,
                     const std::vector<std::string> &exported) {
  for (llvm::GlobalVariable &global : module.globals())
    if (!global.isDeclaration() && !global.hasAppendingLinkage() && !global.hasLocalLinkage()) {
      global.setLinkage(llvm::GlobalValue::InternalLinkage);
      global.setVisibility(llvm::GlobalValue::DefaultVisibility);
      global.setComdat(nullptr);
    }
  for (llvm::Function &function : module) {
    if (function.isIntrinsic())
      continue;
    if (isOutlined(function.getName())) { // defined in one object of the link, called from others, not exported
      function.setVisibility(llvm::GlobalValue::HiddenVisibility);
      function.setDSOLocal(true);
    } else if (!function.isDeclaration() && !function.hasLocalLinkage()) {
      function.setVisibility(llvm::GlobalValue::DefaultVisibility);
      function.setComdat(nullptr);
      if (std::find(exported.begin(), exported.end(), function.getName()) == exported.end())
        function.setLinkage(llvm::GlobalValue::InternalLinkage);
    }
    // The bitcode carries what its own compilation asked for; one module, one CPU.
    for (const char *name : {"target-cpu", "target-features", "tune-cpu", "prefer-vector-width"})
      function.removeFnAttr(name);
    function.addFnAttr("target-cpu", target.llvmCpu);
    if (!target.llvmFeatures.empty())
      function.addFnAttr("target-features", target.llvmFeatures);
    if (!target.llvmTune.empty())
      function.addFnAttr("tune-cpu", target.llvmTune);
    function.addFnAttr("prefer-vector-width", std::to_string(target.vectorWidth));
    // A copy loop must not turn into a call of memcpy: there is no C library beside the kernels.
    function.addFnAttr("no-builtins");
    function.removeFnAttr(llvm::Attribute::UWTable);
    function.setDoesNotThrow();
  }
}

void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  // SLP is off in a default PipelineTuningOptions; without it the scale handling of four rows is
  // scalar.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = true;
  tuning.LoopInterleaving = tuning.LoopUnrolling = true;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

Status checkNothingUndefined(const llvm::Module &module) {
  std::string names;
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty() && !isOutlined(function.getName()))
      names += (names.empty() ? "" : ", ") + function.getName().str();
  if (names.empty())
    return {};
  return codegenError("the code calls " + names + ", which no micro-kernel defines");
}

Status compileUnguarded(llvm::Module &module, const CpuTarget &target, std::string_view bitcode,
                        const std::vector<std::string> &exported, std::string *optimised,
                        std::vector<char> &object) {
  NINFER_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, makeTargetMachine(target));
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  if (!bitcode.empty())
    NINFER_RETURN_IF_ERROR(linkBitcode(module, bitcode));
  llvm::StripDebugInfo(module);
  hideAndRetarget(module, target, exported);
  std::string broken;
  llvm::raw_string_ostream brokenStream(broken);
  if (llvm::verifyModule(module, &brokenStream))
    return codegenError("invalid LLVM IR: " + broken);
  NINFER_RETURN_IF_ERROR(checkNothingUndefined(module));

  optimise(module, *machine);
  if (optimised) {
    llvm::raw_string_ostream stream(*optimised);
    module.print(stream, nullptr);
  }

  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager emitter;
  if (machine->addPassesToEmitFile(emitter, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return codegenError("LLVM cannot emit objects for " + target.llvmCpu);
  emitter.run(module);
  object.assign(bytes.begin(), bytes.end());
  return {};
}

} // namespace

void initialiseBackends() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

Result<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const CpuTarget &target) {
  initialiseBackends();
  const char *tripleName = tripleOf(target);
  std::string message;
  llvm::Triple triple(tripleName);
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!backend)
    return codegenError("LLVM has no backend for " + std::string(tripleName) + ": " + message);
  llvm::TargetOptions options;
  options.FunctionSections = true;
  options.DataSections = true;
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, target.llvmCpu, target.llvmFeatures, options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
  // An unknown name would otherwise abort much later with "64-bit code requested on a subtarget
  // ...".
  if (!machine || !machine->getMCSubtargetInfo()->isCPUStringValid(target.llvmCpu))
    return codegenError("LLVM does not know the cpu '" + target.llvmCpu + "'");
  return machine;
}

Result<std::vector<char>> compileModule(LlvmUnit &unit, const CpuTarget &target,
                                        std::string_view bitcode,
                                        const std::vector<std::string> &exported,
                                        std::string *optimised) {
  Diagnostics diagnostics;
  unit.context->setDiagnosticHandlerCallBack(Diagnostics::handle, &diagnostics);
  std::vector<char> object;
  Status status;
  CrashGuard crashes;
  llvm::CrashRecoveryContext guard;
  bool finished = guard.RunSafely([&] {
    status = compileUnguarded(*unit.module, target, bitcode, exported, optimised, object);
  });
  if (!finished) {
    // Destructors of a module that a pass left half-changed are not safe to run.
    (void)unit.module.release();
    (void)unit.context.release();
    std::string why = crashes.fatalError().empty() ? "it crashed" : crashes.fatalError();
    return codegenError("LLVM gave up on code for " + target.name + ": " + why);
  }
  unit.context->setDiagnosticHandlerCallBack(nullptr);
  if (status.ok() && !diagnostics.errors.empty())
    return codegenError(diagnostics.errors);
  if (!status.ok())
    return diagnostics.errors.empty() ? std::move(status)
                                      : std::move(status.note(diagnostics.errors));
  return object;
}

} // namespace ninfer::cpu
