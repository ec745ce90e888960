// Kernels of the linear families against double loops over exactly decoded weights.
#include "test/unit/codegen_cpu/Harness.h"

#include "codegen/common/Tiling.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ninfer::test {
namespace {

enum class Epilogue { Store, Residual, Swiglu };

struct LinearCase {
  std::string name;
  std::string profile;
  std::vector<Format> formats; ///< one per segment; swiglu: gate, up
  std::vector<int64_t> n;
  int64_t k = 0;
  int64_t maxRows = 1; ///< above 1: dynamic rows
  bool norm = false;
  bool lastRow = false;
  Epilogue epilogue = Epilogue::Store;
  bool raw = false; ///< without ninfer.fused
};

constexpr double eps = 1e-5;

int64_t tilesOf(const LinearCase &c) {
  std::vector<int64_t> units = c.n;
  if (c.epilogue == Epilogue::Swiglu)
    units.pop_back();
  return segmentFirstTiles(units, linearGranule(units, c.lastRow ? 1 : c.maxRows)).back();
}

std::string tensor(int64_t rows, int64_t width) {
  return "tensor<" + (rows == 1 ? std::string("1") : std::string("?")) + "x" +
         std::to_string(width) + "xf32>";
}

/// One kernel and the data of its arguments.
struct Instance {
  LinearCase c;
  std::vector<Weight> weights;
  std::unique_ptr<Weight> normWeight;
  std::string text;

  explicit Instance(const LinearCase &kase) : c(kase) {
    for (size_t i = 0; i < c.n.size(); ++i)
      weights.emplace_back(c.formats[i], std::vector<uint64_t>{uint64_t(c.n[i]), uint64_t(c.k)},
                           uint32_t(100 + i));
    if (c.norm)
      normWeight = std::make_unique<Weight>(Format::BF16, std::vector<uint64_t>{uint64_t(c.k)}, 7);
    text = makeText();
  }

  bool dynamic() const { return c.maxRows > 1; }
  int64_t resultRows() const { return c.lastRow ? 1 : c.maxRows; }

  std::string makeText() const {
    std::vector<std::pair<std::string, std::string>> args = {{"x", tensor(c.maxRows, c.k)}};
    if (normWeight)
      args.push_back({"nw", normWeight->type()});
    for (size_t i = 0; i < weights.size(); ++i)
      args.push_back({"w" + std::to_string(i), weights[i].type()});
    if (c.epilogue == Epilogue::Residual)
      args.push_back({"res", tensor(resultRows(), c.n[0])});

    std::string body, x = "%x", xType = args[0].second;
    auto line = [&](const std::string &s) { body += "    " + s + "\n"; };
    if (c.lastRow) {
      line("%last = ninfer.last_row " + x + " : " + xType + " -> " + tensor(1, c.k));
      x = "%last";
      xType = tensor(1, c.k);
    }
    if (normWeight) {
      line("%normed = ninfer.rms_norm " + x + ", %nw {eps = 1.0e-05} : " + xType + ", " +
           normWeight->type());
      x = "%normed";
    }
    std::vector<std::string> results, types;
    for (size_t i = 0; i < weights.size(); ++i) {
      std::string y = "%y" + std::to_string(i), type = tensor(resultRows(), c.n[i]);
      line(y + " = ninfer.linear " + x + ", %w" + std::to_string(i) + " policy<" +
           (c.profile == "a8" ? "AllowA8" : "A16Only") + "> : " + xType + ", " + weights[i].type() +
           " -> " + type);
      results.push_back(y);
      types.push_back(type);
    }
    if (c.epilogue == Epilogue::Residual) {
      line("%sum = ninfer.add %res, %y0 : " + types[0]);
      results = {"%sum"};
    }
    if (c.epilogue == Epilogue::Swiglu) {
      line("%act = ninfer.swiglu %y0, %y1 : " + types[0]);
      results = {"%act"};
      types = {types[0]};
    }
    auto join = [](const std::vector<std::string> &parts) {
      std::string out;
      for (const std::string &p : parts)
        out += (out.empty() ? "" : ", ") + p;
      return out;
    };
    line("ninfer.yield " + join(results) + " : " + join(types));

    std::vector<std::string> parameters, bindings, outer;
    for (auto &[name, type] : args) {
      parameters.push_back("%" + std::string(c.raw ? "" : "a_") + name + ": " + type);
      bindings.push_back("%" + name + " = %a_" + name + " : " + type);
    }
    std::string out = "ninfer.kernel @" + c.name + "(" + join(parameters) +
                      ") attributes {family = \"linear_" + c.profile + "\", profile = \"" +
                      c.profile + "\", rows = " + std::to_string(resultRows()) +
                      (dynamic() ? ", dynamic_rows" : "") +
                      ", tiles_const = " + std::to_string(tilesOf(c)) + ", tiles_per_row = 0} {\n";
    if (c.raw)
      return out + body + "}\n";
    std::string fusedTypes = types.size() == 1 ? types[0] : "(" + join(types) + ")";
    out += "  %r:" + std::to_string(types.size()) + " = ninfer.fused \"linear\" (" +
           join(bindings) + ") -> " + fusedTypes + " {\n" + body + "  }\n  ninfer.yield ";
    for (size_t i = 0; i < types.size(); ++i)
      outer.push_back("%r#" + std::to_string(i));
    return out + join(outer) + " : " + join(types) + "\n}\n";
  }

