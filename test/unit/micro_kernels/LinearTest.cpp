// Linear and embedding kernels against double loops over weights that this file decodes from its own codes.
#include "test/unit/micro_kernels/Support.h"

#include <functional>

namespace ninfer::test {
namespace {

/// A weight in some format: stored planes and the exact value of every element.
struct Weight {
  int64_t n, k;
  std::vector<double> values;
  std::vector<Guarded> planes;
  const void *plane(size_t i) { return i < planes.size() ? planes[i].as<void>() : nullptr; }
  double at(int64_t r, int64_t c) const { return values[size_t(r * k + c)]; }
};

/// Positive finite binary16 words that are not too far from each other; sometimes zero or subnormal.
uint16_t f16Word(Random &random) {
  const int64_t kind = random.below(40);
  if (kind == 0)
    return 0;
  if (kind == 1)
    return uint16_t(1 + random.below(1023));
  return uint16_t(((8 + random.below(4)) << 10) | random.below(1024));
}
double f16Value(uint16_t w) {
  const int e = w >> 10, m = w & 1023;
  return e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, e - 25);
}
double e4m3Value(uint8_t w) {
  const int e = (w >> 3) & 15, m = w & 7;
  const double v = e == 0 ? std::ldexp(m, -9) : std::ldexp(8 + m, e - 10);
  return w & 0x80 ? -v : v;
}

Weight makeInt(int bits, int64_t n, int64_t k, uint64_t seed) {
  Random random{seed};
  const int64_t kp = (k + 127) / 128 * 128, group = bits == 8 ? 32 : 64, groups = kp / group;
  Weight w{n, k, std::vector<double>(size_t(n * k)), {}};
  const int64_t baseRow = bits == 8 ? kp : kp / 2, highRow = bits == 5 ? kp / 8 : bits == 6 ? kp / 4 : 0;
  w.planes.emplace_back(size_t(n * baseRow));
  if (highRow)
    w.planes.emplace_back(size_t(n * highRow));
  w.planes.emplace_back(size_t(n * groups * 2));
  auto *base = w.planes[0].as<uint8_t>();
  auto *high = highRow ? w.planes[1].as<uint8_t>() : nullptr;
  auto *scales = w.planes.back().as<uint16_t>();
  const int lowest = bits == 8 ? -127 : -(1 << (bits - 1)), highest = (1 << (bits - 1)) - 1;
  for (int64_t r = 0; r < n; ++r)
    for (int64_t g = 0; g < groups; ++g) {
      const uint16_t scale = g * group < k ? f16Word(random) : 0;
      scales[r * groups + g] = scale;
      for (int64_t l = 0; l < group; ++l) {
        const int64_t c = g * group + l;
        int code = 0;
        if (c < k && scale != 0) {
          const int64_t kind = random.below(8);
          code = kind == 0 ? lowest : kind == 1 ? highest : int(lowest + random.below(highest - lowest + 1));
        }
        if (c < k)
          w.values[size_t(r * k + c)] = code * f16Value(scale);
        const unsigned u = unsigned(code) & ((1u << bits) - 1);
        if (bits == 8) {
          base[r * baseRow + c] = uint8_t(u);
        } else {
          base[r * baseRow + c / 2] |= uint8_t((u & 15) << (c % 2 * 4));
          if (bits == 5)
            high[r * highRow + c / 8] |= uint8_t((u >> 4) << (c % 8));
          if (bits == 6)
            high[r * highRow + c / 4] |= uint8_t((u >> 4) << (c % 4 * 2));
        }
      }
    }
  return w;
}

Weight makeBf16(int64_t n, int64_t k, uint64_t seed) {
  Random random{seed};
  Weight w{n, k, {}, {}};
  w.planes.emplace_back(size_t(n * k * 2));
  for (int64_t i = 0; i < n * k; ++i) {
    const uint16_t word = uint16_t(std::bit_cast<uint32_t>(random.value()) >> 16);
    w.planes[0].as<uint16_t>()[i] = word;
    w.values.push_back(std::bit_cast<float>(uint32_t(word) << 16));
  }
  return w;
}

Weight makeFp32(int64_t n, int64_t k, uint64_t seed) {
  Random random{seed};
  Weight w{n, k, {}, {}};
  w.planes.emplace_back(size_t(n * k * 4));
  for (int64_t i = 0; i < n * k; ++i)
    w.values.push_back(w.planes[0].as<float>()[i] = random.value());
  return w;
}

Weight makeFp8Row(int64_t n, int64_t k, uint64_t seed) {
  Random random{seed};
  Weight w{n, k, {}, {}};
  w.planes.emplace_back(size_t(n * k));
  w.planes.emplace_back(size_t(n * 2));
  for (int64_t r = 0; r < n; ++r) {
    const uint16_t scale = r % 7 == 3 ? 0 : uint16_t(0x3b00 + random.below(0x100));
    w.planes[1].as<uint16_t>()[r] = scale;
    for (int64_t c = 0; c < k; ++c) {
      uint8_t code = uint8_t(random.below(256));
      code = (code & 0x7f) == 0x7f ? uint8_t(code - 1) : code;
      code = scale == 0 ? code & 0x80 : code;
      w.planes[0].as<uint8_t>()[r * k + c] = code;
      w.values.push_back(e4m3Value(code) * std::bit_cast<float>(uint32_t(scale) << 16));
    }
  }
  return w;
}

Weight makeNvfp4(int64_t n, int64_t k, uint64_t seed) {
  static const double magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  Random random{seed};
  Weight w{n, k, {}, {}};
  w.planes.emplace_back(size_t(n * k / 2));
  w.planes.emplace_back(size_t(n * k / 16));
  w.planes.emplace_back(4);
  const float divisor = 3.7f;
  *w.planes[2].as<float>() = divisor;
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < k; ++c) {
      const int64_t j = c / 16;
      uint8_t &scale = w.planes[1].as<uint8_t>()[((r / 128) * (k / 64) + j / 4) * 512 + (r % 32) * 16 +
                                                 ((r % 128) / 32) * 4 + j % 4];
      if (c % 16 == 0)
        scale = uint8_t(random.below(0x7f));
      const unsigned code = unsigned(random.below(16));
      w.planes[0].as<uint8_t>()[r * k / 2 + c / 2] |= uint8_t(code << (c % 2 * 4));
      const double value = magnitudes[code & 7] * e4m3Value(scale) / divisor;
      w.values.push_back(code & 8 ? -value : value);
    }
  return w;
}

