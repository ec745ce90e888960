// ninfer-inspect ls: the directory of an artifact.
#include "inspect/List.h"
#include "tools/ninfer-inspect/Command.h"

namespace ninfer::inspect_tool {

namespace {

const char kHelp[] = R"(usage: ninfer-inspect ls MODEL.ninfer [-o table|json]

Lists files, components with their resources, parameters and objects. Reads the directory only.

  -o, --output FORMAT   table (default) or json
exit codes: 0 ok, 1 cannot write, 2 usage, 3 bad file, 5 unsupported, 6 out of memory
)";

Result<std::string> page(const Arguments &arguments) {
  NINFER_ASSIGN_OR_RETURN(const std::string output,
                          arguments.choice("--output", {"table", "json"}));
  NINFER_ASSIGN_OR_RETURN(const Artifact artifact, openArtifact(arguments.positionals()[0]));
  return output == "json" ? listJson(artifact).dump(1) + "\n" : listText(artifact);
}

} // namespace

int runLs(std::span<char *const> args) {
  return runPage("ls", args, {{"-o/--output", true}}, {"artifact"}, kHelp, page);
}

} // namespace ninfer::inspect_tool
