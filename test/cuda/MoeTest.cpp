// Routing, first and second map of a mixture of experts against double arithmetic over the represented bank.
#include "test/cuda/Keys.h"
#include "test/cuda/LinearOracle.h"
#include "test/cuda/Support.h"
#include "test/cuda/Weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace ninfer::cuda {
namespace {

class MoeRoute : public testing::TestWithParam<ni::MoeRouteSpec> {};

TEST_P(MoeRoute, ChoosesTheLargest) {
  const ni::MoeRouteSpec s = GetParam();
  const KernelText text = moeRouteKernel(s, 0);
  const uint32_t rows = 4;
  std::mt19937_64 random(s.experts);
  std::vector<float> logits(size_t(rows) * s.experts);
  for (float &v : logits)
    v = float(int(random() % 64)) / 4; // ties
  for (uint32_t e = 0; e < s.experts; ++e)
    logits[3 * s.experts + e] = std::numeric_limits<float>::quiet_NaN();
  std::vector<Expected> expected;
  for (uint32_t r = 0; r < 3; ++r) { // the row of NaN has numbers without weights
    const float *row = &logits[size_t(r) * s.experts];
    std::vector<uint32_t> order(s.experts);
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
    double sum = 0;
    for (uint32_t i = 0; i < s.topK; ++i) {
      expected.push_back({double(order[i]), 0});
      sum += std::exp(double(row[order[i]]) - row[order[0]]);
    }
    for (uint32_t i = 0; i < s.topK; ++i) { // exp 2^-21, its argument rounded once, in numerator and sum; topK roundings
      const double w = std::exp(double(row[order[i]]) - row[order[0]]) / sum;
      expected.push_back({w, w * (0x1p-19 + 32 * 0x1p-22 + s.topK * kFloatUnit)});
    }
  }
  Array in(logits, "logits"), routes(size_t(rows) * 2 * s.topK * 4, true, "routes");
  for (const emulator::Options &mode : threadOrders()) {
    routes.poison();
    Arguments args;
    args.pointer(in).pointer(routes);
    ASSERT_EQ(launch(text, {rows}, args, mode), "");
    ASSERT_EQ(compareFloat(expected, routes.as<float>()), "");
    for (uint32_t i = 0; i < s.topK; ++i)
      ASSERT_EQ(routes.as<float>()[3 * 2 * s.topK + i], float(i)) << "NaN logits still name different experts";
  }
}

std::string routeName(const testing::TestParamInfo<ni::MoeRouteSpec> &info) { return moeRouteKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, MoeRoute, testing::ValuesIn(keys::moeRoute()), routeName);

/// Product of a bank row and a vector; bound as in LinearOracle.cpp.
Expected dot(const std::vector<float> &w, const uint16_t *x, uint32_t sums, ni::Operands operands, ni::Format format) {
  Expected e;
  double size = 0;
  for (size_t k = 0; k < w.size(); ++k) {
    e.value += double(w[k]) * bf16(x[k]);
    size += std::fabs(double(w[k]) * bf16(x[k]));
  }
  if (operands == ni::Operands::F16) {
    std::vector<double> numbers;
    for (size_t k = 0; k < w.size(); ++k)
      numbers.push_back(bf16(x[k]));
    e.slack = halfSlack(w, numbers, format == ni::Format::Bf16);
  }
  e.slack += size * (2.0 * ((double(w.size()) + 15) / 16) + sums + 4) * kFloatUnit;
  return e;
}

/// silu(gate) * up; the slope of silu is at most 1.1, its exponential and reciprocal are off by 2^-21 each.
Expected gated(const Expected &g, const Expected &u) {
  const double silu = g.value / (1 + std::exp(-g.value));
  const double slack = 1.1 * g.slack + std::fabs(silu) * 0x1p-19 + std::fabs(g.value * silu) * 0x1p-22;
  return {silu * u.value,
          slack * (std::fabs(u.value) + u.slack) + std::fabs(silu) * u.slack + std::fabs(silu * u.value) * kFloatUnit};
}

/// Legal numbers, one beyond the bank and one negative (both mean expert 0).
std::vector<float> someRoutes(uint32_t rows, uint32_t topK, uint32_t experts, std::mt19937_64 &random) {
  std::vector<float> routes;
  for (uint32_t r = 0; r < rows; ++r) {
    for (uint32_t i = 0; i < topK; ++i)
      routes.push_back(float(random() % experts));
    for (uint32_t i = 0; i < topK; ++i)
      routes.push_back(float(1 + random() % 7) / 8);
  }
  routes[0] = float(experts);
  if (topK > 1)
    routes[1] = -1;
  return routes;
}
uint32_t expert(float number, uint32_t experts) { return number >= 0 && number < float(experts) ? uint32_t(number) : 0; }

class MoeUp : public testing::TestWithParam<ni::MoeUpSpec> {};

TEST_P(MoeUp, AgreesWithDouble) {
  const ni::MoeUpSpec s = GetParam();
  const KernelText text = moeUpKernel(s, 0);
  const uint32_t experts = 4, inner = 32, rows = 2;
  std::mt19937_64 random(s.k);
  const Weight bank = randomWeight(s.format, uint64_t(experts) * 2 * inner, s.k, random);
  const auto x = randomBf16(size_t(rows) * s.k, 1.0, random);
  const std::vector<float> routes = someRoutes(rows, s.topK, experts, random);
  std::vector<Expected> expected;
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t slot = 0; slot < s.topK; ++slot)
      for (uint32_t i = 0; i < inner; ++i) {
        const uint64_t first = uint64_t(expert(routes[r * 2 * s.topK + slot], experts)) * 2 * inner;
        const Expected g = dot(bank.values(first + i), &x[r * s.k], s.warpsK, s.operands, s.format);
        const Expected u = dot(bank.values(first + inner + i), &x[r * s.k], s.warpsK, s.operands, s.format);
        expected.push_back(gated(g, u));
      }
  Array bytes(packedByDefinition(bank), "bank"), xs(x, "x"), route(routes, "routes"), out(expected.size() * 2, true, "out");
  for (const emulator::Options &mode : threadOrders()) {
    out.poison();
    Arguments args;
    args.pointer(bytes).pointer(xs).pointer(route).pointer(out).u32(experts).u32(inner);
    ASSERT_EQ(launch(text, {ni::linearBlocks(ni::moeUpLinear(s), inner), rows * s.topK}, args, mode), "");
    ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "");
  }
}

