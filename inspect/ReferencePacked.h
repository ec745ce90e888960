// The codes of a quantized checkpoint's matrix, read from the raw tensors by their storage form and
// not through the importer, so that an importer's mistake cannot hide in its own words.
#ifndef NINFER_INSPECT_REFERENCEPACKED_H
#define NINFER_INSPECT_REFERENCEPACKED_H

#include "convert/quantized/PackedWeight.h"

#include <cstdint>
#include <vector>

namespace ninfer {

/// Raw codes of consecutive rows. One per thread.
class RawCodes {
public:
  enum class Form : uint8_t {
    Unknown,    ///< not read here
    Nibbles,    ///< U8 [N, K/2]: E2M1, low nibble first
    Bytes,      ///< F8_E4M3 [N, K]
    Int8,       ///< I8 [N, K]
    RowWords,   ///< I32 [N, K*bits/32], lowest bits first, code + 2^(bits-1)
    ColumnWords ///< I32 [K*bits/32, N], lowest bits first, code + 2^(bits-1)
  };
  explicit RawCodes(const PackedWeight &weight);

  Form form() const { return form_; }
  /// True when groups may have been negated together with their scale, or cleared under a zero one.
  bool signsMayTurn() const { return form_ == Form::ColumnWords; }
  Status load(uint64_t first, uint64_t count);
  /// Codes of a loaded row; integers are centred on zero.
  void row(uint64_t row, std::vector<int32_t> &out) const;

private:
  const PackedWeight &weight_;
  Form form_ = Form::Unknown;
  uint64_t rows_ = 0, columns_ = 0, first_ = 0, count_ = 0;
  uint32_t bits_ = 0; ///< of the word forms
  std::vector<std::byte> bytes_;
};

} // namespace ninfer

#endif // NINFER_INSPECT_REFERENCEPACKED_H
