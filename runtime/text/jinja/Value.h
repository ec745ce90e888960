// Values of the template language and Python's rules for them. A value is a Json; `undefined` is the discarded
// Json. Private to runtime/text/jinja.
#ifndef NINFER_RUNTIME_TEXT_JINJA_VALUE_H
#define NINFER_RUNTIME_TEXT_JINJA_VALUE_H

#include "support/Json.h"
#include "support/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace ninfer::jinja {

using Value = Json;

inline Value undefined() { return Value(nlohmann::detail::value_t::discarded); }
inline bool isUndefined(const Value &v) { return v.is_discarded(); }

/// Most bytes one value may take, and how deep lists and objects may nest in it. A template is part of a downloaded
/// model: it must not be able to take the memory or the stack of the program that renders it.
inline constexpr size_t kMaxValueBytes = 16u << 20;
inline constexpr int kMaxValueDepth = 600;

/// Heap bytes of a value, roughly, and its nesting. Does not descend below kMaxValueDepth + 1 levels.
struct Extent {
  size_t bytes = 0;
  int depth = 0;
};
Extent measure(const Value &v);

/// The code points of a string, each as a string; an error when they would exceed kMaxValueBytes.
Result<Value> codePointList(const std::string &text, const std::string &where);

bool truth(const Value &v);
/// What {{ v }} prints: strings as they are, the rest in Python's spelling.
std::string toText(const Value &v);
/// Python's json.dumps(v, ensure_ascii=False, indent=indent); indent < 0 is one line with ", " and ": ".
std::string toJson(const Value &v, int indent);
bool equal(const Value &a, const Value &b);

/// Filter, test and method tables. `where` opens error messages ("chat_template.jinja:12").
struct Arguments {
  std::vector<Value> positional; ///< without the value itself
  std::vector<std::pair<std::string, Value>> keywords;
  /// Argument number `i` or keyword `name`, or `fallback`.
  Value get(size_t i, const char *name, Value fallback) const;
};
Result<Value> applyFilter(const std::string &name, const Value &v, const Arguments &args, const std::string &where);
Result<bool> applyTest(const std::string &name, const Value &v, const Arguments &args, const std::string &where);
Result<Value> callMethod(const std::string &name, const Value &v, const Arguments &args, const std::string &where);
Result<Value> applyBinary(const std::string &op, const Value &a, const Value &b, const std::string &where);
Result<Value> slice(const Value &v, const Value &begin, const Value &end, const Value &step, const std::string &where);
/// v[key]: list by integer (negative from the end), object or string likewise; missing is undefined.
Value subscript(const Value &v, const Value &key);

Error evaluationError(const std::string &where, const std::string &what);

} // namespace ninfer::jinja

#endif // NINFER_RUNTIME_TEXT_JINJA_VALUE_H