  /// Runs the kernel on `rows` rows and checks every result.
  void check(const Compiled &compiled, int64_t rows, int64_t pieces) {
    const int64_t outRows = c.lastRow ? 1 : rows;
    auto x = randomFloats(size_t(rows * c.k), 31, 0.7f);
    x[size_t(rows * c.k / 2)] *= 20; // an outlier, so that a wrong group scale shows
    auto xBuffer = bufferOf(x);
    std::vector<void *> args = {xBuffer->as<void>()};
    if (normWeight)
      normWeight->addPointers(args);
    for (Weight &w : weights)
      w.addPointers(args);
    std::vector<float> residual = randomFloats(size_t(outRows * c.n[0]), 5);
    auto residualBuffer = bufferOf(residual);
    if (c.epilogue == Epilogue::Residual)
      args.push_back(residualBuffer->as<void>());
    std::vector<std::unique_ptr<Buffer>> outs;
    std::vector<Buffer *> outputs;
    size_t results = c.epilogue == Epilogue::Store ? c.n.size() : 1;
    for (size_t i = 0; i < results; ++i) {
      outs.push_back(floatBuffer(size_t(outRows * c.n[i])));
      args.push_back(outs.back()->as<void>());
      outputs.push_back(outs.back().get());
    }
    compiled.run(c.name, args, outputs, rows, 3, tilesOf(c), pieces);

    for (int64_t row = 0; row < outRows; ++row) {
      // The input of the dot products, and the bound of its rounding.
      const float *source = x.data() + (c.lastRow ? rows - 1 : row) * c.k;
      std::vector<double> in(size_t(c.k), 0.0), step(size_t(c.k), 0.0);
      double meanSquare = 0;
      for (int64_t i = 0; i < c.k; ++i)
        meanSquare += double(source[i]) * source[i] / double(c.k);
      for (int64_t i = 0; i < c.k; ++i)
        in[size_t(i)] =
            c.norm ? source[i] / std::sqrt(meanSquare + eps) * normWeight->at(0, uint64_t(i))
                   : source[i];
      std::vector<std::vector<double>> y(weights.size()), bound(weights.size());
      for (size_t s = 0; s < weights.size(); ++s) {
        const int64_t group = c.formats[s] == Format::W8G32_F16S ? 32 : 64;
        for (int64_t g = 0; g < c.k; g += group) {
          double largest = 0;
          for (int64_t i = g; i < std::min(g + group, c.k); ++i)
            largest = std::max(largest, std::fabs(in[size_t(i)]));
          double half = c.profile == "a16"  ? largest / 32767 / 2
                        : c.profile == "a8" ? largest / 127 / 2
                                            : 0;
          for (int64_t i = g; i < std::min(g + group, c.k); ++i)
            step[size_t(i)] = half * 1.001;
        }
        for (int64_t n = 0; n < c.n[s]; ++n) {
          double sum = 0, magnitude = 0, rounding = 0;
          for (int64_t i = 0; i < c.k; ++i) {
            double w = weights[s].at(uint64_t(n), uint64_t(i));
            sum += w * in[size_t(i)];
            magnitude += std::fabs(w * in[size_t(i)]);
            rounding += std::fabs(w) * step[size_t(i)];
          }
          y[s].push_back(sum);
          // float32 sums of K terms in any order, plus the norm and the scales: (K + 16) units of
          // 2^-24.
          bound[s].push_back(rounding + magnitude * double(c.k + 16) * 0x1p-24 + 1e-30);
        }
      }
      for (size_t i = 0; i < results; ++i) {
        std::vector<double> expected = y[i], limit = bound[i];
        for (size_t n = 0; n < expected.size(); ++n) {
          if (c.epilogue == Epilogue::Residual) {
            expected[n] += residual[size_t(row) * expected.size() + n];
            limit[n] += std::fabs(expected[n]) * 0x1p-23;
          } else if (c.epilogue == Epilogue::Swiglu) {
            double g = y[0][n], u = y[1][n], silu = g / (1 + std::exp(-g));
            expected[n] = silu * u;
            // |silu'| < 1.1; the product of two errors and 8 float32 roundings.
            limit[n] = 1.1 * bound[0][n] * (std::fabs(u) + bound[1][n]) +
                       std::fabs(silu) * bound[1][n] + std::fabs(expected[n]) * 8 * 0x1p-23 + 1e-30;
          }
        }
        expectWithin(outs[i]->as<float>() + row * c.n[i], expected, limit,
                     c.name + " rows " + std::to_string(rows) + " pieces " +
                         std::to_string(pieces) + " row " + std::to_string(row) + " result " +
                         std::to_string(i));
      }
    }
  }
};

void checkCases(const std::vector<LinearCase> &cases, const std::vector<int64_t> &rowCounts) {
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    std::vector<Instance> instances;
    std::string text;
    for (const LinearCase &c : cases)
      text += instances.emplace_back(c).text;
    auto compiled = Compiled::fromText(text, target);
    ASSERT_NE(compiled, nullptr);
    for (Instance &instance : instances)
      for (int64_t rows : rowCounts)
        for (int64_t pieces : {int64_t(1), int64_t(3), tilesOf(instance.c)})
          instance.check(*compiled, rows, pieces);
  }
}

