// An option whose text must not be empty.
#ifndef NINFER_TOOLS_NINFER_CONVERT_NOTEMPTY_H
#define NINFER_TOOLS_NINFER_CONVERT_NOTEMPTY_H

#include <CLI/CLI.hpp>
#include <string>

namespace ninfer {

inline CLI::Validator notEmpty() {
  return CLI::Validator(
      [](const std::string &text) { return std::string(text.empty() ? "must not be empty" : ""); },
      "");
}

} // namespace ninfer

#endif // NINFER_TOOLS_NINFER_CONVERT_NOTEMPTY_H
