// Unicode regular expressions of pre-tokenizers, over PCRE2 (UTF and UCP on). Owns the translation from the
// Oniguruma dialect that tokenizer.json files are written in.
#ifndef NINFER_RUNTIME_TEXT_REGEX_H
#define NINFER_RUNTIME_TEXT_REGEX_H

#include "support/Status.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ninfer {

class Regex {
public:
  /// Compiles `pattern`. \s and \S are rewritten to the Unicode property White_Space, because PCRE2 counts
  /// U+180E as a space and the reference does not. Errors: Unsupported, with the offset in the pattern.
  static Result<Regex> compile(std::string_view pattern, const std::string &what);
  static std::string escape(std::string_view literal);

  /// Byte ranges [begin, end) of all non-overlapping, nonempty matches in `text`, which must be valid UTF-8.
  /// Errors: Failed when the matcher hits its step limit.
  Result<std::vector<std::pair<size_t, size_t>>> findAll(std::string_view text) const;

  Regex(Regex &&) noexcept;
  Regex &operator=(Regex &&) noexcept;
  ~Regex();

private:
  struct Impl;
  explicit Regex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace ninfer

#endif // NINFER_RUNTIME_TEXT_REGEX_H
