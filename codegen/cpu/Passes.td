// The one pass of the CPU code generator: its lowering, for reading and for tests.
#ifndef NINFER_CODEGEN_CPU_PASSES_TD
#define NINFER_CODEGEN_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerKernelsToCpuPass : Pass<"ninfer-lower-kernels-to-cpu", "::mlir::ModuleOp"> {
  let summary = "Show the code of every kernel as calls of micro-kernels";
  let description = [{
    Precondition: a module of `ninfer.kernel` symbols, as ninfer-outline-kernels leaves them for a cpu target.

    Postcondition: the module holds, instead of what it held, one module per kernel in the same order, named after the
    kernel's ELF symbol, with the scratch bytes of one thread as `ninfer.scratch_bytes`. It has one exported `llvm.func`
    with the ABI of runtime/abi/kernel_abi.h, made of `arith`, `scf` and `llvm` operations. ninfer-build goes on from
    the same code to LLVM IR; this pass is not part of its pipeline.

    ```mlir
    ninfer.kernel @add_k576_r1(%a: tensor<1x576xf32>, %b: tensor<1x576xf32>) attributes {family = "add", ...} { ... }
    // out
    module @add_k576_r1 attributes {ninfer.scratch_bytes = 0 : i64} {
      llvm.func @ni_add(!llvm.ptr, !llvm.ptr, i64, !llvm.ptr)
      llvm.func @add_k576_r1(%args: !llvm.ptr, %scalars: !llvm.ptr, %begin: i64, %end: i64, %scratch: !llvm.ptr) { ... }
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::mlir::LLVM::LLVMDialect"];
}

#endif // NINFER_CODEGEN_CPU_PASSES_TD
