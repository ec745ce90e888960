// Rows of a packed table: out[r] = table[tokens[r]], decoded exactly and rounded once to bfloat16. A token outside the
// table gives a row of NaN. A thread decodes one word of codes: its pairs lie at k = base + {0, 1} of several offsets.
// Launch: grid (rows), kEmbeddingThreads, no shared memory.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_EMBEDDING_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_EMBEDDING_CUH

#include "panel_block.cuh"
#include "rows_spec.cuh"

namespace ni {

struct EmbeddingArgs {
  const i32 *tokens; ///< [rows]
  const u8 *table;   ///< packed, n rows
  u16 *out;          ///< bfloat16 [rows][k]
  u32 n;
};

template <EmbeddingSpec S>
struct Embedding {
  static_assert(hasPanels(S.format));
  static constexpr Format F = S.format;
  /// Words of codes of one row per block of 128 k, and pairs in each.
  static constexpr u32 kWords = blockCodeBytes(F) / 64, kPairs = 64 / kWords;

  NI_FN void run(const EmbeddingArgs &a) {
    const u32 token = static_cast<u32>(load(a.tokens + blockX()));
    u16 *out = a.out + static_cast<u64>(blockX()) * S.k;
    const u8 *panel = a.table + static_cast<u64>(token < a.n ? token / kPanelRows : 0) * panelBytes(F, S.k);
    const u32 row = token % kPanelRows;
    for (u32 i = threadIndex(); i < panelBlocks(S.k) * kWords; i += kEmbeddingThreads) {
      const u32 c = i / kWords, t = i % 4, step = i % kWords / 4; // step: word of 32, 16 or 8 k
      const u32 lane = row % 8 * 4 + t, codes = load(at<u32>(panel, wordOffset(c, row / 8, step, lane)));
      NI_UNROLL
      for (u32 p = 0; p < kPairs; ++p) {
        const u32 k = c * kBlockK + step * (128 / (kWords / 4)) + p * 8 + t * 2;
        float low = value(panel, row, c, codes, p, 0, k), high = value(panel, row, c, codes, p, 1, k);
        if (token >= a.n)
          low = high = asFloat(0x7fc00000u);
        if (k < S.k)
          store(out + k, floatToBf16(low));
        if (k + 1 < S.k)
          store(out + k + 1, floatToBf16(high));
      }
    }
  }

private:
  NI_FN u32 wordOffset(u32 c, u32 r, u32 step, u32 lane) {
    if constexpr (kWords == 16) // 4 bits: step = j of 4
      return c * 1024 + r * 512 + lane * 16 + step * 4;
    else if constexpr (kWords == 32) // 8 bits: step = s of 8
      return c * 2048 + (2 * r + step / 4) * 512 + lane * 16 + step % 4 * 4;
    else // 16 bits: step = 2 s + e of 16
      return c * 4096 + step / 2 * 512 + lane * 16 + (step % 2 * 2 + r) * 4;
  }

  /// Element b of pair p of the word; k is where it lies.
  NI_FN float value(const u8 *panel, u32 row, u32 c, u32 codes, u32 p, u32 b, u32 k) {
    const u32 inBlock = k % kBlockK;
    if constexpr (F == Format::Bf16) {
      return b ? bf16High(codes) : bf16Low(codes);
    } else if constexpr (F == Format::Fp8) {
      const float scale = bf16ToFloat(load(at<u16>(panel, panelTailOffset(F, S.k) + row * 2)));
      return e4m3(codes >> (8 * p + 16 * b) & 0xffu) * scale;
    } else if constexpr (F == Format::Nvfp4) {
      const u32 code = codes >> (4 * p + 16 * b) & 15u;
      const float magnitude = asFloat((code & 7u) << 22) * 0x1p126f; // exponent bias 1 for 127
      const u32 scale = load(at<u8>(panel, panelScaleOffset(F, S.k) + c * 128 + row * 8 + inBlock / 16));
      const float value = magnitude * e4m3(scale);
      return divide(code & 8u ? -value : value, load(at<float>(panel, panelTailOffset(F, S.k))));
    } else {
      constexpr u32 kGroups = kBlockK / groupSize(F);
      const u32 to = panelScaleOffset(F, S.k) + (c * kPanelRows + row) * kGroups * 2 + inBlock / groupSize(F) * 2;
      return f16ToFloat(load(at<u16>(panel, to))) * static_cast<float>(integer(panel, row, c, codes, p, b, inBlock));
    }
  }
  NI_FN float e4m3(u32 word) {
    const float magnitude = asFloat((word & 0x7fu) << 20) * 0x1p120f; // exponent bias 7 for 127
    return word & 0x80u ? -magnitude : magnitude;
  }
  NI_FN i32 integer(const u8 *panel, u32 row, u32 c, u32 codes, u32 p, u32 b, u32 inBlock) {
    if constexpr (F == Format::W8)
      return static_cast<i8>(codes >> (8 * p + 16 * b) & 0xffu);
    u32 code = codes >> (4 * p + 16 * b) & 15u;
    const u32 lane = row % 8 * 4 + inBlock / 2 % 4, j = inBlock / 32, r = row / 8;
    if constexpr (F == Format::Q5) {
      const u32 bits = load(at<u32>(panel, panelHighOffset(F, S.k) + c * 256 + lane * 8 + r * 4));
      code |= (bits >> (4 * j + p + 16 * b) & 1u) << 4;
    }
    if constexpr (F == Format::Q6) {
      const u32 bits = load(at<u32>(panel, panelHighOffset(F, S.k) + c * 512 + lane * 16 + (2 * r + j / 2) * 4));
      code |= (bits >> (2 * (4 * (j % 2) + p) + 16 * b) & 3u) << 4;
    }
    constexpr u32 kSign = F == Format::Q5 ? 16 : F == Format::Q6 ? 32 : 8;
    return static_cast<i32>(code ^ kSign) - static_cast<i32>(kSign);
  }
};

} // namespace ni

#define NI_EMBEDDING(name, ...)                                                                                        \
  namespace ni {                                                                                                       \
  constexpr EmbeddingSpec name##_spec = __VA_ARGS__;                                                                   \
  }                                                                                                                    \
  NI_KERNEL(name, ni::kEmbeddingThreads, 4)                                                                            \
  (const ni::i32 *tokens, const ni::u8 *table, ni::u16 *out, ni::u32 n) {                                              \
    ni::Embedding<ni::name##_spec>::run({tokens, table, out, n});                                                      \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_EMBEDDING_CUH
