#include "support/Status.h"

namespace ninfer {

std::string Error::render() const {
  std::string out = "error";
  if (!code.empty())
    out += "[" + code + "]";
  out += ": " + message + "\n";
  for (const std::string &note : notes)
    out += "  note: " + note + "\n";
  for (const std::string &line : help)
    out += "  help: " + line + "\n";
  return out;
}

Error makeError(ErrorKind kind, std::string code, std::string message) {
  return Error{kind, std::move(code), std::move(message), {}, {}};
}

} // namespace ninfer
