// Built-ins of gated DeltaNet layers and of gated attention: sigmoid gate, causal convolution, gated delta rule, gated
// norm. Arithmetic is in double and rounded once per result; a state is rounded to float32 after every token, so that a
// call of T rows and T calls of one row give the same bits.
#include "artifact/formats/Words.h"
#include "runtime/reference/Ops.h"

#include <algorithm>
#include <cmath>

namespace ninfer::reference {

namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

/// x * sigmoid(gate).
class SigmoidGate final : public Builtin {
public:
  explicit SigmoidGate(AttributeReader &a) : k_(a.extent("k")), gateWidth_(a.flag("row_gate") ? 1 : k_) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, k_, 4});
    return {{"x", bytes}, {"gate", bytesOf({rows, gateWidth_, 4})}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *x = static_cast<const float *>(call.args[0]);
    const auto *gate = static_cast<const float *>(call.args[1]);
    auto *y = static_cast<float *>(call.args[2]);
    for (int64_t i = begin * k_; i < end * k_; ++i)
      y[i] = float(double(x[i]) * sigmoid(gate[gateWidth_ == 1 ? i / k_ : i]));
  }

private:
  int64_t k_;
  int64_t gateWidth_; ///< 1: one gate for a row
};

/// out_t[c] = silu(sum_j w[j][c] * u_{t - (taps - 1) + j}[c]), u = query, key, value side by side. The state holds the
/// taps - 1 rows of u before the call, oldest first; the call leaves the last taps - 1 rows there. One unit is one
/// channel: nobody else touches its column of the state.
class CausalConv final : public Builtin {
public:
  explicit CausalConv(AttributeReader &a)
      : taps_(a.extent("taps", kMaxTaps)), widths_{a.extent("query_width"), a.extent("key_width"),
                                                   a.extent("value_width")},
        peek_(a.flag("peek")) {}
  int64_t units(int64_t) const override { return channels(); }
  std::vector<ArgNeed> args(int64_t rows) const override {
    std::vector<ArgNeed> needs;
    for (int i = 0; i < 3; ++i)
      needs.push_back({kNames[i], bytesOf({rows, widths_[i], 4})});
    needs.push_back({"weight", bytesOf({taps_, channels(), 2})});
    needs.push_back({"state", bytesOf({taps_ - 1, channels(), 4}), !peek_});
    for (int i = 0; i < 3; ++i)
      needs.push_back({kOutNames[i], bytesOf({rows, widths_[i], 4}), true});
    return needs;
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *words = static_cast<const uint16_t *>(call.args[3]);
    auto *tail = static_cast<float *>(call.args[4]);
    for (int64_t channel = begin; channel < end; ++channel) {
      int part = 0;
      int64_t column = channel;
      while (column >= widths_[part])
        column -= widths_[part++];
      const auto *u = static_cast<const float *>(call.args[part]) + column;
      auto *y = static_cast<float *>(call.args[5 + part]) + column;
      // window[j]: u of row t - (taps - 1) + j. Row t of u is read before row t of y is written.
      float window[kMaxTaps] = {};
      for (int64_t j = 0; j + 1 < taps_; ++j)
        window[j + 1] = tail[j * channels() + channel];
      for (int64_t t = 0; t < call.rows; ++t) {
        for (int64_t j = 0; j + 1 < taps_; ++j)
          window[j] = window[j + 1];
        window[taps_ - 1] = u[t * widths_[part]];
        double sum = 0;
        for (int64_t j = 0; j < taps_; ++j)
          sum += double(decodeBf16(words[j * channels() + channel])) * double(window[j]);
        y[t * widths_[part]] = float(sum * sigmoid(sum));
      }
      for (int64_t j = 0; j + 1 < taps_ && !peek_; ++j)
        tail[j * channels() + channel] = window[j + 1];
    }
  }

private:
  static constexpr int64_t kMaxTaps = 8;
  static constexpr const char *kNames[3] = {"query", "key", "value"};
  static constexpr const char *kOutNames[3] = {"query_out", "key_out", "value_out"};
  int64_t channels() const { return widths_[0] + widths_[1] + widths_[2]; }
  int64_t taps_, widths_[3];
  bool peek_; ///< leaves the state as it was
};

