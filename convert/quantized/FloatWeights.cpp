#include "convert/quantized/FloatWeights.h"

#include "artifact/formats/Words.h"
#include "convert/quantized/Scales.h"
#include "support/Bytes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ninfer {

namespace {

constexpr uint64_t kCheckBytes = 1u << 20; ///< read at a time by check()
constexpr uint64_t kBlock = 16;            ///< elements per NVFP4 scale

Error badParts(const std::string &text) { return makeError(ErrorKind::BadFile, "NB0325", text); }

std::string byteText(uint8_t byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", byte);
  return text;
}

/// Codes and scales may be legal and their product too large for binary32.
Error infiniteValue(const std::string &where, uint64_t column) {
  return makeError(ErrorKind::BadFile, "NB0317",
                   where + " column " + std::to_string(column) +
                       ": the represented value is infinite");
}

Error badWord(const std::string &text) { return makeError(ErrorKind::BadFile, "NB0326", text); }

/// Calls `row(n, bytes)` for every row of a byte tensor of `rows` rows, reading many at a time.
template <typename RowFunction>
Status forRows(const PackedComponent &component, uint64_t rows, RowFunction row) {
  const uint64_t rowBytes = component.tensor.bytes / rows;
  const uint64_t step = std::max<uint64_t>(1, kCheckBytes / std::max<uint64_t>(1, rowBytes));
  std::vector<std::byte> bytes;
  for (uint64_t first = 0; first < rows; first += step) {
    const uint64_t count = std::min(step, rows - first);
    bytes.resize(count * rowBytes);
    NINFER_RETURN_IF_ERROR(component.read(first * rowBytes, bytes));
    for (uint64_t r = 0; r < count; ++r)
      NINFER_RETURN_IF_ERROR(row(first + r, std::span(bytes).subspan(r * rowBytes, rowBytes)));
  }
  return Status();
}

class Nvfp4Weight : public PackedWeight {
public:
  explicit Nvfp4Weight(Nvfp4Parts parts) : divisor_(parts.divisor) {
    const std::vector<uint64_t> &codes = parts.codes.tensor.shape;
    shape_ = {codes[0], codes[1] * 2};
    scheme_ = std::move(parts.scheme);
    components_ = {std::move(parts.codes), std::move(parts.scales)};
    for (PackedComponent &scalar : parts.scalars)
      components_.push_back(std::move(scalar));
    notes_ = std::move(parts.notes);
    provenance_ = parts.provenance;
    activation_ = parts.activation;
  }

  Format format() const override { return Format::NVFP4; }

  Status check() override {
    uint8_t largest = 0; // finite positive words are in the order of their values
    NINFER_RETURN_IF_ERROR(
        forRows(components_[1], shape_[0],
                   [&](uint64_t row, std::span<const std::byte> scales) -> Status {
                     for (uint64_t group = 0; group < scales.size(); ++group) {
                       const auto byte = static_cast<uint8_t>(scales[group]);
                       if (!isValidE4m3fnScale(byte))
                         return badWord(scaleText({components_[1], row, group}) + ": scale byte " +
                                        byteText(byte) +
                                        ((byte & 0x7f) == 0x7f ? " is NaN"
                                         : byte == 0x80        ? " is negative zero"
                                                               : " is negative"));
                       largest = std::max(largest, byte);
                     }
                     return Status();
                   }));
    constexpr uint8_t kLargestCode = 7;
    return std::isinf(reconstructBlockScaled(largest, kLargestCode, divisor_)) ? checkValues()
                                                                               : Status();
  }

