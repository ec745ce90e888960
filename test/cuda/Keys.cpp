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
    // The same with binary16 operands (sm_75), shorter: one and two tiles, x whole and in chunks, ragged K.
    const size_t half = keys.size();
    add(1, 2048, Prologue::RmsNorm);
    add(2, 576, Prologue::None, Epilogue::Swiglu);
    add(8, 2048, Prologue::RmsNormUnitOffset, Epilogue::Store, OutputType::Float);
    add(16, 2048, Prologue::None, Epilogue::Residual);
    if (f != Format::Nvfp4)
      add(9, 72);
    for (size_t i = half; i < keys.size(); ++i)
      keys[i].operands = Operands::F16;
  }
  return keys;
}

std::vector<ni::LinearSegmentsSpec> segments() {
  using enum ni::Format;
  using ni::Prologue;
  // The mixers of the 27B hybrid, decode and verification; mixes of formats, up to eight segments and all seven formats; K that
  // ends inside a block, x in chunks.
  return {tunedSegments({Q4, Q4, Q5, Q5, Bf16, Bf16}, {2048, 2048, 6144, 6144, 48, 48}, 1, 5120, Prologue::RmsNormUnitOffset),
          tunedSegments({Q4, Q5, Q4, Q5}, {6144, 6144, 1024, 1024}, 1, 5120, Prologue::RmsNormUnitOffset),
          tunedSegments({Q5, Q5, Bf16}, {6144, 6144, 48}, 16, 5120, Prologue::RmsNormUnitOffset),
          tunedSegments({W8, Bf16, Fp8, Q6, Q5, Q4, Nvfp4, W8}, {64, 64, 64, 64, 64, 64, 128, 64}, 2, 704, Prologue::None),
          tunedSegments({Q6, Bf16}, {64, 64}, 4, 72, Prologue::RmsNorm),
          tunedSegments({Q5, Q4, Bf16}, {64, 64, 48}, 2, 704, Prologue::RmsNormUnitOffset, ni::Operands::F16)};
}

std::vector<ni::GemmSpec> gemm() {
  using namespace ni;
  std::vector<GemmSpec> keys;
  for (Format f : kFormats)
    for (uint32_t shared : {99u * 1024, 227u * 1024}) { // GeForce; H100
      const auto add = [&](uint32_t rows, uint32_t k, Epilogue e, OutputType o = OutputType::Bf16) {
        const GemmSpec s = tunedGemm(f, rows, k, e, o, shared);
        for (const GemmSpec &other : keys)
          if (gemmKernel(other, 0).name == gemmKernel(s, 0).name)
            return;
        keys.push_back(s);
      };
      add(512, 576, Epilogue::Store);
      add(512, 256, Epilogue::Swiglu);
      add(40, 1088, Epilogue::Residual);
      if (f != Format::Nvfp4)
        add(40, 200, Epilogue::Store, OutputType::Float);
    }
  for (Format f : kFormats) // a card of sm_75 gives a block 64 KiB
    for (auto [k, e] : {std::pair{576u, Epilogue::Store}, std::pair{256u, Epilogue::Swiglu}})
      keys.push_back(tunedGemm(f, 512, k, e, OutputType::Bf16, 64 * 1024, Operands::F16));
  return keys;
}

std::vector<ni::Format> pack() { return {std::begin(kFormats), std::end(kFormats)}; }

std::vector<ni::NormSpec> norm() {
  using namespace ni;
  return {{.width = 576},
          {.width = 5120, .kind = NormKind::UnitOffset},
          {.width = 33},
          {.width = 128},
          {.width = 256, .kind = NormKind::UnitOffset},
          {.width = 128, .kind = NormKind::Gated}};
}

std::vector<ni::ElementwiseSpec> elementwise() {
  using namespace ni;
  return {{ElementwiseOp::Add}, {ElementwiseOp::Swiglu}, {ElementwiseOp::SigmoidGate}, {ElementwiseOp::SigmoidRowGate}};
}

std::vector<ni::EmbeddingSpec> embedding() {
  std::vector<ni::EmbeddingSpec> keys;
  for (ni::Format f : kFormats)
    for (uint32_t k : {576u, 704u, 203u})
      if (f != ni::Format::Nvfp4 || k % 64 == 0)
        keys.push_back({f, k});
  return keys;
}

