// The kernel keys that are proven: each is compiled by NVRTC for every architecture and run by the emulator against its
// oracle. docs/cuda.md shows them as the support matrix.
#ifndef NINFER_TEST_CUDA_KEYS_H
#define NINFER_TEST_CUDA_KEYS_H

#include "codegen/cuda/CopyRows.h"
#include "codegen/cuda/GatedDeltaRows.h"
#include "codegen/cuda/KernelText.h"
#include "codegen/cuda/VisionText.h"

#include <string>
#include <vector>

namespace ninfer::cuda::keys {

/// Names in tests and in the matrix are those of the kernels, without "_sm<N>".
std::vector<ni::LinearSpec> linear();
std::vector<ni::LinearSegmentsSpec> segments();
std::vector<ni::GemmSpec> gemm();
std::vector<ni::Format> pack();
std::vector<ni::NormSpec> norm();
std::vector<ni::ElementwiseSpec> elementwise();
std::vector<ni::EmbeddingSpec> embedding();
std::vector<ni::ArgmaxSpec> argmax();
std::vector<ni::RopeAppendSpec> ropeAppend();
std::vector<ni::AttentionDecodeSpec> attentionDecode();
std::vector<ni::AttentionPrefillSpec> attentionPrefill();
std::vector<ni::CausalConvSpec> causalConv();
std::vector<ni::GatedDeltaSpec> gatedDelta();
std::vector<ni::DeltaChunkedSpec> deltaChunked();
std::vector<ni::GatedDeltaSpec> gatedDeltaRows();
std::vector<ni::CopyRowsSpec> copyRows();
std::vector<ni::LayerNormSpec> layerNorm();
std::vector<ni::BiasSpec> bias();
std::vector<ni::GeluSpec> gelu();
std::vector<ni::AxialRopeSpec> axialRope();
std::vector<ni::InterpolateSpec> interpolate();
std::vector<ni::FullAttentionSpec> fullAttention();
/// Of groupedGemmKernel.
struct GroupedGemm {
  ni::GemmSpec spec;
  uint32_t group;
};
std::vector<GroupedGemm> groupedGemm();
std::vector<ni::MoeRouteSpec> moeRoute();
std::vector<ni::MoeUpSpec> moeUp();
std::vector<ni::MoeDownSpec> moeDown();
std::vector<ni::MoeGroupedSpec> moeGrouped();

/// Texts of all keys an architecture has; `sm` as in linearKernel, 0: of all.
std::vector<KernelText> all(uint32_t sm);

/// Architectures every key is compiled for.
inline constexpr uint32_t kArchitectures[] = {75, 80, 86, 89, 90, 100, 103, 120, 121};

} // namespace ninfer::cuda::keys

#endif // NINFER_TEST_CUDA_KEYS_H
