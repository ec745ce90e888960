// Level 1: pack and unpack of every word of one object.
#include "convert/ParallelRows.h"
#include "inspect/ParityWork.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace ninfer {

namespace {

constexpr uint64_t kBlockElements = 256 << 10;
constexpr uint64_t kTileRows = 128; ///< NVFP4 scales are stored in tiles of so many rows

/// What one worker found in one block of rows.
struct BlockResult {
  std::vector<ParityFault> faults;
  uint64_t words = 0, count = 0;
};

class PackingBlock {
public:
  PackingBlock(const ObjectEntry &object, const ReferenceLayout &layout,
               const EncodedGeometry &geometry, std::span<const std::byte> bytes)
      : object_(object), layout_(layout), geometry_(geometry), bytes_(bytes) {}

  BlockResult run(uint64_t first, uint64_t count) {
    result_ = {};
    values_.resize(layout_.columns);
    read_.resize(layout_.columns);
    clear();
    for (uint64_t n = first; n < first + count; ++n) {
      readReferenceRow(layout_, bytes_, n, row_);
      result_.words += row_.codes.size() + row_.scales.size();
      compareReading(n);
      append();
    }
    compareBytes(first, count);
    return std::move(result_);
  }

private:
  void add(const char *rule, uint64_t row, std::optional<uint64_t> column, std::string message) {
    ++result_.count;
    if (result_.faults.size() < 8)
      result_.faults.push_back({1, rule, object_.id, std::move(message), row, column});
  }

  /// artifact/layouts must read what the reference reads.
  void compareReading(uint64_t n) {
    referenceValues(layout_, row_, values_);
    decodeRow(geometry_, bytes_, n, read_);
    for (uint64_t k = 0; k < layout_.columns; ++k)
      if (std::memcmp(&values_[k], &read_[k], sizeof(float)) != 0) {
        add("unpack", n, k,
            "the runtime's reader gives " + std::to_string(read_[k]) + ", the reference reader " +
                std::to_string(values_[k]));
        return;
      }
    if (formatInfo(layout_.format).category != FormatCategory::GroupedInteger)
      return;
    codes_.resize(geometry_.paddedK);
    scales_.resize(geometry_.groupsPerRow);
    readGroupedRow(geometry_, bytes_, n, codes_, scales_);
    for (uint64_t k = 0; k < geometry_.paddedK; ++k)
      if (codes_[k] != (k < layout_.columns ? row_.codes[k] : 0)) {
        add("unpack", n, k,
            "the runtime's reader gives code " + std::to_string(codes_[k]) +
                ", the reference reader " +
                (k < layout_.columns ? std::to_string(row_.codes[k]) : "padding, which must be 0"));
        return;
      }
  }

  void clear() {
    words_.clear();
    signed_.clear();
    bytesOfCodes_.clear();
    scales16_.clear();
    scales8_.clear();
  }

  void append() {
    switch (formatInfo(layout_.format).category) {
    case FormatCategory::Direct:
      for (int32_t code : row_.codes)
        for (uint32_t i = 0; i < formatInfo(layout_.format).bits / 8; ++i)
          words_.push_back(std::byte(uint32_t(code) >> (8 * i) & 255));
      break;
    case FormatCategory::GroupedInteger:
      signed_.insert(signed_.end(), row_.codes.begin(), row_.codes.end());
      scales16_.insert(scales16_.end(), row_.scales.begin(), row_.scales.end());
      break;
    case FormatCategory::RowScaledFloat:
      bytesOfCodes_.insert(bytesOfCodes_.end(), row_.codes.begin(), row_.codes.end());
      scales16_.insert(scales16_.end(), row_.scales.begin(), row_.scales.end());
      break;
    case FormatCategory::BlockScaledFloat:
      bytesOfCodes_.insert(bytesOfCodes_.end(), row_.codes.begin(), row_.codes.end());
      scales8_.insert(scales8_.end(), row_.scales.begin(), row_.scales.end());
      break;
    }
  }

