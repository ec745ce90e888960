// ninfer-inspect ledger: where the bytes go.
#include "inspect/LedgerPage.h"
#include "tools/ninfer-inspect/Command.h"

namespace ninfer::inspect_tool {

namespace {

const char kHelp[] = R"(usage: ninfer-inspect ledger MODEL.ninfer [-o table|json]

Every byte of every file, counted once: per format, per role, resources, gaps, directory, headers;
effective bits per weight with the rule of each figure. Reads the directory only.

  -o, --output FORMAT   table (default) or json
exit codes: 0 ok, 1 cannot write, 2 usage, 3 bad file, 5 unsupported, 6 out of memory
)";

Result<std::string> page(const Arguments &arguments) {
  NINFER_ASSIGN_OR_RETURN(const std::string output,
                          arguments.choice("--output", {"table", "json"}));
  NINFER_ASSIGN_OR_RETURN(const Artifact artifact, openArtifact(arguments.positionals()[0]));
  NINFER_ASSIGN_OR_RETURN(const ArtifactLedger ledger, artifactLedger(artifact));
  return output == "json" ? ledgerJson(artifact, ledger).dump(1) + "\n"
                          : ledgerText(artifact, ledger);
}

} // namespace

int runLedger(std::span<char *const> args) {
  return runPage("ledger", args, {{"-o/--output", true}}, {"artifact"}, kHelp, page);
}

} // namespace ninfer::inspect_tool
