// Config of the vision tower of the hybrid family as numbers. How it is stored and checked:
// models/Vision.h.
#ifndef NINFER_MODELS_VISIONCONFIG_H
#define NINFER_MODELS_VISIONCONFIG_H

#include <cstdint>
#include <vector>

namespace ninfer {

/// Dimensions of a vision tower, as components.vision.config stores them.
struct VisionConfig {
  bool moe = false; ///< beside a sparse text model
  int64_t depth = 0;
  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0;
  int64_t numHeads = 0;
  int64_t patchSize = 0;
  int64_t temporalPatchSize = 0;
  int64_t spatialMergeSize = 0;
  int64_t numPositions = 0; ///< a square

  int64_t headDim() const { return hiddenSize / numHeads; }
  /// Elements of one patch: channel, frame, row, column.
  int64_t patchWidth() const { return 3 * temporalPatchSize * patchSize * patchSize; }
  /// Patches that become one embedding.
  int64_t mergedPatches() const { return spatialMergeSize * spatialMergeSize; }
  int64_t mergedWidth() const { return mergedPatches() * hiddenSize; }
  /// Rows, and columns, of the position table.
  int64_t positionSide() const;
  /// Angular frequency of the pairs that one axis turns, headDim / 4 values in radians per position:
  /// 10000^(-2i / (headDim / 2)). Height turns the first pairs of a head, width the others.
  std::vector<double> ropeInverseFrequencies() const;

  bool operator==(const VisionConfig &) const = default;
};

} // namespace ninfer

#endif // NINFER_MODELS_VISIONCONFIG_H
