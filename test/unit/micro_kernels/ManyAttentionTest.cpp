// Attention of many rows, over every cache codec, against a double-precision softmax over the stored cache words.
#include "test/unit/micro_kernels/Support.h"

#include <algorithm>

namespace ninfer::test {
namespace {

enum class Codec { Bf16, F32, Int8 };

/// The keys or values of one kv head: stored words and what they stand for.
struct Plane {
  Guarded words, scales;
  std::vector<double> values;
};

Plane makePlane(Codec codec, int64_t positions, int64_t dim, Random &random) {
  const int64_t groups = (dim + 63) / 64;
  const int64_t size = codec == Codec::Bf16 ? 2 : codec == Codec::F32 ? 4 : 1;
  Plane plane{Guarded(size_t(positions * dim * size)), Guarded(size_t(positions * groups * 2)), {}};
  for (int64_t i = 0; i < positions * groups; ++i)
    plane.scales.as<uint16_t>()[i] = uint16_t((8 << 10) | random.below(1024)); // 2^-7 .. 2^-6
  for (int64_t i = 0; i < positions * dim; ++i) {
    const float v = random.value();
    if (codec == Codec::Bf16) {
      const uint16_t word = uint16_t(std::bit_cast<uint32_t>(v) >> 16);
      plane.words.as<uint16_t>()[i] = word;
      plane.values.push_back(std::bit_cast<float>(uint32_t(word) << 16));
    } else if (codec == Codec::F32) {
      plane.values.push_back(plane.words.as<float>()[i] = v);
    } else {
      const int code = int(random.below(255)) - 127;
      const uint16_t scale = plane.scales.as<uint16_t>()[i / dim * groups + i % dim / 64];
      plane.words.as<int8_t>()[i] = int8_t(code);
      plane.values.push_back(code * std::ldexp(1024 + (scale & 1023), (scale >> 10) - 25));
    }
  }
  return plane;
}

void check(Codec codec, int64_t rows, int64_t heads, int64_t length, int64_t dim, Random &random) {
  const int64_t stride = heads * dim + 5, outStride = heads * dim + 2, positions = length + rows - 1;
  std::vector<float> values(size_t(rows * stride - 5));
  for (float &v : values)
    v = random.value();
  Guarded q = guardedFloats(values);
  Plane keys = makePlane(codec, positions, dim, random), plane = makePlane(codec, positions, dim, random);
  const float scale = float(1 / std::sqrt(double(dim)));
  std::vector<float> out = untouched(size_t(rows * outStride));
  Working scratch(static_cast<size_t>(microManyAttentionScratchBytes(dim)));
  if (codec == Codec::Int8)
    ni_attention_many_int8(q.as<float>(), stride, rows, heads, keys.words.as<void>(), keys.scales.as<void>(),
                           plane.words.as<void>(), plane.scales.as<void>(), length, dim, scale, out.data(), outStride,
                           scratch.data());
  else
    (codec == Codec::Bf16 ? ni_attention_many_bf16 : ni_attention_many_f32)(
        q.as<float>(), stride, rows, heads, keys.words.as<void>(), plane.words.as<void>(), length, dim, scale,
        out.data(), outStride, scratch.data());
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t last = length + r;
    for (int64_t h = 0; h < heads; ++h) {
      const float *query = q.as<float>() + r * stride + h * dim;
      std::vector<double> score(static_cast<size_t>(last));
      double top = -1e300, scoreError = 0, largest = 0, total = 0;
      for (int64_t p = 0; p < last; ++p) {
        double dot = 0, size = 0;
        for (int64_t d = 0; d < dim; ++d) {
          const double product = query[d] * keys.values[size_t(p * dim + d)];
          dot += product, size += std::abs(product);
          largest = std::max(largest, std::abs(plane.values[size_t(p * dim + d)]));
        }
        score[size_t(p)] = dot * scale;
        top = std::max(top, dot * scale);
        // one rounding of the scaled query, then a chain of `dim` fused multiply-adds
        scoreError = std::max(scoreError, size * scale * (double(dim) + 4) * kUnit);
      }
      for (double &s : score)
        total += s = std::exp(s - top);
      // An error e of every score changes the weights by a factor within exp(+-2e); exp itself and the sums over
      // positions add a few units each, in chains of at most `last`.
      const double bound = largest * (2.5 * scoreError + (double(last) + 40) * kUnit);
      for (int64_t d = 0; d < dim; ++d) {
        double exact = 0;
        for (int64_t p = 0; p < last; ++p)
          exact += score[size_t(p)] / total * plane.values[size_t(p * dim + d)];
        ASSERT_NEAR(out[size_t(r * outStride + h * dim + d)], exact, bound)
            << "codec " << int(codec) << " rows " << rows << " heads " << heads << " length " << length << " dim " << dim
            << " at " << r << ' ' << h << ' ' << d;
      }
    }
    ASSERT_TRUE(isUntouched(out[size_t(r * outStride + heads * dim)]));
  }
}

TEST(ManyAttentionTest, LengthsHeadsRowsAndSizes) {
  NINFER_NEEDS_LEVEL();
  Random random{21};
  for (const Codec codec : {Codec::Bf16, Codec::F32, Codec::Int8})
    for (const int64_t dim : {8, 20, 64, 80, 128}) {
      for (const int64_t rows : {1, 17, 63, 64, 65})
        check(codec, rows, 1 + rows % 3, rows % 2 ? 1 : 50, dim, random);
      check(codec, 33, 5, 64, dim, random);
      check(codec, 20, 1, 129, dim, random);
      if (HasFatalFailure())
        return;
    }
}

TEST(ManyAttentionTest, MoreQueriesThanShareABlock) {
  NINFER_NEEDS_LEVEL();
  Random random{22};
  check(Codec::Bf16, 350, 3, 1, 8, random); // 341 rows, then 9
  check(Codec::F32, 2, kMicroManyQueries, 3, 4, random);
}

TEST(ManyAttentionTest, LargeScoresStayFinite) {
  NINFER_NEEDS_LEVEL();
  const int64_t dim = 16, rows = 70, length = 131;
  std::vector<float> q(size_t(rows * dim), 100.0f), k(size_t((length + rows) * dim)), out = untouched(size_t(rows * dim));
  for (size_t i = 0; i < k.size(); ++i)
    k[i] = float(i / size_t(dim)); // a row's last position wins by 1600
  Working scratch(static_cast<size_t>(microManyAttentionScratchBytes(dim)));
  ni_attention_many_f32(q.data(), dim, rows, 1, k.data(), k.data(), length, dim, 1.0f, out.data(), dim, scratch.data());
  for (int64_t i = 0; i < rows * dim; ++i)
    ASSERT_EQ(out[size_t(i)], float(length - 1 + i / dim)) << i;
}

} // namespace
} // namespace ninfer::test
