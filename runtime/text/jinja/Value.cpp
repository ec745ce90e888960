#include "runtime/text/jinja/Value.h"

#include "support/Utf8.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace ninfer::jinja {

namespace {

std::string floatText(double v) {
  if (std::isinf(v))
    return v > 0 ? "inf" : "-inf";
  if (std::isnan(v))
    return "nan";
  char buffer[64];
  auto [end, code] = std::to_chars(buffer, buffer + sizeof buffer, v);
  std::string text(buffer, end);
  if (code != std::errc())
    return "nan";
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return text;
}

/// Python's repr: how a string prints inside a list.
std::string repr(const Value &v) {
  if (!v.is_string())
    return toText(v);
  const std::string &s = v.get_ref<const std::string &>();
  char quote = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (char c : s) {
    if (c == quote || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else
      out += c;
  }
  return out + quote;
}

std::string quoted(const std::string &s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    switch (c) {
    case '"': out += "\\\""; break;
    case '\\': out += "\\\\"; break;
    case '\n': out += "\\n"; break;
    case '\r': out += "\\r"; break;
    case '\t': out += "\\t"; break;
    case '\b': out += "\\b"; break;
    case '\f': out += "\\f"; break;
    default:
      if (c < 0x20) {
        const char *hex = "0123456789abcdef";
        out += std::string("\\u00") + hex[c >> 4] + hex[c & 15];
      } else {
        out += static_cast<char>(c);
      }
    }
  }
  return out + "\"";
}

void dump(const Value &v, int indent, int depth, std::string &out) {
  if (out.size() > kMaxValueBytes)
    return; // the caller refuses a text of this size
  auto newline = [&](int d) {
    if (indent >= 0) {
      out += '\n';
      out.append(static_cast<size_t>(indent) * static_cast<size_t>(d), ' ');
    }
  };
  if (v.is_object() || v.is_array()) {
    bool object = v.is_object();
    if (v.empty()) {
      out += object ? "{}" : "[]";
      return;
    }
    out += object ? '{' : '[';
    bool first = true;
    for (auto it = v.begin(); it != v.end(); ++it) {
      if (!first)
        out += indent >= 0 ? "," : ", ";
      first = false;
      newline(depth + 1);
      if (object)
        out += quoted(it.key()) + ": ";
      dump(*it, indent, depth + 1, out);
    }
    newline(depth);
    out += object ? '}' : ']';
  } else if (v.is_string()) {
    out += quoted(v.get_ref<const std::string &>());
  } else if (v.is_boolean()) {
    out += v.get<bool>() ? "true" : "false";
  } else if (v.is_null() || isUndefined(v)) {
    out += "null";
  } else if (v.is_number_float()) {
    out += floatText(v.get<double>());
  } else {
    out += v.dump();
  }
}

/// Length of the code point at `at`; 1 for a byte that begins none.
size_t codePointLength(const std::string &s, size_t at) {
  size_t end = at;
  return decodeUtf8(s, end) ? end - at : 1;
}

/// Where each code point begins, and the end of the text.
std::vector<size_t> codePointStarts(const std::string &s) {
  std::vector<size_t> out;
  for (size_t at = 0; at < s.size(); at += codePointLength(s, at))
    out.push_back(at);
  out.push_back(s.size());
  return out;
}

constexpr size_t kItemBytes = 64; // of a short string in a list, roughly

void measureInto(const Value &v, int depth, Extent &out) {
  out.bytes += sizeof(Value);
  out.depth = std::max(out.depth, depth);
  if (v.is_string()) {
    out.bytes += kItemBytes - sizeof(Value) + v.get_ref<const std::string &>().size();
  } else if (v.is_array() && depth <= kMaxValueDepth) {
    for (const Value &item : v)
      measureInto(item, depth + 1, out);
  } else if (v.is_object() && depth <= kMaxValueDepth) {
    for (auto it = v.begin(); it != v.end(); ++it) {
      out.bytes += kItemBytes + it.key().size();
      measureInto(*it, depth + 1, out);
    }
  }
}

} // namespace

Error evaluationError(const std::string &where, const std::string &what) {
  return makeError(ErrorKind::Failed, "NB0707", where + ": " + what);
}

Extent measure(const Value &v) {
  Extent out;
  measureInto(v, 1, out);
  return out;
}

