// Kernels of a vision tower as compiled: pointers, rows and tiles. The arithmetic has its own tests (micro_kernels).
#include "test/unit/codegen_cpu/Harness.h"

#include <cmath>
#include <cstring>

namespace ninfer::test {
namespace {

constexpr int64_t maxRows = 12;

std::string attributes(const std::string &family, int64_t tilesConst, int64_t tilesPerRow,
                       const std::string &profile = "f32") {
  return " attributes {family = \"" + family + "\", profile = \"" + profile +
         "\", rows = " + std::to_string(maxRows) +
         ", dynamic_rows, tiles_const = " + std::to_string(tilesConst) +
         ", tiles_per_row = " + std::to_string(tilesPerRow) + "}";
}

std::string tensor(int64_t width, const char *element = "f32") {
  return "tensor<?x" + std::to_string(width) + "x" + element + ">";
}

template <typename T>
std::unique_ptr<Buffer> bufferOfWords(const std::vector<T> &words) {
  auto buffer = std::make_unique<Buffer>(words.size() * sizeof(T));
  std::memcpy(buffer->template as<char>(), words.data(), buffer->size());
  return buffer;
}

TEST(CpuVision, LayerNormBiasAndGelu) {
  const int64_t width = 44, group = 4;
  Weight weight(Format::BF16, {uint64_t(width)}, 1), bias(Format::BF16, {uint64_t(width)}, 2);
  Weight wide(Format::BF16, {uint64_t(group * width)}, 3);
  const std::string type = tensor(width);
  auto one = [&](const std::string &name, const std::string &family, const std::string &arguments,
                 const std::string &operation) {
    return "ninfer.kernel @" + name + "(%x: " + type + arguments + ")" + attributes(family, 0, 1) +
           " {\n  %y = " + operation + "\n  ninfer.yield %y : " + type + "\n}\n";
  };
  const std::string text =
      one("norm", "layer_norm", ", %w: " + weight.type() + ", %b: " + bias.type(),
          "ninfer.layer_norm %x, %w, %b {eps = 1.0e-06} : " + type + ", " + weight.type() + ", " +
              bias.type()) +
      one("plain", "bias", ", %b: " + bias.type(), "ninfer.bias %x, %b : " + type + ", " + bias.type()) +
      one("grouped", "bias", ", %b: " + wide.type(),
          "ninfer.bias %x, %b {row_group = 4} : " + type + ", " + wide.type()) +
      one("exact", "gelu", "", "ninfer.gelu %x : " + type) +
      one("tanh", "gelu", "", "ninfer.gelu %x {tanh = true} : " + type);
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    auto compiled = Compiled::fromText(text, target);
    ASSERT_NE(compiled, nullptr);
    for (int64_t rows : {4, 12}) {
      const auto x = randomFloats(size_t(rows * width), 7);
      auto run = [&](const std::string &name, std::vector<Weight *> weights,
                     const std::function<double(int64_t row, int64_t i)> &exact, double bound) {
        auto in = bufferOf(x), out = floatBuffer(x.size());
        std::vector<void *> args = {in->as<void>()};
        for (Weight *w : weights)
          w->addPointers(args);
        args.push_back(out->as<void>());
        compiled->run(name, args, {out.get()}, rows, 0, rows, rows);
        std::vector<double> expected, bounds;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t i = 0; i < width; ++i) {
            expected.push_back(exact(r, i));
            bounds.push_back(bound * (1 + std::fabs(expected.back())));
          }
        expectWithin(out->as<float>(), expected, bounds, name);
      };
      auto at = [&](int64_t r, int64_t i) { return double(x[size_t(r * width + i)]); };
      // Sums of 44 terms and a few roundings of numbers below 8.
      run("norm", {&weight, &bias},
          [&](int64_t r, int64_t i) {
            double mean = 0, variance = 0;
            for (int64_t j = 0; j < width; ++j)
              mean += at(r, j) / double(width);
            for (int64_t j = 0; j < width; ++j)
              variance += (at(r, j) - mean) * (at(r, j) - mean) / double(width);
            return (at(r, i) - mean) / std::sqrt(variance + 1e-6) * weight.at(0, uint64_t(i)) +
                   bias.at(0, uint64_t(i));
          },
          64 * 0x1p-24);
      run("plain", {&bias}, [&](int64_t r, int64_t i) { return at(r, i) + bias.at(0, uint64_t(i)); },
          0x1p-24);
      run("grouped", {&wide},
          [&](int64_t r, int64_t i) { return at(r, i) + wide.at(0, uint64_t(r % group * width + i)); },
          0x1p-24);
      run("exact", {},
          [&](int64_t r, int64_t i) { return at(r, i) / 2 * std::erfc(-at(r, i) / std::sqrt(2.0)); },
          64 * 0x1p-24);
      run("tanh", {},
          [&](int64_t r, int64_t i) {
            const double v = at(r, i), u = 0.7978845608028654 * (v + 0.044715 * v * v * v);
            return v / 2 * (1 + std::tanh(u));
          },
          64 * 0x1p-24);
    }
  }
}

