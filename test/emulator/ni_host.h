// Host half of codegen/cuda/kernels/ni.cuh: the same names for the emulator. A kernel sees declarations, checks and plain
// loads and stores only, so that a sanitizer instruments the kernel and not the emulator behind it.
#ifndef NINFER_TEST_EMULATOR_NI_HOST_H
#define NINFER_TEST_EMULATOR_NI_HOST_H

#include "codegen/cuda/kernels/types.cuh"

#define NI_FN static inline __attribute__((always_inline))
#define NI_MEMBER inline __attribute__((always_inline))
#define NI_UNROLL
#define NI_NO_UNROLL
#define NI_KERNEL(name, threads, blocks)                                                                               \
  extern "C" const unsigned name##_threads = threads;                                                                  \
  extern "C" void name
#define NI_SHARED(T, pointer) NI_SHARED_UPTO(T, pointer, sizeof(T))
#define NI_SHARED_UPTO(T, pointer, bytes) T *pointer = reinterpret_cast<T *>(ni::host::sharedMemory(bytes))
/// `name_thunk(args)` calls the kernel with arguments as cuLaunchKernel takes them: one pointer per parameter.
#define NI_EXPORT(name)                                                                                                \
  extern "C" void name##_thunk(void **args) { ni::host::callWithArgs(name, args); }
#define NI_SITE int line = __builtin_LINE(), const char *file = __builtin_FILE()

namespace ni::host {

enum class Access : u32 { GlobalRead, GlobalWrite, SharedRead, SharedWrite };

// The emulator (Warp.cpp, Block.cpp, Access.cpp). `line` and `file` name the call in the kernel.
extern "C" {
__attribute__((const)) u32 ni_host_thread();
__attribute__((const)) u32 ni_host_block(u32 axis);
__attribute__((const)) u32 ni_host_grid();
u8 *ni_host_shared(u64 bytes);
/// Bounds, alignment, kind of memory, races. Does not return when a rule is broken.
void ni_host_access(const void *p, u32 bytes, u32 alignment, Access kind, int line, const char *file);
void ni_host_block_sync(int line, const char *file);
void ni_host_warp_sync(int line, const char *file);
u32 ni_host_atomic_increment(u32 *p, int line, const char *file);
void ni_host_not_uniform(int line, const char *file);
u32 ni_host_shuffle(u32 v, u32 source, int line, const char *file);
void ni_host_mma_bf16(float *d, const u32 *a, u32 b0, u32 b1, int line, const char *file);
void ni_host_mma_f16(float *d, u32 a0, u32 a1, u32 b, int line, const char *file);
void ni_host_load_matrix(u32 *r, const void *row, bool transposed, int line, const char *file);
void ni_host_copy_async(void *shared, const void *global, bool valid, int line, const char *file);
void ni_host_copy_commit(int line, const char *file);
void ni_host_copy_wait(u32 pending, int line, const char *file);
u32 ni_host_fma_bf16(u32 a, u32 b, u32 c);
u32 ni_host_fma_f16(u32 a, u32 b, u32 c);
float ni_host_f16_to_float(u32 word);
u32 ni_host_float_to_f16(float f);
float ni_host_exp2(float x);
float ni_host_log2(float x);
float ni_host_root(float x);
float ni_host_round(float x);
float ni_host_fma(float a, float b, float c);
}

inline u8 *sharedMemory(u64 bytes) { return ni_host_shared(bytes); }

template <u32... I>
struct Indices {};
template <u32 N, u32... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <u32... I>
struct MakeIndices<0, I...> {
  using Type = Indices<I...>;
};
template <typename... A, u32... I>
inline void callIndexed(void (*kernel)(A...), void **args, Indices<I...>) {
  kernel(*static_cast<A *>(args[I])...);
}
template <typename... A>
inline void callWithArgs(void (*kernel)(A...), void **args) {
  callIndexed(kernel, args, typename MakeIndices<sizeof...(A)>::Type());
}

} // namespace ni::host

