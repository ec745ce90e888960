#include "convert/TensorJob.h"

#include "artifact/formats/Encode.h"
#include "artifact/formats/Words.h"
#include "convert/GgmlBlocks.h"
#include "convert/ParallelRows.h"
#include "convert/quantized/PackedWeight.h"
#include "support/Bytes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

namespace ninfer {

namespace {

constexpr uint64_t kBlockBytes = 512u << 10; ///< source bytes a worker takes at a time

/// True when every value is one binary32 word without rounding: plain words, and blocks that are
/// scale * code.
bool isExactInFp32(SourceType type) {
  switch (type) {
  case SourceType::Q4_1:
  case SourceType::Q5_1:
  case SourceType::Q2_K:
  case SourceType::Q4_K:
  case SourceType::Q5_K:
    return false;
  default:
    return true;
  }
}

std::string place(const TensorJob &job) {
  return job.file->name() + ": tensor '" + job.tensor->name + "'";
}

std::string place(const TensorJob &job, uint64_t row) {
  return place(job) + " row " + std::to_string(row);
}

Status prefixed(Status status, const std::string &where) {
  if (status.ok())
    return status;
  Error error = status.takeError();
  error.message = where + ": " + error.message;
  return error;
}

Status checkFinite(const TensorJob &job, uint64_t row, std::span<const float> values) {
  // The largest magnitude word tells whether to look for a column; an integer maximum vectorises.
  uint32_t largest = 0;
  for (float v : values)
    largest = std::max(largest, bitsFromFloat(v) & 0x7fffffffu);
  if (largest < 0x7f800000u)
    return Status();
  for (size_t column = 0; column < values.size(); ++column)
    if (!std::isfinite(values[column]))
      return makeError(ErrorKind::BadFile, "NB0317",
                       place(job, row) + " column " + std::to_string(column) +
                           ": source value is " +
                           (std::isnan(values[column]) ? "NaN" : "infinite"));
  return Status();
}

Error cannotMove(const TensorJob &job, uint64_t row, const MoveFault &fault) {
  std::string where = place(job, row) + " block " + std::to_string(fault.block) + ": " + fault.rule;
  if (fault.notFinite)
    return makeError(ErrorKind::BadFile, "NB0317", where);
  return makeError(ErrorKind::Unsupported, "NB0316",
                   where + ", so it has no exact W8G32_F16S form");
}

/// Takes a ValueMap back, in binary64 and rounded once.
Status unmap(const TensorJob &job, uint64_t row, std::span<float> values) {
  if (job.map == ValueMap::Plain)
    return Status();
  for (size_t column = 0; column < values.size(); ++column) {
    const double v = static_cast<double>(values[column]);
    if (job.map == ValueMap::NegatedExp && !(v < 0))
      return makeError(ErrorKind::BadFile, "NB0317",
                       place(job, row) + " column " + std::to_string(column) + ": source value " +
                           std::to_string(v) + " is not below zero, so it is not -exp of anything");
    values[column] = static_cast<float>(job.map == ValueMap::OnePlus ? v - 1 : std::log(-v));
  }
  return Status();
}

/// A row in the column order of the job. Columns lie `together` to a block of `bytes`, of which runs hold whole ones.
void orderColumns(const TensorJob &job, uint64_t columns, uint64_t together, uint64_t bytes,
                  const std::byte *from, std::byte *to) {
  for (uint64_t done = 0; done < columns;) {
    const uint64_t piece = std::min(job.columns.together(done), columns - done);
    std::memcpy(to + done / together * bytes, from + job.columns.sourceRow(done) / together * bytes,
                piece / together * bytes);
    done += piece;
  }
}

/// Rows [first, first + count) of the selection, read piece by piece as they lie in the file.
Status readRows(const TensorJob &job, uint64_t first, uint64_t count,
                std::vector<std::byte> &out) {
  const uint64_t rowBytes = job.tensor->rowBytes();
  out.resize(count * rowBytes);
  for (uint64_t done = 0; done < count;) {
    const uint64_t row = first + done;
    const uint64_t piece = std::min(job.rows.together(row), count - done);
    NINFER_RETURN_IF_ERROR(
        job.file->read(job.tensor->offset + job.rows.sourceRow(row) * rowBytes,
                       std::span(out).subspan(done * rowBytes, piece * rowBytes)));
    done += piece;
  }
  return Status();
}

/// Rows a worker takes at a time: whole heads when rows change places inside one.
uint64_t rowsPerBlock(const TensorJob &job) {
  if (job.transposed)
    return std::max<uint64_t>(1, job.sourceRows());
  if (job.tensor->packed && job.tensor->packed->preferredRows() != 0)
    return job.tensor->packed->preferredRows();
  uint64_t rows =
      std::max<uint64_t>(1, kBlockBytes / std::max<uint64_t>(1, job.tensor->rowBytes()));
  if (job.rowOrder == RowOrder::Paired)
    rows = std::max<uint64_t>(1, rows / job.headDim) * job.headDim;
  return rows;
}

/// One worker's buffers and the encoding of one block of rows.
class BlockEncoder {
public:
  BlockEncoder(const TensorJob &job, const EncodedGeometry &geometry, std::span<std::byte> out)
      : job_(job), geometry_(geometry), out_(out), k_(geometry.k) {}

