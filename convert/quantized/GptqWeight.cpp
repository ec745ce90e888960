#include "convert/quantized/GptqWeight.h"

#include "artifact/formats/Words.h"
#include "convert/quantized/Scales.h"
#include "support/Bytes.h"

#include <algorithm>
#include <cmath>

namespace ninfer {

namespace {

constexpr uint64_t kBlockBytes = 8u << 20; ///< of codes a reader should take at a time

Error badParts(const std::string &text) { return makeError(ErrorKind::BadFile, "NB0325", text); }

class GptqWeight : public PackedWeight {
public:
  GptqWeight(GptqParts parts, Format format)
      : format_(format), bits_(parts.bits), groupSize_(parts.groupSize),
        groups_((parts.columns + parts.groupSize - 1) / parts.groupSize),
        minusOne_(parts.zerosMinusOne), label_(std::move(parts.label)) {
    shape_ = {parts.rows, parts.columns};
    scheme_ = std::move(parts.scheme);
    // The scale words stay as they are only when they are binary16 and none is written twice.
    const bool same =
        parts.scales.tensor.type == SourceType::F16 && groupSize_ == formatInfo(format).groupSize;
    provenance_ = same ? Provenance::Preserved : Provenance::WidenedExactly;
    components_ = {std::move(parts.codes), std::move(parts.zeros), std::move(parts.scales)};
    if (parts.order)
      components_.push_back(std::move(*parts.order));
  }

  Format format() const override { return format_; }

  uint64_t preferredRows() const override {
    const uint64_t rowBytes = std::max<uint64_t>(1, shape_[1] * bits_ / 8);
    return std::clamp<uint64_t>(kBlockBytes / rowBytes, 1, shape_[0]);
  }

  /// Chooses Q5G64_F16S for a 4-bit matrix that needs code 8. Stops at the first such group.
  Status settleFormat() {
    if (bits_ != 4)
      return Status();
    std::vector<float> scales;
    NINFER_RETURN_IF_ERROR(readScales(0, shape_[0], scales));
    if (std::none_of(scales.begin(), scales.end(), [](float s) { return s < 0; }))
      return Status();
    std::vector<int8_t> codes;
    for (uint64_t first = 0; first < shape_[0]; first += preferredRows()) {
      const uint64_t count = std::min(preferredRows(), shape_[0] - first);
      NINFER_RETURN_IF_ERROR(readCodes(first, count, codes));
      for (uint64_t r = 0; r < count; ++r)
        for (uint64_t g = 0; g < groups_; ++g) {
          if (!(scales[(first + r) * groups_ + g] < 0))
            continue;
          std::span<int8_t> group = groupOf(codes, r, g);
          if (std::find(group.begin(), group.end(), int8_t(-8)) == group.end())
            continue;
          format_ = Format::Q5G64_F16S;
          provenance_ = Provenance::WidenedExactly;
          return Status();
        }
    }
    return Status();
  }

  Status check() override {
    NINFER_RETURN_IF_ERROR(checkZeros());
    std::vector<float> scales;
    NINFER_RETURN_IF_ERROR(readScales(0, shape_[0], scales));
    uint64_t negative = 0, zero = 0;
    for (uint64_t row = 0; row < shape_[0]; ++row)
      for (uint64_t g = 0; g < groups_; ++g) {
        const float value = scales[row * groups_ + g];
        NINFER_ASSIGN_OR_RETURN(uint16_t word, scaleWord(value, row, g));
        negative += value < 0;
        zero += word == 0;
      }
    if (negative != 0)
      notes_.push_back(std::to_string(negative) + " of " + std::to_string(scales.size()) +
                       " scales are negative: their sign moved into the codes");
    bool cleared = false;
    if (bits_ == 8 || negative != 0 || zero != 0) {
      PackedRows rows;
      for (uint64_t first = 0; first < shape_[0]; first += preferredRows())
        NINFER_RETURN_IF_ERROR(
            readRows(first, std::min(preferredRows(), shape_[0] - first), rows, cleared));
    }
    if (cleared)
      notes_.push_back("codes under a scale of zero are stored as zero");
    if (negative != 0 || cleared)
      provenance_ = Provenance::WidenedExactly;
    return Status();
  }

