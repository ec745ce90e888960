// Specialisation records of a vision tower's kernels.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_VISION_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_VISION_SPEC_CUH

#include "linear_spec.cuh"

namespace ni {

constexpr u32 kVisionThreads = 128; ///< of the kernels that have one element, or pair, of a row per thread
constexpr u32 visionBlocksX(u32 elements) { return divideUp(elements, kVisionThreads); }

struct LayerNormSpec {
  u32 width;
};
constexpr u32 kLayerNormShared = 16; ///< one binary32 per warp

struct BiasSpec {
  u32 group;                              ///< rows that share one vector of group * width elements
  OutputType output = OutputType::Bf16;
};

struct GeluSpec {
  bool tanh; ///< the approximation
};

struct AxialRopeSpec {
  u32 heads;
  u32 pairs; ///< of the table; a head has 4 * pairs elements
};

struct InterpolateSpec {
  u32 taps; ///< table rows that one row sums
};

struct FullAttentionSpec {
  u32 heads;
  u32 dim; ///< of a head, even
};
constexpr u32 kFullWarps = 4, kFullRowsPerWarp = 4, kFullThreads = kFullWarps * 32, kFullKeys = 32;
constexpr u32 kFullRows = kFullWarps * kFullRowsPerWarp; ///< queries of a thread block
/// Elements of a key or value in shared memory: an odd number of words, so that the keys of 32 lanes lie in 32 banks.
constexpr u32 fullStride(const FullAttentionSpec &s) { return s.dim % 4 == 0 ? s.dim + 2 : s.dim; }
constexpr u32 fullShared(const FullAttentionSpec &s) { return 2 * kFullKeys * fullStride(s) * 2 + kFullRows * s.dim * 4; }
constexpr u32 fullBlocksY(u32 rows) { return divideUp(rows, kFullRows); }
constexpr bool fullAccepts(const FullAttentionSpec &s) { return s.heads >= 1 && s.dim >= 2 && s.dim <= 192 && s.dim % 2 == 0; }

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_VISION_SPEC_CUH
