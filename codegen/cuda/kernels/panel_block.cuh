// One lane's share of a 16 x 128 block of a packed weight, in registers, and its way to the A operand of
// mma.m16n8k16. Integer codes become bfloat16 exactly (|code| <= 127 needs 7 bits and the sign), so the products of a
// group are summed unscaled and multiplied once by the scale. E4M3FN and E2M1 words are bfloat16 words with another
// exponent bias: a shift and one exact multiplication by a power of two.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_PANEL_BLOCK_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_PANEL_BLOCK_CUH

#include "ni.cuh"
#include "panel.cuh"

namespace ni {

constexpr u32 kBlockSteps = kBlockK / 16; ///< mma steps of one block

// Tables of bitwise(): operand a is 0xf0, b 0xcc, c 0xaa.
constexpr u32 kAndXor = (0xf0 & 0xcc) ^ 0xaa; ///< (a & b) ^ c
constexpr u32 kAndOr = (0xf0 & 0xcc) | 0xaa;  ///< (a & b) | c

constexpr u32 kOneBf16x2 = 0x3f803f80u;
constexpr u32 kMinusZeroBf16x2 = 0x80008000u;

NI_FN u32 word(const Words4 &v, u32 i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
NI_FN u32 word(const Words2 &v, u32 i) { return i == 0 ? v.x : v.y; }

template <typename T>
NI_FN const T *at(const u8 *p, u32 offset) {
  return reinterpret_cast<const T *>(p + offset);
}

/// Where a block of a packed weight lies: addresses of its codes, high bits and scales.
struct BlockPlace {
  const u8 *codes, *high, *scales;
};
/// Block c of the panel at `panel`.
NI_FN BlockPlace placeOf(Format f, const u8 *panel, u32 k, u32 c) {
  return {panel + c * blockCodeBytes(f), panel + panelHighOffset(f, k) + c * blockHighBytes(f),
          panel + panelScaleOffset(f, k) + c * blockScaleBytes(f)};
}

/// The same for one lane: what `load` of its PanelBlock takes.
NI_FN BlockPlace lanePlace(Format f, const BlockPlace &block, u32 lane) {
  return {block.codes + lane * 16, block.high + lane * (blockHighBytes(f) / 32),
          block.scales + lane / 4 * (blockScaleBytes(f) / kPanelRows)};
}
/// `blocks` blocks further.
NI_FN BlockPlace advanced(Format f, const BlockPlace &place, u32 blocks) {
  return {place.codes + blocks * blockCodeBytes(f), place.high + blocks * blockHighBytes(f),
          place.scales + blocks * blockScaleBytes(f)};
}

/// How a block is read: once from global memory, or from a copy in shared memory.
struct FromGlobal {
  template <typename T>
  NI_FN T get(const u8 *p, u32 offset) {
    return loadStream(at<T>(p, offset));
  }
};
struct FromShared {
  template <typename T>
  NI_FN T get(const u8 *p, u32 offset) {
    return sharedLoad(at<T>(p, offset));
  }
};

/// Pair i of a word of eight 4-bit codes: nibbles i and i + 4, as bits 0..3 and 16..19 of the result's source.
NI_FN u32 nibblePair(u32 codes, u32 i) { return codes >> (4 * i); }

/// Each specialisation has
///   kGroupSteps            mma steps per scale; 0: the scale belongs to the row (or there is none)
///   load<Memory>(place)    the lane's registers of the block; the place is that of the lane
///   fragment(s, a)         A operand of step s = 0..7
///   scale(group, r)        scale of group `group` of the block for row g + 8 r; grouped formats
template <Format F>
struct PanelBlock;

/// Q4, Q5, Q6: bfloat16 128 + u for the unsigned code u = code + 2^(bits-1) is 0x4300 | u; subtracting
/// 128 + 2^(bits-1) leaves the code.
template <Format F>
struct IntegerBlock {
  static constexpr u32 kGroupSteps = 4;
  static constexpr u32 kBits = F == Format::Q4 ? 4 : F == Format::Q5 ? 5 : 6;
  static constexpr u32 kSign = 1u << (kBits - 1);
  static constexpr u32 kMagic = 0x43004300u | kSign | kSign << 16; ///< flips two's complement to u
  static constexpr u32 kMinusBias = (0xc300u | kSign) | (0xc300u | kSign) << 16; ///< -(128 + 2^(bits-1))

  Words4 low[2];
  Words4 high; ///< Q6: words 2 r + (k / 64); Q5: x = r 0, y = r 1
  u32 scales[2];

  template <typename Memory>
  NI_MEMBER void load(const BlockPlace &place) {
    low[0] = Memory::template get<Words4>(place.codes, 0);
    low[1] = Memory::template get<Words4>(place.codes, 512);
    if constexpr (F == Format::Q5) {
      const Words2 bits = Memory::template get<Words2>(place.high, 0);
      high.x = bits.x;
      high.y = bits.y;
    }
    if constexpr (F == Format::Q6)
      high = Memory::template get<Words4>(place.high, 0);
    scales[0] = Memory::template get<u32>(place.scales, 0);
    scales[1] = Memory::template get<u32>(place.scales, 32);
  }
  NI_MEMBER void fragment(u32 s, u32 (&a)[4]) const {
    NI_UNROLL
    for (u32 e = 0; e < 2; ++e)
      NI_UNROLL
      for (u32 r = 0; r < 2; ++r)
        a[e * 2 + r] = pair(r, s >> 1, (s & 1) * 2 + e);
  }
  NI_MEMBER float scale(u32 group, u32 r) const { return f16ToFloat(group ? scales[r] >> 16 : scales[r] & 0xffffu); }

private:
  /// Pair i of word j (k = 32 j ..) of half r.
  NI_MEMBER u32 pair(u32 r, u32 j, u32 i) const {
    u32 v = bitwise<kAndXor>(nibblePair(word(low[r], j), i), 0x000f000fu, kMagic);
    if constexpr (F == Format::Q5) { // bits s and s + 16 of the word, s = 4 j + i, to bits 4 and 20
      const u32 bits = r ? high.y : high.x, s = 4 * j + i;
      v = bitwise<kAndXor>(s < 4 ? bits << (4 - s) : bits >> (s - 4), 0x00100010u, v);
    }
    if constexpr (F == Format::Q6) { // bits 2 s, 2 s + 1 (and + 16), s = 4 (j & 1) + i, to bits 4, 5 (20, 21)
      const u32 bits = word(high, 2 * r + (j >> 1)), s = 4 * (j & 1) + i;
      v = bitwise<kAndXor>(2 * s < 4 ? bits << (4 - 2 * s) : bits >> (2 * s - 4), 0x00300030u, v);
    }
    return fmaBf16x2(v, kOneBf16x2, kMinusBias);
  }
};

template <>
struct PanelBlock<Format::Q4> : IntegerBlock<Format::Q4> {};
template <>
struct PanelBlock<Format::Q5> : IntegerBlock<Format::Q5> {};
template <>
struct PanelBlock<Format::Q6> : IntegerBlock<Format::Q6> {};

/// Words of four 8-bit codes shared by W8 and FP8: words [2 r + (s >> 2)], word (s & 3), bytes b and b + 2 for e = b.
struct ByteBlock {
  Words4 codes[4];

  template <typename Memory>
  NI_MEMBER void loadCodes(const BlockPlace &place) {
    NI_UNROLL
    for (u32 i = 0; i < 4; ++i)
      codes[i] = Memory::template get<Words4>(place.codes, i * 512);
  }
  NI_MEMBER u32 codeWord(u32 s, u32 r) const { return word(codes[2 * r + (s >> 2)], s & 3); }
};

/// Signed bytes 0 and 2 of a word as two bfloat16, exactly: code = (low 7 bits) - 128 * (bit 7)
/// = (128 + low) - (128 + 128 * bit 7), and 0x4300 | bit 7 is 128 or 256.
NI_FN u32 signedBytePair(u32 v) {
  return fmaBf16x2(bitwise<kAndOr>(v, 0x007f007fu, 0x43004300u), kOneBf16x2, bitwise<kAndOr>(v, 0x00800080u, 0xc300c300u));
}

template <>
struct PanelBlock<Format::W8> : ByteBlock {
  static constexpr u32 kGroupSteps = 2;
  Words2 scales[2];

  template <typename Memory>
  NI_MEMBER void load(const BlockPlace &place) {
    loadCodes<Memory>(place);
    scales[0] = Memory::template get<Words2>(place.scales, 0);
    scales[1] = Memory::template get<Words2>(place.scales, 64);
  }
  NI_MEMBER void fragment(u32 s, u32 (&a)[4]) const {
    NI_UNROLL
    for (u32 e = 0; e < 2; ++e)
      NI_UNROLL
      for (u32 r = 0; r < 2; ++r)
        a[e * 2 + r] = signedBytePair(e ? codeWord(s, r) >> 8 : codeWord(s, r));
  }
  NI_MEMBER float scale(u32 group, u32 r) const {
    const u32 pair = word(scales[r], group >> 1);
    return f16ToFloat(group & 1 ? pair >> 16 : pair & 0xffffu);
  }
};

/// FP8: sign to bit 15, exponent and fraction to bits 4..10: a bfloat16 word with bias 7 for 127, so times 2^120.
template <>
struct PanelBlock<Format::Fp8> : ByteBlock {
  static constexpr u32 kGroupSteps = 0;

  template <typename Memory>
  NI_MEMBER void load(const BlockPlace &place) {
    loadCodes<Memory>(place);
  }
  NI_MEMBER void fragment(u32 s, u32 (&a)[4]) const {
    NI_UNROLL
    for (u32 e = 0; e < 2; ++e)
      NI_UNROLL
      for (u32 r = 0; r < 2; ++r) {
        const u32 v = e ? codeWord(s, r) : codeWord(s, r) << 8; // code in bits 8..15 and 24..31
        const u32 moved = bitwise<kAndOr>(v, 0x80008000u, (v >> 4) & 0x07f007f0u);
        a[e * 2 + r] = fmaBf16x2(moved, 0x7b807b80u, kMinusZeroBf16x2);
      }
  }
};

/// NVFP4: sign to bit 15, exponent and fraction to bits 6..8: bias 1 for 127, so times 2^126. The scale byte is the
/// same trick in binary32: times 2^120.
template <>
struct PanelBlock<Format::Nvfp4> {
  static constexpr u32 kGroupSteps = 1;
  Words4 codes[2];
  Words2 scales[2];

  template <typename Memory>
  NI_MEMBER void load(const BlockPlace &place) {
    codes[0] = Memory::template get<Words4>(place.codes, 0);
    codes[1] = Memory::template get<Words4>(place.codes, 512);
    scales[0] = Memory::template get<Words2>(place.scales, 0);
    scales[1] = Memory::template get<Words2>(place.scales, 64);
  }
  NI_MEMBER void fragment(u32 s, u32 (&a)[4]) const {
    NI_UNROLL
    for (u32 e = 0; e < 2; ++e)
      NI_UNROLL
      for (u32 r = 0; r < 2; ++r) {
        const u32 i = (s & 1) * 2 + e;
        const u32 v = word(codes[r], s >> 1) << (12 - 4 * i); // code in bits 12..15 and 28..31
        const u32 moved = bitwise<kAndOr>(v, 0x80008000u, (v >> 6) & 0x01c001c0u);
        a[e * 2 + r] = fmaBf16x2(moved, 0x7e807e80u, kMinusZeroBf16x2);
      }
  }
  NI_MEMBER float scale(u32 group, u32 r) const {
    const u32 byte = (word(scales[r], group >> 2) >> (8 * (group & 3))) & 0xffu;
    return asFloat(byte << 20) * 0x1p120f;
  }
};

/// BF16: the words of step s, lane by lane, are the operand.
template <>
struct PanelBlock<Format::Bf16> {
  static constexpr u32 kGroupSteps = 0;
  Words4 codes[8];

  template <typename Memory>
  NI_MEMBER void load(const BlockPlace &place) {
    NI_UNROLL
    for (u32 s = 0; s < 8; ++s)
      codes[s] = Memory::template get<Words4>(place.codes, s * 512);
  }
  NI_MEMBER void fragment(u32 s, u32 (&a)[4]) const {
    a[0] = codes[s].x;
    a[1] = codes[s].y;
    a[2] = codes[s].z;
    a[3] = codes[s].w;
  }
};

/// Step s of a block: one mma. `group` starts anew with every scale group and joins `sums` at its end.
template <typename Block>
NI_FN void multiplyStep(const Block &block, u32 s, const u32 (&fragment)[4], u32 b0, u32 b1, float (&group)[4],
                        float (&sums)[4]) {
  if constexpr (Block::kGroupSteps == 0) {
    mmaBf16(sums, fragment, b0, b1);
  } else {
    if (s % Block::kGroupSteps == 0)
      mmaBf16Set(group, fragment, b0, b1);
    else
      mmaBf16(group, fragment, b0, b1);
    if (s % Block::kGroupSteps == Block::kGroupSteps - 1)
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i)
        sums[i] = fusedMultiplyAdd(group[i], block.scale(s / Block::kGroupSteps, i >> 1), sums[i]);
  }
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_PANEL_BLOCK_CUH
