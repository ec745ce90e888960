// Recognition of quantized checkpoints and what every import method works with. A method is found
// by the name its config carries (Methods.cpp); it either replaces the tensors of each quantized
// matrix by one logical tensor with a PackedWeight, or is refused with the rule it breaks.
#ifndef NINFER_CONVERT_QUANTIZED_IMPORT_H
#define NINFER_CONVERT_QUANTIZED_IMPORT_H

#include "convert/quantized/PackedWeight.h"
#include "models/ModelSpec.h"
#include "support/Json.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ninfer {

/// How the zero points of a GPTQ checkpoint are to be read.
enum class GptqZeros : uint8_t {
  AsLabelled, ///< as checkpoint_format says; a value that contradicts it is refused
  MinusOne,   ///< v1: the stored word plus one
  Plain       ///< v2: the stored word
};

/// Choices only the user can make.
struct ImportOptions {
  GptqZeros gptqZeros = GptqZeros::AsLabelled;
  bool replicateTensorScale = false; ///< one FP8 scale of a whole tensor may be written per row
};

/// What says how a checkpoint was quantized.
struct QuantConfig {
  std::string method; ///< name in the method table: "compressed-tensors", "gptq", "modelopt", ...
  std::string where;  ///< "config.json: quantization_config"; starts every message about it
  Json members;       ///< the object, never empty
};

/// Files beside config.json that may say how a checkpoint was quantized: name -> parsed object.
using QuantSideFiles = std::map<std::string, Json>;
/// hf_quant_config.json (ModelOpt), quantize_config.json (GPTQ), quant_config.json (AWQ).
const std::vector<std::string> &quantSideFileNames();

/// Finds the config in config.json (quantization_config, compression_config) or a side file, and
/// the method by its name. Nothing when the checkpoint is not quantized. Reads no tensor.
/// Errors: Unsupported (NB0324 a known method the registry cannot hold, NB0329 an unknown one),
/// BadFile (NB0323).
Result<std::optional<QuantConfig>> findQuantization(const Json &config,
                                                    const QuantSideFiles &sideFiles);

/// A module of the model that owns a weight, as the source libraries name it.
struct SourceModule {
  std::string name;                 ///< "model.layers.0.self_attn.q_proj"
  std::vector<std::string> classes; ///< most derived first: {"Linear", "Module"}
  std::vector<uint64_t> shape;      ///< of the weight; [N, K] for Linear
  bool tied = false; ///< the head of a model with tied embeddings: usually without a weight

  bool isLinear() const { return classes.front() == "Linear"; }
};
/// Modules with weights of a decoder under their Hugging Face names, in inventory order.
std::vector<SourceModule> huggingFaceModules(const DecoderConfig &config);

/// Of a matrix refused for its one scale.
inline constexpr const char *kReplicateHelp =
    "--tensor-scale replicate writes the one scale of a tensor once per row";

/// Collects what an import refuses, so that one run lists all of it.
class Refusals {
public:
  /// "<tensor>: refused (<rule>)". Unsupported (NB0324) unless a fault is added too.
  void refuse(const std::string &tensor, const std::string &rule);
  /// A fault of the file: missing or contradictory tensors. The whole becomes BadFile (NB0325).
  void fault(const std::string &text);
  /// What else the user can do about a refusal; comes before the general advice, once.
  void help(const std::string &text);
  bool empty() const { return lines_.empty(); }
  size_t size() const { return lines_.size(); }
  /// Ok when empty; else one error with the list as notes, capped, and what the user can do.
  Status status(const std::string &where) const;

private:
  std::vector<std::string> lines_, help_;
  bool fault_ = false;
};

/// What an importer works on. Names are full tensor names.
class ImportContext {
public:
  ImportContext(const QuantConfig &config, const DecoderConfig &decoder,
                const ImportOptions &options, SourceTensors &tensors,
                std::vector<std::string> &notes);

  const QuantConfig &config() const { return config_; }
  const DecoderConfig &decoder() const { return decoder_; }
  const ImportOptions &options() const { return options_; }
  const std::vector<SourceModule> &modules() const { return modules_; }
  Refusals &refusals() { return refusals_; }

  bool has(const std::string &name) const { return index_.count(name) != 0; }
  /// Nothing when there is no such tensor (or it was dropped).
  std::optional<PackedComponent> component(const std::string &name) const;
  /// Names of the tensors left, in file order.
  std::vector<std::string> names() const;
  /// Replaces the components of `weight` by one tensor `name` of SourceType::Packed.
  void add(const std::string &name, std::shared_ptr<PackedWeight> weight);
  /// Drops a tensor the artifact does not need.
  void drop(const std::string &name);
  void note(std::string text) { notes_.push_back(std::move(text)); }
  /// Puts the result into SourceTensors; nothing may be called after it.
  void finish();

private:
  const QuantConfig &config_;
  const DecoderConfig &decoder_;
  const ImportOptions &options_;
  SourceTensors &tensors_;
  std::vector<std::string> &notes_;
  std::vector<SourceModule> modules_;
  Refusals refusals_;
  std::unordered_map<std::string, size_t> index_; ///< of the tensors left
  std::map<size_t, SourceTensor> added_;          ///< at the place of the first component
};

/// An importer adds a PackedWeight for every quantized matrix, drops what it understands and does
/// not need, and reports faults and refusals through the context. The Status is for errors that end
/// the import at once (config members, read errors).
using Importer = Status (*)(ImportContext &context);

// One function per accepted method.
Status importCompressedTensors(ImportContext &context);
/// GPTQ, and AutoRound exports in its storage.
Status importGptq(ImportContext &context);
Status importModelOpt(ImportContext &context);

/// Runs the importer of `config.method` and leaves `tensors` with logical tensors. Errors: what the
/// importer returns, and all refusals in one (NB0324, NB0325).
Status importQuantized(const QuantConfig &config, const DecoderConfig &decoder,
                       const ImportOptions &options, SourceTensors &tensors,
                       std::vector<std::string> &notes);

/// How a refusal ends: what the user can do instead.
Status withRefusalHelp(Status status);

/// "config.json: quantization_config: bits 3 refused (<rule>)": a refusal the config alone gives.
Status refuseConfig(const QuantConfig &config, const std::string &what, const std::string &rule);

} // namespace ninfer

#endif // NINFER_CONVERT_QUANTIZED_IMPORT_H
