// F1: every key against a double product over the represented values of artifact/layouts.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"
#include "test/cuda/Weights.h"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

constexpr float kEps = 1e-6f;

struct Case {
  uint32_t n, rows, blocks; ///< blocks 0: one per panel group
};

/// Inputs as the kernel multiplies them, and how far each may be off.
struct Inputs {
  std::vector<double> value, slack; ///< [rows][k]
};

/// With a norm the kernel rounds x * inverse * weight to bfloat16 from a float with relative error below 2^-20 (sum of
/// squares K 2^-24 at most halved by the root, rsqrt 2^-22, four roundings); only next to a rounding boundary can it
/// fall on the other side, and then it is off by one step.
Inputs inputs(const ni::LinearSpec &s, uint32_t rows, const std::vector<uint16_t> &x, const std::vector<uint16_t> &norm) {
  Inputs in;
  const double error = 0x1p-20 + s.k * kFloatUnit / 2;
  for (uint32_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (uint32_t k = 0; k < s.k; ++k)
      squares += double(bf16(x[r * s.k + k])) * bf16(x[r * s.k + k]);
    const double inverse = 1 / std::sqrt(squares / s.k + double(kEps));
    for (uint32_t k = 0; k < s.k; ++k) {
      double v = bf16(x[r * s.k + k]), slack = 0;
      if (s.prologue != ni::Prologue::None) {
        v *= inverse * (bf16(norm[k]) + (s.prologue == ni::Prologue::RmsNormUnitOffset ? 1.0 : 0.0));
        const double low = bf16(toBf16(v * (1 - error))), high = bf16(toBf16(v * (1 + error)));
        slack = std::fabs(high - low);
        v = bf16(toBf16(v));
      }
      in.value.push_back(v);
      in.slack.push_back(slack);
    }
  }
  return in;
}

/// Row times weight row. The kernel's sums are binary32: one rounding per mma of 16 products, per group and per warp,
/// each at most 2^-24 of the sum of magnitudes.
Expected product(const ni::LinearSpec &s, const std::vector<float> &w, const Inputs &in, uint32_t row) {
  Expected e;
  double magnitudes = 0;
  for (uint32_t k = 0; k < s.k; ++k) {
    const double x = in.value[row * s.k + k];
    e.value += x * w[k];
    magnitudes += std::fabs(x * w[k]);
    e.slack += in.slack[row * s.k + k] * std::fabs(w[k]);
  }
  // 2 roundings per step of 16 (mma, group), one per warp; NVFP4 and FP8: represented values are themselves rounded once.
  e.slack += magnitudes * (2.0 * ((s.k + 15) / 16) + s.warpsK + 4) * kFloatUnit;
  return e;
}

Expected silu(const Expected &g) {
  // The slope of silu is at most 1.1; exp2, reciprocal and product are off by 2^-20 together.
  const double y = g.value / (1 + std::exp(-g.value));
  return {y, 1.1 * g.slack + std::fabs(y) * 0x1p-19 + std::fabs(g.value * y) * 0x1p-22};
}

class Linear : public testing::TestWithParam<ni::LinearSpec> {};

void check(const ni::LinearSpec &s, const Case &c, const std::vector<emulator::Options> &modes) {
  std::mt19937_64 random(s.k * 31 + c.n * 7 + c.rows);
  const bool swiglu = s.epilogue == ni::Epilogue::Swiglu, residual = s.epilogue == ni::Epilogue::Residual;
  const Weight weight = randomWeight(s.format, c.n, s.k, random);
  const Weight up = swiglu ? randomWeight(s.format, c.n, s.k, random) : Weight();
  const auto x = randomBf16(size_t(c.rows) * s.k, 1.0, random);
  const auto norm = randomBf16(s.k, 1.0, random);
  const auto before = randomBf16(size_t(c.rows) * c.n, 1.0, random);

  const Inputs in = inputs(s, c.rows, x, norm);
  std::vector<Expected> expected(size_t(c.rows) * c.n);
  for (uint32_t n = 0; n < c.n; ++n) {
    const std::vector<float> w = weight.values(n), u = swiglu ? up.values(n) : std::vector<float>();
    for (uint32_t r = 0; r < c.rows; ++r) {
      Expected &e = expected[size_t(r) * c.n + n];
      e = product(s, w, in, r);
      if (swiglu) {
        const Expected gate = silu(e), value = product(s, u, in, r);
        e = {gate.value * value.value, gate.slack * (std::fabs(value.value) + value.slack) +
                                           std::fabs(gate.value) * value.slack +
                                           std::fabs(gate.value * value.value) * kFloatUnit};
      }
      if (residual) {
        e.value += bf16(before[size_t(r) * c.n + n]);
        e.slack += std::fabs(e.value) * kFloatUnit;
      }
    }
  }

  const KernelText text = linearKernel(s, 0);
  Array packed(packedByDefinition(weight), "weight");
  Array packedUp = swiglu ? Array(packedByDefinition(up), "up") : Array();
  Array xs(x, "x"), norms(norm, "norm"), res(before, "residual");
  Array out(expected.size() * (s.output == ni::OutputType::Float ? 4 : 2), true, "out");
  const uint32_t blocks = c.blocks ? c.blocks : ni::linearBlocks(s, c.n);
  for (const emulator::Options &mode : modes) {
    out.poison();
    Arguments args;
    args.pointer(packed);
    swiglu ? args.pointer(packedUp) : args.null();
    args.pointer(xs);
    s.prologue != ni::Prologue::None ? args.pointer(norms) : args.null();
    residual ? args.pointer(res) : args.null();
    args.pointer(out).u32(c.n).u32(c.rows).f32(kEps);
    const std::string where = text.name + ", n " + std::to_string(c.n) + ", rows " + std::to_string(c.rows) + ", " +
                              std::to_string(blocks) + " blocks, " + describe(mode);
    ASSERT_EQ(launch(text, {blocks}, args, mode), "") << where;
    if (s.output == ni::OutputType::Float)
      ASSERT_EQ(compareFloat(expected, out.as<float>()), "") << where;
    else
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << where;
  }
}

TEST_P(Linear, AgreesWithDoubleProduct) {
  const ni::LinearSpec s = GetParam();
  // NVFP4 stores rows in tiles of 128.
  const std::vector<uint32_t> counts =
      s.format == ni::Format::Nvfp4 ? std::vector<uint32_t>{128} : std::vector<uint32_t>{1, 15, 16, 17, 48 * s.warpsN + 5};
  const std::vector<emulator::Options> modes = allModes();
  for (uint32_t n : counts)
    check(s, {n, s.rows, 0}, {modes[n % modes.size()]});
  check(s, {counts.back(), 1, 0}, {modes[0]});
  check(s, {counts.back(), s.rows, 2}, modes); // a block works on several panels
}

std::string keyName(const testing::TestParamInfo<ni::LinearSpec> &info) { return linearKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, Linear, testing::ValuesIn(keys::linear()), keyName);

} // namespace
} // namespace ninfer::cuda
