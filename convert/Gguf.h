// Reader of GGUF version 3, little-endian: metadata and tensor directory, no tensor data. Every
// count, length and offset is bounded before anything is allocated. Source: the GGUF specification;
// limits: docs/convert.md.
#ifndef NINFER_CONVERT_GGUF_H
#define NINFER_CONVERT_GGUF_H

#include "convert/SourceTensor.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ninfer {

/// One metadata value. Arrays of arrays are checked and skipped: `kind` is Array with nothing kept.
struct GgufValue {
  enum class Kind { Unsigned, Signed, Float, Bool, String, Array };
  Kind kind = Kind::Unsigned;
  Kind elementKind = Kind::Unsigned; ///< arrays
  uint64_t unsignedValue = 0;        ///< Unsigned, Bool
  int64_t signedValue = 0;           ///< Signed
  double floatValue = 0;             ///< Float; binary32 values widened exactly
  std::string text;                  ///< String; raw bytes, not checked for UTF-8
  std::vector<std::string> strings;  ///< arrays of strings
  std::vector<double> numbers;       ///< arrays of anything else (integers beyond 2^53 are refused)
};

struct GgufFile {
  std::map<std::string, GgufValue> metadata;
  std::vector<SourceTensor>
      tensors; ///< offsets from the start of the file; SourceTensor::file is 0

  const GgufValue *find(const std::string &key) const;
  /// Typed access; empty result when the key is absent, BadFile (NB0313) when its type or range is
  /// wrong.
  Result<std::optional<uint64_t>> unsignedAt(const std::string &key) const;
  Result<std::optional<double>> numberAt(const std::string &key) const;
  Result<std::optional<bool>> boolAt(const std::string &key) const;
  Result<std::optional<std::string>> textAt(const std::string &key) const; ///< valid UTF-8
  std::string fileName;                                                    ///< for messages
};

/// Longest metadata and tensor directory accepted, in bytes, and the most array elements, metadata entries and
/// tensors in it. Together with the size of the file they bound the memory of the reader.
inline constexpr uint64_t kMaxGgufHeader = 128u << 20;
inline constexpr uint64_t kMaxGgufElements = 1u << 24;
inline constexpr uint64_t kMaxGgufEntries = 1u << 16;
inline constexpr uint64_t kMaxGgufTensors = 1u << 20;

/// Errors: BadFile (NB0313) for a broken file, Unsupported (NB0315) for another version, byte
/// order, or a tensor type outside the supported list.
Result<GgufFile> readGguf(const SourceFile &file);

} // namespace ninfer

#endif // NINFER_CONVERT_GGUF_H
