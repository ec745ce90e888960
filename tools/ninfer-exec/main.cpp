// ninfer-exec: runs a compiled plan. Chooses the command; everything else is in the files beside this one.
#include "tools/ninfer-exec/Options.h"

#include <cstring>
#include <exception>

using namespace ninfer;
using namespace ninfer::exec;

int main(int argc, char **argv) {
  markStart();
  installSignalHandlers();
  struct Command {
    const char *name;
    int (*run)(int, char **);
  };
  constexpr Command commands[] = {
      {"run", runCommand}, {"chat", chatCommand}, {"bench", benchCommand}, {"logits", logitsCommand}};
  try {
    if (argc > 1)
      for (const Command &command : commands)
        if (std::strcmp(argv[1], command.name) == 0)
          return command.run(argc - 1, argv + 1);
    return runCommand(argc, argv);
  } catch (const std::bad_alloc &) {
    return report(makeError(ErrorKind::OutOfMemory, "NB0642", "out of memory"));
  } catch (const std::exception &exception) {
    return report(makeError(ErrorKind::Failed, "NB0699", exception.what()));
  }
}
