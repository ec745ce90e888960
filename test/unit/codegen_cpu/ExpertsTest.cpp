// Kernels of moe_up and moe_down against double loops over exactly decoded banks: one row, and every way
// the rows of a call can fall on the experts.
#include "test/unit/codegen_cpu/Harness.h"

#include "codegen/common/Tiling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace ninfer::test {
namespace {

/// Which expert slot s of row r takes.
enum class Routing {
  Random, ///< distinct experts
  One,    ///< every row the same ones
  Spread, ///< as many experts as there are
  Twice,  ///< one expert in all slots of a row, as for logits that are not numbers
};

struct ExpertCase {
  std::string name;
  bool up = true;
  std::string profile;
  Format format;
  int64_t experts = 4, slots = 2;
  int64_t units = 0; ///< outputs of an expert; up: pairs of gate and up row
  int64_t k = 0;
  int64_t maxRows = 1; ///< above 1: dynamic rows
};

std::string tensor(int64_t rows, int64_t width) {
  return "tensor<" + (rows == 1 ? std::string("1") : std::string("?")) + "x" +
         std::to_string(width) + "xf32>";
}

/// One kernel, its bank, activations and routes of maxRows rows, and what they must give.
struct Instance {
  ExpertCase c;
  Weight bank;
  std::string text;
  std::vector<float> x, routes;
  std::vector<double> expected, bound;

  explicit Instance(const ExpertCase &kase)
      : c(kase), bank(c.format, {uint64_t(c.experts * c.units * (c.up ? 2 : 1)), uint64_t(c.k)}, 77) {
    x = randomFloats(size_t(c.maxRows * inputWidth()), 31, 0.7f);
    x[x.size() / 2] *= 20; // an outlier, so that a wrong group scale shows
    const std::string op = c.up ? "moe_up" : "moe_down", in = tensor(c.maxRows, inputWidth()),
                      route = tensor(c.maxRows, 2 * c.slots), out = tensor(c.maxRows, outputWidth());
    text = "ninfer.kernel @" + c.name + "(%x: " + in + ", %r: " + route + ", %w: " + bank.type() +
           ") attributes {family = \"" + op + "_" + c.profile + "\", profile = \"" + c.profile +
           "\", rows = " + std::to_string(c.maxRows) + (c.maxRows > 1 ? ", dynamic_rows" : "") +
           ", tiles_const = " + std::to_string(tiles()) + ", tiles_per_row = 0} {\n  %y = ninfer." + op +
           " %x, %r, %w policy<" + (c.profile == "a8" ? "AllowA8" : "A16Only") +
           "> {experts = " + std::to_string(c.experts) + ", top_k = " + std::to_string(c.slots) +
           "} : " + in + ", " + route + ", " + bank.type().substr(bank.type().find('<')) + " -> " +
           out + "\n  ninfer.yield %y : " + out + "\n}\n";
  }

  int64_t inputWidth() const { return c.up ? c.k : c.slots * c.k; }
  int64_t outputWidth() const { return c.up ? c.slots * c.units : c.units; }
  int64_t tiles() const { return (c.units + kExpertTileUnits - 1) / kExpertTileUnits; }

  int64_t expert(int64_t row, int64_t slot) const {
    return int64_t(routes[size_t(row * 2 * c.slots + slot)]);
  }

  void route(Routing how) {
    std::mt19937 random(11);
    routes.assign(size_t(c.maxRows * 2 * c.slots), 0);
    std::vector<int64_t> order(static_cast<size_t>(c.experts));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t r = 0; r < c.maxRows; ++r) {
      std::shuffle(order.begin(), order.end(), random);
      float *row = routes.data() + r * 2 * c.slots;
      for (int64_t s = 0; s < c.slots; ++s) {
        row[s] = float(how == Routing::Random  ? order[size_t(s)]
                       : how == Routing::One   ? (c.experts - 1 + s) % c.experts
                       : how == Routing::Spread ? (r * c.slots + s) % c.experts
                                                : order[0]);
        row[c.slots + s] = float(random() % 1000) / 1000.0f - 0.2f;
      }
    }
    evaluate();
  }

