// Command line of ninfer-build.
#ifndef NINFER_TOOLS_NINFER_BUILD_OPTIONS_H
#define NINFER_TOOLS_NINFER_BUILD_OPTIONS_H

#include "compiler/Compiler.h"

#include <string>

namespace ninfer {

struct CommandLine {
  BuildOptions build;
  enum class Report { Text, Json, None } report = Report::Text;
  bool defaultCache = true; ///< no --cache was given
  bool explain = false;
  bool dryRun = false;
  bool help = false;
  bool version = false;
};

extern const char kUsage[];

/// NB0900 (Usage) names the argument and what was expected.
Result<CommandLine> parseCommandLine(int argc, const char *const *argv);

} // namespace ninfer

#endif // NINFER_TOOLS_NINFER_BUILD_OPTIONS_H
