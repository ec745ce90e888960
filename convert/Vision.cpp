#include "convert/Vision.h"

#include "convert/ConfigMembers.h"
#include "convert/HuggingFaceFolder.h"
#include "support/File.h"

namespace ninfer {

namespace {

const char *const kCode = "NB0314";

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

/// Where the parts of a parameter's name go in the tensor's.
struct Renamed {
  std::string_view parameter, tensor;
};
constexpr Renamed kOutside[] = {{"patch_embedding", "patch_embed.proj.weight"},
                                {"patch_embedding_bias", "patch_embed.proj.bias"},
                                {"position_embedding", "pos_embed.weight"}};
/// The norms and linear maps of a block and of the merger.
constexpr Renamed kModules[] = {{"attention/output", "attn.proj"}, {"mlp/fc1", "mlp.linear_fc1"},
                                {"mlp/fc2", "mlp.linear_fc2"},     {"fc1", "linear_fc1"},
                                {"fc2", "linear_fc2"},             {"norm1", "norm1"},
                                {"norm2", "norm2"},                {"norm", "norm"}};

/// Takes `suffix` off the end of `name`.
bool consumeBack(std::string_view &name, std::string_view suffix) {
  if (!name.ends_with(suffix))
    return false;
  name.remove_suffix(suffix.size());
  return true;
}

/// The tensor of a parameter inside a block or the merger, whose prefix is `stem`.
void nameTensor(VisionParameter &p, std::string_view name, const std::string &stem,
                const std::string &bank) {
  const std::string end = consumeBack(name, "_bias") ? ".bias" : ".weight";
  (void)consumeBack(name, "_weight");
  const char *const parts[] = {"attention/query", "attention/key", "attention/value"};
  for (uint64_t i = 0; i < 3; ++i)
    if (name == parts[i]) { // one under the other in one tensor, and stay so
      const uint64_t width = p.spec.shape[0];
      p.tensor = stem + "attn.qkv" + end;
      p.tensorShape[0] = 3 * width;
      p.rows = {i * width, width, width};
      p.bank = bank + "attention/qkv" + (end == ".bias" ? "_bias" : "");
      return;
    }
  for (const Renamed &module : kModules)
    if (name == module.parameter)
      p.tensor = stem + std::string(module.tensor) + end;
}

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
  for (const VisionField &field : visionFields()) {
    NINFER_ASSIGN_OR_RETURN(out.*field.value, members.integer(field.name));
  }
  NINFER_RETURN_IF_ERROR(checkVisionConfig(out, fileName + ": vision_config", kCode));
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

std::vector<VisionParameter> visionParameters(const VisionConfig &c, uint64_t hidden) {
  constexpr std::string_view tower = "vision/", layers = "layers/", merger = "merger/";
  std::vector<VisionParameter> out;
  for (ParameterSpec &spec : visionInventory(c, static_cast<int64_t>(hidden))) {
    VisionParameter p;
    p.spec = std::move(spec);
    p.tensorShape = p.spec.shape;
    std::string_view name = p.spec.name;
    name.remove_prefix(tower.size());
    for (const Renamed &outside : kOutside)
      if (name == outside.parameter)
        p.tensor = outside.tensor;
    if (name == "patch_embedding") {
      auto size = [](int64_t n) { return static_cast<uint64_t>(n); };
      p.tensorShape = {p.spec.shape[0], 3, size(c.temporalPatchSize), size(c.patchSize),
                       size(c.patchSize)};
    } else if (name.starts_with(layers)) {
      const size_t slash = name.find('/', layers.size());
      const std::string layer(name.substr(layers.size(), slash - layers.size()));
      nameTensor(p, name.substr(slash + 1), "blocks." + layer + ".",
                 std::string(tower) + std::string(layers) + layer + "/");
    } else if (name.starts_with(merger)) {
      nameTensor(p, name.substr(merger.size()), "merger.", "");
    }
    out.push_back(std::move(p));
  }
  return out;
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