Result<Value> codePointList(const std::string &text, const std::string &where) {
  Value out = Value::array();
  for (size_t at = 0; at < text.size();) {
    const size_t n = codePointLength(text, at);
    if (out.size() * kItemBytes > kMaxValueBytes)
      return evaluationError(where, "a list of more than " + std::to_string(kMaxValueBytes) + " bytes");
    out.push_back(text.substr(at, n));
    at += n;
  }
  return out;
}

bool truth(const Value &v) {
  if (isUndefined(v) || v.is_null())
    return false;
  if (v.is_boolean())
    return v.get<bool>();
  if (v.is_number())
    return v.get<double>() != 0;
  if (v.is_string())
    return !v.get_ref<const std::string &>().empty();
  return !v.empty();
}

std::string toText(const Value &v) {
  if (isUndefined(v))
    return "";
  if (v.is_string())
    return v.get<std::string>();
  if (v.is_boolean())
    return v.get<bool>() ? "True" : "False";
  if (v.is_null())
    return "None";
  if (v.is_number_float())
    return floatText(v.get<double>());
  if (v.is_array()) {
    std::string out = "[";
    for (size_t i = 0; i < v.size(); ++i)
      out += (i ? ", " : "") + repr(v[i]);
    return out + "]";
  }
  if (v.is_object()) {
    std::string out = "{";
    bool first = true;
    for (const auto &[key, item] : v.items()) {
      out += (first ? "" : ", ") + repr(Value(key)) + ": " + repr(item);
      first = false;
    }
    return out + "}";
  }
  return v.dump();
}

std::string toJson(const Value &v, int indent) {
  std::string out;
  dump(v, indent, 0, out);
  return out;
}

bool equal(const Value &a, const Value &b) {
  if (isUndefined(a) || isUndefined(b))
    return isUndefined(a) && isUndefined(b);
  return a == b;
}

Value Arguments::get(size_t i, const char *name, Value fallback) const {
  if (i < positional.size())
    return positional[i];
  for (const auto &[key, value] : keywords)
    if (key == name)
      return value;
  return fallback;
}

Value subscript(const Value &v, const Value &key) {
  if (v.is_object() && key.is_string()) {
    auto found = v.find(key.get_ref<const std::string &>());
    return found == v.end() ? undefined() : *found;
  }
  if (key.is_number_integer() && (v.is_array() || v.is_string())) {
    static const std::string none;
    const std::string &text = v.is_string() ? v.get_ref<const std::string &>() : none;
    const std::vector<size_t> starts = codePointStarts(text);
    auto size = static_cast<int64_t>(v.is_string() ? starts.size() - 1 : v.size());
    int64_t i = key.get<int64_t>();
    if (i < 0)
      i += size;
    if (i < 0 || i >= size)
      return undefined();
    const auto at = static_cast<size_t>(i);
    return v.is_string() ? Value(text.substr(starts[at], starts[at + 1] - starts[at])) : v[at];
  }
  return undefined();
}

Result<Value> slice(const Value &v, const Value &begin, const Value &end, const Value &step, const std::string &where) {
  if (!v.is_array() && !v.is_string())
    return evaluationError(where, "only a list or a string can be sliced");
  static const std::string none;
  const std::string &source = v.is_string() ? v.get_ref<const std::string &>() : none;
  const std::vector<size_t> starts = codePointStarts(source);
  auto size = static_cast<int64_t>(v.is_string() ? starts.size() - 1 : v.size());
  for (const Value *part : {&begin, &end, &step})
    if (!part->is_null() && !part->is_number_integer())
      return evaluationError(where, "slice bounds must be integers");
  int64_t by = step.is_null() ? 1 : step.get<int64_t>();
  if (by == 0)
    return evaluationError(where, "slice step is zero");
  auto bound = [&](const Value &part, int64_t fallback, int64_t low, int64_t high) {
    if (part.is_null())
      return fallback;
    int64_t i = part.get<int64_t>();
    return std::clamp(i < 0 ? i + size : i, low, high);
  };
  int64_t from = by > 0 ? bound(begin, 0, 0, size) : bound(begin, size - 1, -1, size - 1);
  int64_t to = by > 0 ? bound(end, size, 0, size) : bound(end, -1, -1, size - 1);
  Value list = Value::array();
  std::string text;
  for (int64_t i = from; by > 0 ? i < to : i > to;) {
    const auto at = static_cast<size_t>(i);
    if (v.is_string())
      text.append(source, starts[at], starts[at + 1] - starts[at]);
    else
      list.push_back(v[at]);
    if (__builtin_add_overflow(i, by, &i))
      break; // beyond any index
  }
  return v.is_string() ? Value(text) : list;
}

