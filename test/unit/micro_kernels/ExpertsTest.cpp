// Choice of experts and the small sums of mixture-of-experts layers, against loops in double precision.
#include "test/unit/micro_kernels/Support.h"

#include <algorithm>
#include <numeric>

namespace ninfer::test {
namespace {

TEST(ExpertsTest, RoutesTakeTheLargestAndBreakTiesByNumber) {
  NINFER_NEEDS_LEVEL();
  Random random{21};
  for (const int64_t experts : {1, 2, 7, 16, 33, 256, 512})
    for (const int64_t slots : {1, 2, 3, 8, 10, 17, 64}) {
      if (slots > experts)
        continue;
      for (const bool ties : {false, true}) {
        std::vector<float> logits(static_cast<size_t>(experts));
        for (float &v : logits)
          v = ties ? float(int(random.value() * 2)) : random.value() * 30;
        Guarded in = guardedFloats(logits);
        std::vector<float> out = untouched(size_t(2 * slots + 1));
        ni_moe_route(in.as<float>(), experts, slots, out.data());

        std::vector<size_t> order(logits.size());
        std::iota(order.begin(), order.end(), size_t(0));
        std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
          return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
        });
        double total = 0;
        for (size_t s = 0; s < size_t(slots); ++s)
          total += std::exp(double(logits[order[s]]) - double(logits[order[0]]));
        for (size_t s = 0; s < size_t(slots); ++s) {
          ASSERT_EQ(out[s], float(order[s])) << experts << ' ' << slots << ' ' << s;
          const double weight = std::exp(double(logits[order[s]]) - double(logits[order[0]])) / total;
          // The rounding of the difference enters the exponent: relative error |difference| * 2^-24.
          const double below = double(logits[order[0]]) - double(logits[order[s]]);
          ASSERT_NEAR(out[size_t(slots) + s], weight, weight * (20 + below) * kUnit + 1e-37);
        }
        ASSERT_TRUE(isUntouched(out.back()));
      }
    }
}

// Numbers address a bank: they must name an expert whatever the logits are.
TEST(ExpertsTest, NumbersAreValidForNaN) {
  NINFER_NEEDS_LEVEL();
  const float nan = std::nanf(""), inf = HUGE_VALF;
  const std::vector<std::vector<float>> rows = {
      {nan, nan, nan, nan}, {1, nan, 2, nan}, {nan, 1, 2, 3}, {inf, -inf, nan, inf}, {-inf, -inf, -inf, -inf}};
  for (const std::vector<float> &row : rows) {
    Guarded in = guardedFloats(row);
    float out[6];
    ni_moe_route(in.as<float>(), 4, 3, out);
    for (int s = 0; s < 3; ++s)
      ASSERT_TRUE(out[s] == 0 || out[s] == 1 || out[s] == 2 || out[s] == 3) << out[s];
  }
}

TEST(ExpertsTest, EntriesAreSortedByExpert) {
  NINFER_NEEDS_LEVEL();
  Random random{23};
  for (const int64_t experts : {1, 2, 5, 256})
    for (const int64_t slots : {1, 3, 8})
      for (const int64_t rows : {1, 2, 7, 100}) {
        std::vector<float> values(size_t(rows * 2 * slots), 0.5f);
        std::vector<std::vector<int64_t>> expected(static_cast<size_t>(experts));
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t s = 0; s < slots; ++s) {
            int64_t expert = random.below(experts);
            float number = float(expert);
            if (random.below(20) == 0) { // no expert of this bank
              const float wrong[] = {-1.0f, float(experts), 1e30f, std::nanf(""), -HUGE_VALF};
              number = wrong[random.below(5)];
              expert = 0;
            }
            values[size_t(r * 2 * slots + s)] = number;
            expected[size_t(expert)].push_back(r * slots + s);
          }
        Guarded routes = guardedFloats(values), first(size_t(experts + 1) * 8), entries(size_t(rows * slots) * 8);
        ni_expert_groups(routes.as<float>(), rows, slots, experts, first.as<int64_t>(), entries.as<int64_t>());
        int64_t at = 0;
        for (int64_t e = 0; e < experts; ++e) {
          ASSERT_EQ(first.as<int64_t>()[e], at) << experts << ' ' << slots << ' ' << rows << ' ' << e;
          for (const int64_t entry : expected[size_t(e)])
            ASSERT_EQ(entries.as<int64_t>()[at++], entry);
        }
        ASSERT_EQ(first.as<int64_t>()[experts], rows * slots);
      }
}

TEST(ExpertsTest, GatherRows) {
  NINFER_NEEDS_LEVEL();
  for (const int64_t k : {1, 7, 16, 33, 100})
    for (const int64_t divisor : {1, 3}) {
      std::vector<float> values(size_t(5 * k));
      std::iota(values.begin(), values.end(), 1.0f);
      Guarded x = guardedFloats(values), out(size_t(4 * k) * 4);
      std::vector<int64_t> entries = {4, 0, 2, 4};
      for (int64_t &entry : entries)
        entry = entry * divisor + divisor - 1;
      ni_gather_rows(x.as<float>(), entries.data(), divisor, 4, k, out.as<float>());
      for (size_t i = 0; i < 4; ++i)
        for (size_t j = 0; j < size_t(k); ++j)
          ASSERT_EQ(out.as<float>()[i * size_t(k) + j], values[size_t(entries[i] / divisor * k) + j]);
    }
}

TEST(ExpertsTest, SigmoidScaleAndScaleAdd) {
  NINFER_NEEDS_LEVEL();
  Random random{22};
  for (const int64_t n : {1, 7, 8, 15, 16, 17, 100, 1025})
    for (const float gate : {0.0f, 1.5f, -3.0f, 80.0f, -80.0f}) {
      std::vector<float> values(static_cast<size_t>(n));
      for (float &v : values)
        v = random.value();
      Guarded x = guardedFloats(values);
      std::vector<float> out = untouched(size_t(n + 1));
      ni_sigmoid_scale(x.as<float>(), &gate, n, out.data());
      for (size_t i = 0; i < size_t(n); ++i) {
        const double exact = values[i] / (1 + std::exp(-double(gate)));
        ASSERT_NEAR(out[i], exact, std::abs(exact) * 10 * kUnit);
      }
      ASSERT_TRUE(isUntouched(out.back()));
      std::vector<float> sum = out;
      ni_scale_add(x.as<float>(), gate, n, sum.data());
      for (size_t i = 0; i < size_t(n); ++i) {
        const double exact = double(out[i]) + double(gate) * values[i];
        ASSERT_NEAR(sum[i], exact, (std::abs(out[i]) + std::abs(gate * values[i])) * 2 * kUnit);
      }
      ASSERT_TRUE(isUntouched(sum.back()));
    }
}

} // namespace
} // namespace ninfer::test
