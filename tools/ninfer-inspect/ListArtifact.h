// What ninfer-inspect prints about a .ninfer artifact.
#ifndef NINFER_TOOLS_NINFER_INSPECT_LISTARTIFACT_H
#define NINFER_TOOLS_NINFER_INSPECT_LISTARTIFACT_H

#include "support/Status.h"

#include <filesystem>
#include <string>

namespace ninfer {

/// Opens (framing and directory gates; the payload is not read) and lists components and objects.
Result<std::string> listArtifact(const std::filesystem::path &path);

} // namespace ninfer

#endif // NINFER_TOOLS_NINFER_INSPECT_LISTARTIFACT_H
