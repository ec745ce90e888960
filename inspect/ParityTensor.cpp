// Levels 0 and 2 of one parameter: stored words against the words the source prescribes, stored
// values against the source's values, and, where words are wrong, what they look like instead.
#include "convert/ParallelRows.h"
#include "convert/quantized/PackedWeight.h"
#include "inspect/ParityWork.h"
#include "inspect/ReferenceEncoder.h"
#include "inspect/ReferencePacked.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace ninfer {

namespace {

constexpr uint64_t kBlockElements = 256 << 10;
constexpr size_t kMaxListedRows = 4;

std::string hex(uint32_t word, int digits) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%0*x", digits, word);
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

uint64_t hashRow(const ReferenceRow &row) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&](uint32_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  for (int32_t code : row.codes)
    mix(uint32_t(code));
  for (uint32_t scale : row.scales)
    mix(scale);
  mix(row.divisor);
  return hash;
}

/// Source rows of one parameter in the parameter's order. One per thread.
class SourceReader {
public:
  SourceReader(const ParityTask &task, const ReferenceLayout &layout)
      : task_(task), layout_(layout) {}

  /// Makes rows [first, first + count) available.
  Status load(uint64_t first, uint64_t count) {
    first_ = first;
    if (task_.packed) {
      if (!multiplier_)
        NINFER_RETURN_IF_ERROR(findMultiplier());
      return task_.packed->readRows(first, count, packedRows_);
    }
    if (task_.feed.transposed)
      return loadTransposed(count);
    const uint64_t rowBytes = task_.rowBytes();
    bytes_.resize(count * rowBytes);
    // Rows that lie together are read together.
    for (uint64_t r = 0, next; r < count; r = next) {
      const uint64_t from = task_.sourceRow(first + r);
      for (next = r + 1; next < count && task_.sourceRow(first + next) == from + (next - r);)
        ++next;
      NINFER_RETURN_IF_ERROR(task_.file->read(task_.tensor->offset + from * rowBytes,
                                              std::span(bytes_).subspan(r * rowBytes, (next - r) * rowBytes)));
    }
    return Status();
  }

  /// Values of a loaded row.
  void values(uint64_t row, std::span<float> out) {
    if (!task_.packed) {
      referenceSourceRow(task_.tensor->type, rowBytes(row), out);
      return;
    }
    packedWords(row, scratch_);
    referenceValues(packedLayout(), scratch_, out);
    if (multiplier_ && task_.packed->provenance() == Provenance::Converted)
      for (uint64_t k = 0; k < out.size(); ++k)
        out[k] =
            float(referenceE2m1(uint32_t(scratch_.codes[k])) *
                  referenceE4m3(scratch_.scales[k / packedLayout().groupColumns]) * *multiplier_);
  }

  /// Words the row should be stored as; false when the source has no such words.
  bool prescribed(uint64_t row, std::span<const float> values, ReferenceRow &out) {
    if (task_.packedWords) {
      packedWords(row, out);
      return true;
    }
    const SourceType type = task_.packed ? SourceType::F32 : task_.tensor->type;
    const bool blocks = !task_.packed && isBlockType(type);
    if (blocks && task_.basis != ParityBasis::Profile && layout_.format == Format::W8G32_F16S) {
      out.codes.resize(layout_.columns);
      return movedRow(type, rowBytes(row), out);
    }
    return prescribedRow(layout_, values, out);
  }

private:
  /// Column c of all source rows becomes row c.
  Status loadTransposed(uint64_t count) {
    std::vector<std::byte> whole(task_.tensor->bytes);
    NINFER_RETURN_IF_ERROR(task_.file->read(task_.tensor->offset, whole));
    const uint64_t across = task_.tensor->columns(), size = task_.rowBytes() / task_.columns;
    bytes_.resize(count * task_.rowBytes());
    for (uint64_t r = 0; r < count; ++r)
      for (uint64_t k = 0; k < task_.columns; ++k)
        std::memcpy(&bytes_[r * task_.rowBytes() + k * size], &whole[(k * across + first_ + r) * size], size);
    return Status();
  }

