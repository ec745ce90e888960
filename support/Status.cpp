#include "support/Status.h"

namespace ninfer {

namespace {

/// Messages quote names from files: control characters must not reach a terminal, nor a name fill the screen.
std::string printable(const std::string &text) {
  constexpr size_t longest = 4000;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (out.size() > longest && (c & 0xC0) != 0x80)
      return out + "... (" + std::to_string(text.size() - i) + " bytes more)";
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
      const char *hex = "0123456789abcdef";
      out += std::string("\\x") + hex[c >> 4] + hex[c & 15];
    } else {
      out += text[i];
    }
  }
  return out;
}

} // namespace

std::string Error::render() const {
  std::string out = "error";
  if (!code.empty())
    out += "[" + code + "]";
  out += ": " + printable(message) + "\n";
  for (const std::string &note : notes)
    out += "  note: " + printable(note) + "\n";
  for (const std::string &line : help)
    out += "  help: " + printable(line) + "\n";
  return out;
}

Error makeError(ErrorKind kind, std::string code, std::string message) {
  return Error{kind, std::move(code), std::move(message), {}, {}};
}

} // namespace ninfer
