// One opened source: config, tensors, tokenizer resources and where each decoder parameter comes
// from, whatever the file format. The rest of the converter sees only this.
#ifndef NINFER_CONVERT_CHECKPOINT_H
#define NINFER_CONVERT_CHECKPOINT_H

#include "convert/SourceTensor.h"
#include "convert/quantized/Import.h"
#include "models/ModelSpec.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ninfer {

/// A resource for components.text.resources, kept whole (tokenizers are at most some tens of MB).
struct SourceResource {
  std::string role; ///< "tokenizer.json", ...
  std::string bytes;
};

/// Order of rows inside each head of q and k.
enum class RowOrder : uint8_t {
  Plain, ///< as Hugging Face stores them: the two halves of a rotary pair lie headDim/2 rows apart
  Paired ///< as llama GGUFs store them: the two rows of a pair are neighbours
};

struct ParameterSource {
  std::string parameter;
  std::vector<uint64_t> shape; ///< of the parameter; equals the tensor's
  bool direct = false;         ///< a norm, stored as BF16
  uint32_t tensor = 0;         ///< index into Checkpoint::tensors
  RowOrder rowOrder = RowOrder::Plain;
};

struct Checkpoint {
  std::string kind; ///< "safetensors" or "gguf"
  std::string modelName;
  DecoderConfig config;
  SourceTensors tensors;
  std::string quantMethod; ///< "compressed-tensors", ...; empty when the checkpoint is not quantized
  std::vector<ParameterSource>
      parameters; ///< inventory order; a tied head names the embedding's tensor
  std::vector<SourceResource> resources;
  std::vector<std::string>
      notes; ///< what the user should know: ignored members, ignored tensors, ...
};

struct CheckpointOptions {
  bool tokenizer = true; ///< false: no resources are read or made
  ImportOptions imports; ///< of quantized checkpoints
};

/// Opens a model folder, one .safetensors file, a model.safetensors.index.json, or one .gguf file,
/// and checks it completely except for the tensor data. Errors: NB0310..NB0320, NB0323..NB0329
/// (docs/convert.md).
Result<Checkpoint> openCheckpoint(const std::filesystem::path &path,
                                  const CheckpointOptions &options);

/// Finds the tensor of every parameter by the naming of `checkpoint.kind`; `checkpoint.config` and
/// `tensors` must be set. BadFile (NB0319) lists missing, extra and misshaped tensors together.
Status bindParameters(Checkpoint &checkpoint, const std::string &fileName);

/// Hugging Face tensor name of a decoder parameter ("model.norm.weight"); empty for an unknown one.
std::string huggingFaceName(const std::string &parameter);

/// Row of the parameter that source row `row` becomes: inverts the pairing of llama GGUFs inside
/// one head.
uint64_t destinationRow(uint64_t row, RowOrder order, uint64_t headDim);

} // namespace ninfer

#endif // NINFER_CONVERT_CHECKPOINT_H