  Status readRows(uint64_t first, uint64_t count, PackedRows &out) const override {
    const uint64_t k = shape_[1], groups = k / kBlock;
    std::vector<std::byte> packed(count * k / 2);
    NINFER_RETURN_IF_ERROR(components_[0].read(first * k / 2, packed));
    out.words.resize(count * k);
    for (uint64_t i = 0; i < packed.size(); ++i) {
      const auto byte = static_cast<uint8_t>(packed[i]);
      out.words[2 * i] = byte & 15;
      out.words[2 * i + 1] = byte >> 4;
    }
    out.blockScales.resize(count * groups);
    out.divisor = divisor_;
    return components_[1].read(first * groups, std::as_writable_bytes(std::span(out.blockScales)));
  }

private:
  /// Every represented value: only where the largest scale allows an infinite one.
  Status checkValues() const {
    constexpr uint64_t kRows = 64;
    PackedRows rows;
    const uint64_t k = shape_[1];
    for (uint64_t first = 0; first < shape_[0]; first += kRows) {
      const uint64_t count = std::min(kRows, shape_[0] - first);
      NINFER_RETURN_IF_ERROR(readRows(first, count, rows));
      for (uint64_t i = 0; i < count * k; ++i)
        if (std::isinf(reconstructBlockScaled(rows.blockScales[i / kBlock], rows.words[i], divisor_)))
          return infiniteValue(components_[0].place() + " row " + std::to_string(first + i / k) +
                                   " group " + std::to_string(i % k / kBlock),
                               i % k);
    }
    return Status();
  }

  uint32_t divisor_;
};

class Fp8RowWeight : public PackedWeight {
public:
  explicit Fp8RowWeight(Fp8Parts parts) : rows_(parts.rows) {
    shape_ = parts.codes.tensor.shape;
    scheme_ = std::move(parts.scheme);
    notes_ = std::move(parts.notes);
    switch (parts.scales.tensor.type) {
    case SourceType::BF16:
      provenance_ = rows_ == RowScales::PerRow ? Provenance::Preserved : Provenance::WidenedExactly;
      break;
    case SourceType::F16:
      provenance_ = Provenance::WidenedExactly; // every binary16 value checked to be a bfloat16 one
      break;
    default:
      provenance_ = Provenance::NarrowedExactly;
      break;
    }
    components_ = {std::move(parts.codes), std::move(parts.scales)};
  }

  Format format() const override { return Format::FP8_E4M3FN_ROW_BF16S; }

  Status check() override {
    std::vector<uint16_t> scales;
    NINFER_RETURN_IF_ERROR(readScales(0, shape_[0], scales));
    return forRows(components_[0], shape_[0],
                   [&](uint64_t row, std::span<const std::byte> codes) -> Status {
                     constexpr uint8_t kLargestCode = 0x7e;
                     const bool zero = scales[row] == 0;
                     const bool large = std::isinf(reconstructRowScaled(scales[row], kLargestCode));
                     for (uint64_t column = 0; column < codes.size(); ++column) {
                       const auto byte = static_cast<uint8_t>(codes[column]);
                       const bool infinite = large && isValidE4m3fnCode(byte) &&
                                             std::isinf(reconstructRowScaled(scales[row], byte));
                       if (isValidE4m3fnCode(byte) && !(zero && (byte & 0x7f) != 0) && !infinite)
                         continue;
                       const std::string place = components_[0].place() + " row " +
                                                 std::to_string(row);
                       if (infinite)
                         return infiniteValue(place, column);
                       std::string where = place + " column " + std::to_string(column) +
                                           ": code byte " + byteText(byte);
                       if (!isValidE4m3fnCode(byte))
                         return badWord(where + " is NaN");
                       return makeError(ErrorKind::Unsupported, "NB0327",
                                        where + ": refused (a row of scale zero holds only zero "
                                                "codes)");
                     }
                     return Status();
                   });
  }

