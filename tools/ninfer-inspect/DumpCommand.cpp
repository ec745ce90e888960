// ninfer-inspect dump: stored words of rows and columns, or the bytes of a resource.
#include "inspect/Dump.h"
#include "inspect/Names.h"
#include "tools/ninfer-inspect/Command.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ninfer::inspect_tool {

namespace {

const char kHelp[] =
    R"(usage: ninfer-inspect dump MODEL.ninfer OBJECT [--rows A:B] [--columns C:D] [options]

Codes, scales and represented values of rows A to B-1 (default 0:1). A resource goes to standard
output byte for byte. OBJECT is an object id, or a parameter that is bound to one object.

      --rows A:B        also A, A: and :B
      --columns C:D     default: all
      --codes           codes and scales only
      --values          represented values only
      --hex             words in hexadecimal: exact codes, scales, and binary32 of the values
  -o, --output FORMAT   table (default), csv (one line per element) or json
exit codes: 0 ok, 1 cannot write, 2 usage, no such object, row or column, 3 bad file,
            5 unsupported, 6 out of memory
)";

Result<DumpRequest> request(const Arguments &arguments) {
  DumpRequest out;
  if (arguments.has("--rows")) {
    NINFER_ASSIGN_OR_RETURN(out.rows, parseSpan(arguments.text("--rows", ""), "--rows"));
  }
  if (arguments.has("--columns")) {
    NINFER_ASSIGN_OR_RETURN(out.columns, parseSpan(arguments.text("--columns", ""), "--columns"));
  }
  const bool codes = arguments.has("--codes"), values = arguments.has("--values");
  out.codes = codes || !values;
  out.values = values || !codes;
  out.hex = arguments.has("--hex");
  NINFER_ASSIGN_OR_RETURN(const std::string output,
                          arguments.choice("--output", {"table", "csv", "json"}));
  out.output = output == "csv"    ? DumpRequest::Output::Csv
               : output == "json" ? DumpRequest::Output::Json
                                  : DumpRequest::Output::Table;
  return out;
}

Status dump(const Arguments &arguments) {
  NINFER_ASSIGN_OR_RETURN(const DumpRequest wanted, request(arguments));
  NINFER_ASSIGN_OR_RETURN(const Artifact artifact, openArtifact(arguments.positionals()[0]));
  NINFER_ASSIGN_OR_RETURN(const size_t index,
                          findObjectByName(artifact, arguments.positionals()[1]));
  const auto failed = [] {
    return makeError(ErrorKind::Failed, "NB0906",
                     std::string("standard output: ") + std::strerror(errno));
  };
  NINFER_RETURN_IF_ERROR(dumpObject(artifact, index, wanted, [&](std::string_view text) -> Status {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
      return failed();
    return {};
  }));
  if (std::fflush(stdout) != 0)
    return failed();
  return {};
}

} // namespace

int runDump(std::span<char *const> args) {
  auto arguments = Arguments::parse("dump", args,
                                    {{"--rows", true},
                                     {"--columns", true},
                                     {"--codes", false},
                                     {"--values", false},
                                     {"--hex", false},
                                     {"-o/--output", true}},
                                    {"artifact", "object"});
  if (!arguments.ok())
    return fail(arguments.error());
  if (arguments->help())
    return print(kHelp);
  const Status status = dump(*arguments);
  return status.ok() ? 0 : fail(status.error());
}

} // namespace ninfer::inspect_tool
