// The oracle of linear maps: random problems, and double products over the represented values of artifact/layouts.
#ifndef NINFER_TEST_CUDA_LINEARORACLE_H
#define NINFER_TEST_CUDA_LINEARORACLE_H

#include "codegen/cuda/kernels/linear_spec.cuh"
#include "test/cuda/Support.h"
#include "test/cuda/Weights.h"

#include <vector>

namespace ninfer::cuda {

inline constexpr float kLinearEps = 1e-6f;

struct LinearProblem {
  LinearProblem(ni::Format format, uint32_t n, uint32_t k, uint32_t rows, ni::Prologue prologue, ni::Epilogue epilogue,
                ni::Operands operands = ni::Operands::Bf16);

  ni::Format format;
  ni::Prologue prologue;
  ni::Epilogue epilogue;
  ni::Operands operands;
  uint32_t n, k, rows;
  Weight weight, up; ///< up: Swiglu only
  std::vector<uint16_t> x, norm, residual;

  /// [rows][n]. `sums` is how many partial sums the kernel adds at the end.
  std::vector<Expected> expected(uint32_t sums) const;
};

/// How far a product of K numbers may be off because bfloat16 numbers become binary16: those of x, and those of the weight if
/// `weightToo`. Each is off by at most 2^-40 of the largest in its 128 (kernels/half_operand.cuh). `K` words from k 0 on.
double halfSlack(const std::vector<float> &w, const std::vector<double> &x, bool weightToo);

} // namespace ninfer::cuda

#endif // NINFER_TEST_CUDA_LINEARORACLE_H
