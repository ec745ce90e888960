#include "codegen/common/Tiling.h"

#include <numeric>

namespace ninfer {

int64_t linearGranule(const std::vector<int64_t> &n, int64_t maxRows) {
  constexpr int64_t kEnough =
      2048; // outputs: with fewer, wide tiles leave a team of threads uneven
  const bool enough = std::accumulate(n.begin(), n.end(), int64_t{0}) >= kEnough;
  if (maxRows == 1)
    return enough ? 16 : 8;
  return enough ? 32 : 16;
}

std::vector<int64_t> segmentFirstTiles(const std::vector<int64_t> &n, int64_t granule) {
  std::vector<int64_t> first = {0};
  for (int64_t units : n)
    first.push_back(first.back() + (units + granule - 1) / granule);
  return first;
}

namespace {

/// Tiles per activation row of every kernel that is cut by rows.
int64_t tilesOfOneRow(const KernelSignature &signature, std::string_view executor) {
  if (executor != "cpu")
    return 1;
  if (signature.op == OpKind::Attention || signature.op == OpKind::FullAttention)
    return signature.heads;
  if (signature.op == OpKind::RopeAppend)
    return signature.heads + signature.kvHeads;
  return 1;
}

} // namespace

Tiling tilingFor(const KernelSignature &signature, std::string_view executor) {
  if (signature.op == OpKind::Linear && executor == "cpu") {
    std::vector<int64_t> units;
    for (const WeightSignature &weight : signature.weights)
      units.push_back(weight.n);
    if (signature.epilogue == KernelEpilogue::Swiglu && units.size() == 2)
      units.pop_back();
    int64_t granule = linearGranule(units, signature.rows.max);
    return {segmentFirstTiles(units, granule).back(), 0, granule};
  }
  if (signature.op == OpKind::LastRow)
    return {1, 0, 0};
  if (signature.op == OpKind::CausalConv) {
    if (executor != "cpu")
      return {1, 0, 0};
    return {segmentFirstTiles(signature.segmentWidths, kConvTileChannels).back(), 0,
            kConvTileChannels};
  }
  if (signature.op == OpKind::MoeUp || signature.op == OpKind::MoeDown) {
    if (executor != "cpu")
      return {1, 0, 0};
    int64_t units = signature.weights.front().n / std::max<int64_t>(1, signature.experts);
    if (signature.op == OpKind::MoeUp)
      units /= 2;
    return {(units + kExpertTileUnits - 1) / kExpertTileUnits, 0, kExpertTileUnits};
  }
  if (signature.op == OpKind::GatedDelta) {
    if (executor != "cpu")
      return {1, 0, 0};
    const int64_t perHead = (signature.headDim + kDeltaTileRows - 1) / kDeltaTileRows;
    return {signature.heads * perHead, 0, kDeltaTileRows};
  }
  int64_t perRow = tilesOfOneRow(signature, executor);
  // A static number of rows does not follow the rows of the call: decode, or behind last_row.
  if (signature.rows.isStatic())
    return {perRow * signature.rows.max, 0, 0};
  return {0, perRow, 0};
}

} // namespace ninfer
