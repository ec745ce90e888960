// Records whose K lies just below, at and above every value the kernels have built in: 16 (a step of the mma, a panel), 32 and
// 64 (groups), 128 (a block), 2048. Run by the emulator only (SweepTest.cpp).
#ifndef NINFER_TEST_CUDA_SWEEPKEYS_H
#define NINFER_TEST_CUDA_SWEEPKEYS_H

#include "codegen/cuda/KernelText.h"

#include <vector>

namespace ninfer::cuda::keys {

struct Sweep {
  std::vector<ni::LinearSpec> linear;
  std::vector<ni::GemmSpec> gemm;
  std::vector<ni::EmbeddingSpec> embedding;
  std::vector<ni::MoeUpSpec> up;
  std::vector<ni::MoeDownSpec> down;
  std::vector<ni::NormSpec> norm;
};
Sweep sweep();
/// Their texts, each name once.
std::vector<KernelText> sweepTexts();

} // namespace ninfer::cuda::keys

#endif // NINFER_TEST_CUDA_SWEEPKEYS_H
