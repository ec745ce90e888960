// The BPE model itself: vocabulary, merge ranks, and the merging of one pre-tokenized piece.
#ifndef NINFER_RUNTIME_TEXT_BPE_H
#define NINFER_RUNTIME_TEXT_BPE_H

#include "support/Json.h"
#include "support/Status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ninfer {

class Bpe {
public:
  /// Reads the "model" member of tokenizer.json (type BPE with a byte-level alphabet).
  static Result<Bpe> fromJson(const Json &model, const std::string &name);

  /// Appends the ids of one piece, given as raw bytes. Lowest rank first, leftmost of equal ranks.
  /// Errors: Failed when a byte of the piece has no token and the file names no unknown token.
  Status encodePiece(std::string_view bytes, std::vector<int32_t> &out) const;

  /// Raw bytes of a vocabulary entry; nothing when `id` is not one.
  const std::string *bytes(int32_t id) const;
  std::optional<int32_t> findSpelling(std::string_view byteLevelSpelling) const;
  int32_t maxId() const { return maxId_; }

private:
  struct Merge {
    int32_t rank;
    int32_t result;
  };
  std::unordered_map<std::string, int32_t> idOfBytes_;    ///< entries in byte-level spelling only
  std::unordered_map<std::string, int32_t> idOfSpelling_; ///< all entries, as the file spells them
  std::vector<std::pair<int32_t, std::string>> bytesOfId_; ///< by id; ids may have gaps of any size
  std::unordered_map<uint64_t, Merge> merges_;
  std::array<int32_t, 256> byteToken_{};
  int32_t maxId_ = -1;
  std::optional<int32_t> unknown_;
  bool ignoreMerges_ = false;
};

/// Raw bytes of a token in the byte-level spelling (every byte is one printable character); nothing when a
/// character is outside that alphabet.
std::optional<std::string> fromByteLevel(std::string_view spelling);

} // namespace ninfer

#endif // NINFER_RUNTIME_TEXT_BPE_H