using Linear = decltype(&ni_linear_q4_a16);
using PackFn = decltype(&ni_pack_f32);
using Embed = decltype(&ni_embed_q4);

struct Case {
  const char *name;
  std::function<Weight(int64_t, int64_t, uint64_t)> make;
  Linear linear;
  PackFn pack;
  MicroPack kind;
  int group;     ///< of the activation quantisation, 0: none
  double levels; ///< of the activation quantisation
  int64_t nStep, kStep; ///< shapes are rounded up to these
};

void PrintTo(const Case &test, std::ostream *out) { *out << test.name; }

auto ints(int bits) {
  return [bits](int64_t n, int64_t k, uint64_t seed) { return makeInt(bits, n, k, seed); };
}

const Case kCases[] = {
    {"bf16 f32", makeBf16, ni_linear_bf16_f32, ni_pack_f32, MicroPack::F32, 0, 0, 1, 1},
    {"fp32 f32", makeFp32, ni_linear_fp32_f32, ni_pack_f32, MicroPack::F32, 0, 0, 1, 1},
    {"fp8row f32", makeFp8Row, ni_linear_fp8row_f32, ni_pack_f32, MicroPack::F32, 0, 0, 1, 1},
    {"nvfp4 f32", makeNvfp4, ni_linear_nvfp4_f32, ni_pack_f32, MicroPack::F32, 0, 0, 128, 64},
    {"q4 f32", ints(4), ni_linear_q4_f32, ni_pack_f32, MicroPack::F32, 0, 0, 1, 1},
    {"q5 f32", ints(5), ni_linear_q5_f32, ni_pack_f32, MicroPack::F32, 0, 0, 1, 1},
    {"q6 f32", ints(6), ni_linear_q6_f32, ni_pack_f32, MicroPack::F32, 0, 0, 1, 1},
    {"w8 f32", ints(8), ni_linear_w8_f32, ni_pack_f32, MicroPack::F32, 0, 0, 1, 1},
    {"q4 a16", ints(4), ni_linear_q4_a16, ni_pack_a16g64, MicroPack::A16G64, 64, 32767, 1, 1},
    {"q5 a16", ints(5), ni_linear_q5_a16, ni_pack_a16g64, MicroPack::A16G64, 64, 32767, 1, 1},
    {"q6 a16", ints(6), ni_linear_q6_a16, ni_pack_a16g64, MicroPack::A16G64, 64, 32767, 1, 1},
    {"w8 a16", ints(8), ni_linear_w8_a16, ni_pack_a16g32, MicroPack::A16G32, 32, 32767, 1, 1},
    {"q4 a8", ints(4), ni_linear_q4_a8, ni_pack_a8g64, MicroPack::A8G64, 64, 127, 1, 1},
    {"q5 a8", ints(5), ni_linear_q5_a8, ni_pack_a8g64, MicroPack::A8G64, 64, 127, 1, 1},
    {"q6 a8", ints(6), ni_linear_q6_a8, ni_pack_a8g64, MicroPack::A8G64, 64, 127, 1, 1},
    {"w8 a8", ints(8), ni_linear_w8_a8, ni_pack_a8g32, MicroPack::A8G32, 32, 127, 1, 1},
};

