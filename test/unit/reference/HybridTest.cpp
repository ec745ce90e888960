// Built-ins of gated DeltaNet and gated attention: numbers written by hand, vectors evaluated in float64 by
// test/oracle/hybrid_vectors.py, every way to split a sequence into calls.
#include "test/unit/reference/Helpers.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

using namespace ninfer;
using namespace ninfer::test;

namespace {

using Floats = std::vector<float>;
using Words = std::vector<uint16_t>;

nlohmann::json vectors(const char *kind) {
  std::ifstream in(NINFER_SOURCE_DIR "/test/vectors/hybrid.json");
  return nlohmann::json::parse(in).at(kind);
}

/// Equal up to the rounding to float32 of values of the size `size`.
void expectNear(const Floats &got, const std::vector<double> &exact, double roundings, const char *what) {
  ASSERT_EQ(got.size(), exact.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], exact[i], roundings * 0x1p-24 * std::max(1.0, std::abs(exact[i]))) << what << ' ' << i;
}

std::string refusal(const std::string &symbol, const reference::AttributeMap &attributes) {
  auto builtin = reference::makeBuiltin(symbol, attributes, "the_kernel");
  EXPECT_FALSE(builtin.ok());
  return builtin.ok() ? "" : builtin.error().message;
}

/// Every ordered way to cut `rows` into one, two or three calls, and into single rows.
std::vector<std::vector<int64_t>> splits(int64_t rows) {
  std::vector<std::vector<int64_t>> all{{rows}, std::vector<int64_t>(size_t(rows), 1)};
  for (int64_t first = 1; first < rows; ++first) {
    all.push_back({first, rows - first});
    for (int64_t second = 1; first + second < rows; ++second)
      all.push_back({first, second, rows - first - second});
  }
  return all;
}

Floats randomFloats(size_t n, uint64_t &seed) {
  Floats values(n);
  for (float &v : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v = float(int64_t(seed >> 33)) / float(1u << 30) - 1;
  }
  return values;
}

uint64_t bytesNeeded(const reference::Builtin &builtin, int64_t rows, const std::string &name) {
  for (const reference::ArgNeed &need : builtin.args(rows))
    if (need.name == name)
      return need.bytes;
  ADD_FAILURE() << "no argument " << name;
  return 0;
}

reference::AttributeMap convAttributes(int64_t taps, std::vector<int64_t> widths) {
  return {{"taps", taps}, {"query_width", widths[0]}, {"key_width", widths[1]}, {"value_width", widths[2]}};
}
reference::AttributeMap deltaAttributes(int64_t nk, int64_t dk, int64_t nv, int64_t dv) {
  return {{"key_heads", nk}, {"key_dim", dk}, {"value_heads", nv}, {"value_dim", dv}};
}

} // namespace

TEST(Hybrid, PartialRope) {
  auto rope = make("ref.rope", {{"heads", int64_t(2)}, {"dim", int64_t(5)}, {"capacity", int64_t(2)}, {"pairs", int64_t(2)}});
  EXPECT_EQ(bytesNeeded(*rope, 1, "table"), 2u * 2 * 8);
  float table[] = {1, 0, 1, 0, /*1*/ 0, 1, -1, 0}; // cos, sin of two pairs at positions 0 and 1
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, y[10];
  call(*rope, {x, table, y}, 1, 1);
  EXPECT_EQ(Floats(y, y + 10), (Floats{-3, -2, 1, -4, 5, -8, -7, 6, -9, 10}));
  call(*rope, {x, table, x}, 1, 1); // in place
  EXPECT_EQ(Floats(x, x + 10), Floats(y, y + 10));
  EXPECT_NE(refusal("ref.rope", {{"heads", int64_t(1)}, {"dim", int64_t(5)}, {"capacity", int64_t(2)}, {"pairs", int64_t(3)}})
                .find("attribute 'pairs' is 3, expected at most dim / 2 = 2"),
            std::string::npos);
}

