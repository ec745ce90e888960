// Packed weights of the two floating formats: NVFP4 (block scales and one divisor) and FP8 with one
// scale per row. Independent of the tool that wrote them.
#ifndef NINFER_CONVERT_QUANTIZED_FLOATWEIGHTS_H
#define NINFER_CONVERT_QUANTIZED_FLOATWEIGHTS_H

#include "convert/quantized/PackedWeight.h"

#include <memory>
#include <string>

namespace ninfer {

/// NVFP4: codes U8 [N, K/2] (low nibble for even k), block scales F8_E4M3 [N, K/16] in linear
/// order.
struct Nvfp4Parts {
  std::string scheme;
  PackedComponent codes, scales;
  uint32_t divisor = 0; ///< binary32 word d_w, finite and positive
  std::vector<PackedComponent> scalars; ///< tensors the divisors came from
  std::optional<ActivationDivisor> activation;
  std::vector<std::string> notes;
  Provenance provenance = Provenance::Preserved;
};
/// Checks types and shapes; the error is a text for Refusals::fault. check() refuses scale bytes
/// with the sign bit or NaN, naming row, group and byte.
Result<std::shared_ptr<PackedWeight>> makeNvfp4Weight(Nvfp4Parts parts);

/// The single element of a tensor of shape [] or [1] as binary32 word, which must be finite and
/// positive. Types F32, F16, BF16. BadFile (NB0326).
Result<uint32_t> readPositiveScalar(const PackedComponent &component);

/// How an FP8 scale tensor covers the rows.
enum class RowScales : uint8_t {
  PerRow,   ///< [N] or [N,1]
  OnePerTensor ///< [], [1] or [1,1]: written once per row
};
/// FP8: codes F8_E4M3 [N, K], scales F32, F16 or BF16.
struct Fp8Parts {
  std::string scheme;
  PackedComponent codes, scales;
  RowScales rows = RowScales::PerRow;
  std::vector<std::string> notes;
};
/// As above. check() refuses NaN codes and scales that are not bfloat16 values.
Result<std::shared_ptr<PackedWeight>> makeFp8RowWeight(Fp8Parts parts);

/// How the shape of an FP8 scale is to be read beside `rows` rows: [N] and [N,1] per row, [], [1],
/// [1,1] one per tensor (also for N = 1 when the scheme says so); nothing for [1,N], blocks and all
/// others.
std::optional<RowScales> rowScalesOfShape(const std::vector<uint64_t> &shape, uint64_t rows);

} // namespace ninfer

#endif // NINFER_CONVERT_QUANTIZED_FLOATWEIGHTS_H
