// From an operation to the signature that admission tests (codegen/common/Signature.h).
#ifndef NINFER_PASSES_SIGNATUREOFOP_H
#define NINFER_PASSES_SIGNATUREOFOP_H

#include "passes/IRUtil.h"

namespace ninfer {

/// Signature of an operation that becomes a kernel. A fused group of another shape than its kind
/// promises is an error on the operation.
mlir::FailureOr<KernelSignature> signatureOf(mlir::Operation *op, const PhaseInfo &phase);

} // namespace ninfer

#endif // NINFER_PASSES_SIGNATUREOFOP_H
