// What every checkpoint reader hands to the converter: tensors with their stored element type,
// shape and byte range, and the files they lie in. Knows nothing of models, recipes or .ninfer.
#ifndef NINFER_CONVERT_SOURCETENSOR_H
#define NINFER_CONVERT_SOURCETENSOR_H

#include "convert/SourceFile.h"
#include "support/Shape.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ninfer {

/// Stored element types the converter can read. Block types are ggml's.
enum class SourceType : uint8_t {
  F32,
  F16,
  BF16, // one word per element
  Q8_0,
  Q4_0,
  Q5_0,
  IQ4_NL, // 32 codes and one binary16 scale: move exactly into W8G32_F16S
  Q4_1,
  Q5_1, // 32 codes, scale and minimum
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  IQ4_XS, // 256 codes with scales of sub-blocks
  Packed, // several tensors of a quantized checkpoint, see SourceTensor::packed
  Other   // a type that may appear in a file but feeds no parameter
};

struct SourceTypeInfo {
  const char *name;       ///< as tools spell it: "F32", "Q4_K"
  uint32_t blockElements; ///< elements per block along the last axis; 1 for plain words
  uint32_t blockBytes;
};

const SourceTypeInfo &sourceTypeInfo(SourceType type);
inline bool isBlockType(SourceType type) { return sourceTypeInfo(type).blockElements > 1; }
/// Q8_0, Q4_0, Q5_0, IQ4_NL.
bool movesExactlyIntoW8(SourceType type);

class PackedWeight;

struct SourceTensor {
  std::string name;            ///< as in the file; for Packed the logical "....weight"
  std::vector<uint64_t> shape; ///< row-major, last axis contiguous; all positive
  SourceType type = SourceType::Other;
  std::string typeName; ///< as in the file; differs from the table only for Other and Packed
  uint32_t file = 0;    ///< index into SourceTensors::files
  uint64_t offset = 0;  ///< from the start of that file; 0 for Packed
  uint64_t bytes = 0;   ///< for Packed of all components together
  std::shared_ptr<PackedWeight> packed;       ///< set for Packed (convert/quantized)

  uint64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  uint64_t rows() const;
  uint64_t rowBytes() const { return bytes / rows(); }
};

struct SourceTensors {
  std::vector<SourceFile> files;
  std::vector<SourceTensor> tensors; ///< in file order

  const SourceTensor *find(const std::string &name) const;
};

} // namespace ninfer

#endif // NINFER_CONVERT_SOURCETENSOR_H