std::vector<ni::ArgmaxSpec> argmax() { return {{1}, {8}}; }

std::vector<ni::RopeAppendSpec> ropeAppend() {
  using namespace ni;
  std::vector<RopeAppendSpec> keys;
  for (CacheCodec codec : {CacheCodec::Bf16, CacheCodec::Int8}) {
    keys.push_back({.heads = 9, .kvHeads = 3, .dim = 64, .pairs = 32, .codec = codec});
    keys.push_back({.heads = 4, .kvHeads = 2, .dim = 128, .pairs = 64, .codec = codec, .norm = HeadNorm::Plain});
    keys.push_back({.heads = 12, .kvHeads = 2, .dim = 256, .pairs = 32, .codec = codec, .norm = HeadNorm::UnitOffset});
    keys.push_back({.heads = 2, .kvHeads = 1, .dim = 80, .pairs = 20, .codec = codec});
    keys.push_back({.heads = 2, .kvHeads = 2, .dim = 64, .pairs = 0, .codec = codec});
  }
  return keys;
}

std::vector<ni::AttentionDecodeSpec> attentionDecode() {
  using namespace ni;
  std::vector<AttentionDecodeSpec> keys;
  for (CacheCodec codec : {CacheCodec::Bf16, CacheCodec::Int8}) {
    keys.push_back({.heads = 9, .kvHeads = 3, .dim = 64, .codec = codec});
    keys.push_back({.heads = 16, .kvHeads = 2, .dim = 128, .rows = 4, .codec = codec});
    keys.push_back({.heads = 12, .kvHeads = 2, .dim = 256, .codec = codec, .gate = true});
    keys.push_back({.heads = 12, .kvHeads = 2, .dim = 256, .rows = 5, .codec = codec, .gate = true});
    keys.push_back({.heads = 2, .kvHeads = 2, .dim = 128, .rows = 16, .codec = codec});
  }
  for (CacheCodec codec : {CacheCodec::Bf16, CacheCodec::Int8}) {
    // Dims that are padded, and a quarter of dim with scales of two groups.
    for (u32 dim : {32u, 80u, 96u, 192u})
      keys.push_back({.heads = 2, .kvHeads = 1, .dim = dim, .rows = 3, .codec = codec});
    if (codec == CacheCodec::Bf16) // so many vectors of so large heads that one tile of keys fits
      keys.push_back({.heads = 16, .kvHeads = 1, .dim = 256, .rows = 4, .codec = codec});
    // sm_75: 64 KiB of shared memory, one tile of keys.
    keys.push_back({.heads = 9, .kvHeads = 3, .dim = 64, .codec = codec, .operands = Operands::F16});
    keys.push_back({.heads = 2, .kvHeads = 1, .dim = 96, .rows = 9, .codec = codec, .operands = Operands::F16});
    keys.push_back({.heads = 2, .kvHeads = 2, .dim = 128, .rows = 16, .codec = codec, .operands = Operands::F16});
    keys.push_back({.heads = 2, .kvHeads = 1, .dim = 192, .codec = codec, .operands = Operands::F16});
    keys.push_back({.heads = 12, .kvHeads = 2, .dim = 256, .rows = 5, .codec = codec, .gate = true, .operands = Operands::F16});
  }
  return keys;
}

std::vector<ni::AttentionPrefillSpec> attentionPrefill() {
  using namespace ni;
  std::vector<AttentionPrefillSpec> keys;
  for (CacheCodec codec : {CacheCodec::Bf16, CacheCodec::Int8}) {
    keys.push_back({.heads = 3, .kvHeads = 1, .dim = 64, .codec = codec, .warps = 8});
    keys.push_back({.heads = 4, .kvHeads = 2, .dim = 128, .codec = codec, .gate = true});
    keys.push_back({.heads = 2, .kvHeads = 1, .dim = 256, .codec = codec, .gate = true});
    keys.push_back({.heads = 1, .kvHeads = 1, .dim = 192, .codec = codec});
    for (u32 dim : {32u, 80u, 96u})
      keys.push_back({.heads = 2, .kvHeads = 1, .dim = dim, .codec = codec});
    keys.push_back({.heads = 3, .kvHeads = 1, .dim = 64, .codec = codec, .warps = 8, .operands = Operands::F16});
    keys.push_back({.heads = 2, .kvHeads = 2, .dim = 128, .codec = codec, .gate = true, .operands = Operands::F16});
    keys.push_back({.heads = 2, .kvHeads = 1, .dim = 80, .codec = codec, .operands = Operands::F16});
    keys.push_back({.heads = 2, .kvHeads = 1, .dim = 256, .codec = codec, .operands = Operands::F16});
  }
  return keys;
}