  Status readRows(uint64_t first, uint64_t count, PackedRows &out) const override {
    bool ignored = false;
    return readRows(first, count, out, ignored);
  }

private:
  /// The columns of source group `g` in local row `row`.
  std::span<int8_t> groupOf(std::vector<int8_t> &codes, uint64_t row, uint64_t g) const {
    const uint64_t begin = g * groupSize_;
    return std::span(codes).subspan(row * shape_[1] + begin,
                                    std::min(groupSize_, shape_[1] - begin));
  }

  Status readRows(uint64_t first, uint64_t count, PackedRows &out, bool &cleared) const {
    NINFER_RETURN_IF_ERROR(readCodes(first, count, out.codes));
    std::vector<float> scales;
    NINFER_RETURN_IF_ERROR(readScales(first, count, scales));
    const uint64_t g = formatInfo(format_).groupSize, stored = (shape_[1] + g - 1) / g;
    out.scales.resize(count * stored);
    for (uint64_t r = 0; r < count; ++r) {
      for (uint64_t from = 0; from < groups_; ++from) {
        const float value = scales[r * groups_ + from];
        NINFER_ASSIGN_OR_RETURN(uint16_t word, scaleWord(value, first + r, from));
        NINFER_RETURN_IF_ERROR(moveGroup(groupOf(out.codes, r, from), first + r, from,
                                         std::signbit(value), word == 0, cleared));
        const uint64_t begin = from * groupSize_ / g;
        const uint64_t end = std::min(stored, ((from + 1) * groupSize_) / g);
        std::fill(out.scales.begin() + static_cast<ptrdiff_t>(r * stored + begin),
                  out.scales.begin() + static_cast<ptrdiff_t>(r * stored + end), word);
      }
    }
    return Status();
  }

  /// Takes the sign of a scale into the codes of its group and checks their range.
  Status moveGroup(std::span<int8_t> codes, uint64_t row, uint64_t group, bool negate,
                   bool zeroScale, bool &cleared) const {
    const FormatInfo &info = formatInfo(format_);
    for (uint64_t i = 0; i < codes.size(); ++i) {
      if (zeroScale) {
        cleared = cleared || codes[i] != 0;
        codes[i] = 0;
        continue;
      }
      const int32_t code = negate ? -int32_t(codes[i]) : int32_t(codes[i]);
      if (code < info.qmin || code > info.qmax)
        return makeError(
            ErrorKind::Unsupported, "NB0327",
            components_[0].place() + " row " + std::to_string(row) + " group " +
                std::to_string(group) + " column " + std::to_string(group * groupSize_ + i) +
                ": code " + std::to_string(code) + ": refused (" + std::string(info.canonical) +
                " codes are " + std::to_string(info.qmin) + ".." + std::to_string(info.qmax) + ")");
      codes[i] = static_cast<int8_t>(code);
    }
    return Status();
  }

  /// Word of the magnitude of a scale.
  Result<uint16_t> scaleWord(float value, uint64_t row, uint64_t group) const {
    const ScalePlace place{components_[2], row, group};
    if (value == 0 && std::signbit(value))
      return makeError(ErrorKind::Unsupported, "NB0327",
                       scaleText(place) + ": scale " + valueText(value) +
                           ": refused (a group scale of negative zero is not registered)");
    return groupScale(std::fabs(value), place);
  }