/// Largest half step of the group that element c of a row is in.
double halfStep(const Case &test, const float *x, int64_t k, int64_t c) {
  if (test.group == 0)
    return 0;
  double amax = 0;
  const int64_t first = c / test.group * test.group;
  for (int64_t i = first; i < std::min(first + test.group, k); ++i)
    amax = std::max(amax, std::abs(double(x[i])));
  return amax / test.levels / 2;
}

void checkLinear(const Case &test, Weight &w, int64_t rows, int64_t nBegin, int64_t nEnd, Random &random) {
  const int64_t k = w.k;
  std::vector<float> values(size_t(rows * k));
  for (float &v : values)
    v = random.value();
  for (int64_t c = 0; c < std::min<int64_t>(64, k); ++c) // a group of zeros in one row
    values[size_t((rows - 1) * k + c)] = 0;
  Guarded x = guardedFloats(values);
  Working packed(size_t(microPackedBytes(test.kind, rows, k)));
  Working scratch(size_t(microLinearScratchBytes(test.kind, rows)));
  const int64_t range = nEnd - nBegin, ld = range + 3;
  std::vector<float> out = untouched(size_t(rows * ld));
  test.pack(x.as<float>(), rows, k, packed.data());
  test.linear(w.plane(0), w.plane(1), w.plane(2), packed.data(), rows, k, nBegin, nEnd, out.data(), ld,
              scratch.data());
  for (int64_t t = 0; t < rows; ++t) {
    std::vector<double> half(static_cast<size_t>(k));
    for (int64_t c = 0; c < k; ++c)
      half[size_t(c)] = halfStep(test, values.data() + t * k, k, c);
    for (int64_t n = nBegin; n < nEnd; ++n) {
      double exact = 0, size = 0, quantisation = 0;
      for (int64_t c = 0; c < k; ++c) {
        const double p = w.at(n, c) * values[size_t(t * k + c)];
        exact += p, size += std::abs(p), quantisation += std::abs(w.at(n, c)) * half[size_t(c)];
      }
      // Eight lanes at least add up at once, so no sum is longer than k/8; 40 for scales, products, lane sums.
      // A step and its reciprocal are rounded: the quantisation error may exceed half a step by 1e-4 of it at 8 bits.
      const double bound = quantisation * 1.01 + (double(k) / 8 + 40) * kUnit * (size + quantisation) + 1e-30;
      const float got = out[size_t(t * ld + n - nBegin)];
      ASSERT_LE(std::abs(got - exact), bound) << test.name << " n " << w.n << " k " << k << " rows " << rows << " row "
                                              << t << " output " << n << ": " << got << " for " << exact;
    }
    for (int64_t i = range; i < ld; ++i)
      ASSERT_TRUE(isUntouched(out[size_t(t * ld + i)])) << test.name << " wrote past the range";
  }
}

class LinearTest : public testing::TestWithParam<Case> {};

TEST_P(LinearTest, EveryRowCountAndRange) {
  NINFER_NEEDS_LEVEL();
  const Case &test = GetParam();
  Random random{7};
  const auto up = [](int64_t v, int64_t m) { return (v + m - 1) / m * m; };
  for (const auto &[n, k] : {std::pair<int64_t, int64_t>{37, 100}, {70, 576}, {33, 1}, {131, 640}, {9, 2080}, {1, 129}}) {
    Weight w = test.make(up(n, test.nStep), up(k, test.kStep), uint64_t(n * k));
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 22, 25}) {
      checkLinear(test, w, rows, 0, w.n, random);
      if (HasFatalFailure())
        return;
    }
    if (w.n > 6)
      for (int64_t rows : {1, 6, 18})
        checkLinear(test, w, rows, 3, w.n - 2, random);
    if (HasFatalFailure())
      return;
  }
}

