// Limits of an artifact: what the reader refuses, and therefore what the writer never writes.
// Documented in docs/container.md, section "Limits".
#ifndef NINFER_ARTIFACT_CONTAINER_LIMITS_H
#define NINFER_ARTIFACT_CONTAINER_LIMITS_H

#include <cstddef>
#include <cstdint>

namespace ninfer {

/// Bytes of the directory text, white space at its end included.
inline constexpr uint64_t kMaxDirectoryBytes = uint64_t(64) << 20;
/// Members of `objects`.
inline constexpr size_t kMaxObjects = size_t(1) << 18;
/// Members of `files`: the entry and its parts.
inline constexpr size_t kMaxFiles = size_t(1) << 14;
/// Dimensions of a tensor.
inline constexpr size_t kMaxRank = 16;
/// UTF-8 bytes of a name: object ids, parameters, inputs, roles, components, formats, model names.
inline constexpr size_t kMaxNameBytes = 4096;
/// UTF-8 bytes of a part's file name, as file systems have it.
inline constexpr size_t kMaxFileNameBytes = 255;

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_LIMITS_H
