#include "artifact/container/ScanObject.h"

#include "artifact/formats/Words.h"
#include "support/Bytes.h"

#include <algorithm>
#include <cstdio>

namespace ninfer {

namespace {

std::string hex(uint32_t word, int digits) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%0*x", digits, word);
  return text;
}

// Questions about many words at once. Each is one loop without branches that compilers turn into
// vector instructions of the baseline CPU.

bool anyByteEquals(const uint8_t *bytes, uint64_t count, uint8_t value) {
  uint8_t any = 0;
  for (uint64_t i = 0; i < count; ++i)
    any |= uint8_t(bytes[i] == value);
  return any != 0;
}

bool anyByteNonzero(const uint8_t *bytes, uint64_t count) {
  uint8_t any = 0;
  for (uint64_t i = 0; i < count; ++i)
    any |= bytes[i];
  return any != 0;
}

uint8_t largestByte(const uint8_t *bytes, uint64_t count) {
  uint8_t largest = 0;
  for (uint64_t i = 0; i < count; ++i)
    largest = std::max(largest, bytes[i]);
  return largest;
}

/// A word 0x7f or 0xff.
bool anyE4m3fnNan(const uint8_t *bytes, uint64_t count) {
  uint8_t any = 0;
  for (uint64_t i = 0; i < count; ++i)
    any |= uint8_t((bytes[i] & 0x7f) == 0x7f);
  return any != 0;
}

struct Range16 {
  int16_t least = INT16_MAX, largest = INT16_MIN;
};

/// Range of 16-bit words read as signed, so that a set sign bit makes the least negative.
Range16 signedRange(const uint8_t *words, uint64_t count) {
  Range16 range;
  for (uint64_t i = 0; i < count; ++i) {
    const auto word = int16_t(loadLe16(words + 2 * i));
    range.least = std::min(range.least, word);
    range.largest = std::max(range.largest, word);
  }
  return range;
}

uint64_t countZeroWords(const uint8_t *words, uint64_t count) {
  uint64_t total = 0;
  while (count) {
    const uint64_t part = std::min<uint64_t>(count, 32768); // a 16-bit counter cannot overflow
    uint16_t zeros = 0;
    for (uint64_t i = 0; i < part; ++i)
      zeros = uint16_t(zeros + (loadLe16(words + 2 * i) == 0));
    total += zeros;
    words += 2 * part;
    count -= part;
  }
  return total;
}

int codeAt(const uint8_t *base, const uint8_t *high, uint32_t bits, uint64_t k) {
  if (bits == 8)
    return int8_t(base[k]);
  uint32_t word = base[k / 2] >> (k % 2) * 4 & 15;
  if (bits == 5)
    word |= (high[k / 8] >> (k % 8) & 1) << 4;
  if (bits == 6)
    word |= (high[k / 4] >> (k % 4) * 2 & 3) << 4;
  return signExtend(word, bits);
}

/// Bits from bit `bit` of a plane row of `rowBytes` bytes to its end are zero.
bool bitsZeroFrom(const uint8_t *row, uint64_t bit, uint64_t rowBytes) {
  uint64_t byte = bit / 8;
  if (bit % 8 != 0 && row[byte++] >> (bit % 8) != 0)
    return false;
  return !anyByteNonzero(row + byte, rowBytes - byte);
}

} // namespace

uint64_t firstNonzero(const uint8_t *bytes, uint64_t begin, uint64_t end) {
  while (begin + 64 <= end) {
    uint64_t any = 0;
    for (int i = 0; i < 8; ++i)
      any |= loadLe64(bytes + begin + 8 * i);
    if (any)
      break;
    begin += 64;
  }
  while (begin < end && bytes[begin] == 0)
    ++begin;
  return begin;
}

uint64_t ObjectScan::blockRows(const EncodedGeometry &geometry) {
  uint64_t rowBytes = 0;
  for (const PlaneInfo &plane : geometry.planes)
    rowBytes += plane.rowBytes;
  const uint64_t rows =
      std::max<uint64_t>(1, (uint64_t(1) << 20) / std::max<uint64_t>(1, rowBytes));
  return geometry.layout == Layout::BlockScaleK16M128x4V1
             ? std::max<uint64_t>(128, rows / 128 * 128)
             : rows;
}

void ObjectScan::add(const char *rule, std::string message, uint64_t byte,
                     std::optional<uint64_t> row, std::optional<uint64_t> group,
                     std::optional<uint64_t> lane) {
  ++violations;
  if (findings.size() < maxFindings_)
    findings.push_back({object_.id, rule, std::move(message), row, group, lane, byte});
}

