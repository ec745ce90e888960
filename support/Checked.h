// Unsigned 64-bit arithmetic that reports overflow instead of wrapping. Every size, offset or count
// that comes from a file goes through these.
#ifndef NINFER_SUPPORT_CHECKED_H
#define NINFER_SUPPORT_CHECKED_H

#include <cstdint>
#include <optional>
#include <span>

namespace ninfer {

/// a + b, or nothing when it exceeds 2^64-1.
inline std::optional<uint64_t> checkedAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    return std::nullopt;
  return sum;
}

/// a * b, or nothing when it exceeds 2^64-1.
inline std::optional<uint64_t> checkedMul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    return std::nullopt;
  return product;
}

/// Smallest multiple of `alignment` (> 0) that is >= value, or nothing when it exceeds 2^64-1.
inline std::optional<uint64_t> checkedAlignUp(uint64_t value, uint64_t alignment) {
  const uint64_t rest = value % alignment;
  return rest == 0 ? std::optional<uint64_t>(value) : checkedAdd(value, alignment - rest);
}

/// ceil(a / b) for b > 0; never overflows.
constexpr uint64_t ceilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/// Product of all dimensions (1 for rank 0), or nothing when it exceeds 2^64-1.
inline std::optional<uint64_t> checkedProduct(std::span<const uint64_t> dims) {
  uint64_t product = 1;
  for (uint64_t dim : dims)
    if (__builtin_mul_overflow(product, dim, &product))
      return std::nullopt;
  return product;
}

} // namespace ninfer

#endif // NINFER_SUPPORT_CHECKED_H
