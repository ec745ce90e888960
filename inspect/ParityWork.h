// The work of checkParity on one object (level 1) and on one parameter (levels 0 and 2). Internal
// to the ladder.
#ifndef NINFER_INSPECT_PARITYWORK_H
#define NINFER_INSPECT_PARITYWORK_H

#include "artifact/container/Directory.h"
#include "artifact/layouts/Layout.h"
#include "convert/SourceTensor.h"
#include "inspect/Parity.h"
#include "inspect/ParityNames.h"
#include "inspect/ReferenceDecoder.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ninfer {

class PackedWeight;

struct ParityContext {
  unsigned threads = 1;
  size_t maxFaults = 4;
  std::function<bool()> cancelled;
  std::function<void(uint64_t)> onBytes; ///< progress; any thread
};

/// Counts every fault and keeps the first few of each subject and level.
class ParityFaults {
public:
  ParityFaults(ParityReport &report, size_t most) : report_(report), most_(most) {}
  void add(ParityFault fault, uint64_t count = 1);

private:
  ParityReport &report_;
  size_t most_;
};

/// Level 1 of one tensor object: the reference reader's words, packed again by artifact/layouts,
/// give the stored bytes; artifact/layouts reads the same words and values; bytes between planes
/// are 0.
Status checkPacking(const ObjectEntry &object, const ReferenceLayout &layout,
                    std::span<const std::byte> bytes, const ParityContext &context,
                    ParityReport &report, ParityFaults &faults);

/// Rows of a parameter that lie in one object.
struct ParitySegment {
  ReferenceLayout layout;
  std::span<const std::byte> bytes; ///< of the object
  uint64_t objectRow = 0;           ///< first row in the object
  uint64_t row = 0, rows = 0;       ///< rows [row, row + rows) of the parameter
};

struct ParityTask {
  ParityFeed feed;
  uint64_t rows = 0, columns = 0; ///< of the parameter
  const SourceTensor *tensor = nullptr;
  const SourceFile *file = nullptr;
  const PackedWeight *packed = nullptr;
  bool packedWords = false;   ///< the artifact should hold the words of `packed`, not encoded ones
  std::vector<ParitySegment> segments;
  ParityBasis basis = ParityBasis::ErrorOnly;

  /// Bytes of the source for one row of the parameter.
  uint64_t rowBytes() const;
  /// Source row of row `row`; not for transposed ones.
  uint64_t sourceRow(uint64_t row) const;
};

/// Levels 0 (kept words) and 2 of one parameter; fills the figures of `out`.
Status compareTensor(const ParityTask &task, const ParityContext &context, TensorParity &out,
                     ParityReport &report, ParityFaults &faults);

/// Row of a tensor that feeds row `row` of a parameter: in a paired source the rows 2i and 2i + 1 of a
/// head are rows i and headDim/2 + i of the parameter.
uint64_t sourceRowOf(uint64_t row, uint64_t pairedHeadDim);

} // namespace ninfer

#endif // NINFER_INSPECT_PARITYWORK_H
