// The conversion from an opened checkpoint to a published .ninfer file: which object holds which
// parameter, in which format, with which provenance; then tensor by tensor through the artifact
// writer.
#ifndef NINFER_CONVERT_CONVERTER_H
#define NINFER_CONVERT_CONVERTER_H

#include "artifact/container/Writer.h"
#include "convert/Recipe.h"
#include "convert/TensorJob.h"
#include "support/Progress.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ninfer {

struct ConvertOptions {
  std::filesystem::path source; ///< folder, .safetensors, index, or .gguf
  std::filesystem::path output;
  /// Without one: "keep" for a quantized checkpoint (packed weights keep their words, other matrices
  /// stay 16 bit) unless `requantize`, else "w8".
  std::optional<Recipe> recipe;
  bool requantize = false; ///< block types and packed weights may be decoded and encoded anew
  ImportOptions imports;   ///< of quantized checkpoints
  /// Upper bound; AllowA4 reaches the uses whose weight brings a divisor of its activations, the
  /// others get AllowA8.
  ActivationPolicy policy = ActivationPolicy::A16Only;
  std::optional<std::string> modelName; ///< replaces the source's name in metadata.name
  bool tokenizer = true;
  bool vision = false;       ///< the vision tower of a hybrid model is taken along
  bool sourceDigest = false; ///< SHA-256 of every source file into the provenance
  bool dryRun = false;       ///< everything but the encoding and the file
  bool force = false;        ///< an existing artifact is replaced
  std::optional<uint64_t> maxFileBytes; ///< larger artifacts go into several files
  unsigned threads = 0;      ///< 0: one per hardware thread, at most 16
  ProgressMode progress = ProgressMode::Off;
  std::function<bool()> cancelled; ///< polled; true ends the conversion with Interrupted
};

struct TensorReport {
  std::string object;     ///< id in the artifact
  std::string source;     ///< tensor name
  std::string sourceType; ///< "Q4_K"
  std::vector<uint64_t> shape;
  Format format = Format::BF16;
  Provenance provenance = Provenance::Preserved;
  std::string profile; ///< of the encoder or rounding; empty unless converted
  std::vector<std::string> remarks; ///< of the import, such as a derived divisor
  uint64_t sourceBytes = 0;
  uint64_t bytes = 0;
  uint64_t paddingBytes = 0; ///< of those, for elements the layout adds to each row
};

struct ConvertReport {
  std::string sourceKind, modelName, recipe;
  std::string quantMethod; ///< of a quantized checkpoint, else empty
  ModelConfig config;
  bool mtp = false;    ///< with the draft layer
  bool vision = false; ///< with the vision tower
  std::vector<TensorReport> tensors;                       ///< payload order
  std::vector<std::pair<std::string, uint64_t>> resources; ///< role, bytes
  std::vector<std::string> notes;
  uint64_t payloadBytes = 0;
  std::optional<WriteReport> written; ///< absent after a dry run
  double seconds = 0;

  /// Objects of that provenance.
  size_t count(Provenance provenance) const;
};

/// Runs the whole conversion. Nothing appears under the output name unless everything succeeded.
/// Errors: those of openCheckpoint, planTensor, scanTensor, encodeTensor and ArtifactWriter; Usage
/// (NB0905) when the output exists and may not be replaced (convert/Output.h) or is one of the source
/// files; Usage (NB0904) when its name or those of its parts are too long; Usage
/// (NB0318) when the recipe names a layer the model does not have; OutOfMemory (NB0322);
/// Interrupted (NB0321).
Result<ConvertReport> convertCheckpoint(const ConvertOptions &options);

} // namespace ninfer

#endif // NINFER_CONVERT_CONVERTER_H
