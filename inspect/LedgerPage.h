// Where the bytes of an artifact go: every byte of every file is counted once. Reads no payload.
#ifndef NINFER_INSPECT_LEDGERPAGE_H
#define NINFER_INSPECT_LEDGERPAGE_H

#include "artifact/container/Reader.h"
#include "support/Json.h"

#include <cstdint>
#include <map>
#include <string>

namespace ninfer {

struct ArtifactLedger {
  struct Line {
    uint64_t objects = 0;
    uint64_t elements = 0;     ///< logical, each stored element once
    uint64_t codeBytes = 0;    ///< codes or direct words
    uint64_t scaleBytes = 0;   ///< scales and divisors
    uint64_t paddingBytes = 0; ///< padding lanes and groups, bytes between planes
    uint64_t bytes() const { return codeBytes + scaleBytes + paddingBytes; }
    void add(const Line &other);
    /// 8 * bytes / elements; 0 without elements.
    double bitsPerWeight() const { return elements ? 8.0 * double(bytes()) / double(elements) : 0; }
  };
  std::map<std::string, Line> formats; ///< by format name
  std::map<std::string, Line> roles;   ///< by role of the bound parameters (Names.h)
  Line quantized;                      ///< all formats but BF16, FP32 and I32
  Line tensors;                        ///< all of them
  uint64_t unknownBytes = 0;           ///< tensors whose format or layout is not registered
  uint64_t resources = 0, resourceBytes = 0;
  uint64_t gapBytes = 0;       ///< payload bytes that no object owns
  uint64_t directoryBytes = 0; ///< JSON text
  uint64_t framingBytes = 0;   ///< headers, and padding up to the payload of each file
  uint64_t files = 0;
  /// Of all files; the sum of tensors, unknownBytes, resourceBytes, gapBytes, directoryBytes and
  /// framingBytes.
  uint64_t fileBytes = 0;
};

/// Fails with NB0106 when an object of a registered format breaks the registry gates.
Result<ArtifactLedger> artifactLedger(const Artifact &artifact);
std::string ledgerText(const Artifact &artifact, const ArtifactLedger &ledger);
Json ledgerJson(const Artifact &artifact, const ArtifactLedger &ledger);

} // namespace ninfer

#endif // NINFER_INSPECT_LEDGERPAGE_H
