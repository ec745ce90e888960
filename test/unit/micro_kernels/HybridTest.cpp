// Kernels of gated DeltaNet and gated attention against loops in double precision written from the formulas: the
// convolution with its tail, the delta rule with its state, the gated norm and the sigmoid gate.
#include "test/unit/micro_kernels/Support.h"

#include <algorithm>

namespace ninfer::test {
namespace {

double bf16Value(uint16_t w) { return std::bit_cast<float>(uint32_t(w) << 16); }
uint16_t bf16Word(float f) { return uint16_t(std::bit_cast<uint32_t>(f) >> 16); }
double sigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<float> randomRow(Random &random, int64_t n) {
  std::vector<float> row(static_cast<size_t>(n));
  for (float &v : row)
    v = random.value();
  return row;
}

const float kGates[] = {0.0f, -0.0f, 87.0f, -87.0f, 500.0f, -500.0f, 1e-20f, -1e30f, 20.0f, -20.0f};

TEST(HybridTest, SigmoidMul) {
  NINFER_NEEDS_LEVEL();
  Random random{11};
  for (const int64_t n : {1, 7, 8, 9, 15, 16, 17, 64, 100, 1025}) {
    std::vector<float> values = randomRow(random, n), gates = randomRow(random, n);
    for (size_t i = 0; i < std::min(std::size(kGates), gates.size()); ++i)
      gates[i] = kGates[i];
    Guarded x = guardedFloats(values), g = guardedFloats(gates);
    std::vector<float> out = untouched(size_t(n + 1));
    ni_sigmoid_mul(x.as<float>(), g.as<float>(), n, out.data());
    for (size_t i = 0; i < size_t(n); ++i) {
      const double exact = values[i] * sigmoidOf(gates[i]);
      // Below -87 the factor is at most 1e-37: nothing but its smallness is asked for.
      ASSERT_NEAR(out[i], exact, gates[i] < -87 ? 1e-35 : std::abs(exact) * 10 * kUnit + 1e-44) << gates[i];
    }
    ASSERT_TRUE(isUntouched(out.back()));
    ni_sigmoid_mul(x.as<float>(), g.as<float>(), n, g.as<float>());
    ASSERT_EQ(std::memcmp(g.as<float>(), out.data(), size_t(n * 4)), 0) << "in place";
  }
}

TEST(HybridTest, GatedHeadNorm) {
  NINFER_NEEDS_LEVEL();
  Random random{12};
  for (const int64_t dim : {1, 5, 8, 16, 17, 31, 40, 64, 96, 128}) {
    const int64_t heads = 3;
    const std::vector<float> values = randomRow(random, heads * dim);
    std::vector<float> gates = randomRow(random, heads * dim);
    for (size_t i = 0; i < std::min(std::size(kGates), gates.size()); ++i)
      gates[i] = kGates[i];
    Guarded x = guardedFloats(values), gate = guardedFloats(gates), w(size_t(dim * 2));
    for (int64_t i = 0; i < dim; ++i)
      w.as<uint16_t>()[i] = bf16Word(random.value());
    std::vector<float> y = untouched(values.size() + 1);
    ni_gated_head_norm(x.as<float>(), w.as<uint16_t>(), gate.as<float>(), 1e-6f, heads, dim, y.data());
    for (int64_t h = 0; h < heads; ++h) {
      double squares = 0;
      for (int64_t i = 0; i < dim; ++i)
        squares += double(values[size_t(h * dim + i)]) * values[size_t(h * dim + i)];
      const double norm = 1 / std::sqrt(squares / double(dim) + double(1e-6f));
      for (int64_t i = 0; i < dim; ++i) {
        const size_t at = size_t(h * dim + i);
        const double plain = values[at] * norm * bf16Value(w.as<uint16_t>()[i]), g = gates[at];
        const double exact = plain * g * sigmoidOf(g);
        const double bound = g < -87 ? std::abs(plain) * 1e-7 : std::abs(exact) * (double(dim) / 16 + 28) * kUnit;
        ASSERT_NEAR(y[at], exact, bound + 1e-44) << "dim " << dim << " gate " << g;
      }
    }
    ASSERT_TRUE(isUntouched(y.back()));
    ni_gated_head_norm(x.as<float>(), w.as<uint16_t>(), gate.as<float>(), 1e-6f, heads, dim, gate.as<float>());
    ASSERT_EQ(std::memcmp(gate.as<float>(), y.data(), values.size() * 4), 0) << "over the gate";
    ni_gated_head_norm(x.as<float>(), w.as<uint16_t>(), guardedFloats(gates).as<float>(), 1e-6f, heads, dim,
                       x.as<float>());
    ASSERT_EQ(std::memcmp(x.as<float>(), y.data(), values.size() * 4), 0) << "over x";
  }
}

// --- causal convolution

/// `channels` channels that lie at `first` of a layer of `width`; the calls take cuts[0], cuts[1], ... rows.
void checkConv(int64_t taps, int64_t channels, int64_t first, int64_t width, const std::vector<int64_t> &cuts,
               Random &random) {
  int64_t rows = 0;
  for (int64_t cut : cuts)
    rows += cut;
  const int64_t xStride = channels + 3, outStride = channels + 2;
  // All buffers end where the last row of the channels ends.
  const std::vector<float> values = randomRow(random, (rows - 1) * xStride + channels);
  const std::vector<float> before = randomRow(random, (taps - 1) * width);
  Guarded x = guardedFloats(values), w(size_t(((taps - 1) * width + first + channels) * 2));
  for (size_t i = 0; i < w.bytes() / 2; ++i)
    w.as<uint16_t>()[i] = bf16Word(random.value() / 2);
  Guarded tail(taps > 1 ? size_t(((taps - 2) * width + first + channels) * 4) : 4);
  std::memcpy(tail.as<float>(), before.data(), taps > 1 ? tail.bytes() : 0);
  std::vector<float> out = untouched(size_t(rows * outStride));
  int64_t at = 0;
  for (int64_t cut : cuts) {
    const auto call = [&](float *to, int64_t peek) {
      ni_causal_conv(x.as<float>() + at * xStride, xStride, cut, w.as<uint16_t>() + first, taps, channels, width,
                     tail.as<float>() + (taps > 1 ? first : 0), to, outStride, peek);
    };
    // A peek gives the same results and leaves the tail.
    std::vector<float> kept(tail.as<float>(), tail.as<float>() + tail.bytes() / 4), seen(out);
    call(seen.data() + at * outStride, 1);
    ASSERT_EQ(std::memcmp(tail.as<float>(), kept.data(), tail.bytes()), 0);
    call(out.data() + at * outStride, 0);
    ASSERT_EQ(std::memcmp(seen.data(), out.data(), out.size() * 4), 0);
    at += cut;
  }
  const auto input = [&](int64_t t, int64_t c) {
    return t >= 0 ? values[size_t(t * xStride + c)] : before[size_t((t + taps - 1) * width + first + c)];
  };
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < taps; ++j) {
        const double product = bf16Value(w.as<uint16_t>()[j * width + first + c]) * input(t - (taps - 1) + j, c);
        sum += product, size += std::abs(product);
      }
      const double exact = sum * sigmoidOf(sum);
      const double bound = (1.1 * double(taps + 1) * size + 12 * std::abs(exact)) * kUnit + 1e-35;
      ASSERT_NEAR(out[size_t(t * outStride + c)], exact, bound)
          << "taps " << taps << " channels " << channels << " row " << t << " channel " << c;
    }
    for (int64_t c = channels; c < outStride; ++c)
      ASSERT_TRUE(isUntouched(out[size_t(t * outStride + c)]));
  }
  for (int64_t j = 0; j < taps - 1; ++j)
    for (int64_t c = 0; c < (j == taps - 2 ? first + channels : width); ++c) {
      const bool mine = c >= first && c < first + channels;
      ASSERT_EQ(tail.as<float>()[j * width + c],
                mine ? input(rows - (taps - 1) + j, c - first) : before[size_t(j * width + c)])
          << "taps " << taps << " tail row " << j << " channel " << c;
    }
}

