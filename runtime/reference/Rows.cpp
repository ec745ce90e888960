// Built-ins that treat every activation row on its own: norms, elementwise operators, row selection.
// Activations are float32; sums and products are taken in double and rounded once.
#include "artifact/formats/Words.h"
#include "runtime/reference/Ops.h"

#include <algorithm>
#include <cmath>

namespace ninfer::reference {

namespace {

/// y = x * rsqrt(mean(x^2) + eps) * (w + offset) over `k` values.
void normalise(const float *x, const uint16_t *words, int64_t k, double eps, double offset, float *y) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i)
    sum += double(x[i]) * double(x[i]);
  const double scale = 1.0 / std::sqrt(sum / double(k) + eps);
  for (int64_t i = 0; i < k; ++i)
    y[i] = float(double(x[i]) * scale * (double(decodeBf16(words[i])) + offset));
}

class RmsNorm final : public Builtin {
public:
  explicit RmsNorm(AttributeReader &a)
      : k_(a.extent("k")), eps_(a.number("eps")), offset_(a.flag("unit_offset") ? 1.0 : 0.0) {
    a.require(eps_ >= 0, "attribute 'eps' is negative");
  }
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    return {{"x", bytesOf({rows, k_, 4})}, {"weight", bytesOf({k_, 2})}, {"out", bytesOf({rows, k_, 4}), true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *x = static_cast<const float *>(call.args[0]);
    const auto *words = static_cast<const uint16_t *>(call.args[1]);
    auto *y = static_cast<float *>(call.args[2]);
    for (int64_t r = begin; r < end; ++r)
      normalise(x + r * k_, words, k_, eps_, offset_, y + r * k_);
  }

private:
  int64_t k_;
  double eps_, offset_;
};

/// RMS norm of every head of every row with one weight of head_dim values.
class HeadNorm final : public Builtin {
public:
  explicit HeadNorm(AttributeReader &a)
      : heads_(a.extent("heads")), dim_(a.extent("dim")), eps_(a.number("eps")),
        offset_(a.flag("unit_offset") ? 1.0 : 0.0) {
    a.require(eps_ >= 0, "attribute 'eps' is negative");
  }
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, heads_, dim_, 4});
    return {{"x", bytes}, {"weight", bytesOf({dim_, 2})}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *x = static_cast<const float *>(call.args[0]);
    const auto *words = static_cast<const uint16_t *>(call.args[1]);
    auto *y = static_cast<float *>(call.args[2]);
    for (int64_t h = begin * heads_; h < end * heads_; ++h)
      normalise(x + h * dim_, words, dim_, eps_, offset_, y + h * dim_);
  }

private:
  int64_t heads_, dim_;
  double eps_, offset_;
};

/// silu(gate) * up, with silu(g) = g / (1 + exp(-g)).
class Swiglu final : public Builtin {
public:
  explicit Swiglu(AttributeReader &a) : k_(a.extent("k")) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, k_, 4});
    return {{"gate", bytes}, {"up", bytes}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *gate = static_cast<const float *>(call.args[0]);
    const auto *up = static_cast<const float *>(call.args[1]);
    auto *y = static_cast<float *>(call.args[2]);
    for (int64_t i = begin * k_; i < end * k_; ++i) {
      const double g = gate[i];
      y[i] = float(g / (1.0 + std::exp(-g)) * double(up[i]));
    }
  }

private:
  int64_t k_;
};

class Add final : public Builtin {
public:
  explicit Add(AttributeReader &a) : k_(a.extent("k")) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, k_, 4});
    return {{"lhs", bytes}, {"rhs", bytes}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *lhs = static_cast<const float *>(call.args[0]);
    const auto *rhs = static_cast<const float *>(call.args[1]);
    auto *y = static_cast<float *>(call.args[2]);
    for (int64_t i = begin * k_; i < end * k_; ++i)
      y[i] = float(double(lhs[i]) + double(rhs[i]));
  }

private:
  int64_t k_;
};

/// Copies the last row of the call.
class LastRow final : public Builtin {
public:
  explicit LastRow(AttributeReader &a) : k_(a.extent("k")) {}
  int64_t units(int64_t) const override { return 1; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    return {{"x", bytesOf({rows, k_, 4})}, {"out", bytesOf({k_, 4}), true}};
  }
  void run(const Call &call, int64_t, int64_t) const override {
    const auto *x = static_cast<const float *>(call.args[0]) + (call.rows - 1) * k_;
    auto *y = static_cast<float *>(call.args[1]);
    for (int64_t i = 0; i < k_; ++i)
      y[i] = x[i];
  }

private:
  int64_t k_;
};