  /// The second scale of NVFP4 checkpoints that store a factor where the format stores a divisor:
  /// what the divisor derived from it costs is error, not a fault.
  Status findMultiplier() {
    if (task_.packed->format() != Format::NVFP4)
      return Status();
    constexpr std::string_view kEnd = "weight_scale_2";
    for (const PackedComponent &component : task_.packed->components()) {
      const std::string &name = component.tensor.name;
      if (component.tensor.type != SourceType::F32 || component.tensor.bytes != 4 ||
          name.size() < kEnd.size() || name.compare(name.size() - kEnd.size(), kEnd.size(), kEnd))
        continue;
      std::byte bytes[4];
      NINFER_RETURN_IF_ERROR(component.read(0, bytes));
      float value;
      referenceSourceRow(SourceType::F32, bytes, std::span(&value, 1));
      multiplier_ = double(value);
    }
    return Status();
  }

  std::span<const std::byte> rowBytes(uint64_t row) const {
    const uint64_t size = task_.rowBytes();
    return std::span<const std::byte>(bytes_).subspan((row - first_) * size, size);
  }

  const ReferenceLayout &packedLayout() {
    if (packedLayout_.rows == 0)
      packedLayout_ = *referenceLayout(task_.packed->format(), task_.packed->shape());
    return packedLayout_;
  }

  void packedWords(uint64_t row, ReferenceRow &out) {
    const ReferenceLayout &layout = packedLayout();
    const uint64_t r = row - first_, k = layout.columns, g = layout.groups;
    out.codes.resize(k);
    out.scales.resize(g);
    out.divisor = 0;
    const bool grouped = formatInfo(layout.format).category == FormatCategory::GroupedInteger;
    for (uint64_t i = 0; i < k; ++i)
      out.codes[i] =
          grouped ? int32_t(packedRows_.codes[r * k + i]) : int32_t(packedRows_.words[r * k + i]);
    const bool block = layout.format == Format::NVFP4;
    for (uint64_t i = 0; i < g; ++i)
      out.scales[i] = block ? uint32_t(packedRows_.blockScales[r * g + i])
                            : uint32_t(packedRows_.scales[r * g + i]);
    if (block)
      out.divisor = packedRows_.divisor;
  }

  const ParityTask &task_;
  const ReferenceLayout &layout_;
  uint64_t first_ = 0;
  std::vector<std::byte> bytes_;
  PackedRows packedRows_;
  std::optional<double> multiplier_;
  ReferenceLayout packedLayout_;
  ReferenceRow scratch_;
};

/// Sums of one block of rows; added up in row order, so results do not depend on the threads.
struct BlockResult {
  double error2 = 0, source2 = 0, maxAbs = 0;
  uint64_t maxRow = 0, maxColumn = 0, differentWords = 0, values = 0;
  std::vector<uint64_t> differentRows;
  std::vector<ParityFault> faults;
  uint64_t faultCount = 0;
};

class CompareBlock {
public:
  CompareBlock(const ParityTask &task, const ParitySegment &segment)
      : task_(task), segment_(segment), source_(task, segment.layout) {
    if (task.packedWords)
      raw_.emplace(*task.packed);
  }

  /// Rows [first, first + count) of the segment.
  Result<BlockResult> run(uint64_t first, uint64_t count) {
    result_ = {};
    NINFER_RETURN_IF_ERROR(source_.load(segment_.row + first, count));
    if (raw_)
      NINFER_RETURN_IF_ERROR(raw_->load(segment_.row + first, count));
    wanted_.resize(segment_.layout.columns);
    stored_.resize(segment_.layout.columns);
    for (uint64_t r = first; r < first + count; ++r)
      compareRow(segment_.row + r, segment_.objectRow + r);
    return std::move(result_);
  }

private:
  void add(int level, const char *rule, uint64_t row, std::optional<uint64_t> column,
           std::string message) {
    ++result_.faultCount;
    if (result_.faults.size() < 8)
      result_.faults.push_back({level, rule, task_.feed.parameter, std::move(message), row, column});
  }

  void compareRow(uint64_t row, uint64_t objectRow) {
    readReferenceRow(segment_.layout, segment_.bytes, objectRow, storedWords_);
    referenceValues(segment_.layout, storedWords_, stored_);
    source_.values(row, wanted_);
    if (task_.basis != ParityBasis::ErrorOnly)
      compareWords(row);
    if (raw_ && raw_->form() != RawCodes::Form::Unknown)
      compareRaw(row);
    compareValues(row);
  }

