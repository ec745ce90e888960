// Encode and decode of rows. The bit order inside a group follows docs/formats.md; the rules about
// words are checked before anything is stored.
#include "artifact/formats/Words.h"
#include "artifact/layouts/Layout.h"
#include "support/Bytes.h"
#include "support/Checked.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace ninfer {

namespace {

uint8_t *bytesOf(std::span<std::byte> object) { return reinterpret_cast<uint8_t *>(object.data()); }
const uint8_t *bytesOf(std::span<const std::byte> object) {
  return reinterpret_cast<const uint8_t *>(object.data());
}

std::string hex(uint32_t word, int digits) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%0*x", digits, word);
  return text;
}

Status wordError(const EncodedGeometry &geometry, uint64_t row, const std::string &rest) {
  return makeError(ErrorKind::BadFile, "NB0204",
                   std::string(canonicalName(geometry.format)) + ": row " + std::to_string(row) +
                       ", " + rest);
}

Status spanError(const EncodedGeometry &geometry, const std::string &why) {
  return makeError(ErrorKind::Failed, "NB0205",
                   std::string(canonicalName(geometry.format)) + ": " + why);
}

/// Number of rows in spans of `codes` codes and `scales` scales, after all agreements were checked.
Result<uint64_t> countRows(const EncodedGeometry &geometry, Layout layout, uint64_t firstRow,
                           uint64_t codes, uint64_t scales, uint64_t scalesPerRow,
                           size_t objectBytes) {
  if (geometry.layout != layout)
    return spanError(geometry, "rows of another layout");
  const uint64_t count = codes / geometry.k;
  if (count == 0 || codes % geometry.k != 0 || scales != count * scalesPerRow)
    return spanError(geometry, std::to_string(codes) + " codes and " + std::to_string(scales) +
                                   " scales are not whole rows of " + std::to_string(geometry.k) +
                                   " codes and " + std::to_string(scalesPerRow) + " scales");
  if (firstRow > geometry.rows || count > geometry.rows - firstRow)
    return spanError(geometry, "rows " + std::to_string(firstRow) + ".." +
                                   std::to_string(firstRow + count) + " lie outside the " +
                                   std::to_string(geometry.rows) + " rows");
  if (objectBytes != geometry.totalBytes)
    return spanError(geometry, "object buffer of " + std::to_string(objectBytes) +
                                   " bytes, expected " + std::to_string(geometry.totalBytes));
  return count;
}

Status checkGroupedRow(const EncodedGeometry &geometry, uint64_t row, const int8_t *codes,
                       const uint16_t *scales) {
  const FormatInfo &info = formatInfo(geometry.format);
  for (uint64_t group = 0, first = 0; first < geometry.k; ++group, first += info.groupSize) {
    const uint64_t last = std::min<uint64_t>(first + info.groupSize, geometry.k);
    int8_t low = 0, high = 0; // as narrow as the codes: the loop becomes byte-wise vector code
    for (uint64_t i = first; i < last; ++i) {
      low = std::min(low, codes[i]);
      high = std::max(high, codes[i]);
    }
    const auto fail = [&](const std::string &rest) {
      return wordError(geometry, row, "group " + std::to_string(group) + ": " + rest);
    };
    if (low < info.qmin || high > info.qmax)
      return fail("code " + std::to_string(low < info.qmin ? low : high) + " outside [" +
                  std::to_string(info.qmin) + "," + std::to_string(info.qmax) + "]");
    if (!isValidF16Scale(scales[group]))
      return fail("scale " + hex(scales[group], 4) + " is negative or not finite");
    if (scales[group] == 0 && (low != 0 || high != 0))
      return fail("zero scale with a nonzero code");
  }
  return {};
}

/// Lanes that are packed at a time; the padded row length is a multiple of it.
constexpr uint64_t kChunk = 128;

/// 128 codes into 64 base bytes and, with 5 and 6 bits, 16 or 32 high bytes. Works on several lanes
/// of a word at once.
void packChunk(uint32_t bits, const int8_t *codes, uint8_t *base, uint8_t *high) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(codes);
  for (uint64_t i = 0; i < kChunk / 2; ++i) {
    const uint32_t pair = loadLe16(bytes + 2 * i);
    base[i] = uint8_t((pair & 0x0f) | (pair >> 4 & 0xf0));
  }
  if (bits == 5)
    for (uint64_t i = 0; i < kChunk / 8; ++i) {
      const uint64_t lanes = loadLe64(bytes + 8 * i) >> 4 & 0x0101010101010101u;
      high[i] = uint8_t(lanes * 0x0102040810204080u >> 56); // lane l moves to bit 56 + l
    }
  if (bits == 6)
    for (uint64_t i = 0; i < kChunk / 4; ++i) {
      const uint32_t lanes = loadLe32(bytes + 4 * i) >> 4 & 0x03030303u;
      high[i] = uint8_t(lanes | lanes >> 6 | lanes >> 12 | lanes >> 18);
    }
}

