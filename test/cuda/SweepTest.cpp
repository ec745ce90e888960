// No size is built in: N, K and rows just below, at and above each value that appears in a kernel, in every combination that
// the record takes. Outputs are NaN before, each is compared with the oracle; what a record does not take is refused before
// there is a kernel (CudaAdmissionTest.cpp). NINFER_CUDA_SWEEP=full: all of the lists instead of a part.
#include "test/cuda/LinearOracle.h"
#include "test/cuda/Support.h"
#include "test/cuda/SweepKeys.h"
#include "test/cuda/Weights.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ninfer::cuda {
namespace {

bool full() {
  const char *value = std::getenv("NINFER_CUDA_SWEEP");
  return value && std::string(value) == "full";
}

/// Outputs. The large ones for K 128 only, where an oracle is cheap.
std::vector<uint32_t> outputs(uint32_t k) {
  std::vector<uint32_t> n = full() ? std::vector<uint32_t>{1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}
                                   : std::vector<uint32_t>{1, 15, 16, 17, 33, 127, 128, 129};
  if (k > 1024 && !full())
    n = {15, 17};
  if (k == 128)
    n.insert(n.end(), {2047, 2048, 2049, 5120});
  return n;
}

std::string where(const KernelText &text, uint32_t n, uint32_t rows) {
  return text.name + ", n " + std::to_string(n) + ", rows " + std::to_string(rows);
}

TEST(Sweep, Linear) {
  for (const ni::LinearSpec &s : keys::sweep().linear) {
    const KernelText text = linearKernel(s, 0);
    for (uint32_t n : outputs(s.k))
      for (uint32_t rows : {1u, s.rows - 1, s.rows}) {
        if (n > 1024 && rows != s.rows)
          continue;
        const LinearProblem p(s.format, n, s.k, rows, s.prologue, s.epilogue, s.operands);
        Array packed(packedByDefinition(p.weight), "weight"), x(p.x, "x"), out(size_t(rows) * n * 2, true, "out");
        Arguments args;
        args.pointer(packed).null().pointer(x).null().null().pointer(out).u32(n).u32(rows).f32(kLinearEps);
        const uint32_t blocks = n % 2 ? ni::linearBlocks(s, n) : std::min(3u, ni::linearBlocks(s, n));
        ASSERT_EQ(launch(text, {blocks}, args), "") << where(text, n, rows);
        ASSERT_EQ(compareBf16(p.expected(s.warpsK), out.as<uint16_t>()), "") << where(text, n, rows);
      }
  }
}

TEST(Sweep, Gemm) {
  for (const ni::GemmSpec &s : keys::sweep().gemm) {
    const KernelText text = gemmKernel(s, 0);
    std::vector<std::pair<uint32_t, uint32_t>> shapes = {{1, 1}, {127, 63}, {128, 64}, {129, 65}, {17, 129}};
    if (full())
      shapes.insert(shapes.end(), {{15, 15}, {16, 16}, {33, 17}, {63, 31}, {64, 32}, {65, 33}, {255, 127}, {256, 128}, {257, 3}});
    else if (s.k > 1024)
      shapes = {{129, 65}};
    if (s.k == 128)
      shapes.insert(shapes.end(), {{2047, 3}, {2048, 16}, {2049, 17}, {5120, 2}});
    for (auto [n, rows] : shapes) {
      const LinearProblem p(s.format, n, s.k, rows, ni::Prologue::None, s.epilogue, s.operands);
      Array packed(packedByDefinition(p.weight), "weight"), x(p.x, "x"), out(size_t(rows) * n * 2, true, "out");
      Arguments args;
      args.pointer(packed).null().pointer(x).null().pointer(out).u32(n).u32(rows);
      ASSERT_EQ(launch(text, {ni::gemmBlocksX(s, n), ni::gemmBlocksY(s, rows)}, args), "") << where(text, n, rows);
      ASSERT_EQ(compareBf16(p.expected(1), out.as<uint16_t>()), "") << where(text, n, rows);
    }
  }
}

TEST(Sweep, Embedding) {
  for (const ni::EmbeddingSpec &s : keys::sweep().embedding) {
    const KernelText text = embeddingKernel(s, 0);
    for (uint32_t n : {15u, 16u, 17u, 129u}) {
      std::mt19937_64 random(n + s.k);
      const Weight weight = randomWeight(s.format, n, s.k, random);
      const std::vector<int32_t> tokens = {0, int32_t(n) - 1, int32_t(n) / 2};
      Array table(packedByDefinition(weight), "table"), ids(tokens, "tokens"), out(tokens.size() * s.k * 2, true, "out");
      Arguments args;
      args.pointer(ids).pointer(table).pointer(out).u32(n);
      ASSERT_EQ(launch(text, {uint32_t(tokens.size())}, args), "") << where(text, n, 3);
      for (size_t r = 0; r < tokens.size(); ++r) {
        const std::vector<float> row = weight.values(uint32_t(tokens[r]));
        for (uint32_t k = 0; k < s.k; ++k) {
          const uint16_t word = out.as<uint16_t>()[r * s.k + k];
          ASSERT_EQ(word & 0x7fff ? word : 0, row[k] == 0 ? 0 : toBf16(row[k])) << where(text, n, 3) << ", " << r << " " << k;
        }
      }
    }
  }
}

Expected dot(const Weight &w, uint64_t row, const uint16_t *x, uint32_t k) {
  Expected e;
  const std::vector<float> values = w.values(row);
  double size = 0;
  for (uint32_t i = 0; i < k; ++i) {
    e.value += double(values[i]) * bf16(x[i]);
    size += std::fabs(double(values[i]) * bf16(x[i]));
  }
  e.slack = size * (2.0 * ((k + 15) / 16) + 12) * kFloatUnit; // as in LinearOracle.cpp
  return e;
}

TEST(Sweep, Experts) {
  for (const ni::MoeUpSpec &s : keys::sweep().up) {
    const KernelText text = moeUpKernel(s, 0);
    for (uint32_t inner : full() ? std::vector<uint32_t>{16, 32, 48, 128, 144} : std::vector<uint32_t>{16, 48}) {
      std::mt19937_64 random(s.k + inner);
      const uint32_t experts = 3;
      const Weight bank = randomWeight(s.format, uint64_t(experts) * 2 * inner, s.k, random);
      const auto x = randomBf16(s.k, 1.0, random);
      const std::vector<float> routes = {2, 0, 0.5f, 0.5f};
      std::vector<Expected> expected;
      for (uint32_t slot = 0; slot < 2; ++slot)
        for (uint32_t i = 0; i < inner; ++i) {
          const uint64_t first = uint64_t(routes[slot]) * 2 * inner + i;
          const Expected g = dot(bank, first, x.data(), s.k), u = dot(bank, first + inner, x.data(), s.k);
          const double y = g.value / (1 + std::exp(-g.value));
          const double slack = 1.1 * g.slack + std::fabs(y) * 0x1p-19 + std::fabs(g.value * y) * 0x1p-22;
          expected.push_back({y * u.value, slack * (std::fabs(u.value) + u.slack) + std::fabs(y) * u.slack +
                                               std::fabs(y * u.value) * kFloatUnit});
        }
      Array bytes(packedByDefinition(bank), "bank"), xs(x, "x"), route(routes, "routes"), out(expected.size() * 2, true, "out");
      Arguments args;
      args.pointer(bytes).pointer(xs).pointer(route).pointer(out).u32(experts).u32(inner);
      ASSERT_EQ(launch(text, {ni::linearBlocks(ni::moeUpLinear(s), inner), 2}, args), "") << where(text, inner, 1);
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << where(text, inner, 1);
    }
  }
  for (const ni::MoeDownSpec &s : keys::sweep().down) {
    const KernelText text = moeDownKernel(s, 0);
    for (uint32_t n : full() ? std::vector<uint32_t>{16, 32, 48, 128, 144, 2064} : std::vector<uint32_t>{16, 144}) {
      std::mt19937_64 random(s.k + n);
      const uint32_t experts = 3;
      const Weight bank = randomWeight(s.format, uint64_t(experts) * n, s.k, random);
      const auto products = randomBf16(size_t(2) * s.k, 1.0, random);
      const std::vector<float> routes = {1, 2, 0.25f, 0.75f};
      std::vector<Expected> expected(n);
      for (uint32_t o = 0; o < n; ++o)
        for (uint32_t slot = 0; slot < 2; ++slot) {
          const Expected y = dot(bank, uint64_t(routes[slot]) * n + o, &products[slot * s.k], s.k);
          expected[o].value += double(routes[2 + slot]) * y.value;
          expected[o].slack += double(routes[2 + slot]) * (y.slack + std::fabs(y.value) * 3 * kFloatUnit);
        }
      Array bytes(packedByDefinition(bank), "bank"), xs(products, "products"), route(routes, "routes"), out(n * 2, true, "out");
      Arguments args;
      args.pointer(bytes).pointer(xs).pointer(route).pointer(out).u32(experts).u32(n);
      ASSERT_EQ(launch(text, {n / 16, 1}, args), "") << where(text, n, 1);
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << where(text, n, 1);
    }
  }
}

TEST(Sweep, Norm) {
  for (const ni::NormSpec &s : keys::sweep().norm) {
    const KernelText text = normKernel(s, 0);
    for (uint32_t vectors : {1u, 3u, 4u, 5u, 17u}) {
      std::mt19937_64 random(vectors + s.width);
      const auto x = randomBf16(size_t(vectors) * s.width, 2.0, random), weight = randomBf16(s.width, 1.0, random);
      std::vector<Expected> expected;
      for (uint32_t v = 0; v < vectors; ++v) {
        double squares = 0;
        for (uint32_t i = 0; i < s.width; ++i)
          squares += double(bf16(x[v * s.width + i])) * bf16(x[v * s.width + i]);
        for (uint32_t i = 0; i < s.width; ++i) { // the bound of RowsTest.cpp
          const double y = bf16(x[v * s.width + i]) / std::sqrt(squares / s.width + 1e-6) * bf16(weight[i]);
          expected.push_back({y, std::fabs(y) * ((s.width / 32 + 12) * kFloatUnit / 2 + 0x1p-20)});
        }
      }
      Array xs(x, "x"), weights(weight, "weight"), out(x.size() * 2, true, "out");
      Arguments args;
      args.pointer(xs).pointer(weights).null().pointer(out).u32(vectors).f32(1e-6f);
      ASSERT_EQ(launch(text, {ni::normBlocks(s, vectors)}, args), "") << where(text, s.width, vectors);
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << where(text, s.width, vectors);
    }
  }
}

} // namespace
} // namespace ninfer::cuda
