// ninfer-inspect show: everything about one object.
#include "inspect/Names.h"
#include "inspect/Show.h"
#include "tools/ninfer-inspect/Command.h"

namespace ninfer::inspect_tool {

namespace {

const char kHelp[] = R"(usage: ninfer-inspect show MODEL.ninfer OBJECT [-o table|json] [-t THREADS]

Place, planes, padding, parameters and uses, provenance, SHA-256, and statistics of the words of
one object. OBJECT is an object id, or a parameter that is bound to one object.

  -o, --output FORMAT   table (default) or json
  -t, --threads N       default: one per hardware thread, at most 16
exit codes: 0 ok, 1 cannot write, 2 usage or no such object, 3 bad file, 5 unsupported,
            6 out of memory
)";

Result<std::string> page(const Arguments &arguments) {
  NINFER_ASSIGN_OR_RETURN(const std::string output,
                          arguments.choice("--output", {"table", "json"}));
  NINFER_ASSIGN_OR_RETURN(const unsigned threads, arguments.threads());
  NINFER_ASSIGN_OR_RETURN(const Artifact artifact, openArtifact(arguments.positionals()[0]));
  NINFER_ASSIGN_OR_RETURN(const size_t index,
                          findObjectByName(artifact, arguments.positionals()[1]));
  NINFER_ASSIGN_OR_RETURN(const Json json, showJson(artifact, index, threads));
  return output == "json" ? json.dump(1) + "\n" : showText(json);
}

} // namespace

int runShow(std::span<char *const> args) {
  return runPage("show", args, {{"-o/--output", true}, {"-t/--threads", true}}, {"artifact", "object"}, kHelp, page);
}

} // namespace ninfer::inspect_tool
