// Norms, elementwise operators, embedding and argmax against double arithmetic. Bounds: the kernels compute in binary32
// and round once to bfloat16 (compareBf16); slack covers the roundings and approximate functions before that.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"
#include "test/cuda/Weights.h"

#include <gtest/gtest.h>

#include <limits>

namespace ninfer::cuda {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

template <typename Spec, KernelText (*Text)(const Spec &, uint32_t)>
std::string nameOf(const testing::TestParamInfo<Spec> &info) {
  return Text(info.param, 0).name;
}

class Norm : public testing::TestWithParam<ni::NormSpec> {};

TEST_P(Norm, AgreesWithDouble) {
  const ni::NormSpec s = GetParam();
  const KernelText text = normKernel(s, 0);
  const float eps = 1e-6f;
  for (uint32_t vectors : {1u, 4u, 7u}) {
    std::mt19937_64 random(vectors);
    const auto x = randomBf16(size_t(vectors) * s.width, 2.0, random), gate = randomBf16(x.size(), 2.0, random);
    const auto weight = randomBf16(s.width, 1.0, random);
    std::vector<Expected> expected;
    for (uint32_t v = 0; v < vectors; ++v) {
      double squares = 0;
      for (uint32_t i = 0; i < s.width; ++i)
        squares += double(bf16(x[v * s.width + i])) * bf16(x[v * s.width + i]);
      for (uint32_t i = 0; i < s.width; ++i) {
        const double g = bf16(gate[v * s.width + i]);
        double f = bf16(weight[i]) + (s.kind == ni::NormKind::UnitOffset ? 1.0 : 0.0);
        if (s.kind == ni::NormKind::Gated)
          f *= g * sigmoid(g);
        const double y = bf16(x[v * s.width + i]) / std::sqrt(squares / s.width + double(eps)) * f;
        // Sum of squares: width / 32 roundings in a lane, 5 in the warp, 4 of warps; half of it after the root. rsqrt and
        // silu: 2^-21 each, four products.
        expected.push_back({y, std::fabs(y) * ((s.width / 32 + 12) * kFloatUnit / 2 + 0x1p-20)});
      }
    }
    Array xs(x, "x", true), weights(weight, "weight"), gates(gate, "gate"), out(x.size() * 2, true, "out");
    for (const emulator::Options &mode : threadOrders()) {
      out.poison();
      Arguments args;
      args.pointer(xs).pointer(weights);
      s.kind == ni::NormKind::Gated ? args.pointer(gates) : args.null();
      args.pointer(out).u32(vectors).f32(eps);
      ASSERT_EQ(launch(text, {ni::normBlocks(s, vectors)}, args, mode), "") << describe(mode);
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << describe(mode);
    }
    Arguments inPlace;
    inPlace.pointer(xs).pointer(weights);
    s.kind == ni::NormKind::Gated ? inPlace.pointer(gates) : inPlace.null();
    inPlace.pointer(xs).u32(vectors).f32(eps);
    ASSERT_EQ(launch(text, {ni::normBlocks(s, vectors)}, inPlace), "");
    ASSERT_EQ(compareBf16(expected, xs.as<uint16_t>()), "") << "in place";
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, Norm, testing::ValuesIn(keys::norm()), (nameOf<ni::NormSpec, normKernel>));

class Elementwise : public testing::TestWithParam<ni::ElementwiseSpec> {};

TEST_P(Elementwise, AgreesWithDouble) {
  const ni::ElementwiseSpec s = GetParam();
  const KernelText text = elementwiseKernel(s, 0);
  const bool rowGate = s.op == ni::ElementwiseOp::SigmoidRowGate;
  for (uint32_t count : {1u, 7u, 8u, 2047u, 2048u, 4100u}) {
    const uint32_t width = rowGate ? (count % 4 == 0 ? count / 4 : count) : 1;
    std::mt19937_64 random(count);
    auto a = randomBf16(count, 3.0, random), b = randomBf16(rowGate ? count / width : count, 3.0, random);
    a[0] = toBf16(-200.0); // beyond the range of exp
    b[0] = toBf16(150.0);
    if (b.size() > 2)
      b[2] = toBf16(-150.0);
    std::vector<Expected> expected;
    for (uint32_t i = 0; i < count; ++i) {
      const double x = bf16(a[i]), g = bf16(b[rowGate ? i / width : i]);
      double y = x + g;
      if (s.op == ni::ElementwiseOp::Swiglu)
        y = x * sigmoid(x) * g;
      else if (s.op != ni::ElementwiseOp::Add)
        y = x * sigmoid(g);
      // Two approximate functions of 2^-21, exp of an argument rounded once (|x| 2^-24 relative), results below 2^-126 are 0.
      const double arg = std::min(128.0, std::fabs(s.op == ni::ElementwiseOp::Swiglu ? x : g));
      expected.push_back({y, std::fabs(y) * (0x1p-19 + arg * 0x1p-22) + 0x1p-100});
    }
    Array as(a, "a", true), bs(b, "b"), out(size_t(count) * 2, true, "out");
    for (const emulator::Options &mode : threadOrders()) {
      out.poison();
      Arguments args;
      args.pointer(as).pointer(bs).pointer(out).u32(count).u32(width);
      const uint32_t blocks = ni::divideUp(count, ni::kElementwiseThreads * ni::kElementwisePerThread);
      ASSERT_EQ(launch(text, {blocks}, args, mode), "") << count;
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << count;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, Elementwise, testing::ValuesIn(keys::elementwise()),
                         (nameOf<ni::ElementwiseSpec, elementwiseKernel>));

class Embedding : public testing::TestWithParam<ni::EmbeddingSpec> {};

TEST_P(Embedding, RowsAreTheRepresentedValues) {
  const ni::EmbeddingSpec s = GetParam();
  const KernelText text = embeddingKernel(s, 0);
  const uint32_t n = s.format == ni::Format::Nvfp4 ? 128 : 37;
  std::mt19937_64 random(s.k);
  const Weight weight = randomWeight(s.format, n, s.k, random);
  const std::vector<int32_t> tokens = {0, 15, 16, 36, -1, int32_t(n), 7, 8};
  Array table(packedByDefinition(weight), "table"), ids(tokens, "tokens"), out(tokens.size() * s.k * 2, true, "out");
  for (auto order : {emulator::Order::Forward, emulator::Order::Reverse}) {
    out.poison();
    emulator::Options mode;
    mode.order = order;
    Arguments args;
    args.pointer(ids).pointer(table).pointer(out).u32(n);
    ASSERT_EQ(launch(text, {uint32_t(tokens.size())}, args, mode), "");
    for (size_t r = 0; r < tokens.size(); ++r) {
      const bool legal = tokens[r] >= 0 && uint32_t(tokens[r]) < n;
      const std::vector<float> row = weight.values(legal ? uint32_t(tokens[r]) : 0);
      for (uint32_t k = 0; k < s.k; ++k) {
        const uint16_t word = out.as<uint16_t>()[r * s.k + k];
        if (legal)
          ASSERT_EQ(word & 0x7fff ? word : 0, row[k] == 0 ? 0 : toBf16(row[k])) << text.name << " " << r << " " << k;
        else
          ASSERT_TRUE(std::isnan(bf16(word))) << r << " " << k;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, Embedding, testing::ValuesIn(keys::embedding()),
                         (nameOf<ni::EmbeddingSpec, embeddingKernel>));

class Argmax : public testing::TestWithParam<ni::ArgmaxSpec> {};

TEST_P(Argmax, LowestOfTheLargest) {
  const ni::ArgmaxSpec s = GetParam();
  const KernelText text = argmaxKernel(s, 0);
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (uint32_t n : {1u, 5u, 255u, 2049u}) {
    std::mt19937_64 random(n);
    const uint32_t rows = 6;
    std::vector<float> logits(size_t(rows) * n);
    for (float &v : logits)
      v = float(int(random() % 9)) - 4; // many ties
    for (uint32_t i = 0; i < n; ++i) {
      logits[1 * n + i] = nan;
      logits[2 * n + i] = -inf;
      logits[3 * n + i] = i + 1 == n ? 7.0f : nan;
    }
    logits[4 * n + n / 2] = inf;
    std::vector<int32_t> expected;
    for (uint32_t r = 0; r < rows; ++r) {
      int32_t best = -1;
      for (uint32_t i = 0; i < n; ++i)
        if (const float v = logits[r * n + i]; v == v && (best < 0 || v > logits[r * n + uint32_t(best)]))
          best = int32_t(i);
      expected.push_back(best < 0 ? 0 : best);
    }
    Array in(logits, "logits"), candidates(size_t(rows) * s.blocks * 8, true, "candidates"), out(rows * 4, true, "out");
    Array counters(std::vector<uint32_t>(rows, 0), "counters", true);
    for (const emulator::Options &mode : threadOrders()) { // counters must be ready for the next launch
      out.poison();
      candidates.poison();
      Arguments args;
      args.pointer(in).pointer(candidates).pointer(counters).pointer(out).u32(n);
      ASSERT_EQ(launch(text, {s.blocks, rows}, args, mode), "") << n;
      for (uint32_t r = 0; r < rows; ++r)
        ASSERT_EQ(out.as<int32_t>()[r], expected[r]) << "row " << r << " of " << n << ", " << describe(mode);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Keys, Argmax, testing::ValuesIn(keys::argmax()), (nameOf<ni::ArgmaxSpec, argmaxKernel>));

} // namespace
} // namespace ninfer::cuda
