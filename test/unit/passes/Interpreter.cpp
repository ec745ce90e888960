#include "Interpreter.h"

#include "llvm/ADT/TypeSwitch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace mlir;

namespace ninfer::test {
namespace {

Matrix make(int64_t rows, int64_t width) {
  return {rows, width, std::vector<double>(static_cast<size_t>(rows * width))};
}

template <typename F>
Matrix map(const Matrix &a, const Matrix &b, F f) {
  EXPECT_TRUE(a.rows == b.rows && a.width == b.width);
  Matrix y = a;
  for (size_t i = 0; i < y.data.size(); ++i)
    y.data[i] = f(a.data[i], b.data[i]);
  return y;
}

/// RMS norm of consecutive pieces of w.width elements.
Matrix normed(const Matrix &x, const Matrix &w, double eps) {
  Matrix y = x;
  for (size_t start = 0; start < x.data.size(); start += static_cast<size_t>(w.width)) {
    double sum = 0;
    for (int64_t i = 0; i < w.width; ++i)
      sum += x.data[start + i] * x.data[start + i];
    for (int64_t i = 0; i < w.width; ++i)
      y.data[start + i] = x.data[start + i] / std::sqrt(sum / w.width + eps) * w.data[i];
  }
  return y;
}

Matrix times(const Matrix &x, const Matrix &w) {
  Matrix y = make(x.rows, w.rows);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t n = 0; n < w.rows; ++n)
      for (int64_t k = 0; k < x.width; ++k)
        y.at(r, n) += x.at(r, k) * w.at(n, k);
  return y;
}

Matrix rotated(const Matrix &x, int64_t heads, int64_t position) {
  const int64_t dim = x.width / heads;
  Matrix y = x;
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < dim / 2; ++i) {
        double angle = static_cast<double>(position + r) / static_cast<double>(i + 1);
        int64_t a = h * dim + i, b = a + dim / 2;
        y.at(r, a) = x.at(r, a) * std::cos(angle) - x.at(r, b) * std::sin(angle);
        y.at(r, b) = x.at(r, b) * std::cos(angle) + x.at(r, a) * std::sin(angle);
      }
  return y;
}

} // namespace

Matrix Interpreter::weight(const std::string &symbol, Type type) {
  auto shape = cast<WeightType>(type);
  Matrix w = make(shape.getN(), shape.getK());
  std::seed_seq seed(symbol.begin(), symbol.end());
  std::mt19937 random(seed);
  for (double &value : w.data)
    value = static_cast<double>(random() % 2001) / 1000.0 - 1.0;
  return w;
}

void Interpreter::runInner(Operation &op, Block &block, Frame &frame) {
  Frame inner;
  for (auto [argument, operand] : llvm::zip_equal(block.getArguments(), op.getOperands()))
    inner[argument] = frame[operand];
  std::vector<Matrix> results = run(block, inner);
  for (auto [result, matrix] : llvm::zip_equal(op.getResults(), results))
    frame[result].matrix = matrix;
}

