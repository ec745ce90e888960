// Exact meaning of source elements: one row of any SourceType to binary32, and the move of four
// ggml block types into W8G32_F16S without arithmetic on values. Block byte tables:
// docs/convert.md, "ggml blocks".
#ifndef NINFER_CONVERT_GGMLBLOCKS_H
#define NINFER_CONVERT_GGMLBLOCKS_H

#include "convert/SourceTensor.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ninfer {

/// Represented values of one row as binary32. Products of scale and code are exact; the types with
/// a minimum round once, at the subtraction or addition of the minimum. `row` holds columns /
/// blockElements blocks; `out` has `columns` elements, a multiple of the block. Non-finite scales
/// give non-finite values.
void decodeSourceRow(SourceType type, std::span<const std::byte> row, std::span<float> out);

/// How far the moved words of a row differ from the stored ones; ordered, the greatest counts for a
/// tensor.
enum class MoveKind : uint8_t {
  SameWords, ///< Q8_0 codes and scales word for word
  SameValues ///< same values, other words: narrower codes widened, or a negative scale taken into
             ///< the codes
};

struct MoveFault {
  uint64_t block = 0;     ///< of the row
  std::string rule;       ///< why the block has no exact W8G32_F16S form
  bool notFinite = false; ///< the block has no values at all; encoding it anew would not help
};

/// Moves one row of Q8_0, Q4_0, Q5_0 or IQ4_NL blocks into W8G32_F16S words: the scale keeps its
/// bits, the codes their values. A negative scale d becomes -d with negated codes. A scale of +0
/// clears the codes of its group, whose values are all zero. Returns the first block that cannot
/// move: scale -0, infinite or NaN, or a code of +-128 after the sign rule. `codes` has one element
/// per column, `scales` one per block; `kind` is raised, never lowered.
std::optional<MoveFault> moveRowIntoW8(SourceType type, std::span<const std::byte> row,
                                       std::span<int8_t> codes, std::span<uint16_t> scales,
                                       MoveKind &kind);

} // namespace ninfer

#endif // NINFER_CONVERT_GGMLBLOCKS_H