/// The recurrence of gated DeltaNet, per value head with its state S [value_dim][key_dim]:
///   S = exp(g) S;  e = v - S k;  S = S + beta e k^T;  o = S q / sqrt(key_dim),
/// q and k divided by sqrt(sum of squares + 1e-6), g = -exp(a_log) softplus(a + dt_bias), beta = sigmoid(b). Value head
/// j uses key head j / (value_heads / key_heads). One unit is one value head.
class GatedDelta final : public Builtin {
public:
  explicit GatedDelta(AttributeReader &a)
      : keyHeads_(a.extent("key_heads")), keyDim_(a.extent("key_dim")), valueHeads_(a.extent("value_heads")),
        valueDim_(a.extent("value_dim")), peek_(a.flag("peek")) {
    a.require(valueHeads_ % keyHeads_ == 0, "attribute 'value_heads' is " + std::to_string(valueHeads_) +
                                                ", expected a multiple of key_heads " + std::to_string(keyHeads_));
  }
  int64_t units(int64_t) const override { return valueHeads_; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t key = bytesOf({rows, keyHeads_, keyDim_, 4}), value = bytesOf({rows, valueHeads_, valueDim_, 4});
    const uint64_t scalars = bytesOf({rows, valueHeads_, 4}), head = bytesOf({valueHeads_, 4});
    return {{"query", key},  {"key", key},
            {"value", value}, {"a", scalars},
            {"b", scalars},  {"a_log", head},
            {"dt_bias", head}, {"state", bytesOf({valueHeads_, valueDim_, keyDim_, 4}), !peek_},
            {"out", value, true}};
  }
  uint64_t scratchBytes() const override {
    return bytesOf({2, keyDim_, 8}) + (peek_ ? bytesOf({valueDim_, keyDim_, 4}) : 0);
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *query = static_cast<const float *>(call.args[0]), *key = static_cast<const float *>(call.args[1]);
    const auto *value = static_cast<const float *>(call.args[2]);
    const auto *a = static_cast<const float *>(call.args[3]), *b = static_cast<const float *>(call.args[4]);
    const auto *aLog = static_cast<const float *>(call.args[5]), *dtBias = static_cast<const float *>(call.args[6]);
    auto *out = static_cast<float *>(call.args[8]);
    auto *q = static_cast<double *>(call.scratch), *k = q + keyDim_;
    for (int64_t head = begin; head < end; ++head) {
      auto *state = static_cast<float *>(call.args[7]) + head * valueDim_ * keyDim_;
      if (peek_) // goes on in a copy
        state = std::copy_n(state, valueDim_ * keyDim_, reinterpret_cast<float *>(k + keyDim_)) - valueDim_ * keyDim_;
      for (int64_t t = 0; t < call.rows; ++t) {
        const int64_t keyAt = (t * keyHeads_ + head / (valueHeads_ / keyHeads_)) * keyDim_;
        unitLength(query + keyAt, 1.0 / std::sqrt(double(keyDim_)), q);
        unitLength(key + keyAt, 1.0, k);
        const int64_t at = t * valueHeads_ + head;
        const double g = -std::exp(double(aLog[head])) * softplus(double(a[at]) + double(dtBias[head]));
        const double decay = std::exp(g), beta = sigmoid(b[at]);
        for (int64_t i = 0; i < valueDim_; ++i) {
          float *s = state + i * keyDim_;
          double seen = 0;
          for (int64_t d = 0; d < keyDim_; ++d)
            seen += decay * double(s[d]) * k[d];
          const double change = beta * (double(value[at * valueDim_ + i]) - seen);
          double sum = 0;
          for (int64_t d = 0; d < keyDim_; ++d) {
            const double updated = decay * double(s[d]) + change * k[d];
            sum += updated * q[d];
            s[d] = float(updated);
          }
          out[at * valueDim_ + i] = float(sum);
        }
      }
    }
  }

private:
  void unitLength(const float *x, double scale, double *y) const {
    double sum = 0;
    for (int64_t d = 0; d < keyDim_; ++d)
      sum += double(x[d]) * double(x[d]);
    for (int64_t d = 0; d < keyDim_; ++d)
      y[d] = double(x[d]) * scale / std::sqrt(sum + 1e-6);
  }

  int64_t keyHeads_, keyDim_, valueHeads_, valueDim_;
  bool peek_; ///< leaves the state as it was
};

/// x * rsqrt(mean(x^2) + eps) * w * silu(gate) for every head of every row.
class GatedHeadNorm final : public Builtin {
public:
  explicit GatedHeadNorm(AttributeReader &a)
      : heads_(a.extent("heads")), dim_(a.extent("dim")), eps_(a.number("eps")) {
    a.require(eps_ >= 0, "attribute 'eps' is negative");
  }
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, heads_, dim_, 4});
    return {{"x", bytes}, {"weight", bytesOf({dim_, 2})}, {"gate", bytes}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *words = static_cast<const uint16_t *>(call.args[1]);
    for (int64_t h = begin * heads_; h < end * heads_; ++h) {
      const auto *x = static_cast<const float *>(call.args[0]) + h * dim_;
      const auto *gate = static_cast<const float *>(call.args[2]) + h * dim_;
      auto *y = static_cast<float *>(call.args[3]) + h * dim_;
      double sum = 0;
      for (int64_t i = 0; i < dim_; ++i)
        sum += double(x[i]) * double(x[i]);
      const double scale = 1.0 / std::sqrt(sum / double(dim_) + eps_);
      for (int64_t i = 0; i < dim_; ++i) {
        const double g = gate[i];
        y[i] = float(double(x[i]) * scale * double(decodeBf16(words[i])) * (g * sigmoid(g)));
      }
    }
  }

private:
  int64_t heads_, dim_;
  double eps_;
};

} // namespace

std::unique_ptr<Builtin> makeSigmoidGate(AttributeReader &a) { return std::make_unique<SigmoidGate>(a); }
std::unique_ptr<Builtin> makeCausalConv(AttributeReader &a) { return std::make_unique<CausalConv>(a); }
std::unique_ptr<Builtin> makeGatedDelta(AttributeReader &a) { return std::make_unique<GatedDelta>(a); }
std::unique_ptr<Builtin> makeGatedHeadNorm(AttributeReader &a) { return std::make_unique<GatedHeadNorm>(a); }

} // namespace ninfer::reference
