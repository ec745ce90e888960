// Filters and methods.
#include "runtime/text/jinja/Value.h"

#include <algorithm>
#include <cctype>

namespace ninfer::jinja {

namespace {

constexpr std::string_view kBlanks = " \t\n\r\f\v";

std::string strip(const std::string &s, const std::string &chars, bool left, bool right) {
  std::string_view set = chars.empty() ? kBlanks : std::string_view(chars);
  size_t begin = 0, end = s.size();
  while (left && begin < end && set.find(s[begin]) != std::string_view::npos)
    ++begin;
  while (right && end > begin && set.find(s[end - 1]) != std::string_view::npos)
    --end;
  return s.substr(begin, end - begin);
}

// ASCII only: templates use these on roles and type names.
std::string upper(std::string s) {
  for (char &c : s)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return s;
}
std::string lower(std::string s) {
  for (char &c : s)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}
std::string capitalize(std::string s) {
  s = lower(std::move(s));
  if (!s.empty())
    s[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(s[0])));
  return s;
}
std::string title(std::string s) {
  bool start = true;
  for (char &c : s) {
    c = static_cast<char>(start ? std::toupper(static_cast<unsigned char>(c)) : std::tolower(static_cast<unsigned char>(c)));
    start = !std::isalpha(static_cast<unsigned char>(c));
  }
  return s;
}

Error tooLarge(const std::string &where) {
  return evaluationError(where, "a value of more than " + std::to_string(kMaxValueBytes) + " bytes");
}

Result<Value> replaceAll(const std::string &s, const std::string &from, const std::string &to, const std::string &where) {
  if (from.empty())
    return Value(s);
  std::string out;
  size_t at = 0;
  for (size_t hit; (hit = s.find(from, at)) != std::string::npos; at = hit + from.size()) {
    out.append(s, at, hit - at);
    out += to;
    if (out.size() > kMaxValueBytes)
      return tooLarge(where);
  }
  return Value(out + s.substr(at));
}

Result<Value> split(const std::string &s, const Value &separator, int64_t limit, const std::string &where) {
  constexpr size_t kMaxParts = kMaxValueBytes / 64;
  Value out = Value::array();
  if (!separator.is_string()) { // runs of blanks, none at the ends
    size_t at = 0;
    while (true) {
      while (at < s.size() && kBlanks.find(s[at]) != std::string_view::npos)
        ++at;
      if (at >= s.size())
        return out;
      size_t end = s.find_first_of(kBlanks, at);
      if (limit >= 0 && static_cast<int64_t>(out.size()) == limit)
        end = std::string::npos;
      out.push_back(s.substr(at, end - at));
      if (end == std::string::npos)
        return out;
      if (out.size() > kMaxParts)
        return tooLarge(where);
      at = end;
    }
  }
  std::string by = separator.get<std::string>();
  if (by.empty())
    return evaluationError(where, "empty separator");
  size_t at = 0;
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    size_t hit = s.find(by, at);
    if (hit == std::string::npos)
      break;
    if (out.size() > kMaxParts)
      return tooLarge(where);
    out.push_back(s.substr(at, hit - at));
    at = hit + by.size();
  }
  out.push_back(s.substr(at));
  return out;
}

Value items(const Value &object) {
  Value out = Value::array();
  for (const auto &[key, value] : object.items())
    out.push_back(Value::array({key, value}));
  return out;
}

bool isText(const Value &v) { return v.is_string(); }

} // namespace

