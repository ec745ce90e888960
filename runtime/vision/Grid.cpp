#include "runtime/vision/Grid.h"

#include "runtime/vision/Positions.h"

#include <algorithm>
#include <string>

namespace ninfer::vision {

namespace {

std::string sides(const Grid &grid) { return std::to_string(grid.height) + " x " + std::to_string(grid.width); }

/// Where coordinate `at` of `count` lies on an axis of `side` table rows: the row before it, the next one, and how far it
/// is towards that.
struct Place {
  int64_t low, high;
  double part;
};

Place placeOf(int64_t at, int64_t count, int64_t side) {
  const double place = count > 1 ? double(at) * double(side - 1) / double(count - 1) : 0.0;
  const auto low = std::min(int64_t(place), side - 1);
  return {low, std::min(low + 1, side - 1), place - double(low)};
}

} // namespace

Status checkGrid(const Grid &grid, int64_t merge, int64_t maxPatches) {
  if (grid.height < 1 || grid.width < 1 || grid.height % merge != 0 || grid.width % merge != 0)
    return makeError(ErrorKind::Usage, "NB0676",
                     "image grid: expected positive multiples of " + std::to_string(merge) + " patches, got " +
                         sides(grid));
  // Each side on its own first: the product may not fit.
  if (grid.height > maxPatches || grid.width > maxPatches || grid.patches() > maxPatches)
    return makeError(ErrorKind::Usage, "NB0676",
                     "image grid: expected at most " + std::to_string(maxPatches) + " patches, got " + sides(grid));
  return {};
}

std::array<int64_t, 2> patchAt(const Grid &grid, int64_t merge, int64_t index) {
  const int64_t inside = index % (merge * merge), square = index / (merge * merge), across = grid.width / merge;
  return {square / across * merge + inside / merge, square % across * merge + inside % merge};
}

void patchPlaces(const Grid &grid, int64_t merge, int64_t side, std::span<int32_t> positions,
                 std::span<int32_t> indices, std::span<float> weights) {
  for (int64_t i = 0; i < grid.patches(); ++i) {
    const auto [row, column] = patchAt(grid, merge, i);
    positions[size_t(2 * i)] = int32_t(row);
    positions[size_t(2 * i + 1)] = int32_t(column);
    const Place y = placeOf(row, grid.height, side), x = placeOf(column, grid.width, side);
    const int64_t rows[] = {y.low, y.low, y.high, y.high}, columns[] = {x.low, x.high, x.low, x.high};
    const double down[] = {1 - y.part, 1 - y.part, y.part, y.part}, right[] = {1 - x.part, x.part, 1 - x.part, x.part};
    for (size_t corner = 0; corner < 4; ++corner) {
      indices[size_t(4 * i) + corner] = int32_t(rows[corner] * side + columns[corner]);
      weights[size_t(4 * i) + corner] = float(down[corner] * right[corner]);
    }
  }
}

Result<TextPositions> textPositions(std::span<const Span> spans, int64_t merge) {
  constexpr int64_t kMost = 1 << 30; // tokens; positions stay inside 32 bits
  Positions positions;
  int64_t tokens = 0, next = 0; // `next`: the position of the token behind the last one
  for (const Span &span : spans) {
    if (!span.grid) {
      if (span.tokens < 0 || span.tokens > kMost - next)
        return makeError(ErrorKind::Usage, "NB0676",
                         "text of " + std::to_string(span.tokens) + " tokens: expected 0 to " +
                             std::to_string(kMost - next));
      tokens += span.tokens;
      next += span.tokens;
      continue;
    }
    NINFER_RETURN_IF_ERROR(checkGrid(*span.grid, merge, kMost));
    const int64_t rows = span.grid->height / merge, columns = span.grid->width / merge;
    if (std::max(rows, columns) > kMost - next)
      return makeError(ErrorKind::Usage, "NB0676", "image grid: " + sides(*span.grid) + " does not fit the positions");
    positions.append(tokens, rows, columns);
    tokens += rows * columns;
    next += std::max(rows, columns);
  }
  TextPositions out;
  for (int64_t token = 0; token < tokens; ++token)
    out.positions.push_back(positions.of(token));
  out.ropeDelta = positions.delta();
  return out;
}

} // namespace ninfer::vision