constexpr Format q4 = Format::Q4G64_F16S, q5 = Format::Q5G64_F16S, q6 = Format::Q6G64_F16S,
                 w8 = Format::W8G32_F16S, bf16 = Format::BF16, fp32 = Format::FP32,
                 nvfp4 = Format::NVFP4, fp8 = Format::FP8_E4M3FN_ROW_BF16S;

TEST(CpuLinear, DecodeEveryFormatAndProfile) {
  checkCases(
      {{.name = "q4_a16", .profile = "a16", .formats = {q4}, .n = {100}, .k = 576, .raw = true},
       {.name = "q5_a16", .profile = "a16", .formats = {q5}, .n = {33}, .k = 192},
       {.name = "q6_a16", .profile = "a16", .formats = {q6}, .n = {17}, .k = 1536},
       {.name = "w8_a16", .profile = "a16", .formats = {w8}, .n = {50}, .k = 160},
       {.name = "q4_a8", .profile = "a8", .formats = {q4}, .n = {31}, .k = 320},
       {.name = "w8_a8", .profile = "a8", .formats = {w8}, .n = {19}, .k = 576},
       {.name = "q4_f32", .profile = "f32", .formats = {q4}, .n = {40}, .k = 100},
       {.name = "q5_f32", .profile = "f32", .formats = {q5}, .n = {8}, .k = 64},
       {.name = "q6_f32", .profile = "f32", .formats = {q6}, .n = {9}, .k = 200},
       {.name = "w8_f32", .profile = "f32", .formats = {w8}, .n = {12}, .k = 96},
       {.name = "bf16_f32", .profile = "f32", .formats = {bf16}, .n = {65}, .k = 577},
       {.name = "fp32_f32", .profile = "f32", .formats = {fp32}, .n = {7}, .k = 33},
       {.name = "fp8_f32", .profile = "f32", .formats = {fp8}, .n = {20}, .k = 130},
       {.name = "nvfp4_f32", .profile = "f32", .formats = {nvfp4}, .n = {128}, .k = 128},
       {.name = "one_output", .profile = "a16", .formats = {q4}, .n = {1}, .k = 1}},
      {1});
}

