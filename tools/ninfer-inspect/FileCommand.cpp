// A file without a command: a plan is verified as the runtime verifies it before a word of it is
// printed, and so is the header of packed weights; an artifact is listed as `ls` lists it.
#include "inspect/List.h"
#include "schema/Describe.h"
#include "support/File.h"
#include "support/FileKind.h"
#include "tools/ninfer-inspect/Command.h"

#include <cstring>

namespace ninfer::inspect_tool {

namespace {

Result<std::string> planPage(const MappedFile &file, const std::string &name,
                             const Arguments &arguments, uint64_t threads) {
  auto view = PlanView::open(file.bytes(), name);
  if (!view.ok()) {
    Status status = view.takeStatus();
    if (status.error().code == "NB0501")
      status.note(name + " is " + describeFileKind(name))
          .help("ninfer-inspect reads plans of ninfer-build and .ninfer artifacts");
    return status;
  }
  std::string out;
  if (arguments.has("--kernels"))
    out += describeKernels(*view);
  if (arguments.has("--trace"))
    out += describeTrace(*view);
  if (arguments.has("--ledger"))
    out += describeLedger(*view, threads);
  return out.empty() ? describePlan(*view, name) : out;
}

Result<std::string> packedPage(const MappedFile &file, const std::string &name, bool hash) {
  NINFER_ASSIGN_OR_RETURN(const PackedHeader header, readPackedHeader(file.bytes(), name));
  std::string out = describePacked(header, name);
  if (hash) {
    file.advise(MappedFile::Access::Sequential);
    NINFER_RETURN_IF_ERROR(checkPackedContent(file.bytes(), header, name));
    out += "content     agrees: every byte is the one the header was written for\n";
  }
  return out;
}

Result<std::string> page(const Arguments &arguments) {
  NINFER_ASSIGN_OR_RETURN(const uint64_t threads, arguments.number("--threads", 1, 1, 1024));
  const std::string &name = arguments.positionals()[0];
  auto file = MappedFile::open(name);
  if (!file.ok()) {
    Status status = file.takeStatus();
    std::error_code ignored;
    if (std::filesystem::is_directory(name, ignored))
      status.note(name + " is a folder");
    return status;
  }
  const auto bytes = file->bytes();
  const bool packed = bytes.size() >= sizeof kPackedMagic && std::memcmp(bytes.data(), kPackedMagic, sizeof kPackedMagic) == 0;
  if (packed && !arguments.has("--kernels") && !arguments.has("--trace") && !arguments.has("--ledger"))
    return packedPage(*file, name, arguments.has("--hash"));
  if (arguments.has("--hash"))
    return usageError("", "--hash without a command is about packed weights, but " + name + " is " + describeFileKind(name));
  if (bytes.size() < 6 ||
      (std::memcmp(bytes.data(), "NINFER", 6) != 0 && std::memcmp(bytes.data(), "NINPRT", 6) != 0))
    return planPage(*file, name, arguments, threads);
  if (arguments.has("--kernels") || arguments.has("--trace") || arguments.has("--ledger"))
    return usageError("", "--kernels, --trace and --ledger are about plans, but " + name +
                              " is an artifact");
  NINFER_ASSIGN_OR_RETURN(const Artifact artifact, Artifact::open(name));
  return listText(artifact);
}

} // namespace

int runFile(std::span<char *const> args) {
  auto arguments = Arguments::parse(
      "", args,
      {{"--hash", false}, {"--kernels", false}, {"--trace", false}, {"--ledger", false}, {"-t/--threads", true}},
      {"file"});
  if (!arguments.ok())
    return fail(arguments.error());
  const auto text = page(*arguments);
  return text.ok() ? print(*text) : fail(text.error());
}

} // namespace ninfer::inspect_tool