  Status pack(const EncodedGeometry &part) {
    switch (formatInfo(layout_.format).category) {
    case FormatCategory::Direct:
      return encodeRows(part, 0, DirectRows{words_}, packed_);
    case FormatCategory::GroupedInteger:
      return encodeRows(part, 0, GroupedRows{signed_, scales16_}, packed_);
    case FormatCategory::RowScaledFloat:
      return encodeRows(part, 0, RowScaledRows{bytesOfCodes_, scales16_}, packed_);
    default:
      return encodeRows(part, 0, BlockScaledRows{bytesOfCodes_, scales8_, row_.divisor}, packed_);
    }
  }

  /// The words of the block, packed as an object of that many rows, plane by plane.
  void compareBytes(uint64_t first, uint64_t count) {
    std::vector<uint64_t> shape = {count, layout_.columns};
    auto part = encodedGeometry(layout_.format, geometry_.layout, shape);
    if (!part.ok()) {
      add("repack", first, {}, part.error().message);
      return;
    }
    packed_.assign(part->totalBytes, std::byte(0));
    if (Status status = pack(*part); !status.ok()) {
      add("illegal-word", first, {},
          "counted from row " + std::to_string(first) + ": " + status.error().message);
      return;
    }
    for (size_t i = 0; i < part->planes.size(); ++i) {
      const PlaneInfo &plane = part->planes[i];
      const uint64_t start =
          geometry_.planes[i].offset + (plane.rowBytes ? first * plane.rowBytes : 0);
      const auto stored = bytes_.subspan(start, plane.bytes);
      const auto packed = std::span<const std::byte>(packed_).subspan(plane.offset, plane.bytes);
      if (std::memcmp(stored.data(), packed.data(), plane.bytes) == 0)
        continue;
      const uint64_t at = uint64_t(
          std::mismatch(stored.begin(), stored.end(), packed.begin()).first - stored.begin());
      add("repack", first + (plane.rowBytes ? at / plane.rowBytes : 0), {},
          "plane '" + std::string(plane.name) + "' byte " + std::to_string(start + at) +
              " of the object is " + std::to_string(std::to_integer<int>(stored[at])) +
              ", the unpacked words pack to " + std::to_string(std::to_integer<int>(packed[at])));
    }
  }

  const ObjectEntry &object_;
  const ReferenceLayout &layout_;
  const EncodedGeometry &geometry_;
  std::span<const std::byte> bytes_;
  BlockResult result_;
  ReferenceRow row_;
  std::vector<float> values_, read_;
  std::vector<int8_t> codes_, signed_;
  std::vector<uint16_t> scales_, scales16_;
  std::vector<uint8_t> bytesOfCodes_, scales8_;
  std::vector<std::byte> words_, packed_;
};

} // namespace

Status checkPacking(const ObjectEntry &object, const ReferenceLayout &layout,
                    std::span<const std::byte> bytes, const ParityContext &context,
                    ParityReport &report, ParityFaults &faults) {
  NINFER_ASSIGN_OR_RETURN(const EncodedGeometry geometry,
                          encodedGeometry(layout.format, layoutOf(layout.format), object.shape));
  if (const auto at = firstGapByte(layout, bytes))
    faults.add({1,
                "repack",
                object.id,
                "byte " + std::to_string(*at) + " between planes is not zero",
                {},
                {}});
  uint64_t block = std::max<uint64_t>(1, kBlockElements / layout.columns);
  if (layout.format == Format::NVFP4)
    block = (block + kTileRows - 1) / kTileRows * kTileRows;
  std::vector<BlockResult> results((layout.rows + block - 1) / block);
  NINFER_RETURN_IF_ERROR(parallelRows(layout.rows, block, context.threads, context.cancelled, [&] {
    return [&, worker = PackingBlock(object, layout, geometry, bytes)](
               uint64_t first, uint64_t count) mutable -> Status {
      results[first / block] = worker.run(first, count);
      if (context.onBytes)
        context.onBytes(layout.bytes / layout.rows * count);
      return Status();
    };
  }));
  for (BlockResult &result : results) {
    report.levels[1].checked += result.words;
    const uint64_t kept = result.faults.size();
    for (ParityFault &fault : result.faults)
      faults.add(std::move(fault));
    report.levels[1].faults += result.count - kept;
  }
  return Status();
}

} // namespace ninfer
