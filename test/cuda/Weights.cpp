#include "test/cuda/Weights.h"

#include "artifact/formats/Words.h"

#include <cstdlib>
#include <cstring>
#include <iostream>

namespace ninfer::cuda {

namespace {

[[noreturn]] void stop(const Error &error) {
  std::cerr << error.render();
  std::abort();
}

/// A scale word: mostly ordinary, sometimes the extremes.
uint16_t randomF16Scale(std::mt19937_64 &random) {
  const uint64_t draw = random() % 64;
  return draw == 0 ? 0x0001 : draw == 1 ? 0x03ff : uint16_t(0x1c00 + random() % 0x0c00);
}

void fillGrouped(Weight &w, std::mt19937_64 &random) {
  const FormatInfo &info = formatInfo(w.geometry.format);
  const uint64_t groups = w.geometry.logicalGroupsPerRow();
  std::vector<int8_t> codes(w.n() * w.k());
  std::vector<uint16_t> scales(w.n() * groups);
  for (uint64_t n = 0; n < w.n(); ++n)
    for (uint64_t g = 0; g < groups; ++g) {
      const bool zero = random() % 16 == 0;
      scales[n * groups + g] = zero ? 0 : randomF16Scale(random);
      for (uint64_t k = g * info.groupSize; k < std::min<uint64_t>((g + 1) * info.groupSize, w.k()); ++k)
        codes[n * w.k() + k] =
            zero ? int8_t(0) : int8_t(info.qmin + int32_t(random() % uint32_t(info.qmax - info.qmin + 1)));
    }
  if (Status s = encodeRows(w.geometry, 0, GroupedRows{codes, scales}, w.object); !s.ok())
    stop(s.error());
}

void fillRowScaled(Weight &w, std::mt19937_64 &random) {
  std::vector<uint8_t> codes(w.n() * w.k());
  std::vector<uint16_t> scales(w.n());
  for (uint64_t n = 0; n < w.n(); ++n) {
    scales[n] = uint16_t(0x3a00 + random() % 0x0300);
    for (uint64_t k = 0; k < w.k(); ++k)
      do
        codes[n * w.k() + k] = uint8_t(random());
      while (!isValidE4m3fnCode(codes[n * w.k() + k]));
  }
  if (Status s = encodeRows(w.geometry, 0, RowScaledRows{codes, scales}, w.object); !s.ok())
    stop(s.error());
}

void fillBlockScaled(Weight &w, std::mt19937_64 &random) {
  std::vector<uint8_t> codes(w.n() * w.k()), scales(w.n() * w.k() / 16);
  for (uint8_t &code : codes)
    code = uint8_t(random() & 15);
  for (uint8_t &scale : scales)
    scale = random() % 32 == 0 ? uint8_t(random() % 8) : uint8_t(0x28 + random() % 0x20);
  const float divisor = 37.25f;
  uint32_t word;
  std::memcpy(&word, &divisor, 4);
  if (Status s = encodeRows(w.geometry, 0, BlockScaledRows{codes, scales, word}, w.object); !s.ok())
    stop(s.error());
}

void fillDirect(Weight &w, std::mt19937_64 &random) {
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<std::byte> words(w.object.size());
  for (uint64_t i = 0; i < w.n() * w.k(); ++i) {
    const float value = normal(random);
    const uint16_t word = roundToBf16(value);
    if (w.geometry.format == Format::FP32)
      std::memcpy(words.data() + i * 4, &value, 4);
    else
      std::memcpy(words.data() + i * 2, &word, 2);
  }
  if (Status s = encodeRows(w.geometry, 0, DirectRows{words}, w.object); !s.ok())
    stop(s.error());
}

uint8_t byteAt(const Weight &w, uint64_t offset) { return uint8_t(w.object[offset]); }
uint16_t wordAt(const Weight &w, uint64_t offset) { return uint16_t(byteAt(w, offset) | byteAt(w, offset + 1) << 8); }

/// Bit fields of a packed panel.
class Panel {
public:
  Panel(uint8_t *bytes) : bytes_(bytes) {}
  void bits(uint64_t firstBit, uint32_t count, uint32_t value) {
    for (uint32_t i = 0; i < count; ++i)
      if (value >> i & 1)
        bytes_[(firstBit + i) / 8] |= uint8_t(1u << ((firstBit + i) % 8));
  }

private:
  uint8_t *bytes_;
};

} // namespace

std::vector<float> Weight::values(uint64_t row) const {
  std::vector<float> v(geometry.k);
  decodeRow(geometry, object, row, v);
  return v;
}

Weight randomWeight(ni::Format format, uint64_t n, uint64_t k, std::mt19937_64 &random) {
  Weight w;
  const auto f = static_cast<Format>(format);
  const uint64_t shape[] = {n, k};
  Result<EncodedGeometry> geometry = encodedGeometry(f, layoutOf(f), shape);
  if (!geometry.ok())
    stop(geometry.error());
  w.geometry = geometry.take();
  w.object.resize(w.geometry.totalBytes);
  switch (formatInfo(f).category) {
  case FormatCategory::GroupedInteger: fillGrouped(w, random); break;
  case FormatCategory::RowScaledFloat: fillRowScaled(w, random); break;
  case FormatCategory::BlockScaledFloat: fillBlockScaled(w, random); break;
  case FormatCategory::Direct: fillDirect(w, random); break;
  }
  return w;
}

std::vector<uint8_t> packedByDefinition(const Weight &w) {
  // Numbers as in the byte table of docs/cuda.md.
  const Format f = w.geometry.format;
  const uint64_t blocks = (w.k() + 127) / 128, panels = (w.n() + 15) / 16;
  const uint32_t lowBits = f == Format::BF16 ? 16 : f == Format::W8G32_F16S || f == Format::FP8_E4M3FN_ROW_BF16S ? 8 : 4;
  const uint32_t highBits = f == Format::Q5G64_F16S ? 1 : f == Format::Q6G64_F16S ? 2 : 0;
  const uint64_t codeBytes = 16 * 128 * lowBits / 8, highBytes = 16 * 128 * highBits / 8;
  const uint64_t group = w.geometry.groupSize, perBlock = group ? 128 / group : 0;
  const uint64_t scaleBytes = 16 * perBlock * (f == Format::NVFP4 ? 1 : 2);
  const uint64_t tail = f == Format::FP8_E4M3FN_ROW_BF16S ? 32 : f == Format::NVFP4 ? 4 : 0;
  const uint64_t highAt = blocks * codeBytes, scaleAt = highAt + blocks * highBytes, tailAt = scaleAt + blocks * scaleBytes;
  const uint64_t panelBytes = (tailAt + tail + 127) / 128 * 128;
  std::vector<uint8_t> packed(panels * panelBytes);
  std::vector<int8_t> codes(w.geometry.paddedK);
  std::vector<uint16_t> scales(w.geometry.groupsPerRow);
  for (uint64_t n = 0; n < w.n(); ++n) {
    uint8_t *bytes = packed.data() + n / 16 * panelBytes;
    Panel panel(bytes);
    const uint64_t row = n % 16, r = row / 8, g = row % 8;
    if (formatInfo(f).category == FormatCategory::GroupedInteger)
      readGroupedRow(w.geometry, w.object, n, codes, scales);
    for (uint64_t k = 0; k < w.k(); ++k) {
      uint32_t code = 0;
      switch (formatInfo(f).category) {
      case FormatCategory::GroupedInteger: code = uint32_t(codes[k]); break;
      case FormatCategory::RowScaledFloat: code = byteAt(w, codeByteOffset(w.geometry, n, k)); break;
      case FormatCategory::BlockScaledFloat: code = byteAt(w, codeByteOffset(w.geometry, n, k)) >> (k % 2 ? 4 : 0); break;
      case FormatCategory::Direct: code = wordAt(w, directWordOffset(w.geometry, n * w.k() + k)); break;
      }
      // k = 128 c + 16 s + 8 e + 2 t + b; lane = 4 g + t
      const uint64_t c = k / 128, s = k / 16 % 8, e = k / 8 % 2, t = k / 2 % 4, b = k % 2, lane = 4 * g + t;
      const uint64_t j = s / 2, i = s % 2 * 2 + e;
      if (lowBits == 4)
        panel.bits(((c * 2 + r) * 32 + lane) * 128 + j * 32 + 4 * i + 16 * b, 4, code & 15);
      else if (lowBits == 8)
        panel.bits((((c * 2 + r) * 2 + s / 4) * 32 + lane) * 128 + s % 4 * 32 + 8 * e + 16 * b, 8, code & 255);
      else
        panel.bits(((c * 8 + s) * 32 + lane) * 128 + (2 * e + r) * 32 + 16 * b, 16, code);
      if (highBits == 1)
        panel.bits(highAt * 8 + (c * 32 + lane) * 64 + r * 32 + (4 * j + i) + 16 * b, 1, code >> 4 & 1);
      if (highBits == 2)
        panel.bits(highAt * 8 + (c * 32 + lane) * 128 + (2 * r + j / 2) * 32 + 2 * (4 * (j % 2) + i) + 16 * b, 2,
                   code >> 4 & 3);
    }
    for (uint64_t q = 0; group && q < w.geometry.logicalGroupsPerRow(); ++q) {
      const uint64_t to = scaleAt + (q / perBlock * 16 + row) * perBlock * (f == Format::NVFP4 ? 1 : 2);
      const uint64_t from = scaleOffset(w.geometry, n, q);
      if (f == Format::NVFP4) {
        bytes[to + q % perBlock] = byteAt(w, from);
      } else {
        bytes[to + q % perBlock * 2] = byteAt(w, from);
        bytes[to + q % perBlock * 2 + 1] = byteAt(w, from + 1);
      }
    }
    if (f == Format::FP8_E4M3FN_ROW_BF16S)
      std::memcpy(bytes + tailAt + row * 2, w.object.data() + scaleOffset(w.geometry, n, 0), 2);
    if (f == Format::NVFP4) {
      const uint32_t divisor = readDivisor(w.geometry, w.object);
      std::memcpy(bytes + tailAt, &divisor, 4);
    }
  }
  return packed;
}

} // namespace ninfer::cuda
