// From the configs that checkpoints carry to the closed configs of models/: Hugging Face config.json
// and GGUF metadata. A field that changes the mathematics beyond what the model's package computes
// is refused, never dropped.
#ifndef NINFER_CONVERT_SOURCECONFIG_H
#define NINFER_CONVERT_SOURCECONFIG_H

#include "convert/Gguf.h"
#include "models/Decoder.h"
#include "models/HybridConfig.h"
#include "support/Json.h"

#include <optional>
#include <string>
#include <vector>

namespace ninfer {

/// Reads config.json. Members with no effect on inference are ignored; unknown ones are ignored and
/// named in `notes`. Errors: Unsupported (NB0315: architecture, biases, activation, rope scaling,
/// sliding window), BadFile (NB0314: missing member, wrong type or value).
Result<DecoderConfig> configFromHuggingFace(const Json &config, const std::string &fileName,
                                            std::vector<std::string> &notes);

/// What config.json says of a hybrid model.
struct HybridSource {
  HybridConfig config;
  bool vision = false;                ///< it describes a vision tower
  std::optional<int64_t> draftLayers; ///< mtp_num_hidden_layers: 0 or 1
};

/// Spellings of the family in config.json's architectures.
std::vector<std::string> hybridSourceArchitectures();
/// True when `config` names exactly one architecture and it is of the family.
bool namesHybrid(const Json &config);
/// The object that describes the text model: text_config when there is one, else the config itself.
const Json &textConfigOf(const Json &config);
/// Reads config.json of the family, text_config inside or not; namesHybrid(config) must hold.
/// Members that the stored config implies are checked. Errors: as above, NB0303 for values that
/// contradict each other.
Result<HybridSource> hybridFromHuggingFace(const Json &config, const std::string &fileName,
                                           std::vector<std::string> &notes);

/// True when general.architecture is the dense hybrid one (qwen35).
bool isHybrid(const GgufFile &gguf);
/// Reads the metadata of such a GGUF. A draft layer is left out and named in `notes`. Errors: as above.
Result<HybridConfig> hybridFromGguf(const GgufFile &gguf, std::vector<std::string> &notes);

/// Reads the metadata of a llama or qwen3 GGUF; `file` is needed for rope_freqs.weight, which holds
/// the llama3 scaling as a table. Errors as above.
Result<DecoderConfig> configFromGguf(const GgufFile &gguf, const SourceFile &file);

/// The llama3 scaling whose per-pair divisors equal `divisors` (rope_freqs.weight) within 1e-5,
/// tried with the published band limits (1, 4) and the given or published (8192) original context.
/// Fills the rope fields of `config`, of which headDim and ropeTheta must be set; false when none
/// fits.
bool matchLlama3Divisors(const std::vector<float> &divisors, std::optional<int64_t> originalContext,
                         DecoderConfig &config);

} // namespace ninfer

#endif // NINFER_CONVERT_SOURCECONFIG_H
