// The words that docs/formats.md ("Encoders") and docs/convert.md prescribe for given source
// values, by the text of those pages and with no code of artifact/formats.
#ifndef NINFER_INSPECT_REFERENCEENCODER_H
#define NINFER_INSPECT_REFERENCEENCODER_H

#include "inspect/ReferenceDecoder.h"
#include "inspect/ReferenceSource.h"

#include <span>

namespace ninfer {

/// Words of one row by MAXABS_F16_RECIP_RNE_V1, MAXABS_BF16S_RECIP_E4M3FN_RNE_V1, or rounded to
/// BF16 or FP32, as layout.format says. False: the values have no such words (not finite, scale out
/// of range), so the converter must have refused them.
bool prescribedRow(const ReferenceLayout &layout, std::span<const float> values, ReferenceRow &out);

/// Words of one row of Q8_0, Q4_0, Q5_0 or IQ4_NL blocks moved into W8G32_F16S. False: a block has
/// no exact form.
bool movedRow(SourceType type, std::span<const std::byte> row, ReferenceRow &out);

} // namespace ninfer

#endif // NINFER_INSPECT_REFERENCEENCODER_H
