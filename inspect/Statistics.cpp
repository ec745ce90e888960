// Statistics of an object's words, block by block.
#include "artifact/formats/Words.h"
#include "inspect/Show.h"
#include "support/Parallel.h"

#include <bit>
#include <cmath>
#include <mutex>

namespace ninfer {

namespace {

constexpr uint64_t kChunk = uint64_t(1) << 16; // elements

bool isZeroCode(FormatCategory category, Format format, uint32_t code) {
  switch (category) {
  case FormatCategory::GroupedInteger:
    return code == 0;
  case FormatCategory::BlockScaledFloat:
    return (code & 7) == 0;
  case FormatCategory::RowScaledFloat:
    return (code & 0x7f) == 0;
  case FormatCategory::Direct:
    break;
  }
  return format == Format::BF16   ? (code & 0x7fff) == 0
         : format == Format::FP32 ? (code & 0x7fffffff) == 0
                                  : code == 0;
}

void addChunk(const ObjectWords &words, uint64_t n, uint64_t begin, uint64_t end, WordChunk &chunk,
              ObjectStatistics &out) {
  words.read(n, begin, end, chunk);
  const FormatCategory category = words.category();
  const Format format = words.geometry().format;
  const uint32_t bits = formatInfo(format).bits;
  out.elements += end - begin;
  for (uint64_t i = 0; i < end - begin; ++i) {
    const uint32_t code = chunk.codes[i];
    out.zeroCodes += isZeroCode(category, format, code);
    if (category == FormatCategory::GroupedInteger)
      out.codes.add(signExtend(code, bits));
    if (format == Format::I32) {
      out.values.add(std::bit_cast<int32_t>(code));
      continue;
    }
    const float value = chunk.values[i];
    if (std::isnan(value))
      ++out.nan;
    else if (std::isinf(value))
      ++out.infinite;
    else
      out.values.add(value);
  }
}

void addScales(const ObjectWords &words, uint64_t n, ObjectStatistics &out) {
  for (uint64_t group = 0; group < words.scalesPerRow(); ++group) {
    const float scale = words.scaleValue(words.scaleWord(n, group));
    ++out.scales;
    out.zeroScales += scale == 0;
    if (std::isfinite(scale))
      out.scaleValues.add(scale);
  }
}

} // namespace

Result<ObjectStatistics> objectStatistics(const ObjectWords &words, unsigned threads,
                                          const std::function<void(uint64_t)> &onBytes) {
  const EncodedGeometry &geometry = words.geometry();
  const uint64_t step = std::max<uint64_t>(1, (uint64_t(1) << 20) / geometry.k);
  const uint64_t blocks = (geometry.rows + step - 1) / step;
  std::mutex mutex;
  ObjectStatistics total; // counts and ranges: the order of joining does not matter
  NINFER_RETURN_IF_ERROR(parallelFor(blocks, threads, [&](uint64_t block) {
    ObjectStatistics part;
    WordChunk chunk;
    for (uint64_t n = block * step; n < std::min((block + 1) * step, geometry.rows); ++n) {
      for (uint64_t begin = 0; begin < geometry.k; begin += kChunk)
        addChunk(words, n, begin, std::min(begin + kChunk, geometry.k), chunk, part);
      addScales(words, n, part);
    }
    if (onBytes)
      onBytes(geometry.totalBytes / blocks);
    const std::lock_guard<std::mutex> lock(mutex);
    total.elements += part.elements;
    total.zeroCodes += part.zeroCodes;
    total.nan += part.nan;
    total.infinite += part.infinite;
    total.scales += part.scales;
    total.zeroScales += part.zeroScales;
    total.values.join(part.values);
    total.codes.join(part.codes);
    total.scaleValues.join(part.scaleValues);
    return Status();
  }));
  return total;
}

} // namespace ninfer
