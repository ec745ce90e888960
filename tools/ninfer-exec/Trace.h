// Layer traces: what a plan built with --trace-layers hands out beside the logits, row by row, as a file of
// JSON lines, and the comparison of two of them.
#ifndef NINFER_TOOLS_NINFER_EXEC_TRACE_H
#define NINFER_TOOLS_NINFER_EXEC_TRACE_H

#include "tools/ninfer-exec/Report.h"
#include "tools/ninfer-exec/Session.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ninfer::exec {

class Trace {
public:
  explicit Trace(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
  /// A file that render() wrote, or another program in its format (docs/cli/ninfer-exec.md). NB0671 (BadFile).
  static Result<Trace> read(const std::string &path);

  /// Takes in the outputs of the last call. NB0670 (Unsupported) when the plan has none.
  Status add(const Context &context);
  std::string render() const;
  /// One row per output, in the order of the plan: how far this trace is from `expected`, at worst. The measure is
  /// max |difference| / rms(expected) of a row. NB0671 when the two have different tokens or no row in common;
  /// `path` names the file of `expected`. Differences are texts with three digits unless `exact`.
  Result<std::vector<Row>> compare(const Trace &expected, const std::string &path, bool exact) const;

private:
  using Values = std::vector<float>;
  struct Output {
    std::string name;
    std::map<uint32_t, Values> rows; ///< by position
  };
  Output &output(const std::string &name);

  std::vector<int32_t> tokens_;
  std::vector<Output> outputs_;
};

} // namespace ninfer::exec

#endif // NINFER_TOOLS_NINFER_EXEC_TRACE_H
