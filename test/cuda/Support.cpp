#include "test/cuda/Support.h"

namespace ninfer::cuda {

std::vector<emulator::Options> allModes() {
  std::vector<emulator::Options> modes;
  for (auto copies : {emulator::Copies::Lazy, emulator::Copies::Eager})
    for (auto order : {emulator::Order::Forward, emulator::Order::Reverse, emulator::Order::Random}) {
      emulator::Options options;
      options.order = order;
      options.copies = copies;
      modes.push_back(options);
    }
  return modes;
}

std::vector<emulator::Options> threadOrders() {
  std::vector<emulator::Options> modes = allModes();
  modes.resize(3);
  return modes;
}

std::string describe(const emulator::Options &options) {
  const char *orders[] = {"forward", "reverse", "random"};
  return std::string(orders[int(options.order)]) + (options.copies == emulator::Copies::Lazy ? ", lazy" : ", eager");
}

uint16_t toBf16(double value) {
  // A power of two c with |value| + c having steps of one bfloat16 step of value: adding and subtracting c rounds once.
  if (value == 0)
    return std::signbit(value) ? 0x8000 : 0;
  int exponent;
  std::frexp(value, &exponent);
  const int step = std::max(exponent - 8, -133);
  const auto rounded = float(std::ldexp(std::nearbyint(std::ldexp(value, -step)), step));
  uint32_t bits;
  std::memcpy(&bits, &rounded, 4);
  return uint16_t(bits >> 16);
}

std::vector<uint16_t> randomBf16(size_t count, double sigma, std::mt19937_64 &random) {
  std::normal_distribution<double> normal(0, sigma);
  std::vector<uint16_t> words(count);
  for (uint16_t &word : words)
    word = toBf16(normal(random));
  return words;
}

namespace {

std::string mismatch(size_t i, const Expected &e, double actual, double bound) {
  char text[160];
  std::snprintf(text, sizeof text, "element %zu: expected %.9g, got %.9g, difference %.3g, bound %.3g", i, e.value, actual,
                std::fabs(actual - e.value), bound);
  return text;
}

} // namespace

std::string compareBf16(const std::vector<Expected> &expected, const uint16_t *actual) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const double y = bf16(actual[i]);
    // The value before rounding is within slack; rounding moves it by at most half a step (2^-134 below the normal range).
    const double bound = expected[i].slack + (std::fabs(expected[i].value) + expected[i].slack) * kBf16Unit + 0x1p-134;
    if (!(std::fabs(y - expected[i].value) <= bound))
      return mismatch(i, expected[i], y, bound);
  }
  return "";
}

std::string compareFloat(const std::vector<Expected> &expected, const float *actual) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const double bound = expected[i].slack + std::fabs(expected[i].value) * kFloatUnit + 0x1p-149;
    if (!(std::fabs(double(actual[i]) - expected[i].value) <= bound))
      return mismatch(i, expected[i], actual[i], bound);
  }
  return "";
}

} // namespace ninfer::cuda
