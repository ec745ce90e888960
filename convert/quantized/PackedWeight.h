// A matrix that a quantizer stored as several source tensors (codes, scales, divisors), seen as the
// words of the one registered format that holds them exactly. Each import method implements it;
// the converter stores the words without looking at the method.
#ifndef NINFER_CONVERT_QUANTIZED_PACKEDWEIGHT_H
#define NINFER_CONVERT_QUANTIZED_PACKEDWEIGHT_H

#include "artifact/formats/Format.h"
#include "convert/Provenance.h"
#include "convert/SourceTensor.h"
#include "support/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ninfer {

/// Words of consecutive rows in natural order, as artifact/layouts/Layout.h takes them. Only the
/// members of the weight's format are filled.
struct PackedRows {
  std::vector<int8_t> codes;         ///< grouped integers: rows * K
  std::vector<uint16_t> scales;      ///< grouped: binary16, rows * ceil(K/G); row-scaled: bfloat16,
                                     ///< one per row
  std::vector<uint8_t> words;        ///< NVFP4: E2M1, one per byte; FP8: E4M3FN; rows * K
  std::vector<uint8_t> blockScales;  ///< NVFP4: E4M3FN, rows * K/16
  uint32_t divisor = 0;              ///< NVFP4: binary32 word d_w
};

/// Divisor of the activations a quantizer calibrated for one matrix (d_x of NVFP4): activations are
/// multiplied by it before they are rounded to four bits.
struct ActivationDivisor {
  uint32_t word = 0;    ///< binary32, finite and positive
  bool derived = false; ///< computed from a multiplier, not copied
};

/// One source tensor of a packed weight. `file` lives in SourceTensors::files, which must not grow
/// after the import.
struct PackedComponent {
  SourceTensor tensor;
  const SourceFile *file = nullptr;

  /// Fills `out` from byte `at` of the tensor.
  Status read(uint64_t at, std::span<std::byte> out) const {
    return file->read(tensor.offset + at, out);
  }
  /// "model.safetensors: tensor 'x.weight_scale'".
  std::string place() const { return file->name() + ": tensor '" + tensor.name + "'"; }
};

/// Immutable after check(); the other methods may then be called from several threads at once.
class PackedWeight {
public:
  virtual ~PackedWeight() = default;

  /// The registered format that holds the words exactly.
  virtual Format format() const = 0;
  /// Logical [N, K].
  const std::vector<uint64_t> &shape() const { return shape_; }
  /// Method and storage form, for reports: "compressed-tensors nvfp4-pack-quantized".
  const std::string &scheme() const { return scheme_; }
  /// Source tensors the words come from; the first holds the codes.
  const std::vector<PackedComponent> &components() const { return components_; }
  /// Remarks the user must see, such as a divisor that was derived. Complete after check().
  const std::vector<std::string> &notes() const { return notes_; }
  /// Preserved when codes and scales keep their words, else an exact kind. Settled by check().
  Provenance provenance() const { return provenance_; }
  /// Calibrated divisor of the activations, when the checkpoint carries one.
  const std::optional<ActivationDivisor> &activationDivisor() const { return activation_; }
  /// Rows the converter should ask for at a time; 0 leaves it to the converter. A method whose
  /// storage runs across rows returns a large number to read it few times.
  virtual uint64_t preferredRows() const { return 0; }

  /// Scans what only the data tells: scales that are NaN, negative or not representable, illegal
  /// codes, zero points. Called before readRows, also in a dry run, never beside another call; may
  /// be called again. BadFile (NB0326) for a
  /// word no reader could accept, (NB0317) for a represented value that is infinite; Unsupported (NB0327) for a legal word the registered format
  /// cannot hold. Names file, tensor, row, group and byte.
  virtual Status check() = 0;
  /// Words of rows [first, first + count), resized to fit.
  virtual Status readRows(uint64_t first, uint64_t count, PackedRows &out) const = 0;

  /// Represented values of row `row` of `rows` (which starts at that row 0) by the reconstruction
  /// rule of the format; `out` has K elements.
  void decodeRow(const PackedRows &rows, uint64_t row, std::span<float> out) const;

protected:
  std::vector<uint64_t> shape_;
  std::string scheme_;
  std::vector<PackedComponent> components_;
  std::vector<std::string> notes_;
  Provenance provenance_ = Provenance::Preserved;
  std::optional<ActivationDivisor> activation_;
};

} // namespace ninfer

#endif // NINFER_CONVERT_QUANTIZED_PACKEDWEIGHT_H
