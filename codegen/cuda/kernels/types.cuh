// Integer types and the numeric formats as kernels see them. Nothing else: this file, spec files and panel.cuh
// compile with NVRTC, with the host compiler inside a kernel, and inside the compiler that plans launches.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_TYPES_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_TYPES_CUH

namespace ni {

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;

/// Numbers of artifact/formats/Registry.gen.h; codegen/cuda/KernelText.cpp asserts that they agree.
enum class Format : u32 { Bf16 = 0, Fp32 = 1, I32 = 2, Q4 = 3, Q5 = 4, Q6 = 5, W8 = 6, Nvfp4 = 7, Fp8 = 8 };

/// What the tensor cores multiply. Bf16: from sm_80 on. F16: sm_75, which has no other; half_operand.cuh says how bfloat16
/// numbers get there.
enum class Operands : u32 { Bf16, F16 };

constexpr u32 divideUp(u32 value, u32 by) { return (value + by - 1) / by; }
constexpr u32 roundUp(u32 value, u32 to) { return divideUp(value, to) * to; }
constexpr u64 roundUp(u64 value, u64 to) { return (value + to - 1) / to * to; }
constexpr u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
constexpr u32 larger(u32 a, u32 b) { return a < b ? b : a; }

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_TYPES_CUH
