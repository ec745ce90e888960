// panel-16x128: the packed weight layout of CUDA plans, one copy for all phases. Codes and scales are those of the
// stored layout, in another order (docs/cuda.md, section "Packed weights", has the byte table).
//
// A panel is 16 consecutive rows of a weight, all K, contiguous. K is padded to a multiple of 128, N to a multiple of
// 16; padding has code 0 and scale 0. Inside a panel: codes [K/128][..], high bits [K/128][..], scales [K/128][..],
// tail; then zeros up to a multiple of 128 bytes. The order inside a block of 16 x 128 is that of the A operand of
// mma.m16n8k16: with lane = 4 g + t and step s = 16 k, a lane's pairs are (row g + 8 r, k = 16 s + 8 e + 2 t + {0, 1}).
#ifndef NINFER_CODEGEN_CUDA_KERNELS_PANEL_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_PANEL_CUH

#include "types.cuh"

namespace ni {

constexpr u32 kPanelRows = 16;
constexpr u32 kPackThreads = 256; ///< of the kernel that packs
constexpr u32 kBlockK = 128; ///< k of one block of a panel

/// Formats that have a panel layout: everything but FP32 and I32, which no linear map stores.
constexpr bool hasPanels(Format f) { return f != Format::Fp32 && f != Format::I32; }

/// Bytes of one block of 16 x 128 codes: 4 low bits of Q4, Q5, Q6, NVFP4; 8 of W8, FP8; 16 of BF16.
constexpr u32 blockCodeBytes(Format f) {
  return f == Format::Bf16 ? 4096 : f == Format::W8 || f == Format::Fp8 ? 2048 : 1024;
}
/// Bytes of the bits above the fourth of one block: 1 bit per code in Q5, 2 in Q6.
constexpr u32 blockHighBytes(Format f) { return f == Format::Q5 ? 256 : f == Format::Q6 ? 512 : 0; }
/// Elements along k that share a scale; 0: none, or one scale per row.
constexpr u32 groupSize(Format f) {
  return f == Format::Nvfp4 ? 16 : f == Format::W8 ? 32 : f == Format::Q4 || f == Format::Q5 || f == Format::Q6 ? 64 : 0;
}
/// Bytes of the scales of one block: [16 rows][128 / group], binary16 (NVFP4: one E4M3FN byte each).
constexpr u32 blockScaleBytes(Format f) {
  return groupSize(f) == 0 ? 0 : kPanelRows * (kBlockK / groupSize(f)) * (f == Format::Nvfp4 ? 1 : 2);
}
/// Bytes behind the scales: FP8 16 bfloat16 row scales; NVFP4 the binary32 divisor of the tensor.
constexpr u32 panelTailBytes(Format f) { return f == Format::Fp8 ? 32 : f == Format::Nvfp4 ? 4 : 0; }

constexpr u32 panelBlocks(u32 k) { return divideUp(k, kBlockK); }
constexpr u32 panelHighOffset(Format f, u32 k) { return panelBlocks(k) * blockCodeBytes(f); }
constexpr u32 panelScaleOffset(Format f, u32 k) { return panelHighOffset(f, k) + panelBlocks(k) * blockHighBytes(f); }
constexpr u32 panelTailOffset(Format f, u32 k) { return panelScaleOffset(f, k) + panelBlocks(k) * blockScaleBytes(f); }
constexpr u32 panelBytes(Format f, u32 k) { return roundUp(panelTailOffset(f, k) + panelTailBytes(f), 128u); }
/// Bytes of a packed weight of n rows.
constexpr u64 packedBytes(Format f, u32 n, u32 k) { return static_cast<u64>(divideUp(n, kPanelRows)) * panelBytes(f, k); }

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_PANEL_CUH
