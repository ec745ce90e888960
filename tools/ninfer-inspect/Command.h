// What the commands of ninfer-inspect share: the table of commands, their command lines, and how
// they print and fail. One file per command; the work is done in inspect/, artifact/container/ and
// schema/.
#ifndef NINFER_TOOLS_NINFER_INSPECT_COMMAND_H
#define NINFER_TOOLS_NINFER_INSPECT_COMMAND_H

#include "artifact/container/Reader.h"
#include "support/Progress.h"
#include "support/Status.h"

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer::inspect_tool {

/// One command. `run` gets the words behind the command's name and returns the exit code.
struct Command {
  const char *name;
  const char *summary; ///< one line for ninfer-inspect --help
  int (*run)(std::span<char *const> args);
};

// Every command; each answers --help itself.
int runLs(std::span<char *const> args);
int runShow(std::span<char *const> args);
int runDump(std::span<char *const> args);
int runVerify(std::span<char *const> args);
int runLedger(std::span<char *const> args);
int runDiff(std::span<char *const> args);
int runParity(std::span<char *const> args);
/// Without a command's name: the page of a plan, or the list of an artifact.
int runFile(std::span<char *const> args);

/// Prints the error on stderr; the exit code of its kind.
int fail(const Error &error);
/// Prints `text` on stdout; 0, or the code of NB0906.
int print(std::string_view text);
/// A failure to open the artifact at `path`; when the file is none, a note says what it is.
Status noteFileKind(Status status, const std::string &path);
/// Artifact::open with that note.
Result<Artifact> openArtifact(const std::string &path);
/// NB0900 with a pointer to `ninfer-inspect COMMAND --help`.
Error usageError(const std::string &command, const std::string &text);

/// One option: "--rows", or "-t/--threads" with a short form.
struct OptionSpec {
  const char *name;
  bool takesValue;
};

/// A parsed command line. Every option is given at most once.
class Arguments {
public:
  /// NB0900: unknown option, option given twice, missing or superfluous value, number of
  /// positionals outside [minFiles, maxFiles].
  static Result<Arguments> parse(const std::string &command, std::span<char *const> args,
                                 std::initializer_list<OptionSpec> options,
                                 std::initializer_list<const char *> positionals);

  bool has(const std::string &longName) const { return values_.count(longName) != 0; }
  /// -h or --help was given; nothing else was checked.
  bool help() const { return help_; }
  const std::vector<std::string> &positionals() const { return positionals_; }
  /// Value of an option, or `fallback`.
  std::string text(const std::string &longName, const std::string &fallback) const;
  /// NB0900 unless the value is one of `choices`; the first is the default.
  Result<std::string> choice(const std::string &longName,
                             std::initializer_list<const char *> choices) const;
  /// NB0900 unless the value is an integer in [min, max].
  Result<uint64_t> number(const std::string &longName, uint64_t fallback, uint64_t min,
                          uint64_t max) const;
  /// --threads, by default one per hardware thread, at most 16.
  Result<unsigned> threads() const;
  /// --progress auto|on|off|json.
  Result<ProgressMode> progress() const;

private:
  std::string command_;
  bool help_ = false;
  std::map<std::string, std::string> values_;
  std::vector<std::string> positionals_;
};

/// A command that prints one page: parses, answers --help with `help`, prints what `page` gives.
int runPage(const std::string &command, std::span<char *const> args,
            std::initializer_list<OptionSpec> options,
            std::initializer_list<const char *> positionals, const char *help,
            Result<std::string> (*page)(const Arguments &));

} // namespace ninfer::inspect_tool

#endif // NINFER_TOOLS_NINFER_INSPECT_COMMAND_H
