// Kernels whose rows are independent, against double loops.
#include "test/unit/codegen_cpu/Harness.h"

#include <cmath>
#include <cstring>

namespace ninfer::test {
namespace {

constexpr int64_t maxRows = 5;

std::string attributes(const std::string &family, bool dynamic, int64_t tilesPerRow = 1) {
  return " attributes {family = \"" + family +
         "\", profile = \"f32\", rows = " + std::to_string(dynamic ? maxRows : 1) +
         (dynamic ? ", dynamic_rows" : "") +
         ", tiles_const = " + std::to_string(dynamic ? 0 : tilesPerRow) +
         ", tiles_per_row = " + std::to_string(dynamic ? tilesPerRow : 0) + "}";
}

std::string tensor(bool dynamic, int64_t width) {
  return std::string("tensor<") + (dynamic ? "?" : "1") + "x" + std::to_string(width) + "xf32>";
}

/// Calls body(compiled object, name suffix, rows) for a one-row kernel and for every row count of a
/// dynamic one.
void forEachRun(
    const std::function<std::string(bool dynamic, const std::string &suffix)> &text,
    const std::function<void(const Compiled &, const std::string &suffix, int64_t rows)> &body) {
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target);
    auto compiled = Compiled::fromText(text(false, "one") + text(true, "many"), target);
    ASSERT_NE(compiled, nullptr);
    body(*compiled, "one", 1);
    for (int64_t rows : {int64_t(1), int64_t(2), maxRows})
      body(*compiled, "many", rows);
  }
}

TEST(CpuRows, EmbeddingIsExact) {
  for (Format format :
       {Format::BF16, Format::FP32, Format::Q4G64_F16S, Format::Q5G64_F16S, Format::Q6G64_F16S,
        Format::W8G32_F16S, Format::FP8_E4M3FN_ROW_BF16S, Format::NVFP4}) {
    SCOPED_TRACE(std::string(canonicalName(format)));
    const bool block = format == Format::NVFP4;
    const int64_t n = block ? 256 : 37, k = block ? 192 : 101;
    Weight weight(format, {uint64_t(n), uint64_t(k)}, 3);
    forEachRun(
        [&](bool dynamic, const std::string &suffix) {
          std::string tokens = dynamic ? "tensor<?xi32>" : "tensor<1xi32>",
                      out = tensor(dynamic, k);
          return "ninfer.kernel @embedding_" + suffix + "(%t: " + tokens +
                 ", %w: " + weight.type() + ")" + attributes("embedding", dynamic) +
                 " {\n  %y = ninfer.embedding %t, %w : " + tokens + ", " + weight.type() + " -> " +
                 out + "\n  ninfer.yield %y : " + out + "\n}\n";
        },
        [&](const Compiled &compiled, const std::string &suffix, int64_t rows) {
          const int32_t ids[maxRows] = {int32_t(n - 1), 0, 5, 5, int32_t(n / 2)};
          Buffer tokens(size_t(rows) * 4);
          std::memcpy(tokens.as<char>(), ids, tokens.size());
          auto out = floatBuffer(size_t(rows * k));
          std::vector<void *> args = {tokens.as<void>()};
          weight.addPointers(args);
          args.push_back(out->as<void>());
          compiled.run("embedding_" + suffix, args, {out.get()}, rows, 0, rows, rows);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < k; ++i)
              ASSERT_EQ(out->as<float>()[r * k + i], weight.at(uint64_t(ids[r]), uint64_t(i)))
                  << "row " << r << ", " << i;
        });
  }
}

