// F1 for several linear maps of the same rows: the thread blocks of one launch are shared out segment by segment, each runs
// linear.cuh for its own. Launch: grid (segmentsBlocks), segmentsThreads, segmentsShared.
#ifndef NINFER_CODEGEN_CUDA_KERNELS_LINEAR_SEGMENTS_CUH
#define NINFER_CODEGEN_CUDA_KERNELS_LINEAR_SEGMENTS_CUH

#include "linear.cuh"

namespace ni {

/// One segment; those behind spec.segments are null.
struct LinearSegment {
  const u8 *weight; ///< packed, ceil(n / 16) panels
  void *out;        ///< [rows][n]
  u32 n;
};
struct LinearSegmentsArgs {
  LinearSegment segment[kMaxSegments];
  const u16 *x, *norm; ///< as in LinearArgs
  u32 rows;
  float eps;
};

template <LinearSegmentsSpec S>
struct LinearSegments {
  static_assert(segmentsAccept(S), "linear_spec.cuh: segmentsAccept");
  struct alignas(16) Shared {
    u8 bytes[segmentsShared(S)]; ///< of the kind that runs
  };

  NI_FN void run(const LinearSegmentsArgs &a, Shared *sm) {
    LinearSegment own = a.segment[0];
    u32 kind = S.kindOf[0], block = blockX(), blocks = linearBlocks(S.kind[kind], own.n);
    NI_UNROLL
    for (u32 i = 1; i < S.segments; ++i)
      if (block >= blocks) { // not of the segment before
        own = a.segment[i];
        kind = S.kindOf[i];
        block -= blocks;
        blocks = linearBlocks(S.kind[S.kindOf[i]], own.n);
      }
    runKind<0>(a, sm, own, kind, block, blocks);
  }

private:
  template <u32 Kind>
  NI_FN void runKind(const LinearSegmentsArgs &a, Shared *sm, const LinearSegment &own, u32 kind, u32 block, u32 blocks) {
    using Map = Linear<S.kind[Kind]>;
    if (Kind + 1 == S.kinds || kind == Kind)
      Map::run({own.weight, nullptr, a.x, a.norm, nullptr, own.out, own.n, a.rows, a.eps},
               reinterpret_cast<typename Map::Shared *>(sm->bytes), block, blocks);
    else if constexpr (Kind + 1 < S.kinds)
      runKind<Kind + 1>(a, sm, own, kind, block, blocks);
  }
};

} // namespace ni

#define NI_LINEAR_SEGMENTS(name, ...)                                                                                  \
  namespace ni {                                                                                                       \
  constexpr LinearSegmentsSpec name##_spec = __VA_ARGS__;                                                              \
  }                                                                                                                    \
  NI_KERNEL(name, ni::segmentsThreads(ni::name##_spec), ni::name##_spec.blocksPerSm)                                   \
  (const ni::u8 *weight0, const ni::u8 *weight1, const ni::u8 *weight2, const ni::u8 *weight3, const ni::u8 *weight4,  \
   const ni::u8 *weight5, const ni::u8 *weight6, const ni::u8 *weight7, void *out0, void *out1, void *out2,            \
   void *out3, void *out4, void *out5, void *out6, void *out7, ni::u32 n0, ni::u32 n1, ni::u32 n2, ni::u32 n3,         \
   ni::u32 n4, ni::u32 n5, ni::u32 n6, ni::u32 n7, const ni::u16 *x, const ni::u16 *norm, ni::u32 rows, float eps) {   \
    NI_SHARED(ni::LinearSegments<ni::name##_spec>::Shared, shared);                                                    \
    ni::LinearSegments<ni::name##_spec>::run({{{weight0, out0, n0},                                                    \
                                               {weight1, out1, n1},                                                    \
                                               {weight2, out2, n2},                                                    \
                                               {weight3, out3, n3},                                                    \
                                               {weight4, out4, n4},                                                    \
                                               {weight5, out5, n5},                                                    \
                                               {weight6, out6, n6},                                                    \
                                               {weight7, out7, n7}},                                                   \
                                              x,                                                                       \
                                              norm,                                                                    \
                                              rows,                                                                    \
                                              eps},                                                                    \
                                             shared);                                                                  \
  }                                                                                                                    \
  NI_EXPORT(name)

#endif // NINFER_CODEGEN_CUDA_KERNELS_LINEAR_SEGMENTS_CUH
