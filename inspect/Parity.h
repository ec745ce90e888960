// The parity ladder, levels 0 to 2: is an artifact what its source says?
//   0  inventory and bytes: parameters, shapes, config, resources, and words that must be kept
//   1  pack and unpack: every stored word through a second, independent reader and back
//   2  reconstruction: the values of the artifact against those of the source
// Level 2 separates what rounding costs (the error of a tensor) from conversion faults (words that
// differ from those the recorded encoder prescribes). docs/cli/ninfer-inspect.md, "parity".
#ifndef NINFER_INSPECT_PARITY_H
#define NINFER_INSPECT_PARITY_H

#include "artifact/formats/Format.h"
#include "convert/quantized/Import.h"
#include "support/Json.h"
#include "support/Progress.h"
#include "support/Status.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ninfer {

/// One thing that is wrong. `subject` is a parameter, an object id or a resource role.
struct ParityFault {
  int level = 0;
  std::string rule; ///< id of docs/cli/ninfer-inspect.md, such as "prescribed-words"
  std::string subject;
  std::string message; ///< expected and actual
  std::optional<uint64_t> row, column;

  /// "level 2: text/... row 3 column 17: code 5, prescribed -1 [prescribed-words]"
  std::string text() const;
};

/// What a parameter's stored words are held to.
enum class ParityBasis : uint8_t {
  Words,     ///< the source's words, bit for bit
  Values,    ///< other words, equal values
  Profile,   ///< the words that the recorded encoder or rounding gives
  ErrorOnly, ///< nothing says how the words were made: only the error is told
};
std::string_view parityBasisText(ParityBasis basis);

struct TensorParity {
  std::string parameter, source, sourceType;
  Format format = Format::BF16;
  std::vector<uint64_t> shape;
  ParityBasis basis = ParityBasis::ErrorOnly;
  std::string provenance; ///< as the artifact records it; empty when it does not
  std::string profile;
  uint64_t elements = 0;
  uint64_t differentWords = 0; ///< codes, scales and divisors that are not the expected ones
  uint64_t differentRows = 0;
  // Error of the stored values, over the elements that are finite on both sides.
  double relativeL2 = 0;
  double maxAbs = 0;
  uint64_t maxRow = 0, maxColumn = 0;
  std::optional<double> snrDb; ///< nothing when the error is zero
};

struct ParityReport {
  struct Level {
    uint64_t checked = 0; ///< level 0: items, 1: stored words, 2: values
    uint64_t faults = 0;
  };
  std::string source, artifact, sourceKind;
  std::array<Level, 3> levels;
  std::vector<TensorParity> tensors;
  std::vector<ParityFault> faults; ///< the first of every subject and rule
  std::vector<std::string> notes;
  uint64_t bytes = 0; ///< payload bytes read
  double seconds = 0;

  uint64_t faultCount() const { return levels[0].faults + levels[1].faults + levels[2].faults; }
  bool ok() const { return faultCount() == 0; }
};

struct ParityOptions {
  std::filesystem::path source, artifact;
  ImportOptions imports; ///< as given to the conversion
  unsigned threads = 1;
  ProgressMode progress = ProgressMode::Off;
  size_t maxFaults = 4; ///< kept per subject and level; all are counted
  std::function<bool()> cancelled;
};

/// Climbs all three levels. Memory: a few blocks of rows per thread and one hash per row of a
/// faulty tensor. Errors: those of openCheckpoint and Artifact::open; Unsupported (NB0350) for an
/// artifact whose directory names no parameters (framings 1 and 2) and for sources it cannot lay
/// beside parameters. Faults are reported, not failed.
Result<ParityReport> checkParity(const ParityOptions &options);

/// Ok, or AccuracyFailed (NB0351) that quotes the first faults.
Status parityStatus(const ParityReport &report);

std::string parityText(const ParityReport &report);
Json parityJson(const ParityReport &report);

} // namespace ninfer

#endif // NINFER_INSPECT_PARITY_H
