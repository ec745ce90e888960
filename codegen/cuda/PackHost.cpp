#include "codegen/cuda/PackHost.h"

#include "codegen/cuda/kernels/panel.cuh"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ninfer::cuda {

namespace {

static_assert(std::endian::native == std::endian::little);

using ni::Format;

/// One row of a panel: row g + 8 r of the sixteen; `stored` is its number in the weight. Walks the stored row once.
template <Format F>
class Row {
public:
  Row(const StoredPlanes &planes, uint32_t n, uint32_t k, uint64_t stored, uint32_t inPanel, uint8_t *panel)
      : planes_(planes), k_(k), stored_(stored), inPanel_(inPanel), r_(inPanel / 8), g_(inPanel % 8), panel_(panel) {}

  void pack() const {
    for (uint32_t c = 0; c < ni::panelBlocks(k_); ++c) {
      codes(c);
      high(c);
      scales(c);
    }
    if constexpr (F == Format::Fp8) // one bfloat16 per row
      std::memcpy(panel_ + ni::panelTailOffset(F, k_) + inPanel_ * 2, planes_.scales + stored_ * 2, 2);
  }

private:
  static constexpr uint32_t kCodeBytes = ni::blockCodeBytes(F);
  /// Elements the stored row has room for: row-split pads K to whole blocks.
  uint32_t paddedK() const { return F == Format::Fp8 || F == Format::Nvfp4 || F == Format::Bf16 ? k_ : ni::roundUp(k_, ni::kBlockK); }

  /// The stored codes of block c, `bytes` of them, zeros behind the end of the row.
  template <uint32_t Bytes>
  void block(uint32_t c, uint8_t (&codes)[Bytes]) const {
    const uint64_t rowBytes = uint64_t(paddedK()) * Bytes / ni::kBlockK, at = uint64_t(c) * Bytes;
    const uint64_t there = std::min<uint64_t>(Bytes, rowBytes - at);
    std::memcpy(codes, planes_.codes + stored_ * rowBytes + at, there);
    std::memset(codes + there, 0, Bytes - there);
  }
  void word(uint64_t at, uint32_t value) const { std::memcpy(panel_ + at, &value, 4); }

  void codes(uint32_t c) const {
    if constexpr (kCodeBytes == 1024) { // two codes per byte
      uint8_t b[64];
      block(c, b);
      for (uint32_t t = 0; t < 4; ++t)
        for (uint32_t j = 0; j < 4; ++j) {
          uint32_t v = 0;
          for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t pair = b[16 * j + 4 * i + t];
            v |= (pair & 15u) << 4 * i | (pair >> 4) << (4 * i + 16);
          }
          word(((uint64_t(c) * 2 + r_) * 32 + 4 * g_ + t) * 16 + 4 * j, v);
        }
    } else if constexpr (kCodeBytes == 2048) {
      uint8_t b[128];
      block(c, b);
      for (uint32_t s = 0; s < 8; ++s)
        for (uint32_t t = 0; t < 4; ++t) {
          const uint8_t *at = b + 16 * s + 2 * t;
          word((((uint64_t(c) * 2 + r_) * 2 + s / 4) * 32 + 4 * g_ + t) * 16 + 4 * (s % 4),
               uint32_t(at[0]) | uint32_t(at[8]) << 8 | uint32_t(at[1]) << 16 | uint32_t(at[9]) << 24);
        }
    } else {
      uint8_t b[256];
      block(c, b);
      for (uint32_t s = 0; s < 8; ++s)
        for (uint32_t e = 0; e < 2; ++e)
          for (uint32_t t = 0; t < 4; ++t)
            std::memcpy(panel_ + ((uint64_t(c) * 8 + s) * 32 + 4 * g_ + t) * 16 + 4 * (2 * e + r_), b + 2 * (16 * s + 8 * e + 2 * t), 4);
    }
  }