Result<Value> applyBinary(const std::string &op, const Value &a, const Value &b, const std::string &where) {
  if (op == "==" || op == "!=")
    return Value(equal(a, b) == (op == "=="));
  if (op == "~")
    return Value(toText(a) + toText(b));
  if (op == "in" || op == "not in") {
    bool found = false;
    if (b.is_string() && a.is_string())
      found = b.get_ref<const std::string &>().find(a.get_ref<const std::string &>()) != std::string::npos;
    else if (b.is_object())
      found = a.is_string() && b.contains(a.get_ref<const std::string &>());
    else if (b.is_array())
      found = std::any_of(b.begin(), b.end(), [&](const Value &item) { return equal(item, a); });
    else
      return evaluationError(where, "'in' needs a string, a list or an object on the right");
    return Value(found == (op == "in"));
  }
  if (a.is_string() && b.is_string()) {
    const auto &x = a.get_ref<const std::string &>(), &y = b.get_ref<const std::string &>();
    if (op == "+")
      return Value(x + y);
    if (op == "<" || op == ">" || op == "<=" || op == ">=")
      return Value(op == "<" ? x < y : op == ">" ? x > y : op == "<=" ? x <= y : x >= y);
  }
  if (op == "+" && a.is_array() && b.is_array()) {
    Value out = a;
    out.insert(out.end(), b.begin(), b.end());
    return out;
  }
  auto numeric = [](const Value &v) { return v.is_number() || v.is_boolean(); };
  if (!numeric(a) || !numeric(b))
    return evaluationError(where, "operator '" + op + "' does not take " + (isUndefined(a) || isUndefined(b) ? "an undefined value" : "these types"));
  auto real = [](const Value &v) { return v.is_boolean() ? (v.get<bool>() ? 1.0 : 0.0) : v.get<double>(); };
  double x = real(a), y = real(b);
  if (op == "<" || op == ">" || op == "<=" || op == ">=")
    return Value(op == "<" ? x < y : op == ">" ? x > y : op == "<=" ? x <= y : x >= y);
  bool floating = a.is_number_float() || b.is_number_float() || op == "/";
  if ((op == "/" || op == "//" || op == "%") && y == 0)
    return evaluationError(where, "division by zero");
  if (floating) {
    double r = op == "+" ? x + y : op == "-" ? x - y : op == "*" ? x * y : op == "/" ? x / y
               : op == "//" ? std::floor(x / y) : x - y * std::floor(x / y);
    return Value(r);
  }
  auto whole = [](const Value &v) { return v.is_boolean() ? int64_t(v.get<bool>()) : v.get<int64_t>(); };
  int64_t i = whole(a), j = whole(b);
  int64_t r = 0;
  bool overflow = false;
  if (op == "+")
    overflow = __builtin_add_overflow(i, j, &r);
  else if (op == "-")
    overflow = __builtin_sub_overflow(i, j, &r);
  else if (op == "*")
    overflow = __builtin_mul_overflow(i, j, &r);
  else {
    if (j == -1 && i == INT64_MIN)
      return evaluationError(where, "integer overflow");
    int64_t q = i / j;
    if (j != -1 && i % j != 0 && ((i < 0) != (j < 0)))
      --q; // Python rounds towards minus infinity
    r = op == "//" ? q : i - q * j;
  }
  if (overflow)
    return evaluationError(where, "integer overflow");
  return Value(r);
}

Result<bool> applyTest(const std::string &name, const Value &v, const Arguments &args, const std::string &where) {
  if (name == "defined")
    return !isUndefined(v);
  if (name == "undefined")
    return isUndefined(v);
  if (name == "none")
    return !isUndefined(v) && v.is_null();
  if (name == "string")
    return v.is_string();
  if (name == "mapping")
    return v.is_object();
  if (name == "sequence" || name == "iterable")
    return v.is_array() || v.is_string() || v.is_object();
  if (name == "number")
    return v.is_number();
  if (name == "integer")
    return v.is_number_integer();
  if (name == "boolean")
    return v.is_boolean();
  if (name == "true" || name == "false")
    return v.is_boolean() && v.get<bool>() == (name == "true");
  if ((name == "equalto" || name == "eq") && args.positional.size() == 1)
    return equal(v, args.positional[0]);
  if ((name == "odd" || name == "even") && v.is_number_integer())
    return (v.get<int64_t>() % 2 != 0) == (name == "odd");
  return evaluationError(where, "test '" + name + "' is not supported here");
}

} // namespace ninfer::jinja
