// The int8 KV cache: stored words against vectors evaluated by test/oracle/hybrid_vectors.py, attention over it against
// a double-precision softmax of code * scale.
#include "test/unit/micro_kernels/Support.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace ninfer::test {
namespace {

double f16Value(uint16_t word) {
  const int exponent = word >> 10, fraction = word & 0x3ff; // scales have no sign
  return exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
}

TEST(Int8CacheTest, Sizes) {
  EXPECT_EQ(microKvInt8ScalesOffset(2, 3, 10), 64);
  EXPECT_EQ(microKvInt8ScalesOffset(2, 4, 8), 64);
  EXPECT_EQ(microKvInt8PlaneBytes(2, 3, 10), 64 + 2 * 3 * 2);
  EXPECT_EQ(microKvInt8PlaneBytes(2, 3, 65), 448 + 2 * 3 * 2 * 2);
}

TEST(Int8CacheTest, StoredWords) {
  NINFER_NEEDS_LEVEL();
  std::ifstream in(NINFER_SOURCE_DIR "/test/vectors/hybrid.json");
  const nlohmann::json vectors = nlohmann::json::parse(in);
  int rows = 0;
  for (const auto &c : vectors.at("int8")) {
    const std::string label = c["label"];
    const std::vector<uint32_t> words = c["x"];
    const std::vector<int> codes = c["codes"], scales = c["scales"];
    const int64_t heads = 3, capacity = 5, position = 3, dim = int64_t(words.size()), groups = int64_t(scales.size());
    Guarded x(size_t(heads * dim * 4));
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < dim; ++i) {
        const float value = std::bit_cast<float>(words[size_t(i)]);
        x.as<float>()[h * dim + i] = h == 1 ? value : 0.0f;
      }
    // The plane ends at an unmapped page; a guard lies before it.
    const int64_t bytes = microKvInt8PlaneBytes(heads, capacity, dim);
    const int64_t scalesAt = microKvInt8ScalesOffset(heads, capacity, dim);
    Guarded plane(size_t(bytes + 64));
    std::memset(plane.as<char>(), 0x5a, plane.bytes());
    auto *base = plane.as<uint8_t>() + 64;
    ni_kv_store_int8(x.as<float>(), heads, dim, capacity, position, base, base + scalesAt);
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t p = 0; p < capacity; ++p) {
        const int64_t row = h * capacity + p;
        for (int64_t i = 0; i < dim; ++i)
          ASSERT_EQ(int8_t(base[row * dim + i]), p != position ? 0x5a : h == 1 ? codes[size_t(i)] : 0)
              << label << " head " << h << " position " << p << " at " << i;
        for (int64_t g = 0; g < groups; ++g) {
          uint16_t word;
          std::memcpy(&word, base + scalesAt + (row * groups + g) * 2, 2);
          ASSERT_EQ(word, p != position ? 0x5a5a : h == 1 ? scales[size_t(g)] : 0) << label << " group " << g;
        }
      }
    for (int64_t i = -64; i < 0; ++i)
      ASSERT_EQ(base[i], 0x5a) << label;
    for (int64_t i = heads * capacity * dim; i < scalesAt; ++i)
      ASSERT_EQ(base[i], 0x5a) << label;
    ++rows;
  }
  EXPECT_GE(rows, 18);
}

struct Plane {
  Guarded codes, scales;
  std::vector<double> values;
  Plane(int64_t positions, int64_t dim, Random &random)
      : codes(size_t(positions * dim)), scales(size_t(positions * ((dim + 63) / 64) * 2)) {
    const int64_t groups = (dim + 63) / 64;
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t g = 0; g < groups; ++g) // zero, subnormal, ordinary
        scales.as<uint16_t>()[p * groups + g] =
            uint16_t(random.below(10) == 0 ? random.below(0x400) : 0x2000 + random.below(0x800));
      for (int64_t i = 0; i < dim; ++i) {
        const auto code = int8_t(random.below(255) - 127);
        codes.as<int8_t>()[p * dim + i] = code;
        values.push_back(code * f16Value(scales.as<uint16_t>()[p * groups + i / 64]));
      }
    }
  }
};

