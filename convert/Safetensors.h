// Header of one safetensors file: 8-byte length, JSON, then the tensor bytes without holes. Strict:
// what the reference reader refuses is refused, and every number goes through checked integers.
#ifndef NINFER_CONVERT_SAFETENSORS_H
#define NINFER_CONVERT_SAFETENSORS_H

#include "convert/SourceTensor.h"

#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Longest header accepted, in bytes (the limit of the reference reader).
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Parses the header text. `dataBytes` is the file size behind the header, `dataOffset` where it
/// starts. Refuses (BadFile, NB0311): bad JSON, duplicate names, unknown dtype or member, a
/// dimension that is no plain positive integer, a product beyond 2^64-1, a byte range of another
/// size than the shape needs, holes, overlap, and bytes behind the last tensor.
Result<std::vector<SourceTensor>> parseSafetensorsHeader(std::string_view text, uint64_t dataOffset,
                                                         uint64_t dataBytes,
                                                         const std::string &fileName);

/// Reads the header of an open file.
Result<std::vector<SourceTensor>> readSafetensors(const SourceFile &file);

} // namespace ninfer

#endif // NINFER_CONVERT_SAFETENSORS_H
