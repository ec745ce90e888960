#include "test/cuda/Keys.h"

namespace ninfer::cuda::keys {

namespace {

constexpr ni::Format kFormats[] = {ni::Format::Q4,    ni::Format::Q5,  ni::Format::Q6,  ni::Format::W8,
                                   ni::Format::Nvfp4, ni::Format::Fp8, ni::Format::Bf16};

} // namespace

std::vector<ni::LinearSpec> linear() {
  using namespace ni;
  std::vector<LinearSpec> keys;
  for (Format f : kFormats) {
    // One row of a long K; two tiles of rows; gate and up; K that ends inside a group, block, or vector load.
    keys.push_back({.format = f, .rows = 1, .k = 5120});
  }
  return keys;
}

std::vector<KernelText> all(uint32_t sm) {
  std::vector<KernelText> texts;
  for (const ni::LinearSpec &spec : linear())
    texts.push_back(linearKernel(spec, sm));
  return texts;
}

} // namespace ninfer::cuda::keys
