#include "runtime/text/jinja/Lexer.h"

#include "support/Utf8.h"

#include <algorithm>
#include <cctype>

namespace ninfer::jinja {

namespace {

bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

/// Length of an exponent such as "e-3" at the start of `text`, or 0.
size_t exponentLength(std::string_view text) {
  size_t n = 0;
  if (n < text.size() && (text[n] == 'e' || text[n] == 'E'))
    ++n;
  else
    return 0;
  if (n < text.size() && (text[n] == '+' || text[n] == '-'))
    ++n;
  size_t digits = n;
  while (n < text.size() && std::isdigit(static_cast<unsigned char>(text[n])))
    ++n;
  return n > digits ? n : 0;
}

class Lexer {
public:
  Lexer(std::string_view source, const std::string &name) : source_(source), name_(name) {
    // Jinja drops one newline at the end of a template.
    if (source_.ends_with('\n'))
      source_.remove_suffix(1);
  }

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      size_t open = findOpen();
      std::string text(source_.substr(at_, open - at_));
      if (open == std::string_view::npos) {
        emitText(std::string(source_.substr(at_)));
        break;
      }
      char tag = source_[open + 1];
      char control = open + 2 < source_.size() ? source_[open + 2] : ' ';
      if (control == '-')
        while (!text.empty() && isBlank(text.back()))
          text.pop_back();
      else if (tag != '{' && control != '+')
        stripIndent(text);
      emitText(text);
      countLines(open + 2);
      if (control == '-' || control == '+')
        ++at_;
      if (tag == '#') {
        size_t close = source_.find("#}", at_);
        if (close == std::string_view::npos)
          return syntaxError(name_, line_, "comment is not closed");
        bool dash = close > at_ && source_[close - 1] == '-';
        countLines(close + 2);
        afterTag('#', dash);
        continue;
      }
      push(tag == '{' ? Token::Kind::OutputBegin : Token::Kind::BlockBegin, "");
      NINFER_RETURN_IF_ERROR(lexTag(tag));
    }
    push(Token::Kind::Eof, "");
    return std::move(tokens_);
  }

private:
  size_t findOpen() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i)
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    return std::string_view::npos;
  }

  /// lstrip_blocks: blanks between the start of the line and a block tag go away.
  void stripIndent(std::string &text) {
    size_t keep = text.size();
    while (keep > 0 && (text[keep - 1] == ' ' || text[keep - 1] == '\t'))
      --keep;
    bool lineStart = keep > 0 ? text[keep - 1] == '\n' : (at_ == 0 || source_[at_ - 1] == '\n');
    if (lineStart)
      text.resize(keep);
  }

  /// What follows a tag: "-" strips all blanks, trim_blocks strips one newline behind a block or comment.
  void afterTag(char tag, bool dash) {
    if (dash) {
      size_t to = at_;
      while (to < source_.size() && isBlank(source_[to]))
        ++to;
      countLines(to);
    } else if (tag != '{') {
      if (at_ < source_.size() && source_[at_] == '\n')
        countLines(at_ + 1);
      else if (source_.substr(at_, 2) == "\r\n")
        countLines(at_ + 2);
    }
  }

  void countLines(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  void emitText(const std::string &text) {
    if (!text.empty())
      push(Token::Kind::Text, text);
  }

  void push(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  Status lexTag(char tag) {
    std::string close = tag == '{' ? "}}" : "%}";
    int depth = 0; // of { } inside an expression, so that a dictionary's }} is not taken for the end
    while (true) {
      while (at_ < source_.size() && isBlank(source_[at_]))
        countLines(at_ + 1);
      if (at_ >= source_.size())
        return syntaxError(name_, line_, "tag is not closed");
      std::string_view rest = source_.substr(at_);
      bool dash = rest[0] == '-' && rest.substr(1, 2) == close;
      if (depth == 0 && (dash || rest.substr(0, 2) == close)) {
        countLines(at_ + (dash ? 3 : 2));
        push(Token::Kind::End, "");
        afterTag(tag, dash);
        return {};
      }
      char c = rest[0];
      if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
        size_t n = 1;
        while (n < rest.size() && (std::isalnum(static_cast<unsigned char>(rest[n])) || rest[n] == '_'))
          ++n;
        push(Token::Kind::Name, std::string(rest.substr(0, n)));
        at_ += n;
      } else if (std::isdigit(static_cast<unsigned char>(c))) {
        size_t n = 1;
        bool real = false;
        while (n < rest.size() && (std::isdigit(static_cast<unsigned char>(rest[n])) ||
                                   (rest[n] == '.' && n + 1 < rest.size() && std::isdigit(static_cast<unsigned char>(rest[n + 1])))))
          real |= rest[n++] == '.';
        if (size_t e = exponentLength(rest.substr(n)); e > 0) {
          real = true;
          n += e;
        }
        push(real ? Token::Kind::Float : Token::Kind::Integer, std::string(rest.substr(0, n)));
        at_ += n;
      } else if (c == '\'' || c == '"') {
        NINFER_RETURN_IF_ERROR(lexString(c));
      } else {
        std::string op(1, c);
        std::string two(rest.substr(0, 2));
        for (const char *candidate : {"==", "!=", "<=", ">=", "//", "**"})
          if (two == candidate)
            op = two;
        if (std::string_view("=!<>+-*/%~|.,:()[]{}").find(c) == std::string_view::npos || op == "!")
          return syntaxError(name_, line_, "unexpected character '" + op + "'");
        depth += op == "{" ? 1 : op == "}" ? -1 : 0;
        push(Token::Kind::Operator, op);
        at_ += op.size();
      }
    }
  }

  Status lexString(char quote) {
    std::string out;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\') {
        out += source_[i];
        continue;
      }
      if (++i >= source_.size())
        break;
      switch (source_[i]) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case '\\': case '\'': case '"': out += source_[i]; break;
      case 'u': case 'x': {
        size_t digits = source_[i] == 'u' ? 4 : 2;
        char32_t value = 0;
        for (size_t d = 0; d < digits; ++d) {
          if (++i >= source_.size() || !std::isxdigit(static_cast<unsigned char>(source_[i])))
            return syntaxError(name_, line_, "bad escape in a string");
          value = value * 16 + static_cast<char32_t>(std::stoi(std::string(1, source_[i]), nullptr, 16));
        }
        if (value >= 0xD800 && value <= 0xDFFF)
          return syntaxError(name_, line_, "surrogate escape in a string");
        appendUtf8(out, value);
        break;
      }
      default: // Python keeps the backslash of an unknown escape
        out += '\\';
        out += source_[i];
      }
    }
    if (i >= source_.size())
      return syntaxError(name_, line_, "string is not closed");
    push(Token::Kind::String, out);
    countLines(i + 1);
    return {};
  }

  std::string_view source_;
  const std::string &name_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

} // namespace

Error syntaxError(const std::string &name, int line, const std::string &what) {
  return makeError(ErrorKind::Unsupported, "NB0706", name + ":" + std::to_string(line) + ": " + what);
}

Result<std::vector<Token>> lex(std::string_view source, const std::string &name) { return Lexer(source, name).run(); }

} // namespace ninfer::jinja
