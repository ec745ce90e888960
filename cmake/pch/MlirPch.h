// Pre-compiled headers of every MLIR target: the core that each of them includes anyway. Dialects stay out,
// so that a file pays only for those it names. A file must still include what it uses.
#ifndef NINFER_CMAKE_PCH_MLIRPCH_H
#define NINFER_CMAKE_PCH_MLIRPCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>
#include <string>
#include <vector>

#endif // NINFER_CMAKE_PCH_MLIRPCH_H