  Status run(uint64_t first, uint64_t count) {
    if (job_.tensor->packed) {
      NINFER_RETURN_IF_ERROR(job_.tensor->packed->readRows(first, count, packed_));
      if (job_.method == Method::CopyPacked)
        return prefixed(storePacked(first), place(job_));
    } else {
      NINFER_RETURN_IF_ERROR(readRows(job_, first, count, source_));
    }
    if (job_.transposed)
      return transpose(count);
    values_.resize(k_);
    prepare(count);
    for (uint64_t r = 0; r < count; ++r) {
      uint64_t row = first + r;
      uint64_t to = destinationRow(row, job_.rowOrder, std::max<uint64_t>(1, job_.headDim)) - first;
      NINFER_RETURN_IF_ERROR(encodeRow(job_.rows.sourceRow(row), rowSource(r), to));
    }
    return prefixed(store(first), place(job_));
  }

private:
  /// All source rows at once; column c of row r becomes column r of row c, as BF16.
  Status transpose(uint64_t count) {
    const uint64_t columns = job_.tensor->columns();
    values_.resize(columns);
    words_.resize(count * columns * 2);
    std::vector<std::byte> row(columns * 2);
    for (uint64_t r = 0; r < count; ++r) {
      decodeSourceRow(job_.tensor->type, rowSource(r), values_);
      NINFER_RETURN_IF_ERROR(checkFinite(job_, r, values_));
      NINFER_RETURN_IF_ERROR(roundRow(r, row.data()));
      for (uint64_t c = 0; c < columns; ++c)
        std::memcpy(words_.data() + (c * count + r) * 2, row.data() + c * 2, 2);
    }
    return prefixed(store(0), place(job_));
  }

  std::span<const std::byte> rowSource(uint64_t r) const {
    if (job_.tensor->packed)
      return {};
    uint64_t bytes = job_.tensor->rowBytes();
    return std::span(source_).subspan(r * bytes, bytes);
  }

  void prepare(uint64_t count) {
    uint64_t groups = geometry_.logicalGroupsPerRow();
    switch (job_.method) {
    case Method::MoveIntoW8:
    case Method::EncodeGrouped:
      codes_.resize(count * k_);
      scales_.resize(count * groups);
      break;
    case Method::EncodeFp8Row:
      floatCodes_.resize(count * k_);
      scales_.resize(count);
      break;
    default:
      words_.resize(count * k_ * formatInfo(job_.format).bits / 8);
      break;
    }
  }

