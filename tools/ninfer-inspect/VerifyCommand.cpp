// ninfer-inspect verify: the content against the rules of its formats, and against a side manifest.
#include "artifact/container/Manifest.h"
#include "artifact/container/Verify.h"
#include "inspect/Names.h"
#include "inspect/VerifyPage.h"
#include "tools/ninfer-inspect/Command.h"

#include <atomic>
#include <chrono>
#include <csignal>

namespace ninfer::inspect_tool {

namespace {

const char kHelp[] = R"(usage: ninfer-inspect verify MODEL.ninfer [--hash write|check] [options]

Scans every code, scale, divisor and padding byte against the rules of its format and layout. A
fault is named by object, row, group, lane, byte and rule; the first one ends the scan, unless:
      --max-faults N    list the first N faults (1 to 1000000)
      --keep-going      scan everything, count all faults, list the first 1000 (or N)
      --hash write      when the content is sound, write MODEL.ninfer.manifest.json: SHA-256 of
                        every object, the directory and every file
      --hash check      compare with that manifest too
  -o, --output FORMAT   table (default) or json
  -t, --threads N       default: one per hardware thread, at most 16
      --progress MODE   auto (default), on, off, json
exit codes: 0 sound, 1 cannot write, 2 usage, 3 bad file, content or digest, 5 unsupported,
            6 out of memory, 130 interrupted
)";

std::atomic<bool> interrupted = false;

/// The first Ctrl-C asks to stop, the second ends the process.
void onInterrupt(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);
}

struct Request {
  std::string output, hash;
  VerifyOptions verify;
  ProgressMode progress = ProgressMode::Auto;
};

Result<Request> request(const Arguments &arguments) {
  Request out;
  NINFER_ASSIGN_OR_RETURN(out.output, arguments.choice("--output", {"table", "json"}));
  if (arguments.has("--hash")) {
    NINFER_ASSIGN_OR_RETURN(out.hash, arguments.choice("--hash", {"write", "check"}));
  }
  const bool keepGoing = arguments.has("--keep-going");
  NINFER_ASSIGN_OR_RETURN(out.verify.maxFindings,
                          arguments.number("--max-faults", keepGoing ? 1000 : 1, 1, 1000000));
  out.verify.stopEarly = !keepGoing;
  NINFER_ASSIGN_OR_RETURN(out.verify.threads, arguments.threads());
  NINFER_ASSIGN_OR_RETURN(out.progress, arguments.progress());
  out.verify.cancelled = [] { return interrupted.load(); };
  return out;
}

Status hash(const Artifact &artifact, const Request &request) {
  Progress progress(request.hash == "write" ? "hash" : "check hashes", manifestWork(artifact),
                    request.progress, Progress::Unit::Bytes);
  ManifestOptions options;
  options.threads = request.verify.threads;
  options.maxFindings = std::max<size_t>(20, request.verify.maxFindings);
  options.onBytes = [&](uint64_t bytes) { progress.add(bytes); };
  options.cancelled = request.verify.cancelled;
  return request.hash == "write" ? writeManifest(artifact, NINFER_VERSION, options)
                                 : checkManifest(artifact, options);
}

int verify(const std::string &file, const Request &request) {
  auto artifact = openArtifact(file);
  if (!artifact.ok())
    return fail(artifact.error());
  artifact->advise(MappedFile::Access::Sequential);
  VerifyOptions options = request.verify;
  const auto start = std::chrono::steady_clock::now();
  Result<VerifyReport> report = [&] {
    Progress progress("verify", artifact->payloadBytes(), request.progress, Progress::Unit::Bytes);
    options.onBytes = [&](uint64_t bytes) { progress.add(bytes); };
    return verifyArtifact(*artifact, options);
  }();
  if (!report.ok())
    return fail(report.error());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Status hashed;
  Json json = verifyJson(*artifact, *report);
  std::string text = verifyText(*artifact, *report, seconds);
  const bool writes = request.hash == "write";
  if (writes ? report->ok() : !request.hash.empty()) {
    hashed = hash(*artifact, request);
    const std::string path = manifestPath(artifact->path()).string();
    const std::string state = !writes       ? manifestState(*artifact, hashed)
                              : hashed.ok() ? "written"
                                            : "not written";
    json["manifest"] = {
        {"path", path}, {"action", request.hash}, {"ok", hashed.ok()}, {"state", state}};
    text += "manifest    " + state + ": " + path + "\n";
  }
  if (const int code = print(request.output == "json" ? json.dump(1) + "\n" : text))
    return code;
  int code = 0;
  if (!report->ok()) {
    const std::string count = std::to_string(report->violations);
    const size_t listed = report->findings.size();
    Status status = makeError(
        ErrorKind::BadFile, "NB0109",
        file + ": content breaks " +
            (report->stopped
                 ? "the rules of its formats; stopped at the first " +
                       (listed == 1 ? "fault" : std::to_string(listed) + " faults") +
                       ", --keep-going lists more"
                 : count + (report->violations == 1 ? " rule" : " rules") + " of its formats"));
    if (request.hash == "write")
      status.note("no manifest is written for such content");
    code = fail(status.error());
  }
  if (!hashed.ok())
    code = fail(hashed.error());
  return code;
}

} // namespace

int runVerify(std::span<char *const> args) {
  auto arguments = Arguments::parse("verify", args,
                                    {{"--max-faults", true},
                                     {"--keep-going", false},
                                     {"--hash", true},
                                     {"-o/--output", true},
                                     {"-t/--threads", true},
                                     {"--progress", true}},
                                    {"artifact"});
  if (!arguments.ok())
    return fail(arguments.error());
  if (arguments->help())
    return print(kHelp);
  const auto wanted = request(*arguments);
  if (!wanted.ok())
    return fail(wanted.error());
  std::signal(SIGINT, onInterrupt);
  std::signal(SIGTERM, onInterrupt);
  return verify(arguments->positionals()[0], *wanted);
}

} // namespace ninfer::inspect_tool
