// Which parameters a source tensor feeds, and which of its rows. Written out a second time, apart from the converter's
// tables, so that a wrong entry there cannot hide itself. Internal to the ladder.
#ifndef NINFER_INSPECT_PARITYNAMES_H
#define NINFER_INSPECT_PARITYNAMES_H

#include "convert/Checkpoint.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ninfer {

/// Rows [first, first + count) of a source tensor; rows count over all axes but the last. A vector that is cut has rows of one
/// element.
struct SourceRun {
  uint64_t first = 0, count = 0;
};

struct ParityFeed {
  std::string parameter;
  std::vector<uint64_t> shape;
  std::vector<SourceRun> runs; ///< the parameter's rows in order; empty: all rows of the tensor
  bool transposed = false;     ///< [taps, C] from a convolution stored as [C, 1, taps]
  uint64_t pairedHeadDim = 0;  ///< > 0: the source interleaves the rotary halves of heads this wide
};

/// Empty for a tensor that feeds none, and for one whose shape cannot be cut as its name says.
std::vector<ParityFeed> parityFeeds(const Checkpoint &checkpoint, const SourceTensor &tensor);

/// A tensor of the vision tower.
bool feedsVision(const std::string &tensor);

} // namespace ninfer

#endif // NINFER_INSPECT_PARITYNAMES_H
