#include "inspect/Dump.h"

#include "inspect/Names.h"
#include "inspect/ObjectWords.h"
#include "support/Bytes.h"

#include <algorithm>
#include <charconv>

namespace ninfer {

namespace {

constexpr uint64_t kChunk = 4096; // columns read at once
constexpr uint64_t kOpenEnd = UINT64_MAX;

class Dumper {
public:
  Dumper(const ObjectWords &words, const DumpRequest &request,
         const std::function<Status(std::string_view)> &sink)
      : words_(words), request_(request), sink_(sink) {}

  Status run(const std::string &id, DumpRequest::Span rows, DumpRequest::Span columns) {
    const bool json = request_.output == DumpRequest::Output::Json;
    if (json)
      NINFER_RETURN_IF_ERROR(sink_(header(id)));
    else if (request_.output == DumpRequest::Output::Csv)
      NINFER_RETURN_IF_ERROR(sink_(csvHeader()));
    for (uint64_t n = rows.begin; n < rows.end; ++n) {
      if (json)
        NINFER_RETURN_IF_ERROR(jsonRow(n, columns, n + 1 == rows.end));
      else if (request_.output == DumpRequest::Output::Csv)
        NINFER_RETURN_IF_ERROR(csvRow(n, columns));
      else
        NINFER_RETURN_IF_ERROR(tableRow(n, columns));
    }
    return json ? sink_("]}\n") : Status();
  }

private:
  bool scaled() const { return !words_.direct(); }
  std::string code(uint32_t word) const {
    return request_.hex ? hexText(word, words_.codeDigits()) : words_.codeText(word);
  }
  std::string scale(uint32_t word) const {
    return request_.hex ? hexText(word, words_.scaleDigits()) : floatText(words_.scaleValue(word));
  }
  /// I32 has more integers than binary32: its value is the word's own.
  std::string value(uint32_t code, float value) const {
    if (words_.geometry().format == Format::I32)
      return request_.hex ? hexText(code, 8) : std::to_string(int32_t(code));
    return request_.hex ? hexText(bitsFromFloat(value), 8) : floatText(value);
  }
  /// A JSON number where it is one, else a string.
  static std::string jsonCell(const std::string &text) {
    const bool word = text.rfind("0x", 0) == 0 || text.find('n') != std::string::npos;
    return word ? "\"" + text + "\"" : text;
  }

  std::string header(const std::string &id) const {
    const EncodedGeometry &g = words_.geometry();
    std::string out = "{\"object\":" + Json(id).dump() + ",\"format\":\"" +
                      std::string(canonicalName(g.format)) + "\",\"columns\":[";
    out += std::to_string(columns_().begin) + "," + std::to_string(columns_().end) + "]";
    if (const auto divisor = words_.divisor(); divisor && request_.codes)
      out += ",\"divisor\":" +
             jsonCell(request_.hex ? hexText(*divisor, 8) : floatText(floatFromBits(*divisor)));
    return out + ",\"rows\":[";
  }
  DumpRequest::Span columns_() const {
    DumpRequest::Span span = request_.columns.value_or(DumpRequest::Span{0, kOpenEnd});
    span.end = std::min(span.end, words_.geometry().k);
    return span;
  }

  std::string csvHeader() const {
    std::string out = "row,column";
    if (request_.codes)
      out += scaled() ? ",code,scale" : ",word";
    if (request_.values)
      out += ",value";
    return out + "\n";
  }

  /// Calls piece(begin, end) for chunks of the columns, with chunk_ read.
  template <typename Piece>
  Status chunks(uint64_t n, DumpRequest::Span columns, const Piece &piece) {
    for (uint64_t begin = columns.begin; begin < columns.end; begin += kChunk) {
      const uint64_t end = std::min(begin + kChunk, columns.end);
      words_.read(n, begin, end, chunk_);
      NINFER_RETURN_IF_ERROR(piece(begin, end));
    }
    return {};
  }

  Status csvRow(uint64_t n, DumpRequest::Span columns) {
    return chunks(n, columns, [&](uint64_t begin, uint64_t end) {
      std::string out;
      for (uint64_t k = begin; k < end; ++k) {
        out += std::to_string(n) + "," + std::to_string(k);
        if (request_.codes) {
          out += "," + code(chunk_.codes[k - begin]);
          if (scaled())
            out += "," + scale(words_.scaleWord(n, k / words_.scaleSpan()));
        }
        if (request_.values)
          out += "," + value(chunk_.codes[k - begin], chunk_.values[k - begin]);
        out += "\n";
      }
      return sink_(out);
    });
  }

  Status jsonList(uint64_t n, DumpRequest::Span columns, bool codes) {
    NINFER_RETURN_IF_ERROR(sink_(codes ? ",\"codes\":[" : ",\"values\":["));
    NINFER_RETURN_IF_ERROR(chunks(n, columns, [&](uint64_t begin, uint64_t end) {
      std::string out;
      for (uint64_t k = begin; k < end; ++k) {
        const uint64_t i = k - begin;
        out += (k == columns.begin ? "" : ",") +
               jsonCell(codes ? code(chunk_.codes[i]) : value(chunk_.codes[i], chunk_.values[i]));
      }
      return sink_(out);
    }));
    return sink_("]");
  }

