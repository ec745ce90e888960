#include "inspect/ReferenceSource.h"

#include "inspect/ReferenceDecoder.h"

#include <cstring>

namespace ninfer {

namespace {

/// The bytes of one block. Every type below is a table of fields at fixed byte offsets.
class Fields {
public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint32_t u8(size_t at) const { return std::to_integer<uint32_t>(bytes_[at]); }
  int32_t i8(size_t at) const {
    const uint32_t u = u8(at);
    return u < 128 ? int32_t(u) : int32_t(u) - 256;
  }
  uint32_t u16(size_t at) const { return u8(at) + 256 * u8(at + 1); }
  double f16(size_t at) const { return referenceF16(u16(at)); }
  /// `count` bits from bit `bit` of the byte at `at` on; may run into the bytes behind.
  uint32_t bits(size_t at, size_t bit, uint32_t count) const {
    uint32_t out = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const size_t b = bit + i;
      out += ((u8(at + b / 8) >> (b % 8)) % 2) << i;
    }
    return out;
  }

private:
  std::span<const std::byte> bytes_;
};

int32_t nonLinear(uint32_t index) {
  static const int32_t values[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
  return values[index];
}

/// Four-bit field of element i of a 32-element block: the low nibbles are elements 0..15.
uint32_t nibble32(const Fields &f, size_t at, size_t i) {
  return i < 16 ? f.u8(at + i) % 16 : f.u8(at + i - 16) / 16;
}

/// Exact minuend and subtrahend of element i (value = first - second); both fit binary32.
struct Parts {
  double first, second;
};

/// Six-bit scale (`minimum` false) or minimum of sub-block j of Q4_K and Q5_K. The twelve bytes at
/// 4: bytes 0..3 scales 0..3 with the two upper bits of scales 4..7 on top, bytes 4..7 the same for
/// the minimums, bytes 8..11 the lower four bits of scales 4..7 and of minimums 4..7.
uint32_t sixBits(const Fields &f, size_t j, bool minimum) {
  const size_t own = 4 + (minimum ? 4 : 0);
  if (j < 4)
    return f.bits(own + j, 0, 6);
  return f.bits(4 + 8 + j - 4, minimum ? 4 : 0, 4) + 16 * f.bits(own + j - 4, 6, 2);
}

Parts partsOf(SourceType type, const Fields &f, size_t i) {
  switch (type) {
  case SourceType::Q4_1:
    return {f.f16(0) * nibble32(f, 4, i), -f.f16(2)};
  case SourceType::Q5_1:
    return {f.f16(0) * (nibble32(f, 8, i) + 16 * f.bits(4, i, 1)), -f.f16(2)};
  case SourceType::Q2_K: {
    // 16 sub-blocks of 16; element i is the i/32 % 4-th pair of bits of byte i % 32 of its half.
    const uint32_t packed = f.u8(i / 16);
    const uint32_t code = f.bits(16 + i / 128 * 32 + i % 32, 2 * (i / 32 % 4), 2);
    return {f.f16(80) * (packed % 16) * code, f.f16(82) * (packed / 16)};
  }
  case SourceType::Q3_K: {
    const size_t j = i / 16;
    const uint32_t low = f.bits(96 + j % 8, j < 8 ? 0 : 4, 4);
    const uint32_t high = f.bits(104 + j % 4, 2 * (j / 4), 2);
    const int32_t scale = int32_t(low + 16 * high) - 32;
    const uint32_t two = f.bits(32 + i / 128 * 32 + i % 32, 2 * (i / 32 % 4), 2);
    const int32_t code = int32_t(two + 4 * f.bits(i % 32, i / 32, 1)) - 4;
    return {f.f16(108) * scale * code, 0};
  }
  case SourceType::Q4_K:
  case SourceType::Q5_K: {
    const size_t j = i / 32, codes = type == SourceType::Q4_K ? 16 : 48;
    uint32_t code = f.bits(codes + i / 64 * 32 + i % 32, 4 * (j % 2), 4);
    if (type == SourceType::Q5_K)
      code += 16 * f.bits(16 + i % 32, j, 1);
    return {f.f16(0) * sixBits(f, j, false) * code, f.f16(2) * sixBits(f, j, true)};
  }
  case SourceType::Q6_K: {
    const size_t half = i / 128, in = i % 128;
    const uint32_t low = f.bits(half * 64 + in % 64, in < 64 ? 0 : 4, 4);
    const uint32_t high = f.bits(128 + half * 32 + in % 32, 2 * (in / 32), 2);
    return {f.f16(208) * f.i8(192 + i / 16) * (int32_t(low + 16 * high) - 32), 0};
  }
  default: { // IQ4_XS
    const size_t j = i / 32;
    const int32_t scale =
        int32_t(f.bits(4 + j / 2, 4 * (j % 2), 4) + 16 * f.bits(2, 2 * j, 2)) - 32;
    const uint32_t index = f.bits(8 + j * 16 + i % 16, i % 32 < 16 ? 0 : 4, 4);
    return {f.f16(0) * scale * nonLinear(index), 0};
  }
  }
}

} // namespace

ReferenceBlock referenceBlock(SourceType type, std::span<const std::byte> block) {
  const Fields f(block);
  ReferenceBlock out;
  out.scale = f.u16(0);
  for (size_t i = 0; i < 32; ++i) {
    switch (type) {
    case SourceType::Q8_0:
      out.codes[i] = f.i8(2 + i);
      break;
    case SourceType::Q4_0:
      out.codes[i] = int32_t(nibble32(f, 2, i)) - 8;
      break;
    case SourceType::Q5_0:
      out.codes[i] = int32_t(nibble32(f, 6, i) + 16 * f.bits(2, i, 1)) - 16;
      break;
    default: // IQ4_NL
      out.codes[i] = nonLinear(nibble32(f, 2, i));
      break;
    }
  }
  return out;
}

void referenceSourceRow(SourceType type, std::span<const std::byte> row, std::span<float> out) {
  const Fields f(row);
  switch (type) {
  case SourceType::F32:
    for (size_t i = 0; i < out.size(); ++i) {
      const uint32_t bits = f.u16(4 * i) + 65536u * f.u16(4 * i + 2);
      std::memcpy(&out[i], &bits, sizeof bits);
    }
    return;
  case SourceType::F16:
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = float(f.f16(2 * i));
    return;
  case SourceType::BF16:
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = referenceBf16(f.u16(2 * i));
    return;
  default:
    break;
  }
  const bool simple = type == SourceType::Q8_0 || type == SourceType::Q4_0 ||
                      type == SourceType::Q5_0 || type == SourceType::IQ4_NL;
  const size_t elements = simple || type == SourceType::Q4_1 || type == SourceType::Q5_1 ? 32 : 256;
  const size_t bytes = row.size() / (out.size() / elements);
  for (size_t b = 0; b < out.size() / elements; ++b) {
    const auto block = row.subspan(b * bytes, bytes);
    if (simple) {
      const ReferenceBlock words = referenceBlock(type, block);
      const double scale = referenceF16(words.scale);
      for (size_t i = 0; i < 32; ++i)
        out[b * 32 + i] = float(scale * words.codes[i]);
      continue;
    }
    const Fields fields(block);
    for (size_t i = 0; i < elements; ++i) {
      const Parts parts = partsOf(type, fields, i);
      // Both parts are exact; a difference rounded to 53 bits and then to 24 is rounded once.
      out[b * elements + i] = float(parts.first - parts.second);
    }
  }
}

} // namespace ninfer