std::vector<ni::CausalConvSpec> causalConv() {
  return {{.taps = 4, .queryWidth = 256, .keyWidth = 256, .valueWidth = 512},
          {.taps = 4, .queryWidth = 256, .keyWidth = 256, .valueWidth = 512, .peek = true},
          {.taps = 2, .queryWidth = 6, .keyWidth = 6, .valueWidth = 10}};
}

std::vector<ni::GatedDeltaSpec> gatedDelta() {
  return {{.keyHeads = 2, .valueHeads = 6, .keyDim = 128, .valueDim = 128},
          {.keyHeads = 1, .valueHeads = 2, .keyDim = 128, .valueDim = 128, .peek = true},
          {.keyHeads = 1, .valueHeads = 2, .keyDim = 64, .valueDim = 16},
          {.keyHeads = 1, .valueHeads = 1, .keyDim = 192, .valueDim = 48},
          {.keyHeads = 1, .valueHeads = 2, .keyDim = 32, .valueDim = 32}};
}

std::vector<ni::DeltaChunkedSpec> deltaChunked() {
  return {tunedDeltaChunked(1, 3, 128, 64, 512), tunedDeltaChunked(1, 2, 128, 64, 32), tunedDeltaChunked(1, 2, 64, 16, 64),
          tunedDeltaChunked(1, 1, 32, 32, 64),    tunedDeltaChunked(1, 1, 192, 16, 64), tunedDeltaChunked(1, 1, 256, 32, 64)};
}

std::vector<ni::GatedDeltaSpec> gatedDeltaRows() {
  return {{.keyHeads = 2, .valueHeads = 4, .keyDim = 32, .valueDim = 32},
          {.keyHeads = 1, .valueHeads = 3, .keyDim = 16, .valueDim = 6, .peek = true},
          {.keyHeads = 1, .valueHeads = 1, .keyDim = 100, .valueDim = 5}};
}

std::vector<ni::CopyRowsSpec> copyRows() { return {{2}, {4}, {8}, {16}}; }

std::vector<ni::LayerNormSpec> layerNorm() { return {{1152}, {33}, {1}}; }
std::vector<ni::BiasSpec> bias() { return {{1}, {4}, {1, ni::OutputType::Float}}; }
std::vector<ni::GeluSpec> gelu() { return {{false}, {true}}; }
std::vector<ni::AxialRopeSpec> axialRope() { return {{16, 18}, {3, 1}}; }
std::vector<ni::InterpolateSpec> interpolate() { return {{4}}; }
std::vector<ni::FullAttentionSpec> fullAttention() { return {{2, 72}, {3, 12}, {1, 192}, {1, 2}}; }
std::vector<GroupedGemm> groupedGemm() {
  return {{tunedGemm(ni::Format::W8, 128, 256, ni::Epilogue::Store, ni::OutputType::Bf16, 99 * 1024), 4},
          {tunedGemm(ni::Format::Bf16, 128, 144, ni::Epilogue::Store, ni::OutputType::Bf16, 99 * 1024), 2},
          {tunedGemm(ni::Format::Bf16, 128, 144, ni::Epilogue::Store, ni::OutputType::Bf16, 64 * 1024, ni::Operands::F16), 2}};
}

std::vector<ni::MoeRouteSpec> moeRoute() {
  return {{.experts = 8, .topK = 2}, {.experts = 256, .topK = 8}, {.experts = 130, .topK = 64}};
}

