// Recognition of a dense decoder: its config, its bindings (decoder_c8), its uses (decoder_c9).
#include "models/Bind.h"
#include "models/Decoder.h"

namespace ninfer {

Result<ModelSpec> recogniseDecoder(const Directory &directory, std::string_view fileName) {
  ModelSpec spec;
  NINFER_ASSIGN_OR_RETURN(DecoderConfig config,
                          parseDecoderConfig(directory.components.at("text").config, fileName));
  spec.parameters = decoderInventory(config);
  spec.config = std::move(config);
  NINFER_RETURN_IF_ERROR(bindParameters(directory, fileName, "text", spec.parameters));
  NINFER_RETURN_IF_ERROR(bindUses(directory, fileName, "text", "text", spec.parameters));
  return spec;
}

} // namespace ninfer
