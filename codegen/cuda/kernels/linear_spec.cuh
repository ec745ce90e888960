// Specialisation record of the F1 linear kernels (rows 1..16) and what a launch needs to know about it.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_LINEAR_SPEC_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_LINEAR_SPEC_CUH

#include "panel.cuh"

namespace ni {

enum class Prologue : u32 { None, RmsNorm, RmsNormUnitOffset };
enum class Epilogue : u32 { Store, Residual, Swiglu };
enum class OutputType : u32 { Bf16, Float };

struct LinearSpec {
  Format format;
  u32 rows;              ///< capacity, 1..16; a launch has 1..rows
  u32 k;                 ///< inputs, any number from 1
  Prologue prologue = Prologue::None;
  Epilogue epilogue = Epilogue::Store;
  OutputType output = OutputType::Bf16;
  u32 warpsK = 8;        ///< warps that share a panel, each with every warpsK-th block of 128 k
  u32 warpsN = 1;        ///< panels a thread block has in work at a time
  u32 chunk = 0;         ///< k held in shared memory at a time, a multiple of 128 * warpsK * depth; 0: all
  u32 depth = 2;         ///< weight blocks a warp holds in registers
  u32 blocksPerSm = 2;   ///< bound on registers
  Operands operands = Operands::Bf16;
};

constexpr u32 linearThreads(const LinearSpec &s) { return s.warpsK * s.warpsN * 32; }
/// Columns of 8 rows each of the tensor core's B operand.
constexpr u32 linearTiles(const LinearSpec &s) { return divideUp(s.rows, 8); }
/// Weights a warp multiplies with the same rows: gate and up, or one.
constexpr u32 linearWeights(const LinearSpec &s) { return s.epilogue == Epilogue::Swiglu ? 2 : 1; }
constexpr u32 linearChunk(const LinearSpec &s) { return s.chunk == 0 ? roundUp(s.k, kBlockK) : s.chunk; }
constexpr u32 linearChunks(const LinearSpec &s) { return divideUp(roundUp(s.k, kBlockK), linearChunk(s)); }
constexpr u32 linearXBytes(const LinearSpec &s) {
  return (linearChunks(s) > 1 ? 2 : 1) * s.rows * linearChunk(s) * 2;
}
/// F16: floats that say by what the rows of x were multiplied, per block of 128 k.
constexpr u32 linearUnitFloats(const LinearSpec &s) {
  return s.operands == Operands::F16 ? (linearChunks(s) > 1 ? 2 : 1) * (linearChunk(s) / kBlockK) * linearTiles(s) * 8 : 2;
}
constexpr u32 kPartialStride = 20; ///< floats per column of 16 sums: columns 2 t of 4 lanes start in different banks
constexpr u32 linearPartialFloats(const LinearSpec &s) {
  return s.warpsN * s.warpsK * linearWeights(s) * linearTiles(s) * 8 * kPartialStride;
}
constexpr u32 linearNormFloats(const LinearSpec &s) {
  return s.prologue == Prologue::None ? 2 : s.rows * (s.warpsK * s.warpsN + 1);
}
/// Dynamic shared memory, bytes.
constexpr u32 linearShared(const LinearSpec &s) {
  return linearXBytes(s) + (linearPartialFloats(s) + linearUnitFloats(s) + linearNormFloats(s)) * 4;
}
/// Thread blocks that have work for n outputs; a launch may use fewer, down to 1.
constexpr u32 linearBlocks(const LinearSpec &s, u32 n) { return divideUp(divideUp(n, kPanelRows), s.warpsN); }

/// The records the kernel accepts.
constexpr bool linearAccepts(const LinearSpec &s) {
  return hasPanels(s.format) && s.rows >= 1 && s.rows <= 16 && s.k >= 1 && s.k <= (1u << 20) && s.warpsK >= 1 &&
         s.warpsN >= 1 && linearThreads(s) <= 1024 && s.depth >= 1 && s.depth <= 8 && s.blocksPerSm >= 1 &&
         s.chunk % (kBlockK * s.warpsK * s.depth) == 0;
}

/// Several linear maps of the same rows in one launch, each with its own weight, outputs and format.
constexpr u32 kMaxSegments = 8, kMaxSegmentKinds = 7; ///< as many as there are formats with panels
struct LinearSegmentsSpec {
  u32 kinds;                           ///< different records among the segments
  LinearSpec kind[kMaxSegmentKinds];   ///< equal but for format and what tuning makes of it
  u32 segments;
  u32 kindOf[kMaxSegments];
  u32 blocksPerSm;
};
constexpr u32 segmentsThreads(const LinearSegmentsSpec &s) { return linearThreads(s.kind[0]); }
constexpr u32 segmentsShared(const LinearSegmentsSpec &s) {
  u32 bytes = 0;
  for (u32 i = 0; i < s.kinds; ++i)
    bytes = larger(bytes, linearShared(s.kind[i]));
  return roundUp(bytes, 16u);
}
/// Thread blocks of a launch, segment by segment.
constexpr u32 segmentsBlocks(const LinearSegmentsSpec &s, const u32 *n) {
  u32 blocks = 0;
  for (u32 i = 0; i < s.segments; ++i)
    blocks += linearBlocks(s.kind[s.kindOf[i]], n[i]);
  return blocks;
}
constexpr bool segmentsAccept(const LinearSegmentsSpec &s) {
  bool ok = s.kinds >= 1 && s.kinds <= kMaxSegmentKinds && s.segments >= 1 && s.segments <= kMaxSegments;
  for (u32 i = 0; ok && i < s.kinds; ++i)
    ok = linearAccepts(s.kind[i]) && s.kind[i].epilogue == Epilogue::Store && s.kind[i].rows == s.kind[0].rows &&
         s.kind[i].k == s.kind[0].k && s.kind[i].operands == s.kind[0].operands && s.kind[i].prologue == s.kind[0].prologue &&
         linearThreads(s.kind[i]) == linearThreads(s.kind[0]);
  for (u32 i = 0; ok && i < s.segments; ++i)
    ok = s.kindOf[i] < s.kinds;
  return ok;
}

} // namespace ni

#endif // NINFER_CODEGEN_CUDA_KERNELS_LINEAR_SPEC_CUH