void check(int64_t rows, int64_t heads, int64_t length, int64_t dim, Random &random) {
  const int64_t stride = heads * dim + 5, outStride = heads * dim + 2, positions = length + rows - 1;
  std::vector<float> q(size_t((rows - 1) * stride + heads * dim));
  for (float &v : q)
    v = random.value();
  Guarded query = guardedFloats(q);
  Plane keys(positions, dim, random), values(positions, dim, random);
  const float scale = float(1 / std::sqrt(double(dim)));
  std::vector<float> out = untouched(size_t(rows * outStride));
  Working scratch(static_cast<size_t>(microAttentionScratchBytes(dim)));
  ni_attention_int8(query.as<float>(), stride, rows, heads, keys.codes.as<void>(), keys.scales.as<void>(),
                    values.codes.as<void>(), values.scales.as<void>(), length, dim, scale, out.data(), outStride,
                    scratch.data());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      std::vector<double> score(size_t(length + r));
      double top = -1e300, scoreError = 0, largest = 0, total = 0;
      for (int64_t p = 0; p < length + r; ++p) {
        double dot = 0, size = 0;
        for (int64_t d = 0; d < dim; ++d) {
          const double product = q[size_t(r * stride + h * dim + d)] * keys.values[size_t(p * dim + d)];
          dot += product, size += std::abs(product);
          largest = std::max(largest, std::abs(values.values[size_t(p * dim + d)]));
        }
        score[size_t(p)] = dot * scale;
        top = std::max(top, dot * scale);
        scoreError = std::max(scoreError, size * scale * (double(dim) / 8 + 13) * kUnit);
      }
      for (double &s : score)
        total += s = std::exp(s - top);
      // As in AttentionTest.cpp, with one rounding more per cache value.
      const double bound = largest * (2.5 * scoreError + (double(length + r) + 41) * kUnit);
      for (int64_t d = 0; d < dim; ++d) {
        double exact = 0;
        for (int64_t p = 0; p < length + r; ++p)
          exact += score[size_t(p)] / total * values.values[size_t(p * dim + d)];
        ASSERT_NEAR(out[size_t(r * outStride + h * dim + d)], exact, bound)
            << "rows " << rows << " heads " << heads << " length " << length << " dim " << dim << " at " << r << ' '
            << h << ' ' << d;
      }
    }
    ASSERT_TRUE(isUntouched(out[size_t(r * outStride + heads * dim)]));
    ASSERT_TRUE(isUntouched(out[size_t(r * outStride + heads * dim + 1)]));
  }
}

TEST(Int8CacheTest, Attention) {
  NINFER_NEEDS_LEVEL();
  Random random{21};
  for (const int64_t dim : {8, 16, 20, 64, 70, 80, 128, 256}) {
    for (const int64_t length : {1, 2, 5, 16, 127, 128, 129, 300})
      check(1, 1, length, dim, random);
    check(1, 3, 77, dim, random);
    check(1, 8, 130, dim, random);
    check(7, 1, 1, dim, random);
    check(5, 3, 126, dim, random);
    if (HasFatalFailure())
      return;
  }
  constexpr int64_t kBlock = kMicroAttentionBlock;
  for (const int64_t length : {kBlock / 2, kBlock / 2 + 1, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 4 * kBlock + 3})
    for (const int64_t heads : {1, 2, 3, 4})
      check(1, heads, length, 72, random);
  for (int64_t rows = 1; rows <= 16; ++rows) {
    check(rows, 3, kBlock - 4, 24, random);
    check(rows, 1, 1, 64, random);
  }
}

// Store, then attend: one position gives its own value back within half a step of its group.
TEST(Int8CacheTest, RoundTrip) {
  NINFER_NEEDS_LEVEL();
  Random random{22};
  for (const int64_t dim : {20, 64, 96, 256}) {
    const int64_t heads = 2, capacity = 3, groups = (dim + 63) / 64;
    std::vector<float> x(size_t(heads * dim));
    for (float &v : x)
      v = random.value();
    std::vector<uint8_t> plane(size_t(microKvInt8PlaneBytes(heads, capacity, dim)));
    uint8_t *allScales = plane.data() + microKvInt8ScalesOffset(heads, capacity, dim);
    ni_kv_store_int8(x.data(), heads, dim, capacity, 0, plane.data(), allScales);
    for (int64_t h = 0; h < heads; ++h) {
      const uint8_t *codes = plane.data() + h * capacity * dim;
      const uint8_t *scales = allScales + h * capacity * groups * 2;
      std::vector<float> out = untouched(size_t(dim));
      Working scratch(static_cast<size_t>(microAttentionScratchBytes(dim)));
      ni_attention_int8(x.data(), dim, 1, 1, codes, scales, codes, scales, 1, dim, 1.0f, out.data(), dim,
                        scratch.data());
      for (int64_t i = 0; i < dim; ++i) {
        float top = 0;
        for (int64_t j = i / 64 * 64; j < std::min(dim, i / 64 * 64 + 64); ++j)
          top = std::max(top, std::abs(x[size_t(h * dim + j)]));
        ASSERT_NEAR(out[size_t(i)], x[size_t(h * dim + i)], top / 127 * (0.5 + 127.0 / 2048)) << dim << ' ' << i;
      }
    }
  }
}

} // namespace
} // namespace ninfer::test
