// The stored words of chosen rows and columns of an object, as a table, CSV or JSON; the bytes of a
// resource.
#ifndef NINFER_INSPECT_DUMP_H
#define NINFER_INSPECT_DUMP_H

#include "artifact/container/Reader.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ninfer {

struct DumpRequest {
  struct Span {
    uint64_t begin = 0, end = 0;
  };
  std::optional<Span> rows;    ///< default: row 0
  std::optional<Span> columns; ///< default: all
  bool codes = true;           ///< codes and scales
  bool values = true;          ///< represented values
  bool hex = false;            ///< codes, scales and values as words in hexadecimal
  enum class Output { Table, Csv, Json } output = Output::Table;
};

/// Writes the dump piece by piece to `sink`; memory does not grow with the object. A resource is
/// written byte for byte (the request must then name neither rows nor columns). NB0121: a range
/// outside the object; what `sink` returns.
Status dumpObject(const Artifact &artifact, size_t index, const DumpRequest &request,
                  const std::function<Status(std::string_view)> &sink);

/// "3", "3:7" (3 to 6), "3:", ":7". NB0121.
Result<DumpRequest::Span> parseSpan(const std::string &text, const std::string &what);

} // namespace ninfer

#endif // NINFER_INSPECT_DUMP_H
