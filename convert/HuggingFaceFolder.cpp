#include "convert/HuggingFaceFolder.h"

#include "convert/Safetensors.h"
#include "convert/SourceConfig.h"
#include "convert/TokenizerFiles.h"
#include "convert/Vision.h"
#include "support/File.h"
#include "support/Utf8.h"

#include <algorithm>
#include <set>

namespace ninfer {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxJsonBytes = 256u << 20;
const char *const kSingleName = "model.safetensors";
const char *const kIndexName = "model.safetensors.index.json";

Error badIndex(const std::string &text) { return makeError(ErrorKind::BadFile, "NB0312", text); }

bool liesUnder(const fs::path &path, const fs::path &root) {
  auto [end, rest] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return end == root.end();
}

/// JSON text with anything that is not printable ASCII made visible, so that a hostile name cannot
/// forge a message.
std::string visible(const std::string &name) {
  return Json(name).dump(-1, ' ', true, Json::error_handler_t::replace);
}

} // namespace

std::optional<std::string> unsafeNameReason(const std::string &name) {
  if (name.empty())
    return "it is empty";
  if (name == "." || name == "..")
    return "it is a folder";
  for (char c : name) {
    auto u = static_cast<unsigned char>(c);
    if (c == '/' || c == '\\' || c == ':')
      return std::string("it contains '") + c + "'";
    if (u < 0x20 || u == 0x7f)
      return "it contains a control character";
  }
  if (!isValidUtf8(name))
    return "it is not UTF-8";
  return std::nullopt;
}

Result<ModelFolder> ModelFolder::open(const fs::path &path) {
  std::error_code error;
  ModelFolder out;
  out.folder_ = fs::canonical(path, error);
  if (error || !fs::is_directory(out.folder_, error))
    return makeError(ErrorKind::BadFile, "NB0310", path.string() + ": no such folder");
  out.allowed_ = out.folder_;
  // Hub cache: <cache>/models--org--name/snapshots/<revision>/file -> ../../blobs/<digest>.
  fs::path snapshots = out.folder_.parent_path();
  if (snapshots.filename() == "snapshots" &&
      snapshots.parent_path().filename().string().rfind("models--", 0) == 0)
    out.allowed_ = snapshots.parent_path();
  return out;
}

bool ModelFolder::contains(const std::string &name) const {
  std::error_code error;
  return fs::exists(fs::symlink_status(folder_ / name, error));
}

Result<fs::path> ModelFolder::resolve(const std::string &name) const {
  if (std::optional<std::string> reason = unsafeNameReason(name))
    return badIndex(folder_.string() + ": unsafe file name " + visible(name) + ": " + *reason);
  std::error_code error;
  fs::path real = fs::canonical(folder_ / name, error);
  if (error)
    return makeError(ErrorKind::BadFile, "NB0310",
                     (folder_ / name).string() + ": " +
                         (contains(name) ? "broken link" : "no such file"));
  if (!liesUnder(real, allowed_))
    return badIndex((folder_ / name).string() + ": the link leads outside " + allowed_.string());
  return real;
}

Result<std::map<std::string, std::string>> parseShardIndex(std::string_view text,
                                                           const std::string &fileName) {
  NINFER_ASSIGN_OR_RETURN(Json index, parseStrictJson(text, fileName, "NB0312"));
  NINFER_RETURN_IF_ERROR(jsonMembers(index, {"weight_map"}, {"metadata"}, fileName, "NB0312"));
  const Json &map = index["weight_map"];
  if (!map.is_object() || map.empty())
    return badIndex(fileName + ": weight_map must be an object that is not empty");
  std::map<std::string, std::string> out;
  for (const auto &item : map.items()) {
    if (!item.value().is_string())
      return badIndex(fileName + ": the file of tensor " + visible(item.key()) +
                      " must be a string, got " + jsonExcerpt(item.value()));
    std::string name = item.value().get<std::string>();
    if (std::optional<std::string> reason = unsafeNameReason(name))
      return badIndex(fileName + ": unsafe file name " + visible(name) + " of tensor " +
                      visible(item.key()) + ": " + *reason);
    out.emplace(item.key(), std::move(name));
  }
  return out;
}

