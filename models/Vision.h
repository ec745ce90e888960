// The vision tower of the hybrid family (component vision): its stored config and its complete
// parameter inventory. Free of MLIR. Rules vision_c1 .. vision_c5: docs/models/qwen3_5.md.
#ifndef NINFER_MODELS_VISION_H
#define NINFER_MODELS_VISION_H

#include "models/ModelSpec.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Reads components.vision.config beside a text model that is sparse (`moe`) or not. `fileName` is
/// used in messages only. Error: BadFile (NB0303).
Result<VisionConfig> parseVisionConfig(const nlohmann::ordered_json &config,
                                       std::string_view fileName, bool moe);

/// The rules that tie values together (vision_c3 .. vision_c5), for a config from any source;
/// `where` names the source in messages, `code` is the id of its errors.
Status checkVisionConfig(const VisionConfig &config, std::string_view where,
                         const char *code = "NB0303");

/// The text that parseVisionConfig reads back to an equal config; member order is fixed.
nlohmann::ordered_json toJson(const VisionConfig &config);

/// Members of the config that are integers, in storage order.
struct VisionField {
  const char *name;
  int64_t VisionConfig::*value;
  int64_t most;
};
const std::vector<VisionField> &visionFields();

/// Every parameter of component vision with its shape, in storage order. `hidden` is the hidden size
/// of the text model. Bindings are empty, policies A16Only.
std::vector<ParameterSpec> visionInventory(const VisionConfig &config, int64_t hidden);

/// The tower of the published 27B and 35B artifacts: 27 layers of 1152.
VisionConfig publishedVision(bool moe);

} // namespace ninfer

#endif // NINFER_MODELS_VISION_H