std::string upName(const testing::TestParamInfo<ni::MoeUpSpec> &info) { return moeUpKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, MoeUp, testing::ValuesIn(keys::moeUp()), upName);

class MoeDown : public testing::TestWithParam<ni::MoeDownSpec> {};

TEST_P(MoeDown, AgreesWithDouble) {
  const ni::MoeDownSpec s = GetParam();
  const KernelText text = moeDownKernel(s, 0);
  const uint32_t experts = 4, n = 32, rows = 2;
  std::mt19937_64 random(s.k);
  const Weight bank = randomWeight(s.format, uint64_t(experts) * n, s.k, random);
  auto products = randomBf16(size_t(rows) * s.topK * s.k, 1.0, random);
  if (s.operands == ni::Operands::F16) // beyond the range of binary16 on either side
    for (size_t i = 0; i < products.size(); ++i)
      products[i] = toBf16(bf16(products[i]) * (i < products.size() / rows ? 1e30 : 1e-30));
  const std::vector<float> routes = someRoutes(rows, s.topK, experts, random);
  std::vector<Expected> expected;
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t o = 0; o < n; ++o) {
      Expected sum;
      double size = 0;
      for (uint32_t slot = 0; slot < s.topK; ++slot) {
        const uint64_t row = uint64_t(expert(routes[r * 2 * s.topK + slot], experts)) * n + o;
        const Expected y = dot(bank.values(row), &products[(r * s.topK + slot) * s.k], 1, s.operands, s.format);
        const double share = routes[r * 2 * s.topK + s.topK + slot];
        sum.value += share * y.value;
        sum.slack += share * y.slack;
        size += std::fabs(share * y.value);
      }
      sum.slack += size * (s.topK + 1) * kFloatUnit;
      expected.push_back(sum);
    }
  Array bytes(packedByDefinition(bank), "bank"), xs(products, "products"), route(routes, "routes");
  Array out(expected.size() * 2, true, "out");
  for (const emulator::Options &mode : threadOrders()) {
    out.poison();
    Arguments args;
    args.pointer(bytes).pointer(xs).pointer(route).pointer(out).u32(experts).u32(n);
    ASSERT_EQ(launch(text, {n / 16, rows}, args, mode), "");
    ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "");
  }
}

std::string downName(const testing::TestParamInfo<ni::MoeDownSpec> &info) { return moeDownKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, MoeDown, testing::ValuesIn(keys::moeDown()), downName);

