// Recognition of a dense decoder: its config, its bindings (decoder_c8), its uses (decoder_c9).
#include "models/Bind.h"
#include "models/Decoder.h"

namespace ninfer {

Result<ModelSpec> recogniseDecoder(const Directory &directory, std::string_view fileName,
                                   const RecogniseOptions &options) {
  ModelSpec spec;
  NINFER_ASSIGN_OR_RETURN(DecoderConfig config,
                          parseDecoderConfig(directory.components.at("text").config, fileName));
  if (options.mtp)
    return makeError(ErrorKind::Unsupported, "NB0308",
                     std::string(fileName) + ": component mtp was selected, but " +
                         config.architecture + " has no draft layer");
  if (options.vision)
    return makeError(ErrorKind::Unsupported, "NB0308",
                     std::string(fileName) + ": component vision was selected, but " +
                         config.architecture + " has no vision tower");
  spec.parameters = decoderInventory(config);
  spec.config = std::move(config);
  NINFER_RETURN_IF_ERROR(bindParameters(directory, fileName, "text", spec.parameters));
  NINFER_RETURN_IF_ERROR(bindUses(directory, fileName, "text", "text", spec.parameters));
  return spec;
}

} // namespace ninfer
