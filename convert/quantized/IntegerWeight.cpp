#include "convert/quantized/IntegerWeight.h"

#include "convert/quantized/Scales.h"
#include "support/Bytes.h"

#include <algorithm>

namespace ninfer {

namespace {

constexpr uint64_t kCheckBytes = 1u << 20; ///< of codes read at a time by check()

Error badParts(const std::string &text) { return makeError(ErrorKind::BadFile, "NB0325", text); }

class IntegerWeight : public PackedWeight {
public:
  IntegerWeight(IntegerParts parts, Format format)
      : format_(format), storage_(parts.storage), bits_(parts.bits), groupSize_(parts.groupSize),
        oneScale_(parts.oneScale) {
    shape_ = {parts.codes.tensor.shape[0], parts.columns};
    scheme_ = std::move(parts.scheme);
    notes_ = std::move(parts.notes);
    const FormatInfo &info = formatInfo(format);
    // The scale words stay as they are only when they are binary16 and none is written twice.
    const bool same = parts.scales.tensor.type == SourceType::F16 && groupSize_ == info.groupSize &&
                      !oneScale_ && bits_ == info.bits;
    provenance_ = same ? Provenance::Preserved : Provenance::WidenedExactly;
    components_ = {std::move(parts.codes), std::move(parts.scales)};
    for (PackedComponent &other : parts.others)
      components_.push_back(std::move(other));
  }

  Format format() const override { return format_; }

  Status check() override {
    const uint64_t rowBytes = components_[0].tensor.bytes / shape_[0];
    const uint64_t step = std::max<uint64_t>(1, kCheckBytes / std::max<uint64_t>(1, rowBytes));
    PackedRows rows;
    for (uint64_t first = 0; first < shape_[0]; first += step) {
      const uint64_t count = std::min(step, shape_[0] - first);
      NINFER_RETURN_IF_ERROR(readRows(first, count, rows));
      for (uint64_t r = 0; r < count; ++r)
        NINFER_RETURN_IF_ERROR(checkRow(first + r, r, rows));
    }
    return Status();
  }

  Status readRows(uint64_t first, uint64_t count, PackedRows &out) const override {
    NINFER_RETURN_IF_ERROR(readCodes(first, count, out.codes));
    return readScales(first, count, out.scales);
  }

private:
  uint64_t sourceGroups() const { return (shape_[1] + groupSize_ - 1) / groupSize_; }
  uint64_t storedGroups() const {
    const uint64_t g = formatInfo(format_).groupSize;
    return (shape_[1] + g - 1) / g;
  }

  Status checkRow(uint64_t row, uint64_t at, const PackedRows &rows) const {
    const uint64_t k = shape_[1], g = formatInfo(format_).groupSize, groups = storedGroups();
    const FormatInfo &info = formatInfo(format_);
    for (uint64_t column = 0; column < k; ++column) {
      const int32_t code = rows.codes[at * k + column];
      const bool legal = code >= info.qmin && code <= info.qmax;
      if (legal && (code == 0 || rows.scales[at * groups + column / g] != 0))
        continue;
      return makeError(ErrorKind::Unsupported, "NB0327",
                       components_[0].place() + " row " + std::to_string(row) + " group " +
                           std::to_string(column / groupSize_) + " column " +
                           std::to_string(column) + ": code " + std::to_string(code) +
                           ": refused (" +
                           (legal ? "a group of scale zero holds only zero codes"
                                  : std::string(info.canonical) + " codes are " +
                                        std::to_string(info.qmin) + ".." +
                                        std::to_string(info.qmax)) +
                           ")");
    }
    return Status();
  }

  Status readCodes(uint64_t first, uint64_t count, std::vector<int8_t> &out) const {
    const uint64_t k = shape_[1];
    out.resize(count * k);
    if (storage_ == CodeStorage::Int8)
      return components_[0].read(first * k, std::as_writable_bytes(std::span(out)));
    const uint64_t perWord = 32 / bits_, words = components_[0].tensor.shape[1];
    const uint32_t mask = (uint32_t(1) << bits_) - 1;
    const auto offset = static_cast<int32_t>(uint32_t(1) << (bits_ - 1));
    std::vector<std::byte> packed(count * words * 4);
    NINFER_RETURN_IF_ERROR(components_[0].read(first * words * 4, packed));
    for (uint64_t r = 0; r < count; ++r) {
      int8_t *row = out.data() + r * k;
      for (uint64_t w = 0; w < words; ++w) {
        const uint32_t word = loadLe32(packed.data() + (r * words + w) * 4);
        const uint64_t codes = std::min(perWord, k - w * perWord);
        for (uint64_t i = 0; i < codes; ++i)
          row[w * perWord + i] =
              static_cast<int8_t>(static_cast<int32_t>(word >> (bits_ * i) & mask) - offset);
        if (codes < perWord && word >> (bits_ * codes) != 0)
          return makeError(ErrorKind::BadFile, "NB0326",
                           components_[0].place() + " row " + std::to_string(first + r) +
                               ": bits behind the last code are not zero");
      }
    }
    return Status();
  }

