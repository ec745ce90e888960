#include "convert/ModelConfig.h"

#include "convert/SourceConfig.h"
#include "models/Decoder.h"
#include "models/Hybrid.h"

namespace ninfer {

const std::string &architectureOf(const ModelConfig &config) {
  return std::visit([](const auto &c) -> const std::string & { return c.architecture; }, config);
}

int64_t vocabSizeOf(const ModelConfig &config) {
  return std::visit([](const auto &c) { return c.vocabSize; }, config);
}

int64_t numLayersOf(const ModelConfig &config) {
  return std::visit([](const auto &c) { return c.numLayers; }, config);
}

bool isTied(const ModelConfig &config) {
  return std::visit([](const auto &c) { return c.tieWordEmbeddings; }, config);
}

Json configToJson(const ModelConfig &config) {
  return std::visit([](const auto &c) { return toJson(c); }, config);
}

std::vector<ParameterSpec> inventoryOf(const ModelConfig &config, bool mtp) {
  if (const auto *decoder = std::get_if<DecoderConfig>(&config))
    return decoderInventory(*decoder);
  const auto &hybrid = std::get<HybridConfig>(config);
  std::vector<ParameterSpec> out = hybridInventory(hybrid);
  if (mtp)
    for (ParameterSpec &p : mtpInventory(hybrid))
      out.push_back(std::move(p));
  return out;
}

std::string listSourceArchitectures() {
  std::string out = listSupportedArchitectures();
  for (const std::string &name : hybridSourceArchitectures())
    out += ", " + name;
  return out;
}

} // namespace ninfer
