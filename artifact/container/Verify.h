// Content verification: scans every code, scale, divisor and padding byte of an artifact against
// the rules of its format and layout (docs/formats.md). open() never does this; the writer does
// before publishing, and tools on request.
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
  /// First byte of the broken word, from the start of the object ("payload-gap": of the payload).
  uint64_t byte = 0;

  /// "object 'x', row 3, group 1: scale 0x8000 is negative [f16-scale]"
  std::string text() const;
};

struct VerifyReport {
  uint64_t objects = 0;
  uint64_t bytes = 0;            ///< payload bytes judged
  uint64_t scanned = 0;          ///< those read; of the rest every possible value is legal
  uint64_t violations = 0;       ///< all of them, unless `stopped`
  bool stopped = false;          ///< maxFindings reached with stopEarly: the rest was not scanned
  std::vector<Finding> findings; ///< the first VerifyOptions::maxFindings in payload order
  bool ok() const { return violations == 0; }
};

struct VerifyOptions {
  size_t maxFindings = 20;
  /// Stop when maxFindings are found. The findings are the same first ones either way.
  bool stopEarly = false;
  unsigned threads = 1;
  /// Called with the number of payload bytes judged since the last call; from several threads at
  /// once when `threads` > 1.
  std::function<void(uint64_t)> onBytes;
  /// Asked between blocks of about 1 MiB; true ends the scan with NB0125.
  std::function<bool()> cancelled;
};

/// Scans the whole artifact, gaps between objects included. Fails with NB0106 when an object does
/// not pass the registry gates, with what Artifact::object() says when a part cannot be read, and
/// with NB0125 (Interrupted). Broken content is reported, not failed. Report and findings do not
/// depend on the number of threads (with `stopped`: the findings).
Result<VerifyReport> verifyArtifact(const Artifact &artifact, const VerifyOptions &options = {});

/// Scans the encoded bytes of one object on the calling thread and adds to `report`.
Status verifyObject(const ObjectEntry &object, std::span<const std::byte> bytes,
                    const VerifyOptions &options, VerifyReport &report);

/// Error (NB0109, BadFile) that quotes the first findings, for callers that want failure.
Status verifyReportStatus(const VerifyReport &report, const std::string &fileName);

} // namespace ninfer

#endif // NINFER_ARTIFACT_CONTAINER_VERIFY_H
