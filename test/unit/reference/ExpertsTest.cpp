// Built-ins of sparse mixture-of-experts layers against sums written out here.
#include "test/unit/reference/Helpers.h"

#include <bit>
#include <cmath>

using namespace ninfer;
using namespace ninfer::test;

namespace {

uint16_t bf16(float value) { return uint16_t(std::bit_cast<uint32_t>(value) >> 16); }

/// Small numbers that bfloat16 holds exactly.
float number(uint32_t &seed) {
  seed = seed * 1664525u + 1013904223u;
  return float(int32_t(seed >> 24) - 128) / 64;
}

TEST(ExpertsTest, RoutesTakeTheLargestAndBreakTiesByNumber) {
  const auto route = make("ref.moe_route", {{"experts", int64_t{6}}, {"top_k", int64_t{3}}});
  float logits[] = {1, 3, 2, 3, -1, 2, /* second row */ 0, 0, 0, 0, 0, 0};
  float out[12];
  std::fill_n(out, 12, NAN);
  call(*route, {logits, out}, 2);
  const double total = 1 + 1 + std::exp(-1.0);
  const double expected[] = {1, 3, 2, 1 / total, 1 / total, std::exp(-1.0) / total,
                             0, 1, 2, 1.0 / 3,   1.0 / 3,   1.0 / 3};
  for (int i = 0; i < 12; ++i)
    EXPECT_NEAR(out[i], expected[i], 1e-7) << i;
}

// Numbers address a bank: they must name an expert whatever the logits are.
TEST(ExpertsTest, NumbersAreValidForNaN) {
  const auto route = make("ref.moe_route", {{"experts", int64_t{4}}, {"top_k", int64_t{3}}});
  float logits[] = {NAN, NAN, NAN, NAN, 1, NAN, 2, NAN, INFINITY, -INFINITY, NAN, INFINITY};
  float out[18];
  call(*route, {logits, out}, 3);
  for (int r = 0; r < 3; ++r)
    for (int s = 0; s < 3; ++s) {
      const float number = out[r * 6 + s];
      EXPECT_TRUE(number == 0 || number == 1 || number == 2 || number == 3) << r << ' ' << number;
    }
}

TEST(ExpertsTest, BanksOfChosenExperts) {
  constexpr int64_t experts = 5, slots = 2, inner = 3, hidden = 4, rows = 3;
  uint32_t seed = 5;
  std::vector<uint16_t> up(experts * 2 * inner * hidden), down(experts * hidden * inner);
  std::vector<float> upValues, downValues, x(rows * hidden);
  for (auto *bank : {&up, &down})
    for (uint16_t &word : *bank) {
      const float value = number(seed);
      word = bf16(value);
      (bank == &up ? upValues : downValues).push_back(value);
    }
  for (float &value : x)
    value = number(seed);
  // Numbers, then weights; row 2 has one expert twice.
  float routes[] = {4, 0, 0.75f, 0.25f, 2, 3, 0.5f, 0.5f, 1, 1, 0.9f, 0.1f};

  const reference::AttributeMap common = {{"format", std::string("BF16")},
                                          {"layout", std::string("contiguous-le-v1")},
                                          {"experts", experts},
                                          {"top_k", slots}};
  auto attributes = common;
  attributes["n"] = experts * 2 * inner;
  attributes["k"] = hidden;
  const auto moeUp = make("ref.moe_up", attributes);
  std::vector<float> products(rows * slots * inner, NAN), y(rows * hidden, NAN);
  call(*moeUp, {x.data(), routes, up.data(), products.data()}, rows);

  std::vector<double> exact(products.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t s = 0; s < slots; ++s)
      for (int64_t i = 0; i < inner; ++i) {
        const auto e = int64_t(routes[r * 2 * slots + s]);
        double gate = 0, value = 0;
        for (int64_t j = 0; j < hidden; ++j) {
          gate += double(upValues[size_t((e * 2 * inner + i) * hidden + j)]) * x[size_t(r * hidden + j)];
          value += double(upValues[size_t((e * 2 * inner + inner + i) * hidden + j)]) * x[size_t(r * hidden + j)];
        }
        const size_t at = size_t((r * slots + s) * inner + i);
        exact[at] = gate / (1 + std::exp(-gate)) * value;
        EXPECT_NEAR(products[at], exact[at], 1e-5) << at;
      }

  attributes = common;
  attributes["n"] = experts * hidden;
  attributes["k"] = inner;
  const auto moeDown = make("ref.moe_down", attributes);
  call(*moeDown, {products.data(), routes, down.data(), y.data()}, rows);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < hidden; ++h) {
      double sum = 0;
      for (int64_t s = 0; s < slots; ++s) {
        const auto e = int64_t(routes[r * 2 * slots + s]);
        for (int64_t i = 0; i < inner; ++i)
          sum += double(routes[r * 2 * slots + slots + s]) * exact[size_t((r * slots + s) * inner + i)] *
                 downValues[size_t((e * hidden + h) * inner + i)];
      }
      EXPECT_NEAR(y[size_t(r * hidden + h)], sum, 1e-5) << r << ',' << h;
    }
}

TEST(ExpertsTest, ARowGateHasOneElement) {
  const auto gate = make("ref.sigmoid_gate", {{"k", int64_t{3}}, {"row_gate", int64_t{1}}});
  float x[] = {1, 2, 3, 4, 5, 6}, scores[] = {0, std::log(3.0f)}, y[6];
  call(*gate, {x, scores, y}, 2);
  const float expected[] = {0.5f, 1, 1.5f, 3, 3.75f, 4.5f};
  for (int i = 0; i < 6; ++i)
    EXPECT_NEAR(y[i], expected[i], 1e-6) << i;
}

TEST(ExpertsTest, WrongAttributesAreRefused) {
  const auto refused = [](const std::string &symbol, const reference::AttributeMap &attributes) {
    auto builtin = reference::makeBuiltin(symbol, attributes, "the_kernel");
    EXPECT_FALSE(builtin.ok());
    return builtin.ok() ? "" : builtin.error().message;
  };
  EXPECT_NE(refused("ref.moe_route", {{"experts", int64_t{2}}, {"top_k", int64_t{3}}}).find("top_k"), std::string::npos);
  const reference::AttributeMap bank = {{"format", std::string("BF16")}, {"layout", std::string("contiguous-le-v1")},
                                        {"experts", int64_t{4}},         {"top_k", int64_t{2}},
                                        {"n", int64_t{10}},              {"k", int64_t{4}}};
  EXPECT_NE(refused("ref.moe_down", bank).find("multiple of the 4 experts"), std::string::npos);
  auto odd = bank;
  odd["n"] = int64_t{12};
  EXPECT_NE(refused("ref.moe_up", odd).find("even number"), std::string::npos);
}

} // namespace
