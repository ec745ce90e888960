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
  LinearProblem(ni::Format format, uint32_t n, uint32_t k, uint32_t rows, ni::Prologue prologue, ni::Epilogue epilogue);

  ni::Prologue prologue;
  ni::Epilogue epilogue;
  uint32_t n, k, rows;
  Weight weight, up; ///< up: Swiglu only
  std::vector<uint16_t> x, norm, residual;

  /// [rows][n]. `sums` is how many partial sums the kernel adds at the end.
  std::vector<Expected> expected(uint32_t sums) const;
};

} // namespace ninfer::cuda

#endif // NINFER_TEST_CUDA_LINEARORACLE_H
