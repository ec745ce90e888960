// What may become the output of a conversion or an upgrade: checks of the name that cost nothing and
// come before any work.
#ifndef NINFER_CONVERT_OUTPUT_H
#define NINFER_CONVERT_OUTPUT_H

#include "support/Status.h"

#include <filesystem>

namespace ninfer {

/// Usage (NB0904): the file system holds no name that long, neither the artifact's own nor, with
/// `inParts`, those of its parts.
Status checkOutputName(const std::filesystem::path &output, bool inParts);

/// Usage (NB0905): without `force` the output must not exist; with it only the entry file of a
/// .ninfer artifact or an empty file is replaced, so that a slip on the command line costs no
/// source.
Status checkOutputReplaceable(const std::filesystem::path &output, bool force);

} // namespace ninfer

#endif // NINFER_CONVERT_OUTPUT_H