  /// One linear map of a bank row, and the bound of its rounding (LinearTest.cpp).
  std::pair<double, double> dot(int64_t n, const float *in) const {
    const int64_t group = c.format == Format::W8G32_F16S ? 32 : 64;
    double sum = 0, magnitude = 0, rounding = 0;
    for (int64_t g = 0; g < c.k; g += group) {
      double largest = 0;
      for (int64_t i = g; i < std::min(g + group, c.k); ++i)
        largest = std::max(largest, double(std::fabs(in[i])));
      const double half = c.profile == "a16"  ? largest / 32767 / 2
                          : c.profile == "a8" ? largest / 127 / 2
                                              : 0;
      for (int64_t i = g; i < std::min(g + group, c.k); ++i) {
        const double w = bank.at(uint64_t(n), uint64_t(i));
        sum += w * in[i];
        magnitude += std::fabs(w * in[i]);
        rounding += std::fabs(w) * half * 1.001;
      }
    }
    return {sum, rounding + magnitude * double(c.k + 16) * 0x1p-24 + 1e-30};
  }

  void evaluate() {
    expected.assign(size_t(c.maxRows * outputWidth()), 0);
    bound.assign(expected.size(), 1e-30);
    for (int64_t r = 0; r < c.maxRows; ++r)
      for (int64_t s = 0; s < c.slots; ++s)
        for (int64_t u = 0; u < c.units; ++u) {
          if (c.up) {
            const int64_t first = expert(r, s) * 2 * c.units;
            const auto [g, gBound] = dot(first + u, x.data() + r * c.k);
            const auto [v, vBound] = dot(first + c.units + u, x.data() + r * c.k);
            const size_t at = size_t((r * c.slots + s) * c.units + u);
            const double silu = g / (1 + std::exp(-g));
            expected[at] = silu * v;
            // |silu'| < 1.1; the product of two errors and 8 float32 roundings.
            bound[at] = 1.1 * gBound * (std::fabs(v) + vBound) + std::fabs(silu) * vBound +
                        std::fabs(expected[at]) * 8 * 0x1p-23 + 1e-30;
          } else {
            const auto [y, yBound] =
                dot(expert(r, s) * c.units + u, x.data() + (r * c.slots + s) * c.k);
            const double share = routes[size_t(r * 2 * c.slots + c.slots + s)];
            const size_t at = size_t(r * c.units + u);
            expected[at] += share * y;
            // A product and a sum per slot, in any order.
            bound[at] += std::fabs(share) * (yBound + std::fabs(y) * double(c.slots + 2) * 0x1p-24);
          }
        }
  }

  /// Runs the kernel on the first `rows` rows in `pieces` runs.
  std::vector<float> run(const Compiled &compiled, int64_t rows, int64_t pieces) {
    auto input = bufferOf({x.begin(), x.begin() + rows * inputWidth()});
    auto route = bufferOf({routes.begin(), routes.begin() + rows * 2 * c.slots});
    auto out = floatBuffer(size_t(rows * outputWidth()));
    std::vector<void *> args = {input->as<void>(), route->as<void>()};
    bank.addPointers(args);
    args.push_back(out->as<void>());
    compiled.run(c.name, args, {out.get()}, rows, 3, tiles(), pieces);
    return {out->as<float>(), out->as<float>() + rows * outputWidth()};
  }

  void check(const Compiled &compiled, int64_t rows) {
    const std::vector<float> whole = run(compiled, rows, 1);
    for (int64_t r = 0; r < rows; ++r) {
      const auto at = r * outputWidth(), end = at + outputWidth();
      expectWithin(whole.data() + at, {expected.begin() + at, expected.begin() + end},
                   {bound.begin() + at, bound.begin() + end},
                   c.name + " rows " + std::to_string(rows) + " row " + std::to_string(r));
      if (testing::Test::HasFailure())
        return;
    }
    // Threads get runs of tiles: whatever their number, the same bits. (A row alone is summed in four streams
    // of its range, but each output on its own.)
    for (int64_t pieces : {int64_t(2), tiles()})
      ASSERT_EQ(std::memcmp(run(compiled, rows, pieces).data(), whole.data(), whole.size() * 4), 0)
          << c.name << " rows " << rows << " pieces " << pieces;
  }
};

constexpr Format q4 = Format::Q4G64_F16S, q5 = Format::Q5G64_F16S, q6 = Format::Q6G64_F16S,
                 w8 = Format::W8G32_F16S, bf16 = Format::BF16, fp8 = Format::FP8_E4M3FN_ROW_BF16S;

void checkCases(const std::vector<ExpertCase> &cases, const std::vector<int64_t> &rowCounts) {
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    std::vector<Instance> instances;
    std::string text;
    for (const ExpertCase &c : cases)
      text += instances.emplace_back(c).text;
    auto compiled = Compiled::fromText(text, target);
    ASSERT_NE(compiled, nullptr);
    for (Instance &instance : instances)
      for (Routing how : {Routing::Random, Routing::One, Routing::Spread, Routing::Twice}) {
        instance.route(how);
        for (int64_t rows : rowCounts) {
          instance.check(*compiled, rows);
          if (testing::Test::HasFailure())
            return;
        }
      }
  }
}

