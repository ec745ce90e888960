// Constructors, options and registration of the ninfer passes, generated from Passes.td.
#ifndef NINFER_PASSES_PASSES_H
#define NINFER_PASSES_PASSES_H

#include "mlir/Pass/Pass.h"

#include <memory>
#include <string>

namespace ninfer {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

} // namespace ninfer

#endif // NINFER_PASSES_PASSES_H
