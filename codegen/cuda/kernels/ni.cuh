// The whole instruction set of the kernels: thin wrappers over PTX and built-ins, no CUDA or std headers. This file is
// the device half; on the host the same names come from ni_host.h (test/emulator), so that a kernel is one text for
// NVRTC and for the emulator. Rules for kernel sources: docs/cuda.md, section "Kernel sources".
#ifndef NINFER_CODEGEN_CUDA_KERNELS_NI_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_NI_CUH

#include "types.cuh"

namespace ni {
/// 8 and 16 bytes that one instruction moves.
struct alignas(8) Words2 {
  u32 x, y;
};
struct alignas(16) Words4 {
  u32 x, y, z, w;
};
} // namespace ni

#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)

#define NI_FN static __device__ __forceinline__
#define NI_MEMBER __device__ __forceinline__
#define NI_UNROLL _Pragma("unroll")
#define NI_NO_UNROLL _Pragma("unroll 1")
/// `NI_KERNEL(name, threads, blocks)(parameters) { ... }`: at most `threads` per block, at least `blocks` per SM.
#define NI_KERNEL(name, threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks) name
#define NI_EXPORT(name)
/// Declares `pointer` to the block's shared memory, seen as one struct of type T.
#define NI_SHARED(T, pointer)                                                                                          \
  NI_SHARED_UPTO(T, pointer, sizeof(T))
/// The same when the launch gives only the first `bytes` of T.
#define NI_SHARED_UPTO(T, pointer, bytes)                                                                              \
  extern __shared__ __align__(128) unsigned char niSharedBytes[];                                                      \
  T *pointer = reinterpret_cast<T *>(niSharedBytes)

namespace ni {

// --- who am I -------------------------------------------------------------------------------------------------------
NI_FN u32 threadIndex() { return threadIdx.x; }
NI_FN u32 laneIndex() { return threadIdx.x & 31u; }
NI_FN u32 warpIndex() { return threadIdx.x >> 5; }
NI_FN u32 blockX() { return blockIdx.x; }
NI_FN u32 blockY() { return blockIdx.y; }
NI_FN u32 blockZ() { return blockIdx.z; }
NI_FN u32 gridX() { return gridDim.x; }

// --- order ----------------------------------------------------------------------------------------------------------
NI_FN void blockSync() { __syncthreads(); }
NI_FN void warpSync() { __syncwarp(); }
NI_FN void gpuFence() { __threadfence(); }
/// Adds 1 and returns the old value; acquire and release at GPU scope.
NI_FN u32 atomicIncrement(u32 *p) {
  u32 old;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(old) : "l"(p) : "memory");
  return old;
}

