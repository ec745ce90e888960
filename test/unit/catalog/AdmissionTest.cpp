// Which family admission selects, and what it says about the others.
#include "Requests.h"
#include "codegen/cpu/kernels/MicroKernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace ninfer {
namespace {

using test::linear;
using test::request;
using test::verdictOf;

std::string_view selected(const KernelSignature &s, std::string_view target = "cpu:x86-64-v3") {
  AdmissionResult result = admitKernel(s, test::target(target));
  return result.selected ? result.selected->name : "none";
}

TEST(Admission, ProfileFollowsFormatAndPolicy) {
  using enum Format;
  const struct {
    Format format;
    std::string_view a16Only, allowA8;
  } expected[] = {
      {Q4G64_F16S, "linear_a16", "linear_a8"},
      {Q5G64_F16S, "linear_a16", "linear_a8"},
      {Q6G64_F16S, "linear_a16", "linear_a8"},
      {W8G32_F16S, "linear_a16", "linear_a16"},
      {BF16, "linear_f32", "linear_f32"},
      {FP32, "linear_f32", "linear_f32"},
      {NVFP4, "linear_f32", "linear_f32"},
      {FP8_E4M3FN_ROW_BF16S, "linear_f32", "linear_f32"},
      {I32, "none", "none"},
  };
  for (const auto &row : expected) {
    SCOPED_TRACE(canonicalName(row.format));
    EXPECT_EQ(selected(linear(row.format, 128, 128)), row.a16Only);
    EXPECT_EQ(selected(linear(row.format, 128, 128, ActivationPolicy::AllowA8)), row.allowA8);
    EXPECT_EQ(selected(linear(row.format, 128, 128, ActivationPolicy::AllowA4)), row.allowA8);
  }
}

TEST(Admission, ManyRowsOfBytesTakeBytesWhereAnInstructionDoes) {
  KernelSignature s = linear(Format::W8G32_F16S, 128, 128, ActivationPolicy::AllowA8);
  for (const auto &[rows, expected] : {std::pair<int64_t, std::string_view>{16, "linear_a16"}, {17, "linear_a8"}}) {
    s.rows = s.inputRows = {1, rows};
    EXPECT_EQ(selected(s, "cpu:znver4"), expected) << rows;
    EXPECT_EQ(selected(s, "cpu:aarch64"), expected) << rows;
    EXPECT_EQ(selected(s, "cpu:x86-64-v3"), "linear_a16") << rows;
    EXPECT_EQ(selected(s, "cpu:x86-64-v4"), "linear_a16") << rows;
    s.policy = ActivationPolicy::A16Only;
    EXPECT_EQ(selected(s, "cpu:znver4"), "linear_a16") << rows;
    s.policy = ActivationPolicy::AllowA8;
  }
}

TEST(Admission, ExactlyOneIsAcceptedAndEveryCandidateHasAVerdict) {
  for (std::string_view name : {"cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:znver4", "reference"}) {
    KernelTarget target = test::target(name);
    for (int i = 0; i < kNumOpKinds; ++i) {
      auto op = static_cast<OpKind>(i);
      if (op == OpKind::RopeAppend && target.executor == "reference")
        continue;
      AdmissionResult result = admitKernel(request(op), target);
      ASSERT_NE(result.selected, nullptr) << name << " " << opKindName(op);
      int accepted = 0;
      for (const Verdict &verdict : result.verdicts) {
        accepted += verdict.kind == VerdictKind::Accepted;
        EXPECT_EQ(verdict.reason.empty(), verdict.kind == VerdictKind::Accepted);
        EXPECT_EQ(verdict.family->executor, target.executor);
      }
      EXPECT_EQ(accepted, 1);
      EXPECT_EQ(verdictOf(result, result.selected->name)->kind, VerdictKind::Accepted);
    }
  }
}

TEST(Admission, VerdictsOfALinear) {
  AdmissionResult result =
      admitKernel(linear(Format::Q6G64_F16S, 192, 576), test::target("cpu:x86-64-v3"));
  ASSERT_EQ(result.verdicts.size(), 3u);
  EXPECT_EQ(verdictOf(result, "linear_a8")->kind, VerdictKind::ForbiddenByPolicy);
  EXPECT_EQ(verdictOf(result, "linear_a8")->reason,
            "activation policy: expected AllowA8, got A16Only");
  EXPECT_EQ(verdictOf(result, "linear_f32")->kind, VerdictKind::LowerPriority);
  EXPECT_EQ(verdictOf(result, "linear_f32")->reason, "priority: linear_a16 has 20, this has 10");
}

TEST(Admission, StrictestPolicyOfAGroupDecides) {
  KernelSignature s = linear(Format::Q4G64_F16S, 64, 576);
  s.fused = true;
  s.weights.push_back({Format::W8G32_F16S, Layout::RowSplitK128V1, 32, 576});
  EXPECT_EQ(selected(s), "linear_a16");
  s.policy = ActivationPolicy::AllowA8; // set by the caller to the strictest of the segments
  EXPECT_EQ(selected(s), "linear_a8");
}

TEST(Admission, AMixedGroupRunsTheOneProfileThatAdmitsAll) {
  KernelSignature s = linear(Format::Q4G64_F16S, 64, 576, ActivationPolicy::AllowA8);
  s.fused = true;
  s.weights.push_back({Format::BF16, Layout::ContiguousLeV1, 32, 576});
  AdmissionResult result = admitKernel(s, test::target("cpu:x86-64-v3"));
  ASSERT_NE(result.selected, nullptr);
  EXPECT_EQ(result.selected->name, "linear_f32");
  EXPECT_EQ(verdictOf(result, "linear_a16")->reason,
            "format of segment 1: expected one of Q4G64_F16S, Q5G64_F16S, Q6G64_F16S, W8G32_F16S, "
            "got BF16");
}

TEST(Admission, NoneIsExplainedNearestFirst) {
  KernelSignature s = linear(Format::I32, 34816, 5120);
  s.rows = s.inputRows = {1, 8};
  KernelTarget target = test::target("cpu:x86-64-v3");
  AdmissionResult result = admitKernel(s, target);
  EXPECT_EQ(result.selected, nullptr);
  EXPECT_EQ(noKernelMessage(s, target),
            "no kernel for I32 linear 34816x5120, rows 1..8, on cpu:x86-64-v3");
  ASSERT_EQ(result.nearest().size(), 3u);
  for (const Verdict *verdict : result.nearest())
    EXPECT_NE(verdict->reason.find("format: expected one of"), std::string::npos)
        << verdict->reason;
}

TEST(Admission, NearestCountsFailedPredicates) {
  KernelSignature s =
      linear(Format::BF16, int64_t{1} << 25, 576); // n too large for all, format wrong for two
  AdmissionResult result = admitKernel(s, test::target("cpu:x86-64-v3"));
  ASSERT_EQ(result.selected, nullptr);
  auto nearest = result.nearest();
  EXPECT_EQ(nearest[0]->family->name, "linear_f32");
  EXPECT_EQ(nearest[0]->reason, "n: expected at most 16777216, got 33554432");
  EXPECT_EQ(nearest[1]->family->name, "linear_a8");
  EXPECT_EQ(nearest[1]->failures, 2);
}

TEST(Admission, ReferenceRunsSingleOperatorsOnly) {
  KernelSignature s = linear(Format::Q4G64_F16S, 64, 576);
  EXPECT_EQ(selected(s, "reference"), "ref.linear");
  s.fused = true;
  AdmissionResult fused = admitKernel(s, test::target("reference"));
  EXPECT_EQ(fused.selected, nullptr);
  EXPECT_EQ(fused.verdicts.front().reason, "fusion: expected a single operator, got a fused group");
  AdmissionResult ropeAppend = admitKernel(request(OpKind::RopeAppend), test::target("reference"));
  EXPECT_EQ(ropeAppend.selected, nullptr);
  EXPECT_TRUE(ropeAppend.verdicts.empty());
}

TEST(Admission, ReferenceTakesAllFormats) {
  for (const FormatInfo &info : allFormats())
    EXPECT_EQ(selected(linear(info.format, 128, 128), "reference"), "ref.linear") << info.canonical;
}

TEST(Admission, TargetFeaturesAreNamed) {
  KernelTarget target = test::target("cpu:x86-64-v3");
  std::erase(target.features, "f16c");
  AdmissionResult result = admitKernel(request(OpKind::Add), target);
  EXPECT_EQ(result.selected, nullptr);
  EXPECT_EQ(result.verdicts.front().reason,
            "target feature: expected f16c, got a target without it");
}

TEST(Admission, RulesBetweenTwoFields) {
  KernelTarget target = test::target("cpu:x86-64-v3");
  auto reason = [&](const KernelSignature &s) {
    AdmissionResult result = admitKernel(s, target);
    EXPECT_EQ(result.selected, nullptr);
    return result.verdicts.front().reason;
  };
  KernelSignature s = request(OpKind::Attention);
  s.heads = 10;
  EXPECT_EQ(reason(s), "heads: expected a multiple of the 3 kv heads, got 10");
  s = request(OpKind::Attention);
  s.rows = s.inputRows = {1, 4096};
  EXPECT_EQ(reason(s), "rows: expected at most the capacity 2048, got 4096");
  s = linear(Format::Q4G64_F16S, 64, 576);
  s.epilogue = KernelEpilogue::Swiglu;
  s.policy = ActivationPolicy::AllowA8;
  EXPECT_EQ(reason(s), "segments with the swiglu epilogue: expected 2, got 1");
  s.weights.push_back(s.weights.front());
  EXPECT_NE(admitKernel(s, target).selected, nullptr);
  s.weights[1].n = 65;
  EXPECT_EQ(reason(s), "n of segment 1: expected 64 as in segment 0, got 65");
  s.weights[1] = s.weights[0];
  s.epilogue = KernelEpilogue::Residual;
  EXPECT_EQ(reason(s), "segments with the residual epilogue: expected 1, got 2");
  s.epilogue = KernelEpilogue::Store;
  s.weights[1].k = 512;
  EXPECT_EQ(reason(s), "k of segment 1: expected 576 as in segment 0, got 512");
  s = linear(Format::Q4G64_F16S, 64, 576, ActivationPolicy::AllowA8);
  s.weights[0].layout = Layout::ContiguousLeV1;
  EXPECT_EQ(reason(s), "layout: expected a layout registered for Q4G64_F16S, got contiguous-le-v1");
  s = request(OpKind::RopeAppend);
  s.headDim = 63;
  EXPECT_EQ(reason(s), "rotary dim: expected at most the head dim 63, got 64");
  s.rotaryDim = 61;
  EXPECT_EQ(reason(s), "rotary dim: expected a multiple of 2, got 61");
  s = request(OpKind::GatedDelta);
  s.heads = 50;
  EXPECT_EQ(reason(s), "heads: expected a multiple of the 16 key heads, got 50");
  s = request(OpKind::RmsNorm);
  s.normFormats = {Format::FP32};
  EXPECT_EQ(reason(s), "norm format: expected BF16, got FP32");
}

// A peek works in a copy that lasts for one block of tokens.
TEST(Admission, PeeksAreShort) {
  KernelSignature s = request(OpKind::GatedDelta);
  s.peek = true;
  for (int64_t rows : {kMicroDeltaTokens, kMicroDeltaTokens + 1}) {
    s.rows = s.inputRows = {1, rows};
    EXPECT_EQ(admitKernel(s, test::target("cpu:x86-64-v3")).selected != nullptr,
              rows == kMicroDeltaTokens);
    EXPECT_NE(admitKernel(s, test::target("reference")).selected, nullptr);
  }
  const AdmissionResult refused = admitKernel(s, test::target("cpu:x86-64-v3"));
  EXPECT_EQ(refused.nearest().front()->reason,
            "rows that leave the state as it was: expected at most 16, got 17");
  KernelSignature norm = request(OpKind::RmsNorm);
  norm.peek = true;
  EXPECT_EQ(admitKernel(norm, test::target("reference")).selected, nullptr);
}

// Linears of one input share a launch of few rows on CUDA, whatever their formats; not what is stored in float32, nor gate and
// up of different formats, nor many rows.
TEST(Admission, SegmentsOfCudaLinears) {
  const KernelTarget target = test::target("cuda:sm_89");
  const auto reason = [&](const KernelSignature &s) {
    const AdmissionResult result = admitKernel(s, target);
    return result.selected ? std::string(result.selected->name) : result.verdicts.front().reason;
  };
  KernelSignature s = linear(Format::Q4G64_F16S, 64, 576);
  s.fused = true;
  for (Format format : {Format::BF16, Format::W8G32_F16S})
    s.weights.push_back(linear(format, 48, 576).weights.front());
  EXPECT_EQ(reason(s), "cuda.linear");
  s.wide = true;
  EXPECT_EQ(reason(s), "segments stored in float32: expected at most 1, got 3");
  s.wide = false;
  s.rows = s.inputRows = {1, 17};
  EXPECT_EQ(reason(s), "rows: expected at most 16, got 17");
  s.rows = s.inputRows = {1, 1};
  s.weights.pop_back();
  s.weights[1].n = 64;
  s.epilogue = KernelEpilogue::Swiglu;
  EXPECT_EQ(reason(s), "format of segment 1: expected Q4G64_F16S as in segment 0, got BF16");
}

// A prefill takes the delta rule in chunks and experts with their rows grouped, what fits a verification row by row; the other
// one is on record.
TEST(Admission, ManyRowsOnCudaAreTakenTogether) {
  const KernelTarget target = test::target("cuda:sm_89");
  const std::tuple<OpKind, std::string_view, std::string_view> cases[] = {
      {OpKind::GatedDelta, "cuda.gated_delta", "cuda.gated_delta_chunked"},
      {OpKind::MoeUp, "cuda.moe_up", "cuda.moe_up_grouped"},
      {OpKind::MoeDown, "cuda.moe_down", "cuda.moe_down_grouped"}};
  for (const auto &[op, few, many] : cases) {
    KernelSignature s = request(op);
    for (int64_t rows : {1, 16, 17, 512}) {
      s.rows = s.inputRows = {1, rows};
      const AdmissionResult result = admitKernel(s, target);
      ASSERT_NE(result.selected, nullptr);
      EXPECT_EQ(result.selected->name, rows > 16 ? many : few) << rows;
      for (const Verdict &v : result.verdicts)
        if (v.family->name == (rows > 16 ? few : many))
          EXPECT_EQ(v.kind, VerdictKind::LowerPriority) << rows;
    }
  }
  KernelSignature peek = request(OpKind::GatedDelta);
  peek.peek = true; // chunks write the state
  for (const Verdict &v : admitKernel(peek, target).verdicts)
    EXPECT_EQ(v.kind == VerdictKind::Rejected, v.family->name == "cuda.gated_delta_chunked") << v.family->name;
  KernelSignature odd = request(OpKind::GatedDelta); // left for the kernel of any head size
  odd.keyDim = 48;
  ASSERT_NE(admitKernel(odd, target).selected, nullptr);
  EXPECT_EQ(admitKernel(odd, target).selected->name, "cuda.gated_delta_rows");
}

// The bound covers what the generated kernels ask for (codegen/cpu/kernels/MicroKernels.h).
TEST(Admission, ScratchBoundCoversTheMicroKernels) {
  KernelTarget target = test::target("cpu:x86-64-v3");
  auto bound = [&](const KernelSignature &s) {
    AdmissionResult result = admitKernel(s, target);
    EXPECT_NE(result.selected, nullptr) << describe(s);
    return result.selected ? static_cast<int64_t>(scratchBound(s, *result.selected)) : 0;
  };
  for (int64_t dim : {1, 31, 33, 64, 65, 80, 128, 256, 1000}) {
    KernelSignature s = request(OpKind::Attention);
    s.headDim = dim;
    EXPECT_GE(bound(s), microAttentionScratchBytes(dim)) << dim;
    s.rows = s.inputRows = {1, 17};
    EXPECT_GE(bound(s), std::max(microAttentionScratchBytes(dim), microManyAttentionScratchBytes(dim))) << dim;
  }
  for (int64_t dim : {1, 15, 16, 17, 128, 1024}) {
    KernelSignature s = request(OpKind::GatedDelta);
    s.keyDim = dim;
    for (bool peek : {false, true}) {
      s.peek = peek;
      EXPECT_GE(bound(s), microGatedDeltaScratchBytes(dim, peek)) << dim;
    }
  }
  for (OpKind op : {OpKind::MoeUp, OpKind::MoeDown})
    for (ActivationPolicy policy : {ActivationPolicy::A16Only, ActivationPolicy::AllowA8}) {
      KernelSignature s = request(op);
      s.policy = policy;
      const WeightSignature &w = s.weights.front();
      const int64_t perExpert = w.n / s.experts;
      for (MicroPack pack : {MicroPack::A16G64, MicroPack::A8G64})
        EXPECT_GE(bound(s), microPackedBytes(pack, 1, w.k) + perExpert * 4) << describe(s);
      for (int64_t rows : {2, 6, 64, 512, 4096}) { // gathered, packed, panel, products twice, sorted routes
        s.rows = s.inputRows = {1, rows};
        const int64_t block = std::min(kExpertRowBlock, rows * s.topK);
        for (MicroPack pack : {MicroPack::A16G64, MicroPack::A8G64})
          EXPECT_GE(bound(s), block * w.k * 4 + microPackedBytes(pack, block, w.k) +
                                  microLinearScratchBytes(pack, block) +
                                  2 * std::max(block * 64, perExpert) * 4 +
                                  (rows * s.topK + s.experts + 1) * 8)
              << describe(s);
      }
    }
}

TEST(Admission, ScratchIsBounded) {
  KernelSignature s = linear(Format::BF16, 4096, 65536);
  s.rows = s.inputRows = {1, 4096}; // 1 GiB of packed activations per thread
  AdmissionResult result = admitKernel(s, test::target("cpu:x86-64-v3"));
  EXPECT_EQ(result.selected, nullptr);
  const Verdict *f32 = verdictOf(result, "linear_f32");
  EXPECT_EQ(f32->reason.find("scratch: expected at most 268435456 bytes per thread, got "), 0u)
      << f32->reason;
}

TEST(KernelTarget, NamesAndExecutors) {
  EXPECT_EQ(test::target("reference").executor, "reference");
  EXPECT_EQ(test::target("cpu:x86-64-v3").executor, "cpu");
  EXPECT_TRUE(test::target("cpu:x86-64-v4").hasFeature("avx512bw"));
  EXPECT_FALSE(test::target("cpu:x86-64-v4").hasFeature("avx512vnni"));
  EXPECT_TRUE(test::target("cpu:znver4").hasFeature("avx512vnni"));
  EXPECT_EQ(test::target("cuda:sm_89").executor, "cuda");
  EXPECT_TRUE(test::target("cuda:sm_89").hasFeature("sm_80"));
  EXPECT_TRUE(test::target("cuda:sm_89").hasFeature("sm_89"));
  EXPECT_FALSE(test::target("cuda:sm_89").hasFeature("sm_90"));
  for (std::string_view name :
       {"", "cpu", "cpu:", "cpu:x86-64-v2", "CPU:x86-64-v3", "reference:x", "cuda", "cuda:", "cuda:sm_", "cuda:sm_70", "cuda:sm_890", "cuda:rtx4090"}) {
    Result<KernelTarget> parsed = parseKernelTarget(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.error().code, "NB0401");
    EXPECT_EQ(parsed.error().message, "unknown target '" + std::string(name) + "'");
  }
}

} // namespace
} // namespace ninfer
