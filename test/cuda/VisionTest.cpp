// Kernels of a vision tower against double arithmetic. Bounds: binary32 arithmetic, one rounding to the output type; slack covers the
// roundings and approximate functions before that.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

template <typename Spec, KernelText (*Text)(const Spec &, uint32_t)>
std::string nameOf(const testing::TestParamInfo<Spec> &info) {
  return Text(info.param, 0).name;
}

class LayerNorm : public testing::TestWithParam<ni::LayerNormSpec> {};
TEST_P(LayerNorm, AgreesWithDouble) {
  const uint32_t width = GetParam().width;
  const float eps = 1e-6f;
  for (uint32_t rows : {1u, 3u}) {
    std::mt19937_64 random(rows);
    auto x = randomBf16(size_t(rows) * width, 2.0, random);
    for (uint32_t i = 0; i < width; ++i)
      x[i] = toBf16(bf16(x[i]) + 5); // a mean that counts
    const auto weight = randomBf16(width, 1.0, random), bias = randomBf16(width, 1.0, random);
    std::vector<Expected> expected;
    for (uint32_t r = 0; r < rows; ++r) {
      double mean = 0, size = 0, variance = 0;
      for (uint32_t i = 0; i < width; ++i) {
        mean += bf16(x[r * width + i]) / double(width);
        size += std::fabs(bf16(x[r * width + i])) / width;
      }
      for (uint32_t i = 0; i < width; ++i)
        variance += (bf16(x[r * width + i]) - mean) * (bf16(x[r * width + i]) - mean) / width;
      const double scale = 1 / std::sqrt(variance + double(eps));
      // Sums: width / 128 roundings in a thread, 5 in the warp, 4 of warps, each of at most the sum of magnitudes; the mean's error moves
      // every difference and, to first order, no variance. rsqrt 2^-21, half the error of the sum of squares.
      const double steps = (width / 128 + 12) * kFloatUnit, meanError = size * steps;
      for (uint32_t i = 0; i < width; ++i) {
        const double y = (bf16(x[r * width + i]) - mean) * scale * bf16(weight[i]), all = y + bf16(bias[i]);
        const double moved = meanError * scale * std::fabs(bf16(weight[i])) * (1 + meanError * scale);
        expected.push_back({all, moved + std::fabs(y) * (steps + 0x1p-20 + meanError * meanError * scale * scale) + std::fabs(all) * kFloatUnit});
      }
    }
    Array xs(x, "x"), weights(weight, "weight"), biases(bias, "bias"), out(x.size() * 2, true, "out");
    for (const emulator::Options &mode : threadOrders()) {
      out.poison();
      Arguments args;
      args.pointer(xs).pointer(weights).pointer(biases).pointer(out).f32(eps);
      ASSERT_EQ(launch(layerNormKernel(GetParam(), 0), {rows}, args, mode), "") << describe(mode);
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << describe(mode);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, LayerNorm, testing::ValuesIn(keys::layerNorm()), (nameOf<ni::LayerNormSpec, layerNormKernel>));

class Bias : public testing::TestWithParam<ni::BiasSpec> {};
TEST_P(Bias, AgreesWithDouble) {
  const ni::BiasSpec s = GetParam();
  for (uint32_t width : {1u, 128u, 131u}) {
    const uint32_t rows = 2 * s.group;
    std::mt19937_64 random(width);
    const auto x = randomBf16(size_t(rows) * width, 2.0, random), bias = randomBf16(size_t(s.group) * width, 1.0, random);
    std::vector<Expected> expected;
    for (uint32_t i = 0; i < rows * width; ++i) {
      const double y = double(bf16(x[i])) + bf16(bias[i % (s.group * width)]);
      expected.push_back({y, std::fabs(y) * kFloatUnit});
    }
    const bool wide = s.output == ni::OutputType::Float;
    Array xs(x, "x"), biases(bias, "bias"), out(x.size() * (wide ? 4 : 2), true, "out");
    for (const emulator::Options &mode : threadOrders()) {
      out.poison();
      Arguments args;
      args.pointer(xs).pointer(biases).pointer(out).u32(width);
      ASSERT_EQ(launch(biasKernel(s, 0), {ni::visionBlocksX(width), rows}, args, mode), "") << width;
      ASSERT_EQ(wide ? compareFloat(expected, out.as<float>()) : compareBf16(expected, out.as<uint16_t>()), "") << width;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, Bias, testing::ValuesIn(keys::bias()), (nameOf<ni::BiasSpec, biasKernel>));

class Gelu : public testing::TestWithParam<ni::GeluSpec> {};
TEST_P(Gelu, AgreesWithDouble) {
  const ni::GeluSpec s = GetParam();
  const uint32_t width = 300, rows = 3;
  std::mt19937_64 random(1);
  auto x = randomBf16(size_t(rows) * width, 3.0, random);
  for (size_t i = 0; i < 8; ++i)
    x[i] = toBf16(std::vector<double>{0, -0.0, 1e-20, -1e-3, -5, -60, 60, 1e4}[i]);
  std::vector<Expected> expected;
  for (uint16_t word : x) {
    const double v = bf16(word), u = std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
    const double y = s.tanh ? v / (1 + std::exp(-2 * u)) : v / 2 * std::erfc(-v / std::sqrt(2.0));
    // tanh form: two approximate functions, an exponential of an argument that three roundings made. The other: erfc to 1.5e-7 (its
    // source), an exponential of an argument rounded twice, a reciprocal, nine roundings.
    const double arg = std::min(128.0, std::fabs(s.tanh ? 2 * u * 1.4427 : v * v));
    expected.push_back({y, s.tanh ? std::fabs(y) * (0x1p-19 + arg * 0x1p-21) + 0x1p-100
                                  : std::fabs(v) * (0.75e-7 + 0x1p-21) + std::fabs(y) * arg * 0x1p-22});
  }
  Array xs(x, "x"), out(x.size() * 2, true, "out");
  for (const emulator::Options &mode : threadOrders()) {
    out.poison();
    Arguments args;
    args.pointer(xs).pointer(out).u32(width);
    ASSERT_EQ(launch(geluKernel(s, 0), {ni::visionBlocksX(width), rows}, args, mode), "");
    ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "");
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, Gelu, testing::ValuesIn(keys::gelu()), (nameOf<ni::GeluSpec, geluKernel>));

class AxialRope : public testing::TestWithParam<ni::AxialRopeSpec> {};
TEST_P(AxialRope, AgreesWithDouble) {
  const ni::AxialRopeSpec s = GetParam();
  const uint32_t dim = 4 * s.pairs, width = s.heads * dim, capacity = 11;
  std::mt19937_64 random(s.pairs);
  const std::vector<int32_t> positions = {0, 10, 3, 0, 10, 10, 11, 2, 2, -1};
  const uint32_t rows = uint32_t(positions.size()) / 2;
  const auto x = randomBf16(size_t(rows) * width, 1.0, random);
  std::vector<float> table;
  for (uint32_t i = 0; i < capacity * s.pairs; ++i) {
    table.push_back(float(std::cos(i * 0.7)));
    table.push_back(float(std::sin(i * 0.7)));
  }
  Array xs(x, "x"), tables(table, "table"), places(positions, "positions"), out(x.size() * 2, true, "out");
  for (const emulator::Options &mode : threadOrders()) {
    out.poison();
    Arguments args;
    args.pointer(xs).pointer(tables).pointer(places).pointer(out).u32(capacity);
    ASSERT_EQ(launch(axialRopeKernel(s, 0), {ni::visionBlocksX(width / 2), rows}, args, mode), "");
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t c = 0; c < width; ++c) {
        const uint32_t inHead = c % dim, i = inHead % (2 * s.pairs);
        const int32_t position = positions[2 * r + i / s.pairs];
        const float actual = bf16(out.as<uint16_t>()[r * width + c]);
        if (position < 0 || position >= int32_t(capacity)) {
          ASSERT_TRUE(std::isnan(actual)) << r << " " << c;
          continue;
        }
        const double cosine = table[(uint32_t(position) * s.pairs + i % s.pairs) * 2], sine = table[(uint32_t(position) * s.pairs + i % s.pairs) * 2 + 1];
        const double own = bf16(x[r * width + c]);
        const double other = bf16(x[r * width + (inHead < 2 * s.pairs ? c + 2 * s.pairs : c - 2 * s.pairs)]);
        const double y = own * cosine + (inHead < 2 * s.pairs ? -other : other) * sine;
        const double slack = (std::fabs(own * cosine) + std::fabs(other * sine)) * 2 * kFloatUnit;
        ASSERT_EQ(compareBf16({{y, slack}}, out.as<uint16_t>() + r * width + c), "") << r << " " << c;
      }
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, AxialRope, testing::ValuesIn(keys::axialRope()), (nameOf<ni::AxialRopeSpec, axialRopeKernel>));

class Interpolate : public testing::TestWithParam<ni::InterpolateSpec> {};
TEST_P(Interpolate, AgreesWithDouble) {
  const uint32_t taps = GetParam().taps, n = 9, width = 130, rows = 5;
  std::mt19937_64 random(taps);
  const auto table = randomBf16(size_t(n) * width, 1.0, random), weights = randomBf16(size_t(rows) * taps, 0.5, random);
  std::vector<int32_t> indices(rows * taps);
  for (int32_t &index : indices)
    index = int32_t(random() % n);
  indices[taps] = -1; // row 1
  indices[3 * taps - 1] = int32_t(n);
  Array tables(table, "table"), given(weights, "weights"), chosen(indices, "indices"), out(size_t(rows) * width * 2, true, "out");
  for (const emulator::Options &mode : threadOrders()) {
    out.poison();
    Arguments args;
    args.pointer(chosen).pointer(given).pointer(tables).pointer(out).u32(n).u32(width);
    ASSERT_EQ(launch(interpolateKernel(GetParam(), 0), {ni::visionBlocksX(width), rows}, args, mode), "");
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t c = 0; c < width; ++c) {
        double y = 0, size = 0;
        bool inside = true;
        for (uint32_t t = 0; t < taps; ++t) {
          const int32_t index = indices[r * taps + t];
          inside &= index >= 0 && index < int32_t(n);
          const double product = inside ? double(bf16(weights[r * taps + t])) * bf16(table[uint32_t(index) * width + c]) : 0;
          y += product;
          size += std::fabs(product);
        }
        const uint16_t *actual = out.as<uint16_t>() + r * width + c;
        if (inside)
          ASSERT_EQ(compareBf16({{y, size * taps * kFloatUnit}}, actual), "") << r << " " << c;
        else
          ASSERT_TRUE(std::isnan(bf16(*actual))) << r << " " << c;
      }
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, Interpolate, testing::ValuesIn(keys::interpolate()), (nameOf<ni::InterpolateSpec, interpolateKernel>));

class FullAttention : public testing::TestWithParam<ni::FullAttentionSpec> {};
TEST_P(FullAttention, AgreesWithDouble) {
  const ni::FullAttentionSpec s = GetParam();
  const uint32_t width = s.heads * s.dim;
  const double scale = 1 / std::sqrt(double(s.dim));
  for (uint32_t rows : {1u, 16u, 33u, 70u}) {
    std::mt19937_64 random(rows);
    const auto query = randomBf16(size_t(rows) * width, 2.0, random), key = randomBf16(size_t(rows) * width, 2.0, random),
               value = randomBf16(size_t(rows) * width, 1.0, random);
    std::vector<Expected> expected(size_t(rows) * width);
    for (uint32_t h = 0; h < s.heads; ++h)
      for (uint32_t r = 0; r < rows; ++r) {
        std::vector<double> scores(rows);
        double top = -1e300, size = 0, total = 0;
        for (uint32_t j = 0; j < rows; ++j) {
          double magnitudes = 0;
          for (uint32_t d = 0; d < s.dim; ++d) {
            const double product = double(bf16(query[r * width + h * s.dim + d])) * bf16(key[j * width + h * s.dim + d]) * scale;
            scores[j] += product;
            magnitudes += std::fabs(product);
          }
          top = std::max(top, scores[j]);
          size = std::max(size, magnitudes);
        }
        for (double &score : scores)
          total += score = std::exp(score - top);
        // A weight: scores of dim + 2 roundings each, once for itself and once for the maximum, the exponential's 2^-21 for every tile that
        // rescales it. Sums over the rows, and the quotient.
        const double weightError = 2 * size * (s.dim + 2) * kFloatUnit + (rows / 32 + 2) * 0x1p-20;
        for (uint32_t d = 0; d < s.dim; ++d) {
          double y = 0, magnitudes = 0;
          for (uint32_t j = 0; j < rows; ++j) {
            const double part = scores[j] / total * bf16(value[j * width + h * s.dim + d]);
            y += part;
            magnitudes += std::fabs(part);
          }
          expected[r * width + h * s.dim + d] = {y, 2 * magnitudes * (weightError + (rows + 4) * kFloatUnit)};
        }
      }
    Array queries(query, "query"), keys(key, "key"), values(value, "value"), out(query.size() * 2, true, "out");
    for (const emulator::Options &mode : threadOrders()) {
      out.poison();
      Arguments args;
      args.pointer(queries).pointer(keys).pointer(values).pointer(out).u32(rows).f32(float(scale * 1.4426950408889634));
      ASSERT_EQ(launch(fullAttentionKernel(s, 0), {s.heads, ni::fullBlocksY(rows)}, args, mode), "") << rows;
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << rows << " " << describe(mode);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, FullAttention, testing::ValuesIn(keys::fullAttention()), (nameOf<ni::FullAttentionSpec, fullAttentionKernel>));

} // namespace
} // namespace ninfer::cuda
