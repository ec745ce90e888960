// Cuts a template into text, tags and the tokens inside tags. Private to runtime/text/jinja.
#ifndef NINFER_RUNTIME_TEXT_JINJA_LEXER_H
#define NINFER_RUNTIME_TEXT_JINJA_LEXER_H

#include "support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace ninfer::jinja {

struct Token {
  enum class Kind { Text, OutputBegin, BlockBegin, End, Name, String, Integer, Float, Operator, Eof };
  Kind kind = Kind::Eof;
  std::string text;
  int line = 0;
};

Result<std::vector<Token>> lex(std::string_view source, const std::string &name);

Error syntaxError(const std::string &name, int line, const std::string &what);

} // namespace ninfer::jinja

#endif // NINFER_RUNTIME_TEXT_JINJA_LEXER_H
