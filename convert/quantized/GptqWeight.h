// Packed weight of GPTQ files: symmetric codes in int32 words that run along K, scales and zero
// points in rows of groups. Moved into Q4G64_F16S, Q5G64_F16S or W8G32_F16S without arithmetic on
// the values.
#ifndef NINFER_CONVERT_QUANTIZED_GPTQWEIGHT_H
#define NINFER_CONVERT_QUANTIZED_GPTQWEIGHT_H

#include "convert/quantized/PackedWeight.h"

#include <memory>
#include <optional>
#include <string>

namespace ninfer {

struct GptqParts {
  std::string scheme;
  PackedComponent codes;  ///< I32 [K*bits/32, N], lowest bits first: code + 2^(bits-1)
  PackedComponent zeros;  ///< I32 [groups, ceil(N*bits/32)], lowest bits first
  PackedComponent scales; ///< F16, BF16 or F32 [groups, N]
  std::optional<PackedComponent> order; ///< I32 [K], the group of every column
  uint64_t rows = 0, columns = 0;       ///< N, K
  uint32_t bits = 4;                    ///< 4 or 8
  uint64_t groupSize = 0;               ///< columns per scale; 0: one scale per row
  bool zerosMinusOne = true; ///< version 1 stores the zero point minus one, version 2 the zero point
  std::string label;         ///< what says so, for messages: "checkpoint_format \"gptq\""
};

/// The registered format for such codes, or nothing with the rule in `rule`: 4 bit and a multiple
/// of 64 columns per scale -> Q4G64_F16S, 8 bit and a multiple of 32 -> W8G32_F16S.
std::optional<Format> gptqFormat(uint32_t bits, uint64_t groupSize, std::string &rule);

/// Checks types and shapes and reads what the format depends on: a negative scale over code -8
/// needs code 8, so such a matrix goes into Q5G64_F16S. BadFile (NB0325) with a text for
/// Refusals::fault, Unsupported (NB0324) with the rule for Refusals::refuse (act-order), read
/// errors.
///
/// check() refuses zero points that are not 2^(bits-1): NB0340 when all of them are right for the
/// other version (the label lies), NB0327 when they are not symmetric; scales that are no binary16
/// value; 8-bit codes outside -127..127 after the sign rule. A negative scale becomes positive with
/// negated codes; a scale of zero clears the codes of its group, whose values are all zero.
Result<std::shared_ptr<PackedWeight>> makeGptqWeight(GptqParts parts);

} // namespace ninfer

#endif // NINFER_CONVERT_QUANTIZED_GPTQWEIGHT_H
