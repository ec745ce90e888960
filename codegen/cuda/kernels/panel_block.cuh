// One lane's share of a 16 x 128 block of a packed weight, in registers, and its way to the A operand of
// mma.m16n8k16. Integer codes become bfloat16 exactly (|code| <= 127 needs 7 bits and the sign), so the products of a
// group are summed unscaled and multiplied once by the scale. E4M3FN and E2M1 words are bfloat16 words with another
// exponent bias: a shift and one exact multiplication by a power of two. As binary16 (Operands::F16) all of them are exact
// too, with other constants; the words of BF16 are scaled by rows (half_operand.cuh).
#ifndef NINFER_CODEGEN_CUDA_KERNELS_PANEL_BLOCK_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_PANEL_BLOCK_CUH

#include "half_operand.cuh"
#include "panel.cuh"

namespace ni {

constexpr u32 kBlockSteps = kBlockK / 16; ///< mma steps of one block

// Tables of bitwise(): operand a is 0xf0, b 0xcc, c 0xaa.
constexpr u32 kAndXor = (0xf0 & 0xcc) ^ 0xaa; ///< (a & b) ^ c
constexpr u32 kAndOr = (0xf0 & 0xcc) | 0xaa;  ///< (a & b) | c

/// Pairs of 1 and of -0, and 1.0 with the exponent at which the last bit is 1: 128 in bfloat16, 1024 in binary16.
template <Operands O>
constexpr u32 kOnes = O == Operands::F16 ? 0x3c003c00u : 0x3f803f80u;
template <Operands O>
constexpr u32 kIntegers = O == Operands::F16 ? 0x64006400u : 0x43004300u;
constexpr u32 kSigns = 0x80008000u; ///< also a pair of -0

/// a * b + c on each of two operands.
template <Operands O>
NI_FN u32 fmaPair(u32 a, u32 b, u32 c) {
  if constexpr (O == Operands::F16)
    return fmaF16x2(a, b, c);
  else
    return fmaBf16x2(a, b, c);
}

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
///   kGroupSteps            mma steps per scale; 0: the scale belongs to the row (or there is none). With F16 the sums of a
///                          group are scaled as the rows of x are, so there are always groups
///   load<Memory>(place)    the lane's registers of the block; the place is that of the lane
///   prepare()              before the first fragment, by all lanes
///   fragment(s, a)         A operand of step s = 0..7
///   scale(group, r)        scale of group `group` of the block for row g + 8 r; with groups
template <Format F, Operands O = Operands::Bf16>
struct PanelBlock;

/// Q4, Q5, Q6: bfloat16 128 + u for the unsigned code u = code + 2^(bits-1) is 0x4300 | u; subtracting
/// 128 + 2^(bits-1) leaves the code. binary16: the same with 1024 and 0x6400.
template <Format F, Operands O>
struct IntegerBlock {
  static constexpr u32 kGroupSteps = 4;
  static constexpr u32 kBits = F == Format::Q4 ? 4 : F == Format::Q5 ? 5 : 6;
  static constexpr u32 kSign = 1u << (kBits - 1);
  static constexpr u32 kMagic = kIntegers<O> | kSign | kSign << 16; ///< flips two's complement to u
  static constexpr u32 kMinusBias = kMagic | kSigns;                ///< -(128 + 2^(bits-1))

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
  NI_MEMBER void prepare() {}
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
    return fmaPair<O>(v, kOnes<O>, kMinusBias);
  }
};

template <Operands O>
struct PanelBlock<Format::Q4, O> : IntegerBlock<Format::Q4, O> {};
template <Operands O>
struct PanelBlock<Format::Q5, O> : IntegerBlock<Format::Q5, O> {};
template <Operands O>
struct PanelBlock<Format::Q6, O> : IntegerBlock<Format::Q6, O> {};

/// Words of four 8-bit codes shared by W8 and FP8: words [2 r + (s >> 2)], word (s & 3), bytes b and b + 2 for e = b.
struct ByteBlock {
  Words4 codes[4];

