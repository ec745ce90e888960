// How the work of a launch is cut into tiles: the runtime runs tiles [0, tilesConst + tilesPerRow *
// rows) and splits them statically over threads (runtime/abi/kernel_abi.h). `rows` are those of the
// call, also when a kernel itself has a static number of rows (after last_row); such a kernel has
// tilesPerRow 0. Shared by admission (numbers on the op) and the code generators (what a tile
// means). Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_TILING_H
#define NINFER_CODEGEN_COMMON_TILING_H

#include "codegen/common/Signature.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace ninfer {

struct Tiling {
  int64_t tilesConst = 0;
  int64_t tilesPerRow = 0;
  /// CPU linear kernels: output rows (swiglu: pairs of a gate row and an up row) per tile;
  /// otherwise 0.
  int64_t granule = 0;
  bool operator==(const Tiling &) const = default;
};

/// Tiles of one admitted kernel of `executor`.
///
/// cpu, linear: tiles run over output rows; every tile handles all activation rows. Segment s owns
///   ceil(n_s / granule) consecutive tiles, in segment order, so no tile spans two segments; the
///   last tile of a segment may be short. With the swiglu epilogue gate and up share their tiles.
/// cpu, attention: one tile per (row, query head), row-major; numbered by KV head first in kernels of more than 16 rows
///   (LowerAttention.cpp). rope_append: one tile per (row,
/// head), where
///   heads 0..heads-1 are query heads and heads.. are KV heads (norm, rope and store of key, store
///   of value).
/// cpu, full_attention: one tile per (query head, row), head-major, so that a run of tiles is a run of rows
///   of one head.
/// cpu, causal_conv: tiles of kConvTileChannels channels; cpu, gated_delta: tiles of kDeltaTileRows
///   rows of the state of one value head, head by head. Each tile takes all activation rows in turn.
/// cpu, moe_up, moe_down: tiles of kExpertTileUnits outputs of an expert (up: pairs of gate and up
///   row), the same outputs of every expert, so that threads have even shares whatever the routes; each
///   tile takes all rows and slots.
/// cpu, others: one tile per row.
/// reference: one tile per row for every op, one tile for last_row.
/// cuda: as reference. A launch's thread blocks follow from the specialisation record, which is
/// chosen later (codegen/cuda); they replace these numbers in the plan.
Tiling tilingFor(const KernelSignature &signature, std::string_view executor);

/// Output rows per tile of a CPU linear kernel. `n` are the units of each segment (swiglu: one
/// entry, pairs). One activation row: 16, one 64-byte line of results, so that no two threads write
/// one line. Several rows: 32, a whole panel of the widest many-row micro-kernel. Half of it when
/// the segments have few outputs together, so that threads still get even shares.
int64_t linearGranule(const std::vector<int64_t> &n, int64_t maxRows);

/// Channels of one causal_conv tile: of one projection, the last tile of a projection may be short.
inline constexpr int64_t kConvTileChannels = 128;
/// State rows of one gated_delta tile.
inline constexpr int64_t kDeltaTileRows = 16;

/// Outputs of one tile of moe_up and moe_down.
inline constexpr int64_t kExpertTileUnits = 16;
/// Rows of one expert that they multiply at a time, above one row per call: enough to pay for unpacking
/// a panel of weights, few enough that the packed rows stay in the second-level cache.
inline constexpr int64_t kExpertRowBlock = 64;

/// First tile of every segment, plus the total as last entry.
std::vector<int64_t> segmentFirstTiles(const std::vector<int64_t> &n, int64_t granule);

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_TILING_H
