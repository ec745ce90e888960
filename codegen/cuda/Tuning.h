// Choices of a specialisation record that change speed but no result: how a kernel splits its work. One answer per shape,
// from rules with a reason each; a measured table may replace them without any kernel changing.
#ifndef NINFER_CODEGEN_CUDA_TUNING_H
#define NINFER_CODEGEN_CUDA_TUNING_H

#include "codegen/cuda/kernels/delta_spec.cuh"
#include "codegen/cuda/kernels/gemm_spec.cuh"
#include "codegen/cuda/kernels/moe_spec.cuh"

#include <cstdint>
#include <vector>

namespace ninfer::cuda {

/// Row capacities F1 kernels are built for: a launch of r rows uses the smallest that holds r.
inline constexpr uint32_t kRowBuckets[] = {1, 2, 4, 8, 16};

/// F1 record for a shape. The result satisfies linearAccepts and needs at most 48 KiB of shared memory.
ni::LinearSpec tunedLinear(ni::Format format, uint32_t rows, uint32_t k, ni::Prologue prologue = ni::Prologue::None,
                           ni::Epilogue epilogue = ni::Epilogue::Store, ni::OutputType output = ni::OutputType::Bf16,
                           ni::Operands operands = ni::Operands::Bf16);

/// Record of several linear maps of the same rows, n[i] outputs in formats[i]; at most ni::kMaxSegments.
/// `roomy`: registers as if one block per multiprocessor were enough.
ni::LinearSegmentsSpec tunedSegments(const std::vector<ni::Format> &formats, const std::vector<uint32_t> &n, uint32_t rows, uint32_t k,
                                     ni::Prologue prologue, ni::Operands operands = ni::Operands::Bf16, bool roomy = false);

/// F2 record for a shape, within `sharedPerBlock` bytes (of the device table). `rows` is the typical call.
ni::GemmSpec tunedGemm(ni::Format format, uint32_t rows, uint32_t k, ni::Epilogue epilogue, ni::OutputType output,
                       uint32_t sharedPerBlock, ni::Operands operands = ni::Operands::Bf16);

/// Record of a map of experts for many rows, within `sharedPerBlock` bytes.
ni::MoeGroupedSpec tunedGrouped(ni::Format format, uint32_t k, uint32_t topK, bool down, uint32_t sharedPerBlock);

/// Record of the delta rule in chunks; satisfies deltaChunkedAccepts for every shape that deltaAccepts. `rows` is the most of
/// a call.
ni::DeltaChunkedSpec tunedDeltaChunked(uint32_t keyHeads, uint32_t valueHeads, uint32_t keyDim, uint32_t valueDim, uint32_t rows);

} // namespace ninfer::cuda

#endif // NINFER_CODEGEN_CUDA_TUNING_H