class MoeGrouped : public testing::TestWithParam<ni::MoeGroupedSpec> {};

/// `rows` rows over `experts` experts, the last of which nobody chooses.
void checkGrouped(const ni::MoeGroupedSpec &s, uint32_t rows, uint32_t experts, uint32_t n, const std::vector<emulator::Options> &modes) {
  const KernelText text = moeGroupedKernel(s, 0);
  std::mt19937_64 random(s.k + rows);
  const Weight bank = randomWeight(s.format, uint64_t(experts) * (s.down ? 1 : 2) * n, s.k, random);
  const auto x = randomBf16(size_t(rows) * (s.down ? s.topK : 1) * s.k, 1.0, random);
  std::vector<float> routes = someRoutes(rows, s.topK, experts - 1, random);
  routes[0] = float(experts); // beyond the bank
  std::vector<std::vector<float>> values;
  for (uint64_t row = 0; row < bank.n(); ++row)
    values.push_back(bank.values(row));
  std::vector<Expected> expected;
  for (uint32_t r = 0; r < rows; ++r) {
    const float *route = &routes[size_t(r) * 2 * s.topK];
    if (s.down)
      for (uint32_t o = 0; o < n; ++o) {
        Expected sum;
        double size = 0;
        for (uint32_t slot = 0; slot < s.topK; ++slot) {
          const Expected y = dot(values[uint64_t(expert(route[slot], experts)) * n + o], &x[(size_t(r) * s.topK + slot) * s.k], 1, ni::Operands::Bf16, s.format);
          const double share = route[s.topK + slot];
          sum.value += share * y.value;
          sum.slack += share * y.slack;
          size += std::fabs(share * y.value);
        }
        sum.slack += size * (s.topK + 1) * kFloatUnit;
        expected.push_back(sum);
      }
    else
      for (uint32_t slot = 0; slot < s.topK; ++slot)
        for (uint32_t i = 0; i < n; ++i) {
          const uint64_t first = uint64_t(expert(route[slot], experts)) * 2 * n;
          expected.push_back(gated(dot(values[first + i], &x[size_t(r) * s.k], 1, ni::Operands::Bf16, s.format), dot(values[first + n + i], &x[size_t(r) * s.k], 1, ni::Operands::Bf16, s.format)));
        }
  }
  Array bytes(packedByDefinition(bank), "bank"), xs(x, "x"), route(routes, "routes"), out(expected.size() * 2, true, "out");
  const std::vector<uint32_t> zeros(ni::groupedCounters(s, rows, n), 0);
  for (const emulator::Options &mode : modes) {
    out.poison();
    Array scratch(ni::groupedScratch(s, rows, n) * 4, true, "scratch"), counters(zeros, "counters", true);
    Arguments args;
    args.pointer(bytes).pointer(xs).pointer(route).pointer(out);
    s.down ? args.pointer(scratch).pointer(counters) : args.null().null();
    args.u32(rows).u32(experts).u32(n);
    const std::string where = text.name + ", rows " + std::to_string(rows) + ", " + describe(mode);
    ASSERT_EQ(launch(text, {ni::groupedBlocksX(s, n), experts}, args, mode), "") << where;
    ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << where;
    for (size_t i = 0; i < zeros.size(); ++i)
      ASSERT_EQ(counters.as<uint32_t>()[i], 0u) << where;
  }
}

TEST_P(MoeGrouped, AgreesWithDouble) {
  const ni::MoeGroupedSpec s = GetParam();
  const std::vector<emulator::Options> modes = allModes();
  const uint32_t n = s.format == ni::Format::Nvfp4 ? 128 : 48;
  checkGrouped(s, 21, 4, n, {modes[s.k % 6]});
  checkGrouped(s, 1, 2, n, {modes[0]});
}

/// More entries of an expert than a tile has, more than a block looks through at a time, two columns of blocks; every order.
TEST(MoeGrouped, ManyEntries) {
  for (bool down : {false, true}) {
    const ni::MoeGroupedSpec s = keys::moeGrouped()[down];
    checkGrouped(s, 75, 3, 144, allModes());
    checkGrouped(s, ni::kGroupedWindow / s.topK + 30, 9, 16, {allModes()[2]});
  }
}

std::string groupedName(const testing::TestParamInfo<ni::MoeGroupedSpec> &info) { return moeGroupedKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, MoeGrouped, testing::ValuesIn(keys::moeGrouped()), groupedName);

} // namespace
} // namespace ninfer::cuda
