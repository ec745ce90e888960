// GGUF metadata of a dense hybrid model (architecture qwen35) -> HybridConfig.
#include "convert/GgufMetadata.h"
#include "convert/SourceConfig.h"
#include "models/Hybrid.h"

#include <cmath>

namespace ninfer {

namespace {

constexpr const char *kArchitecture = "qwen35";
constexpr int64_t kMostLayers = 4096;

class GgufHybridReader {
public:
  GgufHybridReader(const GgufFile &gguf, std::vector<std::string> &notes)
      : gguf_(gguf), notes_(notes), in_(gguf, kArchitecture) {}

  Result<HybridConfig> run() {
    c_.architecture = "Qwen3_5ForCausalLM";
    NINFER_RETURN_IF_ERROR(refuseParts(gguf_));
    NINFER_RETURN_IF_ERROR(base());
    NINFER_RETURN_IF_ERROR(layers());
    NINFER_RETURN_IF_ERROR(attention());
    NINFER_RETURN_IF_ERROR(delta());
    NINFER_RETURN_IF_ERROR(checkHybridConfig(c_, gguf_.fileName));
    return std::move(c_);
  }

private:
  /// Numbers with a fraction are stored and read as binary32.
  static double binary32(double value) { return static_cast<double>(static_cast<float>(value)); }

  Status integer(const char *name, int64_t &out,
                 std::optional<int64_t> fallback = std::nullopt) const {
    return in_.integer(in_.key(name), out, fallback);
  }

  Status base() {
    NINFER_RETURN_IF_ERROR(integer("context_length", c_.maxPositions));
    NINFER_RETURN_IF_ERROR(integer("embedding_length", c_.hiddenSize));
    NINFER_RETURN_IF_ERROR(integer("feed_forward_length", c_.intermediateSize));
    NINFER_RETURN_IF_ERROR(readVocabulary(gguf_, in_, c_.vocabSize, c_.tieWordEmbeddings));
    double eps = 0;
    NINFER_RETURN_IF_ERROR(in_.number(in_.key("attention.layer_norm_rms_epsilon"), eps));
    c_.rmsNormEps = binary32(eps);
    return Status();
  }

  /// block_count counts the draft layer too. Which layers are recurrent: an array, else every
  /// full_attention_interval-th is not.
  Status layers() {
    int64_t blocks = 0;
    NINFER_RETURN_IF_ERROR(integer("block_count", blocks));
    NINFER_ASSIGN_OR_RETURN(std::optional<uint64_t> given,
                            gguf_.unsignedAt(in_.key("nextn_predict_layers")));
    const uint64_t draft = given.value_or(0);
    if (blocks > kMostLayers || draft >= static_cast<uint64_t>(blocks))
      return makeError(ErrorKind::BadFile, kGgufConfigCode,
                       gguf_.fileName + ": metadata '" + in_.key("block_count") + "' must be at most " +
                           std::to_string(kMostLayers) + " and above nextn_predict_layers (" +
                           std::to_string(draft) + "), got " + std::to_string(blocks));
    if (draft != 0)
      notes_.push_back("the draft layer of a GGUF is not converted");
    c_.numLayers = blocks - static_cast<int64_t>(draft);
    const std::string key = in_.key("attention.recurrent_layers");
    const GgufValue *flags = gguf_.find(key);
    int64_t interval = 4;
    NINFER_RETURN_IF_ERROR(integer("full_attention_interval", interval, 4));
    if (flags && (flags->kind != GgufValue::Kind::Array ||
                  flags->numbers.size() != static_cast<size_t>(blocks)))
      return makeError(ErrorKind::BadFile, kGgufConfigCode,
                       gguf_.fileName + ": metadata '" + key + "' must be an array of block_count (" +
                           std::to_string(blocks) + ") numbers");
    for (int64_t i = 0; i < c_.numLayers; ++i) {
      const bool recurrent =
          flags ? flags->numbers[static_cast<size_t>(i)] != 0 : (i + 1) % interval != 0;
      c_.layerTypes.push_back(recurrent ? HybridLayer::LinearAttention
                                        : HybridLayer::FullAttention);
    }
    return Status();
  }