TEST(CpuRows, RmsNormAndHeadNorm) {
  struct Case {
    int64_t heads, dim;
    bool unitOffset;
  };
  for (Case c : {Case{1, 1, false}, Case{1, 577, false}, Case{1, 64, true}, Case{9, 64, false},
                 Case{3, 7, false}}) {
    const bool isHead = c.heads > 1;
    const int64_t width = c.heads * c.dim;
    SCOPED_TRACE("width " + std::to_string(width));
    Weight weight(Format::BF16, {uint64_t(c.dim)}, 9);
    std::string family = isHead ? "head_norm" : "rms_norm";
    forEachRun(
        [&](bool dynamic, const std::string &suffix) {
          std::string type = tensor(dynamic, width);
          std::string options =
              isHead ? "heads = " + std::to_string(c.heads) + ", eps = 1.0e-05"
                     : std::string("eps = 1.0e-05") + (c.unitOffset ? ", unit_offset = true" : "");
          return "ninfer.kernel @norm_" + suffix + "(%x: " + type + ", %w: " + weight.type() + ")" +
                 attributes(family, dynamic) + " {\n  %y = ninfer." + family + " %x, %w {" +
                 options + "} : " + type + ", " + weight.type() + "\n  ninfer.yield %y : " + type +
                 "\n}\n";
        },
        [&](const Compiled &compiled, const std::string &suffix, int64_t rows) {
          auto x = randomFloats(size_t(rows * width), 4);
          auto in = bufferOf(x), out = floatBuffer(x.size());
          std::vector<void *> args = {in->as<void>()};
          weight.addPointers(args);
          args.push_back(out->as<void>());
          compiled.run("norm_" + suffix, args, {out.get()}, rows, 0, rows, rows);
          std::vector<double> expected(x.size()), bound(x.size());
          for (int64_t h = 0; h < rows * c.heads; ++h) {
            double meanSquare = 0;
            for (int64_t i = 0; i < c.dim; ++i)
              meanSquare +=
                  double(x[size_t(h * c.dim + i)]) * x[size_t(h * c.dim + i)] / double(c.dim);
            for (int64_t i = 0; i < c.dim; ++i) {
              size_t at = size_t(h * c.dim + i);
              expected[at] = x[at] / std::sqrt(meanSquare + 1e-5) *
                             (weight.at(0, uint64_t(i)) + (c.unitOffset ? 1 : 0));
              bound[at] =
                  std::fabs(expected[at]) * double(c.dim + 16) * 0x1p-24; // positive terms only
              if (c.unitOffset)
                bound[at] += std::fabs(x[at] / std::sqrt(meanSquare + 1e-5)) * 0x1p-23;
            }
          }
          expectWithin(out->as<float>(), expected, bound, family);
        });
  }
}

TEST(CpuRows, Rope) {
  const int64_t heads = 3, dim = 10, capacity = 16, position = 7, width = heads * dim;
  auto table = randomFloats(size_t(capacity * dim), 12);
  forEachRun(
      [&](bool dynamic, const std::string &suffix) {
        std::string type = tensor(dynamic, width);
        return "ninfer.kernel @rope_" + suffix + "(%x: " + type +
               ", %t: !ninfer.rope_table<16x5>, %p: index)" + attributes("rope", dynamic) +
               " {\n  %y = ninfer.rope %x, %t, %p {heads = 3} : " + type +
               ", !ninfer.rope_table<16x5>\n  ninfer.yield %y : " + type + "\n}\n";
      },
      [&](const Compiled &compiled, const std::string &suffix, int64_t rows) {
        auto x = randomFloats(size_t(rows * width), 4);
        auto in = bufferOf(x), angles = bufferOf(table), out = floatBuffer(x.size());
        compiled.run("rope_" + suffix, {in->as<void>(), angles->as<void>(), out->as<void>()},
                     {out.get()}, rows, position, rows, rows);
        std::vector<double> expected(x.size()), bound(x.size(), 1e-6);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t h = 0; h < heads; ++h)
            for (int64_t i = 0; i < dim / 2; ++i) {
              const size_t a = size_t(r * width + h * dim + i), b = a + size_t(dim / 2);
              const double c = table[size_t((position + r) * dim + 2 * i)],
                           s = table[size_t((position + r) * dim + 2 * i + 1)];
              expected[a] = x[a] * c - x[b] * s;
              expected[b] = x[b] * c + x[a] * s;
              bound[a] = bound[b] =
                  (std::fabs(x[a]) + std::fabs(x[b])) * (std::fabs(c) + std::fabs(s)) * 0x1p-22;
            }
        expectWithin(out->as<float>(), expected, bound, "rope");
      });
}

