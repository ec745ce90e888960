// Comparisons. Most wrappers move or round bits: bits are compared (a NaN with a NaN: PTX does not say which). Approximate
// functions: the bound stated in ni.cuh against the exact function in double. mma: small integers are exact in every order
// of summation, so fragments and layout are compared bit by bit; other values within a derived bound.
#include "test/gpu/Wrappers.h"

#include "test/gpu/Wrappers.cuh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace ninfer::gpucheck {

namespace {

using Words = std::vector<uint32_t>;
using Random = std::mt19937_64;

float number(uint32_t word) { return std::bit_cast<float>(word); }
uint32_t word(float f) { return std::bit_cast<uint32_t>(f); }

std::string differs(size_t i, uint32_t expected, uint32_t got) {
  char text[120];
  std::snprintf(text, sizeof text, "word %zu: expected %08x, got %08x", i, expected, got);
  return text;
}

std::string sameBits(const Words &, const Words &emulated, const Words &got, double &) {
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != emulated[i])
      return differs(i, emulated[i], got[i]);
  return "";
}

std::string sameFloats(const Words &, const Words &emulated, const Words &got, double &) {
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != emulated[i] && !(std::isnan(number(got[i])) && std::isnan(number(emulated[i]))))
      return differs(i, emulated[i], got[i]);
  return "";
}

/// Both zeros are one number to a maximum.
std::string sameNumbers(const Words &, const Words &emulated, const Words &got, double &) {
  for (size_t i = 0; i < got.size(); ++i)
    if (number(got[i]) != number(emulated[i]) && !(std::isnan(number(got[i])) && std::isnan(number(emulated[i]))))
      return differs(i, emulated[i], got[i]);
  return "";
}

/// One or two 16-bit words of a floating-point format whose NaNs lie above `infinity`.
auto sameHalves(uint32_t infinity) {
  return [infinity](const Words &, const Words &emulated, const Words &got, double &) -> std::string {
    for (size_t i = 0; i < got.size(); ++i)
      for (int shift : {0, 16}) {
        const uint32_t a = emulated[i] >> shift & 0xffff, b = got[i] >> shift & 0xffff;
        if (a != b && !((a & 0x7fff) > infinity && (b & 0x7fff) > infinity))
          return differs(i, emulated[i], got[i]);
      }
    return "";
  };
}

/// Within `bound(x, y)` of y = exact(x); infinities and NaN where the exact function has them.
auto near(double (*exact)(float), double (*bound)(double x, double y)) {
  return [=](const Words &in, const Words &, const Words &got, double &worst) -> std::string {
    for (size_t i = 0; i < got.size(); ++i) {
      const float x = number(in[3 * i]);
      const double y = exact(x), g = number(got[i]);
      if (std::isnan(y) ? std::isnan(g) : g == y)
        continue;
      const double error = std::fabs(g - y), allowed = std::isinf(y) ? 0 : bound(x, y);
      if (!(error <= allowed)) {
        char text[160];
        std::snprintf(text, sizeof text, "element %zu, x = %.9g: expected %.9g, got %.9g, error %.3g, bound %.3g", i, double(x), y, g,
                      error, allowed);
        return text;
      }
      worst = std::max(worst, error / allowed);
    }
    return "";
  };
}

double flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0, double(x)) : double(x); }
/// Results beyond binary32 are infinite; near its end the approximate result may be on either side, so inputs keep away.
double exactExp2(float x) { return std::isinf(float(std::exp2(flushed(x)))) ? INFINITY : std::exp2(flushed(x)); }
double exactLog2(float x) { return std::log2(flushed(x)); }
double exactReciprocal(float x) { return 1 / flushed(x); }
double exactRootReciprocal(float x) { return flushed(x) == 0 ? 1 / flushed(x) : 1 / std::sqrt(flushed(x)); }
double exactSigmoid(float x) { return 1 / (1 + std::exp(-double(x))); }
double exactSilu(float x) { return double(x) / (1 + std::exp(-double(x))); }

// ni.cuh: relative error below 2^-21, subnormal results are 0.
double relative(double, double y) { return std::fabs(y) * 0x1p-21 + 0x1p-126; }
double logarithmic(double x, double y) { return x > 0.5 && x < 2 ? 0x1p-22 : std::fabs(y) * 0x1p-21; }
// Two approximate functions; the product with log2(e) is rounded, which the exponential makes relative; an exponential
// beyond binary32 gives 0 where the exact sigmoid is below 2^-126.
double ofSigmoid(double x, double y) { return std::fabs(y) * (0x1p-20 + std::fabs(x) * 0x1p-22) + 0x1p-126 * (1 + std::fabs(x)); }

