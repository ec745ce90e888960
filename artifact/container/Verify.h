// Content verification: scans every code, scale, divisor and padding byte of an artifact against
// the rules of its format and layout. open() never does this; the writer does before publishing,
// and tools on request.
#ifndef NINFER_ARTIFACT_CONTAINER_VERIFY_H
#define NINFER_ARTIFACT_CONTAINER_VERIFY_H

#include "artifact/container/Directory.h"
#include "support/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ninfer {

class Artifact;

/// One broken rule. Row, group and lane are present where the rule is about one.
struct Finding {
  std::string object;
  std::string rule;    ///< id of docs/formats.md, such as "w8-code-range"
  std::string message; ///< expected and actual
  std::optional<uint64_t> row, group, lane;

  /// "object 'x': row 3, group 1: scale 0x8000 is negative [scale-sign]"
  std::string text() const;
};

struct VerifyReport {
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t violations = 0;       ///< all of them
  std::vector<Finding> findings; ///< the first VerifyOptions::maxFindings
  bool ok() const { return violations == 0; }
};

struct VerifyOptions {
  size_t maxFindings = 20;
  /// Called with the number of payload bytes scanned since the last call.
  std::function<void(uint64_t)> onBytes;
};

/// Scans the whole artifact. Fails (NB0106) when an object does not pass the registry gates; broken
/// content is reported, not failed.
Result<VerifyReport> verifyArtifact(const Artifact &artifact, const VerifyOptions &options = {});

/// Scans the encoded bytes of one object and adds to `report`.
Status verifyObject(const ObjectEntry &object, std::span<const std::byte> bytes,
                    const VerifyOptions &options, VerifyReport &report);

/// Error (NB0109, BadFile) that quotes the first findings, for callers that want failure.
Status verifyReportStatus(const VerifyReport &report, const std::string &fileName);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_VERIFY_H
