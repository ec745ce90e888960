#include "test/cuda/LinearOracle.h"

#include <algorithm>

namespace ninfer::cuda {

namespace {

/// Inputs as the kernel multiplies them, and how far each may be off.
struct Inputs {
  std::vector<double> value, slack; ///< [rows][k]
};

/// With a norm the kernel rounds x * inverse * weight to bfloat16 from a float with relative error below 2^-20 (sum of
/// squares K 2^-24 at most halved by the root, rsqrt 2^-22, four roundings); only next to a rounding boundary can it
/// fall on the other side, and then it is off by one step.
Inputs inputs(const LinearProblem &s) {
  const std::vector<uint16_t> &x = s.x, &norm = s.norm;
  Inputs in;
  const double error = 0x1p-20 + s.k * kFloatUnit / 2;
  for (uint32_t r = 0; r < s.rows; ++r) {
    double squares = 0;
    for (uint32_t k = 0; k < s.k; ++k)
      squares += double(bf16(x[r * s.k + k])) * bf16(x[r * s.k + k]);
    const double inverse = 1 / std::sqrt(squares / s.k + double(kLinearEps));
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
Expected product(const LinearProblem &s, const std::vector<float> &w, const Inputs &in, uint32_t row, uint32_t sums) {
  Expected e;
  double magnitudes = 0;
  for (uint32_t k = 0; k < s.k; ++k) {
    const double x = in.value[row * s.k + k];
    e.value += x * w[k];
    magnitudes += std::fabs(x * w[k]);
    e.slack += in.slack[row * s.k + k] * std::fabs(w[k]);
  }
  // 2 roundings per step of 16 (mma, group), one per warp; NVFP4 and FP8: represented values are themselves rounded once.
  if (s.operands == ni::Operands::F16)
    e.slack += halfSlack(w, {in.value.begin() + row * s.k, in.value.begin() + (row + 1) * s.k}, s.format == ni::Format::Bf16);
  e.slack += magnitudes * (2.0 * ((s.k + 15) / 16) + sums + 4) * kFloatUnit;
  return e;
}

Expected silu(const Expected &g) {
  // The slope of silu is at most 1.1; exp2, reciprocal and product are off by 2^-20 together.
  const double y = g.value / (1 + std::exp(-g.value));
  return {y, 1.1 * g.slack + std::fabs(y) * 0x1p-19 + std::fabs(g.value * y) * 0x1p-22};
}

} // namespace

double halfSlack(const std::vector<float> &w, const std::vector<double> &x, bool weightToo) {
  double slack = 0;
  for (size_t block = 0; block < x.size(); block += 128) {
    const size_t end = std::min(block + 128, x.size());
    double topX = 0, topW = 0, sumX = 0, sumW = 0;
    for (size_t k = block; k < end; ++k) {
      topX = std::max(topX, std::fabs(x[k]));
      topW = std::max(topW, double(std::fabs(w[k])));
      sumX += std::fabs(x[k]);
      sumW += std::fabs(w[k]);
    }
    slack += (topX * sumW + (weightToo ? topW * sumX : 0)) * 0x1p-40;
  }
  return slack;
}

LinearProblem::LinearProblem(ni::Format format, uint32_t n, uint32_t k, uint32_t rows, ni::Prologue prologue,
                             ni::Epilogue epilogue, ni::Operands operands)
    : format(format), prologue(prologue), epilogue(epilogue), operands(operands), n(n), k(k), rows(rows) {
  std::mt19937_64 random(k * 31 + n * 7 + rows);
  weight = randomWeight(format, n, k, random);
  if (epilogue == ni::Epilogue::Swiglu)
    up = randomWeight(format, n, k, random);
  x = randomBf16(size_t(rows) * k, 1.0, random);
  norm = randomBf16(k, 1.0, random);
  residual = randomBf16(size_t(rows) * n, 1.0, random);
}

std::vector<Expected> LinearProblem::expected(uint32_t sums) const {
  const Inputs in = inputs(*this);
  const bool swiglu = epilogue == ni::Epilogue::Swiglu;
  std::vector<Expected> all(size_t(rows) * n);
  for (uint32_t o = 0; o < n; ++o) {
    const std::vector<float> w = weight.values(o), u = swiglu ? up.values(o) : std::vector<float>();
    for (uint32_t r = 0; r < rows; ++r) {
      Expected &e = all[size_t(r) * n + o];
      e = product(*this, w, in, r, sums);
      if (swiglu) {
        const Expected gate = silu(e), value = product(*this, u, in, r, sums);
        e = {gate.value * value.value, gate.slack * (std::fabs(value.value) + value.slack) +
                                           std::fabs(gate.value) * value.slack +
                                           std::fabs(gate.value * value.value) * kFloatUnit};
      }
      if (epilogue == ni::Epilogue::Residual) {
        e.value += bf16(residual[size_t(r) * n + o]);
        e.slack += std::fabs(e.value) * kFloatUnit;
      }
    }
  }
  return all;
}

} // namespace ninfer::cuda