/// mma: 16 products and the addend. A tensor core may align all terms to the largest one and cut what lies below its last
/// bit, in two steps of 8 products, so each of the 18 terms (a partial sum among them) loses less than a unit in the last place
/// of the largest magnitude; the result is then within half a unit of its own.
std::string nearMma(const Words &in, const Words &emulated, const Words &got, double &worst) {
  constexpr double kUnit = 0x1p-23;
  const auto half = [&](size_t lane, uint32_t i, uint32_t high) { return double(number(in[10 * lane + i] >> (16 * high) << 16)); };
  for (size_t lane = 0; lane < got.size() / 8; ++lane) {
    const size_t warp = lane / 32 * 32;
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t row = uint32_t(lane % 32) / 4 + 8 * (i / 2 % 2), column = 2 * (lane % 4) + i % 2;
      const double c = i < 4 ? double(number(in[10 * lane + 6 + i])) : 0;
      double sum = c, top = std::fabs(c);
      for (uint32_t k = 0; k < 16; ++k) { // fragments as the comment of mmaBf16 says
        const double a = half(warp + row % 8 * 4 + k % 8 / 2, (row / 8) + 2 * (k / 8), k % 2);
        const double b = half(warp + column * 4 + k % 8 / 2, 4 + k / 8, k % 2);
        sum += a * b;
        top = std::max({top, std::fabs(a * b), std::fabs(sum)});
      }
      const double error = std::fabs(double(number(got[8 * lane + i])) - sum), allowed = 18 * kUnit * top + kUnit * std::fabs(sum);
      if (!(error <= allowed))
        return "lane " + std::to_string(lane) + ": " + differs(8 * lane + i, emulated[8 * lane + i], got[8 * lane + i]) +
               ", error " + std::to_string(error / (kUnit * top)) + " units of the largest term";
      worst = std::max(worst, error / allowed);
    }
  }
  return "";
}

/// Each block drew another number, and the last one saw the data of all.
std::string sameAtomic(const Words &, const Words &emulated, const Words &got, double &) {
  const size_t blocks = (got.size() - 2) / 2;
  Words order(got.begin(), got.begin() + ptrdiff_t(blocks));
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < blocks; ++i)
    if (order[i] != i)
      return "old values are no permutation: " + differs(i, uint32_t(i), order[i]);
  for (size_t i = blocks; i < got.size(); ++i)
    if (got[i] != emulated[i])
      return differs(i, emulated[i], got[i]);
  return "";
}

Words randomWords(size_t count, Random &random) {
  Words words(count);
  for (uint32_t &w : words)
    w = uint32_t(random());
  return words;
}

constexpr float kSpecial[] = {0.0f,    -0.0f,    1.0f,     -1.0f,      0.5f,       2.0f,      1.5f,      2.5f,       -2.5f, 3.5f,
                              0.49999997f, 65504.0f, 65520.0f, 0x1p-14f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-126f, 0x1p-127f, 0x1p-149f,
                              -0x1p-149f, 0x1.fffffep127f, -0x1.fffffep127f, 0x1.01p0f, 0x1.03p0f, 0x1.008p0f, 0x1p-133f, 8388609.0f,
                              std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()};

/// Words a, b, c of each element: special values in all pairs, then random bits, then numbers of ordinary size.
Words floats(uint32_t count, Random &random, float limit = 0) {
  std::normal_distribution<float> normal(0, 4);
  std::uniform_real_distribution<float> uniform(-limit, limit);
  constexpr size_t kSpecials = std::size(kSpecial);
  Words words;
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t j = 0; j < 3; ++j) {
      float f = i % 2 ? normal(random) : number(uint32_t(random()));
      if (limit > 0)
        f = i % 4 ? uniform(random) : normal(random) * 0x1p-20f;
      if (i < kSpecials * kSpecials)
        f = kSpecial[j == 0 ? i % kSpecials : j == 1 ? i / kSpecials : (i + j) % kSpecials];
      if (limit > 0 && std::fabs(f) > limit)
        f = std::copysign(limit, f); // infinities too; NaN stays
      words.push_back(word(f));
    }
  return words;
}