  /// Words of source row `row` go to local row `to` of this block.
  Status encodeRow(uint64_t row, std::span<const std::byte> source, uint64_t to) {
    uint64_t groups = geometry_.logicalGroupsPerRow();
    if (job_.method == Method::MoveIntoW8) {
      MoveKind ignored = MoveKind::SameWords;
      if (!job_.columns.whole()) {
        const SourceTypeInfo &type = sourceTypeInfo(job_.tensor->type);
        orderedSource_.resize(source.size());
        orderColumns(job_, k_, type.blockElements, type.blockBytes, source.data(),
                     orderedSource_.data());
        source = orderedSource_;
      }
      std::optional<MoveFault> fault =
          moveRowIntoW8(job_.tensor->type, source, std::span(codes_).subspan(to * k_, k_),
                        std::span(scales_).subspan(to * groups, groups), ignored);
      return fault ? Status(cannotMove(job_, row, *fault)) : Status();
    }
    if (job_.tensor->packed)
      job_.tensor->packed->decodeRow(packed_, to, values_); // rows of such tensors keep their order
    else
      decodeSourceRow(job_.tensor->type, source, values_);
    NINFER_RETURN_IF_ERROR(checkFinite(job_, row, values_));
    NINFER_RETURN_IF_ERROR(unmap(job_, row, values_));
    if (!job_.columns.whole()) {
      ordered_.resize(k_);
      orderColumns(job_, k_, 1, sizeof(float), std::as_bytes(std::span(values_)).data(),
                   std::as_writable_bytes(std::span(ordered_)).data());
      values_.swap(ordered_);
    }
    switch (job_.method) {
    case Method::EncodeGrouped:
      return prefixed(encodeRowFast(job_.format, values_, std::span(codes_).subspan(to * k_, k_),
                                    std::span(scales_).subspan(to * groups, groups)),
                      place(job_, row));
    case Method::EncodeFp8Row:
      return prefixed(
          encodeFp8Row(values_, std::span(floatCodes_).subspan(to * k_, k_), scales_[to]),
          place(job_, row));
    case Method::CopyWords:
      if (job_.columns.whole())
        std::memcpy(words_.data() + to * source.size(), source.data(), source.size());
      else
        orderColumns(job_, k_, 1, source.size() / k_, source.data(),
                     words_.data() + to * source.size());
      return Status();
    case Method::RoundToBf16:
      return roundRow(row, words_.data() + to * k_ * 2);
    default: // WidenToFp32, DecodeToFp32
      for (uint64_t i = 0; i < k_; ++i)
        storeLe32(words_.data() + (to * k_ + i) * 4, bitsFromFloat(values_[i]));
      return Status();
    }
  }

  Status roundRow(uint64_t row, std::byte *out) {
    for (uint64_t i = 0; i < values_.size(); ++i) {
      uint16_t word = roundToBf16(values_[i]);
      if ((word & 0x7f80) == 0x7f80)
        return makeError(ErrorKind::BadFile, "NB0317",
                         place(job_, row) + " column " + std::to_string(i) +
                             ": source value rounds to infinity in BF16");
      storeLe16(out + 2 * i, word);
    }
    return Status();
  }

  Status store(uint64_t first) {
    switch (job_.method) {
    case Method::MoveIntoW8:
    case Method::EncodeGrouped:
      return encodeRows(geometry_, job_.firstRow + first, GroupedRows{codes_, scales_}, out_);
    case Method::EncodeFp8Row:
      return encodeRows(geometry_, job_.firstRow + first, RowScaledRows{floatCodes_, scales_}, out_);
    default:
      return encodeRows(geometry_, job_.firstRow + first, DirectRows{words_}, out_);
    }
  }

  Status storePacked(uint64_t first) {
    switch (formatInfo(job_.format).category) {
    case FormatCategory::RowScaledFloat:
      return encodeRows(geometry_, job_.firstRow + first, RowScaledRows{packed_.words, packed_.scales}, out_);
    case FormatCategory::BlockScaledFloat:
      return encodeRows(geometry_, job_.firstRow + first,
                        BlockScaledRows{packed_.words, packed_.blockScales, packed_.divisor}, out_);
    default:
      return encodeRows(geometry_, job_.firstRow + first, GroupedRows{packed_.codes, packed_.scales}, out_);
    }
  }

  const TensorJob &job_;
  const EncodedGeometry &geometry_;
  std::span<std::byte> out_;
  uint64_t k_;
  std::vector<std::byte> source_, orderedSource_, words_;
  std::vector<float> values_, ordered_;
  std::vector<int8_t> codes_;
  std::vector<uint8_t> floatCodes_;
  std::vector<uint16_t> scales_;
  PackedRows packed_;
};

/// Reads rows and looks at them without storing anything.
class BlockScanner {
public:
  BlockScanner(const TensorJob &job, std::atomic<bool> &differs) : job_(job), differs_(differs) {}

  Status run(uint64_t first, uint64_t count) {
    uint64_t rowBytes = job_.tensor->rowBytes(), columns = job_.tensor->columns();
    NINFER_RETURN_IF_ERROR(readRows(job_, first, count, source_));
    for (uint64_t r = 0; r < count; ++r) {
      std::span<const std::byte> row = std::span(source_).subspan(r * rowBytes, rowBytes);
      const uint64_t place = job_.rows.sourceRow(first + r);
      NINFER_RETURN_IF_ERROR(job_.method == Method::MoveIntoW8 ? scanMove(place, row, columns)
                                                               : scanRounding(place, row, columns));
    }
    return Status();
  }

private:
  Status scanMove(uint64_t row, std::span<const std::byte> source, uint64_t columns) {
    codes_.resize(columns);
    scales_.resize(columns / sourceTypeInfo(job_.tensor->type).blockElements);
    MoveKind kind = MoveKind::SameWords;
    if (std::optional<MoveFault> fault =
            moveRowIntoW8(job_.tensor->type, source, codes_, scales_, kind))
      return cannotMove(job_, row, *fault);
    if (kind != MoveKind::SameWords)
      differs_ = true;
    return Status();
  }