  Status checkZeros() const {
    const uint64_t perWord = 32 / bits_, words = (shape_[0] + perWord - 1) / perWord;
    const uint32_t mask = (uint32_t(1) << bits_) - 1, middle = uint32_t(1) << (bits_ - 1);
    const uint32_t expected = minusOne_ ? middle - 1 : middle;
    const uint32_t other = minusOne_ ? middle : middle - 1;
    std::vector<std::byte> bytes(groups_ * words * 4);
    NINFER_RETURN_IF_ERROR(components_[1].read(0, bytes));
    uint64_t others = 0, first = 0;
    const uint64_t all = groups_ * shape_[0];
    for (uint64_t g = 0; g < groups_; ++g)
      for (uint64_t n = 0; n < shape_[0]; ++n) {
        const uint32_t word = loadLe32(bytes.data() + (g * words + n / perWord) * 4);
        const uint32_t stored = word >> (bits_ * (n % perWord)) & mask;
        if (stored == expected)
          continue;
        if (stored != other)
          return asymmetric(n, g, stored, expected);
        if (others++ == 0)
          first = g * shape_[0] + n;
      }
    if (others == 0)
      return Status();
    if (others != all)
      return asymmetric(first % shape_[0], first / shape_[0], other, expected);
    return labelLies(other);
  }

  Error asymmetric(uint64_t row, uint64_t group, uint32_t stored, uint32_t expected) const {
    return makeError(ErrorKind::Unsupported, "NB0327",
                     scaleText({components_[1], row, group}) + ": stored zero point " +
                         std::to_string(stored) + ", a symmetric file of version " +
                         (minusOne_ ? "1" : "2") + " has " + std::to_string(expected) +
                         " everywhere: refused (grouped formats have no zero point)");
  }

  Status labelLies(uint32_t stored) const {
    const char *real = minusOne_ ? "2" : "1";
    Status status(makeError(ErrorKind::BadFile, "NB0340",
                            components_[1].place() + ": every stored zero point is " +
                                std::to_string(stored) + ", which is symmetric in version " + real +
                                ", but " + label_ + " means version " + (minusOne_ ? "1" : "2")));
    status.note("read as labelled, every weight would be off by one step");
    status.help(std::string("--gptq-zero-points v") + real + " reads them as version " + real +
                ", if that is what the tool wrote");
    return status;
  }

  Status readCodes(uint64_t first, uint64_t count, std::vector<int8_t> &out) const {
    const uint64_t k = shape_[1], n = shape_[0], perWord = 32 / bits_, words = k / perWord;
    const auto offset = static_cast<int32_t>(uint32_t(1) << (bits_ - 1));
    const uint32_t mask = (uint32_t(1) << bits_) - 1;
    out.resize(count * k);
    std::vector<std::byte> line(count * 4);
    for (uint64_t w = 0; w < words; ++w) {
      NINFER_RETURN_IF_ERROR(components_[0].read((w * n + first) * 4, line));
      for (uint64_t r = 0; r < count; ++r) {
        const uint32_t word = loadLe32(line.data() + r * 4);
        int8_t *to = out.data() + r * k + w * perWord;
        for (uint64_t i = 0; i < perWord; ++i)
          to[i] = static_cast<int8_t>(static_cast<int32_t>(word >> (bits_ * i) & mask) - offset);
      }
    }
    return Status();
  }

  /// Values [count, groups] of the scales, stored [groups, N].
  Status readScales(uint64_t first, uint64_t count, std::vector<float> &out) const {
    const PackedComponent &scales = components_[2];
    const uint64_t wordBytes = sourceTypeInfo(scales.tensor.type).blockBytes;
    std::vector<std::byte> line(count * wordBytes);
    out.resize(count * groups_);
    for (uint64_t g = 0; g < groups_; ++g) {
      NINFER_RETURN_IF_ERROR(scales.read((g * shape_[0] + first) * wordBytes, line));
      for (uint64_t r = 0; r < count; ++r)
        out[r * groups_ + g] = floatWord(scales.tensor.type, line, r);
    }
    return Status();
  }

