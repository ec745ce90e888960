// The stored words of one tensor object by logical coordinate, whatever its format: what show,
// dump and diff read. Memory is bounded by the caller's chunk, not by the object.
#ifndef NINFER_INSPECT_OBJECTWORDS_H
#define NINFER_INSPECT_OBJECTWORDS_H

#include "artifact/container/Reader.h"
#include "artifact/layouts/Layout.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ninfer {

/// Words of elements [begin, end) of one row.
struct WordChunk {
  std::vector<uint32_t>
      codes; ///< direct words, or codes of the format's width without sign extension
  std::vector<float> values; ///< represented values (I32: nearest binary32)
};

class ObjectWords {
public:
  /// What Artifact::object() and geometry() say; NB0121 for a resource.
  static Result<ObjectWords> open(const Artifact &artifact, size_t index);

  const EncodedGeometry &geometry() const { return geometry_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  FormatCategory category() const { return formatInfo(geometry_.format).category; }
  bool direct() const { return category() == FormatCategory::Direct; }

  /// Columns that share one scale word: the group size, k for one scale per row, 0 for direct
  /// formats.
  uint64_t scaleSpan() const;
  /// Logical groups per row; 0 for direct formats.
  uint64_t scalesPerRow() const;

  /// begin < end <= k, n < rows.
  void read(uint64_t n, uint64_t begin, uint64_t end, WordChunk &out) const;
  /// Codes only.
  void readCodes(uint64_t n, uint64_t begin, uint64_t end, std::vector<uint32_t> &codes) const;
  uint32_t scaleWord(uint64_t n, uint64_t group) const;
  float scaleValue(uint32_t word) const;
  /// Divisor word of NVFP4, else nothing.
  std::optional<uint32_t> divisor() const;

  /// Code as people read it: "-7", "0x3e" for E4M3FN, "1.5" for E2M1; direct words in hexadecimal.
  std::string codeText(uint32_t code) const;
  /// Hexadecimal digits of a code and of a scale word.
  int codeDigits() const;
  int scaleDigits() const;

private:
  EncodedGeometry geometry_;
  std::span<const std::byte> bytes_;
};

} // namespace ninfer

#endif // NINFER_INSPECT_OBJECTWORDS_H
