// Row-wise kernels against double precision: norms, rope, KV store, SiLU product, addition.
#include "test/unit/micro_kernels/Support.h"

namespace ninfer::test {
namespace {

uint16_t bf16Word(float f) { return uint16_t(std::bit_cast<uint32_t>(f) >> 16); }
double bf16Value(uint16_t w) { return std::bit_cast<float>(uint32_t(w) << 16); }

const int64_t kLengths[] = {1, 2, 7, 8, 15, 16, 17, 33, 64, 100, 576, 1025};

std::vector<float> randomRow(Random &random, int64_t n) {
  std::vector<float> row(static_cast<size_t>(n));
  for (float &v : row)
    v = random.value();
  return row;
}

TEST(RowsTest, RmsNorm) {
  NINFER_NEEDS_LEVEL();
  Random random{1};
  for (const int64_t k : kLengths)
    for (const float offset : {0.0f, 1.0f}) {
      const std::vector<float> values = randomRow(random, k);
      Guarded x = guardedFloats(values), w(size_t(k * 2));
      for (int64_t i = 0; i < k; ++i)
        w.as<uint16_t>()[i] = bf16Word(random.value());
      std::vector<float> y = untouched(size_t(k + 1));
      ni_rms_norm(x.as<float>(), w.as<uint16_t>(), offset, 1e-5f, k, y.data());
      double squares = 0;
      for (float v : values)
        squares += double(v) * v;
      const double norm = 1 / std::sqrt(squares / double(k) + double(1e-5f));
      for (int64_t i = 0; i < k; ++i) {
        const double exact = values[size_t(i)] * norm * (bf16Value(w.as<uint16_t>()[i]) + offset);
        ASSERT_NEAR(y[size_t(i)], exact, std::abs(exact) * (double(k) / 16 + 16) * kUnit) << "k " << k;
      }
      ASSERT_TRUE(isUntouched(y[size_t(k)]));
      ni_rms_norm(x.as<float>(), w.as<uint16_t>(), offset, 1e-5f, k, x.as<float>());
      ASSERT_EQ(std::memcmp(x.as<float>(), y.data(), size_t(k * 4)), 0) << "in place, k " << k;
    }
}

TEST(RowsTest, HeadNormIsRmsNormPerHead) {
  NINFER_NEEDS_LEVEL();
  Random random{2};
  const int64_t heads = 3, dim = 72;
  const std::vector<float> x = randomRow(random, heads * dim);
  std::vector<uint16_t> w(static_cast<size_t>(dim));
  for (uint16_t &v : w)
    v = bf16Word(random.value());
  std::vector<float> all = untouched(x.size()), one = untouched(size_t(dim));
  ni_head_norm(x.data(), w.data(), 0, 1e-6f, heads, dim, all.data());
  for (int64_t h = 0; h < heads; ++h) {
    ni_rms_norm(x.data() + h * dim, w.data(), 0, 1e-6f, dim, one.data());
    ASSERT_EQ(std::memcmp(one.data(), all.data() + h * dim, size_t(dim * 4)), 0);
  }
}

TEST(RowsTest, Rope) {
  NINFER_NEEDS_LEVEL();
  Random random{3};
  for (const int64_t dim : {2, 5, 6, 16, 32, 40, 64, 80, 100, 128, 256})
    for (const int64_t pairs : {dim / 2, dim / 8, int64_t(1), int64_t(4), int64_t(19), int64_t(32)}) {
      if (pairs < 1 || pairs > dim / 2)
        continue;
      const int64_t heads = 3;
      const std::vector<float> values = randomRow(random, heads * dim);
      Guarded x = guardedFloats(values), table(size_t(pairs * 8));
      for (int64_t i = 0; i < pairs; ++i) {
        const double angle = random.uniform() * 6;
        table.as<float>()[2 * i] = float(std::cos(angle)), table.as<float>()[2 * i + 1] = float(std::sin(angle));
      }
      std::vector<float> y = untouched(size_t(heads * dim + 1));
      ni_rope(x.as<float>(), table.as<float>(), heads, dim, pairs, y.data());
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < pairs; ++i) {
          const double a = values[size_t(h * dim + i)], b = values[size_t(h * dim + i + pairs)];
          const double c = table.as<float>()[2 * i], s = table.as<float>()[2 * i + 1];
          const double bound = 3 * kUnit * (std::abs(a) + std::abs(b));
          ASSERT_NEAR(y[size_t(h * dim + i)], a * c - b * s, bound) << "dim " << dim << " pair " << i;
          ASSERT_NEAR(y[size_t(h * dim + i + pairs)], b * c + a * s, bound) << "dim " << dim << " pair " << i;
        }
        for (int64_t i = 2 * pairs; i < dim; ++i)
          ASSERT_EQ(y[size_t(h * dim + i)], values[size_t(h * dim + i)]) << "dim " << dim << " pairs " << pairs;
      }
      ASSERT_TRUE(isUntouched(y.back()));
      ni_rope(x.as<float>(), table.as<float>(), heads, dim, pairs, x.as<float>());
      ASSERT_EQ(std::memcmp(x.as<float>(), y.data(), size_t(heads * dim * 4)), 0) << "in place, dim " << dim;
    }
}