TEST(CpuVision, AxialRopeAndInterpolate) {
  const int64_t heads = 3, pairs = 5, width = heads * 4 * pairs, capacity = 16, n = 9, taps = 4;
  Weight table(Format::BF16, {uint64_t(n), uint64_t(width)}, 5);
  const std::string type = tensor(width), positions = tensor(2, "i32"), indices = tensor(taps, "i32");
  const std::string rope = "!ninfer.rope_table<16x5>";
  const std::string text =
      "ninfer.kernel @rope(%x: " + type + ", %t: " + rope + ", %p: " + positions + ")" +
      attributes("axial_rope", 0, 1) + " {\n  %y = ninfer.axial_rope %x, %t, %p {heads = 3} : " + type +
      ", " + rope + ", " + positions + "\n  ninfer.yield %y : " + type + "\n}\n" +
      "ninfer.kernel @sum(%i: " + indices + ", %w: " + tensor(taps) + ", %t: " + table.type() + ")" +
      attributes("interpolate", 0, 1) + " {\n  %y = ninfer.interpolate %i, %w, %t : " + indices + ", " +
      tensor(taps) + ", " + table.type() + " -> " + type + "\n  ninfer.yield %y : " + type + "\n}\n";
  const auto angles = randomFloats(size_t(capacity * pairs * 2), 12);
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    auto compiled = Compiled::fromText(text, target);
    ASSERT_NE(compiled, nullptr);
    for (int64_t rows : {1, 11}) {
      std::vector<int32_t> at, rowsOf;
      for (int64_t r = 0; r < rows; ++r) {
        at.insert(at.end(), {int32_t(r * 7 % capacity), int32_t(r * 5 % capacity)});
        for (int64_t t = 0; t < taps; ++t)
          rowsOf.push_back(int32_t((r + 2 * t) % n));
      }
      const auto x = randomFloats(size_t(rows * width), 4), parts = randomFloats(size_t(rows * taps), 6);
      auto in = bufferOf(x), tableBuffer = bufferOf(angles), out = floatBuffer(x.size());
      auto places = bufferOfWords(at), gathered = bufferOfWords(rowsOf), weights = bufferOf(parts);
      compiled->run("rope",
                    {in->as<void>(), tableBuffer->as<void>(), places->as<void>(), out->as<void>()},
                    {out.get()}, rows, 0, rows, rows);
      std::vector<double> expected(x.size()), bound(x.size());
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < 2 * pairs; ++i) {
            const size_t low = size_t(r * width + h * 4 * pairs + i), high = low + size_t(2 * pairs);
            const size_t angle = size_t((at[size_t(2 * r + i / pairs)] * pairs + i % pairs) * 2);
            const double c = angles[angle], s = angles[angle + 1];
            expected[low] = x[low] * c - x[high] * s;
            expected[high] = x[high] * c + x[low] * s;
            bound[low] = bound[high] =
                (std::fabs(x[low]) + std::fabs(x[high])) * (std::fabs(c) + std::fabs(s)) * 0x1p-22;
          }
      expectWithin(out->as<float>(), expected, bound, "axial_rope");

      std::vector<void *> args = {gathered->as<void>(), weights->as<void>()};
      table.addPointers(args);
      auto sums = floatBuffer(x.size());
      args.push_back(sums->as<void>());
      compiled->run("sum", args, {sums.get()}, rows, 0, rows, rows);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < width; ++i) {
          double exact = 0, size = 0;
          for (int64_t t = 0; t < taps; ++t) {
            const double product = parts[size_t(r * taps + t)] *
                                   table.at(uint64_t(rowsOf[size_t(r * taps + t)]), uint64_t(i));
            exact += product, size += std::fabs(product);
          }
          expected[size_t(r * width + i)] = exact;
          bound[size_t(r * width + i)] = size * 0x1p-22;
        }
      expectWithin(sums->as<float>(), expected, bound, "interpolate");
    }
  }
}