TEST(HybridTest, CausalConv) {
  NINFER_NEEDS_LEVEL();
  Random random{13};
  for (int64_t taps = 1; taps <= 8; ++taps) {
    for (const int64_t channels : {1, 3, 8, 15, 16, 17, 31, 32, 33, 64, 65, 100})
      for (const int64_t rows : {1, 2, 3, 5, 9, 70})
        checkConv(taps, channels, random.below(40), channels + 40 + random.below(20), {rows}, random);
    if (HasFatalFailure())
      return;
  }
}

TEST(HybridTest, CausalConvInAnySplit) {
  NINFER_NEEDS_LEVEL();
  Random random{14};
  for (int64_t taps = 1; taps <= 8; ++taps)
    for (int64_t rows = 1; rows <= 20; ++rows) {
      for (int64_t first = 1; first < rows; ++first)
        checkConv(taps, 19, 5, 30, {first, rows - first}, random);
      checkConv(taps, 19, 5, 30, std::vector<int64_t>(size_t(rows), 1), random);
      if (HasFatalFailure())
        return;
    }
}

// --- gated delta rule

/// Inputs of one value head, and the exact recurrence with a bound of what float32 may make of it.
struct Delta {
  int64_t rows, dk, dv, qkStride, vStride, abStride;
  Guarded q, k, v, a, b;
  float aLog, dtBias;
  std::vector<float> before; ///< state [dv][dk]
  std::vector<double> out, outBound, state, stateBound;

