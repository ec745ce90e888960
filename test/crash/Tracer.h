// Runs a program under ptrace and asks a hook at every system call, before and after: go on, kill,
// fail the call, or shorten it. Linux; failing and shortening on x86-64.
#ifndef NINFER_TEST_CRASH_TRACER_H
#define NINFER_TEST_CRASH_TRACER_H

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ninfer::test {

/// One stop. At entry the call has not happened, at exit it has.
struct SystemCall {
  pid_t task = 0;
  bool entry = true;
  long number = 0;            ///< known at entry; at exit that of the entry
  uint64_t arguments[6] = {}; ///< as at entry
  int64_t result = 0;         ///< at exit

  /// True when a pointer argument (first or second) names a path that contains `part`.
  bool names(const std::string &part) const;
};

struct Decision {
  enum class Act { Go, Kill, Fail, Shorten } act = Act::Go;
  int error = 0; ///< Fail: what the program sees in errno
};

struct Ended {
  bool killed = false; ///< by a decision
  int code = -1;       ///< exit code; -signal when a signal ended the program
  size_t stops = 0;    ///< entries and exits seen
};

using TraceHook = std::function<Decision(const SystemCall &call, size_t stop)>;

/// Standard output and error go to files. Throws std::runtime_error when tracing is refused.
Ended trace(const std::vector<std::string> &command, const std::filesystem::path &out,
            const std::filesystem::path &err, const TraceHook &hook);

/// Empty when ptrace works here, else the reason.
std::string whyNoTracing();

/// Runs without tracing and kills after `microseconds` (never when 0).
Ended runAndKillAfter(const std::vector<std::string> &command, const std::filesystem::path &out,
                      const std::filesystem::path &err, uint64_t microseconds);

/// "pwrite64", or the number.
std::string systemCallName(long number);

} // namespace ninfer::test

#endif // NINFER_TEST_CRASH_TRACER_H
