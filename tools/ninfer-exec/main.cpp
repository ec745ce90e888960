// ninfer-exec: runs a compiled plan. Chooses the command; everything else is in the files beside this one.
#include "tools/ninfer-exec/Options.h"

#include "support/StandardStreams.h"

#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>

using namespace ninfer;
using namespace ninfer::exec;

int main(int argc, char **argv) {
  reserveStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a file size limit is an error of the write, not the end
  markStart();
  installSignalHandlers();
  struct Command {
    const char *name;
    int (*run)(int, char **);
  };
  constexpr Command commands[] = {
      {"run", runCommand},       {"chat", chatCommand},   {"serve", serveCommand},
      {"bench", benchCommand},   {"logits", logitsCommand}, {"perplexity", perplexityCommand},
      {"embed", embedCommand}};
  try {
    if (argc > 1)
      for (const Command &command : commands)
        if (std::strcmp(argv[1], command.name) == 0)
          return command.run(argc - 1, argv + 1);
    // A word that is no file is most likely a command spelled wrong; a path or a name with a dot is a plan.
    std::error_code ignored;
    if (argc > 1 && argv[1][0] != '-' && !std::strpbrk(argv[1], "/.") && !std::filesystem::exists(argv[1], ignored)) {
      std::string names;
      for (const Command &command : commands)
        names += (names.empty() ? "" : ", ") + std::string(command.name);
      return report(makeError(ErrorKind::Usage, "NB0900",
                              "no command or plan '" + std::string(argv[1]) + "'; commands: " + names));
    }
    return runCommand(argc, argv);
  } catch (const std::bad_alloc &) {
    return report(makeError(ErrorKind::OutOfMemory, "NB0642", "out of memory"));
  } catch (const std::exception &exception) {
    return report(makeError(ErrorKind::Failed, "NB0699", exception.what()));
  }
}
