// Packed weights of symmetric integer codes with one scale per group of columns: stored as plain
// int8 or packed into int32 words, moved into Q4G64_F16S or W8G32_F16S without arithmetic on the
// values.
#ifndef NINFER_CONVERT_QUANTIZED_INTEGERWEIGHT_H
#define NINFER_CONVERT_QUANTIZED_INTEGERWEIGHT_H

#include "convert/quantized/PackedWeight.h"

#include <memory>
#include <optional>
#include <string>

namespace ninfer {

/// How row-major codes lie in their tensor.
enum class CodeStorage : uint8_t {
  Int8,       ///< I8 [N, K], two's complement
  PackedInt32 ///< I32 [N, ceil(K*bits/32)], code + 2^(bits-1), lowest bits first, rest zero
};

struct IntegerParts {
  std::string scheme;
  PackedComponent codes, scales;
  std::vector<PackedComponent> others; ///< weight_shape, a neutral weight_g_idx, ...
  CodeStorage storage = CodeStorage::PackedInt32;
  uint64_t columns = 0;   ///< K
  uint32_t bits = 4;      ///< 4 or 8
  uint64_t groupSize = 0; ///< columns per scale; >= K: one scale per row
  bool oneScale = false;  ///< a single scale for the whole matrix
  std::vector<std::string> notes;
};

/// The registered format for codes of `bits` bits and one scale per `groupSize` columns (0: one per
/// row), or nothing with the rule in `rule`: 4 bit and a multiple of 64 -> Q4G64_F16S; a multiple
/// of 32 -> W8G32_F16S.
std::optional<Format> integerFormat(uint32_t bits, uint64_t groupSize, std::string &rule);

/// Checks types and shapes: scales F16, BF16 or F32 [N, ceil(K/groupSize)] ([N] or [N,1] for one per
/// row). BadFile (NB0325) with a text for Refusals::fault. check() refuses scales that are not
/// binary16 values, code -128, codes under a zero scale, and nonzero bits behind the last code.
Result<std::shared_ptr<PackedWeight>> makeIntegerWeight(IntegerParts parts);

} // namespace ninfer

#endif // NINFER_CONVERT_QUANTIZED_INTEGERWEIGHT_H
