// ninfer-convert upgrade OLD NEW: an artifact in another framing or other file sizes.
#ifndef NINFER_TOOLS_NINFER_CONVERT_UPGRADECOMMAND_H
#define NINFER_TOOLS_NINFER_CONVERT_UPGRADECOMMAND_H

#include <functional>

namespace ninfer {

/// `argv[0]` is "upgrade". `cancelled` as in UpgradeOptions. Returns the exit code.
int runUpgrade(int argc, char **argv, const std::function<bool()> &cancelled);

} // namespace ninfer

#endif // NINFER_TOOLS_NINFER_CONVERT_UPGRADECOMMAND_H
