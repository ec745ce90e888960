// Config of the hybrid family (Qwen3.5, 3.6 and 3.8: gated attention and Gated DeltaNet layers,
// dense or sparse FFN) as numbers. How it is stored and checked: models/Hybrid.h.
#ifndef NINFER_MODELS_HYBRIDCONFIG_H
#define NINFER_MODELS_HYBRIDCONFIG_H

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ninfer {

enum class HybridLayer : uint8_t { FullAttention, LinearAttention };

/// Gated full attention (group A of the stored config).
struct HybridAttention {
  int64_t numHeads = 0;   ///< Hq
  int64_t numKvHeads = 0; ///< Hkv, divides Hq; query head h reads KV head h / (Hq / Hkv)
  int64_t headDim = 0;    ///< D
  double ropeTheta = 1e7;
  double partialRotaryFactor = 0.25;
  std::array<int64_t, 3> mropeSection{}; ///< pairs per position axis: time, height, width

  int64_t queryWidth() const { return numHeads * headDim; }
  int64_t keyWidth() const { return numKvHeads * headDim; }
  /// R: leading dimensions of a head that rotate, in pairs (i, i + R/2). The product is rounded to
  /// binary32 before its fraction is dropped.
  int64_t rotaryDim() const;
  /// Angular frequency of each rotated pair, R/2 values in radians per position: theta^(-2i/R).
  std::vector<double> ropeInverseFrequencies() const;
  /// Position axis of each rotated pair, R/2 values (0 time, 1 height, 2 width). A text position
  /// has three equal axes, so text needs none of it.
  std::vector<int> ropeAxes() const;

  bool operator==(const HybridAttention &) const = default;
};

/// Gated DeltaNet (group B of the stored config).
struct HybridDelta {
  int64_t numKeyHeads = 0;   ///< nk
  int64_t keyDim = 0;        ///< dk
  int64_t numValueHeads = 0; ///< nv, a multiple of nk; value head j uses key head j / (nv / nk)
  int64_t valueDim = 0;      ///< dv
  int64_t taps = 0;          ///< of the causal convolution

  int64_t keyWidth() const { return numKeyHeads * keyDim; }       ///< kw
  int64_t valueWidth() const { return numValueHeads * valueDim; } ///< vw
  int64_t channels() const { return 2 * keyWidth() + valueWidth(); }

  bool operator==(const HybridDelta &) const = default;
};

/// Sparse FFN.
struct HybridMoe {
  int64_t numExperts = 0;         ///< E
  int64_t expertsPerToken = 0;    ///< k of top-k
  int64_t intermediateSize = 0;   ///< Ir, of a routed expert
  int64_t sharedIntermediate = 0; ///< Is, of the shared expert

  bool operator==(const HybridMoe &) const = default;
};

struct HybridConfig {
  std::string architecture; ///< "Qwen3_5ForCausalLM" (dense) or "Qwen3_5MoeForCausalLM"
  int64_t hiddenSize = 0;
  int64_t vocabSize = 0;
  int64_t numLayers = 0;
  int64_t maxPositions = 0;
  double rmsNormEps = 1e-6; ///< a binary32 value once parsed
  bool tieWordEmbeddings = false;
  std::vector<HybridLayer> layerTypes;      ///< numLayers of them
  std::optional<HybridAttention> attention; ///< present when a full attention layer or MTP needs it
  std::optional<HybridDelta> delta;         ///< present when a linear attention layer needs it
  int64_t intermediateSize = 0;             ///< dense FFN; 0 when moe is present
  std::optional<HybridMoe> moe;

  bool operator==(const HybridConfig &) const = default;
};

} // namespace ninfer

#endif // NINFER_MODELS_HYBRIDCONFIG_H