namespace ni {

NI_FN u32 threadIndex() { return host::ni_host_thread(); }
NI_FN u32 laneIndex() { return host::ni_host_thread() & 31u; }
NI_FN u32 warpIndex() { return host::ni_host_thread() >> 5; }
NI_FN u32 blockX() { return host::ni_host_block(0); }
NI_FN u32 blockY() { return host::ni_host_block(1); }
NI_FN u32 blockZ() { return host::ni_host_block(2); }
NI_FN u32 gridX() { return host::ni_host_grid(); }

NI_FN void blockSync(NI_SITE) { host::ni_host_block_sync(line, file); }
NI_FN void warpSync(NI_SITE) { host::ni_host_warp_sync(line, file); }
NI_FN void gpuFence() {}
NI_FN u32 atomicIncrement(u32 *p, NI_SITE) { return host::ni_host_atomic_increment(p, line, file); }

NI_FN float asFloat(u32 u) { return __builtin_bit_cast(float, u); }
NI_FN u32 asBits(float f) { return __builtin_bit_cast(u32, f); }

NI_FN u32 shuffle(u32 v, u32 lane, NI_SITE) { return host::ni_host_shuffle(v, lane, line, file); }
NI_FN float shuffle(float v, u32 lane, NI_SITE) { return asFloat(host::ni_host_shuffle(asBits(v), lane, line, file)); }
/// Stops when the lanes disagree.
NI_FN u32 uniform(u32 v, NI_SITE) {
  const u32 first = host::ni_host_shuffle(v, 0, line, file);
  if (first != v)
    host::ni_host_not_uniform(line, file);
  return v;
}
NI_FN u32 shuffleXor(u32 v, u32 mask, NI_SITE) { return host::ni_host_shuffle(v, laneIndex() ^ mask, line, file); }
NI_FN float shuffleXor(float v, u32 mask, NI_SITE) {
  return asFloat(host::ni_host_shuffle(asBits(v), laneIndex() ^ mask, line, file));
}

template <typename T>
NI_FN T load(const T *p, NI_SITE) {
  host::ni_host_access(p, sizeof(T), sizeof(T), host::Access::GlobalRead, line, file);
  return *p;
}
template <typename T>
NI_FN void store(T *p, T v, NI_SITE) {
  host::ni_host_access(p, sizeof(T), sizeof(T), host::Access::GlobalWrite, line, file);
  *p = v;
}
template <typename T>
NI_FN T loadStream(const T *p, NI_SITE) {
  return load(p, line, file);
}
template <typename T>
NI_FN T sharedLoad(const T *p, NI_SITE) {
  host::ni_host_access(p, sizeof(T), sizeof(T), host::Access::SharedRead, line, file);
  return *p;
}
template <typename T>
NI_FN void sharedStore(T *p, T v, NI_SITE) {
  host::ni_host_access(p, sizeof(T), sizeof(T), host::Access::SharedWrite, line, file);
  *p = v;
}

template <u32 Table>
NI_FN u32 bitwise(u32 a, u32 b, u32 c) {
  u32 r = 0;
  for (u32 i = 0; i < 8; ++i)
    if (Table >> i & 1u)
      r |= (i & 4u ? a : ~a) & (i & 2u ? b : ~b) & (i & 1u ? c : ~c);
  return r;
}
NI_FN float f16ToFloat(u32 word) { return host::ni_host_f16_to_float(word & 0xffffu); }
NI_FN u32 floatToF16(float f) { return host::ni_host_float_to_f16(f); }
NI_FN u32 packBf16(float low, float high) {
  u32 a = asBits(low), b = asBits(high);
  a = low != low ? 0x7fff0000u : a + 0x7fffu + ((a >> 16) & 1u);
  b = high != high ? 0x7fff0000u : b + 0x7fffu + ((b >> 16) & 1u);
  return (a >> 16) | (b & 0xffff0000u);
}
NI_FN float fusedMultiplyAdd(float a, float b, float c) { return host::ni_host_fma(a, b, c); }
NI_FN float divide(float a, float b) { return a / b; }
/// The number when one operand is NaN, as max.f32 does.
NI_FN float maximum(float a, float b) { return a != a ? b : b != b ? a : a > b ? a : b; }
NI_FN float magnitude(float a) { return asFloat(asBits(a) & 0x7fffffffu); }
NI_FN float roundToEven(float a) { return host::ni_host_round(a); }
NI_FN float flushSubnormal(float x) { return magnitude(x) < 0x1p-126f ? asFloat(asBits(x) & 0x80000000u) : x; }
NI_FN float exp2Approx(float x) { return flushSubnormal(host::ni_host_exp2(flushSubnormal(x))); }
NI_FN float log2Approx(float x) { return host::ni_host_log2(flushSubnormal(x)); }
NI_FN float reciprocalApprox(float x) { return flushSubnormal(1.0f / flushSubnormal(x)); }
NI_FN float rootReciprocalApprox(float x) { return 1.0f / host::ni_host_root(flushSubnormal(x)); }

NI_FN u32 fmaBf16x2(u32 a, u32 b, u32 c) { return host::ni_host_fma_bf16(a, b, c); }
NI_FN void mmaBf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, NI_SITE) {
  host::ni_host_mma_bf16(d, a, b0, b1, line, file);
}
NI_FN void mmaBf16Set(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, NI_SITE) {
  d[0] = d[1] = d[2] = d[3] = 0.0f;
  host::ni_host_mma_bf16(d, a, b0, b1, line, file);
}
NI_FN u32 fmaF16x2(u32 a, u32 b, u32 c) { return host::ni_host_fma_f16(a, b, c); }
NI_FN u32 packF16(float low, float high) { return floatToF16(low) | floatToF16(high) << 16; }
NI_FN void mmaF16(float (&d)[4], u32 a0, u32 a1, u32 b, NI_SITE) { host::ni_host_mma_f16(d, a0, a1, b, line, file); }
NI_FN void mmaF16Set(float (&d)[4], u32 a0, u32 a1, u32 b, NI_SITE) {
  d[0] = d[1] = d[2] = d[3] = 0.0f;
  host::ni_host_mma_f16(d, a0, a1, b, line, file);
}
NI_FN void loadMatrix(u32 (&r)[4], const void *row, NI_SITE) {
  host::ni_host_load_matrix(r, row, false, line, file);
}
NI_FN void loadMatrixTransposed(u32 (&r)[4], const void *row, NI_SITE) {
  host::ni_host_load_matrix(r, row, true, line, file);
}
NI_FN void copyAsync(void *shared, const void *global, bool valid = true, NI_SITE) {
  host::ni_host_copy_async(shared, global, valid, line, file);
}
NI_FN void copyAsyncCommit(NI_SITE) { host::ni_host_copy_commit(line, file); }
template <u32 Pending>
NI_FN void copyAsyncWait(NI_SITE) {
  host::ni_host_copy_wait(Pending, line, file);
}

} // namespace ni

#endif // NINFER_TEST_EMULATOR_NI_HOST_H
