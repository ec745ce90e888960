// Decoders against the value formula of each format, rounding against a search over all words of
// the format.
#include "artifact/formats/Words.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

using namespace ninfer;

namespace {

/// Value of a word by the textbook formula, in double. NaN for words of the top exponent that are
/// not finite.
double formula(uint32_t word, int exponentBits, int fractionBits, bool topIsSpecial) {
  const int bias = (1 << (exponentBits - 1)) - 1;
  const uint32_t fraction = word & ((1u << fractionBits) - 1);
  const int exponent = int(word >> fractionBits) & ((1 << exponentBits) - 1);
  const double sign = word >> (exponentBits + fractionBits) & 1 ? -1 : 1;
  if (topIsSpecial && exponent == (1 << exponentBits) - 1)
    return fraction ? std::nan("") : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(double(fraction), 1 - bias - fractionBits);
  return sign * std::ldexp(1.0 + double(fraction) / double(1u << fractionBits), exponent - bias);
}

void expectSame(float actual, double expected, uint32_t word) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << word;
    return;
  }
  EXPECT_EQ(double(actual), expected) << word;
  EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << word;
}

TEST(Decode, EveryWord) {
  for (uint32_t word = 0; word < 0x10000; ++word) {
    expectSame(decodeF16(uint16_t(word)), formula(word, 5, 10, true), word);
    expectSame(decodeBf16(uint16_t(word)), formula(word, 8, 7, true), word);
  }
  for (uint32_t word = 0; word < 0x100; ++word)
    expectSame(decodeE4m3fn(uint8_t(word)),
               (word & 0x7f) == 0x7f ? std::nan("") : formula(word, 4, 3, false), word);
  for (uint32_t word = 0; word < 16; ++word)
    expectSame(decodeE2m1(uint8_t(word)), formula(word, 2, 1, false), word);
  const double e2m1[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};
  for (uint32_t word = 0; word < 8; ++word)
    EXPECT_EQ(decodeE2m1(uint8_t(word)), e2m1[word]);
}

TEST(Decode, NanPayloadsSurvive) {
  EXPECT_EQ(std::bit_cast<uint32_t>(decodeBf16(0xffa5)), 0xffa50000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(decodeBf16(0x7f81)), 0x7f810000u);
}

TEST(Decode, SmallestSubnormals) {
  EXPECT_EQ(decodeF16(0x0001), 5.960464477539063e-08f);
  EXPECT_EQ(decodeF16(0x03ff), 0x1.ff8p-15f);
  EXPECT_EQ(decodeE4m3fn(0x01), 0x1p-9f);
  EXPECT_EQ(decodeE4m3fn(0x7e), 448.0f);
  EXPECT_EQ(decodeF16(0x7bff), 65504.0f);
}

TEST(Decode, SignExtend) {
  for (uint32_t bits : {4u, 5u, 6u, 8u})
    for (uint32_t word = 0; word < 1u << bits; ++word)
      EXPECT_EQ(signExtend(word, bits), int(word) - (word >> (bits - 1) ? 1 << bits : 0));
}

/// Nearest word by search over all finite magnitudes of a format, ties to the even word.
class Nearest {
public:
  Nearest(int exponentBits, int fractionBits, bool topIsSpecial, uint32_t maxFinite)
      : width_(exponentBits + fractionBits) {
    for (uint32_t word = 0; word <= maxFinite; ++word)
      values_.push_back(formula(word, exponentBits, fractionBits, topIsSpecial));
    // Where the next word would lie if the exponent range had no end: the overflow threshold.
    values_.push_back(2 * values_[maxFinite] - values_[maxFinite - 1]);
  }

  /// Magnitude word; the count of finite words stands for "beyond".
  uint32_t magnitude(double value) const {
    const auto above = std::lower_bound(values_.begin(), values_.end(), value);
    if (above == values_.end())
      return uint32_t(values_.size() - 1);
    const auto word = uint32_t(above - values_.begin());
    if (*above == value || word == 0)
      return word;
    const double up = *above - value, down = value - values_[word - 1];
    return up < down || (up == down && word % 2 == 0) ? word : word - 1;
  }
  uint32_t sign(float value) const { return uint32_t(std::signbit(value)) << width_; }
  uint32_t words() const { return uint32_t(values_.size() - 1); }
  double value(uint32_t word) const { return values_[word]; }

private:
  int width_;
  std::vector<double> values_;
};

