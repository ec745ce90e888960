#include "codegen/cpu/KernelLowering.h"
#include "codegen/cpu/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace ninfer {

#define GEN_PASS_DEF_LOWERKERNELSTOCPUPASS
#define GEN_PASS_REGISTRATION
#include "codegen/cpu/Passes.h.inc"

namespace {

struct LowerKernelsToCpuPass : impl::LowerKernelsToCpuPassBase<LowerKernelsToCpuPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<Operation *> lowered;
    for (KernelOp kernel : module.getOps<KernelOp>()) {
      FailureOr<cpu::LoweredKernel> code = cpu::lowerKernel(kernel);
      if (failed(code)) {
        for (Operation *op : lowered)
          op->erase();
        return signalPassFailure();
      }
      ModuleOp made = code->module.release();
      made.setSymName(cpu::kernelSymbol(kernel));
      made->setAttr("ninfer.scratch_bytes",
                    Builder(&getContext()).getI64IntegerAttr(int64_t(code->scratchBytes)));
      lowered.push_back(made);
    }
    Block &body = *module.getBody();
    while (!body.empty())
      body.back().erase();
    for (Operation *op : lowered)
      body.push_back(op);
  }
};

} // namespace

void registerCpuCodegenPasses() { registerNinferCpuPasses(); }

} // namespace ninfer
