// Linear layers with integer codes and quantised activations (profiles a16 and a8).
//
// Up to kMicroDotRows rows: with VNNI TreeLinear.h (one) and LaneLinear.h (several), otherwise RowLinear.h.
// Many rows: panels of 2 * kLanes weight rows are unpacked into scratch with rows in lanes, then multiplied by blocks
// of activation rows held in registers (panelTile). Integer sums are exact; each group adds sum * scale * step in float.
#ifndef NINFER_CODEGEN_CPU_KERNELS_INTLINEAR_H
#define NINFER_CODEGEN_CPU_KERNELS_INTLINEAR_H

#if defined(__AVX512VNNI__)
#include "codegen/cpu/kernels/LaneLinear.h"
#else
#include "codegen/cpu/kernels/RowLinear.h"
#endif

namespace ninfer::micro {

inline constexpr int kPanelRows = 2 * kLanes;

/// Scratch of linearPanel: codes [group][8][operand][2][register], scales [group][2][register], sums [row][2][register].
template <int bits, int Bytes> struct PanelLayout {
  static constexpr int64_t kUnits = kMicroPanelK / Bytes / IntFormat<bits>::kUnitCodes; ///< per chunk of K
  static constexpr int64_t kGroups = kMicroPanelK / IntFormat<bits>::kGroup;
  static constexpr int64_t kGroupBytes = int64_t(8) * Operands<bits, Bytes>::kOps * 2 * kVec;
  static constexpr int64_t kScales = kGroups * kGroupBytes;
  static constexpr int64_t kTotals = kScales + kGroups * 2 * kVec;
  static_assert(kTotals <= kMicroPanelRows * (kMicroPanelK * 4 + kMicroPanelK / 16 * 4));
};

/// Units [u0, u0 + units) of weight rows n, n+1, ... (clamped to last) into the panel.
template <int bits, int Bytes>
NI_INLINE void unpackPanel(const IntPlanes &w, int64_t k, int64_t n, int64_t last, int64_t u0, int64_t units,
                           uint8_t *panel) {
  using W = IntFormat<bits>;
  using Ops = Operands<bits, Bytes>;
  using P = PanelLayout<bits, Bytes>;
  constexpr int kOps = Ops::kOps;
#pragma clang loop unroll(disable)
  for (int half = 0; half < 2; ++half) {
    IntRow rows[kLanes];
    for (int r = 0; r < kLanes; ++r)
      rows[r] = W::row(w, k, minOf(n + half * kLanes + r, last));
    alignas(64) uint16_t scales[P::kGroups][kLanes];
    for (int r = 0; r < kLanes; ++r)
      for (int64_t g = 0; g < units * W::kUnitGroups; ++g)
        scales[g][r] = rows[r].scales[u0 * W::kUnitGroups + g];
    for (int64_t g = 0; g < units * W::kUnitGroups; ++g)
      storeF(reinterpret_cast<float *>(panel + P::kScales + (g * 2 + half) * kVec), loadF16(scales[g], kLanes));
#pragma clang loop unroll(disable)
    for (int64_t u = 0; u < units; ++u) {
      uint8_t *to = panel + u * (kLanes * kOps * 2 * kVec) + half * kVec;
      const auto put = [&](int d, const I(&op)[kOps]) {
#pragma unroll
        for (int j = 0; j < kOps; ++j)
          store(to + (d * kOps + j) * (2 * kVec), op[j]);
      };
      I m[kLanes];
      if constexpr (bits == 8 || bits == 4) { // stored words transpose as they are
#pragma unroll
        for (int r = 0; r < kLanes; ++r)
          m[r] = load(rows[r].base + (u0 + u) * kVec);
        transpose(m);
#pragma unroll
        for (int d = 0; d < kLanes; ++d) {
          I op[kOps];
          if constexpr (bits == 8) {
            Ops::split(m[d], op);
          } else {
            const I lo = (m[d] ^ set8(0x88)) & set8(0x0f), hi = (srl16<4>(m[d]) ^ set8(0x08)) & set8(0x0f);
            if constexpr (Bytes == 2)
              Ops::split(lo, hi, op);
            else
              op[0] = lo, op[1] = hi;
          }
          put(d, op);
        }
      } else {
        I h[kLanes];
#pragma unroll
        for (int r = 0; r < kLanes; ++r)
          unpackBytes<bits>(rows[r].base + (u0 + u) * kVec, rows[r].high + (u0 + u) * W::kHighBytes, m[r], h[r]);
        transpose(m);
        transpose(h);
#pragma unroll
        for (int d = 0; d < kLanes; ++d) {
          I op[kOps];
          if constexpr (Bytes == 2)
            Ops::split(m[d], h[d], op);
          else
            op[0] = m[d], op[1] = h[d];
          put(d, op);
        }
      }
    }
  }
}

/// One group for a block of activation rows: the integer sums of the panel's rows, exact. codes, start: this group's
/// codes and -(group sums) in the block record.
template <int bits, int Bytes>
NI_INLINE void groupSums(const uint8_t *panel, const uint8_t *codes, const uint8_t *start, I (&acc)[kBlock][2]) {
  using Ops = Operands<bits, Bytes>;
#pragma unroll
  for (int t = 0; t < kBlock; ++t) {
    I a = zeroI();
    if constexpr (Ops::kOffsetLog != 0)
      a = sll32<Ops::kOffsetLog>(broadcast32(start + t * 4));
    acc[t][0] = acc[t][1] = a;
  }
  constexpr int kSteps = 8 * Ops::kOps;
  if constexpr (Bytes == 2 || kByteDots) {
#pragma clang loop unroll_count(4)
    for (int s = 0; s < kSteps; ++s) {
      const I w0 = load(panel + s * (2 * kVec)), w1 = load(panel + s * (2 * kVec) + kVec);
#pragma unroll
      for (int t = 0; t < kBlock; ++t) {
        const I x = broadcast32(codes + (s * kBlock + t) * 4);
        if constexpr (Bytes == 2)
          acc[t][0] = dot16(acc[t][0], w0, x), acc[t][1] = dot16(acc[t][1], w1, x);
        else
          acc[t][0] = dotBytes(acc[t][0], w0, x), acc[t][1] = dotBytes(acc[t][1], w1, x);
      }
    }
  } else { // sums of byte products in int16 as long as they cannot overflow: (2^bits - 1) * 127 * 2 * steps < 2^15
    constexpr int kRun = bits == 4 ? 8 : bits == 5 ? 4 : 2;
#pragma clang loop unroll(disable)
    for (int c = 0; c < kSteps; c += kRun) {
      I part[kBlock][2];
#pragma unroll
      for (int s = 0; s < kRun; ++s) {
        const uint8_t *at = panel + (c + s) * (2 * kVec);
        const I w0 = load(at), w1 = load(at + kVec);
#pragma unroll
        for (int t = 0; t < kBlock; ++t) {
          const I x = broadcast32(codes + ((c + s) * kBlock + t) * 4);
          const I p0 = maddU8(w0, x), p1 = maddU8(w1, x);
          part[t][0] = s ? add16(part[t][0], p0) : p0, part[t][1] = s ? add16(part[t][1], p1) : p1;
        }
      }
#pragma unroll
      for (int t = 0; t < kBlock; ++t) {
        acc[t][0] = add32(acc[t][0], madd16(part[t][0], set16(1)));
        acc[t][1] = add32(acc[t][1], madd16(part[t][1], set16(1)));
      }
    }
  }
}

/// What a tile has summed before this chunk of K, and where its sums go after it: null, a new sum; totals of the tile
/// [kBlock][kPanelRows]; or, after the last chunk, rows of the result.
struct TileSums {
  const float *from;
  float *to;
  int64_t rows, valid, stride; ///< result: rows and outputs that exist, elements between rows; totals: whole tiles
};

/// The panel's groups times those of the block record x (of `length` elements of K), added to sums.
template <int bits, int Bytes>
NI_INLINE void panelTile(const uint8_t *panel, const uint8_t *x, int64_t length, const TileSums &sums) {
  using W = IntFormat<bits>;
  using L = BlockLayout<W::kGroup, Bytes>;
  using P = PanelLayout<bits, Bytes>;
  F total[kBlock][2];
  if (sums.from) {
#pragma unroll
    for (int t = 0; t < kBlock; ++t)
      total[t][0] = loadF(sums.from + t * kPanelRows), total[t][1] = loadF(sums.from + t * kPanelRows + kLanes);
  } else {
#pragma unroll
    for (int t = 0; t < kBlock; ++t)
      total[t][0] = total[t][1] = zeroF();
  }
  const uint8_t *starts = x + L::sums(length), *steps = x + L::steps(length);
#pragma clang loop unroll(disable)
  for (int64_t g = 0; g < length / W::kGroup; ++g) {
    I acc[kBlock][2];
    groupSums<bits, Bytes>(panel + g * P::kGroupBytes, x + g * (W::kGroup * Bytes * kBlock), starts + g * (4 * kBlock),
                           acc);
    const float *scales = reinterpret_cast<const float *>(panel + P::kScales + g * 2 * kVec);
    const F s0 = loadF(scales), s1 = loadF(scales + kLanes);
#pragma unroll
    for (int t = 0; t < kBlock; ++t) {
      const F step = setF(loadScalar<float>(steps + (g * kBlock + t) * 4));
      total[t][0] = fma(toFloat(acc[t][0]), mul(s0, step), total[t][0]);
      total[t][1] = fma(toFloat(acc[t][1]), mul(s1, step), total[t][1]);
    }
  }
  if (sums.rows >= kBlock && sums.valid >= kPanelRows) {
#pragma unroll
    for (int t = 0; t < kBlock; ++t)
      storeF(sums.to + t * sums.stride, total[t][0]), storeF(sums.to + t * sums.stride + kLanes, total[t][1]);
    return;
  }
#pragma unroll
  for (int t = 0; t < kBlock; ++t)
    if (t < sums.rows) {
      storeSome(sums.to + t * sums.stride, sums.valid, total[t][0]);
      if (sums.valid > kLanes)
        storeSome(sums.to + t * sums.stride + kLanes, sums.valid - kLanes, total[t][1]);
    }
}

template <int bits, int Bytes>
NI_INLINE void linearPanel(const IntPlanes &w, const uint8_t *packed, int64_t rows, int64_t k, int64_t nBegin,
                           int64_t nEnd, float *out, int64_t ldOut, void *scratch) {
  using W = IntFormat<bits>;
  using P = PanelLayout<bits, Bytes>;
  using L = BlockLayout<W::kGroup, Bytes>;
  const L l = L::make(k, rows);
  uint8_t *panel = static_cast<uint8_t *>(scratch);
  float *totals = reinterpret_cast<float *>(panel + P::kTotals);
#pragma clang loop unroll(disable)
  for (int64_t n = nBegin; n < nEnd; n += kPanelRows) {
#pragma clang loop unroll(disable)
    for (int64_t k0 = 0; k0 < l.kp; k0 += l.chunk) {
      const int64_t length = l.length(k0);
      const bool last = k0 + length == l.kp;
      unpackPanel<bits, Bytes>(w, k, n, nEnd - 1, k0 / W::kUnitCodes, length / W::kUnitCodes, panel);
      const uint8_t *x = packed + l.at(k0, 0);
#pragma clang loop unroll(disable)
      for (int64_t t = 0; t < rows; t += kBlock, x += L::bytes(length)) {
        float *tile = totals + t * kPanelRows;
        TileSums sums{k0 == 0 ? nullptr : tile, tile, kBlock, kPanelRows, kPanelRows};
        if (last)
          sums.to = out + t * ldOut + (n - nBegin), sums.rows = rows - t, sums.valid = nEnd - n, sums.stride = ldOut;
        panelTile<bits, Bytes>(panel, x, length, sums);
      }
    }
  }
}

template <int bits, int Bytes>
NI_INLINE void linearInt(const void *p0, const void *p1, const void *p2, const void *packed, int64_t rows, int64_t k,
                         int64_t nBegin, int64_t nEnd, float *out, int64_t ldOut, void *scratch) {
  const IntPlanes w = IntFormat<bits>::planes(p0, p1, p2);
  const uint8_t *x = static_cast<const uint8_t *>(packed);
  if (rows <= kMicroDotRows) {
#if defined(__AVX512VNNI__)
    linearLanes<bits, Bytes>(w, x, rows, k, nBegin, nEnd, out, ldOut);
#else
    linearDot<bits, Bytes>(w, x, rows, k, nBegin, nEnd, out, ldOut);
#endif
  } else {
    linearPanel<bits, Bytes>(w, x, rows, k, nBegin, nEnd, out, ldOut, scratch);
  }
}

} // namespace ninfer::micro

#endif // NINFER_CODEGEN_CPU_KERNELS_INTLINEAR_H
