// What a model package says about one artifact: the architecture's config and its complete
// parameter inventory, each parameter bound to stored ranges. Free of MLIR; models/graph turns it
// into IR.
#ifndef NINFER_MODELS_MODELSPEC_H
#define NINFER_MODELS_MODELSPEC_H

#include "artifact/container/Directory.h"
#include "models/HybridConfig.h"
#include "models/VisionConfig.h"
#include "support/Status.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ninfer {

enum class RopeScaling { None, Linear, Llama3 };

/// Config of the dense decoder family (LlamaForCausalLM, Qwen3ForCausalLM). Stored, closed and
/// checked, as components.text.config with the Hugging Face field names (docs/models/decoder.md).
struct DecoderConfig {
  std::string architecture; ///< "LlamaForCausalLM" or "Qwen3ForCausalLM"
  int64_t hiddenSize = 0;
  int64_t vocabSize = 0;
  int64_t numLayers = 0;
  int64_t numHeads = 0;
  int64_t numKvHeads = 0;
  int64_t headDim = 0;
  int64_t intermediateSize = 0;
  int64_t maxPositions = 0;
  double rmsNormEps = 1e-6;
  bool tieWordEmbeddings = false;
  bool qkNorm = false; ///< per-head RMS norm of q and k (Qwen3)
  double ropeTheta = 10000.0;
  RopeScaling ropeScaling = RopeScaling::None;
  double ropeFactor = 1.0;
  double ropeLowFreqFactor = 1.0;
  double ropeHighFreqFactor = 4.0;
  int64_t ropeOriginalMaxPositions = 0;

  /// Angular frequency of each rotated pair, headDim/2 values in radians per position, after
  /// scaling.
  std::vector<double> ropeInverseFrequencies() const;
};

struct ParameterSpec {
  std::string name; ///< "text/layers/0/attention/query"
  std::vector<uint64_t> shape;
  /// Read word by word (norms, the convolution, decay terms, token ids): stored as `directFormat`.
  /// Other parameters are matrices of any registered format but I32.
  bool direct = false;
  Format directFormat = Format::BF16;
  Binding binding;
  std::string input; ///< id of the Use; empty for gathered or elementwise parameters
  ActivationPolicy policy = ActivationPolicy::A16Only;
  /// The FP32 element that holds the activation divisor of the 4-bit activation path, when stored.
  std::optional<RangePart> activationInputDivisor;
};

/// The draft layer (multi-token prediction), when it was selected.
struct MtpSpec {
  /// Parameter that turns mtp/final_hidden into logits: "proposal/head" or "text/output_head".
  std::string head;
  /// Row r of the head is token proposal/token_ids[r]; otherwise row r is token r.
  bool indexed = false;
  uint64_t rows = 0; ///< of the head
  ActivationPolicy headPolicy = ActivationPolicy::A16Only;
};

/// Config of a text model, whichever family it belongs to.
using ModelConfig = std::variant<DecoderConfig, HybridConfig>;

struct ModelSpec {
  ModelConfig config;
  /// Inventory order: text, then mtp and proposal, then vision when selected.
  std::vector<ParameterSpec> parameters;
  std::optional<MtpSpec> mtp;
  std::optional<VisionConfig> vision; ///< the tower, when it was selected
  /// Role (file name) -> object of the text component's resources, in every framing.
  std::map<std::string, uint32_t> resources;
  /// What was left out: "component vision is not selected; 333 objects left unread".
  std::vector<std::string> notes;

  bool isDecoder() const { return std::holds_alternative<DecoderConfig>(config); }
  bool isHybrid() const { return std::holds_alternative<HybridConfig>(config); }
  const DecoderConfig &decoderConfig() const { return std::get<DecoderConfig>(config); }
  DecoderConfig &decoderConfig() { return std::get<DecoderConfig>(config); }
  const HybridConfig &hybridConfig() const { return std::get<HybridConfig>(config); }
  HybridConfig &hybridConfig() { return std::get<HybridConfig>(config); }

  const std::string &architecture() const;
  int64_t hiddenSize() const;
  int64_t vocabSize() const;
  int64_t numLayers() const;
  int64_t maxPositions() const;
  /// Null when the inventory has no such parameter. Linear.
  const ParameterSpec *find(std::string_view name) const;
};

struct RecogniseOptions {
  bool mtp = false; ///< select the mtp component, and the proposal head when there is one
  bool vision = false; ///< select the vision component
};

/// Reads what an artifact holds and binds every parameter of the selected components.
/// Framing 3: by components.text.config.architectures; framings 1 and 2: by the identity, whose
/// inventory is closed. Rules: docs/models/decoder.md, docs/models/qwen3_5.md.
/// Errors: Unsupported (NB0301 no model here, NB0302 architecture, NB0306 identity, NB0308 selected
/// component missing), BadFile (NB0303 config, NB0304 parameters, NB0305 uses, NB0307 objects of an
/// identity); the notes list every parameter, Use or object at fault.
Result<ModelSpec> recogniseModel(const Directory &directory, std::string_view fileName,
                                 const RecogniseOptions &options = {});

/// "LlamaForCausalLM, Qwen3ForCausalLM, ...": every architecture of framing 3, for messages.
std::string listModelArchitectures();

} // namespace ninfer

#endif // NINFER_MODELS_MODELSPEC_H