TEST_P(LinearTest, ManyRows) {
  NINFER_NEEDS_LEVEL();
  const Case &test = GetParam();
  Random random{11};
  Weight w = test.make(test.nStep == 1 ? 40 : test.nStep, 192, 5);
  checkLinear(test, w, 67, 0, w.n, random);
}

/// Row counts around whole blocks; widths of one to three chunks of K, the last short or of one group; outputs that end in
/// the middle of a panel.
TEST_P(LinearTest, ManyRowsAtTheEdges) {
  NINFER_NEEDS_LEVEL();
  const Case &test = GetParam();
  Random random{12};
  const auto up = [](int64_t v, int64_t m) { return (v + m - 1) / m * m; };
  for (const int64_t k : {64, 513, 1100, 1472}) {
    Weight w = test.make(up(49, test.nStep), up(k, test.kStep), uint64_t(k));
    for (int64_t rows : {17, 63, 64, 65}) {
      checkLinear(test, w, rows, 0, w.n, random);
      if (HasFatalFailure())
        return;
    }
  }
}

/// Packing by parts writes what packing at once writes.
TEST(PackParts, SameBytes) {
  NINFER_NEEDS_LEVEL();
  const struct {
    MicroPack kind;
    void (*whole)(const float *, int64_t, int64_t, void *);
    void (*part)(const float *, int64_t, int64_t, int64_t, void *);
  } cases[] = {{MicroPack::F32, ni_pack_f32, ni_pack_part_f32},
               {MicroPack::A16G64, ni_pack_a16g64, ni_pack_part_a16g64},
               {MicroPack::A16G32, ni_pack_a16g32, ni_pack_part_a16g32},
               {MicroPack::A8G64, ni_pack_a8g64, ni_pack_part_a8g64},
               {MicroPack::A8G32, ni_pack_a8g32, ni_pack_part_a8g32}};
  Random random{14};
  for (const auto &test : cases)
    for (const int64_t rows : {1, 16, 17, 32, 49})
      for (const int64_t k : {1, 100, 640}) {
        std::vector<float> x(size_t(rows * k));
        for (float &v : x)
          v = random.value();
        const size_t bytes = size_t(microPackedBytes(test.kind, rows, k));
        Working whole(bytes), parts(bytes);
        test.whole(x.data(), rows, k, whole.data());
        for (int64_t first = 0; first < rows; first += kMicroPackRows)
          test.part(x.data() + first * k, first, rows, k, parts.data());
        ASSERT_EQ(std::memcmp(whole.data(), parts.data(), bytes), 0) << "rows " << rows << " k " << k;
      }
}

std::string caseName(const testing::TestParamInfo<Case> &info) {
  std::string name = info.param.name;
  name[name.find(' ')] = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Formats, LinearTest, testing::ValuesIn(kCases), caseName);

/// Of integer kernels with few rows (1..16): a row of the call has the same bits whatever rows are beside it and however
/// the outputs are cut.
void checkBits(const Case &test, int64_t k) {
  Random random{13};
  const int64_t most = kMicroDotRows, n = 77;
  Weight w = test.make(n, k, 29);
  std::vector<float> values(size_t(most * k));
  for (float &v : values)
    v = random.value();
  const auto product = [&](int64_t first, int64_t rows, int64_t step) {
    Working packed(size_t(microPackedBytes(test.kind, rows, k)));
    Working scratch(size_t(microLinearScratchBytes(test.kind, rows)));
    std::vector<float> out = untouched(size_t(rows * n));
    test.pack(values.data() + first * k, rows, k, packed.data());
    for (int64_t begin = 0; begin < n; begin += step)
      test.linear(w.plane(0), w.plane(1), w.plane(2), packed.data(), rows, k, begin, std::min(begin + step, n),
                  out.data() + begin, n, scratch.data());
    return out;
  };
  const std::vector<float> all = product(0, most, n);
  for (int64_t rows = 1; rows <= most; ++rows)
    for (const int64_t step : {n, int64_t(32), int64_t(5)}) {
      const std::vector<float> some = product(most - rows, rows, step);
      for (size_t i = 0; i < some.size(); ++i)
        ASSERT_EQ(std::bit_cast<uint32_t>(some[i]), std::bit_cast<uint32_t>(all[all.size() - some.size() + i]))
            << test.name << " rows " << rows << " outputs by " << step << " at " << i;
    }
}