WrapperCase elementwise(const char *kernel, void (*thunk)(void **), Words in) {
  WrapperCase c;
  c.kernel = kernel;
  c.thunk = thunk;
  c.count = c.outWords = uint32_t(in.size() / 3);
  c.in = std::move(in);
  c.grid = {(c.count + 255) / 256};
  c.threads = 256;
  c.compare = sameFloats;
  return c;
}

WrapperCase threads(const char *kernel, void (*thunk)(void **), uint32_t blocks, uint32_t perBlock, Words in, uint32_t outPerThread) {
  WrapperCase c;
  c.kernel = kernel;
  c.thunk = thunk;
  c.grid = {blocks};
  c.threads = perBlock;
  c.in = std::move(in);
  c.outWords = blocks * perBlock * outPerThread;
  c.count = 7;
  c.compare = sameBits;
  return c;
}

uint32_t bf16Pair(float low, float high) { return word(low) >> 16 | (word(high) & 0xffff0000u); }

} // namespace

#define NI_CASE(kernel) #kernel, kernel##_thunk

std::vector<WrapperCase> wrapperCases(uint32_t size, uint64_t seed) {
  Random random(seed);
  std::vector<WrapperCase> all;
  const uint32_t many = 1024 * size;

  all.push_back(threads(NI_CASE(check_identity), 12, 64, randomWords(1, random), 8));
  all.back().grid = {3, 2, 2};
  {
    Words in;
    std::normal_distribution<float> normal;
    for (uint32_t i = 0; i < 64 * size; ++i)
      in.insert(in.end(), {uint32_t(random()), uint32_t(random()), word(normal(random))});
    all.push_back(threads(NI_CASE(check_shuffle), size, 64, std::move(in), 16));
  }
  all.push_back(threads(NI_CASE(check_bitwise), size, 64, randomWords(3 * 64 * size, random), 256));
  all.push_back(threads(NI_CASE(check_memory), size, 64, randomWords(4 * 64 * size, random), 40));
  all.push_back(threads(NI_CASE(check_shared), size, 128, randomWords(4 * 128 * size, random), 8));
  all.back().sharedBytes = sizeof(check::Exchange);
  all.push_back(threads(NI_CASE(check_atomic), 64 * size, 32, randomWords(64 * size, random), 0));
  all.back().outWords = 2 * 64 * size + 2;
  all.back().compare = sameAtomic;
  for (bool integers : {true, false}) {
    Words in;
    std::normal_distribution<float> normal;
    const auto value = [&] { return integers ? float(int(random() % 33) - 16) : normal(random) * std::exp2(float(int(random() % 9) - 4)); };
    for (uint32_t i = 0; i < 128 * size; ++i) {
      for (uint32_t j = 0; j < 6; ++j) {
        const float low = value(), high = value();
        in.push_back(bf16Pair(low, high));
      }
      for (uint32_t j = 0; j < 4; ++j)
        in.push_back(word(value() * (integers ? 64.0f : 1.0f)));
    }
    all.push_back(threads(NI_CASE(check_mma), size, 128, std::move(in), 8));
    if (!integers)
      all.back().compare = nearMma;
  }
  {
    Words in; // integers of binary16 that become subnormal ones of it: exact
    const auto value = [&](float unit) { return uint32_t(std::bit_cast<uint16_t>(_Float16(float(int(random() % 33) - 16) * unit))); };
    for (uint32_t i = 0; i < 128 * size; ++i) {
      for (uint32_t j = 0; j < 6; ++j) {
        const float unit = j < 4 ? 0x1p-24f : 1.0f;
        const uint32_t low = value(unit);
        in.push_back(low | value(unit) << 16);
      }
      for (uint32_t j = 0; j < 4; ++j)
        in.push_back(word(float(int(random() % 33) - 16) * 0x1p-20f));
    }
    all.push_back(threads(NI_CASE(check_mma_f16), size, 128, std::move(in), 8));
  }
  {
    Words in;
    for (uint32_t warp = 0; warp < 4 * size; ++warp) {
      const Words matrices = randomWords(128, random);
      in.insert(in.end(), matrices.begin(), matrices.end());
      Words rows(32);
      for (uint32_t i = 0; i < 32; ++i)
        rows[i] = i;
      if (warp % 4)
        std::shuffle(rows.begin(), rows.end(), random);
      in.insert(in.end(), rows.begin(), rows.end());
    }
    all.push_back(threads(NI_CASE(check_load_matrix), size, 128, std::move(in), 8));
    all.back().sharedBytes = sizeof(check::Matrices);
  }
  all.push_back(threads(NI_CASE(check_copy_async), size, 128, randomWords(8 * 128 * size, random), 12));
  all.back().sharedBytes = sizeof(check::Copies);

  {
    Words every;
    for (uint32_t w = 0; w < 65536; w += size > 4 ? 1 : 13)
      every.insert(every.end(), {w, 0, 0});
    all.push_back(elementwise(NI_CASE(check_f16_to_float), every));
    all.push_back(elementwise(NI_CASE(check_bf16_to_float), every));
    all.push_back(elementwise(NI_CASE(check_bf16_halves), randomWords(3 * many, random)));
    all.back().compare = sameBits;
  }
  all.push_back(elementwise(NI_CASE(check_float_to_f16), floats(4 * many, random)));
  all.back().compare = sameHalves(0x7c00);
  all.push_back(elementwise(NI_CASE(check_pack_bf16), floats(4 * many, random)));
  all.back().compare = sameHalves(0x7f80);
  all.push_back(elementwise(NI_CASE(check_pack_f16), floats(4 * many, random)));
  all.back().compare = sameHalves(0x7c00);
  all.push_back(elementwise(NI_CASE(check_fma_f16x2), randomWords(3 * 4 * many, random)));
  all.back().compare = sameHalves(0x7c00);
  all.push_back(elementwise(NI_CASE(check_float_to_bf16), floats(many, random)));
  all.back().compare = sameHalves(0x7f80);
  all.push_back(elementwise(NI_CASE(check_fma_bf16x2), randomWords(3 * 4 * many, random)));
  all.back().compare = sameHalves(0x7f80);
  all.push_back(elementwise(NI_CASE(check_fma), floats(4 * many, random)));
  all.push_back(elementwise(NI_CASE(check_no_contraction), floats(4 * many, random)));
  all.push_back(elementwise(NI_CASE(check_divide), floats(4 * many, random)));
  all.push_back(elementwise(NI_CASE(check_maximum), floats(many, random)));
  all.back().compare = sameNumbers;
  all.push_back(elementwise(NI_CASE(check_magnitude), floats(many, random)));
  all.push_back(elementwise(NI_CASE(check_round), floats(4 * many, random)));

  const auto approximate = [&](const char *kernel, void (*thunk)(void **), double (*exact)(float),
                               double (*bound)(double, double), float limit) {
    all.push_back(elementwise(kernel, thunk, floats(4 * many, random, limit)));
    all.back().compare = near(exact, bound);
  };
  approximate(NI_CASE(check_exp2), exactExp2, relative, 127.5f);
  approximate(NI_CASE(check_log2), exactLog2, logarithmic, 0);
  approximate(NI_CASE(check_reciprocal), exactReciprocal, relative, 0);
  approximate(NI_CASE(check_root_reciprocal), exactRootReciprocal, relative, 0);
  approximate(NI_CASE(check_sigmoid), exactSigmoid, ofSigmoid, 200);
  approximate(NI_CASE(check_silu), exactSilu, ofSigmoid, 200);
  return all;
}

