// Built-ins of a vision tower: layer norm, biases, gelu, positions of a grid, attention among the rows of a call.
// Activations are float32; sums and products are taken in double and rounded once.
#include "artifact/formats/Words.h"
#include "runtime/reference/Ops.h"
#include "runtime/reference/WeightRows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ninfer::reference {

namespace {

/// y = (x - mean) / sqrt(variance + eps) * weight + bias.
class LayerNorm final : public Builtin {
public:
  explicit LayerNorm(AttributeReader &a) : k_(a.extent("k")), eps_(a.number("eps")) {
    a.require(eps_ >= 0, "attribute 'eps' is negative");
  }
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, k_, 4}), vector = bytesOf({k_, 2});
    return {{"x", bytes}, {"weight", vector}, {"bias", vector}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *weight = static_cast<const uint16_t *>(call.args[1]);
    const auto *bias = static_cast<const uint16_t *>(call.args[2]);
    for (int64_t r = begin; r < end; ++r) {
      const float *x = static_cast<const float *>(call.args[0]) + r * k_;
      float *y = static_cast<float *>(call.args[3]) + r * k_;
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < k_; ++i)
        mean += double(x[i]);
      mean /= double(k_);
      for (int64_t i = 0; i < k_; ++i)
        variance += (double(x[i]) - mean) * (double(x[i]) - mean);
      const double scale = 1.0 / std::sqrt(variance / double(k_) + eps_);
      for (int64_t i = 0; i < k_; ++i)
        y[i] = float((double(x[i]) - mean) * scale * double(decodeBf16(weight[i])) + double(decodeBf16(bias[i])));
    }
  }

private:
  int64_t k_;
  double eps_;
};

/// y = x + bias; with a row group the bias covers that many rows.
class Bias final : public Builtin {
public:
  explicit Bias(AttributeReader &a) : k_(a.extent("k")), group_(a.extentOr("row_group", 1)) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, k_, 4});
    return {{"x", bytes}, {"bias", bytesOf({group_, k_, 2})}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *x = static_cast<const float *>(call.args[0]);
    auto *y = static_cast<float *>(call.args[2]);
    for (int64_t r = begin; r < end; ++r) {
      const auto *bias = static_cast<const uint16_t *>(call.args[1]) + r % group_ * k_;
      for (int64_t i = 0; i < k_; ++i)
        y[r * k_ + i] = float(double(x[r * k_ + i]) + double(decodeBf16(bias[i])));
    }
  }

private:
  int64_t k_, group_;
};

class Gelu final : public Builtin {
public:
  explicit Gelu(AttributeReader &a) : k_(a.extent("k")), tanh_(a.flag("tanh")) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, k_, 4});
    return {{"x", bytes}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *x = static_cast<const float *>(call.args[0]);
    auto *y = static_cast<float *>(call.args[1]);
    for (int64_t i = begin * k_; i < end * k_; ++i)
      y[i] = float(value(x[i]));
  }

private:
  /// The tails by functions that do not cancel: 1 + erf(z) = erfc(-z), 1 + tanh(u) = 2 / (1 + exp(-2u)).
  double value(double x) const {
    if (!tanh_)
      return x / 2 * std::erfc(-x / std::sqrt(2.0));
    const double u = std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    return x / (1 + std::exp(-2 * u));
  }

  int64_t k_;
  bool tanh_;
};

/// Pair i of a head of 4 * pairs turns by entry i mod pairs of the table at the row's position i / pairs. A position
/// outside of the table gives NaN.
class AxialRope final : public Builtin {
public:
  explicit AxialRope(AttributeReader &a)
      : heads_(a.extent("heads")), pairs_(a.extent("pairs")), capacity_(a.extent("capacity")) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, heads_, pairs_, 16});
    return {{"x", bytes},
            {"table", bytesOf({capacity_, pairs_, 8})},
            {"positions", bytesOf({rows, 8})},
            {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *table = static_cast<const float *>(call.args[1]);
    const auto *positions = static_cast<const int32_t *>(call.args[2]);
    const int64_t half = 2 * pairs_;
    for (int64_t r = begin; r < end; ++r)
      for (int64_t h = 0; h < heads_; ++h) {
        const int64_t at = (r * heads_ + h) * 2 * half;
        const float *x = static_cast<const float *>(call.args[0]) + at;
        float *y = static_cast<float *>(call.args[3]) + at;
        for (int64_t i = 0; i < half; ++i) {
          const int64_t position = positions[2 * r + i / pairs_];
          const bool inside = position >= 0 && position < capacity_;
          const float *angle = inside ? table + (position * pairs_ + i % pairs_) * 2 : nullptr;
          const double c = inside ? double(angle[0]) : kNone, s = inside ? double(angle[1]) : kNone;
          const double a = x[i], b = x[i + half];
          y[i] = float(a * c - b * s);
          y[i + half] = float(b * c + a * s);
        }
      }
  }

private:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  int64_t heads_, pairs_, capacity_;
};

