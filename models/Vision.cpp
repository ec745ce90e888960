// Config and inventory of the vision tower.
#include "models/Vision.h"

#include "support/Json.h"

#include <cmath>
#include <set>

namespace ninfer {

namespace {

constexpr double kRopeTheta = 10000.0;

Error badVision(std::string_view where, const char *code, std::string text) {
  return makeError(ErrorKind::BadFile, code, std::string(where) + ": " + std::move(text));
}

const char *modelType(bool moe) { return moe ? "qwen3_5_moe_vision" : "qwen3_5_vision"; }

/// Appends the parameters.
class Tower {
public:
  void direct(const std::string &name, std::vector<uint64_t> shape) {
    ParameterSpec p;
    p.name = "vision/" + name;
    p.shape = std::move(shape);
    p.direct = true;
    out.push_back(std::move(p));
  }
  void matrix(const std::string &name, uint64_t rows, uint64_t columns, const std::string &input) {
    ParameterSpec p;
    p.name = "vision/" + name;
    p.shape = {rows, columns};
    p.input = "vision/" + input;
    out.push_back(std::move(p));
  }
  /// A matrix and its bias.
  void linear(const std::string &name, uint64_t rows, uint64_t columns, const std::string &input) {
    matrix(name, rows, columns, input);
    direct(name + "_bias", {rows});
  }
  void norm(const std::string &name, uint64_t width) {
    direct(name + "_weight", {width});
    direct(name + "_bias", {width});
  }

  std::vector<ParameterSpec> out;
};

} // namespace

int64_t VisionConfig::positionSide() const {
  int64_t side = 0;
  while ((side + 1) * (side + 1) <= numPositions)
    ++side;
  return side;
}

std::vector<double> VisionConfig::ropeInverseFrequencies() const {
  std::vector<double> out;
  const int64_t pairs = headDim() / 4;
  for (int64_t i = 0; i < pairs; ++i)
    out.push_back(std::pow(kRopeTheta, -double(2 * i) / double(2 * pairs)));
  return out;
}

const std::vector<VisionField> &visionFields() {
  static const std::vector<VisionField> fields = {
      {"depth", &VisionConfig::depth, 4096},
      {"hidden_size", &VisionConfig::hiddenSize, 1 << 20},
      {"intermediate_size", &VisionConfig::intermediateSize, 1 << 24},
      {"num_heads", &VisionConfig::numHeads, 1 << 16},
      {"patch_size", &VisionConfig::patchSize, 1024},
      {"temporal_patch_size", &VisionConfig::temporalPatchSize, 64},
      {"spatial_merge_size", &VisionConfig::spatialMergeSize, 64},
      {"num_position_embeddings", &VisionConfig::numPositions, 1 << 24},
  };
  return fields;
}

Status checkVisionConfig(const VisionConfig &c, std::string_view where, const char *code) {
  for (const VisionField &field : visionFields()) // vision_c3
    if (c.*field.value < 1 || c.*field.value > field.most)
      return badVision(where, code,
                       std::string(field.name) + " must be in 1.." + std::to_string(field.most) +
                           ", got " + std::to_string(c.*field.value));
  if (c.hiddenSize % c.numHeads != 0 || c.headDim() % 4 != 0) // vision_c4
    return badVision(where, code,
                     "hidden_size must be num_heads times a multiple of 4, got " +
                         std::to_string(c.hiddenSize) + " and " + std::to_string(c.numHeads));
  if (c.positionSide() * c.positionSide() != c.numPositions) // vision_c5
    return badVision(where, code,
                     "num_position_embeddings must be a square, got " +
                         std::to_string(c.numPositions));
  return {};
}

Result<VisionConfig> parseVisionConfig(const Json &config, std::string_view fileName, bool moe) {
  const std::string where = std::string(fileName) + ": components.vision.config";
  if (!config.is_object())
    return badVision(where, "NB0303", "must be an object, got " + jsonExcerpt(config));
  std::set<std::string> known = {"model_type"}; // vision_c1
  for (const VisionField &field : visionFields())
    known.insert(field.name);
  for (const std::string &name : known)
    if (!config.contains(name))
      return badVision(where, "NB0303", "member " + name + " is missing");
  for (const auto &member : config.items())
    if (!known.count(member.key()))
      return badVision(where, "NB0303", "unknown member '" + member.key() + "'");
  if (config["model_type"] != modelType(moe)) // vision_c2
    return badVision(where, "NB0303",
                     std::string("model_type must be \"") + modelType(moe) +
                         "\" beside this text model, got " + jsonExcerpt(config["model_type"]));
  VisionConfig out;
  out.moe = moe;
  for (const VisionField &field : visionFields()) {
    NINFER_ASSIGN_OR_RETURN(
        out.*field.value,
        jsonInteger(config[field.name], 1, field.most, where + "." + field.name, "NB0303"));
  }
  NINFER_RETURN_IF_ERROR(checkVisionConfig(out, where));
  return out;
}

Json toJson(const VisionConfig &config) {
  Json out = {{"model_type", modelType(config.moe)}};
  for (const VisionField &field : visionFields())
    out[field.name] = config.*field.value;
  return out;
}

std::vector<ParameterSpec> visionInventory(const VisionConfig &c, int64_t hidden) {
  auto size = [](int64_t n) { return static_cast<uint64_t>(n); };
  const uint64_t width = size(c.hiddenSize), inner = size(c.intermediateSize);
  const uint64_t merged = size(c.mergedWidth());
  Tower tower;
  tower.matrix("patch_embedding", width, size(c.patchWidth()), "patch_input");
  tower.direct("patch_embedding_bias", {width});
  tower.direct("position_embedding", {size(c.numPositions), width});
  for (int64_t i = 0; i < c.depth; ++i) {
    const std::string layer = "layers/" + std::to_string(i) + "/";
    tower.norm(layer + "norm1", width);
    for (const char *part : {"query", "key", "value"})
      tower.matrix(layer + "attention/" + part, width, width, layer + "attention_input");
    for (const char *part : {"query", "key", "value"})
      tower.direct(layer + "attention/" + part + "_bias", {width});
    tower.linear(layer + "attention/output", width, width, layer + "attention_output");
    tower.norm(layer + "norm2", width);
    tower.linear(layer + "mlp/fc1", inner, width, layer + "mlp_input");
    tower.linear(layer + "mlp/fc2", width, inner, layer + "mlp_activation");
  }
  tower.norm("merger/norm", width);
  tower.linear("merger/fc1", merged, merged, "merger/input");
  tower.linear("merger/fc2", size(hidden), merged, "merger/activation");
  return std::move(tower.out);
}

VisionConfig publishedVision(bool moe) { return {moe, 27, 1152, 4304, 16, 16, 2, 2, 2304}; }

} // namespace ninfer
