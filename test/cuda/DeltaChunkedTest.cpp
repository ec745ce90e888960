// The delta rule in chunks of rows against the recurrence in double: outputs of every row, states handed on after every length.
//
// Bound. What the kernel computes is the recurrence with an error e_r added to what row r changes (u_r): the system it solves
// has the same solution as the recurrence, and an error of its right hand side or its matrix enters row r as e_r does. From
// there on the recurrence is a contraction of a row of the state (decay at most 1, I - beta k k^T with |k| = 1 and beta in
// 0..1), so the 2-norm of a row of the state is off by at most E_r = d_r E_(r-1) + |e_r| + errors of the decay. With S0 the
// state before the chunk and D_rj the decay between rows:
//   |e_r| <= beta_r (kState D_r |S0| + kScalar |v_r|) + sum over j < r of beta_r (kTriangle D_rj + 2^-22) |u_j|
//   output: (D_r kState |S0| + sum over j <= r of (kWeight D_rj + 2^-22) |u_j| + E_r) / sqrt(keyDim)
//   state handed on: E + sum over j of kState D_j |u_j|, for every chunk
// where 2^-22 bounds what the argument of exp2 (up to 127, two roundings) costs absolutely.
#include "test/cuda/Keys.h"
#include "test/cuda/Support.h"

#include <gtest/gtest.h>