  /// Stored codes against the raw tensor of a quantized checkpoint, past its importer.
  void compareRaw(uint64_t row) {
    raw_->row(row, rawRow_);
    const uint64_t group = std::max<uint64_t>(1, segment_.layout.groupColumns);
    int sign = 1;
    for (uint64_t k = 0; k < rawRow_.size(); ++k) {
      if (k % group == 0)
        sign = 0; // settled by the first nonzero code of the group
      const int32_t stored = storedWords_.codes[k], raw = rawRow_[k];
      if (raw_->signsMayTurn()) {
        if (storedWords_.scales[k / group] == 0)
          continue;
        if (sign == 0 && raw != 0)
          sign = stored == -raw ? -1 : 1;
        if (stored == (sign < 0 ? -raw : raw))
          continue;
      } else if (stored == raw) {
        continue;
      }
      add(0, "raw-codes", row, k,
          "code " + std::to_string(stored) + ", tensor '" +
              task_.packed->components().front().tensor.name + "' has " + std::to_string(raw));
      return;
    }
  }

  void compareWords(uint64_t row) {
    if (!source_.prescribed(row, wanted_, words_)) {
      add(2, "prescribed-words", row, {},
          "the source row has no words in " + std::string(canonicalName(segment_.layout.format)) +
              " on this basis (" + std::string(parityBasisText(task_.basis)) + ")");
      return;
    }
    if (words_ == storedWords_)
      return;
    result_.differentRows.push_back(row);
    std::optional<uint64_t> column;
    std::string message;
    if (words_.divisor != storedWords_.divisor) {
      ++result_.differentWords;
      message = "divisor " + hex(storedWords_.divisor, 8) + ", expected " + hex(words_.divisor, 8);
    }
    for (uint64_t g = 0; g < words_.scales.size(); ++g) {
      if (words_.scales[g] == storedWords_.scales[g])
        continue;
      ++result_.differentWords;
      if (message.empty()) {
        column = g * segment_.layout.groupColumns;
        message = scaleMessage(g);
      }
    }
    for (uint64_t k = 0; k < words_.codes.size(); ++k) {
      if (words_.codes[k] == storedWords_.codes[k])
        continue;
      ++result_.differentWords;
      if (message.empty()) {
        column = k;
        message = codeMessage(k);
      }
    }
    const bool kept = task_.basis == ParityBasis::Words;
    add(kept ? 0 : 2, kept ? "kept-words" : "prescribed-words", row, column, std::move(message));
  }

  std::string scaleMessage(uint64_t g) const {
    const uint32_t word = storedWords_.scales[g];
    std::string out = "group " + std::to_string(g) + ": scale " + hex(word, 4) + ", expected " +
                      hex(words_.scales[g], 4);
    for (uint64_t other : {g + 1, g - 1})
      if (other < words_.scales.size() && words_.scales[other] == word)
        return out + "; it is the scale of group " + std::to_string(other);
    return out;
  }

  std::string codeMessage(uint64_t k) const {
    const bool direct = formatInfo(segment_.layout.format).category == FormatCategory::Direct;
    const int digits = segment_.layout.format == Format::BF16 ? 4 : 8;
    const auto text = [&](int32_t code) {
      return direct ? hex(uint32_t(code), digits) : std::to_string(code);
    };
    return (direct ? "word " : "code ") + text(storedWords_.codes[k]) + ", expected " +
           text(words_.codes[k]);
  }

  void compareValues(uint64_t row) {
    std::optional<uint64_t> wrong;
    for (uint64_t k = 0; k < wanted_.size(); ++k) {
      const double x = wanted_[k], y = stored_[k], e = y - x;
      ++result_.values;
      if (!std::isfinite(e)) {
        if (!wrong && std::memcmp(&wanted_[k], &stored_[k], sizeof(float)) != 0)
          wrong = k;
        continue;
      }
      result_.source2 += x * x;
      if (e == 0)
        continue;
      if (!wrong)
        wrong = k;
      result_.error2 += e * e;
      if (std::fabs(e) > result_.maxAbs) {
        result_.maxAbs = std::fabs(e);
        result_.maxRow = row;
        result_.maxColumn = k;
      }
    }
    if (wrong && (task_.basis == ParityBasis::Words || task_.basis == ParityBasis::Values))
      add(2, "equal-values", row, wrong,
          "value " + number(stored_[*wrong]) + ", the source has " + number(wanted_[*wrong]));
  }

  const ParityTask &task_;
  const ParitySegment &segment_;
  SourceReader source_;
  std::optional<RawCodes> raw_;
  std::vector<int32_t> rawRow_;
  BlockResult result_;
  std::vector<float> wanted_, stored_;
  ReferenceRow storedWords_, words_;
};