TEST(CpuLinear, DecodeFused) {
  checkCases({{.name = "qkv",
               .profile = "a16",
               .formats = {q6, q6, w8},
               .n = {576, 192, 192},
               .k = 576,
               .norm = true},
              {.name = "kq_f32",
               .profile = "f32",
               .formats = {bf16, q4},
               .n = {24, 5},
               .k = 128,
               .norm = true},
              {.name = "residual",
               .profile = "a16",
               .formats = {q5},
               .n = {90},
               .k = 320,
               .epilogue = Epilogue::Residual},
              {.name = "mlp",
               .profile = "a16",
               .formats = {q4, q4},
               .n = {150, 150},
               .k = 576,
               .norm = true,
               .epilogue = Epilogue::Swiglu},
              {.name = "mlp_mixed",
               .profile = "a16",
               .formats = {w8, q6},
               .n = {21, 21},
               .k = 64,
               .epilogue = Epilogue::Swiglu},
              {.name = "residual_a8",
               .profile = "a8",
               .formats = {q6},
               .n = {34},
               .k = 128,
               .norm = true,
               .epilogue = Epilogue::Residual}},
             {1});
}

// Calls of one or two rows take 2048 outputs at a time, others 64: `up` rows lie as far apart as the block is long.
TEST(CpuLinear, BlocksOfFewRows) {
  for (int64_t maxRows : {2, 3, 40})
    checkCases({{.name = "mlp_few",
                 .profile = "a8",
                 .formats = {q4, q4},
                 .n = {2100, 2100},
                 .k = 64,
                 .maxRows = maxRows,
                 .norm = true,
                 .epilogue = Epilogue::Swiglu},
                {.name = "residual_few",
                 .profile = "a16",
                 .formats = {w8},
                 .n = {2100},
                 .k = 32,
                 .maxRows = maxRows,
                 .epilogue = Epilogue::Residual}},
               maxRows == 2 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1, 2, 3});
}

TEST(CpuLinear, PrefillEveryRowCount) {
  checkCases({{.name = "q4_a16_rows",
               .profile = "a16",
               .formats = {q4},
               .n = {100},
               .k = 192,
               .maxRows = 150},
              {.name = "w8_f32_rows",
               .profile = "f32",
               .formats = {w8},
               .n = {37},
               .k = 96,
               .maxRows = 150,
               .raw = true},
              {.name = "qkv_rows",
               .profile = "a16",
               .formats = {q5, w8, w8},
               .n = {70, 33, 16},
               .k = 128,
               .maxRows = 150,
               .norm = true},
              {.name = "mlp_rows",
               .profile = "a16",
               .formats = {q6, q6},
               .n = {97, 97},
               .k = 64,
               .maxRows = 150,
               .norm = true,
               .epilogue = Epilogue::Swiglu},
              {.name = "residual_rows",
               .profile = "a8",
               .formats = {q4},
               .n = {130},
               .k = 72,
               .maxRows = 150,
               .epilogue = Epilogue::Residual},
              {.name = "bf16_rows",
               .profile = "f32",
               .formats = {bf16},
               .n = {66},
               .k = 51,
               .maxRows = 150}},
             {1, 2, 5, 16, 17, 128, 129, 150});
}

TEST(CpuLinear, LastRowPrologue) {
  checkCases({{.name = "head",
               .profile = "a16",
               .formats = {w8},
               .n = {300},
               .k = 96,
               .maxRows = 9,
               .norm = true,
               .lastRow = true},
              {.name = "head_plain",
               .profile = "f32",
               .formats = {bf16},
               .n = {30},
               .k = 40,
               .maxRows = 9,
               .lastRow = true}},
             {1, 2, 9});
}

} // namespace
} // namespace ninfer::test
