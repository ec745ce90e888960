// GGUF metadata -> DecoderConfig.
#include "convert/GgufMetadata.h"
#include "convert/SourceConfig.h"
#include "support/Bytes.h"

#include <cmath>

namespace ninfer {

namespace {

Status readDimensions(const GgufFile &gguf, const MetadataReader &in, DecoderConfig &c) {
  NINFER_RETURN_IF_ERROR(in.integer(in.key("block_count"), c.numLayers));
  NINFER_RETURN_IF_ERROR(in.integer(in.key("context_length"), c.maxPositions));
  NINFER_RETURN_IF_ERROR(in.integer(in.key("embedding_length"), c.hiddenSize));
  NINFER_RETURN_IF_ERROR(in.integer(in.key("feed_forward_length"), c.intermediateSize));
  NINFER_RETURN_IF_ERROR(in.integer(in.key("attention.head_count"), c.numHeads));
  NINFER_RETURN_IF_ERROR(in.integer(in.key("attention.head_count_kv"), c.numKvHeads, c.numHeads));
  NINFER_RETURN_IF_ERROR(in.number(in.key("attention.layer_norm_rms_epsilon"), c.rmsNormEps));
  int64_t derived = c.hiddenSize / c.numHeads;
  NINFER_RETURN_IF_ERROR(in.integer(in.key("attention.key_length"), c.headDim, derived));
  int64_t valueLength = 0, rotary = 0;
  NINFER_RETURN_IF_ERROR(in.integer(in.key("attention.value_length"), valueLength, derived));
  if (valueLength != c.headDim)
    return unsupportedGguf(gguf, "attention.value_length " + std::to_string(valueLength) +
                                 " differs from key_length " + std::to_string(c.headDim));
  NINFER_RETURN_IF_ERROR(in.integer(in.key("rope.dimension_count"), rotary, c.headDim));
  if (rotary != c.headDim)
    return unsupportedGguf(gguf, "rope.dimension_count " + std::to_string(rotary) + " of a head of " +
                                 std::to_string(c.headDim) +
                                 ": only a full rotary head is supported");
  NINFER_RETURN_IF_ERROR(readVocabulary(gguf, in, c.vocabSize, c.tieWordEmbeddings));
  return Status();
}

Status readScaling(const GgufFile &gguf, const MetadataReader &in, DecoderConfig &c) {
  NINFER_ASSIGN_OR_RETURN(std::optional<std::string> type,
                          gguf.textAt(in.key("rope.scaling.type")));
  if (!type || *type == "none")
    return Status();
  if (*type == "linear") {
    c.ropeScaling = RopeScaling::Linear;
    return in.number(in.key("rope.scaling.factor"), c.ropeFactor);
  }
  Status status(unsupportedGguf(gguf, "rope scaling '" + *type + "' is not supported"));
  status.note("supported: none, linear, and the table rope_freqs.weight of llama3");
  return status;
}

Status readDivisors(const GgufFile &gguf, const SourceFile &file, const MetadataReader &in,
                    DecoderConfig &c) {
  const SourceTensor *table = nullptr;
  for (const SourceTensor &t : gguf.tensors)
    if (t.name == "rope_freqs.weight")
      table = &t;
  if (!table)
    return Status();
  if (c.ropeScaling != RopeScaling::None)
    return unsupportedGguf(gguf, "rope_freqs.weight and rope.scaling.type are both present");
  auto pairs = static_cast<uint64_t>(c.headDim / 2);
  if (table->type != SourceType::F32 || table->shape != std::vector<uint64_t>{pairs})
    return makeError(ErrorKind::BadFile, kGgufConfigCode,
                     gguf.fileName + ": tensor 'rope_freqs.weight' must be F32 [" +
                         std::to_string(pairs) + "], got " + table->typeName + " " +
                         shapeText(table->shape));
  std::vector<std::byte> raw(table->bytes);
  NINFER_RETURN_IF_ERROR(file.read(table->offset, raw));
  std::vector<float> divisors(pairs);
  for (size_t i = 0; i < pairs; ++i)
    divisors[i] = floatFromBits(loadLe32(raw.data() + 4 * i));
  std::optional<int64_t> original;
  NINFER_ASSIGN_OR_RETURN(std::optional<uint64_t> given,
                          gguf.unsignedAt(in.key("rope.scaling.original_context_length")));
  if (given && *given <= static_cast<uint64_t>(kMaxGgufDimension))
    original = static_cast<int64_t>(*given);
  if (!matchLlama3Divisors(divisors, original, c))
    return unsupportedGguf(gguf,
                       "tensor 'rope_freqs.weight' is no llama3 scaling with band limits 1 and 4");
  return Status();
}

} // namespace

bool matchLlama3Divisors(const std::vector<float> &divisors, std::optional<int64_t> originalContext,
                         DecoderConfig &config) {
  constexpr int64_t kPublishedContext = 8192;
  constexpr double kTolerance = 1e-5; // the table was computed and stored in binary32
  DecoderConfig plain = config, scaled = config;
  plain.ropeScaling = RopeScaling::None;
  scaled.ropeScaling = RopeScaling::Llama3;
  scaled.ropeLowFreqFactor = 1.0;
  scaled.ropeHighFreqFactor = 4.0;
  scaled.ropeOriginalMaxPositions = originalContext.value_or(kPublishedContext);
  scaled.ropeFactor = 1.0;
  for (float d : divisors)
    scaled.ropeFactor = std::max(scaled.ropeFactor, static_cast<double>(d));
  std::vector<double> before = plain.ropeInverseFrequencies(),
                      after = scaled.ropeInverseFrequencies();
  if (divisors.size() != before.size() || !std::isfinite(scaled.ropeFactor))
    return false;
  for (size_t i = 0; i < divisors.size(); ++i) {
    double expected = before[i] / after[i];
    if (!(std::fabs(divisors[i] - expected) <= kTolerance * expected))
      return false;
  }
  config = scaled;
  return true;
}

Result<DecoderConfig> configFromGguf(const GgufFile &gguf, const SourceFile &file) {
  NINFER_ASSIGN_OR_RETURN(std::optional<std::string> architecture,
                          gguf.textAt("general.architecture"));
  DecoderConfig c;
  if (architecture == "llama") {
    c.architecture = "LlamaForCausalLM";
  } else if (architecture == "qwen3") {
    c.architecture = "Qwen3ForCausalLM";
    c.qkNorm = true;
  } else {
    Status status(
        unsupportedGguf(gguf, "unsupported architecture '" + architecture.value_or("") + "'"));
    status.note(
        "supported general.architecture: llama (LlamaForCausalLM), qwen3 (Qwen3ForCausalLM), qwen35 (Qwen3_5ForCausalLM)");
    return status;
  }
  NINFER_RETURN_IF_ERROR(refuseParts(gguf));
  MetadataReader in(gguf, *architecture);
  NINFER_ASSIGN_OR_RETURN(std::optional<uint64_t> expertCount,
                          gguf.unsignedAt(in.key("expert_count")));
  if (expertCount.value_or(0) > 0)
    return unsupportedGguf(gguf, "expert_count " + std::to_string(*expertCount) +
                                 ": only dense models are supported");
  NINFER_RETURN_IF_ERROR(readDimensions(gguf, in, c));
  NINFER_RETURN_IF_ERROR(in.number(in.key("rope.freq_base"), c.ropeTheta, 10000.0));
  NINFER_RETURN_IF_ERROR(readScaling(gguf, in, c));
  NINFER_RETURN_IF_ERROR(checkDecoderConfig(c, gguf.fileName));
  NINFER_RETURN_IF_ERROR(readDivisors(gguf, file, in, c));
  return c;
}

} // namespace ninfer