  template <typename Memory>
  NI_MEMBER void loadCodes(const BlockPlace &place) {
    NI_UNROLL
    for (u32 i = 0; i < 4; ++i)
      codes[i] = Memory::template get<Words4>(place.codes, i * 512);
  }
  NI_MEMBER void prepare() {}
  NI_MEMBER u32 codeWord(u32 s, u32 r) const { return word(codes[2 * r + (s >> 2)], s & 3); }
};

/// Signed bytes 0 and 2 of a word as two bfloat16, exactly: code = (low 7 bits) - 128 * (bit 7)
/// = (128 + low) - (128 + 128 * bit 7), and 0x4300 | bit 7 is 128 or 256 (binary16: 1024 and 1152).
template <Operands O = Operands::Bf16>
NI_FN u32 signedBytePair(u32 v) {
  return fmaPair<O>(bitwise<kAndOr>(v, 0x007f007fu, kIntegers<O>), kOnes<O>,
                    bitwise<kAndOr>(v, 0x00800080u, kIntegers<O> | kSigns));
}

template <Operands O>
struct PanelBlock<Format::W8, O> : ByteBlock {
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
        a[e * 2 + r] = signedBytePair<O>(e ? codeWord(s, r) >> 8 : codeWord(s, r));
  }
  NI_MEMBER float scale(u32 group, u32 r) const {
    const u32 pair = word(scales[r], group >> 1);
    return f16ToFloat(group & 1 ? pair >> 16 : pair & 0xffffu);
  }
};

/// FP8: sign to bit 15, exponent and fraction to bits 4..10: a bfloat16 word with bias 7 for 127, so times 2^120. binary16: to
/// bits 7..13, bias 15, so times 2^8.
template <Operands O>
struct PanelBlock<Format::Fp8, O> : ByteBlock {
  static constexpr u32 kGroupSteps = O == Operands::F16 ? 4 : 0;
  static constexpr u32 kFactor = O == Operands::F16 ? 0x5c005c00u : 0x7b807b80u;

  template <typename Memory>
  NI_MEMBER void load(const BlockPlace &place) {
    this->template loadCodes<Memory>(place);
  }
  NI_MEMBER void fragment(u32 s, u32 (&a)[4]) const {
    NI_UNROLL
    for (u32 e = 0; e < 2; ++e)
      NI_UNROLL
      for (u32 r = 0; r < 2; ++r) {
        const u32 v = e ? codeWord(s, r) : codeWord(s, r) << 8; // code in bits 8..15 and 24..31
        const u32 moved = bitwise<kAndOr>(v, kSigns, O == Operands::F16 ? (v >> 1) & 0x3f803f80u : (v >> 4) & 0x07f007f0u);
        a[e * 2 + r] = fmaPair<O>(moved, kFactor, kSigns);
      }
  }
  NI_MEMBER float scale(u32, u32) const { return 1.0f; }
};

/// NVFP4: sign to bit 15, exponent and fraction to bits 6..8: bias 1 for 127, so times 2^126. The scale byte is the
/// same trick in binary32: times 2^120. binary16: to bits 9..11, bias 15, so times 2^14.
template <Operands O>
struct PanelBlock<Format::Nvfp4, O> {
  static constexpr u32 kGroupSteps = 1;
  static constexpr u32 kFactor = O == Operands::F16 ? 0x74007400u : 0x7e807e80u;
  Words4 codes[2];
  Words2 scales[2];

