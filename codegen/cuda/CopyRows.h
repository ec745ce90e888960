// Text of the kernel that moves rows (kernels/copy_rows.cuh).
#ifndef NINFER_CODEGEN_CUDA_COPYROWS_H
#define NINFER_CODEGEN_CUDA_COPYROWS_H

#include "codegen/cuda/KernelText.h"
#include "codegen/cuda/kernels/copy_rows_spec.cuh"

namespace ninfer::cuda {

/// As the functions of KernelText.h.
KernelText copyRowsKernel(const ni::CopyRowsSpec &spec, uint32_t sm);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_COPYROWS_H
