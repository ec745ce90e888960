// ninfer-build: artifact -> plan. Report and IR go to standard output, everything else to standard
// error.
#include "tools/ninfer-build/Options.h"

#include "support/StandardStreams.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <unistd.h>

using namespace ninfer;

namespace {

volatile std::sig_atomic_t interrupts = 0;

/// The first signal asks the build to stop at its next step; a second one ends the process at once.
/// Until the plan is complete it has no name on disk, so both leave nothing behind.
void onSignal(int) {
  interrupts = interrupts + 1;
  if (interrupts > 1)
    _exit(static_cast<int>(ErrorKind::Interrupted));
}

void installHandlers() {
  struct sigaction action {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigset_t stopping; // a caller may have handed them over blocked
  sigemptyset(&stopping);
  sigaddset(&stopping, SIGINT);
  sigaddset(&stopping, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &stopping, nullptr);
  // A file size limit then shows as a write error with a message.
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);
}

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

/// Of the default cache, after a build: some thousand kernels.
constexpr uint64_t kMostCacheBytes = uint64_t(512) << 20;

/// The user's cache, if there can be one. A build does not need it, so why it is left out is a note.
void useDefaultCache(CachePlace &cache) {
  const std::string directory = defaultCacheDirectory();
  if (directory.empty())
    return; // no home: nothing to say to a daemon
  if (const std::string why = prepareDefaultCache(directory); !why.empty()) {
    std::fprintf(stderr, "note: no cache of compiled kernels in %s: %s (--cache DIR or --cache off)\n", directory.c_str(), why.c_str());
    return;
  }
  cache = {directory, true};
}

int runBuild(CommandLine &line) {
  BuildOptions &options = line.build;
  if (line.defaultCache)
    useDefaultCache(options.cache);
  options.cancelled = [] { return interrupts != 0; };
  bool emitFailed = false;
  options.emit = [&](const std::string &target, const std::string &ir) {
    emitFailed |= print("// target: " + target + "\n" + ir) != 0;
  };
  auto report = build(options);
  if (!report.ok())
    return fail(report.error());
  // Looking at every file of the cache is only worth it after a build that may have added some.
  const bool compiled = std::any_of(report->targets.begin(), report->targets.end(), [](const TargetReport &target) {
    return target.codeBytes > 0 && target.cacheHits < target.kernels.size();
  });
  if (line.defaultCache && !options.cache.directory.empty() && compiled)
    trimCache(options.cache.directory, kMostCacheBytes);
  int code = emitFailed ? 1 : 0;
  if (report->planBytes == 0) // only the IR was asked for
    return code;
  if (line.explain)
    code |= line.report == CommandLine::Report::Json ? 0 : print(report->explain);
  if (line.report == CommandLine::Report::Json)
    code |= print(reportJson(*report, line.explain));
  else if (line.report == CommandLine::Report::Text && options.emitStage.empty())
    code |= print(reportText(*report));
  return code;
}

} // namespace

int main(int argc, char **argv) {
  reserveStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a file size limit is an error of the write, not the end
  installHandlers();
  std::set_new_handler([] {
    std::fputs("error[NB0909]: out of memory\n", stderr);
    _exit(static_cast<int>(ErrorKind::OutOfMemory));
  });
  auto line = parseCommandLine(argc, argv);
  if (!line.ok())
    return fail(line.error());
  if (line->help)
    return print(kUsage);
  if (line->version)
    return print("ninfer-build 0.1.0\n");
  return runBuild(*line);
}
