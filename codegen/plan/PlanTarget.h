// One target section of a plan. Internal to codegen/plan.
#ifndef NINFER_CODEGEN_PLAN_PLANTARGET_H
#define NINFER_CODEGEN_PLAN_PLANTARGET_H

#include "codegen/plan/PlanBuilder.h"
#include "dialects/ninfer/NinferDialect.h"
#include "schema/Build.h"

namespace ninfer {

/// NB0530: the module lacks what an earlier step should have put there.
Error planError(const std::string &target, std::string text);

/// The target's tables. `blob` is the index its ELF kernels refer to.
Result<std::unique_ptr<plan::TargetT>> buildTarget(const PlanTargetInput &input, uint32_t blob);

/// A built-in kernel of the reference target for `kernel`, whose body is one operation.
Result<std::unique_ptr<plan::KernelT>> builtinKernel(KernelOp kernel, const std::string &target);
/// The operation of such a body. Launch arguments of a built-in follow its operands.
mlir::Operation *builtinBody(KernelOp kernel);

/// The setup kernel that fills one rope table; `name` must be unique in the target.
Result<std::unique_ptr<plan::KernelT>> ropeTableKernel(StateOp state, std::string name,
                                                       const std::string &target);

} // namespace ninfer

#endif // NINFER_CODEGEN_PLAN_PLANTARGET_H
