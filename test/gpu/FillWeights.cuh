// Random packed weights, written on the device: codes over their whole range, scales of ordinary size. For measurements
// with the shapes of a large model and no file of that size; the numbers mean nothing.
#include "ni.cuh"
#include "panel.cuh"

namespace check {
using namespace ni;

/// Mixes bits (xorshift and multiplication; any such function serves).
NI_FN u32 mix(u32 v) {
  v ^= v >> 16;
  v *= 0x7feb352du;
  v ^= v >> 15;
  v *= 0x846ca68bu;
  return v ^ v >> 16;
}

/// Word `i` of a panel. binary16 scales lie between 2^-9 and 2^-8, E4M3FN ones between 1/2 and 1 with a divisor of 32,
/// bfloat16 row scales between 2^-10 and 2^-9; FP8 codes stay below 2 in magnitude, bfloat16 words below 2^-5.
template <Format F>
NI_FN u32 randomWord(u32 i, u32 k, u32 bits) {
  const u32 scales = panelScaleOffset(F, k) / 4, tail = panelTailOffset(F, k) / 4, end = tail + panelTailBytes(F) / 4;
  if (i < panelHighOffset(F, k) / 4)
    return F == Format::Bf16 ? (bits & 0x80ff80ffu) | 0x3c003c00u : F == Format::Fp8 ? bits & 0xbfbfbfbfu : bits;
  if (i < scales)
    return bits;
  if (i < tail)
    return F == Format::Nvfp4 ? (bits & 0x07070707u) | 0x30303030u : (bits & 0x03ff03ffu) | 0x18001800u;
  if (i < end)
    return F == Format::Nvfp4 ? 0x42000000u : (bits & 0x007f007fu) | 0x3a803a80u;
  return 0u;
}
} // namespace check

// `bytes` of whole panels of a weight with `k` columns; blocks and threads stride through them.
#define CHECK_FILL(name, format)                                                                                       \
  NI_KERNEL(name, 256, 1)(ni::u8 *packed, ni::u64 bytes, ni::u32 k, ni::u32 seed) {                                    \
    using namespace ni;                                                                                                \
    const u32 words = panelBytes(format, k) / 4;                                                                       \
    for (u64 i = static_cast<u64>(blockX()) * 256 + threadIndex(); i < bytes / 4; i += static_cast<u64>(gridX()) * 256) \
      store(reinterpret_cast<u32 *>(packed) + i,                                                                       \
            check::randomWord<format>(static_cast<u32>(i % words), k, check::mix(static_cast<u32>(i) + seed)));         \
  }                                                                                                                    \
  NI_EXPORT(name)

CHECK_FILL(check_fill_q4g64, ni::Format::Q4)
CHECK_FILL(check_fill_q5g64, ni::Format::Q5)
CHECK_FILL(check_fill_q6g64, ni::Format::Q6)
CHECK_FILL(check_fill_w8g32, ni::Format::W8)
CHECK_FILL(check_fill_nvfp4, ni::Format::Nvfp4)
CHECK_FILL(check_fill_fp8, ni::Format::Fp8)
CHECK_FILL(check_fill_bf16, ni::Format::Bf16)

/// Vectors that are read as they are: every half word is a bfloat16, and every word a binary32, between 1/2 and 1.
NI_KERNEL(check_fill_vector, 256, 1)(ni::u8 *packed, ni::u64 bytes, ni::u32 k, ni::u32 seed) {
  using namespace ni;
  for (u64 i = static_cast<u64>(blockX()) * 256 + threadIndex(); i < bytes / 2; i += static_cast<u64>(gridX()) * 256)
    store(reinterpret_cast<u16 *>(packed) + i, static_cast<u16>(0x3f00u | (check::mix(static_cast<u32>(i) + seed) & 0x7fu)));
}
NI_EXPORT(check_fill_vector)