  Status scanRounding(uint64_t row, std::span<const std::byte> source, uint64_t columns) {
    values_.resize(columns);
    decodeSourceRow(job_.tensor->type, source, values_);
    NINFER_RETURN_IF_ERROR(checkFinite(job_, row, values_));
    NINFER_RETURN_IF_ERROR(unmap(job_, row, values_));
    for (float v : values_)
      if (bitsFromFloat(v) & 0xffff)
        differs_ = true;
    return Status();
  }

  const TensorJob &job_;
  std::atomic<bool> &differs_;
  std::vector<std::byte> source_;
  std::vector<float> values_;
  std::vector<int8_t> codes_;
  std::vector<uint16_t> scales_;
};

/// `makeWorker()` gives one worker per thread with run(first, count).
template <typename MakeWorker>
Status forAllRows(const TensorJob &job, const RowWork &work, MakeWorker makeWorker) {
  return parallelRows(job.sourceRows(), rowsPerBlock(job), work.threads, work.cancelled, [&] {
    return [worker = makeWorker(), &job, &work](uint64_t first, uint64_t count) mutable -> Status {
      NINFER_RETURN_IF_ERROR(worker.run(first, count));
      if (work.onBytes)
        work.onBytes(count * job.tensor->rowBytes());
      return Status();
    };
  });
}

Status needsRequantize(const TensorJob &job, Format format) {
  const bool rounds = format == Format::BF16 || format == Format::FP32;
  Status status(makeError(ErrorKind::Unsupported, "NB0316",
                          place(job) + ": refused (" + job.tensor->typeName + ": storing it as " +
                              std::string(canonicalName(format)) +
                              (rounds ? " would round it)" : " would quantise it a second time)")));
  status.help("add --requantize to convert such tensors; the provenance then says \"converted\"");
  if (!rounds && movesExactlyIntoW8(job.tensor->type))
    status.help("or choose w8 for them: " + std::string(job.tensor->typeName) +
                " moves exactly into it");
  return status;
}

/// True when every run of columns is whole blocks of 32, so that codes and scales can change places.
bool blocksStayWhole(const TensorJob &job) {
  return job.columns.whole() || (job.columns.run % 32 == 0 && job.columns.plain % 32 == 0);
}

/// How real numbers become words of a format, rounding where they must.
Method encodingMethod(Format format) {
  switch (format) {
  case Format::BF16:
    return Method::RoundToBf16;
  case Format::FP32:
    return Method::DecodeToFp32;
  case Format::FP8_E4M3FN_ROW_BF16S:
    return Method::EncodeFp8Row;
  default:
    return Method::EncodeGrouped;
  }
}

/// A packed weight keeps its format, or is decoded and encoded like a matrix of values.
Result<TensorJob> planPacked(TensorJob job, Format format, bool requantize) {
  const PackedWeight &weight = *job.tensor->packed;
  job.scanFirst = true;
  if (!requantize || format == weight.format()) {
    job.format = weight.format();
    job.method = Method::CopyPacked;
    job.provenance = weight.provenance();
    auto geometry = encodedGeometry(job.format, layoutOf(job.format), job.shape);
    if (geometry.ok())
      return job;
    Status status(makeError(ErrorKind::Unsupported, "NB0316",
                            place(job) + ": refused (" + geometry.error().message + ")"));
    status.help("--requantize decodes and encodes such tensors by the recipe");
    return status;
  }
  job.provenance = Provenance::Converted;
  job.method = encodingMethod(format);
  // scale * code is one binary32 word; the other two rules round once.
  if (format == Format::FP32 &&
      formatInfo(weight.format()).category == FormatCategory::GroupedInteger) {
    job.method = Method::WidenToFp32;
    job.provenance = Provenance::WidenedExactly;
  }
  return job;
}

} // namespace

std::string_view provenanceText(Provenance provenance) {
  constexpr std::string_view texts[] = {"preserved", "widened exactly", "narrowed exactly",
                                        "converted"};
  return texts[static_cast<size_t>(provenance)];
}

uint64_t TensorJob::sourceRows() const {
  if (rows.whole() || transposed)
    return tensor->rows();
  uint64_t n = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    n *= shape[i];
  return n;
}

uint64_t TensorJob::sourceBytes() const {
  return rows.whole() || transposed ? tensor->bytes : sourceRows() * tensor->rowBytes();
}

std::string TensorJob::profile() const {
  if (provenance != Provenance::Converted)
    return "";
  switch (method) {
  case Method::RoundToBf16:
    return "BF16_RNE";
  case Method::DecodeToFp32:
    return "FP32_RNE";
  case Method::EncodeFp8Row:
    return kFp8RowEncoderProfile;
  case Method::CopyPacked:
    return "DIVISOR_RECIPROCAL_RNE"; // codes and block scales copied, the divisor derived
  default:
    return kGroupedEncoderProfile;
  }
}

Result<TensorJob> planTensor(const Checkpoint &checkpoint, const ParameterSource &source,
                             Format format, bool requantize) {
  TensorJob job;
  job.object = source.parameter;
  job.tensor = &checkpoint.tensors.tensors[source.tensor];
  job.file = &checkpoint.tensors.files[job.tensor->file];
  job.shape = source.shape;
  job.format = format;
  job.rows = source.rows;
  job.rowOrder = source.rowOrder;
  job.headDim = source.headDim;
  job.transposed = source.transposed;
  job.columns = source.columns;
  job.map = source.map;
  SourceType type = job.tensor->type;
  bool block = isBlockType(type);

  if (job.tensor->packed)
    return planPacked(std::move(job), format, requantize);
  auto exact = [&](Method method, Provenance provenance) {
    job.method = method;
    job.provenance = provenance;
    return job;
  };
  if (job.map == ValueMap::Plain) {
    if (format == Format::BF16 && type == SourceType::BF16)
      return exact(Method::CopyWords, Provenance::Preserved);
    if (format == Format::FP32 && type == SourceType::F32)
      return exact(Method::CopyWords, Provenance::Preserved);
    if (format == Format::FP32 && isExactInFp32(type))
      return exact(Method::WidenToFp32, Provenance::WidenedExactly);
    if (format == Format::W8G32_F16S && movesExactlyIntoW8(type) && blocksStayWhole(job)) {
      job.scanFirst = true;
      job.mayReencode = requantize;
      return exact(Method::MoveIntoW8, Provenance::WidenedExactly);
    }
  }
  if (block && !requantize)
    return needsRequantize(job, format);
  job.provenance = Provenance::Converted;
  job.method = encodingMethod(format);
  // Norms are small and often hold bfloat16 values in wider words: worth a look. A matrix is not read
  // twice for it.
  job.scanFirst = format == Format::BF16 && source.direct && !block;
  return job;
}

Status scanTensor(TensorJob &job, const RowWork &work) {
  if (job.tensor->packed) {
    if (work.cancelled && work.cancelled())
      return makeError(ErrorKind::Interrupted, "NB0321", "interrupted");
    NINFER_RETURN_IF_ERROR(job.tensor->packed->check());
    if (job.method == Method::CopyPacked)
      job.provenance = job.tensor->packed->provenance();
    if (work.onBytes)
      work.onBytes(job.tensor->bytes);
    return Status();
  }
  std::atomic<bool> differs = false;
  Status status = forAllRows(job, work, [&] { return BlockScanner(job, differs); });
  if (!status.ok() && job.method == Method::MoveIntoW8 && status.error().code == "NB0316") {
    if (!job.mayReencode)
      return std::move(status.help("--requantize decodes and encodes the tensor anew"));
    job.method = Method::EncodeGrouped;
    job.provenance = Provenance::Converted;
    return Status();
  }
  NINFER_RETURN_IF_ERROR(std::move(status));
  if (job.method == Method::MoveIntoW8)
    job.provenance = differs ? Provenance::WidenedExactly : Provenance::Preserved;
  else
    job.provenance = differs ? Provenance::Converted : Provenance::NarrowedExactly;
  return Status();
}

Status encodeTensor(const TensorJob &job, const EncodedGeometry &geometry, const RowWork &work,
                    std::span<std::byte> out) {
  return forAllRows(job, work, [&] { return BlockEncoder(job, geometry, out); });
}

} // namespace ninfer
