// Interfaces of the ninfer operations.
#ifndef NINFER_DIALECTS_NINFER_NINFERINTERFACES_TD
#define NINFER_DIALECTS_NINFER_NINFERINTERFACES_TD

include "mlir/IR/OpBase.td"

def NinferCostOpInterface : OpInterface<"NinferCostOpInterface"> {
  let cppNamespace = "::ninfer";
  let description = [{
    What one execution of an operation moves and computes, from shapes alone. `rows` replaces a dynamic
    row count; a static one wins over it. Caches count at full capacity, so the figure is an upper bound.
  }];
  let methods = [
    InterfaceMethod<"Bytes read: encoded weights, activations, states.",
      "int64_t", "bytesRead", (ins "int64_t":$rows), "", "return ::ninfer::bytesReadBy($_op, rows);">,
    InterfaceMethod<"Bytes written: results and states.",
      "int64_t", "bytesWritten", (ins "int64_t":$rows), "", "return ::ninfer::bytesWrittenBy($_op, rows);">,
    InterfaceMethod<"Additions and multiplications; a multiply-add counts two.",
      "int64_t", "flops", (ins "int64_t":$rows)>
  ];
}

#endif // NINFER_DIALECTS_NINFER_NINFERINTERFACES_TD