  static Guarded strided(Random &random, int64_t rows, int64_t stride, int64_t n) {
    return guardedFloats(randomRow(random, (rows - 1) * stride + n));
  }
  Delta(int64_t rowCount, int64_t keyDim, int64_t valueRows, Random &random, float decayScale = 1)
      : rows(rowCount), dk(keyDim), dv(valueRows), qkStride(dk + 3), vStride(dv + 5), abStride(2),
        q(strided(random, rows, qkStride, dk)), k(strided(random, rows, qkStride, dk)),
        v(strided(random, rows, vStride, dv)), a(strided(random, rows, abStride, 1)),
        b(strided(random, rows, abStride, 1)), aLog(std::log(float(1 + 15 * random.uniform())) * decayScale),
        dtBias(float(random.uniform() * 8 - 7) * decayScale), before(randomRow(random, dk * dv)) {}

  void evaluate() {
    // One rounding is kUnit; the constants count those of dots (dk / 8 in a chain at most), norms, exponentials.
    const double n = double(dk) / 8 + 30;
    state.assign(before.begin(), before.end());
    stateBound.assign(size_t(dv), 0);
    out.assign(size_t(rows * dv), 0), outBound = out;
    std::vector<double> kn(static_cast<size_t>(dk)), qn(static_cast<size_t>(dk));
    for (int64_t t = 0; t < rows; ++t) {
      const float *qt = q.as<float>() + t * qkStride, *kt = k.as<float>() + t * qkStride;
      double qq = 0, kk = 0;
      for (int64_t i = 0; i < dk; ++i)
        qq += double(qt[i]) * qt[i], kk += double(kt[i]) * kt[i];
      for (int64_t i = 0; i < dk; ++i) {
        qn[size_t(i)] = qt[i] / std::sqrt(qq + 1e-6) / std::sqrt(double(dk));
        kn[size_t(i)] = kt[i] / std::sqrt(kk + 1e-6);
      }
      const double x = double(a.as<float>()[t * abStride]) + dtBias;
      const double g = -std::exp(double(aLog)) * (x > 20 ? x : std::log1p(std::exp(x)));
      const double decay = std::exp(g), beta = sigmoidOf(b.as<float>()[t * abStride]);
      for (int64_t r = 0; r < dv; ++r) {
        double *s = state.data() + r * dk, kept = 0, seen = 0, norm = 0;
        for (int64_t i = 0; i < dk; ++i) {
          s[i] *= decay;
          kept += s[i] * s[i], seen += s[i] * kn[size_t(i)];
        }
        const double value = v.as<float>()[t * vStride + r], e = value - seen;
        double mixed = 0;
        for (int64_t i = 0; i < dk; ++i) {
          s[i] += beta * e * kn[size_t(i)];
          norm += s[i] * s[i], mixed += s[i] * qn[size_t(i)];
        }
        // I - beta k k^T does not lengthen an error; a step adds roundings of what it adds up. The decay's own
        // error is that of g, relative to g, with that of a + dt_bias inside an exponential.
        const double sizes = std::sqrt(kept) + beta * (std::abs(value) + std::abs(e));
        const double roundings = n + (20 + std::abs(x)) * std::abs(g);
        stateBound[size_t(r)] = stateBound[size_t(r)] * decay + kUnit * roundings * sizes + 1e-30;
        out[size_t(t * dv + r)] = mixed;
        outBound[size_t(t * dv + r)] =
            (stateBound[size_t(r)] + kUnit * n * (std::sqrt(norm) + sizes)) / std::sqrt(double(dk)) + 1e-30;
      }
    }
  }

