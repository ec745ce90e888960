#include "support/Sha256.h"

#include "support/Bytes.h"

// The functions below are deprecated in favour of a provider interface, which would link the whole library into libninfer, or have it
// loaded whole when a plan is opened, for one digest.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace ninfer {

struct Sha256::Context {
  SHA256_CTX state; // the calls cannot fail
};

Sha256::Sha256() : context_(std::make_unique<Context>()) { SHA256_Init(&context_->state); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256 &&) noexcept = default;
Sha256 &Sha256::operator=(Sha256 &&) noexcept = default;

Sha256 &Sha256::update(std::span<const std::byte> bytes) {
  SHA256_Update(&context_->state, bytes.data(), bytes.size());
  return *this;
}

Sha256 &Sha256::update(std::string_view text) { return update(asByteSpan(text)); }

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  SHA256_Final(digest.data(), &context_->state);
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> bytes) { return Sha256().update(bytes).finish(); }
Sha256Digest sha256(std::string_view text) { return Sha256().update(text).finish(); }

std::string toHex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

} // namespace ninfer
