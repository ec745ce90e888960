// The ninfer dialect: types, attributes, interfaces and operations. Include this one header.
// Semantics of every operation: docs/dialect/spec.md; generated reference: docs/dialect/ninfer.md.
#ifndef NINFER_DIALECTS_NINFER_NINFERDIALECT_H
#define NINFER_DIALECTS_NINFER_NINFERDIALECT_H

#include "artifact/formats/Format.h"
#include "dialects/ninfer/RegistryNames.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/ninfer/NinferDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/ninfer/NinferAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/ninfer/NinferTypes.h.inc"

namespace ninfer {
class YieldOp;

/// Most bytes of one weight, cache or table, and last byte of an object: within it, sizes, offsets
/// and element counts of every format are exact in int64_t.
inline constexpr int64_t kMaxBytes = int64_t(1) << 62;

/// Bytes of a state, by its type.
int64_t stateBytes(mlir::Type type);

/// Bytes an operation reads and writes at `rows` rows; defaults of NinferCostOpInterface.
int64_t bytesReadBy(mlir::Operation *op, int64_t rows);
int64_t bytesWrittenBy(mlir::Operation *op, int64_t rows);
} // namespace ninfer

#include "dialects/ninfer/NinferInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/ninfer/NinferOps.h.inc"

#endif // NINFER_DIALECTS_NINFER_NINFERDIALECT_H
