// Random weights in their stored layout, their represented values, and the packed layout written from its definition in
// docs/cuda.md: shares no code with the kernels.
#ifndef NINFER_TEST_CUDA_WEIGHTS_H
#define NINFER_TEST_CUDA_WEIGHTS_H

#include "artifact/layouts/Layout.h"
#include "codegen/cuda/kernels/types.cuh"

#include <random>
#include <vector>

namespace ninfer::cuda {

struct Weight {
  EncodedGeometry geometry;
  std::vector<std::byte> object; ///< as an artifact holds it

  uint64_t n() const { return geometry.rows; }
  uint64_t k() const { return geometry.k; }
  /// Represented values of row `row`, by artifact/layouts.
  std::vector<float> values(uint64_t row) const;
};

/// Legal random codes over the whole range, all-zero groups and extreme codes included.
Weight randomWeight(ni::Format format, uint64_t n, uint64_t k, std::mt19937_64 &random);

/// panel-16x128 of the weight, element by element.
std::vector<uint8_t> packedByDefinition(const Weight &weight);

} // namespace ninfer::cuda

#endif // NINFER_TEST_CUDA_WEIGHTS_H
