// Text of the attention kernel that takes every head size and row count (kernels/attention_rows.cuh).
#ifndef NINFER_CODEGEN_CUDA_ATTENTIONROWS_H
#define NINFER_CODEGEN_CUDA_ATTENTIONROWS_H

#include "codegen/cuda/KernelText.h"
#include "codegen/cuda/kernels/attention_rows_spec.cuh"

namespace ninfer::cuda {

/// As the functions of KernelText.h.
KernelText attentionRowsKernel(const ni::AttentionRowsSpec &spec, uint32_t sm);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_ATTENTIONROWS_H
