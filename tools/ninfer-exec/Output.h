// The answer goes to stdout, everything else to stderr. Writes are complete or reported: a reader that closed
// the pipe is not an error of ours, a full disk is.
#ifndef NINFER_TOOLS_NINFER_EXEC_OUTPUT_H
#define NINFER_TOOLS_NINFER_EXEC_OUTPUT_H

#include "support/Status.h"
#include "tools/ninfer-exec/Session.h"

#include <string>
#include <string_view>

namespace ninfer::exec {

class Output {
public:
  /// Writes all of `text` to stdout now. NB0906 when the system refuses. After the reader closed the pipe this
  /// does nothing and `closed()` is true.
  Status write(std::string_view text);
  bool closed() const { return closed_; }

private:
  bool closed_ = false;
};

/// Prints `error` to stderr and returns its exit code.
int report(const Error &error);
int report(Status status);

/// Nanoseconds since the process entered main.
uint64_t sinceStart();
void markStart();

/// --stats: startup and speed, then the ledger beside the measured peak resident set. On stderr.
/// `firstTokenNs` is sinceStart() at the first token, 0 when there was none.
void printStats(const Engine &engine, const CommonOptions &options, const Context &context, uint64_t firstTokenNs);
/// --profile: time, bytes and share per kernel and phase, most expensive first. On stderr.
void printProfile(const Context &context);

/// "12.3 MiB".
std::string formatBytes(uint64_t bytes);

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_OUTPUT_H
