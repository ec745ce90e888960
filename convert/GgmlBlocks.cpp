#include "convert/GgmlBlocks.h"

#include "artifact/formats/Words.h"
#include "support/Bytes.h"

namespace ninfer {

namespace {

/// Code values of the non-linear four-bit types.
constexpr int8_t kNonLinear4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

using Block = const uint8_t *;

float half(Block p) { return decodeF16(loadLe16(p)); }

// Codes of the 32-element blocks. Elements 0..15 are the low nibbles, 16..31 the high ones; the
// five-bit types keep bit 4 of element j at bit j of a 32-bit word.

void nibbles(Block q, int *out) {
  for (int j = 0; j < 16; ++j) {
    out[j] = q[j] & 15;
    out[j + 16] = q[j] >> 4;
  }
}

void fiveBits(Block high, Block q, int *out) {
  nibbles(q, out);
  uint32_t bits = loadLe32(high);
  for (int j = 0; j < 32; ++j)
    out[j] |= static_cast<int>((bits >> j) & 1) << 4;
}

/// Signed codes of the types that are scale * code.
void signedCodes(SourceType type, Block b, int *out) {
  switch (type) {
  case SourceType::Q8_0:
    for (int j = 0; j < 32; ++j)
      out[j] = static_cast<int8_t>(b[2 + j]);
    return;
  case SourceType::Q4_0:
    nibbles(b + 2, out);
    for (int j = 0; j < 32; ++j)
      out[j] -= 8;
    return;
  case SourceType::Q5_0:
    fiveBits(b + 2, b + 6, out);
    for (int j = 0; j < 32; ++j)
      out[j] -= 16;
    return;
  default: // IQ4_NL
    nibbles(b + 2, out);
    for (int j = 0; j < 32; ++j)
      out[j] = kNonLinear4[out[j]];
    return;
  }
}

void decodeScaled(SourceType type, Block b, float *out) {
  int codes[32];
  signedCodes(type, b, codes);
  float d = half(b);
  for (int j = 0; j < 32; ++j)
    out[j] = d * static_cast<float>(codes[j]);
}

/// Q4_1 and Q5_1: scale * code + minimum.
void decodeWithMinimum(SourceType type, Block b, float *out) {
  int codes[32];
  if (type == SourceType::Q4_1)
    nibbles(b + 4, codes);
  else
    fiveBits(b + 4, b + 8, codes);
  float d = half(b), m = half(b + 2);
  for (int j = 0; j < 32; ++j)
    out[j] = d * static_cast<float>(codes[j]) + m;
}

// 256-element blocks. Each is two halves of 128 or four quarters of 64; one byte plane serves
// several elements that lie 32 apart, two or four bits each.

void decodeQ2K(Block b, float *out) {
  Block scales = b, q = b + 16;
  float d = half(b + 80), dmin = half(b + 82);
  for (int i = 0; i < 256; ++i) {
    uint8_t sc = scales[i / 16];
    int code = (q[(i / 128) * 32 + i % 32] >> (2 * ((i % 128) / 32))) & 3;
    out[i] = d * static_cast<float>(sc & 15) * static_cast<float>(code) -
             dmin * static_cast<float>(sc >> 4);
  }
}

void decodeQ3K(Block b, float *out) {
  Block hmask = b, q = b + 32, packed = b + 96;
  float d = half(b + 108);
  float scales[16];
  for (int i = 0; i < 16; ++i) {
    int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
    int high = (packed[8 + i % 4] >> (2 * (i / 4))) & 3;
    scales[i] = d * static_cast<float>((low | high << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    int code = (q[(i / 128) * 32 + i % 32] >> (2 * ((i % 128) / 32))) & 3;
    if (!((hmask[i % 32] >> (i / 32)) & 1))
      code -= 4;
    out[i] = scales[i / 16] * static_cast<float>(code);
  }
}

/// Q4_K and Q5_K: eight sub-blocks with a six-bit scale and a six-bit minimum each, packed into 12
/// bytes.
void scalesAndMinimums(Block b, float *scales, float *minimums) {
  float d = half(b), dmin = half(b + 2);
  Block p = b + 4;
  for (int i = 0; i < 8; ++i) {
    int sc = i < 4 ? p[i] & 63 : (p[i + 4] & 15) | (p[i - 4] >> 6) << 4;
    int m = i < 4 ? p[i + 4] & 63 : (p[i + 4] >> 4) | (p[i] >> 6) << 4;
    scales[i] = d * static_cast<float>(sc);
    minimums[i] = dmin * static_cast<float>(m);
  }
}

void decodeQ4K(Block b, float *out) {
  float scales[8], minimums[8];
  scalesAndMinimums(b, scales, minimums);
  Block q = b + 16;
  for (int i = 0; i < 256; ++i) {
    int code = (q[(i / 64) * 32 + i % 32] >> (4 * ((i / 32) % 2))) & 15;
    out[i] = scales[i / 32] * static_cast<float>(code) - minimums[i / 32];
  }
}

void decodeQ5K(Block b, float *out) {
  float scales[8], minimums[8];
  scalesAndMinimums(b, scales, minimums);
  Block high = b + 16, q = b + 48;
  for (int i = 0; i < 256; ++i) {
    int code = (q[(i / 64) * 32 + i % 32] >> (4 * ((i / 32) % 2))) & 15;
    code |= ((high[i % 32] >> (i / 32)) & 1) << 4;
    out[i] = scales[i / 32] * static_cast<float>(code) - minimums[i / 32];
  }
}

void decodeQ6K(Block b, float *out) {
  Block low = b, high = b + 128, scales = b + 192;
  float d = half(b + 208);
  for (int i = 0; i < 256; ++i) {
    int inHalf = i % 128, h = i / 128;
    int code = (low[h * 64 + inHalf % 64] >> (4 * (inHalf / 64))) & 15;
    code |= ((high[h * 32 + inHalf % 32] >> (2 * (inHalf / 32))) & 3) << 4;
    float scale = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    out[i] = scale * static_cast<float>(code - 32);
  }
}

void decodeIq4Xs(Block b, float *out) {
  float d = half(b);
  uint32_t highBits = loadLe16(b + 2);
  Block lowBits = b + 4, q = b + 8;
  for (int i = 0; i < 256; ++i) {
    int g = i / 32;
    int scale =
        ((lowBits[g / 2] >> (4 * (g % 2))) & 15) | static_cast<int>((highBits >> (2 * g)) & 3) << 4;
    int code = kNonLinear4[(q[g * 16 + i % 16] >> (4 * ((i % 32) / 16))) & 15];
    out[i] = d * static_cast<float>(scale - 32) * static_cast<float>(code);
  }
}

using BlockDecoder = void (*)(Block, float *);

BlockDecoder largeBlockDecoder(SourceType type) {
  switch (type) {
  case SourceType::Q2_K:
    return decodeQ2K;
  case SourceType::Q3_K:
    return decodeQ3K;
  case SourceType::Q4_K:
    return decodeQ4K;
  case SourceType::Q5_K:
    return decodeQ5K;
  case SourceType::Q6_K:
    return decodeQ6K;
  default:
    return decodeIq4Xs;
  }
}

} // namespace

void decodeSourceRow(SourceType type, std::span<const std::byte> row, std::span<float> out) {
  auto p = reinterpret_cast<Block>(row.data());
  const SourceTypeInfo &info = sourceTypeInfo(type);
  switch (type) {
  case SourceType::F32:
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = floatFromBits(loadLe32(p + 4 * i));
    return;
  case SourceType::F16:
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = half(p + 2 * i);
    return;
  case SourceType::BF16:
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = decodeBf16(loadLe16(p + 2 * i));
    return;
  default:
    break;
  }
  size_t blocks = out.size() / info.blockElements;
  for (size_t i = 0; i < blocks; ++i, p += info.blockBytes) {
    float *to = out.data() + i * info.blockElements;
    if (movesExactlyIntoW8(type))
      decodeScaled(type, p, to);
    else if (info.blockElements == 32)
      decodeWithMinimum(type, p, to);
    else
      largeBlockDecoder(type)(p, to);
  }
}

std::optional<MoveFault> moveRowIntoW8(SourceType type, std::span<const std::byte> row,
                                       std::span<int8_t> codes, std::span<uint16_t> scales,
                                       MoveKind &kind) {
  constexpr uint16_t kSign = 0x8000;
  auto p = reinterpret_cast<Block>(row.data());
  const SourceTypeInfo &info = sourceTypeInfo(type);
  if (type != SourceType::Q8_0)
    kind = MoveKind::SameValues;
  for (size_t i = 0; i < scales.size(); ++i, p += info.blockBytes) {
    uint16_t d = loadLe16(p);
    uint16_t magnitude = d & (kSign - 1);
    if (!isValidF16Scale(magnitude))
      return MoveFault{i, "the scale is not finite", true};
    if (d == kSign)
      return MoveFault{i, "the scale is negative zero", false};
    int block[32];
    signedCodes(type, p, block);
    bool negate = (d & kSign) != 0;
    for (int j = 0; j < 32; ++j) {
      int code = d == 0 ? 0 : negate ? -block[j] : block[j];
      if (code < -127 || code > 127)
        return MoveFault{i,
                         "code " + std::to_string(block[j]) + " of element " + std::to_string(j) +
                             " is outside -127..127",
                         false};
      if (code != block[j])
        kind = MoveKind::SameValues;
      codes[i * 32 + static_cast<size_t>(j)] = static_cast<int8_t>(code);
    }
    scales[i] = magnitude;
  }
  return std::nullopt;
}

} // namespace ninfer
