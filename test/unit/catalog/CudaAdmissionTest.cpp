// What admission lets through for CUDA targets has a specialisation record: the rules of the catalog against those of
// codegen/cuda/kernels, over every head size and around every other built-in value.
#include "Requests.h"

#include "codegen/cuda/Tuning.h"
#include "codegen/cuda/kernels/attention_rows_spec.cuh"
#include "codegen/cuda/kernels/attention_spec.cuh"
#include "codegen/cuda/kernels/gated_delta_rows_spec.cuh"
#include "codegen/cuda/kernels/vision_spec.cuh"

#include <gtest/gtest.h>

#include <bit>

namespace ninfer {
namespace {

constexpr uint32_t kSharedOnSm80 = 99 * 1024; ///< the least a block of sm_80 .. sm_121 may have, as the device table says

KernelSignature attention(uint32_t dim, StateCodec codec, int64_t rows, uint32_t heads) {
  KernelSignature s = test::request(OpKind::Attention);
  s.kvHeads = 2;
  s.heads = 2 * heads;
  s.headDim = dim;
  s.codec = codec;
  s.rows = s.inputRows = RowRange{1, rows};
  return s;
}

TEST(CudaAdmission, EveryAdmittedHeadHasARecordThatFits) {
  size_t decode = 0, prefill = 0, rows = 0;
  for (std::string_view name : {"cuda:sm_75", "cuda:sm_80", "cuda:sm_121"}) {
    const bool half = name == "cuda:sm_75";
    const ni::Operands operands = half ? ni::Operands::F16 : ni::Operands::Bf16;
    const uint32_t shared = half ? 64 * 1024 : kSharedOnSm80;
    for (uint32_t dim = 2; dim <= 520; dim += 2)
      for (StateCodec codec : {StateCodec::BF16, StateCodec::Int8})
        for (uint32_t group : {1u, 3u, 6u, 16u})
          for (int64_t count : {1, 2, 5, 11, 21, 64, 65, 512}) {
            const KernelSignature s = attention(dim, codec, count, group);
            const AdmissionResult result = admitKernel(s, test::target(name));
            const auto cache = codec == StateCodec::BF16 ? ni::CacheCodec::Bf16 : ni::CacheCodec::Int8;
            const std::string where = std::string(name) + ": " + describe(s);
            if (dim > 512) {
              EXPECT_EQ(result.selected, nullptr) << where;
              continue;
            }
            ASSERT_NE(result.selected, nullptr) << where;
            const std::string_view family = result.selected->name;
            if (family == "cuda.attention_decode" || family == "cuda.attention_decode_half") {
              const ni::AttentionDecodeSpec spec{.heads = 2 * group, .kvHeads = 2, .dim = dim, .rows = uint32_t(count),
                                                 .codec = cache, .operands = operands};
              ASSERT_TRUE(ni::attentionAccepts(spec)) << where;
              ASSERT_LE(ni::attentionShared(spec), shared) << where;
              ASSERT_EQ(family == "cuda.attention_decode_half", half) << where;
              ++decode;
            } else if (family == "cuda.attention_prefill") {
              for (uint32_t warps : {4u, 8u}) {
                if (warps == 8 && dim > 128)
                  continue; // codegen/cuda/ir/Specialize.cpp
                const ni::AttentionPrefillSpec spec{.heads = 2 * group, .kvHeads = 2, .dim = dim, .codec = cache,
                                                    .warps = warps, .operands = operands};
                ASSERT_TRUE(ni::prefillAccepts(spec)) << where;
                ASSERT_LE(ni::prefillShared(spec), shared) << where;
              }
              ++prefill;
            } else {
              ASSERT_EQ(family, "cuda.attention_rows") << where;
              ASSERT_TRUE(ni::attentionRowsAccepts({.heads = 2 * group, .kvHeads = 2, .dim = dim, .codec = cache})) << where;
              ASSERT_TRUE(dim % 16 != 0 || dim > 256) << where << ": a tensor-core kernel takes these heads";
              ++rows;
            }
          }
  }
  EXPECT_GT(decode, 500u);
  EXPECT_GT(prefill, 500u);
  EXPECT_GT(rows, 500u);
}

ni::Format formatOf(Format f) { return static_cast<ni::Format>(f); }

/// Rows, N and K around every value that a kernel has built in, for every format: what is accepted has a record within the shared
/// memory of every card, what is not names each kernel and the condition it breaks.
TEST(CudaAdmission, LinearMapsAroundEveryBuiltInSize) {
  size_t accepted = 0, refused = 0;
  for (std::string_view name : {"cuda:sm_75", "cuda:sm_80"}) {
    const bool half = name == "cuda:sm_75";
    const ni::Operands operands = half ? ni::Operands::F16 : ni::Operands::Bf16;
    for (Format format : {Format::BF16, Format::Q4G64_F16S, Format::Q5G64_F16S, Format::Q6G64_F16S, Format::W8G32_F16S,
                          Format::NVFP4, Format::FP8_E4M3FN_ROW_BF16S, Format::FP32})
      for (int64_t k : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 5120, (1 << 20) - 8,
                        1 << 20, (1 << 20) + 8})
        for (int64_t n : {1, 15, 16, 17, 127, 128, 129, 2047, 2048, 2049, 5120, 1 << 24, (1 << 24) + 1})
          for (int64_t rows : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 4095, 4096, 4097}) {
            KernelSignature s = test::linear(format, n, k);
            s.rows = s.inputRows = RowRange{1, rows};
            const AdmissionResult result = admitKernel(s, test::target(name));
            const std::string what = std::string(name) + ": " + describe(s);
            if (!result.selected) {
              ++refused;
              ASSERT_EQ(result.verdicts.size(), 2u) << what;
              for (const Verdict &verdict : result.verdicts)
                ASSERT_NE(verdict.reason.find(": expected "), std::string::npos) << what << ": " << verdict.family->name;
              const bool legal = ni::hasPanels(formatOf(format)) && k <= 1 << 20 && n <= 1 << 24 &&
                                 (rows <= 16 || (rows <= 4096 && k % 8 == 0));
              ASSERT_FALSE(legal) << what << ": a kernel takes this";
            } else if (result.selected->name == "cuda.linear") {
              ++accepted;
              const ni::LinearSpec spec = cuda::tunedLinear(formatOf(format), uint32_t(std::bit_ceil(uint64_t(rows))), uint32_t(k),
                                                            ni::Prologue::None, ni::Epilogue::Store, ni::OutputType::Bf16, operands);
              ASSERT_TRUE(ni::linearAccepts(spec)) << what;
              ASSERT_LE(ni::linearShared(spec), 48u * 1024) << what;
            } else {
              ++accepted;
              ASSERT_EQ(result.selected->name, "cuda.gemm") << what;
              const uint32_t shared = half ? 64 * 1024 : kSharedOnSm80;
              const ni::GemmSpec spec = cuda::tunedGemm(formatOf(format), uint32_t(rows), uint32_t(k), ni::Epilogue::Store,
                                                        ni::OutputType::Bf16, shared, operands);
              ASSERT_TRUE(ni::gemmAccepts(spec)) << what;
              ASSERT_LE(ni::gemmShared(spec), shared) << what;
            }
          }
  }
  EXPECT_GT(accepted, 10000u);
  EXPECT_GT(refused, 10000u);
}

