// Decode and prefill attention against softmax in double over the decoded cache; everything beyond the sequence is NaN.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"

#include "artifact/formats/Words.h"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

/// One plane of a cache with `length` legal positions.
struct Plane {
  std::vector<uint8_t> bytes;
  std::vector<double> values; ///< [kvHeads][length][dim]
};

Plane randomPlane(ni::CacheCodec codec, uint32_t kvHeads, uint32_t capacity, uint32_t dim, uint32_t length,
                  double sigma, std::mt19937_64 &random) {
  const bool int8 = codec == ni::CacheCodec::Int8;
  const uint32_t groups = ni::cacheGroups(dim);
  const size_t scalesAt = ni::cacheScalesAt(kvHeads, capacity, dim);
  Plane plane;
  plane.bytes.assign(int8 ? scalesAt + size_t(kvHeads) * capacity * groups * 2 : size_t(kvHeads) * capacity * dim * 2, 0xff);
  std::normal_distribution<double> normal(0, sigma);
  for (uint32_t h = 0; h < kvHeads; ++h)
    for (uint32_t p = 0; p < length; ++p) {
      const size_t row = size_t(h) * capacity + p;
      for (uint32_t d = 0; d < dim; ++d) {
        auto *scale = reinterpret_cast<uint16_t *>(plane.bytes.data() + scalesAt) + row * groups + d / 64;
        if (int8) {
          if (d % 64 == 0)
            *scale = p % 13 == 5 ? 0 : uint16_t(0x2000 + random() % 0x400); // 2^-7 .. 2^-6; some rows of zeros
          const auto code = static_cast<int8_t>(int(random() % 255) - 127);
          plane.bytes[row * dim + d] = uint8_t(code);
          plane.values.push_back(double(code) * decodeF16(*scale));
        } else {
          const uint16_t word = toBf16(normal(random));
          std::memcpy(plane.bytes.data() + (row * dim + d) * 2, &word, 2);
          plane.values.push_back(bf16(word));
        }
      }
    }
  return plane;
}

/// What both kernels need of their record.
struct Shape {
  uint32_t heads, kvHeads, dim;
  ni::CacheCodec codec;
  bool gate;
  ni::Operands operands;
  double magnitude = 1; ///< bfloat16 cache: of values and queries; keys have its reciprocal, so that scores are as ever
};

struct Problem {
  Problem(const Shape &s, uint32_t position, uint32_t rows);
  Shape shape;
  uint32_t position, rows, capacity;
  double scale;
  Plane keys, values;
  std::vector<uint16_t> query, gate;
  std::vector<Expected> expected() const;
};

Problem::Problem(const Shape &s, uint32_t position, uint32_t rows)
    : shape(s), position(position), rows(rows), capacity(ni::roundUp(position + rows, 32u) + 32),
      scale(1.5 / std::sqrt(double(s.dim))) {
  std::mt19937_64 random(position * 31 + rows);
  keys = randomPlane(s.codec, s.kvHeads, capacity, s.dim, position + rows, 1 / s.magnitude, random);
  values = randomPlane(s.codec, s.kvHeads, capacity, s.dim, position + rows, s.magnitude, random);
  query = randomBf16(size_t(rows) * s.heads * s.dim, s.magnitude, random);
  gate = randomBf16(query.size(), 1.0, random);
}

