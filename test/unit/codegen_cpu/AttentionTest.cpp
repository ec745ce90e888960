// Attention, KV append and the fused rotation and append, against double loops.
#include "test/unit/codegen_cpu/Harness.h"

#include "artifact/formats/Words.h"

#include <cmath>
#include <cstring>
#include <optional>

namespace ninfer::test {
namespace {

struct CacheShape {
  int64_t kvHeads, capacity, dim;
  bool bf16;
  std::string type() const {
    return "!ninfer.kv_cache<" + std::to_string(kvHeads) + "x" + std::to_string(capacity) + "x" +
           std::to_string(dim) + ", " + (bf16 ? "bf16" : "f32") + ">";
  }
  size_t count() const { return size_t(kvHeads * capacity * dim); }
};

/// One plane of a cache and the values its words stand for.
struct Plane {
  explicit Plane(const CacheShape &shape)
      : bf16(shape.bf16), buffer(shape.count() * (shape.bf16 ? 2 : 4)) {
    std::memset(buffer.as<char>(), 0xff, buffer.size()); // NaN: positions that must not be read
  }
  void set(size_t i, float value) {
    if (bf16)
      buffer.as<uint16_t>()[i] = roundToBf16(value);
    else
      buffer.as<float>()[i] = value;
  }
  double get(size_t i) {
    return bf16 ? decodeBf16(buffer.as<uint16_t>()[i]) : buffer.as<float>()[i];
  }
  bool bf16;
  Buffer buffer;
};

std::string tensor(bool dynamic, int64_t width) {
  return std::string("tensor<") + (dynamic ? "?" : "1") + "x" + std::to_string(width) + "xf32>";
}

std::string attributes(const std::string &family, bool dynamic, int64_t maxRows,
                       int64_t tilesPerRow) {
  return " attributes {family = \"" + family +
         "\", profile = \"f32\", rows = " + std::to_string(dynamic ? maxRows : 1) +
         (dynamic ? ", dynamic_rows" : "") +
         ", tiles_const = " + std::to_string(dynamic ? 0 : tilesPerRow) +
         ", tiles_per_row = " + std::to_string(dynamic ? tilesPerRow : 0) + "}";
}

void checkAttention(const CacheShape &shape, int64_t heads, int64_t maxRows = 9) {
  const int64_t dim = shape.dim, width = heads * dim, group = heads / shape.kvHeads;
  const double scale = 0.3;
  std::string text;
  for (bool dynamic : {false, true}) {
    std::string type = tensor(dynamic, width);
    text += std::string("ninfer.kernel @") + (dynamic ? "many" : "one") + "(%q: " + type +
            ", %c: " + shape.type() + ", %p: index)" +
            attributes("attention", dynamic, maxRows, heads) +
            " {\n  %y = ninfer.attention %q, %c, %p {heads = " + std::to_string(heads) +
            ", kv_heads = " + std::to_string(shape.kvHeads) + ", scale = 3.0e-01} : " + type +
            ", " + shape.type() + "\n  ninfer.yield %y : " + type + "\n}\n";
  }
  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target + " " + shape.type() + " heads " + std::to_string(heads));
    auto compiled = Compiled::fromText(text, target);
    ASSERT_NE(compiled, nullptr);
    for (int64_t rows : {int64_t(0), int64_t(1), int64_t(2), int64_t(4), maxRows})
      for (int64_t position : {int64_t(0), int64_t(3), shape.capacity - maxRows}) {
        const std::string kernel = rows == 0 ? "one" : "many";
        const int64_t count = std::max<int64_t>(rows, 1);
        Plane keys(shape), values(shape);
        auto k = randomFloats(shape.count(), 21), v = randomFloats(shape.count(), 22);
        for (int64_t h = 0; h < shape.kvHeads; ++h)
          for (int64_t p = 0; p < position + count; ++p)
            for (int64_t i = 0; i < dim; ++i) {
              size_t at = size_t((h * shape.capacity + p) * dim + i);
              keys.set(at, k[at]);
              values.set(at, v[at]);
            }
        auto q = randomFloats(size_t(count * width), 23);
        std::vector<double> expected(q.size()), bound(q.size());
        for (int64_t r = 0; r < count; ++r)
          for (int64_t h = 0; h < heads; ++h) {
            const int64_t length = position + r + 1, base = (h / group) * shape.capacity;
            std::vector<double> weight(static_cast<size_t>(length));
            double largest = -1e300, total = 0, spread = 0;
            for (int64_t p = 0; p < length; ++p) {
              double dot = 0, magnitude = 0;
              for (int64_t i = 0; i < dim; ++i) {
                double term =
                    q[size_t(r * width + h * dim + i)] * keys.get(size_t((base + p) * dim + i));
                dot += term;
                magnitude += std::fabs(term);
              }
              weight[size_t(p)] = dot * scale;
              largest = std::max(largest, dot * scale);
              spread = std::max(spread, magnitude * scale);
            }
            for (double &w : weight)
              total += w = std::exp(w - largest);
            for (int64_t i = 0; i < dim; ++i) {
              double sum = 0, magnitude = 0;
              for (int64_t p = 0; p < length; ++p) {
                double term = weight[size_t(p)] / total * values.get(size_t((base + p) * dim + i));
                sum += term;
                magnitude += std::fabs(term);
              }
              size_t at = size_t(r * width + h * dim + i);
              expected[at] = sum;
              // Scores err by (dim + 4) units of their magnitude, which scales each weight; then
              // sums of `length`.
              bound[at] =
                  magnitude * (2 * spread * double(dim + 4) + double(length) + 32) * 0x1p-24 * 2 +
                  1e-30;
            }
          }
        std::vector<float> whole; // the same bits whatever the cut
        for (int64_t pieces : {int64_t(1), int64_t(2), int64_t(3), count * heads}) {
          auto in = bufferOf(q), out = floatBuffer(q.size());
          compiled->run(
              kernel,
              {in->as<void>(), keys.buffer.as<void>(), values.buffer.as<void>(), out->as<void>()},
              {out.get()}, count, position, count * heads, pieces);
          if (pieces == 1)
            whole.assign(out->as<float>(), out->as<float>() + q.size());
          EXPECT_EQ(std::memcmp(out->as<float>(), whole.data(), whole.size() * 4), 0)
              << "rows " << rows << " position " << position << " pieces " << pieces;
          expectWithin(out->as<float>(), expected, bound,
                       "rows " + std::to_string(rows) + " position " + std::to_string(position) +
                           " pieces " + std::to_string(pieces));
        }
      }
  }
}

