#include "codegen/cuda/Tuning.h"

#include <algorithm>

namespace ninfer::cuda {

ni::LinearSpec tunedLinear(ni::Format format, uint32_t rows, uint32_t k, ni::Prologue prologue, ni::Epilogue epilogue,
                           ni::OutputType output, ni::Operands operands) {
  ni::LinearSpec s{.format = format, .rows = rows, .k = k, .prologue = prologue, .epilogue = epilogue, .output = output,
                   .operands = operands};
  const uint32_t blocks = ni::panelBlocks(k);
  const bool wide = ni::blockCodeBytes(format) > 1024; // 8 and 16 bit codes fill the registers sooner
  const bool pair = epilogue == ni::Epilogue::Swiglu;
  // 16-byte loads in flight per lane and block: 2, 4 or 8, twice that for gate and up; 4 hide the latency.
  s.depth = format == ni::Format::Bf16 || (pair && (wide || rows > 2)) ? 1 : 2;
  // Rows are staged once per thread block: with more rows, more panels share them. A short K has no work for 8 warps.
  s.warpsK = rows >= 8 || blocks < 16 ? 4 : 8;
  if (rows > 8 || blocks < 4)
    s.warpsK = 2;
  s.warpsN = 8 / s.warpsK;
  // Two tiles or two weights double the sums a lane holds; with both, 128 registers spill on sm_120, and with high bits and x
  // in chunks 80 do.
  const bool high = ni::blockHighBytes(format) > 0;
  s.blocksPerSm = pair && rows > 8 ? 1 : pair || rows > 8 || wide || (high && rows >= 8) ? 2 : 3;
  constexpr uint32_t kBudget = 48 * 1024; // every architecture gives this without opting in
  const uint32_t quantum = ni::kBlockK * s.warpsK * s.depth;
  if (ni::linearShared(s) > kBudget) {
    s.chunk = quantum;
    while (true) {
      ni::LinearSpec next = s;
      next.chunk += quantum;
      if (ni::linearShared(next) > kBudget || next.chunk >= k)
        break;
      s = next;
    }
  }
  return s;
}

ni::LinearSegmentsSpec tunedSegments(const std::vector<ni::Format> &formats, const std::vector<uint32_t> &n, uint32_t rows, uint32_t k,
                                     ni::Prologue prologue, ni::Operands operands, bool roomy) {
  ni::LinearSegmentsSpec s{};
  uint64_t most = 0, bytes[ni::kMaxSegmentKinds] = {};
  for (size_t i = 0; i < formats.size(); ++i) {
    uint32_t kind = 0;
    while (kind < s.kinds && s.kind[kind].format != formats[i])
      ++kind;
    if (kind == s.kinds)
      s.kind[s.kinds++] = tunedLinear(formats[i], rows, k, prologue, ni::Epilogue::Store, ni::OutputType::Bf16, operands);
    s.kindOf[s.segments++] = kind;
    bytes[kind] += ni::packedBytes(formats[i], n[i], k);
    if (bytes[kind] > most) { // whose weights take the time
      most = bytes[kind];
      s.blocksPerSm = roomy ? 1 : s.kind[kind].blocksPerSm;
    }
  }
  return s;
}

ni::GemmSpec tunedGemm(ni::Format format, uint32_t rows, uint32_t k, ni::Epilogue epilogue, ni::OutputType output,
                       uint32_t sharedPerBlock, ni::Operands operands) {
  ni::GemmSpec s{.format = format, .k = k, .epilogue = epilogue, .output = output, .operands = operands};
  // 128 rows unpack each weight once per 64 multiplications of a lane instead of 32; below that they would be padding.
  s.tiles = rows > 64 && !ni::gemmHasGroups(s) ? 8 : 4;
  if (ni::gemmShared(s) > sharedPerBlock)
    s.tiles = 4;
  if (ni::gemmShared(s) > sharedPerBlock)
    s.stages = 1;
  for (ni::GemmSpec deeper = s; s.stages > 1 && deeper.stages < 4; s = deeper) {
    ++deeper.stages;
    if (ni::gemmShared(deeper) > sharedPerBlock)
      break;
  }
  s.blocksPerSm = !ni::gemmHasGroups(s) && s.tiles == 4 && 2 * ni::gemmShared(s) <= sharedPerBlock ? 2 : 1;
  return s;
}

ni::MoeGroupedSpec tunedGrouped(ni::Format format, uint32_t k, uint32_t topK, bool down, uint32_t sharedPerBlock) {
  ni::MoeGroupedSpec s{.format = format, .k = k, .topK = topK, .down = down};
  for (ni::MoeGroupedSpec deeper = s; deeper.stages < 4; s = deeper) {
    ++deeper.stages;
    if (ni::groupedShared(deeper) > sharedPerBlock)
      break;
  }
  return s;
}

ni::DeltaChunkedSpec tunedDeltaChunked(uint32_t keyHeads, uint32_t valueHeads, uint32_t keyDim, uint32_t valueDim, uint32_t rows) {
  // The state is spread over the registers of a block: 32 of them per thread at a key dim of 128 with 32 values. Chunks of 64
  // rows want 16 columns of it per warp, and rows to fill them.
  const bool wide = keyDim > 128;
  return {.keyHeads = keyHeads,
          .valueHeads = valueHeads,
          .keyDim = keyDim,
          .valueDim = valueDim,
          .values = wide || valueDim % 32 != 0 ? 16u : 32u,
          .warps = wide || keyDim % 64 != 0 || rows <= 32 ? 2u : 4u};
}

} // namespace ninfer::cuda
