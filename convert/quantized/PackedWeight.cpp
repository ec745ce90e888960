#include "convert/quantized/PackedWeight.h"

#include "artifact/formats/Words.h"

namespace ninfer {

void PackedWeight::decodeRow(const PackedRows &rows, uint64_t row, std::span<float> out) const {
  const FormatInfo &info = formatInfo(format());
  const uint64_t k = out.size();
  switch (info.category) {
  case FormatCategory::GroupedInteger: {
    const uint64_t groups = (k + info.groupSize - 1) / info.groupSize;
    for (uint64_t i = 0; i < k; ++i)
      out[i] = reconstructGrouped(rows.scales[row * groups + i / info.groupSize],
                                  rows.codes[row * k + i]);
    return;
  }
  case FormatCategory::RowScaledFloat:
    for (uint64_t i = 0; i < k; ++i)
      out[i] = reconstructRowScaled(rows.scales[row], rows.words[row * k + i]);
    return;
  case FormatCategory::BlockScaledFloat:
    for (uint64_t i = 0; i < k; ++i)
      out[i] =
          reconstructBlockScaled(rows.blockScales[row * (k / info.groupSize) + i / info.groupSize],
                                 rows.words[row * k + i], rows.divisor);
    return;
  case FormatCategory::Direct:
    return; // no packed weight has a direct format
  }
}

} // namespace ninfer