/// Codes [0, paddedK) of one row into its base and high bytes; those beyond k are 0.
void packGroupedRow(const EncodedGeometry &geometry, const int8_t *codes, uint8_t *base,
                    uint8_t *high) {
  const uint32_t bits = formatInfo(geometry.format).bits;
  if (bits == 8) {
    std::copy_n(reinterpret_cast<const uint8_t *>(codes), geometry.k, base);
    std::fill(base + geometry.k, base + geometry.paddedK, uint8_t(0));
    return;
  }
  const uint64_t highChunk = kChunk * (bits - 4) / 8;
  uint64_t first = 0;
  for (; first + kChunk <= geometry.k; first += kChunk, base += kChunk / 2, high += highChunk)
    packChunk(bits, codes + first, base, high);
  if (first < geometry.k) {
    int8_t rest[kChunk] = {};
    std::copy(codes + first, codes + geometry.k, rest);
    packChunk(bits, rest, base, high);
  }
}

/// Signed codes [begin, end) of row n.
void unpackGroupedCodes(const EncodedGeometry &geometry, const uint8_t *object, uint64_t n,
                        uint64_t begin, uint64_t end, int8_t *codes) {
  const uint8_t *base = object + geometry.planes[0].offset + n * geometry.planes[0].rowBytes;
  const uint8_t *high = object + geometry.planes[1].offset + n * geometry.planes[1].rowBytes;
  switch (formatInfo(geometry.format).bits) {
  case 4:
    for (uint64_t i = begin; i < end; ++i)
      codes[i - begin] = int8_t(signExtend(base[i / 2] >> (i % 2) * 4 & 15, 4));
    break;
  case 5:
    for (uint64_t i = begin; i < end; ++i)
      codes[i - begin] = int8_t(
          signExtend((base[i / 2] >> (i % 2) * 4 & 15) | (high[i / 8] >> (i % 8) & 1) << 4, 5));
    break;
  case 6:
    for (uint64_t i = begin; i < end; ++i)
      codes[i - begin] = int8_t(
          signExtend((base[i / 2] >> (i % 2) * 4 & 15) | (high[i / 4] >> (i % 4) * 2 & 3) << 4, 6));
    break;
  default:
    std::copy_n(reinterpret_cast<const int8_t *>(base) + begin, end - begin, codes);
  }
}

/// All words of E4M3FN, decoded once.
const std::array<float, 256> &e4m3fnTable() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values;
    for (uint32_t word = 0; word < 256; ++word)
      values[word] = decodeE4m3fn(uint8_t(word));
    return values;
  }();
  return table;
}

