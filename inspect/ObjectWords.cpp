#include "inspect/ObjectWords.h"

#include "artifact/formats/Words.h"
#include "inspect/Names.h"
#include "support/Bytes.h"

namespace ninfer {

Result<ObjectWords> ObjectWords::open(const Artifact &artifact, size_t index) {
  const ObjectEntry &object = artifact.directory().objects.at(index);
  if (!object.isTensor)
    return makeError(ErrorKind::Usage, "NB0121",
                     artifact.path().string() + ": object '" + object.id +
                         "' is a resource, it has no rows");
  ObjectWords words;
  NINFER_ASSIGN_OR_RETURN(words.geometry_, artifact.geometry(index));
  NINFER_ASSIGN_OR_RETURN(words.bytes_, artifact.object(index));
  return words;
}

uint64_t ObjectWords::scaleSpan() const {
  return category() == FormatCategory::RowScaledFloat ? geometry_.k : geometry_.groupSize;
}

uint64_t ObjectWords::scalesPerRow() const {
  return category() == FormatCategory::RowScaledFloat ? 1 : geometry_.logicalGroupsPerRow();
}

void ObjectWords::readCodes(uint64_t n, uint64_t begin, uint64_t end,
                            std::vector<uint32_t> &codes) const {
  const auto *object = reinterpret_cast<const uint8_t *>(bytes_.data());
  const uint32_t bits = formatInfo(geometry_.format).bits;
  codes.resize(end - begin);
  switch (category()) {
  case FormatCategory::Direct: {
    const uint8_t *at = object + directWordOffset(geometry_, n * geometry_.k + begin);
    for (uint64_t i = 0; i < codes.size(); ++i)
      codes[i] = bits == 16 ? loadLe16(at + 2 * i) : loadLe32(at + 4 * i);
    return;
  }
  case FormatCategory::GroupedInteger: {
    const uint8_t *base = object + baseByteOffset(geometry_, n, 0);
    if (bits == 8) {
      for (uint64_t i = 0; i < codes.size(); ++i)
        codes[i] = base[begin + i];
      return;
    }
    const uint8_t *high = bits == 4 ? base : object + highByteOffset(geometry_, n, 0);
    for (uint64_t k = begin; k < end; ++k) {
      uint32_t word = base[k / 2] >> (k % 2) * 4 & 15;
      if (bits == 5)
        word |= uint32_t(high[k / 8] >> (k % 8) & 1) << 4;
      else if (bits == 6)
        word |= uint32_t(high[k / 4] >> (k % 4) * 2 & 3) << 4;
      codes[k - begin] = word;
    }
    return;
  }
  case FormatCategory::BlockScaledFloat: {
    const uint8_t *row = object + codeByteOffset(geometry_, n, 0);
    for (uint64_t k = begin; k < end; ++k)
      codes[k - begin] = row[k / 2] >> (k % 2) * 4 & 15;
    return;
  }
  case FormatCategory::RowScaledFloat: {
    const uint8_t *row = object + codeByteOffset(geometry_, n, 0);
    for (uint64_t k = begin; k < end; ++k)
      codes[k - begin] = row[k];
    return;
  }
  }
}

void ObjectWords::read(uint64_t n, uint64_t begin, uint64_t end, WordChunk &out) const {
  readCodes(n, begin, end, out.codes);
  out.values.resize(end - begin);
  decodeElements(geometry_, bytes_, n * geometry_.k + begin, n * geometry_.k + end, out.values);
}

uint32_t ObjectWords::scaleWord(uint64_t n, uint64_t group) const {
  const auto *at =
      reinterpret_cast<const uint8_t *>(bytes_.data()) + scaleOffset(geometry_, n, group);
  return category() == FormatCategory::BlockScaledFloat ? *at : loadLe16(at);
}

float ObjectWords::scaleValue(uint32_t word) const {
  switch (category()) {
  case FormatCategory::GroupedInteger:
    return decodeF16(uint16_t(word));
  case FormatCategory::BlockScaledFloat:
    return decodeE4m3fn(uint8_t(word));
  case FormatCategory::RowScaledFloat:
    return decodeBf16(uint16_t(word));
  case FormatCategory::Direct:
    break;
  }
  return 1.0f;
}

std::optional<uint32_t> ObjectWords::divisor() const {
  if (category() != FormatCategory::BlockScaledFloat)
    return std::nullopt;
  return readDivisor(geometry_, bytes_);
}

std::string ObjectWords::codeText(uint32_t code) const {
  switch (category()) {
  case FormatCategory::GroupedInteger:
    return std::to_string(signExtend(code, formatInfo(geometry_.format).bits));
  case FormatCategory::BlockScaledFloat:
    return floatText(decodeE2m1(uint8_t(code)));
  case FormatCategory::RowScaledFloat:
  case FormatCategory::Direct:
    break;
  }
  return hexText(code, codeDigits());
}

int ObjectWords::codeDigits() const {
  const uint32_t bits = formatInfo(geometry_.format).bits;
  return bits <= 4 ? 1 : bits <= 8 ? 2 : bits <= 16 ? 4 : 8;
}

int ObjectWords::scaleDigits() const {
  return category() == FormatCategory::BlockScaledFloat ? 2 : 4;
}

} // namespace ninfer
