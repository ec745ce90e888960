// Causal convolution and delta rule against double recurrences, outputs and states.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

class CausalConv : public testing::TestWithParam<ni::CausalConvSpec> {};

TEST_P(CausalConv, AgreesWithDouble) {
  const ni::CausalConvSpec s = GetParam();
  const KernelText text = causalConvKernel(s, 0);
  const uint32_t channels = ni::convChannels(s), past = s.taps - 1, stride = channels + 8;
  for (uint32_t rows : {1u, 2u, 5u, 32u, 33u, 70u}) {
    std::mt19937_64 random(rows);
    const auto u = randomBf16(size_t(rows) * stride, 1.0, random), weight = randomBf16(size_t(s.taps) * channels, 0.5, random);
    std::vector<float> tail(size_t(past) * channels);
    for (float &v : tail)
      v = float(int(random() % 2001) - 1000) / 500;
    const auto at = [&](int64_t r, uint32_t c) -> double {
      return r < 0 ? tail[size_t(r + past) * channels + c] : bf16(u[size_t(r) * stride + c]);
    };
    std::vector<Expected> expected;
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t c = 0; c < channels; ++c) {
        double sum = 0, size = 0;
        for (uint32_t j = 0; j < s.taps; ++j) {
          const double product = double(bf16(weight[j * channels + c])) * at(int64_t(r) - past + j, c);
          sum += product;
          size += std::fabs(product);
        }
        const double y = sum / (1 + std::exp(-sum));
        // taps roundings of the sum, slope of silu at most 1.1, exp and reciprocal 2^-21 each, argument rounded once.
        expected.push_back({y, 1.1 * size * s.taps * kFloatUnit + std::fabs(y) * (0x1p-19 + std::fabs(sum) * 0x1p-22)});
      }
    Array in(u, "qkv"), weights(weight, "weight"), out(expected.size() * 2, true, "out");
    for (const emulator::Options &mode : threadOrders()) {
      out.poison();
      Array state(tail, "tail", !s.peek);
      Arguments args;
      args.pointer(in).pointer(in).pointer(in).pointer(weights).pointer(state).pointer(out);
      args.u32(rows).u32(stride).u32(stride).u32(stride);
      *static_cast<uint64_t *>(args.pointers()[1]) += s.queryWidth * 2;
      *static_cast<uint64_t *>(args.pointers()[2]) += (s.queryWidth + s.keyWidth) * 2;
      ASSERT_EQ(launch(text, {ni::convBlocksX(s), ni::convBlocksY(rows)}, args, mode), "") << rows;
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << rows;
      for (uint32_t j = 0; j < past; ++j)
        for (uint32_t c = 0; c < channels; ++c)
          ASSERT_EQ(double(state.as<float>()[j * channels + c]), at(int64_t(s.peek ? 0 : rows) - past + j, c))
              << rows << " " << j << " " << c;
    }
  }
}

std::string convName(const testing::TestParamInfo<ni::CausalConvSpec> &info) { return causalConvKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, CausalConv, testing::ValuesIn(keys::causalConv()), convName);

/// A number and a bound of its error, carried through the recurrence.
struct Bounded {
  double value = 0, error = 0;
};
Bounded operator+(Bounded a, Bounded b) {
  return {a.value + b.value, a.error + b.error + (std::fabs(a.value + b.value)) * kFloatUnit};
}
Bounded operator*(Bounded a, Bounded b) {
  const double v = a.value * b.value;
  return {v, std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error + std::fabs(v) * kFloatUnit};
}