/// Rows of k elements and the columns [column, column + k) of the rows of a buffer: one is copied to the other.
class Handover final : public Builtin {
public:
  explicit Handover(AttributeReader &a, bool store)
      : k_(a.extent("k")), width_(a.extent("width")), column_(a.offset("column")), store_(store) {
    a.require(k_ <= width_ && column_ <= width_ - k_, "columns [" + std::to_string(column_) + ", +" +
                                                          std::to_string(k_) + ") are outside the width " +
                                                          std::to_string(width_));
  }
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, k_, 4}), buffer = bytesOf({rows, width_, 4});
    if (store_)
      return {{"x", bytes}, {"buffer", buffer, true}};
    return {{"buffer", buffer}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *from = static_cast<const float *>(call.args[0]) + (store_ ? 0 : column_);
    auto *to = static_cast<float *>(call.args[1]) + (store_ ? column_ : 0);
    const int64_t fromRow = store_ ? k_ : width_, toRow = store_ ? width_ : k_;
    for (int64_t r = begin; r < end; ++r)
      std::copy_n(from + r * fromRow, k_, to + r * toRow);
  }

private:
  int64_t k_, width_, column_;
  bool store_;
};

/// Rows of both operands side by side.
class Concat final : public Builtin {
public:
  explicit Concat(AttributeReader &a) : lhs_(a.extent("lhs_width")), rhs_(a.extent("rhs_width")) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    return {{"lhs", bytesOf({rows, lhs_, 4})},
            {"rhs", bytesOf({rows, rhs_, 4})},
            {"out", bytesOf({rows, lhs_ + rhs_, 4}), true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    for (int64_t r = begin; r < end; ++r) {
      auto *y = static_cast<float *>(call.args[2]) + r * (lhs_ + rhs_);
      std::copy_n(static_cast<const float *>(call.args[0]) + r * lhs_, lhs_, y);
      std::copy_n(static_cast<const float *>(call.args[1]) + r * rhs_, rhs_, y + lhs_);
    }
  }

private:
  int64_t lhs_, rhs_;
};

/// Rows of x, or of `by` where a row's number is positive.
class ReplaceRows final : public Builtin {
public:
  explicit ReplaceRows(AttributeReader &a) : k_(a.extent("k")) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    const uint64_t bytes = bytesOf({rows, k_, 4});
    return {{"x", bytes}, {"by", bytes}, {"where", bytesOf({rows, 4})}, {"out", bytes, true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *where = static_cast<const int32_t *>(call.args[2]);
    for (int64_t r = begin; r < end; ++r)
      std::copy_n(static_cast<const float *>(call.args[where[r] > 0 ? 1 : 0]) + r * k_, k_,
                  static_cast<float *>(call.args[3]) + r * k_);
  }

private:
  int64_t k_;
};

} // namespace

std::unique_ptr<Builtin> makeReplaceRows(AttributeReader &a) { return std::make_unique<ReplaceRows>(a); }
std::unique_ptr<Builtin> makeStoreRows(AttributeReader &a) { return std::make_unique<Handover>(a, true); }
std::unique_ptr<Builtin> makeLoadRows(AttributeReader &a) { return std::make_unique<Handover>(a, false); }
std::unique_ptr<Builtin> makeConcat(AttributeReader &a) { return std::make_unique<Concat>(a); }
std::unique_ptr<Builtin> makeRmsNorm(AttributeReader &a) { return std::make_unique<RmsNorm>(a); }
std::unique_ptr<Builtin> makeHeadNorm(AttributeReader &a) { return std::make_unique<HeadNorm>(a); }
std::unique_ptr<Builtin> makeSwiglu(AttributeReader &a) { return std::make_unique<Swiglu>(a); }
std::unique_ptr<Builtin> makeAdd(AttributeReader &a) { return std::make_unique<Add>(a); }
std::unique_ptr<Builtin> makeLastRow(AttributeReader &a) { return std::make_unique<LastRow>(a); }

} // namespace ninfer::reference
