// Shapes of tensors as numbers and as text.
#ifndef NINFER_SUPPORT_SHAPE_H
#define NINFER_SUPPORT_SHAPE_H

#include <cstdint>
#include <span>
#include <string>

namespace ninfer {

/// "[576,1536]"; rank 0 is "[]".
inline std::string shapeText(std::span<const uint64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    out += (i ? "," : "") + std::to_string(shape[i]);
  return out + "]";
}

/// Product of the dimensions, of a shape whose product was checked.
inline uint64_t elementCount(std::span<const uint64_t> shape) {
  uint64_t count = 1;
  for (uint64_t dimension : shape)
    count *= dimension;
  return count;
}

} // namespace ninfer

#endif // NINFER_SUPPORT_SHAPE_H
