// ninfer-inspect diff: what differs between two artifacts.
#include "inspect/Difference.h"
#include "tools/ninfer-inspect/Command.h"

namespace ninfer::inspect_tool {

namespace {

const char kHelp[] = R"(usage: ninfer-inspect diff A.ninfer B.ninfer [--words] [options]

The directory member by member ("A, B"), then the stored words object by object: how many codes,
scales and padding bytes differ, by how much the represented values do, and where first. Objects of
equal shape and another format are compared by value.

      --words           objects only: not framing, ids, offsets, files, bindings, metadata
  -o, --output FORMAT   table (default) or json
  -t, --threads N       default: one per hardware thread, at most 16
      --progress MODE   auto (default), on, off, json
exit codes: 0 equal, 1 different or cannot write, 2 usage, 3 bad file, 5 unsupported,
            6 out of memory
)";

Result<ArtifactDifference> difference(const Arguments &arguments) {
  DiffOptions options;
  options.wordsOnly = arguments.has("--words");
  NINFER_ASSIGN_OR_RETURN(options.threads, arguments.threads());
  NINFER_ASSIGN_OR_RETURN(const ProgressMode mode, arguments.progress());
  NINFER_ASSIGN_OR_RETURN(const Artifact a, openArtifact(arguments.positionals()[0]));
  NINFER_ASSIGN_OR_RETURN(const Artifact b, openArtifact(arguments.positionals()[1]));
  Progress progress("diff", a.payloadBytes(), mode, Progress::Unit::Bytes);
  options.onBytes = [&](uint64_t bytes) { progress.add(bytes); };
  return diffArtifacts(a, b, options);
}

} // namespace

int runDiff(std::span<char *const> args) {
  auto arguments = Arguments::parse(
      "diff", args,
      {{"--words", false}, {"-o/--output", true}, {"-t/--threads", true}, {"--progress", true}},
      {"first artifact", "second artifact"});
  if (!arguments.ok())
    return fail(arguments.error());
  if (arguments->help())
    return print(kHelp);
  const auto output = arguments->choice("--output", {"table", "json"});
  if (!output.ok())
    return fail(output.error());
  const auto result = difference(*arguments);
  if (!result.ok())
    return fail(result.error());
  const int code = print(*output == "json" ? diffJson(*result).dump(1) + "\n" : diffText(*result));
  return code != 0 ? code : result->equal() ? 0 : 1;
}

} // namespace ninfer::inspect_tool
