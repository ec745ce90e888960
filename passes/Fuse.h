// The fusions of ninfer-fuse, one file each. They work on the one block of a function with a phase.
#ifndef NINFER_PASSES_FUSE_H
#define NINFER_PASSES_FUSE_H

#include "codegen/common/Families.h"
#include "passes/IRUtil.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace ninfer {

/// What kernels take for a number of rows.
using LimitsOfRows = llvm::function_ref<FusionLimits(int64_t)>;

/// Makes the linear groups of the block that the limits allow; the number of groups made. `maxRows` is
/// the dynamic number of rows at most. (FuseLinear.cpp)
int64_t fuseLinears(mlir::Block &block, int64_t maxRows, LimitsOfRows limits);

/// Makes the rope_append groups of the block; the number of groups made. (FuseRopeAppend.cpp)
int64_t fuseRopeAppends(mlir::Block &block);

/// Collects operations into one ninfer.fused: `ops` in their order become its body, `results` its
/// results, which replace their uses outside. Operands are listed in `inputs` (no duplicates);
/// everything `ops` use must be there or be a result of one of them. The operations in `keep` are
/// copied, the others move and give the group its location. (Fuse.cpp)
FusedOp makeFused(llvm::StringRef kind, mlir::Operation *before,
                  llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<mlir::Operation *> keep,
                  llvm::ArrayRef<mlir::Value> inputs, llvm::ArrayRef<mlir::Value> results);

} // namespace ninfer

#endif // NINFER_PASSES_FUSE_H
