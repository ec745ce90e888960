// Text of the delta rule that takes every head size (kernels/gated_delta_rows.cuh).
#ifndef NINFER_CODEGEN_CUDA_GATEDDELTAROWS_H
#define NINFER_CODEGEN_CUDA_GATEDDELTAROWS_H

#include "codegen/cuda/KernelText.h"
#include "codegen/cuda/kernels/gated_delta_rows_spec.cuh"

namespace ninfer::cuda {

/// As gatedDeltaKernel of KernelText.h, with the same parameters.
KernelText gatedDeltaRowsKernel(const ni::GatedDeltaSpec &spec, uint32_t sm);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_GATEDDELTAROWS_H