  void high(uint32_t c) const {
    const uint64_t from = ni::panelHighOffset(F, k_) + uint64_t(c) * ni::blockHighBytes(F);
    if constexpr (F == Format::Q5) { // bit k % 8 of byte k / 8
      const auto *b = reinterpret_cast<const uint8_t *>(planes_.high) + stored_ * (paddedK() / 8) + c * 16;
      for (uint32_t t = 0; t < 4; ++t) {
        uint32_t v = 0;
        for (uint32_t p = 0; p < 16; ++p)
          v |= (uint32_t(b[p]) >> 2 * t & 1u) << p | (uint32_t(b[p]) >> (2 * t + 1) & 1u) << (p + 16);
        word(from + (4 * g_ + t) * 8 + 4 * r_, v);
      }
    }
    if constexpr (F == Format::Q6) { // bits 2 (k % 4) of byte k / 4
      const auto *b = reinterpret_cast<const uint8_t *>(planes_.high) + stored_ * (paddedK() / 4) + c * 32;
      for (uint32_t half = 0; half < 2; ++half)
        for (uint32_t t = 0; t < 4; ++t) {
          uint32_t v = 0;
          for (uint32_t p = 0; p < 8; ++p) {
            const uint32_t pair = uint32_t(b[16 * half + 2 * p + t / 2]) >> 4 * (t % 2);
            v |= (pair & 3u) << 2 * p | (pair >> 2 & 3u) << (2 * p + 16);
          }
          word(from + (4 * g_ + t) * 16 + 4 * (2 * r_ + half), v);
        }
    }
  }

  void scales(uint32_t c) const {
    uint8_t *to = panel_ + ni::panelScaleOffset(F, k_) + uint64_t(c) * ni::blockScaleBytes(F) + inPanel_ * (ni::blockScaleBytes(F) / 16);
    if constexpr (F == Format::Nvfp4) { // tiles of 128 rows and 4 groups of 16
      const uint32_t tiles = k_ / 64;
      for (uint32_t q = 2 * c; q < std::min(2 * c + 2, tiles); ++q)
        std::memcpy(to + 4 * (q % 2),
                    planes_.scales + (stored_ / 128 * tiles + q) * 512 + stored_ % 32 * 16 + stored_ % 128 / 32 * 4, 4);
    } else if constexpr (ni::groupSize(F) != 0) {
      constexpr uint32_t kBytes = ni::blockScaleBytes(F) / 16; // per row and block
      std::memcpy(to, planes_.scales + (stored_ * ni::panelBlocks(k_) + c) * kBytes, kBytes);
    }
  }

  const StoredPlanes &planes_;
  uint32_t k_;
  uint64_t stored_;
  uint32_t inPanel_, r_, g_;
  uint8_t *panel_;
};

template <Format F>
void packAs(uint32_t n, uint32_t k, const StoredPlanes &planes, uint32_t first, uint32_t last, std::byte *packed) {
  const uint64_t bytes = ni::panelBytes(F, k);
  for (uint32_t p = first; p < last; ++p) {
    auto *panel = reinterpret_cast<uint8_t *>(packed) + p * bytes;
    std::memset(panel, 0, bytes);
    for (uint32_t row = 0; row < std::min(ni::kPanelRows, n - p * ni::kPanelRows); ++row)
      Row<F>(planes, n, k, uint64_t(p) * ni::kPanelRows + row, row, panel).pack();
    if constexpr (F == Format::Nvfp4)
      std::memcpy(panel + ni::panelTailOffset(F, k), planes.divisor, 4);
  }
}

} // namespace

void packPanels(Format format, uint32_t n, uint32_t k, const StoredPlanes &planes, uint32_t first, uint32_t last, std::byte *packed) {
  switch (format) {
  case Format::Q4: return packAs<Format::Q4>(n, k, planes, first, last, packed);
  case Format::Q5: return packAs<Format::Q5>(n, k, planes, first, last, packed);
  case Format::Q6: return packAs<Format::Q6>(n, k, planes, first, last, packed);
  case Format::W8: return packAs<Format::W8>(n, k, planes, first, last, packed);
  case Format::Nvfp4: return packAs<Format::Nvfp4>(n, k, planes, first, last, packed);
  case Format::Fp8: return packAs<Format::Fp8>(n, k, planes, first, last, packed);
  case Format::Bf16: return packAs<Format::Bf16>(n, k, planes, first, last, packed);
  case Format::Fp32:
  case Format::I32: return; // have no panels
  }
}

} // namespace ninfer::cuda