void Interpreter::runOp(Operation &op, Frame &frame) {
  auto in = [&](Value value) -> const Matrix & { return frame[value].matrix; };
  auto w = [&](Value value) { return weight(frame[value].symbol, value.getType()); };
  auto out = [&](Matrix matrix) { frame[op.getResult(0)].matrix = std::move(matrix); };
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](ParamOp o) { frame[o.getResult()].symbol = o.getParameter().str(); })
      .Case([&](StateRefOp o) { frame[o.getResult()].symbol = o.getState().str(); })
      .Case([&](FusedOp o) { runInner(op, *o.getBlock(), frame); })
      .Case([&](LaunchOp o) {
        auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(o, o.getKernelAttr());
        runInner(op, *kernel.getBlock(), frame);
      })
      .Case([&](EmbeddingOp o) {
        Matrix table = w(o.getWeight()), y = make(in(o.getTokens()).rows, table.width);
        for (int64_t r = 0; r < y.rows; ++r)
          for (int64_t i = 0; i < y.width; ++i)
            y.at(r, i) = table.at(static_cast<int64_t>(in(o.getTokens()).data[r]), i);
        out(y);
      })
      .Case([&](RmsNormOp o) { out(normed(in(o.getX()), w(o.getWeight()), o.getEps())); })
      .Case([&](HeadNormOp o) { out(normed(in(o.getX()), w(o.getWeight()), o.getEps())); })
      .Case([&](LinearOp o) { out(times(in(o.getX()), w(o.getWeight()))); })
      .Case([&](RopeOp o) { out(rotated(in(o.getX()), o.getHeads(), position_)); })
      .Case([&](SwigluOp o) {
        out(map(in(o.getGate()), in(o.getUp()),
                [](double g, double u) { return g / (1 + std::exp(-g)) * u; }));
      })
      .Case([&](AddOp o) {
        out(map(in(o.getLhs()), in(o.getRhs()), [](double a, double b) { return a + b; }));
      })
      .Case([&](LastRowOp o) {
        const Matrix &x = in(o.getX());
        out({1, x.width, std::vector<double>(x.data.end() - x.width, x.data.end())});
      })
      .Case([&](TapOp o) {
        const std::vector<double> &values = in(o.getX()).data;
        taps_.insert(taps_.end(), values.begin(), values.end());
      })
      .Case([&](KvAppendOp o) {
        Cache &cache = caches_[frame[o.getCache()].symbol];
        for (auto [plane, value] :
             {std::pair{&cache.keys, o.getKey()}, std::pair{&cache.values, o.getValue()}}) {
          const Matrix &x = in(value);
          plane->width = x.width;
          plane->rows = position_ + x.rows;
          plane->data.resize(static_cast<size_t>(plane->rows * x.width));
          std::copy(x.data.begin(), x.data.end(), plane->data.begin() + position_ * x.width);
        }
      })
      .Case([&](AttentionOp o) {
        const Matrix &q = in(o.getQuery());
        const Cache &cache = caches_[frame[o.getCache()].symbol];
        const int64_t heads = o.getHeads(), dim = q.width / heads, share = heads / o.getKvHeads();
        Matrix y = make(q.rows, q.width);
        for (int64_t r = 0; r < q.rows; ++r)
          for (int64_t h = 0; h < heads; ++h) {
            double sum = 0;
            const int64_t kv = h / share * dim;
            for (int64_t p = 0; p <= position_ + r; ++p) {
              double score = 0;
              for (int64_t i = 0; i < dim; ++i)
                score += q.at(r, h * dim + i) * cache.keys.at(p, kv + i);
              const double weight = std::exp(std::clamp(score * o.getScale(), -50.0, 50.0));
              sum += weight;
              for (int64_t i = 0; i < dim; ++i)
                y.at(r, h * dim + i) += weight * cache.values.at(p, kv + i);
            }
            for (int64_t i = 0; i < dim; ++i)
              y.at(r, h * dim + i) /= sum;
          }
        out(y);
      })
      .Default([](Operation *other) {
        ADD_FAILURE() << "no rule for " << other->getName().getStringRef().str();
      });
}

std::vector<Matrix> Interpreter::run(Block &block, Frame &frame) {
  for (Operation &op : block.without_terminator())
    runOp(op, frame);
  std::vector<Matrix> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(frame[value].matrix);
  return results;
}

std::vector<double> Interpreter::call(llvm::StringRef function, const std::vector<int32_t> &tokens,
                                      int64_t position) {
  auto callee = module_.lookupSymbol<func::FuncOp>(function);
  EXPECT_TRUE(callee) << function.str();
  if (!callee)
    return {};
  position_ = position;
  Frame frame;
  frame[callee.getArgument(0)].matrix = {
      static_cast<int64_t>(tokens.size()), 1, {tokens.begin(), tokens.end()}};
  taps_.clear();
  std::vector<double> values = run(callee.getBody().front(), frame).front().data;
  values.insert(values.end(), taps_.begin(), taps_.end());
  return values;
}

} // namespace ninfer::test