namespace ninfer::cuda {
namespace {

// Two bfloat16 hold 16 bits of a factor. Sums of an mma: keyDim / 16 steps of two parts, a rounding each; norms, exponentials,
// beta: 2^-20 each (a sum of squares of keyDim / 4 in a row, rsqrt 2^-22), three of them.
constexpr double kSplit = 0x1p-16;
double scalars(const ni::DeltaChunkedSpec &s) { return 4 * 0x1p-20 + s.keyDim / 4 * kFloatUnit; }
double sums(const ni::DeltaChunkedSpec &s) { return (s.keyDim / 8 + 4) * kFloatUnit; }

/// Inputs of a call, and what the recurrence makes of them.
struct Case {
  ni::DeltaChunkedSpec s;
  uint32_t rows = 0, width = 0;
  std::vector<uint16_t> qkv, gates;
  std::vector<float> aLog, dtBias, state;
  std::vector<Expected> out;                 ///< [rows][valueHeads][valueDim]
  std::vector<std::vector<double>> after;    ///< states after each row
  std::vector<std::vector<double>> distance; ///< bound on the 2-norm of the error of each of their rows
};

/// Forgets little, so that errors of old rows would be seen; forgets fast; little but for rows that forget everything, between
/// which sums of logarithms are differences of large numbers.
enum class Memory { Slow, Fast, Bursts };

Case make(const ni::DeltaChunkedSpec &s, uint32_t rows, Memory memory) {
  Case c;
  c.s = s;
  c.rows = rows;
  c.width = 2 * s.keyHeads * s.keyDim + s.valueHeads * s.valueDim;
  std::mt19937_64 random(rows + s.keyDim);
  c.qkv = randomBf16(size_t(rows) * c.width, 1.0, random);
  c.gates = randomBf16(size_t(rows) * s.valueHeads * 2, 2.0, random);
  for (uint32_t h = 0; h < s.valueHeads; ++h) {
    c.aLog.push_back(memory == Memory::Slow ? -3.0f : memory == Memory::Bursts ? 3.0f : float(h % 4) * 0.5f - 0.5f);
    c.dtBias.push_back(memory == Memory::Slow ? -4.0f : memory == Memory::Bursts ? -14.0f : 0.5f);
  }
  if (memory == Memory::Bursts)
    for (uint32_t r = 0; r < rows; r += 7)
      for (uint32_t h = 0; h < s.valueHeads; ++h)
        c.gates[size_t(r) * 2 * s.valueHeads + h] = toBf16(90.0);
  c.state.resize(size_t(s.valueHeads) * s.valueDim * s.keyDim);
  for (float &v : c.state)
    v = float(int(random() % 2001) - 1000) / 4000;
  return c;
}

double norm(const double *v, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; ++i)
    sum += v[i] * v[i];
  return std::sqrt(sum);
}

void oracle(Case &c) {
  const ni::DeltaChunkedSpec &s = c.s;
  const uint32_t dim = s.keyDim, chunk = ni::deltaChunk(s), keyWidth = s.keyHeads * dim;
  const double kScalar = scalars(s), kState = kSplit + sums(s) + kScalar, kTriangle = sums(s) + 2 * kScalar,
               kWeight = 3 * kSplit + sums(s) + 2 * kScalar;
  c.out.resize(size_t(c.rows) * s.valueHeads * s.valueDim);
  c.after.assign(c.rows, std::vector<double>(c.state.size()));
  c.distance.assign(c.rows, std::vector<double>(size_t(s.valueHeads) * s.valueDim));
  for (uint32_t h = 0; h < s.valueHeads; ++h) {
    const uint32_t keyHead = h / (s.valueHeads / s.keyHeads);
    std::vector<double> q(size_t(c.rows) * dim), k = q, decay(c.rows), decayError = decay, beta = decay;
    for (uint32_t r = 0; r < c.rows; ++r) {
      const auto unit = [&](uint32_t from, double *to) {
        for (uint32_t d = 0; d < dim; ++d)
          to[d] = bf16(c.qkv[size_t(r) * c.width + from + d]);
        const double size = std::sqrt(norm(to, dim) * norm(to, dim) + 1e-6);
        for (uint32_t d = 0; d < dim; ++d)
          to[d] /= size;
      };
      unit(keyHead * dim, &q[size_t(r) * dim]);
      unit(keyWidth + keyHead * dim, &k[size_t(r) * dim]);
      const double x = double(bf16(c.gates[size_t(r) * 2 * s.valueHeads + h])) + double(c.dtBias[h]);
      const double rate = std::exp(double(c.aLog[h])), softplus = x > 20 ? x : std::log1p(std::exp(x));
      decay[r] = std::exp(-rate * softplus); // its error: DeltaTest.cpp
      const double logarithm = std::exp(x) < 0x1p-9 ? 0 : 0x1p-21; // the series of a small exponential has none
      decayError[r] = decay[r] * (rate * (softplus * 0x1p-16 + logarithm) + rate * softplus * 0x1p-20 + 0x1p-20);
      beta[r] = 1 / (1 + std::exp(-double(bf16(c.gates[size_t(r) * 2 * s.valueHeads + s.valueHeads + h]))));
    }
    for (uint32_t i = 0; i < s.valueDim; ++i) {
      const size_t at = (size_t(h) * s.valueDim + i) * dim;
      std::vector<double> row(dim), u(c.rows);
      for (uint32_t d = 0; d < dim; ++d)
        row[d] = c.state[at + d];
      double error = 0, before = 0; // E; |S0|
      for (uint32_t r = 0; r < c.rows; ++r) {
        const uint32_t first = r / chunk * chunk;
        if (r == first)
          before = norm(row.data(), dim);
        error = decay[r] * error + decayError[r] * norm(row.data(), dim);
        double seen = 0, y = 0;
        for (uint32_t d = 0; d < dim; ++d) {
          row[d] *= decay[r];
          seen += row[d] * k[size_t(r) * dim + d];
        }
        const double v = bf16(c.qkv[size_t(r) * c.width + 2 * keyWidth + h * s.valueDim + i]);
        u[r] = beta[r] * (v - seen);
        for (uint32_t d = 0; d < dim; ++d) {
          row[d] += u[r] * k[size_t(r) * dim + d];
          y += row[d] * q[size_t(r) * dim + d];
        }
        double fromRow = 1, local = 0, triangle = 0, handed = 0; // D_rj, from the row itself back to the start of the chunk
        for (uint32_t j = r;; --j) {
          const double size = std::fabs(u[j]);
          local += (kWeight * fromRow + 0x1p-22) * size;
          handed += (kState * fromRow + 0x1p-22) * size;
          if (j < r)
            triangle += (kTriangle * fromRow + 0x1p-22) * size;
          fromRow *= decay[j];
          if (j == first)
            break;
        }
        error += beta[r] * (kState * fromRow * before + kScalar * std::fabs(v) + triangle);
        local += kState * fromRow * before;
        c.out[(size_t(r) * s.valueHeads + h) * s.valueDim + i] = {y / std::sqrt(double(dim)), (local + error) / std::sqrt(double(dim))};
        c.distance[r][h * s.valueDim + i] = error + handed + norm(row.data(), dim) * chunk / 8 * kFloatUnit;
        if (r + 1 == first + chunk)
          error = c.distance[r][h * s.valueDim + i];
        std::copy(row.begin(), row.end(), c.after[r].begin() + at);
      }
    }
  }
}

/// The first `rows` of a case. Empty, or what is wrong.
std::string check(const Case &c, uint32_t rows, const emulator::Options &mode) {
  const ni::DeltaChunkedSpec &s = c.s;
  const uint32_t keyWidth = s.keyHeads * s.keyDim;
  const KernelText text = deltaChunkedKernel(s, 0);
  const std::vector<uint16_t> qkv(c.qkv.begin(), c.qkv.begin() + size_t(rows) * c.width); // not a word more than the call has
  const std::vector<uint16_t> gates(c.gates.begin(), c.gates.begin() + size_t(rows) * 2 * s.valueHeads);
  const std::vector<Expected> expected(c.out.begin(), c.out.begin() + size_t(rows) * s.valueHeads * s.valueDim);
  Array in(qkv, "qkv"), ab(gates, "ab"), logs(c.aLog, "aLog"), biases(c.dtBias, "dtBias"), matrix(c.state, "state", true);
  Array out(expected.size() * 2, true, "out");
  Arguments args;
  args.pointer(in).pointer(in).pointer(in).pointer(ab).pointer(ab).pointer(logs).pointer(biases).pointer(matrix).pointer(out);
  args.u32(rows).u32(c.width).u32(c.width).u32(c.width).u32(2 * s.valueHeads);
  *static_cast<uint64_t *>(args.pointers()[1]) += keyWidth * 2;
  *static_cast<uint64_t *>(args.pointers()[2]) += 2 * keyWidth * 2;
  *static_cast<uint64_t *>(args.pointers()[4]) += s.valueHeads * 2;
  if (std::string message = launch(text, {ni::deltaChunkedBlocksX(s), s.valueHeads}, args, mode); !message.empty())
    return message;
  if (std::string message = compareBf16(expected, out.as<uint16_t>()); !message.empty())
    return message;
  for (size_t v = 0; v < size_t(s.valueHeads) * s.valueDim; ++v) {
    std::vector<double> difference(s.keyDim);
    for (uint32_t d = 0; d < s.keyDim; ++d)
      difference[d] = matrix.as<float>()[v * s.keyDim + d] - c.after[rows - 1][v * s.keyDim + d];
    const double off = norm(difference.data(), s.keyDim), bound = c.distance[rows - 1][v];
    if (!(off <= bound))
      return "state row " + std::to_string(v) + ": off by " + std::to_string(off) + ", bound " + std::to_string(bound);
  }
  return "";
}

class DeltaChunked : public testing::TestWithParam<ni::DeltaChunkedSpec> {};

TEST_P(DeltaChunked, AgreesWithTheRecurrence) {
  const uint32_t chunk = ni::deltaChunk(GetParam());
  for (Memory memory : {Memory::Slow, Memory::Fast, Memory::Bursts}) {
    Case c = make(GetParam(), 2 * chunk + 2, memory);
    oracle(c);
    for (uint32_t rows : {1u, chunk - 1, chunk, chunk + 1, 2 * chunk + 2})
      ASSERT_EQ(check(c, rows, allModes()[rows % 6]), "") << rows << " rows, memory " << int(memory);
  }
}

std::string name(const testing::TestParamInfo<ni::DeltaChunkedSpec> &info) { return deltaChunkedKernel(info.param, 0).name; }
INSTANTIATE_TEST_SUITE_P(Keys, DeltaChunked, testing::ValuesIn(keys::deltaChunked()), name);

// Case 11: the state a short last chunk hands on.
TEST(DeltaChunked, EveryLengthHandsOnTheState) {
  const ni::DeltaChunkedSpec s = keys::deltaChunked()[2];
  Case c = make(s, 200, Memory::Slow);
  oracle(c);
  for (uint32_t rows = 1; rows <= 200; ++rows)
    ASSERT_EQ(check(c, rows, {}), "") << rows << " rows";
}

TEST(DeltaChunked, EveryOrderOfThreads) {
  Case c = make(keys::deltaChunked()[1], 40, Memory::Slow);
  oracle(c);
  for (const emulator::Options &mode : allModes())
    ASSERT_EQ(check(c, 40, mode), "") << describe(mode);
}

} // namespace
} // namespace ninfer::cuda