std::vector<ni::MoeUpSpec> moeUp() {
  std::vector<ni::MoeUpSpec> keys;
  for (ni::Format f : kFormats)
    keys.push_back({.format = f, .k = 2048, .topK = 4, .depth = f == ni::Format::Q4 ? 2u : 1u});
  for (ni::Format f : kFormats)
    keys.push_back({.format = f, .k = 704, .topK = 2, .warpsK = 2, .depth = 1, .operands = ni::Operands::F16});
  keys.push_back({.format = ni::Format::Q4, .k = 72, .topK = 2, .warpsK = 2, .depth = 1});
  return keys;
}

std::vector<ni::MoeDownSpec> moeDown() {
  std::vector<ni::MoeDownSpec> keys;
  for (ni::Format f : kFormats)
    keys.push_back({.format = f, .k = 512, .topK = 8});
  for (ni::Format f : kFormats)
    keys.push_back({.format = f, .k = 704, .topK = 2, .operands = ni::Operands::F16});
  keys.push_back({.format = ni::Format::Q5, .k = 72, .topK = 1});
  return keys;
}

std::vector<ni::MoeGroupedSpec> moeGrouped() {
  std::vector<ni::MoeGroupedSpec> keys;
  for (ni::Format f : kFormats)
    for (bool down : {false, true})
      keys.push_back(tunedGrouped(f, f == ni::Format::Nvfp4 ? 192 : 136, down ? 3 : 2, down, 99 * 1024));
  keys.push_back(tunedGrouped(ni::Format::Q4, 2048, 8, false, 227 * 1024));
  keys.push_back(tunedGrouped(ni::Format::Q5, 512, 8, true, 99 * 1024));
  return keys;
}

namespace {

/// Whether an architecture (0: any) has the operands of a record.
template <typename Spec>
bool of(const Spec &spec, uint32_t sm) {
  if constexpr (requires { spec.operands; })
    return sm == 0 || (spec.operands == ni::Operands::F16) == (sm < 80);
  if constexpr (requires { spec.kind[0]; })
    return of(spec.kind[0], sm);
  return true;
}

template <typename Spec>
void append(std::vector<KernelText> &texts, const std::vector<Spec> &specs, KernelText (*text)(const Spec &, uint32_t),
            uint32_t sm) {
  for (const Spec &spec : specs)
    if (of(spec, sm))
      texts.push_back(text(spec, sm));
}

} // namespace

std::vector<KernelText> all(uint32_t sm) {
  std::vector<KernelText> texts;
  append(texts, linear(), linearKernel, sm);
  append(texts, segments(), segmentsKernel, sm);
  append(texts, gemm(), gemmKernel, sm);
  for (ni::Format format : pack())
    texts.push_back(packKernel(format, sm));
  append(texts, norm(), normKernel, sm);
  append(texts, elementwise(), elementwiseKernel, sm);
  append(texts, embedding(), embeddingKernel, sm);
  append(texts, argmax(), argmaxKernel, sm);
  append(texts, ropeAppend(), ropeAppendKernel, sm);
  append(texts, attentionDecode(), attentionDecodeKernel, sm);
  append(texts, attentionPrefill(), attentionPrefillKernel, sm);
  append(texts, causalConv(), causalConvKernel, sm);
  append(texts, gatedDelta(), gatedDeltaKernel, sm);
  if (sm == 0 || sm >= 80) // no binary16 operands yet
    append(texts, deltaChunked(), deltaChunkedKernel, sm);
  append(texts, gatedDeltaRows(), gatedDeltaRowsKernel, sm);
  append(texts, copyRows(), copyRowsKernel, sm);
  append(texts, layerNorm(), layerNormKernel, sm);
  append(texts, bias(), biasKernel, sm);
  append(texts, gelu(), geluKernel, sm);
  append(texts, axialRope(), axialRopeKernel, sm);
  append(texts, interpolate(), interpolateKernel, sm);
  append(texts, fullAttention(), fullAttentionKernel, sm);
  for (const GroupedGemm &key : groupedGemm())
    if (of(key.spec, sm))
      texts.push_back(groupedGemmKernel(key.spec, key.group, sm));
  append(texts, moeRoute(), moeRouteKernel, sm);
  append(texts, moeUp(), moeUpKernel, sm);
  append(texts, moeDown(), moeDownKernel, sm);
  if (sm == 0 || sm >= 80) // no binary16 operands yet
    append(texts, moeGrouped(), moeGroupedKernel, sm);
  return texts;
}

} // namespace ninfer::cuda::keys
