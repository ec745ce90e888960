// Command line options that several commands share, and the commands themselves.
#ifndef NINFER_TOOLS_NINFER_EXEC_OPTIONS_H
#define NINFER_TOOLS_NINFER_EXEC_OPTIONS_H

#include "tools/ninfer-exec/Generate.h"

#include <CLI/CLI.hpp>

namespace ninfer::exec {

void addCommonOptions(CLI::App &app, CommonOptions &options);
void addSpecOptions(CLI::App &app, CommonOptions &options);
void addPromptOptions(CLI::App &app, PromptOptions &options);
void addImageOption(CLI::App &app, std::vector<std::string> &files, const std::string &help);
void addGenerateOptions(CLI::App &app, GenerateOptions &options);

/// Parses; on success returns -1, otherwise the exit code (0 after --help, 2 for a wrong command line).
int parse(CLI::App &app, int argc, char **argv);

// Each runs one command and returns its exit code. argv[0] is the command.
int runCommand(int argc, char **argv);
int chatCommand(int argc, char **argv);
int benchCommand(int argc, char **argv);
int logitsCommand(int argc, char **argv);
int perplexityCommand(int argc, char **argv);
int embedCommand(int argc, char **argv);
int serveCommand(int argc, char **argv);

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_OPTIONS_H
