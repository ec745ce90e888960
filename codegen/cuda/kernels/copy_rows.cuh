// Rows of a, followed by those of b, to rows of out, which may be columns of a wider buffer:
//   out[r][0 .. aWidth) = a[r],  out[r][aWidth .. aWidth + bWidth) = b[r]
// All sizes are in pieces of spec.bytes. Launch: grid (copyRowsBlocks(aWidth + bWidth), rows), kCopyRowsThreads, no shared
// memory.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_COPY_ROWS_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_COPY_ROWS_CUH

#include "copy_rows_spec.cuh"
#include "ni.cuh"

namespace ni {

struct CopyRowsArgs {
  const u8 *a, *b; ///< row r starts at r * stride; b is not read when bWidth is 0
  u8 *out;         ///< not an input
  u32 aWidth, bWidth, aStride, bStride, outStride;
};

template <u32 Bytes>
struct Piece;
template <>
struct Piece<2> {
  using Type = u16;
};
template <>
struct Piece<4> {
  using Type = u32;
};
template <>
struct Piece<8> {
  using Type = Words2;
};
template <>
struct Piece<16> {
  using Type = Words4;
};

template <CopyRowsSpec S>
struct CopyRows {
  using T = typename Piece<S.bytes>::Type;

  NI_FN void run(const CopyRowsArgs &args) {
    const u32 c = blockX() * kCopyRowsThreads + threadIndex();
    const u64 r = blockY();
    if (c >= args.aWidth + args.bWidth)
      return;
    const T *a = reinterpret_cast<const T *>(args.a) + r * args.aStride + c;
    const T *b = reinterpret_cast<const T *>(args.b) + r * args.bStride + (c - args.aWidth);
    store(reinterpret_cast<T *>(args.out) + r * args.outStride + c, load(c < args.aWidth ? a : b));
  }
};

} // namespace ni

#define NI_COPY_ROWS(name, ...)                                                                                        \
  namespace ni {                                                                                                       \
  constexpr CopyRowsSpec name##_spec = __VA_ARGS__;                                                                    \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kCopyRowsThreads, 4)                                                                             \
  (const ni::u8 *a, const ni::u8 *b, ni::u8 *out, ni::u32 aWidth, ni::u32 bWidth, ni::u32 aStride, ni::u32 bStride,    \
   ni::u32 outStride) {                                                                                                \
    ni::CopyRows<ni::name##_spec>::run({a, b, out, aWidth, bWidth, aStride, bStride, outStride});                      \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_COPY_ROWS_CUH
