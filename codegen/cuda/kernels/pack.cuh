// Stored layout -> panel-16x128 (panel.cuh), at load. Every word of the packed weight is written once, from the codes and
// scales it holds; none is changed. Planes: runtime/abi/kernel_abi.h, byte order: docs/formats.md.
//
// Launch: grid (1..panels), kPackThreads, no shared memory. Thread block b takes panels b, b + grid, ...
#ifndef NINFER_CODEGEN_CUDA_KERNELS_PACK_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_PACK_CUH

#include "ni.cuh"
#include "panel.cuh"

namespace ni {

struct PackArgs {
  const u8 *codes;   ///< row-split base, row-scale codes, blockscale codes, contiguous words; 256-byte aligned object
  const u8 *high;    ///< row-split high; Q5, Q6 only
  const u8 *scales;  ///< every format but BF16
  const u8 *divisor; ///< binary32; NVFP4 only
  u8 *packed;
  u32 n, k;
};

template <Format F>
struct Pack {
  static_assert(hasPanels(F));

  NI_FN void run(const PackArgs &a) {
    const u32 bytes = panelBytes(F, a.k);
    for (u32 panel = blockX(); panel < divideUp(a.n, kPanelRows); panel += gridX()) {
      u32 *out = reinterpret_cast<u32 *>(a.packed + static_cast<u64>(panel) * bytes);
      for (u32 i = threadIndex(); i < bytes / 4; i += kPackThreads)
        store(out + i, panelWord(a, panel * kPanelRows, i));
    }
  }

private:
  NI_FN u32 panelWord(const PackArgs &a, u32 firstRow, u32 i) {
    const u32 high = panelHighOffset(F, a.k) / 4, scales = panelScaleOffset(F, a.k) / 4;
    const u32 tail = panelTailOffset(F, a.k) / 4;
    if (i < high)
      return codeWord(a, firstRow, i);
    if (i < scales)
      return highWord(a, firstRow, i - high);
    if (i < tail)
      return scaleWord(a, firstRow, i - scales);
    return tailWord(a, firstRow, i - tail);
  }

  /// Stored codes per row: row-split pads K to whole blocks.
  NI_FN u32 storedK(const PackArgs &a) {
    return F == Format::Fp8 || F == Format::Nvfp4 || F == Format::Bf16 ? a.k : roundUp(a.k, kBlockK);
  }
  NI_FN u32 byteAt(const PackArgs &a, u32 row, u32 rowBytes, u32 offset) {
    return row < a.n && offset < rowBytes ? load(a.codes + static_cast<u64>(row) * rowBytes + offset) : 0u;
  }

  NI_FN u32 codeWord(const PackArgs &a, u32 firstRow, u32 i) {
    const u32 lane = i / 4 % 32, g = lane / 4, t = lane % 4, c = i / (blockCodeBytes(F) / 4);
    u32 v = 0;
    if constexpr (blockCodeBytes(F) == 1024) { // [r][lane][j]; byte 4 i + t of 32 k holds the pair of nibbles i, i + 4
      const u32 row = firstRow + i / 128 % 2 * 8 + g;
      NI_UNROLL
      for (u32 p = 0; p < 4; ++p) {
        const u32 byte = byteAt(a, row, storedK(a) / 2, c * 64 + i % 4 * 16 + p * 4 + t);
        v |= (byte & 15u) << (4 * p) | (byte >> 4) << (4 * p + 16);
      }
    } else if constexpr (blockCodeBytes(F) == 2048) { // [r][s / 4][lane][s % 4]; byte e + 2 b
      const u32 row = firstRow + i / 256 % 2 * 8 + g, s = i / 128 % 2 * 4 + i % 4;
      NI_UNROLL
      for (u32 p = 0; p < 4; ++p)
        v |= byteAt(a, row, storedK(a), c * 128 + s * 16 + p % 2 * 8 + t * 2 + p / 2) << (8 * p);
    } else { // [s][lane][2 e + r]; half b
      const u32 row = firstRow + i % 2 * 8 + g, k = c * 128 + i / 128 % 8 * 16 + i / 2 % 2 * 8 + t * 2;
      const u16 *words = reinterpret_cast<const u16 *>(a.codes) + static_cast<u64>(row) * a.k + k;
      if (row < a.n && k < a.k)
        v = load(words);
      if (row < a.n && k + 1 < a.k)
        v |= static_cast<u32>(load(words + 1)) << 16;
    }
    return v;
  }