/// Softmax attention of every row to every row. One unit is one head of one row.
class FullAttention final : public Builtin {
public:
  explicit FullAttention(AttributeReader &a)
      : heads_(a.extent("heads")), dim_(a.extent("dim")), scale_(a.number("scale")) {}
  int64_t units(int64_t rows) const override { return rows * heads_; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, heads_, dim_, 4});
    return {{"query", bytes}, {"key", bytes}, {"value", bytes}, {"out", bytes, true}};
  }
  uint64_t scratchBytes() const override { return bytesOf({dim_, 8}); }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    auto *sum = static_cast<double *>(call.scratch);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t head = unit % heads_ * dim_, at = unit / heads_ * heads_ * dim_ + head;
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (int64_t j = 0; j < call.rows; ++j)
        top = std::max(top, score(call, at, j, head));
      std::fill(sum, sum + dim_, 0.0);
      for (int64_t j = 0; j < call.rows; ++j) {
        const float *v = static_cast<const float *>(call.args[2]) + j * heads_ * dim_ + head;
        const double weight = std::exp(score(call, at, j, head) - top);
        total += weight;
        for (int64_t d = 0; d < dim_; ++d)
          sum[d] += weight * double(v[d]);
      }
      float *y = static_cast<float *>(call.args[3]) + at;
      for (int64_t d = 0; d < dim_; ++d)
        y[d] = float(sum[d] / total);
    }
  }

private:
  /// Scaled product of the query at `at` and the key of row j. Taken twice: a row of scores has no place.
  double score(const Call &call, int64_t at, int64_t j, int64_t head) const {
    const float *q = static_cast<const float *>(call.args[0]) + at;
    const float *k = static_cast<const float *>(call.args[1]) + j * heads_ * dim_ + head;
    double sum = 0;
    for (int64_t d = 0; d < dim_; ++d)
      sum += double(q[d]) * double(k[d]);
    return sum * scale_;
  }

  int64_t heads_, dim_;
  double scale_;
};

/// Weighted sums of table rows. An index outside of the table gives a row of NaN.
class Interpolate final : public Builtin {
public:
  explicit Interpolate(AttributeReader &a) : table_(a), taps_(a.extent("taps", 4096)) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t taps = bytesOf({rows, taps_, 4});
    std::vector<ArgNeed> needs{{"indices", taps}, {"weights", taps}};
    table_.appendNeeds(needs);
    needs.push_back({"out", bytesOf({rows, table_.k(), 4}), true});
    return needs;
  }
  uint64_t scratchBytes() const override { return bytesOf({table_.k(), 12}); }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const int64_t k = table_.k();
    auto *sum = static_cast<double *>(call.scratch);
    auto *row = reinterpret_cast<float *>(sum + k);
    for (int64_t r = begin; r < end; ++r) {
      const auto *indices = static_cast<const int32_t *>(call.args[0]) + r * taps_;
      const auto *weights = static_cast<const float *>(call.args[1]) + r * taps_;
      std::fill(sum, sum + k, 0.0);
      for (int64_t t = 0; t < taps_; ++t) {
        const bool inside = indices[t] >= 0 && indices[t] < table_.n();
        if (inside)
          table_.decode(call.args + 2, indices[t], row);
        for (int64_t i = 0; i < k; ++i)
          sum[i] += inside ? double(weights[t]) * double(row[i]) : std::numeric_limits<double>::quiet_NaN();
      }
      float *y = static_cast<float *>(call.args[2 + table_.planes()]) + r * k;
      for (int64_t i = 0; i < k; ++i)
        y[i] = float(sum[i]);
    }
  }

private:
  WeightRows table_;
  int64_t taps_;
};

} // namespace

std::unique_ptr<Builtin> makeLayerNorm(AttributeReader &a) { return std::make_unique<LayerNorm>(a); }
std::unique_ptr<Builtin> makeBias(AttributeReader &a) { return std::make_unique<Bias>(a); }
std::unique_ptr<Builtin> makeGelu(AttributeReader &a) { return std::make_unique<Gelu>(a); }
std::unique_ptr<Builtin> makeAxialRope(AttributeReader &a) { return std::make_unique<AxialRope>(a); }
std::unique_ptr<Builtin> makeFullAttention(AttributeReader &a) { return std::make_unique<FullAttention>(a); }
std::unique_ptr<Builtin> makeInterpolate(AttributeReader &a) { return std::make_unique<Interpolate>(a); }

} // namespace ninfer::reference