TEST(RowsTest, KvStore) {
  NINFER_NEEDS_LEVEL();
  Random random{4};
  for (const int64_t dim : {4, 16, 24, 64, 100}) {
    const int64_t heads = 2, capacity = 5, position = 3;
    std::vector<float> values = randomRow(random, heads * dim);
    values[0] = std::bit_cast<float>(0x3f808000u); // ties: to the even word, down and up
    values[1] = std::bit_cast<float>(0x3f818000u);
    Guarded x = guardedFloats(values);
    std::vector<uint16_t> words(size_t(heads * capacity * dim), 0x1234);
    std::vector<float> floats = untouched(words.size());
    ni_kv_store_bf16(x.as<float>(), heads, dim, capacity, position, words.data());
    ni_kv_store_f32(x.as<float>(), heads, dim, capacity, position, floats.data());
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t p = 0; p < capacity; ++p)
        for (int64_t d = 0; d < dim; ++d) {
          const size_t at = size_t((h * capacity + p) * dim + d);
          const float value = values[size_t(h * dim + d)];
          if (p != position) {
            ASSERT_EQ(words[at], 0x1234);
            ASSERT_TRUE(isUntouched(floats[at]));
            continue;
          }
          ASSERT_EQ(floats[at], value);
          const uint16_t below = bf16Word(value), above = uint16_t(below + 1); // in magnitude
          const double down = std::abs(value - bf16Value(below)), up = std::abs(value - bf16Value(above));
          ASSERT_EQ(words[at], down < up || (down == up && below % 2 == 0) ? below : above);
        }
  }
}

TEST(RowsTest, SiluMul) {
  NINFER_NEEDS_LEVEL();
  Random random{5};
  for (const int64_t n : kLengths) {
    std::vector<float> gate = randomRow(random, n), up = randomRow(random, n);
    const float extremes[] = {0.0f, -0.0f, 87.0f, -87.0f, 500.0f, -500.0f, 1e-20f, -1e30f};
    for (size_t i = 0; i < std::min<size_t>(8, gate.size()); ++i)
      gate[i] = extremes[i], up[i] = 1.0f;
    Guarded g = guardedFloats(gate), u = guardedFloats(up);
    std::vector<float> out = untouched(size_t(n + 1));
    ni_silu_mul(g.as<float>(), u.as<float>(), n, out.data());
    for (int64_t i = 0; i < n; ++i) {
      const double x = gate[size_t(i)], exact = x / (1 + std::exp(-x)) * up[size_t(i)];
      // Below -87 the factor is at most 1e-37: nothing but its smallness is asked for.
      ASSERT_NEAR(out[size_t(i)], exact, x < -87 ? 1e-7 : std::abs(exact) * 12 * kUnit) << x;
    }
    ASSERT_TRUE(isUntouched(out.back()));
    ni_silu_mul(g.as<float>(), u.as<float>(), n, u.as<float>());
    ASSERT_EQ(std::memcmp(u.as<float>(), out.data(), size_t(n * 4)), 0);
  }
}

TEST(RowsTest, Add) {
  NINFER_NEEDS_LEVEL();
  Random random{6};
  for (const int64_t n : kLengths) {
    const std::vector<float> left = randomRow(random, n), right = randomRow(random, n);
    Guarded a = guardedFloats(left), b = guardedFloats(right);
    std::vector<float> out = untouched(size_t(n + 1));
    ni_add(a.as<float>(), b.as<float>(), n, out.data());
    for (size_t i = 0; i < size_t(n); ++i)
      ASSERT_EQ(out[i], left[i] + right[i]);
    ASSERT_TRUE(isUntouched(out.back()));
    ni_add(a.as<float>(), b.as<float>(), n, a.as<float>());
    ASSERT_EQ(std::memcmp(a.as<float>(), out.data(), size_t(n * 4)), 0);
  }
}

} // namespace
} // namespace ninfer::test
