// Byte-level BPE tokenizer read from a Hugging Face tokenizer.json. Owns the text <-> token id mapping; knows
// nothing of models. Parts of the file's language this reader does not implement are refused by name: two
// tokenizers that silently differ give fluent nonsense.
#ifndef NINFER_RUNTIME_TEXT_TOKENIZER_H
#define NINFER_RUNTIME_TEXT_TOKENIZER_H

#include "support/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

struct EncodeOptions {
  bool addSpecial = true;   ///< apply the file's post-processor (begin-of-text tokens)
  bool parseSpecial = true; ///< recognise special tokens spelled in the text; false treats them as plain text
};

class Tokenizer {
public:
  /// Reads tokenizer.json. Supported: normalizer null, NFC, NFKC, NFD, NFKD, Lowercase and sequences of them;
  /// pre-tokenizers ByteLevel, Split, Digits and sequences; model BPE with a byte-level alphabet;
  /// post-processors ByteLevel, TemplateProcessing and sequences; decoder ByteLevel.
  /// Errors: BadFile (structure), Unsupported (a part outside that list). `name` is used in messages.
  static Result<Tokenizer> fromJson(std::string_view json, const std::string &name);

  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  /// Token ids of `text` (UTF-8). Errors: Usage when `text` is not valid UTF-8, naming the byte offset.
  Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions &options = {}) const;

  /// Bytes of one token; empty when `id` is not in the vocabulary. A token may hold part of a UTF-8 sequence.
  std::string tokenBytes(int32_t id) const;
  /// Text of `ids`; invalid UTF-8 becomes U+FFFD. `skipSpecial` leaves special tokens out.
  std::string decode(std::span<const int32_t> ids, bool skipSpecial = true) const;

  /// One more than the largest id.
  int32_t size() const;
  bool isSpecial(int32_t id) const;
  /// Id of the token spelled exactly so (added tokens first, then vocabulary entries in byte-level spelling).
  std::optional<int32_t> find(std::string_view token) const;

  struct Impl;

private:
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Turns a stream of token ids into text that is valid UTF-8 at every step.
class StreamDecoder {
public:
  explicit StreamDecoder(const Tokenizer &tokenizer, bool skipSpecial = true)
      : tokenizer_(tokenizer), skipSpecial_(skipSpecial) {}
  /// Text that became complete with this token, possibly empty.
  std::string push(int32_t id);
  /// What is left at the end; an incomplete sequence becomes U+FFFD.
  std::string finish();

private:
  const Tokenizer &tokenizer_;
  bool skipSpecial_;
  std::string pending_;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_TEXT_TOKENIZER_H