// --- warp exchange --------------------------------------------------------------------------------------------------
NI_FN u32 shuffleXor(u32 v, u32 mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
NI_FN float shuffleXor(float v, u32 mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
NI_FN float shuffle(float v, u32 lane) { return __shfl_sync(0xffffffffu, v, lane); }
NI_FN u32 shuffle(u32 v, u32 lane) { return __shfl_sync(0xffffffffu, v, lane); }
/// A value that is the same in all lanes, in a way the compiler sees: branches on it need no convergence code.
NI_FN u32 uniform(u32 v) { return __shfl_sync(0xffffffffu, v, 0); }

// --- memory ---------------------------------------------------------------------------------------------------------
/// Global memory, aligned to sizeof(T). T: u8, i8, u16, u32, i32, float, Words2, Words4.
template <typename T>
NI_FN T load(const T *p) {
  return *p;
}
template <typename T>
NI_FN void store(T *p, T v) {
  *p = v;
}
/// 16 or 8 bytes that nobody writes during the launch and that are read once: not kept in L1.
NI_FN Words4 loadStream(const Words4 *p) {
  Words4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
NI_FN Words2 loadStream(const Words2 *p) {
  Words2 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}
NI_FN u32 loadStream(const u32 *p) {
  u32 v;
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
/// Shared memory of the block.
template <typename T>
NI_FN T sharedLoad(const T *p) {
  return *p;
}
template <typename T>
NI_FN void sharedStore(T *p, T v) {
  *p = v;
}
NI_FN u32 sharedAddress(const void *p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// --- bits and numbers -----------------------------------------------------------------------------------------------
NI_FN float asFloat(u32 u) { return __uint_as_float(u); }
NI_FN u32 asBits(float f) { return __float_as_uint(f); }
/// Bitwise function of three words; bit (4a + 2b + c) of Table is its value.
template <u32 Table>
NI_FN u32 bitwise(u32 a, u32 b, u32 c) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"(Table));
  return r;
}
NI_FN float f16ToFloat(u32 word) {
  float f;
  asm("{ .reg .b16 h; cvt.u16.u32 h, %1; cvt.f32.f16 %0, h; }" : "=f"(f) : "r"(word));
  return f;
}
/// binary32 -> binary16 word, to nearest even.
NI_FN u32 floatToF16(float f) {
  u32 r;
  asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h; }" : "=r"(r) : "f"(f));
  return r;
}
/// Two binary32 -> two binary16 in one word, `low` in bits 0..15.
NI_FN u32 packF16(float low, float high) {
  u32 r;
  asm("{ .reg .b16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; mov.b32 %0, {a, b}; }" : "=r"(r) : "f"(low), "f"(high));
  return r;
}
/// Two binary32 -> two bfloat16 in one word, `low` in bits 0..15, to nearest even.
NI_FN u32 packBf16(float low, float high) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  u32 a = asBits(low), b = asBits(high);
  a = low != low ? 0x7fff0000u : a + 0x7fffu + ((a >> 16) & 1u);
  b = high != high ? 0x7fff0000u : b + 0x7fffu + ((b >> 16) & 1u);
  return (a >> 16) | (b & 0xffff0000u);
#endif
}
NI_FN float fusedMultiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
NI_FN float divide(float a, float b) { return __fdiv_rn(a, b); }
NI_FN float maximum(float a, float b) { return fmaxf(a, b); }
NI_FN float magnitude(float a) { return fabsf(a); }
NI_FN float roundToEven(float a) { return rintf(a); }
// Approximate functions: relative error below 2^-21 (PTX ISA: ex2 2^-22, rcp 1 ulp, rsqrt 2^-22.4, subnormal results 0).
NI_FN float exp2Approx(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
/// Absolute error below 2^-22 between 1/2 and 2, relative elsewhere.
NI_FN float log2Approx(float x) {
  float r;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
NI_FN float reciprocalApprox(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
NI_FN float rootReciprocalApprox(float x) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

// --- tensor cores and asynchronous copies ---------------------------------------------------------------------------
/// a * b + c on each of two bfloat16, rounded once.
NI_FN u32 fmaBf16x2(u32 a, u32 b, u32 c) {
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
/// a * b + c on each of two binary16, rounded once.
NI_FN u32 fmaF16x2(u32 a, u32 b, u32 c) {
  u32 r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
/// d += A * B with A 16x16 (row), B 16x8 (column) of bfloat16. With lane = 4 g + t, pairs along k from k0 = 2 t:
/// a[0] row g, a[1] row g + 8, a[2] row g at k0 + 8, a[3] row g + 8 at k0 + 8; b0 column g, b1 column g at k0 + 8;
/// d[0], d[1] row g, columns 2 t, 2 t + 1; d[2], d[3] row g + 8.
NI_FN void mmaBf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// d = A * B: the first step of a sum, without registers of zeros.
NI_FN void mmaBf16Set(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%10, %10, %10, %10};"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}
/// d += A * B with A 16x8, B 8x8 of binary16: the first half of the k of mmaBf16, in a[0], a[1] and b0, and with a[2], a[3]
/// and b1 the second.
NI_FN void mmaF16(float (&d)[4], u32 a0, u32 a1, u32 b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(b));
}
NI_FN void mmaF16Set(float (&d)[4], u32 a0, u32 a1, u32 b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
               : "r"(a0), "r"(a1), "r"(b), "f"(0.0f));
}
/// Four 8x8 matrices of 16-bit words; lane 8 m + i gives the address of row i of matrix m. Lane 4 g + t receives words
/// 2 t, 2 t + 1 of row g of matrix m in r[m]; transposed: words g of rows 2 t, 2 t + 1.
NI_FN void loadMatrix(u32 (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(sharedAddress(row))
               : "memory");
}
NI_FN void loadMatrixTransposed(u32 (&r)[4], const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(sharedAddress(row))
               : "memory");
}
/// Copies 16 bytes from global to shared memory; zeros when `valid` is false (then `global` is not read). Before sm_80 the
/// copy goes through registers and has arrived when the call returns; what a kernel may rely on is the wait.
#if __CUDA_ARCH__ >= 800
NI_FN void copyAsync(void *shared, const void *global, bool valid = true) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(sharedAddress(shared)), "l"(global),
               "r"(valid ? 16u : 0u)
               : "memory");
}
NI_FN void copyAsyncCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most Pending of this thread's newest groups are unfinished.
template <u32 Pending>
NI_FN void copyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
#else
NI_FN void copyAsync(void *shared, const void *global, bool valid = true) {
  Words4 v = {0, 0, 0, 0};
  if (valid)
    v = load(static_cast<const Words4 *>(global));
  sharedStore(static_cast<Words4 *>(shared), v);
}
NI_FN void copyAsyncCommit() {}
template <u32 Pending>
NI_FN void copyAsyncWait() {}
#endif

} // namespace ni

#else
#include "ni_host.h"
#endif

namespace ni {

NI_FN float bf16Low(u32 pair) { return asFloat(pair << 16); }
NI_FN float bf16High(u32 pair) { return asFloat(pair & 0xffff0000u); }
NI_FN float bf16ToFloat(u16 word) { return asFloat(static_cast<u32>(word) << 16); }
NI_FN u16 floatToBf16(float f) { return static_cast<u16>(packBf16(f, 0.0f)); }

/// Sums and maxima over the 32 lanes, in a fixed order; every lane gets the result.
NI_FN float warpSum(float v) {
  NI_UNROLL
  for (u32 mask = 16; mask != 0; mask >>= 1)
    v += shuffleXor(v, mask);
  return v;
}
NI_FN float warpMaximum(float v) {
  NI_UNROLL
  for (u32 mask = 16; mask != 0; mask >>= 1)
    v = maximum(v, shuffleXor(v, mask));
  return v;
}

/// 1 / (1 + exp(-x)). A large negative x gives exp = infinity and 0, a large positive one 1.
NI_FN float sigmoid(float x) { return reciprocalApprox(1.0f + exp2Approx(x * -1.44269504f)); }
NI_FN float silu(float x) { return x * sigmoid(x); }

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_NI_CUH
