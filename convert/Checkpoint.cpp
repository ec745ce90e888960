// Dispatch on what the source path is.
#include "convert/Checkpoint.h"

#include "convert/Gguf.h"
#include "convert/HuggingFaceFolder.h"
#include "convert/SourceConfig.h"
#include "convert/TokenizerFiles.h"
#include "support/FileKind.h"

namespace ninfer {

namespace fs = std::filesystem;

namespace {

Result<Checkpoint> openGguf(const fs::path &path, const CheckpointOptions &options) {
  if (options.vision)
    return makeError(ErrorKind::Unsupported, "NB0315",
                     path.string() + ": a GGUF model has no vision tower to convert");
  NINFER_ASSIGN_OR_RETURN(SourceFile file, SourceFile::open(path));
  NINFER_ASSIGN_OR_RETURN(GgufFile gguf, readGguf(file));
  Checkpoint out;
  out.kind = "gguf";
  NINFER_ASSIGN_OR_RETURN(std::optional<std::string> name, gguf.textAt("general.name"));
  bool usable = name && !name->empty() && name->find('\0') == std::string::npos;
  out.modelName = usable ? *name : path.stem().string();
  const bool hybrid = isHybrid(gguf);
  int64_t positions = 0, draftLayers = 0;
  if (hybrid) {
    NINFER_ASSIGN_OR_RETURN(HybridConfig config, hybridFromGguf(gguf, out.notes));
    positions = config.maxPositions;
    draftLayers = out.notes.empty() ? 0 : 1;
    out.config = std::move(config);
  } else {
    NINFER_ASSIGN_OR_RETURN(DecoderConfig config, configFromGguf(gguf, file));
    positions = config.maxPositions;
    out.config = std::move(config);
  }
  if (options.tokenizer) {
    NINFER_ASSIGN_OR_RETURN(out.resources,
                            tokenizerFilesOfGguf(gguf, vocabSizeOf(out.config), positions));
  }
  out.tensors.tensors = std::move(gguf.tensors);
  out.tensors.files.push_back(std::move(file));
  NINFER_RETURN_IF_ERROR(hybrid ? bindHybridParameters(out, gguf.fileName, draftLayers)
                                : bindParameters(out, gguf.fileName));
  return out;
}

} // namespace

namespace {

Result<Checkpoint> open(const fs::path &path, const CheckpointOptions &options) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return openHuggingFace(path, "", options);
  if (!fs::exists(path, error))
    return makeError(ErrorKind::BadFile, "NB0310", path.string() + ": no such file or folder");
  if (path.extension() == ".gguf")
    return openGguf(path, options);
  std::string name = path.filename().string();
  if (path.extension() == ".safetensors" || name == "model.safetensors.index.json") {
    fs::path folder = path.parent_path();
    return openHuggingFace(folder.empty() ? fs::path(".") : folder, name, options);
  }
  Status status(
      makeError(ErrorKind::BadFile, "NB0310", path.string() + ": unknown kind of source"));
  status.note("it is " + describeFileKind(path));
  status.help(
      "give a model folder, a .safetensors file, model.safetensors.index.json, or a .gguf file");
  return status;
}

} // namespace

Result<Checkpoint> openCheckpoint(const fs::path &path, const CheckpointOptions &options) {
  NINFER_ASSIGN_OR_RETURN(Checkpoint out, open(path, options));
  NINFER_RETURN_IF_ERROR(checkTextResources(out.resources, vocabSizeOf(out.config), out.notes));
  return out;
}

} // namespace ninfer
