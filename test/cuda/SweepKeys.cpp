#include "test/cuda/SweepKeys.h"

#include "codegen/cuda/Tuning.h"

namespace ninfer::cuda::keys {

Sweep sweep() {
  using namespace ni;
  Sweep all;
  const uint32_t edges[] = {15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049};
  for (Format f : {Format::Q4, Format::W8}) {
    for (uint32_t k : edges) {
      all.linear.push_back(tunedLinear(f, 3, k));
      all.embedding.push_back({f, k});
      if (k % 8 == 0)
        for (uint32_t near : {k - 8, k, k + 8}) {
          if (near == 0 || (!all.gemm.empty() && all.gemm.back().format == f && near <= all.gemm.back().k))
            continue;
          all.gemm.push_back(tunedGemm(f, 64, near, Epilogue::Store, OutputType::Bf16, 99 * 1024));
          all.down.push_back({.format = f, .k = near, .topK = 2});
          all.up.push_back({.format = f, .k = near, .topK = 2, .warpsK = 2, .depth = 1});
        }
    }
    all.linear.push_back(tunedLinear(f, 16, 129));
    all.linear.push_back(tunedLinear(f, 8, 2049));
    LinearSpec half = tunedLinear(f, 3, 129, Prologue::None, Epilogue::Store, OutputType::Bf16, Operands::F16);
    all.linear.push_back(half);
    all.gemm.push_back(tunedGemm(f, 64, 136, Epilogue::Store, OutputType::Bf16, 64 * 1024, Operands::F16));
  }
  for (uint32_t width : edges)
    all.norm.push_back({.width = width});
  all.norm.push_back({.width = 511});
  all.norm.push_back({.width = 512});
  all.norm.push_back({.width = 513});
  return all;
}

std::vector<KernelText> sweepTexts() {
  std::vector<KernelText> texts;
  const Sweep all = sweep();
  for (const auto &s : all.linear)
    texts.push_back(linearKernel(s, 0));
  for (const auto &s : all.gemm)
    texts.push_back(gemmKernel(s, 0));
  for (const auto &s : all.embedding)
    texts.push_back(embeddingKernel(s, 0));
  for (const auto &s : all.up)
    texts.push_back(moeUpKernel(s, 0));
  for (const auto &s : all.down)
    texts.push_back(moeDownKernel(s, 0));
  for (const auto &s : all.norm)
    texts.push_back(normKernel(s, 0));
  return texts;
}

} // namespace ninfer::cuda::keys
