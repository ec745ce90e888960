#include "convert/Vision.h"

#include "convert/ConfigMembers.h"
#include "convert/HuggingFaceFolder.h"
#include "support/File.h"

namespace ninfer {

namespace {

const char *const kCode = "NB0314";

uint64_t size(int64_t n) { return static_cast<uint64_t>(n); }

struct Field {
  const char *name;
  int64_t VisionConfig::*value;
  int64_t most;
};
constexpr Field kFields[] = {
    {"depth", &VisionConfig::depth, 4096},
    {"hidden_size", &VisionConfig::hiddenSize, 1 << 20},
    {"intermediate_size", &VisionConfig::intermediateSize, 1 << 24},
    {"num_heads", &VisionConfig::numHeads, 1 << 16},
    {"patch_size", &VisionConfig::patchSize, 1024},
    {"temporal_patch_size", &VisionConfig::temporalPatchSize, 64},
    {"spatial_merge_size", &VisionConfig::spatialMergeSize, 64},
    {"num_position_embeddings", &VisionConfig::numPositions, 1 << 24},
};

Error badVision(const std::string &where, const std::string &text) {
  return makeError(ErrorKind::BadFile, kCode, where + " " + text);
}

Status checkImplied(ConfigMembers &members) {
  NINFER_RETURN_IF_ERROR(members.refuseUnless("hidden_act", "gelu_pytorch_tanh",
                                              "the only supported activation of the tower is "
                                              "\"gelu_pytorch_tanh\""));
  NINFER_RETURN_IF_ERROR(
      members.refuseUnless("in_channels", 3, "images have three colour channels"));
  NINFER_RETURN_IF_ERROR(members.refuseUnless("deepstack_visual_indexes", Json::array(),
                                              "features of inner blocks are not supported"));
  const Json *rope = members.find("rope_parameters");
  if (!rope)
    return Status();
  if (!rope->is_object())
    return badVision(members.where("rope_parameters"), "must be an object");
  ConfigMembers inner(*rope, members.where("rope_parameters") + ".");
  NINFER_RETURN_IF_ERROR(inner.refuseUnless("rope_type", "axial", "positions are height and width"));
  return inner.refuseUnless("rope_theta", 10000.0, "the base of the tower's positions is fixed");
}

/// Collects the parameters.
class Tower {
public:
  std::vector<VisionParameter> out;

  VisionParameter &add(const std::string &name, std::vector<uint64_t> shape,
                       const std::string &tensor) {
    VisionParameter p;
    p.spec.name = "vision/" + name;
    p.spec.shape = shape;
    p.tensor = tensor;
    p.tensorShape = std::move(shape);
    out.push_back(std::move(p));
    return out.back();
  }
  VisionParameter &direct(const std::string &name, std::vector<uint64_t> shape,
                          const std::string &tensor) {
    VisionParameter &p = add(name, std::move(shape), tensor);
    p.spec.direct = true;
    return p;
  }
  VisionParameter &matrix(const std::string &name, uint64_t rows, uint64_t columns,
                          const std::string &tensor, const std::string &input) {
    VisionParameter &p = add(name, {rows, columns}, tensor);
    p.spec.input = "vision/" + input;
    return p;
  }
  /// A matrix and its bias.
  void linear(const std::string &name, uint64_t rows, uint64_t columns, const std::string &tensor,
              const std::string &input) {
    matrix(name, rows, columns, tensor + ".weight", input);
    direct(name + "_bias", {rows}, tensor + ".bias");
  }
  void norm(const std::string &name, uint64_t width, const std::string &tensor) {
    direct(name + "_weight", {width}, tensor + ".weight");
    direct(name + "_bias", {width}, tensor + ".bias");
  }