std::vector<Expected> Problem::expected() const {
  const Shape &s = shape;
  const uint32_t length = position + rows;
  std::vector<Expected> all(query.size());
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t h = 0; h < s.heads; ++h) {
      const size_t at = (size_t(r) * s.heads + h) * s.dim, cache = size_t(h / (s.heads / s.kvHeads)) * length * s.dim;
      const uint32_t seen = position + r + 1;
      std::vector<double> weights(seen);
      double top = -INFINITY, sum = 0, scoreError = 0, topQuery = 0;
      for (uint32_t d = 0; d < s.dim; ++d)
        topQuery = std::max(topQuery, std::fabs(double(bf16(query[at + d]))));
      for (uint32_t p = 0; p < seen; ++p) {
        double dot = 0, size = 0, topKey = 0;
        for (uint32_t d = 0; d < s.dim; ++d) {
          const double product = double(bf16(query[at + d])) * keys.values[cache + size_t(p) * s.dim + d];
          dot += product;
          size += std::fabs(product);
          topKey = std::max(topKey, std::fabs(keys.values[cache + size_t(p) * s.dim + d]));
        }
        weights[p] = dot * scale;
        top = std::max(top, weights[p]);
        // One rounding per mma of 16 products, one per group; the products with scale, and the difference to the maximum.
        double error = size * (s.dim / 16 + 8) * kFloatUnit;
        if (s.operands == ni::Operands::F16) // two roundings per mma step; numbers are off by 2^-40 of the largest of 64
          error = 2 * error + s.dim * 0x1p-39 * topQuery * topKey;
        scoreError = std::max(scoreError, error * scale);
      }
      for (double &w : weights)
        sum += w = std::exp(w - top);
      for (uint32_t d = 0; d < s.dim; ++d) {
        double mixed = 0, size = 0, topValue = 0;
        for (uint32_t p = 0; p < seen; ++p) {
          const double product = weights[p] / sum * values.values[cache + size_t(p) * s.dim + d];
          mixed += product;
          size += std::fabs(product);
          if (s.operands == ni::Operands::F16)
            for (uint32_t e = d / 64 * 64; e < std::min(s.dim, d / 64 * 64 + 64); ++e)
              topValue = std::max(topValue, std::fabs(values.values[cache + size_t(p) * s.dim + e]));
        }
        // A weight (times its value scale) is rounded to bfloat16, after exp (2^-21) of a score with its error, which is in
        // numerator and denominator; sums have one rounding per step of 16 keys and per rescaling.
        double slack = size * (kBf16Unit + 2 * scoreError + 0x1p-20 + (seen / 8 + 16) * kFloatUnit);
        // Weights are off by 2^-39 of the largest scale, numbers by 2^-40 of the largest (cache_tile.cuh): against a sum of
        // weights of at least 1, twice that of the largest value, per key.
        if (s.operands == ni::Operands::F16)
          slack += seen * 0x1p-38 * 2 * topValue + size * (seen / 8 + 16) * kFloatUnit;
        if (s.gate) {
          const double f = 1 / (1 + std::exp(-double(bf16(gate[at + d]))));
          mixed *= f;
          slack = slack * f + std::fabs(mixed) * 0x1p-20;
        }
        all[at + d] = {mixed, slack};
      }
    }
  return all;
}

class AttentionDecode : public testing::TestWithParam<ni::AttentionDecodeSpec> {};

void check(const ni::AttentionDecodeSpec &s, uint32_t position, uint32_t rows, uint32_t splits,
           const std::vector<emulator::Options> &modes, double magnitude = 1) {
  const KernelText text = attentionDecodeKernel(s, 0);
  const Problem p({s.heads, s.kvHeads, s.dim, s.codec, s.gate, s.operands, magnitude}, position, rows);
  const std::vector<Expected> expected = p.expected();
  const std::string where = text.name + ", position " + std::to_string(position) + ", rows " + std::to_string(rows) +
                            ", splits " + std::to_string(splits);
  Array queries(p.query, "query"), keyBytes(p.keys.bytes, "keys"), valueBytes(p.values.bytes, "values"), gates(p.gate, "gate");
  Array out(p.query.size() * 2, true, "out"), counters(std::vector<uint32_t>(s.kvHeads, 0), "counters", true);
  Array scratch(size_t(s.kvHeads) * splits * ni::attentionScratch(s) * 4, true, "scratch");
  Array positions(std::vector<uint32_t>{position}, "position");
  for (const emulator::Options &mode : modes) {
    out.poison();
    scratch.poison();
    Arguments args;
    args.pointer(queries).pointer(keyBytes).pointer(valueBytes);
    s.gate ? args.pointer(gates) : args.null();
    args.pointer(out).pointer(scratch).pointer(counters).pointer(positions);
    args.u32(rows).u32(p.capacity).u32(splits).f32(float(p.scale * 1.4426950408889634));
    ASSERT_EQ(launch(text, {s.kvHeads, splits}, args, mode), "") << where << ", " << describe(mode);
    ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << where << ", " << describe(mode);
  }
}