  /// State after the calls of cuts[0], cuts[1], ... rows, rows of the state in calls of `block`; checks both.
  std::vector<float> check(const std::vector<int64_t> &cuts, int64_t block) {
    Guarded s = guardedFloats(before);
    const int64_t outStride = dv + 4;
    std::vector<float> result = untouched(size_t(rows * outStride));
    int64_t at = 0;
    for (int64_t cut : cuts) {
      for (int64_t r = 0; r < dv; r += block) {
        const auto call = [&](std::vector<float> &to, bool peek) {
          Working scratch(static_cast<size_t>(microGatedDeltaScratchBytes(dk, peek)));
          auto *edge = static_cast<float *>(scratch.data()) + microGatedDeltaScratchBytes(dk, peek) / 4;
          const float sentinel = *edge;
          ni_gated_delta(q.as<float>() + at * qkStride, k.as<float>() + at * qkStride, qkStride,
                         v.as<float>() + at * vStride + r, vStride, a.as<float>() + at * abStride,
                         b.as<float>() + at * abStride, abStride, &aLog, &dtBias, s.as<float>() + r * dk, cut, dk,
                         std::min(block, dv - r), to.data() + at * outStride + r, outStride, scratch.data(), peek);
          EXPECT_EQ(std::memcmp(edge, &sentinel, 4), 0) << "scratch of dk " << dk;
        };
        // A peek gives the same results and leaves the state.
        std::vector<float> seen;
        if (cut <= kMicroDeltaTokens) {
          const std::vector<float> kept(s.as<float>(), s.as<float>() + dk * dv);
          call(seen = result, true);
          EXPECT_EQ(std::memcmp(s.as<float>(), kept.data(), kept.size() * 4), 0) << "dk " << dk << " rows " << cut;
        }
        call(result, false);
        if (!seen.empty())
          EXPECT_EQ(std::memcmp(seen.data(), result.data(), result.size() * 4), 0) << "dk " << dk << " rows " << cut;
      }
      at += cut;
    }
    const auto where = [&] {
      return "dk " + std::to_string(dk) + " dv " + std::to_string(dv) + " rows " + std::to_string(rows) + " calls " +
             std::to_string(cuts.size());
    };
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t r = 0; r < outStride; ++r) {
        const float got = result[size_t(t * outStride + r)];
        if (r >= dv) {
          EXPECT_TRUE(isUntouched(got)) << where();
          continue;
        }
        const double error = std::abs(got - out[size_t(t * dv + r)]), bound = outBound[size_t(t * dv + r)];
        if (!(error <= bound)) {
          ADD_FAILURE() << where() << " row " << t << " element " << r << ": " << got << ", exact "
                        << out[size_t(t * dv + r)] << ", bound " << bound;
          return {};
        }
      }
    for (int64_t r = 0; r < dv; ++r) {
      double squares = 0;
      for (int64_t i = 0; i < dk; ++i)
        squares += std::pow(s.as<float>()[r * dk + i] - state[size_t(r * dk + i)], 2);
      if (!(std::sqrt(squares) <= stateBound[size_t(r)])) {
        ADD_FAILURE() << where() << " state row " << r << " is off by " << std::sqrt(squares) << ", bound "
                      << stateBound[size_t(r)];
        return {};
      }
    }
    return std::vector<float>(s.as<float>(), s.as<float>() + dk * dv);
  }
};

