// Built-in kernels of the `reference` target: plain loops, double accumulation, weights decoded word by word.
// They share no code with generated kernels, so a plan for `reference` is a slow twin of any other plan.
// A built-in is made from a symbol and named attributes; the executor calls it through this interface and
// knows no operator. `rope_table` also serves the other targets, in their setup phase.
#ifndef NINFER_RUNTIME_REFERENCE_BUILTIN_H
#define NINFER_RUNTIME_REFERENCE_BUILTIN_H

#include "support/Status.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ninfer::reference {

using AttributeValue = std::variant<int64_t, double, std::string, std::vector<double>>;
using AttributeMap = std::map<std::string, AttributeValue>;

/// One launch argument of a built-in and the number of bytes it may touch.
struct ArgNeed {
  const char *name;
  uint64_t bytes;
  bool written = false; ///< must lie in the arena or in a state; the rest is mapped read-only
};

/// One call: args and scratch as in runtime/abi/kernel_abi.h.
struct Call {
  void *const *args = nullptr;
  int64_t rows = 0;     ///< rows of the call
  int64_t position = 0; ///< position of row 0 in the sequence
  void *scratch = nullptr;
};

/// A kernel that is part of the runtime. Immutable; run() may be called from several threads on disjoint units.
class Builtin {
public:
  virtual ~Builtin() = default;

  /// Independent pieces of work of a call. A built-in cuts its own work; the plan's tile counts are for
  /// machine code.
  virtual int64_t units(int64_t rows) const = 0;
  /// Computes units [begin, end) of units(call.rows). Results do not depend on how the units are cut.
  virtual void run(const Call &call, int64_t begin, int64_t end) const = 0;
  /// The arguments in launch order, with the extents that a call of at most `rows` rows touches.
  virtual std::vector<ArgNeed> args(int64_t rows) const = 0;
  /// Private memory per thread.
  virtual uint64_t scratchBytes() const { return 0; }
  /// Positions that the states of this built-in hold; a context may not go beyond.
  virtual int64_t positionLimit() const { return INT64_MAX; }
  /// Rows of a gathered table: token ids must be below.
  virtual int64_t tokenLimit() const { return INT64_MAX; }
};

/// Makes the built-in `symbol` ("ref.linear", ..., "rope_table"). `kernelName` is for messages. Besides its own
/// attributes each takes an optional integer `rows`: its number of rows, whatever the rows of the call.
/// Errors: NB0620 unknown symbol (TargetMismatch: the plan is for a newer runtime); NB0621 attribute missing,
/// unknown, of another type or out of range (BadFile).
Result<std::unique_ptr<Builtin>> makeBuiltin(std::string_view symbol, const AttributeMap &attributes,
                                             std::string_view kernelName);

/// Every symbol that makeBuiltin knows, in alphabetical order.
const std::vector<std::string> &builtinSymbols();

} // namespace ninfer::reference

#endif // NINFER_RUNTIME_REFERENCE_BUILTIN_H
