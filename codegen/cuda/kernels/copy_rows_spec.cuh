// Specialisation record of the kernel that moves rows between activations and row buffers.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_COPY_ROWS_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_COPY_ROWS_SPEC_CUH

#include "types.cuh"

namespace ni {

struct CopyRowsSpec {
  u32 bytes; ///< of a piece: 2, 4, 8 or 16; widths, strides and addresses are multiples of it
};
constexpr u32 kCopyRowsThreads = 128; ///< each has one piece of a row
constexpr u32 copyRowsBlocks(u32 pieces) { return divideUp(pieces, kCopyRowsThreads); }
/// The largest piece that divides all of them, each in bytes.
constexpr u32 copyRowsPiece(u32 a, u32 b, u32 c, u32 d) {
  const u32 all = a | b | c | d;
  return all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 2;
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_COPY_ROWS_SPEC_CUH
