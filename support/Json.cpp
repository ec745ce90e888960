#include "support/Json.h"

#include "support/Utf8.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <vector>

namespace ninfer {

namespace {

constexpr size_t kMaxDepth = 512;
/// Members of an object that are compared one by one. Most objects have no more.
constexpr size_t kFewMembers = 8;

Status failure(const std::string &code, std::string message) {
  return makeError(ErrorKind::BadFile, code, std::move(message));
}

std::string locate(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const size_t line = 1 + size_t(std::count(before.begin(), before.end(), '\n'));
  const size_t lineStart =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(offset - lineStart + 1);
}

/// Builds the value and watches for what a general parser lets pass: duplicate members and depth.
/// Members are appended to the vector under ordered_json directly, because its own insertion
/// searches all earlier members.
class Builder {
public:
  Json root;
  std::string problem; ///< set when parsing stopped here
  size_t problemOffset = 0;
  bool problemHasOffset = false;

  bool null() { return add(Json(nullptr)); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(int64_t value) { return add(Json(value)); }
  bool number_unsigned(uint64_t value) { return add(Json(value)); }
  bool number_float(double value, const std::string &) { return add(Json(value)); }
  bool string(std::string &value) { return add(Json(std::move(value))); }
  bool binary(Json::binary_t &) { return stop("binary value"); }

  bool start_object(size_t) {
    if (!open(Json::object()))
      return false;
    // Names are constant, so a vector of members that grows copies them.
    scopes_.back().value->get_ref<Json::object_t &>().reserve(kFewMembers / 2);
    return true;
  }
  bool key(std::string &name) {
    Scope &scope = scopes_.back();
    const auto &members = scope.value->get_ref<const Json::object_t &>();
    bool known;
    if (members.size() < kFewMembers) {
      known = std::any_of(members.begin(), members.end(), [&](const auto &member) { return member.first == name; });
    } else {
      if (scope.names.empty())
        for (const auto &member : members)
          scope.names.insert(member.first);
      known = !scope.names.insert(name).second;
    }
    if (known)
      return stop("duplicate member '" + name + "'");
    scope.name = std::move(name);
    return true;
  }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_array() { return close(); }

  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &error) {
    std::string text = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error ...": keep
    // the reason.
    const size_t reason = text.find(": ");
    const size_t bracket = text.find("] ");
    problem = reason != std::string::npos && text.find("parse error") != std::string::npos
                  ? text.substr(reason + 2)
              : bracket != std::string::npos ? text.substr(bracket + 2)
                                             : text;
    problemOffset = position > 0 ? position - 1 : 0;
    problemHasOffset = true;
    return false;
  }

private:
  struct Scope {
    Json *value;
    std::string name;
    std::unordered_set<std::string> names; ///< of an object of many members
  };

  bool stop(std::string why) {
    problem = std::move(why);
    return false;
  }

  Json *place(Json value) {
    if (scopes_.empty()) {
      root = std::move(value);
      return &root;
    }
    Scope &scope = scopes_.back();
    if (scope.value->is_array()) {
      auto &array = scope.value->get_ref<Json::array_t &>();
      array.push_back(std::move(value));
      return &array.back();
    }
    jsonAppend(*scope.value, std::move(scope.name), std::move(value));
    return &scope.value->get_ref<Json::object_t &>().back().second;
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (scopes_.size() >= kMaxDepth)
      return stop("nested deeper than " + std::to_string(kMaxDepth) + " levels");
    // A parent's storage does not move while a child scope is open, so the pointer stays valid.
    Json *placed = place(std::move(value));
    scopes_.push_back(Scope{placed, {}, {}});
    return true;
  }
  bool close() {
    scopes_.pop_back();
    return true;
  }

  std::vector<Scope> scopes_;
};

std::string rangeText(const std::string &min, const std::string &max) {
  return "[" + min + "," + max + "]";
}

} // namespace

Result<Json> parseStrictJson(std::string_view text, const std::string &where,
                             const std::string &code) {
  if (text.substr(0, 3) == "\xef\xbb\xbf")
    return failure(code, where + ": invalid JSON: starts with a byte order mark");
  if (const auto offset = findInvalidUtf8(text))
    return failure(code, where + ": invalid JSON at " + locate(text, *offset) + ": invalid UTF-8");
  // The parser below takes a NUL for the end of the text and would not look at what follows it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos)
    return failure(code, where + ": invalid JSON at " + locate(text, nul) + ": NUL byte");
  Builder builder;
  const bool ok = Json::sax_parse(text.begin(), text.end(), &builder, Json::input_format_t::json,
                                  /*strict=*/true, /*ignore_comments=*/false);
  if (ok)
    return std::move(builder.root);
  std::string message = where + ": invalid JSON";
  if (builder.problemHasOffset)
    message += " at " + locate(text, builder.problemOffset);
  return failure(code, message + ": " + builder.problem);
}

Result<uint64_t> jsonUnsigned(const Json &value, uint64_t min, uint64_t max,
                              const std::string &what, const std::string &code) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number >= min && number <= max)
      return number;
  }
  return failure(code, what + ": expected integer in " +
                           rangeText(std::to_string(min), std::to_string(max)) + ", got " +
                           jsonExcerpt(value));
}

Result<int64_t> jsonInteger(const Json &value, int64_t min, int64_t max, const std::string &what,
                            const std::string &code) {
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t(INT64_MAX)
                                               : value.is_number_integer();
  if (fits) {
    const int64_t number = value.get<int64_t>();
    if (number >= min && number <= max)
      return number;
  }
  return failure(code, what + ": expected integer in " +
                           rangeText(std::to_string(min), std::to_string(max)) + ", got " +
                           jsonExcerpt(value));
}

Result<double> jsonNumber(const Json &value, const std::string &what, const std::string &code) {
  if (value.is_number()) {
    const double number = value.get<double>();
    if (std::isfinite(number))
      return number;
  }
  return failure(code, what + ": expected finite number, got " + jsonExcerpt(value));
}

Result<std::string> jsonIdentifier(const Json &value, const std::string &what,
                                   const std::string &code) {
  if (value.is_string()) {
    const std::string &text = value.get_ref<const std::string &>();
    if (!text.empty() && text.find('\0') == std::string::npos)
      return text;
  }
  return failure(code, what + ": expected nonempty string without NUL, got " + jsonExcerpt(value));
}

Status jsonMembers(const Json &value, std::initializer_list<std::string_view> required,
                   std::initializer_list<std::string_view> optional, const std::string &what,
                   const std::string &code) {
  if (!value.is_object())
    return failure(code, what + ": expected object, got " + jsonExcerpt(value));
  for (std::string_view name : required)
    if (!value.contains(name))
      return failure(code, what + ": missing member '" + std::string(name) + "'");
  const auto has = [](std::initializer_list<std::string_view> names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (auto it = value.begin(); it != value.end(); ++it)
    if (!has(required, it.key()) && !has(optional, it.key()))
      return failure(code, what + ": unknown member '" + it.key() + "'");
  return {};
}

void jsonAppend(Json &object, std::string name, Json value) {
  auto &members = object.get_ref<Json::object_t &>();
  members.Json::object_t::Container::emplace_back(std::move(name), std::move(value));
}

std::string jsonExcerpt(const Json &value) {
  if (value.is_object())
    return "an object";
  if (value.is_array())
    return "an array";
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 80)
    text = text.substr(0, 77) + "...";
  return text;
}

} // namespace ninfer