TEST(Hybrid, HeadNormWithUnitOffset) {
  auto norm = make("ref.head_norm",
                   {{"heads", int64_t(2)}, {"dim", int64_t(2)}, {"eps", 0.5}, {"unit_offset", int64_t(1)}});
  ASSERT_TRUE(norm);
  float x[] = {3, 4, 0, 1}, y[4];
  uint16_t w[] = {0x3f80, 0x4000}; // 1 and 2, so factors 2 and 3
  call(*norm, {x, w, y}, 1);
  EXPECT_FLOAT_EQ(y[0], float(2 * 3 / std::sqrt(13.0)));
  EXPECT_FLOAT_EQ(y[1], float(3 * 4 / std::sqrt(13.0)));
  EXPECT_FLOAT_EQ(y[2], 0);
  EXPECT_FLOAT_EQ(y[3], 3);
}

TEST(Hybrid, SigmoidGate) {
  auto gate = make("ref.sigmoid_gate", {{"k", int64_t(3)}});
  float x[] = {8, 4, -2, 3, 3, 5}, g[] = {0, 1, -1, 200, -200, 2}, y[6];
  call(*gate, {x, g, y}, 2);
  EXPECT_EQ(y[0], 4);
  EXPECT_FLOAT_EQ(y[1], float(4 / (1 + std::exp(-1.0))));
  EXPECT_FLOAT_EQ(y[2], float(-2 / (1 + std::exp(1.0))));
  EXPECT_EQ(y[3], 3);
  EXPECT_NEAR(y[4], 0, 1e-30);
  call(*gate, {x, g, x}, 2);
  EXPECT_EQ(Floats(x, x + 6), Floats(y, y + 6));
}

TEST(Hybrid, GatedHeadNormVectors) {
  for (const auto &c : vectors("gated_head_norm")) {
    auto norm = make("ref.gated_head_norm", {{"heads", c["heads"].get<int64_t>()},
                                             {"dim", c["dim"].get<int64_t>()},
                                             {"eps", c["eps"].get<double>()}});
    Floats x = c["x"], gate = c["gate"];
    Words weight = c["weight"];
    Floats out(x.size());
    call(*norm, {x.data(), weight.data(), gate.data(), out.data()}, c["rows"]);
    expectNear(out, c["out"], 1, "out");
  }
  EXPECT_NE(refusal("ref.gated_head_norm", {{"heads", int64_t(1)}, {"dim", int64_t(5)}, {"eps", -1.0}}).find("negative"),
            std::string::npos);
}

// Two taps, one channel each: w = (1, 2), so the sums are u_{t-1} + 2 u_t.
TEST(Hybrid, CausalConvByHand) {
  auto conv = make("ref.causal_conv", convAttributes(2, {1, 1, 1}));
  Floats q{1, 2}, k{0, 1}, v{-1, 0}, tail{3, 0, 5}, qOut(2), kOut(2), vOut(2);
  Words weight{0x3f80, 0x3f80, 0x3f80, 0x4000, 0x4000, 0x4000};
  call(*conv, {q.data(), k.data(), v.data(), weight.data(), tail.data(), qOut.data(), kOut.data(), vOut.data()}, 2);
  const auto silu = [](double x) { return float(x / (1 + std::exp(-x))); };
  EXPECT_EQ(qOut, (Floats{silu(5), silu(5)}));
  EXPECT_EQ(kOut, (Floats{silu(0), silu(2)}));
  EXPECT_EQ(vOut, (Floats{silu(3), silu(-1)}));
  EXPECT_EQ(tail, (Floats{2, 1, 0}));
}

TEST(Hybrid, CausalConvVectors) {
  for (const auto &c : vectors("causal_conv")) {
    auto conv = make("ref.causal_conv", convAttributes(c["taps"], c["widths"]));
    const int64_t rows = c["rows"];
    Floats u[3], out[3], tail = c["tail"];
    Words weight = c["weight"];
    for (size_t i = 0; i < 3; ++i)
      u[i] = c["u"][i].get<Floats>(), out[i].resize(u[i].size());
    EXPECT_EQ(bytesNeeded(*conv, rows, "state"), tail.size() * 4);
    EXPECT_EQ(bytesNeeded(*conv, rows, "weight"), weight.size() * 2);
    call(*conv, {u[0].data(), u[1].data(), u[2].data(), weight.data(), tail.data(), out[0].data(), out[1].data(), out[2].data()},
         rows);
    for (size_t i = 0; i < 3; ++i)
      expectNear(out[i], c["out"][i], 1, "out");
    EXPECT_EQ(tail, c["tail_after"].get<Floats>());
  }
}