  Status readRows(uint64_t first, uint64_t count, PackedRows &out) const override {
    const uint64_t k = shape_[1];
    out.words.resize(count * k);
    NINFER_RETURN_IF_ERROR(
        components_[0].read(first * k, std::as_writable_bytes(std::span(out.words))));
    return readScales(first, count, out.scales);
  }

private:
  Status readScales(uint64_t first, uint64_t count, std::vector<uint16_t> &out) const {
    const PackedComponent &scales = components_[1];
    const uint64_t wordBytes = sourceTypeInfo(scales.tensor.type).blockBytes;
    const bool one = rows_ == RowScales::OnePerTensor;
    std::vector<std::byte> bytes((one ? 1 : count) * wordBytes);
    NINFER_RETURN_IF_ERROR(scales.read(one ? 0 : first * wordBytes, bytes));
    out.resize(count);
    for (uint64_t r = 0; r < count; ++r) {
      const float value = floatWord(scales.tensor.type, bytes, one ? 0 : r);
      NINFER_ASSIGN_OR_RETURN(out[r], rowScale(value, {scales, first + r, std::nullopt}));
    }
    return Status();
  }

  RowScales rows_;
};

} // namespace

Result<std::shared_ptr<PackedWeight>> makeNvfp4Weight(Nvfp4Parts parts) {
  const SourceTensor &codes = parts.codes.tensor, &scales = parts.scales.tensor;
  if (codes.typeName != "U8" || codes.shape.size() != 2)
    return badParts("tensor '" + codes.name + "' must be U8 [N,K/2], got " + codes.typeName + " " +
                    shapeText(codes.shape));
  const std::vector<uint64_t> wanted = {codes.shape[0], codes.shape[1] / 8};
  if (codes.shape[1] % 8 != 0 || scales.typeName != "F8_E4M3" || scales.shape != wanted)
    return badParts("tensor '" + scales.name + "' must be F8_E4M3 [N,K/16] beside '" + codes.name +
                    "' " + shapeText(codes.shape) + ", got " + scales.typeName + " " +
                    shapeText(scales.shape));
  if (!isValidDivisor(parts.divisor))
    return badParts("divisor of '" + codes.name + "' must be finite and positive");
  return std::shared_ptr<PackedWeight>(std::make_shared<Nvfp4Weight>(std::move(parts)));
}

Result<uint32_t> readPositiveScalar(const PackedComponent &component) {
  const SourceTensor &tensor = component.tensor;
  const uint64_t elements = tensor.rows() * tensor.columns();
  if (!isFloatWord(tensor.type) || tensor.shape.size() > 1 || elements != 1)
    return badWord(component.place() + " must be one floating-point value, got " +
                   tensor.typeName + " " + shapeText(tensor.shape));
  std::vector<std::byte> bytes(tensor.bytes);
  NINFER_RETURN_IF_ERROR(component.read(0, bytes));
  const uint32_t word = bitsFromFloat(floatWord(tensor.type, bytes, 0));
  if (!isValidDivisor(word))
    return badWord(component.place() + ": " + valueText(floatFromBits(word)) +
                   " must be finite and positive");
  return word;
}

Result<std::shared_ptr<PackedWeight>> makeFp8RowWeight(Fp8Parts parts) {
  const SourceTensor &codes = parts.codes.tensor, &scales = parts.scales.tensor;
  if (codes.typeName != "F8_E4M3" || codes.shape.size() != 2)
    return badParts("tensor '" + codes.name + "' must be F8_E4M3 [N,K], got " + codes.typeName +
                    " " + shapeText(codes.shape));
  const uint64_t wanted = parts.rows == RowScales::PerRow ? codes.shape[0] : 1;
  if (!isFloatWord(scales.type) || scales.rows() * scales.columns() != wanted)
    return badParts("tensor '" + scales.name + "' must hold " + std::to_string(wanted) +
                    " BF16, F16 or F32 scales, got " + scales.typeName + " " +
                    shapeText(scales.shape));
  return std::shared_ptr<PackedWeight>(std::make_shared<Fp8RowWeight>(std::move(parts)));
}

std::optional<RowScales> rowScalesOfShape(const std::vector<uint64_t> &shape, uint64_t rows) {
  if (shape.size() > 2 || (shape.size() == 2 && shape[1] != 1))
    return std::nullopt;
  if (!shape.empty() && shape[0] == rows)
    return RowScales::PerRow;
  if (shape.empty() || shape[0] == 1)
    return RowScales::OnePerTensor;
  return std::nullopt;
}

} // namespace ninfer
