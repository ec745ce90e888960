// The micro-kernels as LLVM bitcode, one module per CPU level, embedded in the binary.
#ifndef NINFER_CODEGEN_CPU_KERNELS_BITCODE_H
#define NINFER_CODEGEN_CPU_KERNELS_BITCODE_H

#include <cstdint>
#include <string_view>

namespace ninfer {

enum class CpuLevel : uint8_t; // codegen/cpu/CpuCodegen.h: 0 = v3, 1 = v4, 2 = v4vnni, 3 = aarch64

/// Bitcode that defines every symbol of MicroKernels.h for `level`, and nothing else with external linkage;
/// it declares nothing but LLVM intrinsics. 16-byte aligned; lives as long as the program.
std::string_view microKernelBitcode(CpuLevel level);

} // namespace ninfer

#endif // NINFER_CODEGEN_CPU_KERNELS_BITCODE_H