TEST(Hybrid, CausalConvInAnySplit) {
  uint64_t seed = 5;
  for (const int64_t taps : {1, 2, 4, 8})
    for (int64_t rows = 1; rows <= 20; ++rows) {
      auto conv = make("ref.causal_conv", convAttributes(taps, {2, 1, 3}));
      const Floats q = randomFloats(size_t(rows * 2), seed), k = randomFloats(size_t(rows), seed),
                   v = randomFloats(size_t(rows * 3), seed), before = randomFloats(size_t((taps - 1) * 6), seed);
      Words weight(size_t(taps * 6));
      for (size_t i = 0; i < weight.size(); ++i)
        weight[i] = uint16_t((i % 3 ? 0x3f00 : 0xbe80) + 17 * i);
      Floats whole, wholeTail;
      for (const auto &cuts : splits(rows)) {
        Floats qi = q, ki = k, vi = v, tail = before;
        tail.push_back(77); // taps = 1 has no state at all
        int64_t at = 0;
        for (int64_t cut : cuts) {
          // In place: a row is read before it is written.
          float *qAt = qi.data() + at * 2, *kAt = ki.data() + at, *vAt = vi.data() + at * 3;
          call(*conv, {qAt, kAt, vAt, weight.data(), tail.data(), qAt, kAt, vAt}, cut, at, 1 + at % 4);
          at += cut;
        }
        Floats all = qi;
        all.insert(all.end(), ki.begin(), ki.end());
        all.insert(all.end(), vi.begin(), vi.end());
        if (whole.empty())
          whole = all, wholeTail = tail;
        ASSERT_EQ(all, whole) << "taps " << taps << " rows " << rows << " calls " << cuts.size();
        ASSERT_EQ(tail, wholeTail) << "taps " << taps << " rows " << rows << " calls " << cuts.size();
      }
      EXPECT_EQ(wholeTail.back(), 77);
    }
}

// One head of one element: k = q = x / sqrt(x^2 + 1e-6), decay 1/4, beta 1/2.
TEST(Hybrid, GatedDeltaByHand) {
  auto delta = make("ref.gated_delta", deltaAttributes(1, 1, 1, 1));
  float q = 1e-3f, k = -2, v = 10, a = 0, b = 0, aLog = std::log(2.0f), dtBias = 0, state = 8, out;
  call(*delta, {&q, &k, &v, &a, &b, &aLog, &dtBias, &state, &out}, 1);
  // exp(-2 ln 2) = 1/4: S = 2, S k = -2, e = 12, S = 2 - 6 = -4; q = 1 / sqrt 2
  EXPECT_NEAR(state, -4, 1e-5);
  EXPECT_NEAR(out, -4 / std::sqrt(2.0), 1e-5);
}

TEST(Hybrid, GatedDeltaVectors) {
  for (const auto &c : vectors("gated_delta")) {
    const int64_t rows = c["rows"];
    auto delta = make("ref.gated_delta", deltaAttributes(c["key_heads"], c["key_dim"], c["value_heads"], c["value_dim"]));
    Floats inputs[7], state = c["state"];
    const char *names[] = {"query", "key", "value", "a", "b", "a_log", "dt_bias"};
    std::vector<void *> args;
    for (size_t i = 0; i < 7; ++i) {
      inputs[i] = c[names[i]].get<Floats>();
      EXPECT_EQ(bytesNeeded(*delta, rows, names[i]), inputs[i].size() * 4);
      args.push_back(inputs[i].data());
    }
    EXPECT_EQ(bytesNeeded(*delta, rows, "state"), state.size() * 4);
    Floats out(inputs[2].size());
    args.push_back(state.data()), args.push_back(out.data());
    call(*delta, args, rows);
    // The state is rounded once per token; errors do not grow.
    expectNear(out, c["out"], double(rows) * 2, "out");
    expectNear(state, c["state_after"], double(rows) * 4, "state");
  }
}

