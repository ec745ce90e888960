#include "test/cuda/Keys.h"

#include "codegen/cuda/Tuning.h"

namespace ninfer::cuda::keys {

namespace {

constexpr ni::Format kFormats[] = {ni::Format::Q4,    ni::Format::Q5,  ni::Format::Q6,  ni::Format::W8,
                                   ni::Format::Nvfp4, ni::Format::Fp8, ni::Format::Bf16};

} // namespace

std::vector<ni::LinearSpec> linear() {
  using namespace ni;
  std::vector<LinearSpec> keys;
  for (Format f : kFormats) {
    const auto add = [&](uint32_t rows, uint32_t k, Prologue p = Prologue::None, Epilogue e = Epilogue::Store,
                         OutputType o = OutputType::Bf16) { keys.push_back(tunedLinear(f, rows, k, p, e, o)); };
    // Decode of the 27B shapes.
    add(1, 5120, Prologue::RmsNorm);
    add(1, 5120, Prologue::RmsNorm, Epilogue::Swiglu);
    add(1, 17408, Prologue::None, Epilogue::Residual);
    add(1, 2048, Prologue::RmsNormUnitOffset, Epilogue::Store, OutputType::Float);
    // Verification and small batches: one and two tiles, x in chunks.
    add(2, 6144, Prologue::None, Epilogue::Residual);
    add(4, 5120, Prologue::RmsNorm, Epilogue::Swiglu);
    add(8, 5120, Prologue::RmsNormUnitOffset);
    add(16, 5120, Prologue::RmsNorm, Epilogue::Swiglu);
    add(16, 2048, Prologue::None, Epilogue::Residual, OutputType::Float);
    // K that ends inside a block, a group, a vector load. NVFP4 stores K in multiples of 64.
    for (uint32_t k : f == Format::Nvfp4 ? std::vector<uint32_t>{64, 192, 704} : std::vector<uint32_t>{8, 72, 200, 576, 33, 1001})
      add(k % 3 ? 1 : 9, k, k % 8 ? Prologue::None : Prologue::RmsNorm, k == 576 ? Epilogue::Swiglu : Epilogue::Store);
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
