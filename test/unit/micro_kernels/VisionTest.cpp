// Kernels of a vision tower against double precision: layer norm, biases, gelu, rotation by two positions, sums of table
// rows, attention of all rows to all rows.
#include "test/unit/micro_kernels/Support.h"

#include <algorithm>

namespace ninfer::test {
namespace {

uint16_t bf16Word(float f) { return uint16_t(std::bit_cast<uint32_t>(f) >> 16); }
double bf16Value(uint16_t w) { return std::bit_cast<float>(uint32_t(w) << 16); }

std::vector<float> randomRow(Random &random, int64_t n) {
  std::vector<float> row(static_cast<size_t>(n));
  for (float &v : row)
    v = random.value();
  return row;
}

Guarded randomWords(Random &random, int64_t n) {
  Guarded words(size_t(n * 2));
  for (int64_t i = 0; i < n; ++i)
    words.as<uint16_t>()[i] = bf16Word(random.value());
  return words;
}

const int64_t kLengths[] = {1, 2, 7, 8, 15, 16, 17, 36, 72, 100, 576, 1152};

TEST(VisionTest, LayerNorm) {
  NINFER_NEEDS_LEVEL();
  Random random{11};
  for (const int64_t k : kLengths)
    for (const float offset : {0.0f, 50.0f}) { // a mean far from 0 must not eat the deviation
      std::vector<float> values = randomRow(random, k);
      for (float &v : values)
        v += offset;
      Guarded x = guardedFloats(values), w = randomWords(random, k), b = randomWords(random, k);
      std::vector<float> y = untouched(size_t(k + 1));
      ni_layer_norm(x.as<float>(), w.as<uint16_t>(), b.as<uint16_t>(), 1e-6f, k, y.data());
      double mean = 0, variance = 0, size = 0;
      for (float v : values)
        mean += v, size = std::max(size, std::abs(double(v)));
      mean /= double(k);
      for (float v : values)
        variance += (v - mean) * (v - mean);
      const double scale = 1 / std::sqrt(variance / double(k) + double(1e-6f));
      // The mean is a sum of k terms in lanes: its error moves every difference; the rest are a few roundings.
      const double shift = (double(k) / 8 + 4) * kUnit * size;
      for (int64_t i = 0; i < k; ++i) {
        const double weight = bf16Value(w.as<uint16_t>()[i]), bias = bf16Value(b.as<uint16_t>()[i]);
        const double exact = (values[size_t(i)] - mean) * scale * weight + bias;
        const double bound = (2 * shift * scale + (double(k) / 16 + 16) * kUnit * std::abs(values[size_t(i)] - mean) * scale) *
                                 std::abs(weight) + 2 * kUnit * (std::abs(bias) + std::abs(exact));
        ASSERT_NEAR(y[size_t(i)], exact, bound) << "k " << k << " offset " << offset;
      }
      ASSERT_TRUE(isUntouched(y.back()));
      ni_layer_norm(x.as<float>(), w.as<uint16_t>(), b.as<uint16_t>(), 1e-6f, k, x.as<float>());
      ASSERT_EQ(std::memcmp(x.as<float>(), y.data(), size_t(k * 4)), 0) << "in place, k " << k;
    }
}

TEST(VisionTest, Bias) {
  NINFER_NEEDS_LEVEL();
  Random random{12};
  for (const int64_t k : kLengths) {
    Guarded x = guardedFloats(randomRow(random, k)), b = randomWords(random, k);
    std::vector<float> y = untouched(size_t(k + 1));
    ni_bias(x.as<float>(), b.as<uint16_t>(), k, y.data());
    for (int64_t i = 0; i < k; ++i)
      ASSERT_EQ(y[size_t(i)], x.as<float>()[i] + float(bf16Value(b.as<uint16_t>()[i])));
    ASSERT_TRUE(isUntouched(y.back()));
  }
}

// Both are x times a number in 0..1. That number is exact to 12 units where it is not small (exp 5 units, polynomial,
// divisions); in the tail exp's argument carries its own rounding, but there the result is below |x| times 12 units anyway
// once the number is. So the bound is absolute in |x|.
TEST(VisionTest, Gelu) {
  NINFER_NEEDS_LEVEL();
  std::vector<float> values;
  for (int i = -1500; i <= 1500; ++i)
    values.push_back(float(i) / 100);
  for (float extreme : {0.0f, -0.0f, 1e-30f, -1e-30f, 1e-5f, -1e-5f, 40.0f, -40.0f, 1000.0f, -1000.0f, 1e15f, -1e15f})
    values.push_back(extreme);
  Random random{13};
  for (int i = 0; i < 1000; ++i)
    values.push_back(float(random.uniform() * 12 - 6));
  const auto n = int64_t(values.size());
  Guarded x = guardedFloats(values);
  for (const bool tanh : {false, true}) {
    std::vector<float> y = untouched(size_t(n + 1));
    (tanh ? ni_gelu_tanh : ni_gelu)(x.as<float>(), n, y.data());
    for (int64_t i = 0; i < n; ++i) {
      const double v = values[size_t(i)], u = std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
      const double exact = tanh ? v / (1 + std::exp(-2 * u)) : v / 2 * std::erfc(-v / std::sqrt(2.0));
      ASSERT_NEAR(y[size_t(i)], exact, 12 * kUnit * std::abs(v)) << "x " << v << (tanh ? " tanh" : "");
    }
    ASSERT_TRUE(isUntouched(y.back()));
  }
}

TEST(VisionTest, AxialRope) {
  NINFER_NEEDS_LEVEL();
  Random random{14};
  for (const int64_t pairs : {1, 2, 3, 7, 8, 9, 16, 18, 33}) {
    const int64_t heads = 3, capacity = 9, dim = 4 * pairs;
    const std::vector<float> values = randomRow(random, heads * dim);
    Guarded x = guardedFloats(values), table(size_t(capacity * pairs * 8));
    for (int64_t i = 0; i < capacity * pairs; ++i) {
      const double angle = random.uniform() * 6;
      table.as<float>()[2 * i] = float(std::cos(angle)), table.as<float>()[2 * i + 1] = float(std::sin(angle));
    }
    // The last two lie outside of the table: its nearest rows.
    const int32_t positions[][2] = {{0, 8}, {5, 5}, {8, 0}, {-3, 2}, {4, 2000000000}};
    for (const auto &at : positions) {
      std::vector<float> y = untouched(size_t(heads * dim + 1));
      ni_axial_rope(x.as<float>(), table.as<float>(), capacity, at, heads, pairs, y.data());
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < 2 * pairs; ++i) {
          const int64_t p = std::clamp<int64_t>(at[i / pairs], 0, capacity - 1);
          const float *angle = table.as<float>() + (p * pairs + i % pairs) * 2;
          const size_t low = size_t(h * dim + i), high = low + size_t(2 * pairs);
          const double a = values[low], b = values[high], c = angle[0], s = angle[1];
          const double bound = 3 * kUnit * (std::abs(a) + std::abs(b));
          ASSERT_NEAR(y[low], a * c - b * s, bound) << "pairs " << pairs << " pair " << i;
          ASSERT_NEAR(y[high], b * c + a * s, bound) << "pairs " << pairs << " pair " << i;
        }
      ASSERT_TRUE(isUntouched(y.back()));
    }
  }
}

TEST(VisionTest, Gather) {
  NINFER_NEEDS_LEVEL();
  Random random{15};
  for (const int64_t k : kLengths) {
    const int64_t rows = 6;
    Guarded table = randomWords(random, rows * k);
    const int32_t indices[] = {5, 0, 3, 3, -1, 99}; // the last two: the nearest rows
    const int64_t nearest[] = {5, 0, 3, 3, 0, 5};
    const float weights[] = {0.25f, -1.5f, 0.125f, 3.0f, 0.5f, 1.0f};
    for (const int64_t taps : {1, 4, 6}) {
      std::vector<float> y = untouched(size_t(k + 1));
      ni_gather_bf16(table.as<uint16_t>(), rows, indices, weights, taps, k, y.data());
      for (int64_t i = 0; i < k; ++i) {
        double exact = 0, size = 0;
        for (int64_t t = 0; t < taps; ++t) {
          const double product = weights[t] * bf16Value(table.as<uint16_t>()[nearest[t] * k + i]);
          exact += product, size += std::abs(product);
        }
        ASSERT_NEAR(y[size_t(i)], exact, 6 * kUnit * size);
      }
      ASSERT_TRUE(isUntouched(y.back()));
    }
  }
}

void checkAttention(int64_t rows, int64_t length, int64_t heads, int64_t dim, Random &random) {
  SCOPED_TRACE("rows " + std::to_string(rows) + " of " + std::to_string(length) + ", dim " + std::to_string(dim));
  const int64_t stride = heads * dim, head = heads - 1, first = length - rows;
  Guarded q = guardedFloats(randomRow(random, length * stride)), k = guardedFloats(randomRow(random, length * stride));
  Guarded v = guardedFloats(randomRow(random, length * stride));
  const float scale = float(1 / std::sqrt(double(dim)));
  std::vector<float> out = untouched(size_t(length * stride));
  Working scratch(static_cast<size_t>(microFullAttentionScratchBytes(dim)));
  const int64_t at = head * dim;
  ni_full_attention(q.as<float>() + first * stride + at, k.as<float>() + at, v.as<float>() + at, stride, rows, length, dim,
                    scale, out.data() + first * stride + at, scratch.data());
  for (int64_t r = 0; r < length; ++r) {
    std::vector<double> score(static_cast<size_t>(length));
    double top = -1e300, scoreError = 0, total = 0;
    for (int64_t j = 0; j < length; ++j) {
      double dot = 0, size = 0;
      for (int64_t d = 0; d < dim; ++d) {
        const double product = double(q.as<float>()[r * stride + at + d]) * double(k.as<float>()[j * stride + at + d]);
        dot += product, size += std::abs(product);
      }
      score[size_t(j)] = dot * scale;
      top = std::max(top, dot * scale);
      scoreError = std::max(scoreError, size * scale * (double(dim) + 4) * kUnit);
    }
    for (double &s : score)
      total += s = std::exp(s - top);
    for (int64_t d = 0; d < stride; ++d) {
      const float got = out[size_t(r * stride + d)];
      if (r < first || d < at || d >= at + dim) {
        ASSERT_TRUE(isUntouched(got)) << "row " << r << " element " << d;
        continue;
      }
      double exact = 0, size = 0;
      for (int64_t j = 0; j < length; ++j) {
        const double value = v.as<float>()[j * stride + d];
        exact += score[size_t(j)] / total * value;
        size += score[size_t(j)] / total * std::abs(value);
      }
      // An error e of every score changes a weight by a factor within exp(+-e), numerator and sum alike; exp adds 6 units,
      // the sums over keys one per key, and each block of 64 one rescaling.
      const double bound = size * (2 * scoreError + (double(length) * 2 + double(length) / 8 + 20) * kUnit);
      ASSERT_NEAR(got, exact, bound) << "row " << r << " element " << d;
    }
  }
}

TEST(VisionTest, FullAttention) {
  NINFER_NEEDS_LEVEL();
  Random random{16};
  for (const int64_t dim : {4, 8, 12, 16, 36, 64, 72, 80, 100, 128})
    for (const int64_t length : {1, 2, 5, 63, 64, 65, 130})
      checkAttention(length, length, 2, dim, random);
  for (const int64_t rows : {1, 2, 3, 4, 7, 255, 256, 257, 300}) // parts of the rows, and more than are taken at a time
    checkAttention(rows, 300, 1, 72, random);
  checkAttention(3, 70, 1, 1024, random);
}

// Scores far apart: the running maximum rescales what came before, and weights that vanish do not turn into NaN.
TEST(VisionTest, FullAttentionOfExtremeScores) {
  NINFER_NEEDS_LEVEL();
  const int64_t length = 200, dim = 4;
  std::vector<float> q(size_t(length * dim), 0.0f), k = q, v = q, out = untouched(q.size());
  for (int64_t r = 0; r < length; ++r) {
    q[size_t(r * dim)] = 1;
    k[size_t(r * dim)] = float(r) * 40; // the last key wins by far
    v[size_t(r * dim)] = float(r);
  }
  Working scratch(static_cast<size_t>(microFullAttentionScratchBytes(dim)));
  ni_full_attention(q.data(), k.data(), v.data(), dim, length, length, dim, 1.0f, out.data(), scratch.data());
  for (int64_t r = 0; r < length; ++r)
    ASSERT_NEAR(out[size_t(r * dim)], double(length - 1), 1e-4);
}

} // namespace
} // namespace ninfer::test
