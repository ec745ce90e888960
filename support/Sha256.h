// SHA-256 (OpenSSL, its one function linked in) and hexadecimal text.
#ifndef NINFER_SUPPORT_SHA256_H
#define NINFER_SUPPORT_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ninfer {

using Sha256Digest = std::array<uint8_t, 32>;

/// Incremental SHA-256. finish() may be called once.
class Sha256 {
public:
  Sha256();
  ~Sha256();
  Sha256(Sha256 &&) noexcept;
  Sha256 &operator=(Sha256 &&) noexcept;

  Sha256 &update(std::span<const std::byte> bytes);
  Sha256 &update(std::string_view text);
  Sha256Digest finish();

private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Sha256Digest sha256(std::span<const std::byte> bytes);
Sha256Digest sha256(std::string_view text);

/// Lower-case hexadecimal digits, two per byte.
std::string toHex(std::span<const uint8_t> bytes);

} // namespace ninfer

#endif // NINFER_SUPPORT_SHA256_H