  /// Query, key and value lie one under the other in one tensor, and stay so.
  void attention(const std::string &layer, uint64_t width, const std::string &tensor) {
    const char *const parts[] = {"query", "key", "value"};
    for (uint64_t i = 0; i < 3; ++i) {
      VisionParameter &p = matrix(layer + "attention/" + parts[i], width, width,
                                  tensor + ".weight", layer + "attention_input");
      p.tensorShape = {3 * width, width};
      p.rows = {i * width, width, width};
      p.bank = "vision/" + layer + "attention/qkv";
    }
    for (const char *part : parts) {
      VisionParameter &p =
          direct(layer + "attention/" + part + "_bias", {width}, tensor + ".bias");
      p.tensorShape = {3 * width};
      p.bank = "vision/" + layer + "attention/qkv_bias";
    }
  }
};

} // namespace

Result<VisionConfig> visionFromHuggingFace(const Json &config, const HybridConfig &text,
                                           const std::string &fileName,
                                           std::vector<std::string> &notes) {
  auto it = config.find("vision_config");
  if (it == config.end() || !it->is_object())
    return unsupportedConfig(fileName, "no vision_config, so there is no vision tower to convert");
  ConfigMembers members(*it, fileName + ": vision_config.");
  VisionConfig out;
  out.moe = text.moe.has_value();
  const std::string family = out.moe ? "qwen3_5_moe" : "qwen3_5";
  if (const Json *type = members.find("model_type");
      type && *type != family && *type != family + "_vision")
    return badVision(members.where("model_type"),
                     "must be \"" + family + "_vision\", got " + jsonExcerpt(*type));
  NINFER_RETURN_IF_ERROR(checkImplied(members));
  for (const Field &field : kFields) {
    NINFER_ASSIGN_OR_RETURN(out.*field.value, members.integer(field.name));
    if (out.*field.value > field.most)
      return badVision(members.where(field.name), "must be at most " + std::to_string(field.most) +
                                                      ", got " + std::to_string(out.*field.value));
  }
  if (out.hiddenSize % out.numHeads != 0 || out.hiddenSize / out.numHeads % 4 != 0)
    return badVision(members.where("hidden_size"),
                     "must be num_heads times a multiple of 4, got " +
                         std::to_string(out.hiddenSize) + " and " + std::to_string(out.numHeads));
  int64_t side = 0;
  while ((side + 1) * (side + 1) <= out.numPositions)
    ++side;
  if (side * side != out.numPositions)
    return badVision(members.where("num_position_embeddings"),
                     "must be a square, got " + std::to_string(out.numPositions));
  NINFER_ASSIGN_OR_RETURN(int64_t width, members.integer("out_hidden_size", text.hiddenSize));
  if (width != text.hiddenSize)
    return badVision(members.where("out_hidden_size"),
                     "must be the hidden_size of the text model (" +
                         std::to_string(text.hiddenSize) + "), got " + std::to_string(width));
  if (std::string unused = members.unused({"dtype", "initializer_range", "torch_dtype"});
      !unused.empty())
    notes.push_back(fileName + ": members of vision_config not used: " + unused);
  return out;
}

Json toJson(const VisionConfig &config) {
  Json out = {{"model_type", config.moe ? "qwen3_5_moe_vision" : "qwen3_5_vision"}};
  for (const Field &field : kFields)
    out[field.name] = config.*field.value;
  return out;
}

std::vector<VisionParameter> visionParameters(const VisionConfig &c, uint64_t hidden) {
  const uint64_t width = size(c.hiddenSize), inner = size(c.intermediateSize);
  const uint64_t patch = size(c.patchSize), frames = size(c.temporalPatchSize);
  const uint64_t merged = size(c.spatialMergeSize) * size(c.spatialMergeSize) * width;
  Tower tower;
  tower.matrix("patch_embedding", width, 3 * frames * patch * patch, "patch_embed.proj.weight",
               "patch_input")
      .tensorShape = {width, 3, frames, patch, patch};
  tower.direct("patch_embedding_bias", {width}, "patch_embed.proj.bias");
  tower.direct("position_embedding", {size(c.numPositions), width}, "pos_embed.weight");
  for (int64_t i = 0; i < c.depth; ++i) {
    const std::string layer = "layers/" + std::to_string(i) + "/";
    const std::string block = "blocks." + std::to_string(i) + ".";
    tower.norm(layer + "norm1", width, block + "norm1");
    tower.attention(layer, width, block + "attn.qkv");
    tower.linear(layer + "attention/output", width, width, block + "attn.proj",
                 layer + "attention_output");
    tower.norm(layer + "norm2", width, block + "norm2");
    tower.linear(layer + "mlp/fc1", inner, width, block + "mlp.linear_fc1", layer + "mlp_input");
    tower.linear(layer + "mlp/fc2", width, inner, block + "mlp.linear_fc2",
                 layer + "mlp_activation");
  }
  tower.norm("merger/norm", width, "merger.norm");
  tower.linear("merger/fc1", merged, merged, "merger.linear_fc1", "merger/input");
  tower.linear("merger/fc2", hidden, merged, "merger.linear_fc2", "merger/activation");
  return std::move(tower.out);
}

Result<std::vector<SourceResource>> visionFilesOfFolder(const ModelFolder &folder,
                                                        const VisionConfig &config) {
  constexpr uint64_t kMaxBytes = 16u << 20;
  std::vector<SourceResource> out;
  for (const char *role : {"preprocessor_config.json", "video_preprocessor_config.json"}) {
    if (!folder.contains(role))
      continue;
    NINFER_ASSIGN_OR_RETURN(std::filesystem::path path, folder.resolve(role));
    NINFER_ASSIGN_OR_RETURN(std::string bytes, readFile(path, kMaxBytes));
    NINFER_ASSIGN_OR_RETURN(Json json, parseStrictJson(bytes, role, "NB0320"));
    if (!json.is_object())
      return makeError(ErrorKind::BadFile, "NB0320",
                       std::string(role) + ": must be a JSON object");
    for (const auto &[name, value] : {std::pair("patch_size", config.patchSize),
                                      std::pair("temporal_patch_size", config.temporalPatchSize),
                                      std::pair("merge_size", config.spatialMergeSize)})
      if (json.contains(name) && json[name] != value)
        return makeError(ErrorKind::BadFile, "NB0320",
                         std::string(role) + ": " + name + " is " + jsonExcerpt(json[name]) +
                             ", vision_config says " + std::to_string(value));
    out.push_back({role, std::move(bytes), "vision"});
  }
  return out;
}

} // namespace ninfer
