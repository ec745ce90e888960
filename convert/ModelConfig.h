// The few questions about a source's config that do not depend on the family of its model.
#ifndef NINFER_CONVERT_MODELCONFIG_H
#define NINFER_CONVERT_MODELCONFIG_H

#include "models/ModelSpec.h"
#include "support/Json.h"

#include <string>

namespace ninfer {

const std::string &architectureOf(const ModelConfig &config);
int64_t vocabSizeOf(const ModelConfig &config);
int64_t numLayersOf(const ModelConfig &config);
bool isTied(const ModelConfig &config);

/// The closed config as components.text.config stores it.
Json configToJson(const ModelConfig &config);

/// Parameters of component text and, with `mtp`, of component mtp behind them; inventory order.
std::vector<ParameterSpec> inventoryOf(const ModelConfig &config, bool mtp);

/// Spellings of config.json's architectures that the converter reads, for messages.
std::string listSourceArchitectures();

} // namespace ninfer

#endif // NINFER_CONVERT_MODELCONFIG_H