std::string emulate(const WrapperCase &c, Words &out) {
  // 16-byte aligned copies: the kernels move 16 bytes at a time.
  struct alignas(16) Piece {
    uint32_t w[4];
  };
  std::vector<Piece> from((c.in.size() + 3) / 4), to((c.outWords + 3) / 4);
  std::memcpy(from.data(), c.in.data(), c.in.size() * 4);
  std::memset(to.data(), 0xff, to.size() * 16);
  if (c.kernel == "check_atomic")
    to[(c.outWords - 1) / 4].w[(c.outWords - 1) % 4] = 0;
  const void *source = from.data();
  void *target = to.data();
  uint32_t count = c.count;
  emulator::Launch launch;
  launch.kernel = c.thunk;
  launch.grid = c.grid;
  launch.threads = launch.boundThreads = c.threads;
  launch.sharedBytes = c.sharedBytes;
  launch.args = {&source, &target, &count};
  launch.buffers = {{from.data(), c.in.size() * 4, false, "in"}, {to.data(), size_t(c.outWords) * 4, true, "out"}};
  const emulator::Outcome outcome = emulator::run(launch);
  out.resize(c.outWords);
  std::memcpy(out.data(), to.data(), size_t(c.outWords) * 4);
  return outcome.message;
}

} // namespace ninfer::gpucheck
