// Reading the members of one source config object: which were looked at, which are missing or of
// the wrong type, and which change the mathematics and must be neutral.
#ifndef NINFER_CONVERT_CONFIGMEMBERS_H
#define NINFER_CONVERT_CONFIGMEMBERS_H

#include "support/Json.h"
#include "support/Status.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ninfer {

class ConfigMembers {
public:
  /// `path` starts every message about a member: "config.json: " or "config.json: text_config.".
  /// `object` must outlive the reader.
  ConfigMembers(const Json &object, std::string path) : object_(object), path_(std::move(path)) {}

  const Json &object() const { return object_; }
  /// Null when the member is absent or null. Counts as looked at either way.
  const Json *find(const char *name);
  std::string where(const char *name) const { return path_ + name; }

  /// Unsupported (NB0315) when the member is there and not `neutral`.
  Status refuseUnless(const char *name, const Json &neutral, const char *why);
  /// An integer in least..2^31-1, or `fallback` when the member is absent. BadFile (NB0314).
  Result<int64_t> integer(const char *name, std::optional<int64_t> fallback = std::nullopt,
                          int64_t least = 1);
  /// A finite number, or `fallback`. BadFile (NB0314).
  Result<double> number(const char *name, std::optional<double> fallback = std::nullopt);
  /// BadFile (NB0314).
  Result<bool> boolean(const char *name, bool fallback);

  /// Members not looked at and not in `neutral`, in the order of the file: "a, b".
  std::string unused(const std::set<std::string> &neutral) const;

private:
  const Json &object_;
  std::string path_;
  std::set<std::string> seen_;
};

/// Unsupported (NB0315).
Error unsupportedConfig(const std::string &fileName, const std::string &text);

} // namespace ninfer

#endif // NINFER_CONVERT_CONFIGMEMBERS_H