void ObjectScan::scanRows(uint64_t first, uint64_t count) {
  switch (geometry_.layout) {
  case Layout::ContiguousLeV1: // every word is legal, and there is no padding
    return;
  case Layout::RowSplitK128V1:
    if (!groupedBlockClean(first, count))
      for (uint64_t n = first; n < first + count; ++n)
        groupedRow(n);
    return;
  case Layout::BlockScaleK16M128x4V1:
    if (!blockScaledBlockClean(first, count))
      for (uint64_t n = first; n < first + count; ++n)
        blockScaledRow(n);
    return;
  case Layout::RowScaleV1:
    if (!rowScaledBlockClean(first, count))
      for (uint64_t n = first; n < first + count; ++n)
        rowScaledRow(n);
    return;
  }
}

void ObjectScan::scanRest() {
  if (geometry_.layout == Layout::BlockScaleK16M128x4V1) {
    const uint64_t at = geometry_.planes[2].offset;
    scanned += 4;
    if (const uint32_t divisor = loadLe32(bytes_ + at); !isValidDivisor(divisor))
      add("nvfp4-divisor", "divisor " + hex(divisor, 8) + " is not finite and positive", at);
  }
  for (size_t i = 0; i + 1 < geometry_.planes.size(); ++i) {
    const uint64_t begin = geometry_.planes[i].offset + geometry_.planes[i].bytes,
                   end = geometry_.planes[i + 1].offset;
    scanned += end - begin;
    if (const uint64_t at = firstNonzero(bytes_, begin, end); at < end)
      add("plane-gap",
          "byte " + std::to_string(at) + " of the object, between planes '" +
              geometry_.planes[i].name + "' and '" + geometry_.planes[i + 1].name + "', is " +
              hex(bytes_[at], 2) + ", expected zero",
          at);
  }
}

bool ObjectScan::groupedBlockClean(uint64_t first, uint64_t count) {
  const uint64_t stored = geometry_.groupsPerRow,
                 padding = stored - geometry_.logicalGroupsPerRow();
  const size_t scalePlane = geometry_.planes.size() - 1;
  const uint8_t *scales = row(scalePlane, first);
  const Range16 range = signedRange(scales, count * stored);
  scanned += 2 * count * stored;
  bool clean = range.least >= 0 && range.largest < 0x7c00;
  if (clean && range.least == 0) {
    for (uint64_t n = first; padding && clean && n < first + count; ++n)
      clean = !anyByteNonzero(row(scalePlane, n) + 2 * (stored - padding), 2 * padding);
    if (clean && countZeroWords(scales, count * stored) != count * padding)
      clean = zeroScalesClean(first, count);
  } else if (clean && padding) {
    clean = false; // no zero word at all, so the padding groups hold scales
  }
  if (formatInfo(geometry_.format).bits == 8) {
    clean = clean && !anyByteEquals(row(0, first), count * geometry_.planes[0].rowBytes, 0x80);
    scanned += count * geometry_.planes[0].rowBytes;
  }
  return clean && paddingLanesClean(first, count);
}

bool ObjectScan::paddingLanesClean(uint64_t first, uint64_t count) {
  if (geometry_.k == geometry_.paddedK)
    return true;
  const uint32_t bits = formatInfo(geometry_.format).bits;
  const uint64_t baseBits = bits == 8 ? 8 : 4, highBits = bits == 8 ? 0 : bits - 4;
  const uint64_t baseRow = geometry_.planes[0].rowBytes,
                 highRow = highBits ? geometry_.planes[1].rowBytes : 0;
  if (bits != 8)
    scanned += count * (baseRow - geometry_.k * baseBits / 8);
  if (highBits)
    scanned += count * (highRow - geometry_.k * highBits / 8);
  for (uint64_t n = first; n < first + count; ++n)
    if (!bitsZeroFrom(row(0, n), geometry_.k * baseBits, baseRow) ||
        (highBits && !bitsZeroFrom(row(1, n), geometry_.k * highBits, highRow)))
      return false;
  return true;
}

bool ObjectScan::zeroScalesClean(uint64_t first, uint64_t count) const {
  const uint32_t bits = formatInfo(geometry_.format).bits;
  const uint64_t baseGroup = geometry_.groupSize * (bits == 8 ? 8 : 4) / 8;
  const uint64_t highGroup = bits == 8 ? 0 : geometry_.groupSize * (bits - 4) / 8;
  for (uint64_t n = first; n < first + count; ++n) {
    const uint8_t *scales = row(geometry_.planes.size() - 1, n);
    for (uint64_t group = 0; group < geometry_.groupsPerRow; ++group)
      if (loadLe16(scales + 2 * group) == 0 &&
          (anyByteNonzero(row(0, n) + group * baseGroup, baseGroup) ||
           (highGroup && anyByteNonzero(row(1, n) + group * highGroup, highGroup))))
        return false;
  }
  return true;
}