template <typename Round>
void checkRounding(const Nearest &nearest, uint32_t beyond, Round round) {
  const auto check = [&](float value) {
    const uint32_t expected =
        std::min(nearest.magnitude(std::fabs(double(value))), beyond) | nearest.sign(value);
    ASSERT_EQ(uint32_t(round(value)), expected) << std::hexfloat << value;
  };
  // Every word, every midpoint, and the binary32 neighbours of both.
  for (uint32_t word = 0; word < nearest.words(); ++word)
    for (const double point :
         {nearest.value(word), (nearest.value(word) + nearest.value(word + 1)) / 2}) {
      const float value = float(point);
      for (const float probe :
           {value, std::nextafter(value, INFINITY), std::nextafter(value, -INFINITY)})
        if (std::isfinite(probe)) {
          check(probe);
          check(-probe);
        }
    }
  std::mt19937 random(7);
  for (int i = 0; i < 300000; ++i) {
    const float value = std::bit_cast<float>(uint32_t(random()));
    if (std::isfinite(value))
      check(value);
  }
}

TEST(Round, ToF16) { checkRounding(Nearest(5, 10, true, 0x7bff), 0x7c00, roundToF16); }
TEST(Round, ToBf16) { checkRounding(Nearest(8, 7, true, 0x7f7f), 0x7f80, roundToBf16); }
TEST(Round, ToE4m3fn) { checkRounding(Nearest(4, 3, false, 0x7e), 0x7f, roundToE4m3fn); }

TEST(Round, NonFinite) {
  EXPECT_EQ(roundToF16(INFINITY), 0x7c00);
  EXPECT_EQ(roundToF16(-INFINITY), 0xfc00);
  EXPECT_EQ(roundToF16(65520.0f), 0x7c00);
  EXPECT_EQ(roundToF16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(roundToF16(std::bit_cast<float>(0x7f800001u)) & 0x7e00, 0x7e00);
  EXPECT_EQ(roundToF16(std::bit_cast<float>(0xff800001u)) & 0xfe00, 0xfe00);
  EXPECT_EQ(roundToBf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
  EXPECT_EQ(roundToBf16(-INFINITY), 0xff80);
  EXPECT_EQ(roundToE4m3fn(INFINITY), 0x7f);
  EXPECT_EQ(roundToE4m3fn(464.0f), 0x7e);
  EXPECT_EQ(roundToE4m3fn(-465.0f), 0xff);
  EXPECT_EQ(roundToE4m3fn(-0.0f), 0x80);
}

TEST(Validity, Scales) {
  for (uint32_t word = 0; word < 0x10000; ++word) {
    const bool f16 = !(word & 0x8000) && std::isfinite(formula(word, 5, 10, true));
    const bool bf16 = !(word & 0x8000) && std::isfinite(formula(word, 8, 7, true));
    EXPECT_EQ(isValidF16Scale(uint16_t(word)), f16) << word;
    EXPECT_EQ(isValidBf16Scale(uint16_t(word)), bf16) << word;
  }
  for (uint32_t word = 0; word < 0x100; ++word) {
    EXPECT_EQ(isValidE4m3fnScale(uint8_t(word)), word <= 0x7e) << word;
    EXPECT_EQ(isValidE4m3fnCode(uint8_t(word)), word != 0x7f && word != 0xff) << word;
  }
  EXPECT_TRUE(isValidDivisor(0x00000001));
  EXPECT_TRUE(isValidDivisor(0x7f7fffff));
  for (uint32_t word : {0u, 0x80000000u, 0x80000001u, 0x7f800000u, 0x7fc00000u, 0xff800000u})
    EXPECT_FALSE(isValidDivisor(word)) << word;
}

TEST(Reconstruct, Formulas) {
  EXPECT_EQ(reconstructGrouped(0x0010, 7), 6.67572021484375e-06f);
  EXPECT_EQ(reconstructGrouped(0x7bff, -127), -65504.0f * 127);
  EXPECT_EQ(reconstructRowScaled(0x3f80, 0x7e), 448.0f);
  EXPECT_EQ(reconstructRowScaled(0x0001, 0x01), 0x1p-142f)
      << "the smallest product is a binary32 subnormal";
  EXPECT_EQ(reconstructRowScaled(0x7f7f, 0x7e), INFINITY);
  EXPECT_EQ(reconstructBlockScaled(0x38, 7, 0x40000000), 3.0f);
}

} // namespace
