// What one row of a source tensor represents, element by element from the block definitions, and
// the integer codes of the block types that are scale * code. Shares no code with
// convert/GgmlBlocks, which it is compared with.
#ifndef NINFER_INSPECT_REFERENCESOURCE_H
#define NINFER_INSPECT_REFERENCESOURCE_H

#include "convert/SourceTensor.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ninfer {

/// Represented values of one row as binary32: products are exact, the types with a minimum are
/// rounded once. `row` is the row's bytes, `out` its columns.
void referenceSourceRow(SourceType type, std::span<const std::byte> row, std::span<float> out);

/// One block of 32 codes under one binary16 scale (Q8_0, Q4_0, Q5_0, IQ4_NL), as stored.
struct ReferenceBlock {
  int32_t codes[32];
  uint32_t scale = 0; ///< binary16 word
};
ReferenceBlock referenceBlock(SourceType type, std::span<const std::byte> block);

} // namespace ninfer

#endif // NINFER_INSPECT_REFERENCESOURCE_H
