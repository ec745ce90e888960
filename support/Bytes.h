// Little-endian loads and stores on byte pointers, independent of host order and alignment.
#ifndef NINFER_SUPPORT_BYTES_H
#define NINFER_SUPPORT_BYTES_H

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace ninfer {

/// Loads an unsigned integer of type T stored little-endian at `p` (any alignment).
template <typename T>
inline T loadLe(const void *p) {
  static_assert(std::is_unsigned_v<T>);
  T value;
  std::memcpy(&value, p, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) {
    T swapped = 0;
    for (size_t i = 0; i < sizeof(T); ++i)
      swapped = T(swapped << 8) | T((value >> (8 * i)) & 0xff);
    value = swapped;
  }
  return value;
}

/// Stores an unsigned integer little-endian at `p` (any alignment).
template <typename T>
inline void storeLe(void *p, T value) {
  static_assert(std::is_unsigned_v<T>);
  auto *out = static_cast<unsigned char *>(p);
  for (size_t i = 0; i < sizeof(T); ++i)
    out[i] = static_cast<unsigned char>(value >> (8 * i));
}

inline uint16_t loadLe16(const void *p) { return loadLe<uint16_t>(p); }
inline uint32_t loadLe32(const void *p) { return loadLe<uint32_t>(p); }
inline uint64_t loadLe64(const void *p) { return loadLe<uint64_t>(p); }
inline void storeLe16(void *p, uint16_t value) { storeLe<uint16_t>(p, value); }
inline void storeLe32(void *p, uint32_t value) { storeLe<uint32_t>(p, value); }
inline void storeLe64(void *p, uint64_t value) { storeLe<uint64_t>(p, value); }

inline float floatFromBits(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t bitsFromFloat(float value) { return std::bit_cast<uint32_t>(value); }

inline std::string_view asText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> asByteSpan(std::string_view text) {
  return {reinterpret_cast<const std::byte *>(text.data()), text.size()};
}

} // namespace ninfer

#endif // NINFER_SUPPORT_BYTES_H
