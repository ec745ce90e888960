// The dense decoder family (LlamaForCausalLM, Qwen3ForCausalLM): its stored config, its complete
// parameter inventory, and the recognition of an artifact that holds one. Free of MLIR.
// Rules decoder_c1 .. decoder_c9: docs/models/decoder.md.
#ifndef NINFER_MODELS_DECODER_H
#define NINFER_MODELS_DECODER_H

#include "models/ModelSpec.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Architectures of this package, in the order messages list them. All packages:
/// listModelArchitectures().
const std::vector<std::string> &supportedArchitectures();

/// "LlamaForCausalLM, Qwen3ForCausalLM".
std::string listSupportedArchitectures();

/// Reads components.text.config: a closed set of members with Hugging Face names, every value
/// checked (decoder_c1 .. decoder_c7). `fileName` is used in messages only. Errors: Unsupported
/// (NB0302) for another architecture, BadFile (NB0303) for everything else.
Result<DecoderConfig> parseDecoderConfig(const nlohmann::ordered_json &config,
                                         std::string_view fileName);

/// The rules that tie values together (decoder_c2 .. decoder_c7), for a config from any source;
/// `where` names the source in messages. Error: BadFile (NB0303).
Status checkDecoderConfig(const DecoderConfig &config, std::string_view where);

/// The text that parseDecoderConfig reads back to an equal config; member order is fixed.
nlohmann::ordered_json toJson(const DecoderConfig &config);

/// Every parameter of the architecture with its shape, in storage order: embedding, layers, final
/// norm, head. Bindings are empty, policies A16Only. The config must satisfy checkDecoderConfig.
std::vector<ParameterSpec> decoderInventory(const DecoderConfig &config);

/// recogniseModel() for a framing 3 artifact whose text component names one of these architectures:
/// the bindings under text/ are exactly the inventory (decoder_c8), and every projection has its
/// Use with an explicit policy (decoder_c9). Errors: BadFile (NB0303 config, NB0304 parameters,
/// NB0305 uses).
Result<ModelSpec> recogniseDecoder(const Directory &directory, std::string_view fileName,
                                   const RecogniseOptions &options = {});

} // namespace ninfer

#endif // NINFER_MODELS_DECODER_H
