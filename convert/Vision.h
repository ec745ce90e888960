// The vision tower of a hybrid checkpoint, carried along into component vision when asked for: its
// config, its parameters with the tensors they come from, and its preprocessor files.
#ifndef NINFER_CONVERT_VISION_H
#define NINFER_CONVERT_VISION_H

#include "convert/Checkpoint.h"
#include "models/Vision.h"
#include "support/Json.h"

#include <string>
#include <vector>

namespace ninfer {

class ModelFolder;

/// Reads vision_config beside `text`. Members that the stored config implies are checked. Errors:
/// BadFile (NB0314), Unsupported (NB0315).
Result<VisionConfig> visionFromHuggingFace(const Json &config, const HybridConfig &text,
                                           const std::string &fileName,
                                           std::vector<std::string> &notes);

/// One parameter and its tensor.
struct VisionParameter {
  ParameterSpec spec;
  std::string tensor;                ///< behind the tower's prefix
  std::vector<uint64_t> tensorShape; ///< its trailing axes are one row of the parameter
  RowSelection rows;
  std::string bank;
};
/// In storage order. `hidden` is the hidden size of the text model.
std::vector<VisionParameter> visionParameters(const VisionConfig &config, uint64_t hidden);

/// preprocessor_config.json and video_preprocessor_config.json, those that are there; what they say
/// of patches must agree with `config`. Errors: BadFile (NB0320), NB0312.
Result<std::vector<SourceResource>> visionFilesOfFolder(const ModelFolder &folder,
                                                        const VisionConfig &config);

} // namespace ninfer

#endif // NINFER_CONVERT_VISION_H
