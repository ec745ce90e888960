// Names of kernels and descriptions of requests.
#include "Requests.h"

#include "codegen/common/KernelName.h"

#include <gtest/gtest.h>

#include <cctype>

namespace ninfer {
namespace {

const KernelFamily &family(std::string_view name) {
  for (const KernelFamily &f : kernelFamilies())
    if (f.name == name)
      return f;
  ADD_FAILURE() << name;
  return kernelFamilies().front();
}

KernelSignature qkv() {
  KernelSignature s = test::linear(Format::Q6G64_F16S, 576, 576);
  s.fused = true;
  s.weights.push_back({Format::Q6G64_F16S, Layout::RowSplitK128V1, 192, 576});
  s.weights.push_back(s.weights.back());
  s.prologue = KernelPrologue::RmsNorm;
  return s;
}

TEST(KernelName, Linear) {
  KernelSignature s = qkv();
  EXPECT_EQ(kernelName(s, family("linear_a16")), "linear_q6g64_n576x192x192_k576_r1_a16_norm");
  s.weights[2].format = Format::W8G32_F16S;
  s.rows = s.inputRows = {1, 512};
  EXPECT_EQ(kernelName(s, family("linear_a8")),
            "linear_q6g64_q6g64_w8g32_n576x192x192_k576_r1to512_a8_norm");
  s = test::linear(Format::FP8_E4M3FN_ROW_BF16S, 49152, 576);
  s.prologue = KernelPrologue::LastRowRmsNorm;
  s.inputRows = {1, 512};
  EXPECT_EQ(kernelName(s, family("linear_f32")), "linear_fp8row_n49152_k576_r1to512_f32_last_norm");
  EXPECT_EQ(kernelName(test::linear(Format::BF16, 4, 8), family("ref.linear")),
            "ref_linear_bf16_n4_k8_r1");
}

TEST(KernelName, Others) {
  EXPECT_EQ(kernelName(test::request(OpKind::Attention), family("attention")),
            "attention_h9_kv3_d64_c2048_bf16_r1");
  KernelSignature s = test::request(OpKind::RopeAppend);
  s.normFormats = {Format::BF16, Format::BF16};
  EXPECT_EQ(kernelName(s, family("rope_append")), "rope_append_h9_kv3_d64_c2048_bf16_r1_norm");
  EXPECT_EQ(kernelName(test::request(OpKind::RmsNorm), family("ref.rms_norm")),
            "ref_rms_norm_k576_r1");
}

TEST(KernelName, IsASymbolOfLettersDigitsAndUnderscores) {
  for (const KernelFamily &f : kernelFamilies())
    for (char c : kernelName(test::request(f.op), f))
      EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) || c == '_') << c;
}

TEST(Describe, RequestsAsMessagesPrintThem) {
  KernelSignature s = test::linear(Format::W8G32_F16S, 34816, 5120);
  s.rows = s.inputRows = {1, 8};
  EXPECT_EQ(describe(s), "W8G32_F16S linear 34816x5120, rows 1..8");
  EXPECT_EQ(describe(qkv()), "Q6G64_F16S linear 576+192+192x576, rows 1, prologue rms_norm");
  EXPECT_EQ(describe(test::request(OpKind::Attention)),
            "attention of 9 heads over 3 kv heads of 64, capacity 2048, bf16 cache, rows 1");
  EXPECT_EQ(describe(test::request(OpKind::Add)), "add of width 576, rows 1");
}

} // namespace
} // namespace ninfer