TEST(Hybrid, GatedDeltaInAnySplit) {
  uint64_t seed = 9;
  const int64_t nk = 2, dk = 3, nv = 4, dv = 2;
  for (int64_t rows = 1; rows <= 20; ++rows) {
    auto delta = make("ref.gated_delta", deltaAttributes(nk, dk, nv, dv));
    Floats q = randomFloats(size_t(rows * nk * dk), seed), k = randomFloats(q.size(), seed),
           v = randomFloats(size_t(rows * nv * dv), seed), a = randomFloats(size_t(rows * nv), seed),
           b = randomFloats(a.size(), seed), aLog = randomFloats(size_t(nv), seed), dtBias = randomFloats(size_t(nv), seed);
    const Floats before = randomFloats(size_t(nv * dv * dk), seed);
    Floats whole, wholeState;
    for (const auto &cuts : splits(rows)) {
      Floats state = before, out(v.size());
      int64_t at = 0;
      for (int64_t cut : cuts) {
        call(*delta,
             {q.data() + at * nk * dk, k.data() + at * nk * dk, v.data() + at * nv * dv, a.data() + at * nv, b.data() + at * nv,
              aLog.data(), dtBias.data(), state.data(), out.data() + at * nv * dv},
             cut, at, 1 + at % 4);
        at += cut;
      }
      if (whole.empty())
        whole = out, wholeState = state;
      ASSERT_EQ(out, whole) << "rows " << rows << " calls " << cuts.size();
      ASSERT_EQ(state, wholeState) << "rows " << rows << " calls " << cuts.size();
    }
  }
}