TEST(CpuRows, SwigluAndAdd) {
  for (int64_t width : {1, 33, 1536})
    for (bool swiglu : {true, false}) {
      std::string family = swiglu ? "swiglu" : "add";
      SCOPED_TRACE(family + " " + std::to_string(width));
      forEachRun(
          [&](bool dynamic, const std::string &suffix) {
            std::string type = tensor(dynamic, width);
            return "ninfer.kernel @" + family + "_" + suffix + "(%a: " + type + ", %b: " + type +
                   ")" + attributes(family, dynamic) + " {\n  %y = ninfer." + family +
                   " %a, %b : " + type + "\n  ninfer.yield %y : " + type + "\n}\n";
          },
          [&](const Compiled &compiled, const std::string &suffix, int64_t rows) {
            auto a = randomFloats(size_t(rows * width), 4, 8.0f),
                 b = randomFloats(size_t(rows * width), 5);
            auto left = bufferOf(a), right = bufferOf(b), out = floatBuffer(a.size());
            compiled.run(family + "_" + suffix,
                         {left->as<void>(), right->as<void>(), out->as<void>()}, {out.get()}, rows,
                         0, rows, rows);
            std::vector<double> expected(a.size()), bound(a.size());
            for (size_t i = 0; i < a.size(); ++i) {
              expected[i] =
                  swiglu ? a[i] / (1 + std::exp(-double(a[i]))) * b[i] : double(a[i]) + b[i];
              bound[i] = std::fabs(expected[i]) * (swiglu ? 8 : 1) * 0x1p-24 + 1e-30;
            }
            expectWithin(out->as<float>(), expected, bound, family);
          });
    }
}

TEST(CpuRows, LastRow) {
  const int64_t width = 45;
  for (const std::string &target : runnableTargets()) {
    std::string in = tensor(true, width), out = tensor(false, width);
    auto compiled = Compiled::fromText(
        "ninfer.kernel @last(%x: " + in +
            ") attributes {family = \"last_row\", profile = \"f32\", rows = 1, dynamic_rows, "
            "tiles_const = 1, tiles_per_row = 0} {\n  %y = ninfer.last_row %x : " +
            in + " -> " + out + "\n  ninfer.yield %y : " + out + "\n}\n",
        target);
    ASSERT_NE(compiled, nullptr);
    for (int64_t rows : {1, 4}) {
      auto x = randomFloats(size_t(rows * width), 4);
      auto source = bufferOf(x), result = floatBuffer(size_t(width));
      compiled->run("last", {source->as<void>(), result->as<void>()}, {result.get()}, rows, 0, 1,
                    1);
      EXPECT_EQ(0,
                std::memcmp(result->as<char>(), &x[size_t((rows - 1) * width)], size_t(width) * 4));
    }
  }
}

// Rows into and out of the columns of a buffer, and side by side: exact copies, nothing around them.
TEST(CpuRows, Handover) {
  const int64_t width = 37, bufferWidth = 50, column = 11, right = 5;
  const std::string buffer = "!ninfer.row_buffer<5x50>";
  forEachRun(
      [&](bool dynamic, const std::string &suffix) {
        const std::string x = tensor(dynamic, width), y = tensor(dynamic, right),
                          both = tensor(dynamic, width + right);
        return "ninfer.kernel @store_" + suffix + "(%x: " + x + ", %b: " + buffer + ")" +
               attributes("store_rows", dynamic) + " {\n  ninfer.store_rows %x, %b {column = 11} : " + x +
               ", " + buffer + "\n  ninfer.yield\n}\n" + //
               "ninfer.kernel @load_" + suffix + "(%b: " + buffer + ")" + attributes("load_rows", dynamic) +
               " {\n  %y = ninfer.load_rows %b {column = 11} : " + buffer + " -> " + x +
               "\n  ninfer.yield %y : " + x + "\n}\n" + //
               "ninfer.kernel @concat_" + suffix + "(%x: " + x + ", %y: " + y + ")" +
               attributes("concat", dynamic) + " {\n  %z = ninfer.concat %x, %y : " + x + ", " + y + " -> " +
               both + "\n  ninfer.yield %z : " + both + "\n}\n";
      },
      [&](const Compiled &compiled, const std::string &suffix, int64_t rows) {
        const auto x = randomFloats(size_t(rows * width), 4), y = randomFloats(size_t(rows * right), 6);
        auto kept = randomFloats(size_t(rows * bufferWidth), 5);
        auto source = bufferOf(x), second = bufferOf(y), state = bufferOf(kept),
             back = floatBuffer(x.size()), both = floatBuffer(x.size() + y.size());
        compiled.run("store_" + suffix, {source->as<void>(), state->as<void>()}, {}, rows, 0, rows, rows);
        for (int64_t r = 0; r < rows; ++r)
          std::copy_n(&x[size_t(r * width)], width, &kept[size_t(r * bufferWidth + column)]);
        EXPECT_EQ(0, std::memcmp(state->as<char>(), kept.data(), kept.size() * 4));
        compiled.run("load_" + suffix, {state->as<void>(), back->as<void>()}, {back.get()}, rows, 0, rows,
                     rows);
        EXPECT_EQ(0, std::memcmp(back->as<char>(), x.data(), x.size() * 4));
        compiled.run("concat_" + suffix, {source->as<void>(), second->as<void>(), both->as<void>()},
                     {both.get()}, rows, 0, rows, rows);
        for (int64_t r = 0; r < rows; ++r) {
          const float *row = both->as<float>() + r * (width + right);
          EXPECT_EQ(0, std::memcmp(row, &x[size_t(r * width)], size_t(width) * 4));
          EXPECT_EQ(0, std::memcmp(row + width, &y[size_t(r * right)], size_t(right) * 4));
        }
      });
}

