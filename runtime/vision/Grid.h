// The grid of an image's patches: their order, their place in the learned position table, and the positions that text
// tokens have around media.
#ifndef NINFER_RUNTIME_VISION_GRID_H
#define NINFER_RUNTIME_VISION_GRID_H

#include "support/Status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ninfer::vision {

/// Rows and columns of patches of one image.
struct Grid {
  int64_t height = 0;
  int64_t width = 0;
  int64_t patches() const { return height * width; }
  bool operator==(const Grid &) const = default;
};

/// Both sides are positive multiples of `merge` and there are at most `maxPatches` patches. Error: NB0676 (Usage).
Status checkGrid(const Grid &grid, int64_t merge, int64_t maxPatches);

/// Row and column of the patch that comes `index`-th: merged squares row by row, and inside of one its patches row by
/// row.
std::array<int64_t, 2> patchAt(const Grid &grid, int64_t merge, int64_t index);

/// For every patch in order: row and column; the four rows of a table of side x side positions around its place, upper
/// left, upper right, lower left, lower right; and their bilinear weights. The corners of the grid lie on the corners of
/// the table. The spans hold 2, 4 and 4 values per patch.
void patchPlaces(const Grid &grid, int64_t merge, int64_t side, std::span<int32_t> positions,
                 std::span<int32_t> indices, std::span<float> weights);

/// A run of the token sequence: text of `tokens` tokens, or the embeddings of one image or video frame, whose number
/// follows from its grid.
struct Span {
  int64_t tokens = 0;       ///< of text
  std::optional<Grid> grid; ///< of media
};

/// Time, height and width position of every token, and what a later position is ahead of its number in the sequence.
struct TextPositions {
  std::vector<std::array<int32_t, 3>> positions;
  int64_t ropeDelta = 0; ///< largest position + 1 - number of tokens; usually negative
};

/// Text counts up in all three axes. Media that starts at s has s for time, s + row and s + column of the merged grid, and
/// the text behind it goes on at s + max(rows, columns). Error: NB0676 for a grid that is not whole merged squares.
Result<TextPositions> textPositions(std::span<const Span> spans, int64_t merge);

} // namespace ninfer::vision

#endif // NINFER_RUNTIME_VISION_GRID_H