// A peek gives the results of a call that updates its state, and leaves the state.
TEST(Hybrid, PeekLeavesTheState) {
  uint64_t seed = 21;
  for (int64_t rows : {1, 2, 6}) {
    auto attributes = deltaAttributes(2, 3, 4, 2);
    auto update = make("ref.gated_delta", attributes);
    attributes["peek"] = int64_t(1);
    auto peek = make("ref.gated_delta", attributes);
    Floats q = randomFloats(size_t(rows * 6), seed), k = randomFloats(q.size(), seed), v = randomFloats(size_t(rows * 8), seed),
           a = randomFloats(size_t(rows * 4), seed), b = randomFloats(a.size(), seed), aLog = randomFloats(4, seed),
           dtBias = randomFloats(4, seed), state = randomFloats(24, seed), seen(v.size()), out(v.size());
    const Floats before = state;
    const auto run = [&](const reference::Builtin &builtin, Floats &to) {
      call(builtin, {q.data(), k.data(), v.data(), a.data(), b.data(), aLog.data(), dtBias.data(), state.data(), to.data()}, rows);
    };
    run(*peek, seen);
    EXPECT_EQ(state, before);
    run(*update, out);
    EXPECT_NE(state, before);
    EXPECT_EQ(seen, out);

    auto widths = convAttributes(4, {2, 1, 3});
    auto convUpdate = make("ref.causal_conv", widths);
    widths["peek"] = int64_t(1);
    auto convPeek = make("ref.causal_conv", widths);
    Floats cq = randomFloats(size_t(rows * 2), seed), ck = randomFloats(size_t(rows), seed), cv = randomFloats(size_t(rows * 3), seed),
           tail = randomFloats(18, seed);
    const Floats tailBefore = tail;
    Words weight(24, 0x3f00);
    Floats results[2];
    for (int pass = 0; pass < 2; ++pass) {
      Floats oq(cq.size()), ok(ck.size()), ov(cv.size());
      call(pass ? *convUpdate : *convPeek,
           {cq.data(), ck.data(), cv.data(), weight.data(), tail.data(), oq.data(), ok.data(), ov.data()}, rows);
      EXPECT_EQ(tail == tailBefore, pass == 0);
      for (const Floats *part : {&oq, &ok, &ov})
        results[pass].insert(results[pass].end(), part->begin(), part->end());
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST(Hybrid, RowsAreHandedOver) {
  const auto attributes = [](int64_t k, int64_t width, int64_t column) {
    return reference::AttributeMap{{"k", k}, {"width", width}, {"column", column}};
  };
  Floats x = {1, 2, 3, 4, 5, 6}, buffer(12, 9), out(6, 0);
  call(*make("ref.store_rows", attributes(2, 4, 1)), {x.data(), buffer.data()}, 3);
  EXPECT_EQ(buffer, (Floats{9, 1, 2, 9, 9, 3, 4, 9, 9, 5, 6, 9}));
  call(*make("ref.load_rows", attributes(2, 4, 2)), {buffer.data(), out.data()}, 3);
  EXPECT_EQ(out, (Floats{2, 9, 4, 9, 6, 9}));
  Floats left = {1, 2}, right = {3, 4, 5, 6}, joined(6);
  call(*make("ref.concat", {{"lhs_width", int64_t(1)}, {"rhs_width", int64_t(2)}}), {left.data(), right.data(), joined.data()}, 2);
  EXPECT_EQ(joined, (Floats{1, 3, 4, 2, 5, 6}));
  EXPECT_NE(refusal("ref.store_rows", attributes(2, 4, 3)).find("columns [3, +2) are outside the width 4"), std::string::npos);
  EXPECT_NE(refusal("ref.load_rows", attributes(5, 4, 0)).find("columns [0, +5) are outside the width 4"), std::string::npos);
  EXPECT_NE(refusal("ref.load_rows", attributes(1, 4, -1)).find("attribute 'column' is -1"), std::string::npos);
  EXPECT_EQ(bytesNeeded(*make("ref.load_rows", attributes(2, 4, 2)), 3, "buffer"), 48u);
}

TEST(Hybrid, StatesAreWritten) {
  const auto written = [](const reference::Builtin &builtin) {
    std::string names;
    for (const reference::ArgNeed &need : builtin.args(2))
      if (need.written)
        names += std::string(need.name) + ' ';
    return names;
  };
  EXPECT_EQ(written(*make("ref.causal_conv", convAttributes(4, {2, 2, 4}))), "state query_out key_out value_out ");
  EXPECT_EQ(written(*make("ref.gated_delta", deltaAttributes(1, 2, 2, 2))), "state out ");
  auto peek = deltaAttributes(1, 2, 2, 2);
  peek["peek"] = int64_t(1);
  EXPECT_EQ(written(*make("ref.gated_delta", peek)), "out ");
  EXPECT_EQ(written(*make("ref.store_rows", {{"k", int64_t(1)}, {"width", int64_t(1)}, {"column", int64_t(0)}})), "buffer ");
  EXPECT_EQ(written(*make("ref.sigmoid_gate", {{"k", int64_t(3)}})), "out ");
}

TEST(Hybrid, AttributesAreClosedAndChecked) {
  const std::string prefix = "kernel 'the_kernel': built-in ";
  for (int64_t taps : {int64_t(0), int64_t(9), INT64_MAX})
    EXPECT_EQ(refusal("ref.causal_conv", convAttributes(taps, {1, 1, 1})),
              prefix + "ref.causal_conv: attribute 'taps' is " + std::to_string(taps) + ", expected 1..8");
  EXPECT_EQ(refusal("ref.gated_delta", deltaAttributes(2, 4, 3, 4)),
            prefix + "ref.gated_delta: attribute 'value_heads' is 3, expected a multiple of key_heads 2");
  auto attributes = deltaAttributes(2, 4, 4, 4);
  attributes["eps"] = 1e-6;
  EXPECT_EQ(refusal("ref.gated_delta", attributes), prefix + "ref.gated_delta: attribute 'eps' is not known to this build");
  attributes = convAttributes(4, {1, 1, 1});
  attributes.erase("value_width");
  EXPECT_EQ(refusal("ref.causal_conv", attributes), prefix + "ref.causal_conv: attribute 'value_width' is missing");
  EXPECT_EQ(refusal("ref.sigmoid_gate", {{"k", 1.5}}), prefix + "ref.sigmoid_gate: attribute 'k' is not an integer");
  const int64_t most = int64_t(1) << 28;
  auto delta = make("ref.gated_delta", deltaAttributes(most, most, most, most));
  EXPECT_EQ(bytesNeeded(*delta, 1, "state"), UINT64_MAX);
}

// --- int8 KV cache

TEST(Hybrid, Int8CacheWords) {
  const uint16_t guard = 0x5a5a;
  for (const auto &c : vectors("int8")) {
    const std::string label = c["label"];
    std::vector<uint32_t> words = c["x"];
    const std::vector<int> codes = c["codes"], scales = c["scales"];
    const int64_t heads = 3, capacity = 5, dim = int64_t(words.size()), groups = int64_t(scales.size());
    auto append = make("ref.kv_append", {{"kv_heads", heads},
                                         {"dim", dim},
                                         {"capacity", capacity},
                                         {"codec", std::string("int8")}});
    const size_t scalesAt = size_t(heads * capacity * dim + 63) / 64 * 64;
    const size_t bytes = scalesAt + size_t(heads * capacity * groups * 2);
    EXPECT_EQ(bytesNeeded(*append, 1, "keys"), bytes) << label;
    EXPECT_EQ(bytesNeeded(*append, 1, "values"), bytes) << label;
    // Head 1 of row 0 at position 3 is the row under test; the other heads and the values hold zeros.
    Floats key(size_t(heads * dim), 0.0f), value(key.size(), 0.0f);
    std::memcpy(key.data() + dim, words.data(), words.size() * 4);
    std::vector<uint8_t> keys(bytes + 1, 0x5a), values(bytes + 1, 0x5a);
    call(*append, {key.data(), value.data(), keys.data(), values.data()}, 1, 3);
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t p = 0; p < capacity; ++p) {
        const int64_t row = h * capacity + p;
        for (int64_t i = 0; i < dim; ++i) {
          const int expected = p != 3 ? 0x5a : h == 1 ? codes[size_t(i)] : 0;
          ASSERT_EQ(int8_t(keys[size_t(row * dim + i)]), expected)
              << label << " head " << h << " position " << p << " at " << i;
          ASSERT_EQ(int8_t(values[size_t(row * dim + i)]), p == 3 ? 0 : 0x5a) << label;
        }
        for (int64_t g = 0; g < groups; ++g) {
          uint16_t word;
          std::memcpy(&word, keys.data() + scalesAt + size_t(row * groups + g) * 2, 2);
          ASSERT_EQ(word, p != 3 ? guard : h == 1 ? scales[size_t(g)] : 0) << label << " group " << g;
        }
      }
    for (size_t i = size_t(heads * capacity * dim); i < scalesAt; ++i)
      ASSERT_EQ(keys[i], 0x5a) << label;
    EXPECT_EQ(keys.back(), 0x5a);
  }
}

// The same attention over a float cache that holds code * scale.
TEST(Hybrid, AttentionOverInt8Cache) {
  uint64_t seed = 3;
  for (const int64_t dim : {4, 64, 70}) {
    const int64_t heads = 4, kvHeads = 2, capacity = 6, rows = 2;
    reference::AttributeMap attributes = {{"heads", heads},       {"kv_heads", kvHeads},
                                          {"dim", dim},           {"capacity", capacity},
                                          {"codec", std::string("int8")}, {"scale", 0.25}};
    auto attention = make("ref.attention", attributes);
    attributes["codec"] = std::string("f32");
    auto plain = make("ref.attention", attributes);
    const size_t scalesAt = size_t(kvHeads * capacity * dim + 63) / 64 * 64, groups = size_t(dim + 63) / 64;
    std::vector<uint8_t> planes[2];
    Floats floats[2];
    const uint16_t scaleWords[] = {0x2c00, 0x3000, 0x3800, 0x0001}; // 1/16, 1/8, 1/2, 2^-24
    const double scaleValues[] = {0x1p-4, 0x1p-3, 0.5, 0x1p-24};
    for (int side = 0; side < 2; ++side) {
      planes[side].resize(scalesAt + size_t(kvHeads * capacity) * groups * 2);
      const Floats random = randomFloats(size_t(kvHeads * capacity * dim), seed);
      for (size_t i = 0; i < random.size(); ++i) {
        const size_t group = i / size_t(dim) * groups + i % size_t(dim) / 64, pick = (group + size_t(side)) % 4;
        const int8_t code = int8_t(random[i] * 127);
        planes[side][i] = uint8_t(code);
        std::memcpy(planes[side].data() + scalesAt + group * 2, &scaleWords[pick], 2);
        floats[side].push_back(float(code * scaleValues[pick]));
      }
    }
    EXPECT_EQ(bytesNeeded(*attention, 1, "keys"), planes[0].size());
    Floats query = randomFloats(size_t(rows * heads * dim), seed), out(query.size()), expected(query.size());
    call(*attention, {query.data(), planes[0].data(), planes[1].data(), out.data()}, rows, 4);
    call(*plain, {query.data(), floats[0].data(), floats[1].data(), expected.data()}, rows, 4);
    EXPECT_EQ(out, expected) << dim;
  }
}
