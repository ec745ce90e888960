// Strict JSON: what every reader of foreign JSON in the project goes through, so no two of them can
// give two answers for one text.
#ifndef NINFER_SUPPORT_JSON_H
#define NINFER_SUPPORT_JSON_H

#include "support/Status.h"

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ninfer {

using Json = nlohmann::ordered_json;

/// Parses one JSON value that fills `text` (white space around it is legal). Refuses, naming
/// `where` and the line and column: duplicate members at any depth (escapes resolved first), a byte
/// order mark, invalid UTF-8, lone surrogate escapes, NaN and Infinity, numbers beyond binary64
/// range, trailing text, comments, and nesting deeper than 512. Integers keep their 64-bit value.
/// Linear in the text, also for objects with many members.
Result<Json> parseStrictJson(std::string_view text, const std::string &where,
                             const std::string &code = "NB0910");

/// Value of a plain JSON integer (no fraction, exponent, sign or boolean) in [min, max]; `what`
/// names the field in the message: "<what>: expected integer in [min,max], got <value>".
Result<uint64_t> jsonUnsigned(const Json &value, uint64_t min, uint64_t max,
                              const std::string &what, const std::string &code = "NB0911");
/// Same for signed fields (a leading minus is legal).
Result<int64_t> jsonInteger(const Json &value, int64_t min, int64_t max, const std::string &what,
                            const std::string &code = "NB0911");
/// Finite number (integer or not).
Result<double> jsonNumber(const Json &value, const std::string &what,
                          const std::string &code = "NB0911");
/// Nonempty string without NUL.
Result<std::string> jsonIdentifier(const Json &value, const std::string &what,
                                   const std::string &code = "NB0911");
/// `value` is an object that has every member of `required`, and no member outside `required` and
/// `optional`.
Status jsonMembers(const Json &value, std::initializer_list<std::string_view> required,
                   std::initializer_list<std::string_view> optional, const std::string &what,
                   const std::string &code = "NB0911");
/// Adds a member that the object does not have yet, without the search that operator[] does:
/// building an object of n members stays linear.
void jsonAppend(Json &object, std::string name, Json value);

/// Short text of a value for messages (at most 80 bytes).
std::string jsonExcerpt(const Json &value);

} // namespace ninfer

#endif // NINFER_SUPPORT_JSON_H