TEST(CpuExperts, Decode) {
  checkCases({{.name = "up_q4", .profile = "a16", .format = q4, .experts = 7, .slots = 3, .units = 40, .k = 192},
              {.name = "up_w8", .profile = "a8", .format = w8, .experts = 3, .slots = 3, .units = 17, .k = 96},
              {.name = "up_bf16", .profile = "f32", .format = bf16, .experts = 5, .slots = 1, .units = 16, .k = 51},
              {.name = "down_q5", .up = false, .profile = "a16", .format = q5, .experts = 7, .slots = 3, .units = 90, .k = 64},
              {.name = "down_q6", .up = false, .profile = "a8", .format = q6, .experts = 2, .slots = 2, .units = 33, .k = 128},
              {.name = "down_fp8", .up = false, .profile = "f32", .format = fp8, .experts = 4, .slots = 2, .units = 20, .k = 130}},
             {1});
}

/// Every count up to 24, then every seventh, and the edges of blocks.
std::vector<int64_t> manyRows() {
  std::vector<int64_t> rows = {63, 64, 65, 127, 128, 129, 260};
  for (int64_t r = 1; r <= 260; r += r < 24 ? 1 : 7)
    rows.push_back(r);
  return rows;
}

TEST(CpuExperts, UpOfManyRows) {
  checkCases({{.name = "up_q4_rows", .profile = "a16", .format = q4, .experts = 9, .slots = 2, .units = 70, .k = 72, .maxRows = 260},
              {.name = "up_w8_all", .profile = "a8", .format = w8, .experts = 3, .slots = 3, .units = 17, .k = 96, .maxRows = 260},
              {.name = "up_bf16_rows", .profile = "f32", .format = bf16, .experts = 400, .slots = 1, .units = 5, .k = 33, .maxRows = 260}},
             manyRows());
}

TEST(CpuExperts, DownOfManyRows) {
  checkCases({{.name = "down_q5_rows", .up = false, .profile = "a16", .format = q5, .experts = 9, .slots = 2, .units = 100, .k = 64, .maxRows = 260},
              {.name = "down_q6_all", .up = false, .profile = "a8", .format = q6, .experts = 3, .slots = 3, .units = 33, .k = 40, .maxRows = 260},
              {.name = "down_fp8_rows", .up = false, .profile = "f32", .format = fp8, .experts = 300, .slots = 1, .units = 18, .k = 40, .maxRows = 260}},
             manyRows());
}

// Verify calls have few rows; the buffers are sized for them.
TEST(CpuExperts, FewRowsAtMost) {
  checkCases({{.name = "up_few", .profile = "a16", .format = q4, .experts = 8, .slots = 2, .units = 33, .k = 64, .maxRows = 6},
              {.name = "down_few", .up = false, .profile = "a16", .format = q5, .experts = 8, .slots = 2, .units = 33, .k = 64, .maxRows = 6}},
             {1, 2, 3, 4, 5, 6});
}

// A row whose logits were not numbers has weights that are none; it spoils itself alone. Numbers that name no
// expert read expert 0, as the built-ins do, and nothing outside the bank.
TEST(CpuExperts, RowsThatAreNotNumbersStayAlone) {
  for (const std::string &target : runnableTargets()) {
    Instance down({.name = "down", .up = false, .profile = "a16", .format = q4, .experts = 5, .slots = 2, .units = 20, .k = 64, .maxRows = 40});
    auto compiled = Compiled::fromText(down.text, target);
    ASSERT_NE(compiled, nullptr);
    down.route(Routing::Random);
    const std::vector<float> before = down.run(*compiled, 40, 2);
    for (float &value : std::span(down.routes).subspan(4 * 7, 4))
      value = std::nanf("");
    down.routes[4 * 9] = -3;
    down.routes[4 * 9 + 1] = 1e30f;
    const std::vector<float> after = down.run(*compiled, 40, 2);
    down.routes[4 * 9] = down.routes[4 * 9 + 1] = 0;
    const std::vector<float> first = down.run(*compiled, 40, 2);
    for (size_t row = 0; row < 40; ++row)
      for (size_t i = row * 20; i < row * 20 + 20; ++i) {
        if (row == 7)
          EXPECT_TRUE(std::isnan(after[i])) << target;
        else if (row == 9)
          EXPECT_EQ(after[i], first[i]) << target;
        else // its expert may be multiplied with other rows now, and so be summed in another order
          EXPECT_NEAR(after[i], before[i], 2 * down.bound[i]) << target << " row " << row;
      }
  }
}

} // namespace
} // namespace ninfer::test
