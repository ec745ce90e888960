// One opened source: config, tensors, tokenizer resources and where each parameter comes from,
// whatever the file format. The rest of the converter sees only this.
#ifndef NINFER_CONVERT_CHECKPOINT_H
#define NINFER_CONVERT_CHECKPOINT_H

#include "convert/ModelConfig.h"
#include "convert/SourceTensor.h"
#include "convert/quantized/Import.h"
#include "models/VisionConfig.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ninfer {

/// A resource of a component, kept whole (tokenizers are at most some tens of MB).
struct SourceResource {
  std::string role; ///< "tokenizer.json", ...
  std::string bytes;
  std::string component = "text";
};

/// Order of rows inside each head of q and k.
enum class RowOrder : uint8_t {
  Plain, ///< as Hugging Face stores them: the two halves of a rotary pair lie headDim/2 rows apart
  Paired ///< as llama GGUFs store them: the two rows of a pair are neighbours
};

/// Which rows of a tensor make a parameter, and in which order: some that stay in place, then runs of
/// rows at equal distances, or groups of such runs. Rows count over all axes but the last.
struct RowSelection {
  uint64_t first = 0;       ///< source row of the parameter's row 0
  uint64_t run = 0;         ///< rows that lie together; 0: the whole tensor
  uint64_t stride = 0;      ///< source rows from one run to the next, of one group
  uint64_t group = 0;       ///< runs of a group; 0: all runs are one
  uint64_t groupStride = 0; ///< source rows from one group to the next
  uint64_t plain = 0;       ///< rows before the first run, as they lie

  bool whole() const { return run == 0; }
  uint64_t sourceRow(uint64_t row) const {
    if (whole() || row < plain)
      return first + row;
    const uint64_t i = (row - plain) / run, inRun = (row - plain) % run;
    const uint64_t place = group == 0 ? i * stride : i % group * stride + i / group * groupStride;
    return first + plain + place + inRun;
  }
  /// Rows from `row` on that lie together in the source; at least this many.
  uint64_t together(uint64_t row) const {
    if (whole())
      return UINT64_MAX;
    return row < plain ? plain - row : run - (row - plain) % run;
  }
  auto operator<=>(const RowSelection &) const = default;
};

/// What a source did to the values of a parameter, and the converter takes back.
enum class ValueMap : uint8_t {
  Plain,
  OnePlus,   ///< the source holds 1 + w
  NegatedExp ///< the source holds -exp(w)
};

struct ParameterSource {
  std::string parameter;
  std::vector<uint64_t> shape; ///< of the parameter
  bool direct = false;         ///< stored as `directFormat`, whatever the recipe
  Format directFormat = Format::BF16;
  std::string input; ///< id of the Use; empty for gathered or elementwise parameters
  /// Object it shares with its neighbours of the same bank, row under row; empty: its own.
  std::string bank;
  uint32_t tensor = 0; ///< index into Checkpoint::tensors
  RowSelection rows;
  RowOrder rowOrder = RowOrder::Plain;
  uint64_t headDim = 0;    ///< used by RowOrder::Paired
  bool transposed = false; ///< [taps, C] from a convolution stored as [C, 1, taps] or [C, taps]
  RowSelection columns;    ///< the same of columns (elements of a vector); a permutation
  ValueMap map = ValueMap::Plain; ///< of direct parameters
};

struct Checkpoint {
  std::string kind; ///< "safetensors" or "gguf"
  std::string modelName;
  ModelConfig config;
  bool mtp = false; ///< a draft layer comes with the model
  std::optional<VisionConfig> vision; ///< a vision tower is converted too
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
  bool vision = false;   ///< the vision tower of a hybrid model is taken along
};

/// Opens a model folder, one .safetensors file, a model.safetensors.index.json, or one .gguf file,
/// and checks it completely except for the tensor data. Errors: NB0310..NB0320, NB0323..NB0329
/// (docs/convert.md).
Result<Checkpoint> openCheckpoint(const std::filesystem::path &path,
                                  const CheckpointOptions &options);

/// Finds the tensor of every parameter by the naming of `checkpoint.kind`; `checkpoint.config` and
/// `tensors` must be set. BadFile (NB0319) lists missing, extra and misshaped tensors together.
Status bindParameters(Checkpoint &checkpoint, const std::string &fileName);

/// The same for the hybrid family, whose tensors are split, picked apart per head and transposed.
/// Decides `checkpoint.mtp` by the tensors there are; `draftLayers` is what the config says of it.
Status bindHybridParameters(Checkpoint &checkpoint, const std::string &fileName,
                            std::optional<int64_t> draftLayers);

/// Collects what is wrong with the tensors of a source; NB0319 with at most 24 of them as notes.
class TensorFaults {
public:
  void add(std::string fault) { faults_.push_back(std::move(fault)); }
  bool empty() const { return faults_.empty(); }
  Status status(const std::string &fileName) const;

private:
  std::vector<std::string> faults_;
};

/// Hugging Face tensor name of a decoder parameter ("model.norm.weight"); empty for an unknown one.
std::string huggingFaceName(const std::string &parameter);

/// Row of the parameter that source row `row` becomes: inverts the pairing of llama GGUFs inside
/// one head.
uint64_t destinationRow(uint64_t row, RowOrder order, uint64_t headDim);

} // namespace ninfer

#endif // NINFER_CONVERT_CHECKPOINT_H