uint64_t blockRows(const ParityTask &task, const ParitySegment &segment) {
  const uint64_t rows = std::max<uint64_t>(1, kBlockElements / segment.layout.columns);
  return task.packed ? std::min(std::max(rows, task.packed->preferredRows()), segment.rows) : rows;
}

/// What rows with wrong words hold instead: words of other rows, or the transposed matrix.
class Diagnosis {
public:
  Diagnosis(const ParityTask &task, const ParityContext &context,
            const std::vector<uint64_t> &wrongRows, uint64_t rows)
      : task_(task), context_(context), wrong_(wrongRows), rows_(rows) {}

  Status run(ParityFaults &faults) {
    std::vector<uint64_t> hashes(rows_);
    for (const ParitySegment &segment : task_.segments)
      NINFER_RETURN_IF_ERROR(hashSource(segment, hashes));
    std::unordered_map<uint64_t, uint64_t> rowOf;
    for (uint64_t row = rows_; row-- > 0;)
      rowOf[hashes[row]] = row;
    std::vector<std::pair<uint64_t, uint64_t>> moved; // row, the row whose words it holds
    for (uint64_t row : wrong_) {
      const auto found = rowOf.find(storedHash(row));
      if (found == rowOf.end() || found->second == row)
        continue;
      moved.emplace_back(row, found->second);
    }
    if (moved.empty())
      return transposed(faults);
    std::string list;
    for (size_t i = 0; i < std::min(moved.size(), kMaxListedRows); ++i)
      list += (i ? ", " : "") + std::to_string(moved[i].first) + " holds row " +
              std::to_string(moved[i].second);
    if (moved.size() > kMaxListedRows)
      list += ", ...";
    std::string message = std::to_string(moved.size()) + " of " + std::to_string(wrong_.size()) +
                          " wrong rows hold the words of other rows: " + list;
    // Left as the file has it, row r holds what belongs in the row that source row r feeds.
    const bool paired =
        task_.feed.pairedHeadDim > 0 && std::all_of(moved.begin(), moved.end(), [&](const auto &m) {
          return sourceRowOf(m.second, task_.feed.pairedHeadDim) == m.first;
        });
    if (paired)
      message += "; the rotary pairs of the heads were left interleaved as in the source";
    faults.add({2, "row-order", task_.feed.parameter, std::move(message), moved.front().first, {}});
    return Status();
  }

private:
  Status hashSource(const ParitySegment &segment, std::vector<uint64_t> &hashes) {
    return parallelRows(
        segment.rows, blockRows(task_, segment), context_.threads, context_.cancelled, [&] {
          return [&, source = SourceReader(task_, segment.layout), words = ReferenceRow(),
                  values = std::vector<float>(segment.layout.columns)](
                     uint64_t first, uint64_t count) mutable -> Status {
            NINFER_RETURN_IF_ERROR(source.load(segment.row + first, count));
            for (uint64_t row = segment.row + first; row < segment.row + first + count; ++row) {
              source.values(row, values);
              if (source.prescribed(row, values, words))
                hashes[row] = hashRow(words);
            }
            return Status();
          };
        });
  }

  const ParitySegment &segmentOf(uint64_t row) const {
    return *std::find_if(task_.segments.begin(), task_.segments.end(),
                         [&](const ParitySegment &s) { return row - s.row < s.rows; });
  }

  uint64_t storedHash(uint64_t row) {
    const ParitySegment &segment = segmentOf(row);
    readReferenceRow(segment.layout, segment.bytes, segment.objectRow + row - segment.row, words_);
    return hashRow(words_);
  }

  /// Samples a square matrix against its transpose.
  Status transposed(ParityFaults &faults) {
    const ParitySegment &segment = task_.segments[0];
    const uint64_t n = segment.layout.columns;
    constexpr uint64_t kSamples = 64;
    if (task_.segments.size() != 1 || segment.rows != n || n < 2)
      return Status();
    const uint64_t count = std::min(kSamples, n), step = n / count;
    std::vector<float> row(n);
    std::vector<std::vector<float>> source(count), stored(count);
    SourceReader reader(task_, segment.layout);
    for (uint64_t i = 0; i < count; ++i) {
      NINFER_RETURN_IF_ERROR(reader.load(i * step, 1));
      reader.values(i * step, row);
      source[i] = row;
      readReferenceRow(segment.layout, segment.bytes, segment.objectRow + i * step, words_);
      referenceValues(segment.layout, words_, row);
      stored[i] = row;
    }
    double straight = 0, crossed = 0;
    for (uint64_t i = 0; i < count; ++i)
      for (uint64_t j = 0; j < count; ++j) {
        straight += std::pow(double(stored[i][j * step]) - source[i][j * step], 2);
        crossed += std::pow(double(stored[i][j * step]) - source[j][i * step], 2);
      }
    if (crossed < straight / 4)
      faults.add(
          {2,
           "axis",
           task_.feed.parameter,
           "the stored values fit the transposed source matrix: rows and columns are swapped",
           {},
           {}});
    return Status();
  }

