// Rope and cache append against double arithmetic: query rows, and every word of both cache planes, new and untouched.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"

#include "artifact/formats/Words.h"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

constexpr uint32_t kCapacity = 32, kPosition = 5, kRows = 3;
constexpr float kEps = 1e-6f;

class RopeAppend : public testing::TestWithParam<ni::RopeAppendSpec> {};

/// Norm and rotation of one head; slack covers four roundings, rsqrt (2^-21) and the sum of squares.
std::vector<Expected> turned(const ni::RopeAppendSpec &s, const uint16_t *x, const uint16_t *norm, bool rotated,
                             const float *angles) {
  std::vector<double> v(s.dim);
  double squares = 0;
  for (uint32_t d = 0; d < s.dim; ++d) {
    v[d] = bf16(x[d]);
    squares += v[d] * v[d];
  }
  if (rotated && s.norm != ni::HeadNorm::None)
    for (uint32_t d = 0; d < s.dim; ++d)
      v[d] *= (bf16(norm[d]) + (s.norm == ni::HeadNorm::UnitOffset ? 1.0 : 0.0)) / std::sqrt(squares / s.dim + double(kEps));
  std::vector<Expected> y(s.dim);
  for (uint32_t d = 0; d < s.dim; ++d) {
    double value = v[d], size = std::fabs(v[d]);
    if (rotated && d < 2 * s.pairs) {
      const uint32_t i = d % s.pairs;
      const double c = angles[2 * i], n = angles[2 * i + 1];
      value = d < s.pairs ? v[i] * c - v[i + s.pairs] * n : v[i + s.pairs] * c + v[i] * n;
      size = std::fabs(v[i] * n) + std::fabs(v[i] * c) + std::fabs(v[i + s.pairs] * c) + std::fabs(v[i + s.pairs] * n);
    }
    y[d] = {value, rotated ? size * 0x1p-19 : 0.0};
  }
  return y;
}

