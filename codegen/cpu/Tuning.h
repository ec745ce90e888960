// How a CPU kernel cuts its work, as a table of choices by kernel request, and the text file that keeps one. Every
// choice computes the same function; what is fastest depends on the machine, so it is measured (Measure.h) or left as it is.
#ifndef NINFER_CODEGEN_CPU_TUNING_H
#define NINFER_CODEGEN_CPU_TUNING_H

#include "support/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Choices of one linear kernel. The defaults are what is built without tuning.
struct CpuTuning {
  /// Activation rows packed and multiplied at a time, above one row; a multiple of 16. A panel of weights is unpacked once
  /// for each block. Blocks of at most kMicroDotRows
  /// rows take other sums than longer ones, so that a choice below the rows of a call may change last bits.
  int64_t rowBlock = 512;
  /// Outputs computed before their epilogue, above two rows (LowerLinear.cpp); a multiple of kMicroPanelRows.
  int64_t outputBlock = 64;
  /// One activation row: outputs per call of the micro-kernel, which reads them as streams a quarter of them apart; a
  /// multiple of 16, or 0 for all outputs of the thread.
  int64_t streamBlock = 0;
  bool operator==(const CpuTuning &) const = default;
};

/// "row_block=512 output_block=64 stream_block=0".
std::string tuningText(const CpuTuning &tuning);

/// One line of a tuning file.
struct TuningEntry {
  std::string target; ///< "cpu:znver4"
  std::string kernel; ///< name of the kernel, for readers; the digest decides
  std::string digest; ///< of the request, 32 hexadecimal digits
  CpuTuning tuning;
  std::string comment; ///< what was measured, for readers
};

/// Entries by target and digest.
class TuningTable {
public:
  /// Replaces an entry of the same target and digest.
  void add(TuningEntry entry);
  const TuningEntry *find(const std::string &target, const std::string &digest) const;
  bool empty() const { return entries_.empty(); }

  /// The file: `ninfer-tuning 1`, then a line per entry, ordered by target, kernel and digest. `#` begins a comment.
  std::string render() const;
  /// The same without comments: what a plan depends on.
  std::string renderChoices() const;
  /// NB0541 (BadFile) naming `name`, line and rule.
  static Result<TuningTable> parse(std::string_view text, const std::string &name);

private:
  std::string renderWith(bool comments) const;
  std::map<std::pair<std::string, std::string>, TuningEntry> entries_;
};

/// First line of a tuning file.
inline constexpr std::string_view kTuningMagic = "ninfer-tuning 1";

} // namespace ninfer

#endif // NINFER_CODEGEN_CPU_TUNING_H
