// What a model package says about one artifact: the architecture's config and its complete parameter
// inventory, each parameter bound to stored ranges. Free of MLIR; models/graph turns it into IR.
#ifndef NINFER_MODELS_MODELSPEC_H
#define NINFER_MODELS_MODELSPEC_H

#include "artifact/container/Directory.h"
#include "support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ninfer {

enum class RopeScaling { None, Linear, Llama3 };

/// Config of the dense decoder family (LlamaForCausalLM, Qwen3ForCausalLM). Stored, closed and checked,
/// as components.text.config with the Hugging Face field names (docs/models/decoder.md).
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

  /// Angular frequency of each rotated pair, headDim/2 values in radians per position, after scaling.
  std::vector<double> ropeInverseFrequencies() const;
};

struct ParameterSpec {
  std::string name; ///< "text/layers/0/attention/query"
  std::vector<uint64_t> shape;
  bool direct = false; ///< must be stored as BF16 (norms)
  Binding binding;
  std::string input; ///< id of the Use; empty for gathered or elementwise parameters
  ActivationPolicy policy = ActivationPolicy::A16Only;
};

struct ModelSpec {
  DecoderConfig config;
  std::vector<ParameterSpec> parameters; ///< inventory order
};

} // namespace ninfer

#endif // NINFER_MODELS_MODELSPEC_H