TEST_P(RopeAppend, AgreesWithDouble) {
  const ni::RopeAppendSpec s = GetParam();
  const KernelText text = ropeAppendKernel(s, 0);
  std::mt19937_64 random(s.dim);
  // The three parts lie side by side in one buffer, as a fused projection leaves them.
  const uint32_t queryWidth = s.heads * s.dim, keyWidth = s.kvHeads * s.dim, width = queryWidth + 2 * keyWidth;
  auto x = randomBf16(size_t(kRows) * width, 1.0, random);
  for (uint32_t d = 0; d < s.dim; ++d)
    x[queryWidth + keyWidth + d] = 0; // a head of zeros: scale 0
  const auto queryNorm = randomBf16(s.dim, 1.0, random), keyNorm = randomBf16(s.dim, 1.0, random);
  std::vector<float> table(size_t(kCapacity) * std::max(1u, s.pairs) * 2);
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const double angle = double(random() % 1000) / 100;
    table[i] = float(std::cos(angle));
    table[i + 1] = float(std::sin(angle));
  }
  const bool int8 = s.codec == ni::CacheCodec::Int8;
  const uint32_t groups = ni::cacheGroups(s.dim);
  const size_t plane = int8 ? ni::cacheScalesAt(s.kvHeads, kCapacity, s.dim) + size_t(s.kvHeads) * kCapacity * groups * 2
                            : size_t(s.kvHeads) * kCapacity * s.dim * 2;
  Array in(x, "qkv"), qn(queryNorm, "queryNorm"), kn(keyNorm, "keyNorm"), angles(table, "table");
  Array position(std::vector<uint32_t>{kPosition}, "position");
  Array out(size_t(kRows) * queryWidth * 2, true, "queryOut"), keys(plane, true, "keys"), values(plane, true, "values");

  for (const emulator::Options &mode : threadOrders()) {
    out.poison();
    keys.poison();
    values.poison();
    Arguments args;
    args.pointer(in).pointer(in).pointer(in);
    args.pointer(qn).pointer(kn).pointer(angles).pointer(out).pointer(keys).pointer(values).pointer(position);
    args.u32(kRows).u32(kCapacity).u32(width).u32(width).u32(width).f32(kEps);
    *static_cast<uint64_t *>(args.pointers()[1]) += queryWidth * 2;
    *static_cast<uint64_t *>(args.pointers()[2]) += (queryWidth + keyWidth) * 2;
    ASSERT_EQ(launch(text, {ni::ropeBlocks(s, kRows)}, args, mode), "") << describe(mode);
    for (uint32_t r = 0; r < kRows; ++r) {
      const float *row = table.data() + size_t(kPosition + r) * s.pairs * 2;
      for (uint32_t h = 0; h < s.heads; ++h) {
        const auto expected = turned(s, &x[r * width + h * s.dim], queryNorm.data(), true, row);
        ASSERT_EQ(compareBf16(expected, out.as<uint16_t>() + (size_t(r) * s.heads + h) * s.dim), "") << r << " " << h;
      }
    }
    for (int which = 0; which < 2; ++which) {
      uint8_t *bytes = (which ? values : keys).data();
      for (uint32_t h = 0; h < s.kvHeads; ++h)
        for (uint32_t p = 0; p < kCapacity; ++p) {
          const size_t at = size_t(h) * kCapacity + p;
          const bool stored = p >= kPosition && p < kPosition + kRows;
          const uint16_t *scales = reinterpret_cast<uint16_t *>(bytes + ni::cacheScalesAt(s.kvHeads, kCapacity, s.dim)) + at * groups;
          if (!stored) { // other positions stay as they are
            const size_t unit = int8 ? 1 : 2;
            for (size_t i = 0; i < s.dim * unit; ++i)
              ASSERT_EQ(bytes[at * s.dim * unit + i], 0xff);
            for (uint32_t g = 0; int8 && g < groups; ++g)
              ASSERT_EQ(scales[g], 0xffff);
            continue;
          }
          const uint32_t r = p - kPosition;
          const auto expected = turned(s, &x[r * width + queryWidth + which * keyWidth + h * s.dim], keyNorm.data(), which == 0,
                                       table.data() + size_t(p) * s.pairs * 2);
          if (!int8) {
            ASSERT_EQ(compareBf16(expected, reinterpret_cast<uint16_t *>(bytes) + at * s.dim), "") << which << h << p;
            continue;
          }
          for (uint32_t g = 0; g < groups; ++g) {
            double top = 0, slack = 0;
            for (uint32_t d = g * 64; d < std::min(s.dim, g * 64 + 64); ++d) {
              top = std::max(top, std::fabs(expected[d].value));
              slack = std::max(slack, expected[d].slack);
            }
            const double scale = decodeF16(scales[g]);
            ASSERT_LE(std::fabs(scale - top / 127), top / 127 * 0x1p-11 + slack / 127 + 0x1p-25) << which << h << p << g;
            for (uint32_t d = g * 64; d < std::min(s.dim, g * 64 + 64); ++d) {
              const auto code = static_cast<int8_t>(bytes[at * s.dim + d]);
              ASSERT_GE(code, -127);
              // Half a step, or more where the rounded scale keeps 127 from reaching the largest value.
              const double bound = scale * 0.5 + std::max(0.0, std::fabs(expected[d].value) - 127 * scale) + expected[d].slack +
                                   std::fabs(expected[d].value) * 0x1p-22;
              ASSERT_LE(std::fabs(code * scale - expected[d].value), bound) << which << h << p << d;
            }
          }
        }
    }
  }
}

std::string keyName(const testing::TestParamInfo<ni::RopeAppendSpec> &info) { return ropeAppendKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, RopeAppend, testing::ValuesIn(keys::ropeAppend()), keyName);

} // namespace
} // namespace ninfer::cuda