  Status jsonRow(uint64_t n, DumpRequest::Span columns, bool last) {
    NINFER_RETURN_IF_ERROR(sink_("{\"row\":" + std::to_string(n)));
    if (request_.codes && scaled()) {
      const uint64_t first = columns.begin / words_.scaleSpan(),
                     end = (columns.end - 1) / words_.scaleSpan() + 1;
      std::string out = ",\"first_group\":" + std::to_string(first) + ",\"scales\":[";
      for (uint64_t group = first; group < end; ++group)
        out += (group == first ? "" : ",") + jsonCell(scale(words_.scaleWord(n, group)));
      NINFER_RETURN_IF_ERROR(sink_(out + "]"));
    }
    if (request_.codes)
      NINFER_RETURN_IF_ERROR(jsonList(n, columns, true));
    if (request_.values)
      NINFER_RETURN_IF_ERROR(jsonList(n, columns, false));
    return sink_(last ? "}" : "},\n");
  }

  /// Lines of at most 16 columns that never cross a group.
  Status tableRow(uint64_t n, DumpRequest::Span columns) {
    NINFER_RETURN_IF_ERROR(sink_("row " + std::to_string(n) + "\n"));
    return chunks(n, columns, [&](uint64_t begin, uint64_t end) {
      std::string out;
      for (uint64_t first = begin; first < end;) {
        uint64_t last = std::min({end, first + 16, (first / 16 + 1) * 16});
        if (scaled()) {
          const uint64_t span = words_.scaleSpan(), group = first / span;
          last = std::min(last, (group + 1) * span);
          if (request_.codes && (first == columns.begin || first % span == 0)) {
            const uint32_t word = words_.scaleWord(n, group);
            out += "  group " + std::to_string(group) + ": scale " + scale(word) + "\n";
          }
        }
        std::string label = std::to_string(first);
        label.insert(0, label.size() < 8 ? 8 - label.size() : 0, ' ');
        if (request_.codes)
          out +=
              cells(label + (scaled() ? "  code " : "  word "), first - begin, last - begin, true);
        if (request_.values)
          out += cells((request_.codes ? std::string(label.size(), ' ') : label) + "  value",
                       first - begin, last - begin, false);
        first = last;
      }
      return sink_(out);
    });
  }

  std::string cells(std::string line, uint64_t begin, uint64_t end, bool codes) const {
    for (uint64_t i = begin; i < end; ++i) {
      std::string text = codes ? code(chunk_.codes[i]) : value(chunk_.codes[i], chunk_.values[i]);
      const size_t width = codes && !request_.values && !request_.hex && scaled() ? 4 : 13;
      text.insert(0, text.size() < width ? width - text.size() : 0, ' ');
      line += " " + text;
    }
    return line + "\n";
  }

  const ObjectWords &words_;
  const DumpRequest &request_;
  const std::function<Status(std::string_view)> &sink_;
  WordChunk chunk_;
};

Result<DumpRequest::Span> resolve(const std::optional<DumpRequest::Span> &wanted,
                                  DumpRequest::Span fallback, uint64_t size,
                                  const std::string &what) {
  DumpRequest::Span span = wanted.value_or(fallback);
  if (span.end == kOpenEnd)
    span.end = size;
  if (span.begin >= span.end || span.end > size)
    return makeError(ErrorKind::Usage, "NB0121",
                     what + " " + std::to_string(span.begin) + ":" + std::to_string(span.end) +
                         " lie outside 0:" + std::to_string(size));
  return span;
}

} // namespace

Result<DumpRequest::Span> parseSpan(const std::string &text, const std::string &what) {
  const auto number = [](std::string_view digits, uint64_t &out) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc() && end == digits.data() + digits.size() && out < kOpenEnd;
  };
  const size_t colon = text.find(':');
  DumpRequest::Span span{0, kOpenEnd};
  const std::string_view all = text;
  bool ok = !text.empty();
  if (colon == std::string::npos) {
    ok = ok && number(all, span.begin);
    span.end = span.begin + 1;
  } else {
    ok = (colon == 0 || number(all.substr(0, colon), span.begin)) &&
         (colon + 1 == text.size() || number(all.substr(colon + 1), span.end));
  }
  if (!ok || span.begin >= span.end)
    return makeError(ErrorKind::Usage, "NB0121",
                     what + " '" + text + "': expected A:B with A < B, A:, :B or A");
  return span;
}

Status dumpObject(const Artifact &artifact, size_t index, const DumpRequest &request,
                  const std::function<Status(std::string_view)> &sink) {
  const ObjectEntry &object = artifact.directory().objects.at(index);
  const std::string where = artifact.path().string() + ": object '" + object.id + "': ";
  if (!object.isTensor) {
    if (request.rows || request.columns)
      return makeError(ErrorKind::Usage, "NB0121",
                       where + "a resource has no rows; without --rows and --columns its bytes are "
                               "written as they are");
    NINFER_ASSIGN_OR_RETURN(const auto bytes, artifact.object(index));
    return sink(asText(bytes));
  }
  NINFER_ASSIGN_OR_RETURN(const ObjectWords words, ObjectWords::open(artifact, index));
  const EncodedGeometry &geometry = words.geometry();
  NINFER_ASSIGN_OR_RETURN(const DumpRequest::Span rows,
                          resolve(request.rows, {0, 1}, geometry.rows, where + "rows"));
  NINFER_ASSIGN_OR_RETURN(const DumpRequest::Span columns,
                          resolve(request.columns, {0, kOpenEnd}, geometry.k, where + "columns"));
  return Dumper(words, request, sink).run(object.id, rows, columns);
}

} // namespace ninfer
