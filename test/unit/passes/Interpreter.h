// Evaluates a component function in double precision, before and after every pass: operations,
// fused groups and launches. Weights are made up from the name of the parameter, so equal programs
// give equal numbers.
#ifndef NINFER_TEST_UNIT_PASSES_INTERPRETER_H
#define NINFER_TEST_UNIT_PASSES_INTERPRETER_H

#include "dialects/ninfer/NinferDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <string>
#include <vector>

namespace ninfer::test {

struct Matrix {
  int64_t rows = 0, width = 0;
  std::vector<double> data;
  double &at(int64_t r, int64_t i) { return data[static_cast<size_t>(r * width + i)]; }
  double at(int64_t r, int64_t i) const { return data[static_cast<size_t>(r * width + i)]; }
};

/// One sequence: its caches live as long as this object.
class Interpreter {
public:
  explicit Interpreter(mlir::ModuleOp module) : module_(module) {}

  /// Logits of one call of the function, and behind them the values of its taps, in order.
  std::vector<double> call(llvm::StringRef function, const std::vector<int32_t> &tokens,
                           int64_t position);

private:
  struct Cache {
    Matrix keys, values; ///< one row per position, KV heads side by side
  };
  /// What an SSA value is while a block runs.
  struct Slot {
    Matrix matrix;
    std::string symbol; ///< of a weight or a state
  };
  using Frame = llvm::DenseMap<mlir::Value, Slot>;

  std::vector<Matrix> run(mlir::Block &block, Frame &frame);
  void runOp(mlir::Operation &op, Frame &frame);
  void runInner(mlir::Operation &op, mlir::Block &block, Frame &frame);
  Matrix weight(const std::string &symbol, mlir::Type type);

  mlir::ModuleOp module_;
  std::map<std::string, Cache> caches_;
  int64_t position_ = 0;
  std::vector<double> taps_; ///< of the call in progress
};

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_PASSES_INTERPRETER_H
