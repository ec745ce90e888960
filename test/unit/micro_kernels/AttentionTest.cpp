// Attention kernels against a double-precision softmax over the stored cache words.
#include "test/unit/micro_kernels/Support.h"

namespace ninfer::test {
namespace {

struct Cache {
  Guarded words;
  std::vector<double> values;
};

Cache makeCache(bool bf16, int64_t positions, int64_t dim, Random &random) {
  Cache cache{Guarded(size_t(positions * dim * (bf16 ? 2 : 4))), {}};
  for (int64_t i = 0; i < positions * dim; ++i) {
    float v = random.value();
    if (bf16) {
      const uint16_t word = uint16_t(std::bit_cast<uint32_t>(v) >> 16);
      cache.words.as<uint16_t>()[i] = word;
      v = std::bit_cast<float>(uint32_t(word) << 16);
    } else {
      cache.words.as<float>()[i] = v;
    }
    cache.values.push_back(v);
  }
  return cache;
}

void check(bool bf16, int64_t rows, int64_t heads, int64_t length, int64_t dim, Random &random) {
  const int64_t stride = heads * dim + 5, outStride = heads * dim + 2, positions = length + rows - 1;
  std::vector<float> q(size_t(rows * stride));
  for (float &v : q)
    v = random.value();
  Cache keys = makeCache(bf16, positions, dim, random), values = makeCache(bf16, positions, dim, random);
  const float scale = float(1 / std::sqrt(double(dim)));
  std::vector<float> out = untouched(size_t(rows * outStride));
  Working scratch(static_cast<size_t>(microAttentionScratchBytes(dim)));
  (bf16 ? ni_attention_bf16 : ni_attention_f32)(q.data(), stride, rows, heads, keys.words.as<void>(),
                                                values.words.as<void>(), length, dim, scale, out.data(), outStride,
                                                scratch.data());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      const float *query = q.data() + r * stride + h * dim;
      std::vector<double> score(size_t(length + r));
      double top = -1e300, scoreError = 0, largest = 0;
      for (int64_t p = 0; p < length + r; ++p) {
        double dot = 0, size = 0;
        for (int64_t d = 0; d < dim; ++d) {
          const double product = query[d] * keys.values[size_t(p * dim + d)];
          dot += product, size += std::abs(product);
          largest = std::max(largest, std::abs(values.values[size_t(p * dim + d)]));
        }
        score[size_t(p)] = dot * scale;
        top = std::max(top, dot * scale);
        scoreError = std::max(scoreError, size * scale * (double(dim) / 8 + 12) * kUnit);
      }
      double total = 0;
      for (double &s : score)
        total += s = std::exp(s - top);
      // An error e of every score changes the weights by a factor within exp(+-2e); exp itself and the sums over
      // positions add a few units each, in chains of at most `length`.
      const double bound = largest * (2.5 * scoreError + (double(length + r) + 40) * kUnit);
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
  }
}

TEST(AttentionTest, LengthsHeadsRowsAndSizes) {
  NINFER_NEEDS_LEVEL();
  Random random{9};
  for (const bool bf16 : {true, false})
    for (const int64_t dim : {8, 16, 20, 64, 80, 128}) {
      for (const int64_t length : {1, 2, 5, 16, 127, 128, 129, 300})
        check(bf16, 1, 1, length, dim, random);
      check(bf16, 1, 3, 77, dim, random);
      check(bf16, 1, 8, 130, dim, random);
      check(bf16, 7, 1, 1, dim, random);
      check(bf16, 5, 3, 126, dim, random);
      if (HasFatalFailure())
        return;
    }
}

// Around the ends of blocks of positions, and every number of rows of a verification, heads of every group together and alone.
TEST(AttentionTest, EdgesOfBlocksAndRows) {
  NINFER_NEEDS_LEVEL();
  constexpr int64_t kBlock = kMicroAttentionBlock;
  Random random{10};
  for (const bool bf16 : {true, false}) {
    for (const int64_t length : {int64_t(63), int64_t(64), int64_t(65), kBlock / 2, kBlock / 2 + 1, kBlock - 1, kBlock, kBlock + 1,
                                 2 * kBlock - 1, 2 * kBlock, 2 * kBlock + 1, 5 * kBlock / 2, 4 * kBlock + 3})
      for (const int64_t heads : {1, 2, 3, 4})
        check(bf16, 1, heads, length, 32, random);
    for (int64_t rows = 1; rows <= 16; ++rows) { // more than kMicroAttentionQueries of them: a second pass
      check(bf16, rows, 3, kBlock - 4, 24, random);
      check(bf16, rows, 1, 1, 64, random);
    }
    check(bf16, 2, 8, 2 * kBlock - 1, 256, random);
    if (HasFatalFailure())
      return;
  }
}

struct Bytes {
  Guarded codes, scales;
  Bytes(int64_t positions, int64_t dim, int64_t width, Random &random)
      : codes(size_t(positions * dim * width)), scales(size_t(positions * ((dim + 63) / 64) * 2)) {
    for (int64_t i = 0; i < positions * dim; ++i) {
      const float v = random.value();
      if (width == 4)
        codes.as<float>()[i] = v;
      else if (width == 2)
        codes.as<uint16_t>()[i] = uint16_t(std::bit_cast<uint32_t>(v) >> 16);
      else
        codes.as<int8_t>()[i] = int8_t(random.below(255) - 127);
    }
    for (size_t i = 0; i < scales.bytes() / 2; ++i)
      scales.as<uint16_t>()[i] = uint16_t(0x2000 + random.below(0x800));
  }
};

// A verification must choose the tokens that decoding would: a row has the same bits alone and among others.
TEST(AttentionTest, RowsHaveTheSameBitsTogetherAndAlone) {
  NINFER_NEEDS_LEVEL();
  Random random{11};
  for (const int64_t width : {1, 2, 4}) // int8, bf16, f32
    for (const int64_t dim : {20, 64, 128})
      for (const int64_t heads : {1, 2, 3, 4, 6})
        for (const int64_t length : {1, 60, 253, 509, 1021}) {
          const int64_t rows = 8, stride = heads * dim;
          Bytes keys(length + rows - 1, dim, width, random), values(length + rows - 1, dim, width, random);
          std::vector<float> q(size_t(rows * stride));
          for (float &v : q)
            v = random.value();
          Working scratch(static_cast<size_t>(microAttentionScratchBytes(dim)));
          const auto attend = [&](int64_t row, int64_t count, int64_t head, int64_t share, float *out) {
            const float *from = q.data() + row * stride + head * dim;
            const void *k = keys.codes.as<void>(), *v = values.codes.as<void>();
            if (width == 1)
              ni_attention_int8(from, stride, count, share, k, keys.scales.as<void>(), v, values.scales.as<void>(), length + row, dim,
                                0.2f, out, stride, scratch.data());
            else
              (width == 2 ? ni_attention_bf16 : ni_attention_f32)(from, stride, count, share, k, v, length + row, dim, 0.2f, out,
                                                                  stride, scratch.data());
          };
          std::vector<float> together = untouched(q.size()), alone = together;
          attend(0, rows, 0, heads, together.data());
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t h = 0; h < heads; h += r % 2 ? heads : 1) // by row, or by head and row
              attend(r, 1, h, r % 2 ? heads : 1, alone.data() + r * stride + h * dim);
          ASSERT_EQ(std::memcmp(together.data(), alone.data(), q.size() * 4), 0)
              << "bytes " << width << " dim " << dim << " heads " << heads << " length " << length;
        }
}

TEST(AttentionTest, LargeScoresStayFinite) {
  NINFER_NEEDS_LEVEL();
  const int64_t dim = 16, length = 200;
  std::vector<float> q(dim, 100.0f), k(size_t(length * dim)), v(size_t(length * dim)), out = untouched(dim);
  for (int64_t p = 0; p < length; ++p)
    for (int64_t d = 0; d < dim; ++d)
      k[size_t(p * dim + d)] = float(p), v[size_t(p * dim + d)] = float(p); // the last position wins by 1600
  Working scratch(static_cast<size_t>(microAttentionScratchBytes(dim)));
  ni_attention_f32(q.data(), dim, 1, 1, k.data(), v.data(), length, dim, 1.0f, out.data(), dim, scratch.data());
  for (float o : out)
    EXPECT_EQ(o, float(length - 1));
}

} // namespace
} // namespace ninfer::test