TEST(CpuAttention, GroupedHeads) {
  checkAttention({3, 40, 64, true}, 9);
  checkAttention({2, 40, 64, false}, 2);
  checkAttention({1, 21, 40, true}, 4);
  checkAttention({2, 530, 32, true}, 6); // beyond one block of positions
  checkAttention({2, 33, 7, false}, 6);
}

/// Above 16 rows: tiles by KV head, another micro-kernel; runs of tiles that end inside a head, a row, a group.
TEST(CpuAttention, ManyRows) {
  checkAttention({3, 80, 64, true}, 9, 17);
  checkAttention({2, 90, 20, false}, 2, 67);
  checkAttention({1, 70, 40, true}, 4, 33);
}

/// [norm] rotation and append, fused; or the append alone.
void checkAppend(const CacheShape &shape, int64_t heads, bool norm, bool fused, bool wholeRows) {
  constexpr int64_t maxRows = 4;
  const int64_t dim = shape.dim, qWidth = heads * dim, kWidth = shape.kvHeads * dim;
  const int64_t tilesPerRow = !fused || wholeRows ? 1 : heads + shape.kvHeads;
  const std::string table =
      "!ninfer.rope_table<" + std::to_string(shape.capacity) + "x" + std::to_string(dim / 2) + ">";
  Weight queryNorm(Format::BF16, {uint64_t(dim)}, 51), keyNorm(Format::BF16, {uint64_t(dim)}, 52);
  std::string text;
  for (bool dynamic : {false, true}) {
    std::string q = tensor(dynamic, qWidth), k = tensor(dynamic, kWidth),
                name = dynamic ? "many" : "one";
    if (!fused) {
      text += "ninfer.kernel @" + name + "(%k: " + k + ", %v: " + k + ", %c: " + shape.type() +
              ", %p: index)" + attributes("kv_append", dynamic, maxRows, 1) +
              " {\n  ninfer.kv_append %k, %v, %c, %p : " + k + ", " + shape.type() +
              "\n  ninfer.yield\n}\n";
      continue;
    }
    std::string norms, qIn = "%q", kIn = "%k", nq = queryNorm.type();
    if (norm) {
      norms = "    %nq = ninfer.head_norm %q, %wq {heads = " + std::to_string(heads) +
              ", eps = 1.0e-06} : " + q + ", " + nq +
              "\n    %nk = ninfer.head_norm %k, %wk {heads = " + std::to_string(shape.kvHeads) +
              ", eps = 1.0e-06} : " + k + ", " + nq + "\n";
      qIn = "%nq";
      kIn = "%nk";
    }
    std::string extra = norm ? ", %aq: " + nq + ", %ak: " + nq : "";
    std::string bind = norm ? ", %wq = %aq : " + nq + ", %wk = %ak : " + nq : "";
    text += "ninfer.kernel @" + name + "(%a: " + q + ", %b: " + k + ", %d: " + k + extra +
            ", %t0: " + table + ", %c0: " + shape.type() + ", %p0: index)" +
            attributes("rope_append", dynamic, maxRows, tilesPerRow) +
            " {\n  %r = ninfer.fused \"rope_append\" (%q = %a : " + q + ", %k = %b : " + k +
            ", %v = %d : " + k + bind + ", %t = %t0 : " + table + ", %c = %c0 : " + shape.type() +
            ", %p = %p0 : index) -> " + q + " {\n" + norms + "    %rq = ninfer.rope " + qIn +
            ", %t, %p {heads = " + std::to_string(heads) + "} : " + q + ", " + table +
            "\n    %rk = ninfer.rope " + kIn +
            ", %t, %p {heads = " + std::to_string(shape.kvHeads) + "} : " + k + ", " + table +
            "\n    ninfer.kv_append %rk, %v, %c, %p : " + k + ", " + shape.type() +
            "\n    ninfer.yield %rq : " + q + "\n  }\n  ninfer.yield %r : " + q + "\n}\n";
  }
  auto angles = randomFloats(size_t(shape.capacity * dim), 61);

  // Exact [norm and] rotation of one row of heads, and the float32 error bound of each element.
  auto rotate = [&](const float *x, int64_t count, const Weight &weight, int64_t position,
                    std::vector<double> &out, std::vector<double> &bound) {
    for (int64_t h = 0; h < count; ++h) {
      std::vector<double> y(x + h * dim, x + (h + 1) * dim);
      if (fused && norm) {
        double meanSquare = 0;
        for (double v : y)
          meanSquare += v * v / double(dim);
        for (int64_t i = 0; i < dim; ++i)
          y[size_t(i)] = y[size_t(i)] / std::sqrt(meanSquare + 1e-6) * weight.at(0, uint64_t(i));
      }
      for (int64_t i = 0; i < dim; ++i) {
        const int64_t pair = i % (dim / 2);
        const double a = y[size_t(pair)], b = y[size_t(pair + dim / 2)];
        const double c = angles[size_t(position * dim + 2 * pair)],
                     s = angles[size_t(position * dim + 2 * pair + 1)];
        out.push_back(!fused ? y[size_t(i)] : i < dim / 2 ? a * c - b * s : b * c + a * s);
        bound.push_back(fused ? (std::fabs(a) + std::fabs(b)) * (std::fabs(c) + std::fabs(s)) *
                                    double(dim + 20) * 0x1p-24
                              : 0);
      }
    }
  };

  for (const std::string &target : runnableTargets()) {
    SCOPED_TRACE(target + " " + shape.type() + (norm ? " norm" : "") + (fused ? " fused" : ""));
    auto compiled = Compiled::fromText(text, target);
    ASSERT_NE(compiled, nullptr);
    for (int64_t rows : {int64_t(0), int64_t(1), maxRows})
      for (int64_t pieces : {int64_t(1), int64_t(2), std::max<int64_t>(rows, 1) * tilesPerRow}) {
        const int64_t count = std::max<int64_t>(rows, 1), position = 5;
        auto q = randomFloats(size_t(count * qWidth), 41),
             k = randomFloats(size_t(count * kWidth), 42),
             v = randomFloats(size_t(count * kWidth), 43);
        auto qIn = bufferOf(q), kIn = bufferOf(k), vIn = bufferOf(v), table32 = bufferOf(angles),
             out = floatBuffer(q.size());
        Plane keys(shape), values(shape);
        std::vector<void *> args;
        if (fused)
          args.push_back(qIn->as<void>());
        args.insert(args.end(), {kIn->as<void>(), vIn->as<void>()});
        if (fused && norm) {
          queryNorm.addPointers(args);
          keyNorm.addPointers(args);
        }
        if (fused)
          args.push_back(table32->as<void>());
        args.insert(args.end(), {keys.buffer.as<void>(), values.buffer.as<void>()});
        if (fused)
          args.push_back(out->as<void>());
        std::vector<Buffer *> outputs = {&keys.buffer, &values.buffer};
        if (fused)
          outputs.push_back(out.get());
        compiled->run(rows == 0 ? "one" : "many", args, outputs, count, position,
                      count * tilesPerRow, pieces);
        for (int64_t r = 0; r < count; ++r) {
          std::vector<double> expected, bound;
          if (fused) {
            rotate(&q[size_t(r * qWidth)], heads, queryNorm, position + r, expected, bound);
            expectWithin(out->as<float>() + r * qWidth, expected, bound, "query");
          }
          expected.clear();
          bound.clear();
          rotate(&k[size_t(r * kWidth)], shape.kvHeads, keyNorm, position + r, expected, bound);
          std::vector<float> storedKeys, storedValues;
          std::vector<double> wantedValues;
          for (int64_t h = 0; h < shape.kvHeads; ++h)
            for (int64_t i = 0; i < dim; ++i) {
              size_t at = size_t((h * shape.capacity + position + r) * dim + i);
              storedKeys.push_back(float(keys.get(at)));
              storedValues.push_back(float(values.get(at)));
              float value = v[size_t(r * kWidth + h * dim + i)];
              wantedValues.push_back(shape.bf16 ? decodeBf16(roundToBf16(value)) : value);
            }
          for (size_t i = 0; i < bound.size(); ++i)
            if (shape.bf16)
              bound[i] += (std::fabs(expected[i]) + bound[i]) * 0x1p-8;
          expectWithin(storedKeys.data(), expected, bound, "key");
          expectWithin(storedValues.data(), wantedValues,
                       std::vector<double>(wantedValues.size(), 0), "value");
        }
        // Nothing else was written: every other word is still NaN.
        size_t written = 0;
        for (size_t i = 0; i < shape.count(); ++i)
          written += !std::isnan(keys.get(i)) + !std::isnan(values.get(i));
        EXPECT_EQ(written, size_t(2 * count * kWidth));
      }
  }
}

TEST(CpuAttention, KvAppend) {
  checkAppend({3, 12, 64, true}, 0, false, false, false);
  checkAppend({2, 12, 5, false}, 0, false, false, false);
}

TEST(CpuAttention, RopeAppend) {
  checkAppend({3, 12, 64, true}, 9, false, true, false);
  checkAppend({2, 12, 32, true}, 4, true, true, false);
  checkAppend({1, 12, 6, false}, 3, true, true, true);
}

} // namespace
} // namespace ninfer::test