  Status attention() {
    HybridAttention a;
    int64_t valueLength = 0, rotary = 0;
    double theta = 0;
    NINFER_RETURN_IF_ERROR(integer("attention.head_count", a.numHeads));
    NINFER_RETURN_IF_ERROR(integer("attention.head_count_kv", a.numKvHeads));
    NINFER_RETURN_IF_ERROR(integer("attention.key_length", a.headDim));
    NINFER_RETURN_IF_ERROR(integer("attention.value_length", valueLength, a.headDim));
    if (valueLength != a.headDim)
      return unsupportedGguf(gguf_, "attention.value_length " + std::to_string(valueLength) +
                                        " differs from key_length " + std::to_string(a.headDim));
    NINFER_RETURN_IF_ERROR(integer("rope.dimension_count", rotary));
    NINFER_RETURN_IF_ERROR(in_.number(in_.key("rope.freq_base"), theta));
    a.ropeTheta = binary32(theta);
    a.partialRotaryFactor =
        binary32(static_cast<double>(rotary) / static_cast<double>(a.headDim));
    NINFER_ASSIGN_OR_RETURN(std::optional<std::string> scaling,
                            gguf_.textAt(in_.key("rope.scaling.type")));
    if (scaling && *scaling != "none")
      return unsupportedGguf(gguf_, "rope scaling '" + *scaling +
                                        "': scaled rotary positions are not supported");
    NINFER_RETURN_IF_ERROR(sections(a));
    c_.attention = a;
    return Status();
  }

  /// Four numbers, of which the last belongs to no axis here.
  Status sections(HybridAttention &a) const {
    const std::string key = in_.key("rope.dimension_sections");
    const GgufValue *value = gguf_.find(key);
    const bool fits = value && value->kind == GgufValue::Kind::Array &&
                      (value->numbers.size() == 3 ||
                       (value->numbers.size() == 4 && value->numbers[3] == 0));
    if (!fits)
      return makeError(ErrorKind::BadFile, kGgufConfigCode,
                       gguf_.fileName + ": metadata '" + key +
                           "' must be an array of 3 integers, or of 4 with a last 0");
    for (size_t i = 0; i < a.mropeSection.size(); ++i) {
      const double n = value->numbers[i];
      if (!(n >= 0 && n <= static_cast<double>(1 << 30)) || n != std::floor(n))
        return makeError(ErrorKind::BadFile, kGgufConfigCode,
                         gguf_.fileName + ": metadata '" + key + "' must hold integers in 0.." +
                             std::to_string(1 << 30) + ", got " + std::to_string(n));
      a.mropeSection[i] = static_cast<int64_t>(n);
    }
    return Status();
  }

  Status delta() {
    HybridDelta d;
    int64_t inner = 0;
    NINFER_RETURN_IF_ERROR(integer("ssm.conv_kernel", d.taps));
    NINFER_RETURN_IF_ERROR(integer("ssm.state_size", d.keyDim));
    NINFER_RETURN_IF_ERROR(integer("ssm.group_count", d.numKeyHeads));
    NINFER_RETURN_IF_ERROR(integer("ssm.time_step_rank", d.numValueHeads));
    NINFER_RETURN_IF_ERROR(integer("ssm.inner_size", inner));
    d.valueDim = d.keyDim; // the architecture has one width of heads
    if (inner != d.valueWidth())
      return unsupportedGguf(gguf_, "ssm.inner_size " + std::to_string(inner) +
                                        " differs from time_step_rank * state_size (" +
                                        std::to_string(d.valueWidth()) + ")");
    c_.delta = d;
    return Status();
  }

  const GgufFile &gguf_;
  std::vector<std::string> &notes_;
  const MetadataReader in_;
  HybridConfig c_;
};

} // namespace

bool isHybrid(const GgufFile &gguf) {
  const GgufValue *name = gguf.find("general.architecture");
  return name && name->kind == GgufValue::Kind::String && name->text == kArchitecture;
}

Result<HybridConfig> hybridFromGguf(const GgufFile &gguf, std::vector<std::string> &notes) {
  return GgufHybridReader(gguf, notes).run();
}

} // namespace ninfer
