// The vision tower of an opened plan: what its Encode phase takes and gives, read from the ports of the phase and the
// shapes of its parameters, and one call of it.
#ifndef NINFER_RUNTIME_EXECUTOR_TOWER_H
#define NINFER_RUNTIME_EXECUTOR_TOWER_H

#include "runtime/executor/Context.h"
#include "runtime/vision/Grid.h"

namespace ninfer {

class Tower {
public:
  /// NB0675 (Unsupported): the plan has no Encode phase. NB0677 (BadFile): one with other ports or parameters than those of
  /// models/graph/VisionGraph.cpp.
  static Result<Tower> of(const Engine &engine);

  int64_t maxPatches() const { return maxPatches_; }
  int64_t merge() const { return merge_; }                   ///< side of the square of patches that one embedding covers
  int64_t patchWidth() const { return patchWidth_; }         ///< elements of one patch
  int64_t embeddingWidth() const { return embeddingWidth_; } ///< elements of one embedding

  /// Embeddings of one image, [patches / merge^2][embeddingWidth], valid until the next call of the context. `patches` is
  /// [grid.patches()][patchWidth] in the order of vision::patchAt. Errors before any work: NB0676. NB0653 cancelled.
  Result<std::span<const float>> encode(Context &context, std::span<const float> patches,
                                        const vision::Grid &grid) const;
  /// Whether `values` point into what the last encode of that executor returned, or would have.
  bool isOutput(Executor &executor, const float *values) const;

private:
  const plan::Port *patches_ = nullptr, *positions_ = nullptr, *indices_ = nullptr, *weights_ = nullptr,
                   *embeddings_ = nullptr;
  int64_t maxPatches_ = 0, merge_ = 0, patchWidth_ = 0, embeddingWidth_ = 0;
  int64_t side_ = 0; ///< of the position table
};

} // namespace ninfer

#endif // NINFER_RUNTIME_EXECUTOR_TOWER_H