  NI_FN u32 highWord(const PackArgs &a, u32 firstRow, u32 i) {
    u32 v = 0;
    if constexpr (F == Format::Q5) { // [lane][r]; bit 4 j + i + 16 b from bit 2 t + b of byte 4 j + i of 128 k
      const u32 lane = i / 2 % 32, t = lane % 4, row = firstRow + i % 2 * 8 + lane / 4, c = i / 64;
      if (row >= a.n)
        return 0;
      const u8 *bits = a.high + static_cast<u64>(row) * (storedK(a) / 8) + c * 16;
      NI_UNROLL
      for (u32 p = 0; p < 16; ++p) {
        const u32 pair = static_cast<u32>(load(bits + p)) >> (2 * t);
        v |= (pair & 1u) << p | (pair >> 1 & 1u) << (p + 16);
      }
    }
    if constexpr (F == Format::Q6) { // [lane][2 r + k / 64]; bits 2 p + 16 b, p = 4 (j % 2) + i
      const u32 lane = i / 4 % 32, t = lane % 4, row = firstRow + i / 2 % 2 * 8 + lane / 4, c = i / 128;
      if (row >= a.n)
        return 0;
      const u8 *bits = a.high + static_cast<u64>(row) * (storedK(a) / 4) + c * 32 + i % 2 * 16;
      NI_UNROLL
      for (u32 p = 0; p < 8; ++p) {
        const u32 pair = static_cast<u32>(load(bits + 2 * p + t / 2)) >> (4 * (t % 2));
        v |= (pair & 3u) << (2 * p) | (pair >> 2 & 3u) << (2 * p + 16);
      }
    }
    return v;
  }

  NI_FN u32 scaleWord(const PackArgs &a, u32 firstRow, u32 i) {
    constexpr u32 kWords = blockScaleBytes(F) / 64; // per row and block
    if constexpr (kWords > 0) {
      const u32 row = firstRow + i / kWords % 16, q = i / (kWords * 16) * kWords + i % kWords;
      if (row >= a.n)
        return 0;
      if constexpr (F == Format::Nvfp4) { // tiles of 128 rows and 4 groups; word q holds groups 4 q .. 4 q + 3
        const u32 tiles = a.k / 64;
        if (q >= tiles)
          return 0;
        const u64 tile = static_cast<u64>(row / 128) * tiles + q;
        return load(reinterpret_cast<const u32 *>(a.scales + tile * 512 + row % 32 * 16 + row % 128 / 32 * 4));
      } else {
        const u64 rowBytes = roundUp(a.k, kBlockK) / groupSize(F) * 2;
        return load(reinterpret_cast<const u32 *>(a.scales + row * rowBytes + q * 4));
      }
    }
    return 0;
  }

  NI_FN u32 tailWord(const PackArgs &a, u32 firstRow, u32 i) {
    if constexpr (F == Format::Nvfp4)
      return i == 0 ? load(reinterpret_cast<const u32 *>(a.divisor)) : 0u;
    if constexpr (F == Format::Fp8) {
      const u32 row = firstRow + 2 * i;
      const u16 *words = reinterpret_cast<const u16 *>(a.scales) + row;
      if (i < kPanelRows / 2)
        return (row < a.n ? load(words) : 0u) | (row + 1 < a.n ? static_cast<u32>(load(words + 1)) << 16 : 0u);
    }
    return 0;
  }
};

} // namespace ni

/// NI_PACK(ni_pack_q4g64, ni::Format::Q4)
#define NI_PACK(name, format)                                                                                          \
  NI_KERNEL(name, ni::kPackThreads, 2)                                                                                 \
  (const ni::u8 *codes, const ni::u8 *high, const ni::u8 *scales, const ni::u8 *divisor, ni::u8 *packed, ni::u32 n,    \
   ni::u32 k) {                                                                                                        \
    ni::Pack<format>::run({codes, high, scales, divisor, packed, n, k});                                               \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_PACK_CUH
