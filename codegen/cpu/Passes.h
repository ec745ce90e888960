// Registration of the CPU code generator's pass, for ninfer-opt.
#ifndef NINFER_CODEGEN_CPU_PASSES_H
#define NINFER_CODEGEN_CPU_PASSES_H

namespace ninfer {

/// Registers `ninfer-lower-kernels-to-cpu`.
void registerCpuCodegenPasses();

} // namespace ninfer

#endif // NINFER_CODEGEN_CPU_PASSES_H
