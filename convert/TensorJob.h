// One stored object: how its words come from its source tensor, what that does to the values, and
// the work itself, block of rows by block of rows. Nothing here knows of recipes or of the
// container.
#ifndef NINFER_CONVERT_TENSORJOB_H
#define NINFER_CONVERT_TENSORJOB_H

#include "artifact/layouts/Layout.h"
#include "convert/Checkpoint.h"
#include "convert/Provenance.h"

#include <functional>
#include <string>
#include <vector>

namespace ninfer {

enum class Method : uint8_t {
  CopyWords,     ///< BF16 -> BF16, F32 -> FP32
  CopyPacked,    ///< the words of a quantized checkpoint, in the format that holds them exactly
  WidenToFp32,   ///< exactly representable in binary32
  RoundToBf16,   ///< round to nearest, ties to even
  MoveIntoW8,    ///< Q8_0, Q4_0, Q5_0, IQ4_NL -> W8G32_F16S without arithmetic on values
  EncodeGrouped, ///< MAXABS_F16_RECIP_RNE_V1
  EncodeFp8Row,  ///< MAXABS_BF16S_RECIP_E4M3FN_RNE_V1
  DecodeToFp32   ///< a block type with minimums, rounded once to binary32
};

struct TensorJob {
  std::string object; ///< id in the artifact
  uint64_t firstRow = 0; ///< of the object, which several jobs may fill one after the other
  const SourceTensor *tensor = nullptr;
  const SourceFile *file = nullptr;
  std::vector<uint64_t> shape; ///< of the job's rows
  Format format = Format::BF16;
  Method method = Method::CopyWords;
  Provenance provenance = Provenance::Preserved;
  RowSelection rows; ///< of the tensor; whole for packed ones
  RowOrder rowOrder = RowOrder::Plain;
  uint64_t headDim = 0;     ///< used by RowOrder::Paired
  bool transposed = false;  ///< columns of the source become rows
  RowSelection columns;     ///< order of the columns
  ValueMap map = ValueMap::Plain;
  bool scanFirst = false;   ///< provenance or legality depend on the data: scanTensor decides
  bool mayReencode = false; ///< MoveIntoW8 may fall back to EncodeGrouped when a block cannot move

  /// Source rows that are read, and their bytes.
  uint64_t sourceRows() const;
  uint64_t sourceBytes() const;
  /// "MAXABS_F16_RECIP_RNE_V1", "BF16_RNE", ... when converted; empty otherwise.
  std::string profile() const;
};

/// Chooses the method for a source type and a target format. `requantize` permits block types and
/// packed weights to be decoded and encoded anew; without it a packed weight keeps its own format
/// whatever `format` says, and TensorJob::format tells which. Unsupported (NB0316) when no exact way
/// exists without `requantize`.
Result<TensorJob> planTensor(const Checkpoint &checkpoint, const ParameterSource &source,
                             Format format, bool requantize);

struct RowWork {
  unsigned threads = 1;
  std::function<bool()> cancelled;       ///< polled between blocks
  std::function<void(uint64_t)> onBytes; ///< source bytes finished since the last call; any thread
};

/// Reads the tensor once and settles the provenance of a job with scanFirst, for a move also
/// whether every block can move. Errors: NB0316 a block cannot move and re-encoding is not
/// permitted, NB0317 a value is not finite or outside what ValueMap can take back, NB0326 / NB0327 of a packed weight, read errors,
/// Interrupted.
Status scanTensor(TensorJob &job, const RowWork &work);

/// Encodes the job's rows into `out`, which holds the whole object (geometry.totalBytes, zero on
/// entry). The result does not depend on the number of threads. Errors as scanTensor, and NB0207 / NB0208 of the encoders; each
/// names file, tensor and row.
Status encodeTensor(const TensorJob &job, const EncodedGeometry &geometry, const RowWork &work,
                    std::span<std::byte> out);

} // namespace ninfer

#endif // NINFER_CONVERT_TENSORJOB_H
