// ninfer-opt: reads IR, runs the named passes, prints IR. The tool of the lit suite and of passes'
// authors.
#ifdef NINFER_HAVE_CPU_CODEGEN
#include "codegen/cpu/Passes.h"
#endif
#include "dialects/ninfer/NinferDialect.h"
#ifdef NINFER_HAVE_PASSES
#include "passes/Pipelines.h"
#endif

#include "mlir/InitAllDialects.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  registry.insert<ninfer::NinferDialect>();
  mlir::registerTransformsPasses(); // canonicalize, cse, symbol-dce, ...
#ifdef NINFER_HAVE_PASSES
  ninfer::registerNinferPasses();
#endif
#ifdef NINFER_HAVE_CPU_CODEGEN
  ninfer::registerCpuCodegenPasses();
#endif
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "ninfer IR driver\n", registry));
}
