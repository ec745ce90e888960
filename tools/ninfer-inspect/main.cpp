// ninfer-inspect: says what a plan or an artifact holds. A plan is verified before a word of it is
// printed.
#include "schema/Describe.h"
#include "support/File.h"
#include "support/FileKind.h"
#include "tools/ninfer-inspect/ListArtifact.h"

#include <charconv>
#include <cstdio>
#include <cstring>

using namespace ninfer;

namespace {

const char kUsage[] =
    R"(usage: ninfer-inspect PLAN.bin [--kernels] [--trace] [--ledger] [-t THREADS]
       ninfer-inspect MODEL.ninfer

A plan: model, artifact, targets, provenance (no option), or
  --kernels        one line per kernel
  --trace          every operation, its kernel, why, and the rejected candidates
  --ledger         memory of one context for THREADS threads (default 1)
An artifact: components and objects.
  -h, --help   --version

exit codes: 0 ok, 1 failed, 2 usage, 3 bad file, 4 plan of another version
)";

int fail(const Error &error) {
  std::fputs(error.render().c_str(), stderr);
  return static_cast<int>(error.kind);
}

int print(const std::string &text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return fail(makeError(ErrorKind::Failed, "NB0906",
                          std::string("standard output: ") + std::strerror(errno)));
  return 0;
}

struct Request {
  std::string file;
  bool kernels = false, trace = false, ledger = false;
  uint64_t threads = 1;
};

int usage(const std::string &text) {
  Error error = makeError(ErrorKind::Usage, "NB0900", text);
  error.help.push_back("ninfer-inspect --help lists the options");
  return fail(error);
}

int inspectPlan(const MappedFile &file, const Request &request) {
  auto view = PlanView::open(file.bytes(), request.file);
  if (!view.ok()) {
    Status status = view.takeStatus();
    if (status.error().code == "NB0501")
      status.note(request.file + " is " + describeFileKind(request.file))
          .help("ninfer-inspect reads plans of ninfer-build and .ninfer artifacts");
    return fail(status.error());
  }
  std::string out;
  if (request.kernels)
    out += describeKernels(*view);
  if (request.trace)
    out += describeTrace(*view);
  if (request.ledger)
    out += describeLedger(*view, request.threads);
  if (!request.kernels && !request.trace && !request.ledger)
    out = describePlan(*view, request.file);
  return print(out);
}

int inspect(const Request &request) {
  auto file = MappedFile::open(request.file);
  if (!file.ok()) {
    Status status = file.takeStatus();
    std::error_code ignored;
    if (std::filesystem::is_directory(request.file, ignored))
      status.note(request.file + " is a folder");
    return fail(status.error());
  }
  const auto bytes = file->bytes();
  if (bytes.size() >= 6 && std::memcmp(bytes.data(), "NINFER", 6) == 0) {
    if (request.kernels || request.trace || request.ledger)
      return usage("--kernels, --trace and --ledger are about plans, but " + request.file +
                   " is an artifact");
    auto text = listArtifact(request.file);
    return text.ok() ? print(*text) : fail(text.error());
  }
  return inspectPlan(*file, request);
}

} // namespace

int main(int argc, char **argv) {
  Request request;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "-h" || arg == "--help")
      return print(kUsage);
    if (arg == "--version")
      return print("ninfer-inspect 0.1.0\n");
    if (arg == "--kernels")
      request.kernels = true;
    else if (arg == "--trace")
      request.trace = true;
    else if (arg == "--ledger")
      request.ledger = true;
    else if (arg == "-t" || arg == "--threads") {
      const std::string text = i + 1 < argc ? argv[++i] : "";
      const auto [end, error] =
          std::from_chars(text.data(), text.data() + text.size(), request.threads);
      if (error != std::errc() || end != text.data() + text.size() || request.threads < 1 ||
          request.threads > 1024)
        return usage("option " + arg + ": expected an integer from 1 to 1024, got '" + text + "'");
    } else if (arg.size() > 1 && arg[0] == '-')
      return usage("unknown option " + arg);
    else if (request.file.empty())
      request.file = arg;
    else
      return usage("two files given: '" + request.file + "' and '" + arg + "'");
  }
  if (request.file.empty())
    return usage("no file given");
  return inspect(request);
}