// Every cut of the tiles, also inside of a head.
TEST(CpuVision, FullAttention) {
  const int64_t heads = 3, dim = 12, width = heads * dim;
  const std::string type = tensor(width);
  const std::string text = "ninfer.kernel @attend(%q: " + type + ", %k: " + type + ", %v: " + type + ")" +
                           attributes("full_attention", 0, heads) +
                           " {\n  %y = ninfer.full_attention %q, %k, %v {heads = 3, scale = 0.25} : " + type +
                           "\n  ninfer.yield %y : " + type + "\n}\n";
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    auto compiled = Compiled::fromText(text, target);
    ASSERT_NE(compiled, nullptr);
    for (int64_t rows : {1, 5, 12})
      for (int64_t pieces : {int64_t(1), int64_t(2), int64_t(7), rows * heads}) {
        const auto q = randomFloats(size_t(rows * width), 1), k = randomFloats(q.size(), 2),
                   v = randomFloats(q.size(), 3);
        auto qb = bufferOf(q), kb = bufferOf(k), vb = bufferOf(v), out = floatBuffer(q.size());
        compiled->run("attend", {qb->as<void>(), kb->as<void>(), vb->as<void>(), out->as<void>()},
                      {out.get()}, rows, 0, rows * heads, pieces);
        std::vector<double> expected(q.size()), bound(q.size(), 1e-5);
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t r = 0; r < rows; ++r) {
            std::vector<double> weight(size_t(rows), 0.0);
            double total = 0;
            for (int64_t j = 0; j < rows; ++j) {
              double dot = 0;
              for (int64_t d = 0; d < dim; ++d)
                dot += double(q[size_t(r * width + h * dim + d)]) * k[size_t(j * width + h * dim + d)];
              total += weight[size_t(j)] = std::exp(0.25 * dot);
            }
            for (int64_t d = 0; d < dim; ++d)
              for (int64_t j = 0; j < rows; ++j)
                expected[size_t(r * width + h * dim + d)] +=
                    weight[size_t(j)] / total * v[size_t(j * width + h * dim + d)];
          }
        expectWithin(out->as<float>(), expected, bound, "full_attention");
      }
  }
}

// Four rows of the call are one row of the weight.
TEST(CpuVision, GroupedLinear) {
  const int64_t group = 4, k = 256, n = 64;
  for (const char *profile : {"f32", "a16"})
    for (Format format : {Format::BF16, Format::W8G32_F16S}) {
      if (std::string(profile) == "a16" && format == Format::BF16)
        continue;
      Weight weight(format, {uint64_t(n), uint64_t(k)}, 9);
      const std::string in = tensor(k / group), out = tensor(n / group);
      const std::string text = "ninfer.kernel @merge(%x: " + in + ", %w: " + weight.type() + ")" +
                               attributes(std::string("linear_") + profile, 4, 0, profile) +
                               " {\n  %y = ninfer.linear %x, %w policy<A16Only> {row_group = 4 : i64} : " +
                               in + ", " + weight.type() + " -> " + out + "\n  ninfer.yield %y : " + out +
                               "\n}\n";
      for (const std::string &target : runnableTargets()) {
        SCOPED_TRACE(target + " " + profile);
        auto compiled = Compiled::fromText(text, target);
        ASSERT_NE(compiled, nullptr);
        for (int64_t rows : {4, 8, 12}) {
          const auto x = randomFloats(size_t(rows * k / group), 8);
          auto input = bufferOf(x), result = floatBuffer(size_t(rows * n / group));
          std::vector<void *> args = {input->as<void>()};
          weight.addPointers(args);
          args.push_back(result->as<void>());
          compiled->run("merge", args, {result.get()}, rows, 0, 4, 4);
          std::vector<double> expected, bound;
          for (int64_t r = 0; r < rows / group; ++r)
            for (int64_t i = 0; i < n; ++i) {
              double exact = 0, size = 0, steps = 0;
              for (int64_t j = 0; j < k; ++j) {
                const double w = weight.at(uint64_t(i), uint64_t(j)), v = x[size_t(r * k + j)];
                exact += w * v, size += std::fabs(w * v), steps += std::fabs(w);
              }
              expected.push_back(exact);
              // f32: sums of 256 terms; a16: half a step of max / 32767 per element, inputs below 6.
              bound.push_back(size * 256 * 0x1p-24 +
                              (std::string(profile) == "a16" ? steps * 6 / 65534 : 0));
            }
          expectWithin(result->as<float>(), expected, bound, "linear");
        }
      }
    }
}

} // namespace
} // namespace ninfer::test