/// Represented values of elements [begin, end) of row n.
void decodePartOfRow(const EncodedGeometry &geometry, const uint8_t *object, uint64_t n,
                     uint64_t begin, uint64_t end, float *out) {
  const uint64_t count = end - begin;
  switch (geometry.format) {
  case Format::BF16: {
    const uint8_t *words = object + directWordOffset(geometry, n * geometry.k + begin);
    for (uint64_t i = 0; i < count; ++i)
      out[i] = decodeBf16(loadLe16(words + 2 * i));
    return;
  }
  case Format::FP32: {
    const uint8_t *words = object + directWordOffset(geometry, n * geometry.k + begin);
    for (uint64_t i = 0; i < count; ++i)
      out[i] = floatFromBits(loadLe32(words + 4 * i));
    return;
  }
  case Format::I32: {
    const uint8_t *words = object + directWordOffset(geometry, n * geometry.k + begin);
    for (uint64_t i = 0; i < count; ++i)
      out[i] = float(int32_t(loadLe32(words + 4 * i)));
    return;
  }
  case Format::Q4G64_F16S:
  case Format::Q5G64_F16S:
  case Format::Q6G64_F16S:
  case Format::W8G32_F16S:
    while (begin < end) {
      const uint64_t group = begin / geometry.groupSize;
      const uint64_t stop = std::min(end, (group + 1) * geometry.groupSize);
      int8_t codes[64];
      unpackGroupedCodes(geometry, object, n, begin, stop, codes);
      const float scale = decodeF16(loadLe16(object + scaleOffset(geometry, n, group)));
      for (uint64_t i = 0; i < stop - begin; ++i)
        *out++ = scale * float(codes[i]);
      begin = stop;
    }
    return;
  case Format::NVFP4: {
    const uint32_t divisor = loadLe32(object + geometry.planes[2].offset);
    const uint8_t *codes = object + codeByteOffset(geometry, n, 0);
    while (begin < end) {
      const uint64_t group = begin / 16;
      const uint64_t stop = std::min(end, (group + 1) * 16);
      const uint8_t scale = object[scaleOffset(geometry, n, group)];
      float values[16];
      for (uint32_t word = 0; word < 16; ++word)
        values[word] = reconstructBlockScaled(scale, uint8_t(word), divisor);
      for (; begin < stop; ++begin)
        *out++ = values[codes[begin / 2] >> (begin % 2) * 4 & 15];
    }
    return;
  }
  case Format::FP8_E4M3FN_ROW_BF16S: {
    const std::array<float, 256> &table = e4m3fnTable();
    const float scale = decodeBf16(loadLe16(object + scaleOffset(geometry, n, 0)));
    const uint8_t *codes = object + codeByteOffset(geometry, n, begin);
    for (uint64_t i = 0; i < count; ++i)
      out[i] = table[codes[i]] * scale;
    return;
  }
  }
}

} // namespace

Status encodeRows(const EncodedGeometry &geometry, uint64_t firstRow, const DirectRows &rows,
                  std::span<std::byte> object) {
  const uint64_t wordBytes = formatInfo(geometry.format).bits / 8;
  if (geometry.layout != Layout::ContiguousLeV1 || rows.words.size() % wordBytes != 0)
    return spanError(geometry,
                     "direct words given as " + std::to_string(rows.words.size()) + " bytes");
  NINFER_ASSIGN_OR_RETURN(const uint64_t count,
                          countRows(geometry, Layout::ContiguousLeV1, firstRow,
                                    rows.words.size() / wordBytes, 0, 0, object.size()));
  std::copy_n(rows.words.data(), count * geometry.planes[0].rowBytes,
              object.data() + firstRow * geometry.planes[0].rowBytes);
  return {};
}

Status encodeRows(const EncodedGeometry &geometry, uint64_t firstRow, const GroupedRows &rows,
                  std::span<std::byte> object) {
  const uint64_t groups = geometry.logicalGroupsPerRow();
  NINFER_ASSIGN_OR_RETURN(const uint64_t count,
                          countRows(geometry, Layout::RowSplitK128V1, firstRow, rows.codes.size(),
                                    rows.scales.size(), groups, object.size()));
  for (uint64_t row = 0; row < count; ++row)
    NINFER_RETURN_IF_ERROR(checkGroupedRow(geometry, firstRow + row,
                                           rows.codes.data() + row * geometry.k,
                                           rows.scales.data() + row * groups));
  uint8_t *out = bytesOf(object);
  for (uint64_t row = 0; row < count; ++row) {
    const uint64_t n = firstRow + row;
    packGroupedRow(geometry, rows.codes.data() + row * geometry.k,
                   out + geometry.planes[0].offset + n * geometry.planes[0].rowBytes,
                   out + geometry.planes[1].offset + n * geometry.planes[1].rowBytes);
    for (uint64_t group = 0; group < geometry.groupsPerRow; ++group)
      storeLe16(out + scaleOffset(geometry, n, group),
                group < groups ? rows.scales[row * groups + group] : 0);
  }
  return {};
}

Status encodeRows(const EncodedGeometry &geometry, uint64_t firstRow, const RowScaledRows &rows,
                  std::span<std::byte> object) {
  NINFER_ASSIGN_OR_RETURN(const uint64_t count,
                          countRows(geometry, Layout::RowScaleV1, firstRow, rows.codes.size(),
                                    rows.scales.size(), 1, object.size()));
  for (uint64_t row = 0; row < count; ++row) {
    const uint16_t scale = rows.scales[row];
    if (!isValidBf16Scale(scale))
      return wordError(geometry, firstRow + row,
                       "scale " + hex(scale, 4) + " is negative or not finite");
    for (uint64_t k = 0; k < geometry.k; ++k) {
      const uint8_t code = rows.codes[row * geometry.k + k];
      if (!isValidE4m3fnCode(code) || (scale == 0 && (code & 0x7f) != 0))
        return wordError(geometry, firstRow + row,
                         "element " + std::to_string(k) + ": code " + hex(code, 2) +
                             (scale == 0 ? " is not zero under a zero scale" : " is not finite"));
    }
  }
  uint8_t *out = bytesOf(object);
  std::copy_n(rows.codes.data(), count * geometry.k, out + codeByteOffset(geometry, firstRow, 0));
  for (uint64_t row = 0; row < count; ++row)
    storeLe16(out + scaleOffset(geometry, firstRow + row, 0), rows.scales[row]);
  return {};
}