  Status readScales(uint64_t first, uint64_t count, std::vector<uint16_t> &out) const {
    const PackedComponent &scales = components_[1];
    const uint64_t wordBytes = sourceTypeInfo(scales.tensor.type).blockBytes;
    const uint64_t perRow = sourceGroups(), g = formatInfo(format_).groupSize,
                   groups = storedGroups();
    std::vector<std::byte> bytes((oneScale_ ? 1 : count * perRow) * wordBytes);
    NINFER_RETURN_IF_ERROR(scales.read(oneScale_ ? 0 : first * perRow * wordBytes, bytes));
    out.resize(count * groups);
    for (uint64_t r = 0; r < count; ++r)
      for (uint64_t j = 0; j < groups; ++j) {
        const uint64_t from = j * g / groupSize_;
        const float value =
            floatWord(scales.tensor.type, bytes, oneScale_ ? 0 : r * perRow + from);
        NINFER_ASSIGN_OR_RETURN(out[r * groups + j], groupScale(value, {scales, first + r, from}));
      }
    return Status();
  }

  Format format_;
  CodeStorage storage_;
  uint32_t bits_;
  uint64_t groupSize_;
  bool oneScale_;
};

} // namespace

std::optional<Format> integerFormat(uint32_t bits, uint64_t groupSize, std::string &rule) {
  if (bits != 4 && bits != 8) {
    rule = std::to_string(bits) + "-bit codes: only 4 and 8 bit move into a registered format";
    return std::nullopt;
  }
  if (bits == 4 && groupSize % 64 == 0)
    return Format::Q4G64_F16S;
  if (groupSize % 32 == 0)
    return Format::W8G32_F16S;
  rule = "group size " + std::to_string(groupSize) +
         ": Q4G64_F16S needs a multiple of 64, W8G32_F16S one of 32";
  return std::nullopt;
}

Result<std::shared_ptr<PackedWeight>> makeIntegerWeight(IntegerParts parts) {
  const SourceTensor &codes = parts.codes.tensor, &scales = parts.scales.tensor;
  std::string rule;
  std::optional<Format> format = integerFormat(parts.bits, parts.groupSize, rule);
  if (!format || parts.columns == 0)
    return badParts("tensor '" + codes.name + "': " + rule);
  const bool packed = parts.storage == CodeStorage::PackedInt32;
  const uint64_t perWord = packed ? 32 / parts.bits : 1;
  const uint64_t width = parts.columns / perWord + (parts.columns % perWord != 0);
  if (codes.typeName != (packed ? "I32" : "I8") || codes.shape.size() != 2 ||
      codes.shape[1] != width)
    return badParts("tensor '" + codes.name + "' must be " + (packed ? "I32 [N," : "I8 [N,") +
                    std::to_string(width) + "] for " + std::to_string(parts.columns) +
                    " columns, got " + codes.typeName + " " + shapeText(codes.shape));
  if (parts.groupSize == 0)
    parts.groupSize = (parts.columns + 63) / 64 * 64; // one group, of a size both formats divide
  const uint64_t rows = codes.shape[0];
  const uint64_t groups = (parts.columns + parts.groupSize - 1) / parts.groupSize;
  const bool shaped = parts.oneScale
                          ? scales.shape.size() <= 1 && scales.rows() * scales.columns() == 1
                          : scales.shape == std::vector<uint64_t>{rows, groups} ||
                                (groups == 1 && scales.shape == std::vector<uint64_t>{rows});
  if (!isFloatWord(scales.type) || !shaped)
    return badParts("tensor '" + scales.name + "' must be F16, BF16 or F32 " +
                    (parts.oneScale ? "[1]" : shapeText(std::vector<uint64_t>{rows, groups})) + ", got " +
                    scales.typeName + " " + shapeText(scales.shape));
  return std::shared_ptr<PackedWeight>(
      std::make_shared<IntegerWeight>(std::move(parts), *format));
}

} // namespace ninfer
