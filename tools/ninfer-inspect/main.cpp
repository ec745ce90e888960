// ninfer-inspect: says what a plan or an artifact holds, and whether it is sound. The table of
// commands; a first word that is no command is a file.
#include "tools/ninfer-inspect/Command.h"

#include "support/StandardStreams.h"

#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>

using namespace ninfer;
using namespace ninfer::inspect_tool;

namespace {

constexpr Command kCommands[] = {
    {"ls", "components, parameters, objects, files", runLs},
    {"show", "one object: geometry, uses, provenance, statistics", runShow},
    {"dump", "codes, scales and values of rows; bytes of a resource", runDump},
    {"verify", "scan every code, scale and padding byte; SHA-256 manifest", runVerify},
    {"ledger", "bytes per format and role, bits per weight", runLedger},
    {"diff", "directory and word differences of two artifacts", runDiff},
    {"parity", "levels 0 to 2 against the source checkpoint", runParity},
};

std::string helpText() {
  std::string out = R"(usage: ninfer-inspect COMMAND MODEL.ninfer ... [options]
       ninfer-inspect PLAN.bin [--kernels] [--trace] [--ledger] [-t THREADS]
       ninfer-inspect PACKED.bin [--hash]

Commands on artifacts (ninfer-inspect COMMAND --help):
)";
  for (const Command &command : kCommands) {
    std::string name = command.name;
    name.resize(10, ' ');
    out += "  " + name + command.summary + "\n";
  }
  return out + R"(
A plan, told from its first bytes: model, artifact, targets, provenance (no option), or
  --kernels     one line per kernel
  --trace       every operation, its kernel, why, and the rejected candidates
  --ledger      memory of one context for THREADS threads (default 1)
An artifact without a command: as ls. Packed weights of ninfer-build --prepack: header and sections, or
  --hash        read all of it: SHA-256 of every section, zeros between them

  -h, --help   --version

exit codes: 0 ok (diff: equal), 1 failed (diff: different), 2 usage, 3 bad file or content,
            4 plan of another version, 5 unsupported, 6 out of memory, 8 parity found faults,
            130 interrupted
)";
}

/// A first word that is neither a command nor meant as a file: nothing of that name is there, and
/// it is a bare word, or more words follow it.
bool isUnknownCommand(std::span<char *const> args) {
  if (args.empty())
    return false;
  const std::string_view word = args[0];
  std::error_code ignored;
  if (word.empty() || word[0] == '-' || word.find('/') != std::string_view::npos ||
      std::filesystem::exists(word, ignored))
    return false;
  return word.find('.') == std::string_view::npos || (args.size() > 1 && args[1][0] != '-');
}

int unknownCommand(const std::string &word) {
  Error error = usageError("", "unknown command '" + word + "'");
  error.notes.push_back("there is no file of that name either");
  std::string names;
  for (const Command &command : kCommands)
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  error.help.push_back("the commands are " + names);
  return fail(error);
}

} // namespace

int main(int argc, char **argv) {
  reserveStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a file size limit is an error of the write, not the end
  const std::span<char *const> args(argv + (argc > 0), size_t(argc > 0 ? argc - 1 : 0));
  if (!args.empty())
    for (const Command &command : kCommands)
      if (std::strcmp(args[0], command.name) == 0)
        return command.run(args.subspan(1));
  for (const char *arg : args) {
    if (std::strcmp(arg, "-h") == 0 || std::strcmp(arg, "--help") == 0)
      return print(helpText());
    if (std::strcmp(arg, "--version") == 0)
      return print("ninfer-inspect " NINFER_VERSION "\n");
  }
  return isUnknownCommand(args) ? unknownCommand(args[0]) : runFile(args);
}