Status encodeRows(const EncodedGeometry &geometry, uint64_t firstRow, const BlockScaledRows &rows,
                  std::span<std::byte> object) {
  NINFER_ASSIGN_OR_RETURN(const uint64_t count,
                          countRows(geometry, Layout::BlockScaleK16M128x4V1, firstRow,
                                    rows.codes.size(), rows.scales.size(), geometry.groupsPerRow,
                                    object.size()));
  if (!isValidDivisor(rows.divisor))
    return spanError(geometry, "divisor " + hex(rows.divisor, 8) + " is not finite and positive");
  for (uint64_t row = 0; row < count; ++row) {
    for (uint64_t group = 0; group < geometry.groupsPerRow; ++group)
      if (const uint8_t scale = rows.scales[row * geometry.groupsPerRow + group];
          !isValidE4m3fnScale(scale))
        return wordError(geometry, firstRow + row,
                         "group " + std::to_string(group) + ": scale " + hex(scale, 2) +
                             " is negative or not finite");
    for (uint64_t k = 0; k < geometry.k; ++k)
      if (const uint8_t code = rows.codes[row * geometry.k + k]; code > 15)
        return wordError(geometry, firstRow + row,
                         "element " + std::to_string(k) + ": code " + hex(code, 2) +
                             " exceeds four bits");
  }
  uint8_t *out = bytesOf(object);
  for (uint64_t row = 0; row < count; ++row) {
    const uint64_t n = firstRow + row;
    const uint8_t *codes = rows.codes.data() + row * geometry.k;
    for (uint64_t k = 0; k < geometry.k; k += 2)
      out[codeByteOffset(geometry, n, k)] = uint8_t(codes[k] | codes[k + 1] << 4);
    for (uint64_t group = 0; group < geometry.groupsPerRow; ++group)
      out[scaleOffset(geometry, n, group)] = rows.scales[row * geometry.groupsPerRow + group];
  }
  storeLe32(out + geometry.planes[2].offset, rows.divisor);
  return {};
}

void decodeRow(const EncodedGeometry &geometry, std::span<const std::byte> object, uint64_t n,
               std::span<float> out) {
  decodePartOfRow(geometry, bytesOf(object), n, 0, geometry.k, out.data());
}

void decodeElements(const EncodedGeometry &geometry, std::span<const std::byte> object,
                    uint64_t begin, uint64_t end, std::span<float> out) {
  float *next = out.data();
  while (begin < end) {
    const uint64_t n = begin / geometry.k, first = begin % geometry.k;
    const uint64_t count = std::min(geometry.k - first, end - begin);
    decodePartOfRow(geometry, bytesOf(object), n, first, first + count, next);
    next += count;
    begin += count;
  }
}

void readGroupedRow(const EncodedGeometry &geometry, std::span<const std::byte> object, uint64_t n,
                    std::span<int8_t> codes, std::span<uint16_t> scales) {
  unpackGroupedCodes(geometry, bytesOf(object), n, 0, geometry.paddedK, codes.data());
  for (uint64_t group = 0; group < geometry.groupsPerRow; ++group)
    scales[group] = loadLe16(bytesOf(object) + scaleOffset(geometry, n, group));
}

void readBlockScaledRow(const EncodedGeometry &geometry, std::span<const std::byte> object,
                        uint64_t n, std::span<uint8_t> codes, std::span<uint8_t> scales) {
  const uint8_t *bytes = bytesOf(object);
  for (uint64_t k = 0; k < geometry.k; ++k)
    codes[k] = bytes[codeByteOffset(geometry, n, k)] >> (k % 2) * 4 & 15;
  for (uint64_t group = 0; group < geometry.groupsPerRow; ++group)
    scales[group] = bytes[scaleOffset(geometry, n, group)];
}

uint32_t readDivisor(const EncodedGeometry &geometry, std::span<const std::byte> object) {
  return loadLe32(bytesOf(object) + geometry.planes[2].offset);
}

} // namespace ninfer
