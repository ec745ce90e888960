// Built-ins that read a weight matrix: linear and embedding.
#include "runtime/reference/Ops.h"
#include "runtime/reference/WeightRows.h"

#include <limits>

namespace ninfer::reference {

namespace {

/// out[r][n] = sum over k of x[r][k] * W[n][k]. One unit is one weight row, decoded once for all rows. With a row group
/// of g, r counts groups of g rows of the call.
class Linear final : public Builtin {
public:
  explicit Linear(AttributeReader &a) : weight_(a), group_(a.extentOr("row_group", 1)) {}
  int64_t units(int64_t) const override { return weight_.n(); }
  std::vector<ArgNeed> args(int64_t rows) const override {
    std::vector<ArgNeed> needs{{"x", bytesOf({rows / group_, weight_.k(), 4})}};
    weight_.appendNeeds(needs);
    needs.push_back({"out", bytesOf({rows / group_, weight_.n(), 4}), true});
    return needs;
  }
  uint64_t scratchBytes() const override { return bytesOf({weight_.k(), 4}); }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const int64_t k = weight_.k(), n = weight_.n();
    const auto *x = static_cast<const float *>(call.args[0]);
    auto *out = static_cast<float *>(call.args[1 + weight_.planes()]);
    auto *w = static_cast<float *>(call.scratch);
    for (int64_t row = begin; row < end; ++row) {
      weight_.decode(call.args + 1, row, w);
      for (int64_t r = 0; r < call.rows / group_; ++r) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += double(x[r * k + i]) * double(w[i]);
        out[r * n + row] = float(sum);
      }
    }
  }

private:
  WeightRows weight_;
  int64_t group_;
};

/// out[r] = W[token[r]]. An id outside the table gives a row of NaN; the context refuses such ids before.
class Embedding final : public Builtin {
public:
  explicit Embedding(AttributeReader &a) : weight_(a) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    std::vector<ArgNeed> needs{{"tokens", bytesOf({rows, 4})}};
    weight_.appendNeeds(needs);
    needs.push_back({"out", bytesOf({rows, weight_.k(), 4}), true});
    return needs;
  }
  int64_t tokenLimit() const override { return weight_.n(); }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const auto *tokens = static_cast<const int32_t *>(call.args[0]);
    auto *out = static_cast<float *>(call.args[1 + weight_.planes()]);
    for (int64_t r = begin; r < end; ++r) {
      float *row = out + r * weight_.k();
      if (tokens[r] >= 0 && tokens[r] < weight_.n())
        weight_.decode(call.args + 1, tokens[r], row);
      else
        for (int64_t i = 0; i < weight_.k(); ++i)
          row[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }

private:
  WeightRows weight_;
};

} // namespace

std::unique_ptr<Builtin> makeLinear(AttributeReader &a) { return std::make_unique<Linear>(a); }
std::unique_ptr<Builtin> makeEmbedding(AttributeReader &a) { return std::make_unique<Embedding>(a); }

} // namespace ninfer::reference
