// A write that must not be torn: the command, what lies in the folder before it, and what must lie
// there after it. Everything is compared byte by byte, because equal inputs give equal files.
#ifndef NINFER_TEST_CRASH_SCENARIO_H
#define NINFER_TEST_CRASH_SCENARIO_H

#include "test/crash/Tracer.h"
#include "test/unit/convert/SourceBuilders.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ninfer::test {

/// Name -> bytes of every file in a folder.
using Snapshot = std::map<std::string, std::string>;
Snapshot snapshotOf(const fs::path &folder);
/// "a (12 bytes), b (3 bytes)".
std::string describe(const Snapshot &snapshot);

struct Scenario {
  std::string name;
  std::string target;               ///< file name in the folder
  std::vector<std::string> command; ///< writes <folder>/<target>
  std::vector<std::string> next;    ///< the run after the kill; replaces what is there
  Snapshot before;                  ///< files present before the command
  Snapshot after;                   ///< files present after a complete run
  bool named = false;               ///< unnamed files are refused, as on file systems without them
};

/// Everything the scenarios need in one place: a tiny checkpoint, the folder that is written to,
/// and the tools.
class Bench {
public:
  Bench();

  const fs::path &folder() const { return folder_; }
  fs::path out() const { return root_ / "stdout"; }
  fs::path err() const { return root_ / "stderr"; }
  std::string message() const { return readBytes(err()); }

  /// Every write path of the tools that are built; `missing` names those that are not.
  std::vector<Scenario> scenarios(std::vector<std::string> &missing);

  /// The folder as the scenario wants it before the command.
  void prepare(const Scenario &scenario) const;
  /// Runs the command under the tracer; the hook also sees what the scenario itself injects.
  Ended run(const Scenario &scenario, const TraceHook &hook) const;
  /// Runs without tracing.
  Ended plain(const std::vector<std::string> &command) const;

  enum class State { Before, After, Torn };
  /// What the target name holds, with everything that belongs to it.
  State state(const Scenario &scenario) const;

private:
  Scenario make(const std::string &name, const std::string &target,
                std::vector<std::string> command, std::vector<std::string> first,
                std::vector<std::string> next, bool named);

  TempFolder root_;
  fs::path folder_, source_;
};

} // namespace ninfer::test

#endif // NINFER_TEST_CRASH_SCENARIO_H