class AttentionPrefill : public testing::TestWithParam<ni::AttentionPrefillSpec> {};

void check(const ni::AttentionPrefillSpec &s, uint32_t position, uint32_t rows, const std::vector<emulator::Options> &modes,
           double magnitude = 1) {
  const KernelText text = attentionPrefillKernel(s, 0);
  const Problem p({s.heads, s.kvHeads, s.dim, s.codec, s.gate, s.operands, magnitude}, position, rows);
  const std::vector<Expected> expected = p.expected();
  Array queries(p.query, "query"), keyBytes(p.keys.bytes, "keys"), valueBytes(p.values.bytes, "values"), gates(p.gate, "gate");
  Array out(p.query.size() * 2, true, "out"), positions(std::vector<uint32_t>{position}, "position");
  for (const emulator::Options &mode : modes) {
    out.poison();
    Arguments args;
    args.pointer(queries).pointer(keyBytes).pointer(valueBytes);
    s.gate ? args.pointer(gates) : args.null();
    args.pointer(out).pointer(positions).u32(rows).u32(p.capacity).f32(float(p.scale * 1.4426950408889634));
    const std::string where = text.name + ", position " + std::to_string(position) + ", rows " + std::to_string(rows);
    ASSERT_EQ(launch(text, {ni::divideUp(rows, ni::prefillRows(s)), s.heads}, args, mode), "") << where << describe(mode);
    ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << where << ", " << describe(mode);
  }
}

TEST_P(AttentionDecode, AgreesWithDoubleSoftmax) {
  const ni::AttentionDecodeSpec s = GetParam();
  const auto modes = allModes();
  check(s, 0, 1, 1, {modes[0]});
  check(s, 0, s.rows, 3, {modes[1]}); // splits without a key
  check(s, 31, 1, 1, {modes[2]});     // exactly one tile
  check(s, 32, s.rows, 1, {modes[4]});
  check(s, 200 - s.rows, s.rows, 3, modes);
  if (s.operands == ni::Operands::F16 && s.codec == ni::CacheCodec::Bf16)
    for (double magnitude : {1e30, 1e-30})
      check(s, 90, s.rows, 2, {modes[3]}, magnitude);
}

TEST_P(AttentionPrefill, AgreesWithDoubleSoftmax) {
  const ni::AttentionPrefillSpec s = GetParam();
  const auto modes = allModes();
  check(s, 0, 1, {modes[0]});
  check(s, 0, ni::prefillRows(s), {modes[1]});
  check(s, 37, 20, modes);
  check(s, 5, ni::prefillRows(s) + 3, {modes[3]}); // two blocks of rows
  if (s.operands == ni::Operands::F16 && s.codec == ni::CacheCodec::Bf16)
    for (double magnitude : {1e30, 1e-30})
      check(s, 50, 18, {modes[3]}, magnitude);
}

std::string prefillName(const testing::TestParamInfo<ni::AttentionPrefillSpec> &info) {
  return attentionPrefillKernel(info.param, 0).name;
}
INSTANTIATE_TEST_SUITE_P(Keys, AttentionPrefill, testing::ValuesIn(keys::attentionPrefill()), prefillName);

std::string keyName(const testing::TestParamInfo<ni::AttentionDecodeSpec> &info) {
  return attentionDecodeKernel(info.param, 0).name;
}
INSTANTIATE_TEST_SUITE_P(Keys, AttentionDecode, testing::ValuesIn(keys::attentionDecode()), keyName);

} // namespace
} // namespace ninfer::cuda
