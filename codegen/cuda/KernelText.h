// From a specialisation record to the text of one CUDA kernel: its name, the translation unit NVRTC (or the emulator's
// host compiler) reads, its parameters and the shape of its launch. Records: kernels/*_spec.cuh. Contract: docs/cuda.md.
#ifndef NINFER_CODEGEN_CUDA_KERNELTEXT_H
#define NINFER_CODEGEN_CUDA_KERNELTEXT_H

#include "codegen/cuda/kernels/attention_spec.cuh"
#include "codegen/cuda/kernels/delta_spec.cuh"
#include "codegen/cuda/kernels/gemm_spec.cuh"
#include "codegen/cuda/kernels/moe_spec.cuh"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer::cuda {

/// One parameter of a kernel, in launch order.
struct KernelParam {
  std::string_view name;
  uint32_t bytes; ///< 8: device pointer; 4: 32-bit scalar
};

struct KernelText {
  std::string name;   ///< "ni_linear_q4g64_r1_k5120_swiglu_sm89"; also the symbol in the cubin
  std::string family; ///< "linear"
  std::string header; ///< the .cuh it needs
  std::string line;   ///< the instantiation
  std::vector<KernelParam> params;
  uint32_t threads = 0;     ///< per block, a multiple of 32
  uint32_t sharedBytes = 0; ///< dynamic shared memory

  /// The translation unit: include and instantiation.
  std::string source() const;
};

/// "q4g64", "w8g32", "nvfp4", "fp8", "bf16".
std::string_view shortName(ni::Format format);

// `sm` 89 gives the suffix "_sm89"; 0 none.

KernelText linearKernel(const ni::LinearSpec &spec, uint32_t sm);
/// Several linear maps of the same rows.
KernelText segmentsKernel(const ni::LinearSegmentsSpec &spec, uint32_t sm);
KernelText gemmKernel(const ni::GemmSpec &spec, uint32_t sm);
/// Stored layout -> packed weight.
KernelText packKernel(ni::Format format, uint32_t sm);
KernelText normKernel(const ni::NormSpec &spec, uint32_t sm);
KernelText elementwiseKernel(const ni::ElementwiseSpec &spec, uint32_t sm);
KernelText embeddingKernel(const ni::EmbeddingSpec &spec, uint32_t sm);
KernelText argmaxKernel(const ni::ArgmaxSpec &spec, uint32_t sm);
KernelText ropeAppendKernel(const ni::RopeAppendSpec &spec, uint32_t sm);
KernelText attentionDecodeKernel(const ni::AttentionDecodeSpec &spec, uint32_t sm);
KernelText attentionPrefillKernel(const ni::AttentionPrefillSpec &spec, uint32_t sm);
KernelText causalConvKernel(const ni::CausalConvSpec &spec, uint32_t sm);
KernelText gatedDeltaKernel(const ni::GatedDeltaSpec &spec, uint32_t sm);
KernelText deltaChunkedKernel(const ni::DeltaChunkedSpec &spec, uint32_t sm);
KernelText moeRouteKernel(const ni::MoeRouteSpec &spec, uint32_t sm);
KernelText moeUpKernel(const ni::MoeUpSpec &spec, uint32_t sm);
KernelText moeDownKernel(const ni::MoeDownSpec &spec, uint32_t sm);
KernelText moeGroupedKernel(const ni::MoeGroupedSpec &spec, uint32_t sm);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_KERNELTEXT_H