  template <typename Memory>
  NI_MEMBER void load(const BlockPlace &place) {
    codes[0] = Memory::template get<Words4>(place.codes, 0);
    codes[1] = Memory::template get<Words4>(place.codes, 512);
    scales[0] = Memory::template get<Words2>(place.scales, 0);
    scales[1] = Memory::template get<Words2>(place.scales, 64);
  }
  NI_MEMBER void prepare() {}
  NI_MEMBER void fragment(u32 s, u32 (&a)[4]) const {
    NI_UNROLL
    for (u32 e = 0; e < 2; ++e)
      NI_UNROLL
      for (u32 r = 0; r < 2; ++r) {
        const u32 i = (s & 1) * 2 + e;
        const u32 v = word(codes[r], s >> 1) << (12 - 4 * i); // code in bits 12..15 and 28..31
        const u32 moved = bitwise<kAndOr>(v, kSigns, O == Operands::F16 ? (v >> 3) & 0x0e000e00u : (v >> 6) & 0x01c001c0u);
        a[e * 2 + r] = fmaPair<O>(moved, kFactor, kSigns);
      }
  }
  NI_MEMBER float scale(u32 group, u32 r) const {
    const u32 byte = (word(scales[r], group >> 2) >> (8 * (group & 3))) & 0xffu;
    return asFloat(byte << 20) * 0x1p120f;
  }
};

/// BF16: the words of step s, lane by lane, are the operand; as binary16 times a power of two per row.
template <Operands O>
struct PanelBlock<Format::Bf16, O> {
  static constexpr u32 kGroupSteps = O == Operands::F16 ? 4 : 0;
  Words4 codes[8];
  u32 top[2]; ///< F16: largest word of rows g and g + 8

  template <typename Memory>
  NI_MEMBER void load(const BlockPlace &place) {
    NI_UNROLL
    for (u32 s = 0; s < 8; ++s)
      codes[s] = Memory::template get<Words4>(place.codes, s * 512);
  }
  NI_MEMBER void prepare() {
    if constexpr (O == Operands::F16) {
      top[0] = top[1] = 0;
      NI_UNROLL
      for (u32 s = 0; s < 8; ++s) {
        top[0] = larger(top[0], larger(topWord(codes[s].x), topWord(codes[s].z)));
        top[1] = larger(top[1], larger(topWord(codes[s].y), topWord(codes[s].w)));
      }
      NI_UNROLL
      for (u32 r = 0; r < 2; ++r)
        top[r] = topOfLanes<4>(top[r]);
    }
  }
  NI_MEMBER void fragment(u32 s, u32 (&a)[4]) const {
    a[0] = codes[s].x;
    a[1] = codes[s].y;
    a[2] = codes[s].z;
    a[3] = codes[s].w;
    if constexpr (O == Operands::F16)
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i)
        a[i] = halfPair(a[i], halfFactor(top[i & 1]));
  }
  NI_MEMBER float scale(u32, u32 r) const { return halfUnit(top[r]); }
};

/// Step s of a block: 16 k. `group` starts anew with every scale group and joins `sums` at its end. `units`, with F16: what
/// the rows of x were divided by, of columns 2 t and 2 t + 1.
template <Format F, Operands O>
NI_FN void multiplyStep(const PanelBlock<F, O> &block, u32 s, const u32 (&fragment)[4], u32 b0, u32 b1,
                        const float (&units)[2], float (&group)[4], float (&sums)[4]) {
  constexpr u32 kSteps = PanelBlock<F, O>::kGroupSteps;
  if constexpr (kSteps == 0) {
    multiplyOperands<O>(sums, fragment, b0, b1);
  } else {
    if (s % kSteps == 0)
      multiplyOperands<O, true>(group, fragment, b0, b1);
    else
      multiplyOperands<O>(group, fragment, b0, b1);
    if (s % kSteps == kSteps - 1)
      NI_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        const float scale = block.scale(s / kSteps, i >> 1);
        if constexpr (O == Operands::Bf16)
          sums[i] = fusedMultiplyAdd(group[i], scale, sums[i]);
        else if constexpr (F == Format::Bf16) // both are powers of two, and one may be large where the other is small
          sums[i] = fusedMultiplyAdd(group[i], units[i & 1] * scale, sums[i]);
        else
          sums[i] = fusedMultiplyAdd(group[i] * units[i & 1], scale, sums[i]);
      }
  }
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_PANEL_BLOCK_CUH