bool ObjectScan::rowScaledBlockClean(uint64_t first, uint64_t count) {
  const Range16 range = signedRange(row(1, first), count);
  scanned += count * (geometry_.k + 2);
  if (range.least < 0 || range.largest >= 0x7f80 ||
      anyE4m3fnNan(row(0, first), count * geometry_.k))
    return false;
  if (range.least > 0)
    return true;
  for (uint64_t n = first; n < first + count; ++n)
    if (loadLe16(row(1, n)) == 0)
      for (uint64_t k = 0; k < geometry_.k; ++k)
        if ((row(0, n)[k] & 0x7f) != 0)
          return false;
  return true;
}

bool ObjectScan::blockScaledBlockClean(uint64_t first, uint64_t count) {
  // Whole tiles of 128 rows: the scales of the block are contiguous.
  const uint64_t bytes = count * geometry_.groupsPerRow;
  scanned += bytes;
  return largestByte(bytes_ + scaleOffset(geometry_, first, 0), bytes) < 0x7f;
}

uint64_t ObjectScan::codeByte(uint64_t n, uint64_t k) const {
  const uint32_t bits = formatInfo(geometry_.format).bits;
  const uint64_t base = baseByteOffset(geometry_, n, k);
  if (bits == 5 || bits == 6)
    if ((bytes_[base] >> (k % 2) * 4 & 15) == 0)
      return highByteOffset(geometry_, n, k);
  return base;
}

void ObjectScan::groupedRow(uint64_t n) {
  const uint32_t bits = formatInfo(geometry_.format).bits;
  const uint64_t groupSize = geometry_.groupSize, groups = geometry_.logicalGroupsPerRow();
  const size_t scalePlane = geometry_.planes.size() - 1;
  const uint8_t *base = row(0, n), *high = row(1, n), *scales = row(scalePlane, n);
  if (bits == 8)
    for (uint64_t k = 0; k < geometry_.k; ++k)
      if (base[k] == 0x80)
        add("w8-code-range", "code 0x80 (-128) is outside [-127,127]", codeByte(n, k), n,
            k / groupSize, k % groupSize);
  for (uint64_t group = 0; group < groups; ++group) {
    const uint16_t scale = loadLe16(scales + 2 * group);
    if (!isValidF16Scale(scale)) {
      add("f16-scale",
          "scale " + hex(scale, 4) + (scale & 0x8000 ? " is negative" : " is not finite"),
          scaleOffset(geometry_, n, group), n, group);
    } else if (scale == 0) {
      for (uint64_t k = group * groupSize; k < std::min((group + 1) * groupSize, geometry_.k); ++k)
        if (const int code = codeAt(base, high, bits, k); code != 0) {
          add("zero-scale", "code " + std::to_string(code) + " under a zero scale, expected 0",
              codeByte(n, k), n, group, k % groupSize);
          break;
        }
    }
  }
  for (uint64_t k = geometry_.k; k < geometry_.paddedK; ++k)
    if (const int code = codeAt(base, high, bits, k); code != 0) {
      add("padding-code",
          "padding element " + std::to_string(k) + " holds code " + std::to_string(code) +
              ", expected 0",
          codeByte(n, k), n, k / groupSize, k % groupSize);
      break;
    }
  for (uint64_t group = groups; group < geometry_.groupsPerRow; ++group)
    if (const uint16_t scale = loadLe16(scales + 2 * group); scale != 0)
      add("padding-scale", "padding group holds scale " + hex(scale, 4) + ", expected 0x0000",
          scaleOffset(geometry_, n, group), n, group);
}

void ObjectScan::blockScaledRow(uint64_t n) {
  for (uint64_t group = 0; group < geometry_.groupsPerRow; ++group) {
    const uint64_t at = scaleOffset(geometry_, n, group);
    if (const uint8_t scale = bytes_[at]; !isValidE4m3fnScale(scale))
      add("e4m3fn-scale",
          "scale " + hex(scale, 2) + ((scale & 0x7f) == 0x7f ? " is NaN" : " has its sign bit set"),
          at, n, group);
  }
}

void ObjectScan::rowScaledRow(uint64_t n) {
  const uint8_t *codes = row(0, n);
  const uint64_t scaleAt = scaleOffset(geometry_, n, 0);
  const uint16_t scale = loadLe16(bytes_ + scaleAt);
  if (!isValidBf16Scale(scale))
    add("bf16-scale",
        "row scale " + hex(scale, 4) + (scale & 0x8000 ? " is negative" : " is not finite"),
        scaleAt, n);
  for (uint64_t k = 0; k < geometry_.k; ++k)
    if (!isValidE4m3fnCode(codes[k]))
      add("e4m3fn-code", "code " + hex(codes[k], 2) + " is NaN", codeByteOffset(geometry_, n, k), n,
          {}, k);
  if (scale == 0)
    for (uint64_t k = 0; k < geometry_.k; ++k)
      if ((codes[k] & 0x7f) != 0) {
        add("zero-scale",
            "code " + hex(codes[k], 2) + " under a zero row scale, expected 0x00 or 0x80",
            codeByteOffset(geometry_, n, k), n, {}, k);
        break;
      }
}

} // namespace ninfer
