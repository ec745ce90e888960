// Words of random tensors; what they are like: QwenPayload.h.
#include "QwenPayload.h"

#include "artifact/formats/Words.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace ninfer::testing {

namespace {

/// SplitMix64: the same numbers on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// Even in [low, high).
  float even(float low, float high) {
    return low + (high - low) * static_cast<float>(next() >> 40) * 0x1p-24f;
  }

private:
  uint64_t state_;
};

constexpr uint64_t kRowsPerBlock = 256;

class Filler {
public:
  Filler(const EncodedGeometry &g, const std::string &role, uint64_t tokens, uint64_t seed)
      : g_(g), role_(role), tokens_(tokens), random_(seed), object_(g.totalBytes) {}

  Result<std::vector<std::byte>> run() {
    for (uint64_t n = 0; n < g_.rows; n += kRowsPerBlock)
      NINFER_RETURN_IF_ERROR(block(n, std::min(kRowsPerBlock, g_.rows - n)));
    return std::move(object_);
  }

private:
  Status block(uint64_t n, uint64_t count) {
    switch (formatInfo(g_.format).category) {
    case FormatCategory::Direct:
      return direct(n, count);
    case FormatCategory::GroupedInteger:
      return grouped(n, count);
    case FormatCategory::RowScaledFloat:
      return rowScaled(n, count);
    case FormatCategory::BlockScaledFloat:
      return blockScaled(n, count);
    }
    return {};
  }

  bool ends(const char *end) const { return role_.ends_with(end); }

  float value() {
    if (ends("gdn/norm") || ends("norm1_weight") || ends("norm2_weight") || ends("norm_weight"))
      return random_.even(0.8f, 1.2f); // the norms without unit offset
    if (ends("norm"))
      return random_.even(-0.2f, 0.2f);
    if (ends("a_log")) // decay rate 1 .. 16
      return random_.even(0.0f, 2.77f);
    if (ends("dt_bias")) // softplus gives steps of 0.001 .. 0.1
      return random_.even(-6.9f, -2.25f);
    if (ends("convolution"))
      return random_.even(-0.87f, 0.87f); // four taps keep the variance
    if (ends("input_scale_divisor"))
      return 448.0f * 6.0f / 8.0f;                                  // activations up to 8
    const float limit = 1.7f / std::sqrt(static_cast<float>(g_.k)); // variance 1/K
    return random_.even(-limit, limit);
  }

  Status direct(uint64_t n, uint64_t count) {
    const size_t width = g_.format == Format::BF16 ? 2 : 4;
    std::vector<std::byte> words(count * g_.k * width);
    for (uint64_t i = 0; i < count * g_.k; ++i) {
      std::byte *to = &words[i * width];
      if (g_.format == Format::I32) {
        const uint64_t total = g_.rows * g_.k;
        const auto id = static_cast<int32_t>((n * g_.k + i) * tokens_ / total);
        std::memcpy(to, &id, 4);
      } else if (g_.format == Format::FP32) {
        const float x = value();
        std::memcpy(to, &x, 4);
      } else {
        const uint16_t word = roundToBf16(value());
        std::memcpy(to, &word, 2);
      }
    }
    return encodeRows(g_, n, DirectRows{words}, object_);
  }

  /// Fills `codes` with bytes mapped by `map`.
  template <typename T, typename Map>
  void draw(std::vector<T> &codes, Map map) {
    uint64_t bits = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      if (i % 8 == 0)
        bits = random_.next();
      codes[i] = map(static_cast<uint8_t>(bits));
      bits >>= 8;
    }
  }

  /// Even codes in [-m, m] have the variance m^2/3; scales spread by a third around the one that
  /// makes it 1/K.
  Status grouped(uint64_t n, uint64_t count) {
    const int m = formatInfo(g_.format).qmax;
    std::vector<int8_t> codes(count * g_.k);
    draw(codes, [m](uint8_t byte) { return static_cast<int8_t>(byte * (2 * m + 1) / 256 - m); });
    std::vector<uint16_t> scales(count * g_.logicalGroupsPerRow());
    const float scale = 1.73f / (static_cast<float>(m) * std::sqrt(static_cast<float>(g_.k)));
    for (uint16_t &word : scales)
      word = roundToF16(scale * random_.even(0.67f, 1.33f));
    return encodeRows(g_, n, GroupedRows{codes, scales}, object_);
  }

  Status rowScaled(uint64_t n, uint64_t count) {
    std::vector<uint8_t> codes(count * g_.k);
    // Exponents 2^-2 .. 2^1 of either sign: mean square about 2.3.
    draw(codes,
         [](uint8_t byte) { return static_cast<uint8_t>((byte & 0x80) | (0x28 + (byte & 0x1f))); });
    std::vector<uint16_t> scales(count);
    const float scale = 0.66f / std::sqrt(static_cast<float>(g_.k));
    for (uint16_t &word : scales)
      word = roundToBf16(scale * random_.even(0.67f, 1.33f));
    return encodeRows(g_, n, RowScaledRows{codes, scales}, object_);
  }

  Status blockScaled(uint64_t n, uint64_t count) {
    std::vector<uint8_t> codes(count * g_.k), scales(count * g_.k / 16);
    draw(codes, [](uint8_t byte) { return static_cast<uint8_t>(byte & 15); });
    draw(scales, [](uint8_t byte) { return static_cast<uint8_t>(0x38 + byte % 8); }); // 1 .. 1.875
    // E2M1 codes have the mean square 8.6, the scales 2.1.
    const float divisor = 4.2f * std::sqrt(static_cast<float>(g_.k));
    return encodeRows(g_, n, BlockScaledRows{codes, scales, std::bit_cast<uint32_t>(divisor)},
                      object_);
  }

  const EncodedGeometry &g_;
  const std::string &role_;
  uint64_t tokens_;
  Random random_;
  std::vector<std::byte> object_;
};

} // namespace

Result<std::vector<std::byte>> randomObject(const EncodedGeometry &geometry,
                                            const std::string &role, uint64_t tokens,
                                            uint64_t seed) {
  return Filler(geometry, role, tokens, seed).run();
}

} // namespace ninfer::testing