  Format format_;
  uint32_t bits_;
  uint64_t groupSize_, groups_;
  bool minusOne_;
  std::string label_;
};

/// Columns in the order of their groups, or the rule act-order breaks.
Status checkOrder(const GptqParts &parts) {
  const SourceTensor &t = parts.order->tensor;
  if (t.typeName != "I32" || t.shape != std::vector<uint64_t>{parts.columns})
    return badParts("tensor '" + t.name + "' must be I32 [" + std::to_string(parts.columns) +
                    "], got " + t.typeName + " " + shapeText(t.shape));
  std::vector<std::byte> bytes(t.bytes);
  NINFER_RETURN_IF_ERROR(parts.order->read(0, bytes));
  for (uint64_t k = 0; k < parts.columns; ++k) {
    const uint32_t group = loadLe32(bytes.data() + 4 * k);
    if (group != k / parts.groupSize)
      return makeError(ErrorKind::Unsupported, "NB0324",
                       "act-order: column " + std::to_string(k) + " belongs to group " +
                           std::to_string(static_cast<int32_t>(group)) + " (g_idx), not " +
                           std::to_string(k / parts.groupSize));
  }
  return Status();
}

Status checkTensor(const PackedComponent &component, const char *type,
                   const std::vector<uint64_t> &shape) {
  const SourceTensor &t = component.tensor;
  const bool typed = type ? t.typeName == type : isFloatWord(t.type);
  if (typed && t.shape == shape)
    return Status();
  return badParts("tensor '" + t.name + "' must be " + (type ? type : "F16, BF16 or F32") + " " +
                  shapeText(shape) + ", got " + t.typeName + " " + shapeText(t.shape));
}

} // namespace

std::optional<Format> gptqFormat(uint32_t bits, uint64_t groupSize, std::string &rule) {
  if (bits != 4 && bits != 8) {
    rule = std::to_string(bits) + "-bit codes: only 4 and 8 bit move into a registered format";
    return std::nullopt;
  }
  const Format format = bits == 4 ? Format::Q4G64_F16S : Format::W8G32_F16S;
  const uint64_t needed = formatInfo(format).groupSize;
  if (groupSize % needed == 0)
    return format;
  rule = "group size " + std::to_string(groupSize) + ": " + std::string(canonicalName(format)) +
         " needs a multiple of " + std::to_string(needed);
  return std::nullopt;
}

Result<std::shared_ptr<PackedWeight>> makeGptqWeight(GptqParts parts) {
  std::string rule;
  std::optional<Format> format = gptqFormat(parts.bits, parts.groupSize, rule);
  const uint64_t perWord = 32 / std::clamp(parts.bits, 1u, 32u);
  if (!format || parts.rows == 0 || parts.columns == 0 || parts.columns % perWord != 0)
    return badParts("tensor '" + parts.codes.tensor.name +
                    "': " + (format ? "K must be a multiple of " + std::to_string(perWord) : rule));
  if (parts.groupSize == 0)
    parts.groupSize = (parts.columns + 63) / 64 * 64; // one group, of a size both formats divide
  const uint64_t groups = (parts.columns + parts.groupSize - 1) / parts.groupSize;
  NINFER_RETURN_IF_ERROR(checkTensor(parts.codes, "I32", {parts.columns / perWord, parts.rows}));
  NINFER_RETURN_IF_ERROR(
      checkTensor(parts.zeros, "I32", {groups, (parts.rows + perWord - 1) / perWord}));
  NINFER_RETURN_IF_ERROR(checkTensor(parts.scales, nullptr, {groups, parts.rows}));
  if (parts.order)
    NINFER_RETURN_IF_ERROR(checkOrder(parts));
  auto weight = std::make_shared<GptqWeight>(std::move(parts), *format);
  NINFER_RETURN_IF_ERROR(weight->settleFormat());
  return std::shared_ptr<PackedWeight>(std::move(weight));
}

} // namespace ninfer
