#include "runtime/text/Regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ninfer {

namespace {

// Unicode property White_Space, as the inside of a character class.
constexpr std::string_view kWhiteSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// \C would match part of a code point, and the rest of the text would no longer be UTF-8 (findAll relies on that).
constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;

Result<std::string> translate(std::string_view pattern, const std::string &what) {
  std::string out;
  bool inClass = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      char next = pattern[++i];
      if (next == 's') {
        out += inClass ? std::string(kWhiteSpace) : "[" + std::string(kWhiteSpace) + "]";
      } else if (next == 'S') {
        if (inClass)
          return makeError(ErrorKind::Unsupported, "NB0702",
                           what + ": \\S inside a character class is not supported in '" +
                               std::string(pattern) + "'");
        out += "[^" + std::string(kWhiteSpace) + "]";
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[')
      inClass = true;
    else if (c == ']')
      inClass = false;
    out += c;
  }
  return out;
}

} // namespace

struct Regex::Impl {
  pcre2_code *code = nullptr;
  ~Impl() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::Regex(Regex &&) noexcept = default;
Regex &Regex::operator=(Regex &&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern, const std::string &what) {
  NINFER_ASSIGN_OR_RETURN(std::string text, translate(pattern, what));
  int code = 0;
  PCRE2_SIZE offset = 0;
  auto impl = std::make_unique<Impl>();
  impl->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                             kOptions, &code, &offset, nullptr);
  if (!impl->code) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(code, message, sizeof message);
    return makeError(ErrorKind::Unsupported, "NB0702",
                     what + ": regular expression '" + std::string(pattern) + "' is not supported: " +
                         reinterpret_cast<const char *>(message) + " at offset " +
                         std::to_string(offset));
  }
  pcre2_jit_compile(impl->code, PCRE2_JIT_COMPLETE); // speed only; matching works without
  return Regex(std::move(impl));
}

std::string Regex::escape(std::string_view literal) {
  std::string out;
  for (char c : literal) {
    if (std::string_view(R"(\^$.[]|()?*+{}-#)").find(c) != std::string_view::npos)
      out += '\\';
    out += c;
  }
  return out;
}

Result<std::vector<std::pair<size_t, size_t>>> Regex::findAll(std::string_view text) const {
  std::vector<std::pair<size_t, size_t>> out;
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data *)> data(
      pcre2_match_data_create_from_pattern(impl_->code, nullptr), pcre2_match_data_free);
  size_t at = 0;
  while (at < text.size()) {
    int count = pcre2_match(impl_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                            PCRE2_NO_UTF_CHECK, data.get(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH)
      break;
    if (count < 0)
      return makeError(ErrorKind::Failed, "NB0703",
                       "pre-tokenizer: matching stopped at byte " + std::to_string(at) + " with PCRE2 error " +
                           std::to_string(count));
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data.get());
    if (range[1] > range[0]) {
      out.emplace_back(range[0], range[1]);
      at = range[1];
    } else {
      at = range[1] + 1;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
        ++at;
    }
  }
  return out;
}

} // namespace ninfer
