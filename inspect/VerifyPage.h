// The report of artifact/container/Verify.h as a page and as JSON.
#ifndef NINFER_INSPECT_VERIFYPAGE_H
#define NINFER_INSPECT_VERIFYPAGE_H

#include "artifact/container/Reader.h"
#include "artifact/container/Verify.h"
#include "support/Json.h"

#include <string>

namespace ninfer {

/// One line per fault (object, row, group, lane, byte, rule, what), then what was scanned.
std::string verifyText(const Artifact &artifact, const VerifyReport &report, double seconds);
/// Without the time, so that equal artifacts give equal text.
Json verifyJson(const Artifact &artifact, const VerifyReport &report);

} // namespace ninfer

#endif // NINFER_INSPECT_VERIFYPAGE_H