// Rows from elsewhere, and table rows by positions of three axes: exact copies. A position outside of the table reads inside of it.
TEST(CpuRows, ImagesInText) {
  const int64_t width = 37, pairs = 5, capacity = 9, position = 3;
  const std::vector<int> axes = {0, 1, 2, 0, 1};
  const std::string table = "!ninfer.rope_table<9x5>";
  forEachRun(
      [&](bool dynamic, const std::string &suffix) {
        const std::string rows = std::string("tensor<") + (dynamic ? "?" : "1") + "x", x = tensor(dynamic, width);
        const std::string where = rows + "1xi32>", places = rows + "3xi32>";
        return "ninfer.kernel @replace_" + suffix + "(%x: " + x + ", %b: " + x + ", %w: " + where + ")" +
               attributes("replace_rows", dynamic) + " {\n  %y = ninfer.replace_rows %x, %b, %w : " + x + ", " + where +
               "\n  ninfer.yield %y : " + x + "\n}\n" + //
               "ninfer.kernel @place_" + suffix + "(%p: " + places + ", %t: " + table + ", %u: " + table + ", %at: index)" +
               attributes("place_angles", dynamic) +
               " {\n  ninfer.place_angles %p, %t, %u, %at {axes = array<i64: 0, 1, 2, 0, 1>} : " + places + ", " + table +
               ", " + table + "\n  ninfer.yield\n}\n";
      },
      [&](const Compiled &compiled, const std::string &suffix, int64_t rows) {
        const auto x = randomFloats(size_t(rows * width), 4), by = randomFloats(size_t(rows * width), 6);
        std::vector<int32_t> where, places;
        for (int32_t r = 0; r < rows; ++r) {
          where.push_back(r % 3 - 1); // -1 and 0 are x, 1 is the other
          places.insert(places.end(), {r, (r * 4 + 8) % 9, (r * 7 + 5) % 9});
        }
        if (rows == 1)
          where[0] = 1;
        auto words = [](const std::vector<int32_t> &from) {
          auto buffer = std::make_unique<Buffer>(from.size() * 4);
          std::memcpy(buffer->as<char>(), from.data(), buffer->size());
          return buffer;
        };
        auto a = bufferOf(x), b = bufferOf(by), out = floatBuffer(x.size()), chosen = words(where), at = words(places);
        compiled.run("replace_" + suffix, {a->as<void>(), b->as<void>(), chosen->as<void>(), out->as<void>()}, {out.get()},
                     rows, 0, rows, rows);
        for (int64_t r = 0; r < rows; ++r)
          EXPECT_EQ(0, std::memcmp(out->as<float>() + r * width, (where[size_t(r)] > 0 ? by : x).data() + r * width,
                                   size_t(width) * 4));
        const auto angles = randomFloats(size_t(capacity * pairs * 2), 8);
        auto kept = randomFloats(angles.size(), 9);
        auto from = bufferOf(angles), to = bufferOf(kept);
        compiled.run("place_" + suffix, {at->as<void>(), from->as<void>(), to->as<void>()}, {}, rows, position, rows, rows);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t i = 0; i < pairs; ++i)
            std::copy_n(&angles[size_t((places[size_t(3 * r + axes[size_t(i)])] * pairs + i) * 2)], 2,
                        &kept[size_t(((position + r) * pairs + i) * 2)]);
        EXPECT_EQ(0, std::memcmp(to->as<char>(), kept.data(), kept.size() * 4));
        std::vector<int32_t> outside(places.size());
        for (size_t i = 0; i < outside.size(); ++i)
          outside[i] = i % 2 ? INT32_MAX : INT32_MIN;
        auto beyond = words(outside);
        compiled.run("place_" + suffix, {beyond->as<void>(), from->as<void>(), to->as<void>()}, {}, rows, position, rows, rows);
      });
}

} // namespace
} // namespace ninfer::test
