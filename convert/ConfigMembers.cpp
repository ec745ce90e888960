#include "convert/ConfigMembers.h"

#include <limits>

namespace ninfer {

namespace {

const char *const kCode = "NB0314";

Error missing(const std::string &where) {
  return makeError(ErrorKind::BadFile, kCode, where + " is missing");
}

} // namespace

Error unsupportedConfig(const std::string &fileName, const std::string &text) {
  return makeError(ErrorKind::Unsupported, "NB0315", fileName + ": " + text);
}

const Json *ConfigMembers::find(const char *name) {
  seen_.insert(name);
  auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

Status ConfigMembers::refuseUnless(const char *name, const Json &neutral, const char *why) {
  const Json *value = find(name);
  if (!value || *value == neutral)
    return Status();
  return makeError(ErrorKind::Unsupported, "NB0315",
                   where(name) + " " + jsonExcerpt(*value) + ": " + why);
}

Result<int64_t> ConfigMembers::integer(const char *name, std::optional<int64_t> fallback,
                                       int64_t least) {
  const Json *value = find(name);
  if (!value && fallback)
    return *fallback;
  if (!value)
    return missing(where(name));
  return jsonInteger(*value, least, std::numeric_limits<int32_t>::max(), where(name), kCode);
}

Result<double> ConfigMembers::number(const char *name, std::optional<double> fallback) {
  const Json *value = find(name);
  if (!value && fallback)
    return *fallback;
  if (!value)
    return missing(where(name));
  return jsonNumber(*value, where(name), kCode);
}

Result<bool> ConfigMembers::boolean(const char *name, bool fallback) {
  const Json *value = find(name);
  if (!value)
    return fallback;
  if (!value->is_boolean())
    return makeError(ErrorKind::BadFile, kCode,
                     where(name) + " must be true or false, got " + jsonExcerpt(*value));
  return value->get<bool>();
}

std::string ConfigMembers::unused(const std::set<std::string> &neutral) const {
  std::string list;
  for (const auto &item : object_.items())
    if (!seen_.count(item.key()) && !neutral.count(item.key()))
      list += (list.empty() ? "" : ", ") + item.key();
  return list;
}

} // namespace ninfer
