// The hybrid family (Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM with their MTP layer): its stored
// config, its complete parameter inventory, counts, and the recognition of a framing 3 artifact
// that holds one. Free of MLIR. Rules hybrid_c1 .. hybrid_c14: docs/models/qwen3_5.md.
#ifndef NINFER_MODELS_HYBRID_H
#define NINFER_MODELS_HYBRID_H

#include "models/ModelSpec.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Architectures of this package, in the order messages list them.
const std::vector<std::string> &hybridArchitectures();

/// Architecture of the draft layer that belongs to a text config: "Qwen3_5MTP" or "Qwen3_5MoeMTP".
std::string mtpArchitecture(const HybridConfig &config);

/// Reads components.text.config: a closed set of members with Hugging Face names, every value
/// checked (hybrid_c1 .. hybrid_c9). Numbers with a fraction are rounded to binary32, as writers
/// store them. `needAttention`: group A is required even without a full attention layer (an MTP
/// layer is one). `fileName` is used in messages only. Errors: Unsupported (NB0302) for another
/// architecture, BadFile (NB0303) for everything else.
Result<HybridConfig> parseHybridConfig(const nlohmann::ordered_json &config,
                                       std::string_view fileName, bool needAttention = false);

/// The rules that tie values together (hybrid_c3 .. hybrid_c9), for a config from any source;
/// `where` names the source in messages. Error: BadFile (NB0303).
Status checkHybridConfig(const HybridConfig &config, std::string_view where,
                         bool needAttention = false);

/// The text that parseHybridConfig reads back to an equal config; member order is fixed.
nlohmann::ordered_json toJson(const HybridConfig &config);

/// Every parameter of component text with its shape, in storage order: embedding, layers, final
/// norm, head. Bindings are empty, policies A16Only. The config must satisfy checkHybridConfig,
/// also below.
std::vector<ParameterSpec> hybridInventory(const HybridConfig &config);

/// Every parameter of component mtp. config.attention must be present.
std::vector<ParameterSpec> mtpInventory(const HybridConfig &config);

/// Parameters of the proposal head: the head, and token ids when it is indexed.
std::vector<ParameterSpec> proposalInventory(const HybridConfig &config,
                                             const Component::Proposal &proposal);

/// Number of parameters of hybridInventory, without building it.
uint64_t hybridInventorySize(const HybridConfig &config);

/// Elements, summed over the inventory. A kind of layer the model has not counts 0.
struct HybridCounts {
  uint64_t attentionMixer = 0; ///< one full attention mixer
  uint64_t deltaMixer = 0;     ///< one Gated DeltaNet mixer
  uint64_t ffn = 0;            ///< one FFN
  uint64_t blocks = 0;         ///< all layers with their norms
  uint64_t embedding = 0;      ///< = the output head
  uint64_t text = 0;           ///< one or two embeddings by tie_word_embeddings, blocks, final norm
  uint64_t mtp = 0;            ///< the draft layer and its stem; 0 without group A
  /// Elements a decode step reads without embedding and head: of the routed experts only the k
  /// selected ones.
  uint64_t activeBlocks = 0;
};
HybridCounts countParameters(const HybridConfig &config);

/// recogniseModel() for a framing 3 artifact whose text component names one of these architectures
/// (hybrid_c10 .. hybrid_c14). Errors: those of recogniseModel.
Result<ModelSpec> recogniseHybrid(const Directory &directory, std::string_view fileName,
                                  const RecogniseOptions &options);

} // namespace ninfer

#endif // NINFER_MODELS_HYBRID_H