Result<Value> applyFilter(const std::string &name, const Value &v, const Arguments &args, const std::string &where) {
  auto text = [&] { return v.get<std::string>(); };
  if (name == "default" || name == "d") {
    bool falsy = truth(args.get(1, "boolean", false));
    return isUndefined(v) || (falsy && !truth(v)) ? args.get(0, "default_value", "") : v;
  }
  if (name == "tojson") {
    Value indent = args.get(0, "indent", nullptr);
    return Value(toJson(v, indent.is_number_integer() ? static_cast<int>(std::clamp<int64_t>(indent.get<int64_t>(), 0, 16)) : -1));
  }
  if (name == "string")
    return Value(toText(v));
  if (isUndefined(v))
    return evaluationError(where, "filter '" + name + "' applied to an undefined value");
  if (name == "trim")
    return Value(strip(toText(v), "", true, true));
  if (name == "upper")
    return Value(upper(toText(v)));
  if (name == "lower")
    return Value(lower(toText(v)));
  if (name == "capitalize")
    return Value(capitalize(toText(v)));
  if (name == "title")
    return Value(title(toText(v)));
  if (name == "safe")
    return v;
  if (name == "length" || name == "count") {
    if (v.is_string()) {
      int64_t n = 0;
      for (char c : text())
        n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      return Value(n);
    }
    if (v.is_array() || v.is_object())
      return Value(static_cast<int64_t>(v.size()));
  }
  if (name == "first" || name == "last")
    return subscript(v, Value(name == "first" ? 0 : -1));
  if (name == "list" && (v.is_array() || v.is_object())) {
    if (v.is_array())
      return v;
    Value keys = Value::array();
    for (const auto &[key, value] : v.items())
      keys.push_back(key);
    return keys;
  }
  if (name == "reverse" && v.is_array())
    return slice(v, nullptr, nullptr, -1, where);
  if ((name == "items" || name == "dictsort") && v.is_object()) {
    Value out = items(v);
    if (name == "dictsort")
      std::sort(out.begin(), out.end(), [](const Value &a, const Value &b) { return a[0] < b[0]; }); // keys are unique
    return out;
  }
  if (name == "join" && v.is_array()) {
    std::string out, by = toText(args.get(0, "d", ""));
    Value attribute = args.get(1, "attribute", undefined());
    for (size_t i = 0; i < v.size(); ++i) {
      out += (i ? by : "") + toText(isUndefined(attribute) ? v[i] : subscript(v[i], attribute));
      if (out.size() > kMaxValueBytes)
        return tooLarge(where);
    }
    return Value(out);
  }
  if (name == "replace" && isText(v))
    return replaceAll(text(), toText(args.get(0, "old", "")), toText(args.get(1, "new", "")), where);
  if (name == "int" || name == "float") {
    double d = v.is_number() ? v.get<double>() : v.is_string() ? std::strtod(text().c_str(), nullptr) : 0;
    if (name == "int" && d != d)
      d = 0; // Jinja's default where Python has no integer
    return name == "int" ? Value(static_cast<int64_t>(std::clamp(d, -9e18, 9e18))) : Value(d);
  }
  if ((name == "selectattr" || name == "rejectattr") && v.is_array() && !args.positional.empty()) {
    Value out = Value::array();
    for (const Value &item : v) {
      Value field = subscript(item, args.positional[0]);
      bool keep = truth(field);
      if (args.positional.size() > 1) {
        Arguments rest;
        rest.positional.assign(args.positional.begin() + 2, args.positional.end());
        NINFER_ASSIGN_OR_RETURN(keep, applyTest(toText(args.positional[1]), field, rest, where));
      }
      if (keep == (name == "selectattr"))
        out.push_back(item);
    }
    return out;
  }
  if (name == "map" && v.is_array()) {
    Value attribute = args.get(99, "attribute", undefined());
    Value out = Value::array();
    size_t bytes = 0;
    for (const Value &item : v) {
      if (!isUndefined(attribute)) {
        out.push_back(subscript(item, attribute));
        continue;
      }
      Arguments rest;
      if (args.positional.empty())
        return evaluationError(where, "filter 'map' needs a filter name or attribute=");
      rest.positional.assign(args.positional.begin() + 1, args.positional.end());
      NINFER_ASSIGN_OR_RETURN(Value mapped, applyFilter(toText(args.positional[0]), item, rest, where));
      if ((bytes += measure(mapped).bytes) > kMaxValueBytes)
        return tooLarge(where);
      out.push_back(std::move(mapped));
    }
    return out;
  }
  return evaluationError(where, "filter '" + name + "' is not supported here");
}

Result<Value> callMethod(const std::string &name, const Value &v, const Arguments &args, const std::string &where) {
  if (isText(v)) {
    const std::string &s = v.get_ref<const std::string &>();
    std::string first = toText(args.get(0, "", ""));
    if (name == "strip" || name == "lstrip" || name == "rstrip")
      return Value(strip(s, first, name != "rstrip", name != "lstrip"));
    if (name == "split") {
      Value limit = args.get(1, "maxsplit", -1);
      return split(s, args.get(0, "sep", nullptr), limit.is_number_integer() ? limit.get<int64_t>() : -1, where);
    }
    if (name == "startswith" || name == "endswith") {
      Value options = args.get(0, "", "");
      if (!options.is_array())
        options = Value::array({options});
      bool hit = false;
      for (const Value &o : options)
        hit |= name == "startswith" ? s.starts_with(toText(o)) : s.ends_with(toText(o));
      return Value(hit);
    }
    if (name == "upper")
      return Value(upper(s));
    if (name == "lower")
      return Value(lower(s));
    if (name == "title")
      return Value(title(s));
    if (name == "capitalize")
      return Value(capitalize(s));
    if (name == "replace")
      return replaceAll(s, first, toText(args.get(1, "", "")), where);
    if (name == "find") {
      size_t hit = s.find(first);
      return Value(hit == std::string::npos ? int64_t(-1) : static_cast<int64_t>(hit));
    }
    if (name == "join")
      return applyFilter("join", args.get(0, "", Value::array()), {{v}, {}}, where);
  }
  if (v.is_object()) {
    if (name == "items")
      return items(v);
    if (name == "keys")
      return applyFilter("list", v, {}, where);
    if (name == "values") {
      Value out = Value::array();
      for (const auto &[key, value] : v.items())
        out.push_back(value);
      return out;
    }
    if (name == "get") {
      Value found = subscript(v, args.get(0, "", ""));
      return isUndefined(found) ? args.get(1, "default", nullptr) : found;
    }
  }
  return evaluationError(where, "method '" + name + "' is not supported on this value");
}

} // namespace ninfer::jinja