/// `text` is a kernel for `s` that is launched with `blocks` thread blocks per value head.
void checkDelta(const ni::GatedDeltaSpec &s, const KernelText &text, uint32_t blocks) {
  const uint32_t keyWidth = s.keyHeads * s.keyDim, valueWidth = s.valueHeads * s.valueDim, width = 2 * keyWidth + valueWidth;
  for (uint32_t rows : {1u, 6u}) {
    std::mt19937_64 random(rows);
    const auto qkv = randomBf16(size_t(rows) * width, 1.0, random);
    auto gates = randomBf16(size_t(rows) * s.valueHeads * 2, 2.0, random);
    gates[0] = toBf16(25.0); // softplus beyond 20
    std::vector<float> aLog(s.valueHeads), dtBias(s.valueHeads), state(size_t(s.valueHeads) * s.valueDim * s.keyDim);
    for (uint32_t h = 0; h < s.valueHeads; ++h) {
      aLog[h] = float(h % 4) * 0.5f - 0.5f;
      dtBias[h] = h % 2 ? -9.0f : 0.5f; // a small exponential, an ordinary one
    }
    for (float &v : state)
      v = float(int(random() % 2001) - 1000) / 4000;
    std::vector<Expected> expected(size_t(rows) * valueWidth);
    std::vector<Bounded> after(state.size());
    for (uint32_t h = 0; h < s.valueHeads; ++h) {
      const uint32_t keyHead = h / (s.valueHeads / s.keyHeads);
      Bounded *S = &after[size_t(h) * s.valueDim * s.keyDim];
      for (size_t i = 0; i < size_t(s.valueDim) * s.keyDim; ++i)
        S[i] = {state[size_t(h) * s.valueDim * s.keyDim + i], 0};
      for (uint32_t r = 0; r < rows; ++r) {
        const auto unit = [&](uint32_t from) {
          std::vector<Bounded> v(s.keyDim);
          double sum = 0;
          for (uint32_t d = 0; d < s.keyDim; ++d)
            sum += double(bf16(qkv[r * width + from + d])) * bf16(qkv[r * width + from + d]);
          for (uint32_t d = 0; d < s.keyDim; ++d) {
            const double y = bf16(qkv[r * width + from + d]) / std::sqrt(sum + 1e-6);
            v[d] = {y, std::fabs(y) * 0x1p-20}; // sum of squares in lanes, rsqrt 2^-22, product
          }
          return v;
        };
        const std::vector<Bounded> q = unit(keyHead * s.keyDim), k = unit(keyWidth + keyHead * s.keyDim);
        const double x = double(bf16(gates[r * 2 * s.valueHeads + h])) + double(dtBias[h]);
        const double rate = std::exp(double(aLog[h])), softplus = x > 20 ? x : std::log1p(std::exp(x));
        // g: exp 2^-21 relative; softplus 2^-21 relative in its series branch (first omitted term e^2/3 < 2^-17 of it), else
        // 2^-21 absolute; the exponential of g turns its absolute error into a relative one.
        const double gError = rate * (softplus * 0x1p-16 + 0x1p-21) + rate * softplus * 0x1p-20;
        const Bounded decay = {std::exp(-rate * softplus), std::exp(-rate * softplus) * (gError + 0x1p-20)};
        const double sigmoid = 1 / (1 + std::exp(-double(bf16(gates[(r * 2 + 1) * s.valueHeads + h]))));
        const Bounded beta = {sigmoid, sigmoid * 0x1p-19};
        for (uint32_t i = 0; i < s.valueDim; ++i) {
          Bounded seen, y;
          for (uint32_t d = 0; d < s.keyDim; ++d) {
            S[i * s.keyDim + d] = S[i * s.keyDim + d] * decay;
            seen = seen + S[i * s.keyDim + d] * k[d];
          }
          const Bounded v = {bf16(qkv[r * width + 2 * keyWidth + h * s.valueDim + i]), 0};
          const Bounded change = beta * (v + Bounded{-seen.value, seen.error});
          for (uint32_t d = 0; d < s.keyDim; ++d) {
            S[i * s.keyDim + d] = S[i * s.keyDim + d] + change * k[d];
            y = y + S[i * s.keyDim + d] * q[d];
          }
          y = y * Bounded{1 / std::sqrt(double(s.keyDim)), 0x1p-26};
          expected[(size_t(r) * s.valueHeads + h) * s.valueDim + i] = {y.value, y.error};
        }
      }
    }
    std::vector<Expected> expectedState;
    for (const Bounded &b : after)
      expectedState.push_back({b.value, b.error});
    if (s.peek)
      {
      expectedState.clear();
      for (float v : state)
        expectedState.push_back({v, 0});
    }
    Array in(qkv, "qkv"), ab(gates, "ab"), logs(aLog, "aLog"), biases(dtBias, "dtBias"), out(expected.size() * 2, true, "out");
    for (const emulator::Options &mode : threadOrders()) {
      out.poison();
      Array matrix(state, "state", !s.peek);
      Arguments args;
      args.pointer(in).pointer(in).pointer(in).pointer(ab).pointer(ab).pointer(logs).pointer(biases).pointer(matrix).pointer(out);
      args.u32(rows).u32(width).u32(width).u32(width).u32(2 * s.valueHeads);
      *static_cast<uint64_t *>(args.pointers()[1]) += keyWidth * 2;
      *static_cast<uint64_t *>(args.pointers()[2]) += 2 * keyWidth * 2;
      *static_cast<uint64_t *>(args.pointers()[4]) += s.valueHeads * 2;
      ASSERT_EQ(launch(text, {blocks, s.valueHeads}, args, mode), "");
      ASSERT_EQ(compareBf16(expected, out.as<uint16_t>()), "") << rows;
      ASSERT_EQ(compareFloat(expectedState, matrix.as<float>()), "") << rows;
    }
  }
}

class GatedDelta : public testing::TestWithParam<ni::GatedDeltaSpec> {};
TEST_P(GatedDelta, AgreesWithDouble) { checkDelta(GetParam(), gatedDeltaKernel(GetParam(), 0), ni::deltaBlocksX(GetParam())); }

class GatedDeltaRows : public testing::TestWithParam<ni::GatedDeltaSpec> {};
TEST_P(GatedDeltaRows, AgreesWithDouble) {
  checkDelta(GetParam(), gatedDeltaRowsKernel(GetParam(), 0), ni::deltaRowsBlocksX(GetParam()));
}

std::string deltaName(const testing::TestParamInfo<ni::GatedDeltaSpec> &info) { return gatedDeltaKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, GatedDelta, testing::ValuesIn(keys::gatedDelta()), deltaName);

std::string deltaRowsName(const testing::TestParamInfo<ni::GatedDeltaSpec> &info) { return gatedDeltaRowsKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, GatedDeltaRows, testing::ValuesIn(keys::gatedDeltaRows()), deltaRowsName);

} // namespace
} // namespace ninfer::cuda
