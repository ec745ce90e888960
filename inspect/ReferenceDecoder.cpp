#include "inspect/ReferenceDecoder.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace ninfer {

namespace {

constexpr uint64_t kMost = uint64_t(1) << 62;

uint64_t roundUp(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

/// (-1)^sign * significand * 2^exponent.
double power(bool negative, uint32_t significand, int exponent) {
  const double magnitude = std::ldexp(double(significand), exponent);
  return negative ? -magnitude : magnitude;
}

uint32_t byteAt(std::span<const std::byte> bytes, uint64_t at) {
  return std::to_integer<uint32_t>(bytes[at]);
}

/// Little-endian word of `count` bytes.
uint32_t wordAt(std::span<const std::byte> bytes, uint64_t at, int count) {
  uint32_t word = 0;
  for (int i = count; i-- > 0;)
    word = word * 256 + byteAt(bytes, at + uint64_t(i));
  return word;
}

struct GroupedFacts {
  uint32_t bits, group;
};

std::optional<GroupedFacts> groupedFacts(Format format) {
  switch (format) {
  case Format::Q4G64_F16S:
    return GroupedFacts{4, 64};
  case Format::Q5G64_F16S:
    return GroupedFacts{5, 64};
  case Format::Q6G64_F16S:
    return GroupedFacts{6, 64};
  case Format::W8G32_F16S:
    return GroupedFacts{8, 32};
  default:
    return std::nullopt;
  }
}

/// Signed code of element k whose row starts at byte `base` and `high` of the two planes.
int32_t groupedCode(std::span<const std::byte> object, uint32_t bits, uint64_t base, uint64_t high,
                    uint64_t k) {
  uint32_t u;
  if (bits == 8) {
    u = byteAt(object, base + k);
  } else {
    u = byteAt(object, base + k / 2);
    u = k % 2 == 0 ? u % 16 : u / 16;
    if (bits == 5)
      u += 16 * ((byteAt(object, high + k / 8) >> (k % 8)) % 2);
    if (bits == 6)
      u += 16 * ((byteAt(object, high + k / 4) >> (2 * (k % 4))) % 4);
  }
  return u < (1u << (bits - 1)) ? int32_t(u) : int32_t(u) - int32_t(1u << bits);
}

/// Byte of the NVFP4 scale plane that belongs to row n, group j.
uint64_t tiledScale(uint64_t n, uint64_t j, uint64_t columns) {
  return ((n / 128) * (columns / 64) + j / 4) * 512 + (n % 32) * 16 + ((n % 128) / 32) * 4 + j % 4;
}

template <size_t kWords>
std::array<double, kWords> tableOf(double (*decode)(uint32_t)) {
  std::array<double, kWords> table;
  for (uint32_t word = 0; word < kWords; ++word)
    table[word] = decode(word);
  return table;
}

} // namespace

double referenceF16(uint32_t word) {
  const bool negative = word >= 0x8000;
  const uint32_t exponent = word / 1024 % 32, fraction = word % 1024;
  if (exponent == 31)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
           : negative    ? -std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::infinity();
  return exponent == 0 ? power(negative, fraction, -24)
                       : power(negative, 1024 + fraction, int(exponent) - 25);
}

float referenceBf16(uint32_t word) {
  const uint32_t bits = word * 65536u;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

double referenceE4m3(uint32_t word) {
  const bool negative = word >= 0x80;
  const uint32_t exponent = word / 8 % 16, fraction = word % 8;
  if (exponent == 15 && fraction == 7)
    return std::numeric_limits<double>::quiet_NaN();
  return exponent == 0 ? power(negative, fraction, -9)
                       : power(negative, 8 + fraction, int(exponent) - 10);
}

double referenceE2m1(uint32_t word) {
  const bool negative = word >= 8;
  const uint32_t exponent = word / 2 % 4, fraction = word % 2;
  return exponent == 0 ? power(negative, fraction, -1)
                       : power(negative, 2 + fraction, int(exponent) - 2);
}

std::optional<ReferenceLayout> referenceLayout(Format format, std::span<const uint64_t> shape) {
  ReferenceLayout out;
  out.format = format;
  out.columns = shape.empty() ? 1 : shape.back();
  out.rows = 1;
  if (out.columns == 0 || out.columns > kMost)
    return std::nullopt;
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    if (shape[i] == 0 || out.rows > kMost / shape[i])
      return std::nullopt;
    out.rows *= shape[i];
  }
  // No word takes more than four bytes, and padding at most 128 words per row.
  if (out.rows > kMost / 4 / (out.columns + 128))
    return std::nullopt;
  out.paddedColumns = out.columns;
  const auto place = [&](size_t plane, uint64_t alignment, uint64_t bytes) {
    out.planes[plane] = {roundUp(out.bytes, alignment), bytes};
    out.bytes = out.planes[plane].offset + bytes;
  };
  if (const auto facts = groupedFacts(format)) {
    if (shape.size() != 2)
      return std::nullopt;
    out.paddedColumns = roundUp(out.columns, 128);
    out.groupColumns = facts->group;
    out.groups = roundUp(out.columns, facts->group) / facts->group;
    out.storedGroups = out.paddedColumns / facts->group;
    const uint64_t perGroup = facts->bits == 8 ? facts->group : facts->group / 2;
    const uint64_t all = out.rows * out.storedGroups;
    place(0, 1, all * perGroup);
    if (facts->bits == 5 || facts->bits == 6)
      place(1, 256, all * (facts->bits == 5 ? 8 : 16));
    place(2, 256, all * 2);
    return out;
  }
  switch (format) {
  case Format::BF16:
    place(0, 1, out.rows * out.columns * 2);
    return out;
  case Format::FP32:
  case Format::I32:
    place(0, 1, out.rows * out.columns * 4);
    return out;
  case Format::NVFP4:
    if (shape.size() != 2 || out.rows % 128 != 0 || out.columns % 64 != 0)
      return std::nullopt;
    out.groupColumns = 16;
    out.groups = out.storedGroups = out.columns / 16;
    place(0, 1, out.rows * out.columns / 2);
    place(1, 256, out.rows * out.groups);
    place(2, 1, 4);
    return out;
  case Format::FP8_E4M3FN_ROW_BF16S:
    if (shape.size() != 2)
      return std::nullopt;
    out.groupColumns = out.columns;
    out.groups = out.storedGroups = 1;
    place(0, 1, out.rows * out.columns);
    place(1, 256, out.rows * 2);
    return out;
  default:
    return std::nullopt;
  }
}

void readReferenceRow(const ReferenceLayout &layout, std::span<const std::byte> object, uint64_t n,
                      ReferenceRow &row) {
  row.codes.resize(layout.columns);
  row.scales.resize(layout.groups);
  row.divisor = 0;
  if (const auto facts = groupedFacts(layout.format)) {
    const uint64_t perGroup = facts->bits == 8 ? facts->group : facts->group / 2;
    const uint64_t highGroup = facts->bits == 5 ? 8 : 16;
    const uint64_t firstGroup = n * layout.storedGroups;
    for (uint64_t k = 0; k < layout.columns; ++k)
      row.codes[k] =
          groupedCode(object, facts->bits, layout.planes[0].offset + firstGroup * perGroup,
                      layout.planes[1].offset + firstGroup * highGroup, k);
    for (uint64_t g = 0; g < layout.groups; ++g)
      row.scales[g] = wordAt(object, layout.planes[2].offset + 2 * (firstGroup + g), 2);
    return;
  }
  switch (layout.format) {
  case Format::BF16:
    for (uint64_t k = 0; k < layout.columns; ++k)
      row.codes[k] = int32_t(wordAt(object, 2 * (n * layout.columns + k), 2));
    return;
  case Format::FP32:
  case Format::I32:
    for (uint64_t k = 0; k < layout.columns; ++k)
      row.codes[k] = int32_t(wordAt(object, 4 * (n * layout.columns + k), 4));
    return;
  case Format::NVFP4:
    for (uint64_t k = 0; k < layout.columns; ++k) {
      const uint32_t pair = byteAt(object, (n * layout.columns + k) / 2);
      row.codes[k] = int32_t(k % 2 == 0 ? pair % 16 : pair / 16);
    }
    for (uint64_t j = 0; j < layout.groups; ++j)
      row.scales[j] = byteAt(object, layout.planes[1].offset + tiledScale(n, j, layout.columns));
    row.divisor = wordAt(object, layout.bytes - 4, 4);
    return;
  default: // FP8 with row scales
    for (uint64_t k = 0; k < layout.columns; ++k)
      row.codes[k] = int32_t(byteAt(object, n * layout.columns + k));
    row.scales[0] = wordAt(object, layout.planes[1].offset + 2 * n, 2);
    return;
  }
}

void referenceValues(const ReferenceLayout &layout, const ReferenceRow &row, std::span<float> out) {
  static const auto e4m3 = tableOf<256>(referenceE4m3);
  static const auto e2m1 = tableOf<16>(referenceE2m1);
  const auto fromBits = [](uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  };
  const uint64_t columns = layout.columns, group = layout.groupColumns;
  switch (layout.format) {
  case Format::BF16:
    for (uint64_t k = 0; k < columns; ++k)
      out[k] = referenceBf16(uint32_t(row.codes[k]));
    return;
  case Format::FP32:
    for (uint64_t k = 0; k < columns; ++k)
      out[k] = fromBits(uint32_t(row.codes[k]));
    return;
  case Format::I32:
    for (uint64_t k = 0; k < columns; ++k)
      out[k] = float(double(row.codes[k]));
    return;
  case Format::NVFP4: {
    // A quotient of two numbers of at most 24 bits, rounded to 53 and then to 24, is rounded once.
    const double divisor = double(fromBits(row.divisor));
    for (uint64_t g = 0; g < layout.groups; ++g) {
      const double scale = e4m3[row.scales[g] % 256];
      for (uint64_t k = g * group; k < (g + 1) * group; ++k)
        out[k] = float(e2m1[uint32_t(row.codes[k]) % 16] * scale / divisor);
    }
    return;
  }
  case Format::FP8_E4M3FN_ROW_BF16S: {
    const double scale = double(referenceBf16(row.scales[0]));
    for (uint64_t k = 0; k < columns; ++k)
      out[k] = float(e4m3[uint32_t(row.codes[k]) % 256] * scale);
    return;
  }
  default:
    for (uint64_t g = 0; g < layout.groups; ++g) {
      const double scale = referenceF16(row.scales[g]);
      const uint64_t last = (g + 1) * group < columns ? (g + 1) * group : columns;
      for (uint64_t k = g * group; k < last; ++k)
        out[k] = float(scale * double(row.codes[k]));
    }
  }
}

std::optional<uint64_t> firstGapByte(const ReferenceLayout &layout,
                                     std::span<const std::byte> object) {
  uint64_t end = 0;
  for (const ReferenceLayout::Plane &plane : layout.planes) {
    if (plane.bytes == 0)
      continue;
    for (uint64_t at = end; at < plane.offset; ++at)
      if (byteAt(object, at) != 0)
        return at;
    end = plane.offset + plane.bytes;
  }
  return std::nullopt;
}

} // namespace ninfer
