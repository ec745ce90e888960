// Built-ins of sparse mixture-of-experts layers. A routes row is `top_k` expert numbers, then as many weights.
#include "runtime/reference/Ops.h"
#include "runtime/reference/WeightRows.h"

#include <cmath>

namespace ninfer::reference {

namespace {

/// The top_k largest logits of a row, equal ones by rising number, and their softmax.
class MoeRoute final : public Builtin {
public:
  explicit MoeRoute(AttributeReader &a) : experts_(a.extent("experts", 1 << 24)), slots_(a.extent("top_k")) {
    a.require(slots_ <= experts_, "attribute 'top_k' is " + std::to_string(slots_) + ", expected at most the " +
                                      std::to_string(experts_) + " experts");
  }
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    return {{"logits", bytesOf({rows, experts_, 4})}, {"out", bytesOf({rows, slots_, 8}), true}};
  }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    std::vector<int64_t> order(static_cast<size_t>(slots_));
    for (int64_t r = begin; r < end; ++r) {
      const auto *logits = static_cast<const float *>(call.args[0]) + r * experts_;
      auto *out = static_cast<float *>(call.args[1]) + r * 2 * slots_;
      std::vector<bool> taken(static_cast<size_t>(experts_));
      for (int64_t &chosen : order) { // a NaN is larger than nothing, so numbers stay valid
        chosen = -1;
        for (int64_t e = 0; e < experts_; ++e)
          if (!taken[size_t(e)] && (chosen < 0 || logits[e] > logits[chosen]))
            chosen = e;
        taken[size_t(chosen)] = true;
      }
      double sum = 0;
      for (int64_t s = 0; s < slots_; ++s)
        sum += std::exp(double(logits[order[size_t(s)]]) - logits[order[0]]);
      for (int64_t s = 0; s < slots_; ++s) {
        out[s] = float(order[size_t(s)]);
        out[slots_ + s] = float(std::exp(double(logits[order[size_t(s)]]) - logits[order[0]]) / sum);
      }
    }
  }

private:
  int64_t experts_, slots_;
};

/// A bank of matrices of equal shape, expert by expert.
struct Bank {
  explicit Bank(AttributeReader &a)
      : weight(a), experts(a.extent("experts", 1 << 24)), slots(a.extent("top_k")),
        rowsPerExpert(weight.n() / experts) {
    a.require(weight.n() % experts == 0, "attribute 'n' is " + std::to_string(weight.n()) +
                                             ", expected a multiple of the " + std::to_string(experts) + " experts");
  }
  /// x, routes, planes, out.
  std::vector<ArgNeed> args(int64_t rows, int64_t inputs, int64_t outputs) const {
    std::vector<ArgNeed> needs{{"x", bytesOf({rows, inputs, 4})}, {"routes", bytesOf({rows, slots, 8})}};
    weight.appendNeeds(needs);
    needs.push_back({"out", bytesOf({rows, outputs, 4}), true});
    return needs;
  }
  float *out(const Call &call) const { return static_cast<float *>(call.args[2 + weight.planes()]); }
  /// Routes come from a route operator; anything that names no expert is taken for expert 0.
  int64_t expert(const Call &call, int64_t row, int64_t slot) const {
    const float number = static_cast<const float *>(call.args[1])[row * 2 * slots + slot];
    return number >= 0 && number < float(experts) ? int64_t(number) : 0;
  }
  double share(const Call &call, int64_t row, int64_t slot) const {
    return static_cast<const float *>(call.args[1])[row * 2 * slots + slots + slot];
  }
  double dot(const Call &call, int64_t bankRow, const float *x) const {
    auto *w = static_cast<float *>(call.scratch);
    weight.decode(call.args + 2, bankRow, w);
    double sum = 0;
    for (int64_t i = 0; i < weight.k(); ++i)
      sum += double(x[i]) * double(w[i]);
    return sum;
  }
  uint64_t scratchBytes() const { return bytesOf({weight.k(), 4}); }

  WeightRows weight;
  int64_t experts, slots, rowsPerExpert;
};

/// out[r][s][i] = silu(gate_e x) * (up_e x) with the expert e of slot s; an expert has its gate rows, then its up rows.
class MoeUp final : public Builtin {
public:
  explicit MoeUp(AttributeReader &a) : bank_(a), inner_(bank_.rowsPerExpert / 2) {
    a.require(bank_.rowsPerExpert % 2 == 0, "an expert has " + std::to_string(bank_.rowsPerExpert) +
                                                " rows, expected an even number");
  }
  int64_t units(int64_t rows) const override { return rows * bank_.slots; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    return bank_.args(rows, bank_.weight.k(), bank_.slots * inner_);
  }
  uint64_t scratchBytes() const override { return bank_.scratchBytes(); }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = unit / bank_.slots, slot = unit % bank_.slots;
      const auto *x = static_cast<const float *>(call.args[0]) + row * bank_.weight.k();
      const int64_t first = bank_.expert(call, row, slot) * bank_.rowsPerExpert;
      for (int64_t i = 0; i < inner_; ++i) {
        const double gate = bank_.dot(call, first + i, x), up = bank_.dot(call, first + inner_ + i, x);
        bank_.out(call)[unit * inner_ + i] = float(gate / (1 + std::exp(-gate)) * up);
      }
    }
  }

private:
  Bank bank_;
  int64_t inner_;
};

/// out[r] = sum over slots of weight * (down_e product).
class MoeDown final : public Builtin {
public:
  explicit MoeDown(AttributeReader &a) : bank_(a) {}
  int64_t units(int64_t rows) const override { return rows; }
  std::vector<ArgNeed> args(int64_t rows) const override {
    return bank_.args(rows, bank_.slots * bank_.weight.k(), bank_.rowsPerExpert);
  }
  uint64_t scratchBytes() const override { return bank_.scratchBytes(); }
  void run(const Call &call, int64_t begin, int64_t end) const override {
    const int64_t width = bank_.rowsPerExpert, k = bank_.weight.k();
    for (int64_t row = begin; row < end; ++row)
      for (int64_t i = 0; i < width; ++i) {
        double sum = 0;
        for (int64_t s = 0; s < bank_.slots; ++s) {
          const auto *x = static_cast<const float *>(call.args[0]) + (row * bank_.slots + s) * k;
          sum += bank_.share(call, row, s) * bank_.dot(call, bank_.expert(call, row, s) * width + i, x);
        }
        bank_.out(call)[row * width + i] = float(sum);
      }
  }

private:
  Bank bank_;
};

} // namespace

std::unique_ptr<Builtin> makeMoeRoute(AttributeReader &a) { return std::make_unique<MoeRoute>(a); }
std::unique_ptr<Builtin> makeMoeUp(AttributeReader &a) { return std::make_unique<MoeUp>(a); }
std::unique_ptr<Builtin> makeMoeDown(AttributeReader &a) { return std::make_unique<MoeDown>(a); }

} // namespace ninfer::reference