TEST(LinearBits, DoNotDependOnTheOtherRows) {
  NINFER_NEEDS_LEVEL();
  for (const Case &test : kCases)
    if (test.group != 0) {
      for (const int64_t k : {700, 1100, 64}) {
        checkBits(test, k);
        if (HasFatalFailure())
          return;
      }
    }
}

/// Greatest codes against greatest activations: integer sums at their limits, on both sides.
void checkLimits(const Case &test, bool lowestCode, float value, int64_t rows) {
  const int64_t n = 33, k = 1024;
  const int bits = test.name[0] == 'w' ? 8 : test.name[1] - '0';
  Weight w = makeInt(bits, n, k, 3);
  const int lowest = bits == 8 ? -127 : -(1 << (bits - 1)), highest = (1 << (bits - 1)) - 1;
  const int code = lowestCode ? lowest : highest;
  const auto fill = [&](size_t plane, int byte) {
    std::memset(w.planes[plane].as<void>(), byte, w.planes[plane].bytes());
  };
  const size_t scales = w.planes.size() - 1;
  std::fill_n(w.planes[scales].as<uint16_t>(), w.planes[scales].bytes() / 2, uint16_t(0x3c00)); // 1.0
  fill(0, bits == 8 ? code : (code & 15) * 0x11);
  if (scales == 2)
    fill(1, bits == 5 ? (lowestCode ? 0xff : 0) : (code >> 4 & 3) * 0x55);
  Working packed(size_t(microPackedBytes(test.kind, rows, k)));
  Working scratch(size_t(microLinearScratchBytes(test.kind, rows)));
  std::vector<float> x(size_t(rows * k), value), out = untouched(size_t(rows * n));
  test.pack(x.data(), rows, k, packed.data());
  test.linear(w.plane(0), w.plane(1), w.plane(2), packed.data(), rows, k, 0, n, out.data(), n, scratch.data());
  const double exact = double(k) * code * value;
  for (float v : out)
    ASSERT_NEAR(v, exact, std::abs(exact) * (40 + double(k) / 8) * kUnit) << test.name << " rows " << rows;
}

TEST(LinearLimits, LargestCodesAndActivations) {
  NINFER_NEEDS_LEVEL();
  for (const Case &test : kCases)
    if (test.group != 0)
      for (const bool lowestCode : {false, true})
        for (const float value : {3.0f, -3.0f})
          for (const int64_t rows : {1, 2, 4, 8, 20}) {
            checkLimits(test, lowestCode, value, rows);
            if (HasFatalFailure())
              return;
          }
}

TEST(EmbedTest, RowsAreExact) {
  NINFER_NEEDS_LEVEL();
  const struct {
    const char *name;
    std::function<Weight(int64_t, int64_t, uint64_t)> make;
    Embed embed;
    int64_t nStep, kStep;
  } cases[] = {
      {"bf16", makeBf16, ni_embed_bf16, 1, 1},       {"fp32", makeFp32, ni_embed_fp32, 1, 1},
      {"fp8row", makeFp8Row, ni_embed_fp8row, 1, 1}, {"nvfp4", makeNvfp4, ni_embed_nvfp4, 128, 64},
      {"q4", ints(4), ni_embed_q4, 1, 1},            {"q5", ints(5), ni_embed_q5, 1, 1},
      {"q6", ints(6), ni_embed_q6, 1, 1},            {"w8", ints(8), ni_embed_w8, 1, 1},
  };
  for (const auto &test : cases)
    for (const int64_t shape : {1, 31, 64, 576, 700}) {
      const int64_t k = (shape + test.kStep - 1) / test.kStep * test.kStep;
      Weight w = test.make(test.nStep == 1 ? 17 : 2 * test.nStep, k, uint64_t(shape));
      for (int32_t token = 0; token < w.n; ++token) {
        std::vector<float> out = untouched(size_t(k + 2));
        test.embed(w.plane(0), w.plane(1), w.plane(2), token, k, out.data());
        for (int64_t c = 0; c < k; ++c)
          ASSERT_EQ(out[size_t(c)], float(w.at(token, c))) << test.name << " k " << k << " element " << c;
        ASSERT_TRUE(isUntouched(out[size_t(k)])) << test.name << " wrote past the row";
      }
    }
}

} // namespace
} // namespace ninfer::test
