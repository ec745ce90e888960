// The answer goes to stdout, everything else to stderr. Writes are complete or reported: a reader that closed
// the pipe is not an error of ours, a full disk is.
#ifndef NINFER_TOOLS_NINFER_EXEC_OUTPUT_H
#define NINFER_TOOLS_NINFER_EXEC_OUTPUT_H

#include "support/Status.h"
#include "tools/ninfer-exec/Session.h"

#include <initializer_list>
#include <string>
#include <string_view>

namespace ninfer::exec {

/// Where the text of an answer goes, piece by piece.
class TextSink {
public:
  virtual ~TextSink() = default;
  virtual Status write(std::string_view text) = 0;
  /// Nobody reads any more: the answer may end.
  virtual bool closed() const = 0;
};

class Output final : public TextSink {
public:
  /// Writes all of `text` to stdout now. NB0906 when the system refuses. After the reader closed the pipe this
  /// does nothing and `closed()` is true.
  Status write(std::string_view text) override;
  bool closed() const override { return closed_; }

private:
  bool closed_ = false;
};

/// Refuses `output`, a file to write, when it is one of the `sources`, by whatever name (NB0905). Empty names are no files;
/// one that begins with `@` is that of a list.
Status checkOutput(const std::string &output, std::initializer_list<std::string> sources);

/// Writes all of `text` to the file, which appears complete or not at all, or to stdout when `path` is empty.
Status writeText(const std::string &path, std::string_view text);

/// Prints an error, if it is one, to stderr; returns the exit code.
int report(const Error &error);
int report(Status status);
int report(const Result<int> &result);

/// Nanoseconds since the process entered main.
uint64_t sinceStart();
void markStart();

/// What the tool knows itself, for --stats; 0: did not happen.
struct ToolStats {
  uint64_t loadNs = 0;       ///< reading the tokenizer and compiling the chat template
  uint64_t firstTokenNs = 0; ///< sinceStart() at the first token
  bool speculates = false;   ///< the context was made with drafts
  DraftStats drafts = {};
};

/// On stderr, as the options ask for. --stats: startup and speed, then the ledger beside the measured resident memory. --profile: time,
/// bytes and share per kernel and phase, most expensive first; launches whose cost grows with the position have "-" for GB/s and
/// GFLOP/s: the cost model knows the full capacity only.
void printAsked(const Engine &engine, const CommonOptions &options, const Context &context, const ToolStats &own);

/// "12.3 MiB".
std::string formatBytes(uint64_t bytes);

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_OUTPUT_H