  const ParityTask &task_;
  const ParityContext &context_;
  const std::vector<uint64_t> &wrong_;
  uint64_t rows_;
  ReferenceRow words_;
};

} // namespace

uint64_t sourceRowOf(uint64_t row, uint64_t pairedHeadDim) {
  if (pairedHeadDim == 0)
    return row;
  const uint64_t head = row / pairedHeadDim, in = row % pairedHeadDim, half = pairedHeadDim / 2;
  return head * pairedHeadDim + (in < half ? 2 * in : 2 * (in - half) + 1);
}

uint64_t ParityTask::rowBytes() const {
  uint64_t elements = 1;
  for (const uint64_t extent : tensor->shape)
    elements *= extent;
  return tensor->bytes / (elements / columns);
}

uint64_t ParityTask::sourceRow(uint64_t row) const {
  if (feed.runs.empty())
    return sourceRowOf(row, feed.pairedHeadDim);
  for (const SourceRun &run : feed.runs) {
    if (row < run.count)
      return run.first + row;
    row -= run.count;
  }
  return 0; // rows are those of the runs
}

Status compareTensor(const ParityTask &task, const ParityContext &context, TensorParity &out,
                     ParityReport &report, ParityFaults &faults) {
  BlockResult sum;
  uint64_t rows = 0;
  for (const ParitySegment &segment : task.segments) {
    const uint64_t block = blockRows(task, segment);
    std::vector<BlockResult> results((segment.rows + block - 1) / block);
    NINFER_RETURN_IF_ERROR(
        parallelRows(segment.rows, block, context.threads, context.cancelled, [&] {
          return [&, worker = CompareBlock(task, segment)](uint64_t first,
                                                           uint64_t count) mutable -> Status {
            NINFER_ASSIGN_OR_RETURN(results[first / block], worker.run(first, count));
            if (context.onBytes)
              context.onBytes(task.rowBytes() * count);
            return Status();
          };
        }));
    for (BlockResult &result : results) {
      sum.error2 += result.error2;
      sum.source2 += result.source2;
      sum.values += result.values;
      sum.differentWords += result.differentWords;
      if (result.maxAbs > sum.maxAbs) {
        sum.maxAbs = result.maxAbs;
        sum.maxRow = result.maxRow;
        sum.maxColumn = result.maxColumn;
      }
      sum.differentRows.insert(sum.differentRows.end(), result.differentRows.begin(),
                               result.differentRows.end());
      const uint64_t more = result.faultCount - result.faults.size();
      const int level = task.basis == ParityBasis::Words ? 0 : 2;
      for (ParityFault &fault : result.faults)
        faults.add(std::move(fault));
      report.levels[size_t(level)].faults += more;
    }
    rows = std::max(rows, segment.row + segment.rows);
  }
  out.elements = sum.values;
  out.differentWords = sum.differentWords;
  out.differentRows = sum.differentRows.size();
  out.maxAbs = sum.maxAbs;
  out.maxRow = sum.maxRow;
  out.maxColumn = sum.maxColumn;
  out.relativeL2 =
      sum.source2 > 0 ? std::sqrt(sum.error2 / sum.source2) : (sum.error2 > 0 ? HUGE_VAL : 0.0);
  if (sum.error2 > 0 && sum.source2 > 0)
    out.snrDb = 10 * std::log10(sum.source2 / sum.error2);
  report.levels[2].checked += sum.values;
  // Nothing prescribes the words, but values that miss the source by this much are not its values.
  constexpr double kUnrelated = 0.5;
  if (task.basis == ParityBasis::ErrorOnly && out.relativeL2 > kUnrelated)
    faults.add({2,
                "reconstruction",
                task.feed.parameter,
                "relative L2 error " + number(out.relativeL2) + ", expected at most " +
                    number(kUnrelated) + ": the values are not those of the source tensor",
                {},
                {}});
  return sum.differentRows.empty() ? Status()
                                   : Diagnosis(task, context, sum.differentRows, rows).run(faults);
}

} // namespace ninfer