TEST(CudaAdmission, EveryAdmittedDeltaRuleHasARecord) {
  for (uint32_t keyDim = 2; keyDim <= 320; keyDim += 2)
    for (uint32_t valueDim : {8u, 15u, 16u, 17u, 32u, 128u, 1024u}) {
      KernelSignature s = test::request(OpKind::GatedDelta);
      s.keyDim = keyDim;
      s.headDim = valueDim;
      const ni::GatedDeltaSpec spec = {.keyHeads = 16, .valueHeads = 48, .keyDim = keyDim, .valueDim = valueDim};
      const std::string_view expected = ni::deltaAccepts(spec)       ? "cuda.gated_delta"
                                        : ni::deltaRowsAccepts(spec) ? "cuda.gated_delta_rows"
                                                                     : "";
      for (std::string_view name : {"cuda:sm_75", "cuda:sm_89"}) {
        const KernelFamily *selected = admitKernel(s, test::target(name)).selected;
        EXPECT_EQ(selected ? std::string_view(selected->name) : "", expected) << name << ": " << describe(s);
      }
    }
}

TEST(CudaAdmission, EveryHeadOfATowerHasARecord) {
  for (uint32_t dim = 1; dim <= 260; ++dim) {
    KernelSignature s = test::request(OpKind::FullAttention);
    s.headDim = dim;
    EXPECT_EQ(admitKernel(s, test::target("cuda:sm_75")).selected != nullptr, ni::fullAccepts({.heads = 16, .dim = dim})) << dim;
  }
}

TEST(CudaAdmission, EveryOperatorIsThereForEveryArchitecture) {
  for (uint32_t sm : kCudaArchitectures)
    for (OpKind op : {OpKind::Embedding, OpKind::Linear, OpKind::RmsNorm, OpKind::HeadNorm, OpKind::GatedHeadNorm, OpKind::MoeRoute,
                      OpKind::MoeUp, OpKind::MoeDown, OpKind::CausalConv, OpKind::GatedDelta, OpKind::RopeAppend, OpKind::Attention,
                      OpKind::Swiglu, OpKind::SigmoidGate, OpKind::Add, OpKind::StoreRows, OpKind::LoadRows, OpKind::Concat,
                      OpKind::LastRow, OpKind::LayerNorm, OpKind::Bias, OpKind::Gelu, OpKind::AxialRope, OpKind::Interpolate})
      EXPECT_NE(admitKernel(test::request(op), test::target("cuda:sm_" + std::to_string(sm))).selected, nullptr)
          << sm << " " << opKindName(op);
}

} // namespace
} // namespace ninfer
