// A Hugging Face model folder: its files by safe names, its tensors (single file or sharded with an
// index), its config and its tokenizer resources.
#ifndef NINFER_CONVERT_HUGGINGFACEFOLDER_H
#define NINFER_CONVERT_HUGGINGFACEFOLDER_H

#include "convert/Checkpoint.h"
#include "support/Json.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace ninfer {

/// Resolves file names inside one folder. A name must be one plain base name; the real path of the
/// file must lie in the folder's real path, or, when the folder is snapshots/<revision> of a hub
/// cache, in that repository's cache folder (its files are links into blobs/).
class ModelFolder {
public:
  /// NB0310 when `path` is no folder.
  static Result<ModelFolder> open(const std::filesystem::path &path);

  /// Real path of an existing file; NB0312 for an unsafe name or a link that leads outside, NB0310
  /// when missing.
  Result<std::filesystem::path> resolve(const std::string &name) const;
  /// True when an entry of that name exists, link or file.
  bool contains(const std::string &name) const;
  const std::filesystem::path &path() const { return folder_; }

private:
  std::filesystem::path folder_;  ///< real path
  std::filesystem::path allowed_; ///< root under which real paths of files may lie
};

/// Why `name` is not one plain base name, or nothing when it is.
std::optional<std::string> unsafeNameReason(const std::string &name);

/// The weight_map of an index: tensor name -> file name, every name safe. BadFile (NB0312).
Result<std::map<std::string, std::string>> parseShardIndex(std::string_view text,
                                                           const std::string &fileName);

/// Opens the folder. `weights` picks a .safetensors file or an index in it; empty:
/// model.safetensors or model.safetensors.index.json, whichever exists (both: refused).
Result<Checkpoint> openHuggingFace(const std::filesystem::path &folder, const std::string &weights,
                                   const CheckpointOptions &options);

} // namespace ninfer

#endif // NINFER_CONVERT_HUGGINGFACEFOLDER_H