TEST(HybridTest, GatedDeltaSizes) {
  NINFER_NEEDS_LEVEL();
  Random random{15};
  std::vector<int64_t> keyDims{64, 96, 128, 100};
  for (int64_t dk = 1; dk <= 40; ++dk)
    keyDims.push_back(dk);
  for (int64_t dk : keyDims)
    for (int64_t dv = 1; dv <= 5; ++dv)
      for (const int64_t rows : {1, 2, 3, 15, 16, 17, 33}) {
        Delta delta(rows, dk, dv, random);
        delta.evaluate();
        delta.check({rows}, dv);
        if (HasFailure())
          return;
      }
  for (const int64_t dk : {16, 20, 128})
    for (int64_t rows = 1; rows <= 70; ++rows) {
      Delta delta(rows, dk, 5, random);
      delta.evaluate();
      delta.check({rows}, 5);
      if (HasFailure())
        return;
    }
}

TEST(HybridTest, GatedDeltaInAnySplit) {
  NINFER_NEEDS_LEVEL();
  Random random{16};
  for (const int64_t dk : {13, 128})
    for (int64_t rows = 2; rows <= 20; ++rows) {
      Delta delta(rows, dk, 4, random);
      delta.evaluate();
      for (int64_t first = 1; first < rows; ++first)
        delta.check({first, rows - first}, 4);
      delta.check(std::vector<int64_t>(size_t(rows), 1), 4);
      if (HasFailure())
        return;
    }
}

TEST(HybridTest, GatedDeltaRowsOfTheStateAreIndependent) {
  NINFER_NEEDS_LEVEL();
  Random random{17};
  for (const int64_t dk : {24, 128}) {
    Delta delta(37, dk, 35, random);
    delta.evaluate();
    const std::vector<float> whole = delta.check({37}, 35);
    for (int64_t block : {1, 2, 3, 4, 5, 16, 17, 34})
      ASSERT_EQ(delta.check({37}, block), whole) << block;
  }
}

// Decays from 1 down to 0, and keys of no length.
TEST(HybridTest, GatedDeltaExtremes) {
  NINFER_NEEDS_LEVEL();
  Random random{18};
  for (const float scale : {0.0f, 0.5f, 3.0f, 10.0f})
    for (const float shift : {-90.0f, -30.0f, -5.0f, 0.0f, 5.0f, 19.9f, 20.1f, 100.0f})
      for (const float gate : {-100.0f, -10.0f, 0.0f, 10.0f, 100.0f}) {
        Delta delta(40, 32, 5, random, scale);
        for (int64_t t = 0; t < delta.rows; ++t) {
          delta.a.as<float>()[t * delta.abStride] += shift;
          delta.b.as<float>()[t * delta.abStride] += gate;
          if (t % 7 == 3)
            for (int64_t i = 0; i < delta.dk; ++i)
              delta.k.as<float>()[t * delta.qkStride + i] *= t % 2 ? 0.0f : 1e-4f;
        }
        delta.evaluate();
        delta.check({40}, 5);
        delta.check({7, 16, 17}, 5);
        if (HasFailure())
          FAIL() << "scale " << scale << " shift " << shift << " gate " << gate;
      }
}

TEST(HybridTest, GatedDeltaLongRun) {
  NINFER_NEEDS_LEVEL();
  Random random{19};
  for (const float shift : {-9.0f, -4.0f, 0.0f}) { // decays of about 1 - 1e-4 .. 1e-3, 0.99 .. 0.8, 0.5 and less
    Delta delta(2000, 128, 8, random);
    delta.dtBias = shift;
    delta.evaluate();
    for (const auto &cuts : {std::vector<int64_t>{2000}, std::vector<int64_t>(2000, 1)}) {
      const std::vector<float> state = delta.check(cuts, 8);
      ASSERT_FALSE(state.empty());
      // Roundings are not all of one sign: far below the bound of the worst case.
      double error = 0, size = 0;
      for (size_t i = 0; i < state.size(); ++i)
        error += std::pow(state[i] - delta.state[i], 2), size += std::pow(delta.state[i], 2);
      EXPECT_LT(std::sqrt(error / size), 16 * kUnit) << "dt_bias " << shift << ", " << cuts.size() << " calls";
    }
  }
}

} // namespace
} // namespace ninfer::test