namespace {

Status addFile(const ModelFolder &folder, const std::string &name, SourceTensors &out) {
  NINFER_ASSIGN_OR_RETURN(fs::path real, folder.resolve(name));
  NINFER_ASSIGN_OR_RETURN(SourceFile file, SourceFile::open(real, name));
  NINFER_ASSIGN_OR_RETURN(std::vector<SourceTensor> tensors, readSafetensors(file));
  auto index = static_cast<uint32_t>(out.files.size());
  out.files.push_back(std::move(file));
  for (SourceTensor &t : tensors) {
    t.file = index;
    out.tensors.push_back(std::move(t));
  }
  return Status();
}

/// "model-00002-of-00005.safetensors" -> "model-" and "-of-00005.safetensors"; nothing for other names.
std::optional<std::pair<std::string, std::string>> shardSeries(const std::string &name) {
  const size_t of = name.rfind("-of-");
  if (of == std::string::npos || of == 0)
    return std::nullopt;
  size_t digits = of;
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
    --digits;
  if (digits == of || digits == 0 || name[digits - 1] != '-')
    return std::nullopt;
  return std::pair(name.substr(0, digits), name.substr(of));
}

/// A shard of the same series that lies in the folder but not in the index: the two belong to different versions of
/// the model. Files of other names are none of the index's business.
Status refuseUnlistedShards(const ModelFolder &folder, const std::vector<std::string> &listed, const std::string &indexName) {
  std::set<std::pair<std::string, std::string>> series;
  for (const std::string &name : listed)
    if (auto of = shardSeries(name))
      series.insert(*of);
  if (series.empty())
    return Status();
  std::error_code error;
  for (fs::directory_iterator entry(folder.path(), error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    auto of = shardSeries(name);
    if (of && series.count(*of) && !std::binary_search(listed.begin(), listed.end(), name))
      return badIndex(indexName + ": shard " + visible(name) + " lies in the folder but is not listed");
  }
  if (error)
    return badIndex(folder.path().string() + ": cannot list the folder: " + error.message());
  return Status();
}

/// Opens every shard the index names. A tensor must lie in exactly the file the index says, and no
/// other may exist.
Status addShards(const ModelFolder &folder, const std::string &indexName, SourceTensors &out) {
  NINFER_ASSIGN_OR_RETURN(fs::path real, folder.resolve(indexName));
  NINFER_ASSIGN_OR_RETURN(std::string text, readFile(real, kMaxJsonBytes));
  NINFER_ASSIGN_OR_RETURN(auto weightMap, parseShardIndex(text, indexName));
  std::vector<std::string> names;
  for (const auto &[tensor, file] : weightMap)
    names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  NINFER_RETURN_IF_ERROR(refuseUnlistedShards(folder, names, indexName));
  for (const std::string &name : names)
    NINFER_RETURN_IF_ERROR(addFile(folder, name, out));

  for (const SourceTensor &t : out.tensors) {
    const std::string &file = names[t.file];
    auto it = weightMap.find(t.name);
    if (it == weightMap.end())
      return badIndex(indexName + ": tensor " + visible(t.name) + " of " + file + " is not listed");
    if (it->second.empty())
      return badIndex(indexName + ": tensor " + visible(t.name) + " occurs twice");
    if (it->second != file)
      return badIndex(indexName + ": tensor " + visible(t.name) + " is listed in " + it->second +
                      " but lies in " + file);
    it->second.clear(); // seen
  }
  for (const auto &[tensor, file] : weightMap)
    if (!file.empty())
      return badIndex(indexName + ": tensor " + visible(tensor) + " is not in " + file);
  return Status();
}

/// Quantization configs that tools write beside config.json.
Result<QuantSideFiles> readQuantSideFiles(const ModelFolder &folder) {
  QuantSideFiles out;
  for (const std::string &name : quantSideFileNames()) {
    if (!folder.contains(name))
      continue;
    NINFER_ASSIGN_OR_RETURN(fs::path real, folder.resolve(name));
    NINFER_ASSIGN_OR_RETURN(std::string text, readFile(real, kMaxJsonBytes));
    NINFER_ASSIGN_OR_RETURN(Json value, parseStrictJson(text, name, "NB0323"));
    out.emplace(name, std::move(value));
  }
  return out;
}

Result<std::string> chooseWeights(const ModelFolder &folder) {
  bool single = folder.contains(kSingleName), index = folder.contains(kIndexName);
  if (single && index)
    return badIndex(folder.path().string() + ": both " + kSingleName + " and " + kIndexName +
                    " exist; give the path of the one that is meant");
  if (!single && !index) {
    Status status(makeError(ErrorKind::BadFile, "NB0310",
                            folder.path().string() + ": neither " + kSingleName + " nor " +
                                kIndexName + " exists"));
    status.help("give a model folder, a .safetensors file, or a .gguf file");
    return status;
  }
  return std::string(single ? kSingleName : kIndexName);
}

/// "org/name" for hub caches, else the folder's name.
std::string nameOfFolder(const fs::path &folder) {
  if (folder.parent_path().filename() != "snapshots")
    return folder.filename().string();
  std::string name = folder.parent_path().parent_path().filename().string();
  constexpr std::string_view kPrefix = "models--";
  if (name.compare(0, kPrefix.size(), kPrefix) == 0)
    name.erase(0, kPrefix.size());
  if (size_t split = name.find("--"); split != std::string::npos)
    name.replace(split, 2, "/");
  return name;
}

} // namespace

Result<Checkpoint> openHuggingFace(const fs::path &path, const std::string &weights,
                                   const CheckpointOptions &options) {
  NINFER_ASSIGN_OR_RETURN(ModelFolder folder, ModelFolder::open(path));
  Checkpoint out;
  out.kind = "safetensors";
  out.modelName = nameOfFolder(folder.path());

  if (!folder.contains("config.json")) {
    Status status(makeError(ErrorKind::BadFile, "NB0310",
                            folder.path().string() + ": not a model folder (no config.json)"));
    status.help("give a model folder with config.json and its weights, or a .gguf file");
    return status;
  }
  NINFER_ASSIGN_OR_RETURN(fs::path configPath, folder.resolve("config.json"));
  NINFER_ASSIGN_OR_RETURN(std::string configText, readFile(configPath, kMaxJsonBytes));
  NINFER_ASSIGN_OR_RETURN(Json config, parseStrictJson(configText, "config.json", "NB0314"));
  const bool hybrid = namesHybrid(config);
  HybridSource hybridSource;
  if (hybrid) {
    NINFER_ASSIGN_OR_RETURN(hybridSource,
                            hybridFromHuggingFace(config, "config.json", out.notes));
    out.config = hybridSource.config;
  } else {
    NINFER_ASSIGN_OR_RETURN(out.config, configFromHuggingFace(config, "config.json", out.notes));
  }
  if (options.vision && !hybrid)
    return makeError(ErrorKind::Unsupported, "NB0315",
                     "config.json: " + architectureOf(out.config) +
                         " has no vision tower to convert");
  if (options.vision) {
    NINFER_ASSIGN_OR_RETURN(out.vision, visionFromHuggingFace(config, hybridSource.config,
                                                              "config.json", out.notes));
  }

  NINFER_ASSIGN_OR_RETURN(QuantSideFiles sideFiles, readQuantSideFiles(folder));
  NINFER_ASSIGN_OR_RETURN(std::optional<QuantConfig> quantization,
                          findQuantization(config, sideFiles));

  if (quantization && hybrid) {
    Status status(makeError(ErrorKind::Unsupported, "NB0315",
                            quantization->where + ": quantized checkpoints of " +
                                architectureOf(out.config) + " are not imported"));
    status.help("convert the original BF16 or F16 checkpoint with --recipe instead");
    return status;
  }

  std::string name = weights;
  if (name.empty()) {
    NINFER_ASSIGN_OR_RETURN(name, chooseWeights(folder));
  }
  bool isIndex = fs::path(name).extension() == ".json";
  NINFER_RETURN_IF_ERROR(isIndex ? addShards(folder, name, out.tensors)
                                 : addFile(folder, name, out.tensors));
  if (quantization) {
    out.quantMethod = quantization->method;
    NINFER_RETURN_IF_ERROR(
        importQuantized(*quantization, std::get<DecoderConfig>(out.config), options.imports,
                        out.tensors, out.notes));
  }
  NINFER_RETURN_IF_ERROR(hybrid ? bindHybridParameters(out, name, hybridSource.draftLayers)
                                : bindParameters(out, name));
  if (options.tokenizer) {
    NINFER_ASSIGN_OR_RETURN(out.resources,
                            tokenizerFilesOfFolder(folder, config, vocabSizeOf(out.config)));
  }
  if (out.vision) {
    NINFER_ASSIGN_OR_RETURN(std::vector<SourceResource> files,
                            visionFilesOfFolder(folder, *out.vision));
    for (SourceResource &file : files)
      out.resources.push_back(std::move(file));
  }
  return out;
}

} // namespace ninfer
