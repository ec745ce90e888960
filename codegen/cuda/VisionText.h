// Texts of a vision tower's kernels (kernels/vision_rows.cuh, full_attention.cuh, gemm_grouped.cuh).
#ifndef NINFER_CODEGEN_CUDA_VISIONTEXT_H
#define NINFER_CODEGEN_CUDA_VISIONTEXT_H

#include "codegen/cuda/KernelText.h"
#include "codegen/cuda/kernels/vision_spec.cuh"

namespace ninfer::cuda {

// As the functions of KernelText.h.

KernelText layerNormKernel(const ni::LayerNormSpec &spec, uint32_t sm);
KernelText biasKernel(const ni::BiasSpec &spec, uint32_t sm);
KernelText geluKernel(const ni::GeluSpec &spec, uint32_t sm);
KernelText axialRopeKernel(const ni::AxialRopeSpec &spec, uint32_t sm);
KernelText interpolateKernel(const ni::InterpolateSpec &spec, uint32_t sm);
KernelText fullAttentionKernel(const ni::FullAttentionSpec &spec, uint32_t sm);
/// gemmKernel(spec) over rows that are `group` rows of the call.
KernelText groupedGemmKernel(const ni::GemmSpec &spec, uint32_t group, uint32_t sm);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_VISIONTEXT_H
