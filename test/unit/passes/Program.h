// A parsed module and the pipelines run on it.
#ifndef NINFER_TEST_UNIT_PASSES_PROGRAM_H
#define NINFER_TEST_UNIT_PASSES_PROGRAM_H

#include "dialects/ninfer/NinferDialect.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace ninfer::test {

class Program {
public:
  explicit Program(const std::string &text) {
    context.loadDialect<NinferDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }

  bool run(llvm::function_ref<void(mlir::OpPassManager &)> build) {
    mlir::PassManager pm(&context);
    build(pm);
    return module && mlir::succeeded(pm.run(*module));
  }
  bool plan(const std::string &target) {
    return run([&](mlir::OpPassManager &pm) { buildPlanPipeline(pm, {.target = target}); });
  }

  std::string text() {
    std::string out;
    llvm::raw_string_ostream os(out);
    module->print(os, mlir::OpPrintingFlags().enableDebugInfo());
    return out;
  }

  std::vector<std::string> kernelNames() {
    std::vector<std::string> names;
    for (auto kernel : module->getOps<KernelOp>())
      names.push_back(kernel.getSymName().str());
    return names;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_PASSES_PROGRAM_H
