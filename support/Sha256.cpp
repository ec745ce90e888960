#include "support/Sha256.h"

#include "support/Bytes.h"

#include <cstdlib>
#include <openssl/evp.h>

namespace ninfer {

struct Sha256::Context {
  EVP_MD_CTX *evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

// EVP fails only when memory runs out or SHA-256 is missing from the library; neither can be
// continued from.
static void require(bool ok) {
  if (!ok)
    std::abort();
}

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require(context_->evp && EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256 &&) noexcept = default;
Sha256 &Sha256::operator=(Sha256 &&) noexcept = default;

Sha256 &Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256 &Sha256::update(std::string_view text) { return update(asByteSpan(text)); }

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  unsigned length = 0;
  require(EVP_DigestFinal_ex(context_->evp, digest.data(), &length) == 1 &&
          length == digest.size());
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
