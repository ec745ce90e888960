// Recipes: which stored format each role of a parameter gets. Built-in ones and a strict TOML file.
#ifndef NINFER_CONVERT_RECIPE_H
#define NINFER_CONVERT_RECIPE_H

#include "artifact/formats/Format.h"
#include "support/Json.h"
#include "support/Status.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// What a matrix does in a model. Norms and other direct parameters have no role: their format is
/// fixed. The first nine are those of a decoder, the others occur in the hybrid family only.
enum class Role : uint8_t {
  Embedding,
  Head,
  Query,
  Key,
  Value,
  Output,
  Gate,
  Up,
  Down,
  AttentionGate,
  DeltaQuery,
  DeltaKey,
  DeltaValue,
  DeltaZ,
  DeltaOutput,
  DeltaDecay, ///< the a and b projections; bf16 unless named
  Router,     ///< with the score of the shared expert; bf16 unless named
  ExpertGate,
  ExpertUp,
  ExpertDown,
  SharedGate,
  SharedUp,
  SharedDown,
  Mtp, ///< every matrix of the draft layer but its router
  VisionPatch,
  VisionInput,  ///< what a block's norms feed: query, key, value, fc1
  VisionOutput, ///< what it adds to the residual: output, fc2
  VisionMerger
};
inline constexpr size_t kDecoderRoleCount = 9;
inline constexpr size_t kRoleCount = 28;
std::string_view roleName(Role role);

/// Role of a parameter name of models/; nothing for direct parameters.
std::optional<Role> roleOfParameter(std::string_view parameter);
/// i of "text/layers/i/..."; nothing outside the layers.
std::optional<int64_t> layerOfParameter(std::string_view parameter);

/// Spelling of a format in recipes and on the command line: bf16 fp32 w8 q6 q5 q4 fp8.
std::string_view recipeFormatName(Format format);
std::optional<Format> formatFromRecipeName(std::string_view name);

class Recipe {
public:
  /// One of builtInNames(), or nothing.
  static std::optional<Recipe> builtIn(std::string_view name);
  static const std::vector<std::string> &builtInNames();
  /// Parses a recipe file (grammar: docs/convert.md). BadFile (NB0318) names file, line and rule.
  static Result<Recipe> parse(std::string_view text, const std::string &fileName);
  /// A built-in name, else the path of a file. Usage error (NB0318) when it is neither.
  static Result<Recipe> fromArgument(const std::string &argument);

  const std::string &name() const { return name_; }
  /// Usage error (NB0318) when a layer override starts behind the last of `layers` layers: a recipe
  /// of another model.
  Status checkLayers(int64_t layers) const;
  Format formatOf(Role role, std::optional<int64_t> layer) const;
  /// Role -> format and the layer overrides, for provenance and reports; all roles, or those of a
  /// decoder.
  Json toJson(bool hybrid = false) const;

private:
  struct Override {
    int64_t first, last;
    std::array<std::optional<Format>, kRoleCount> formats;
  };
  friend class RecipeParser;
  std::string name_;
  std::array<Format, kRoleCount> formats_{};
  std::vector<Override> overrides_; ///< later ones win
};

} // namespace ninfer

#endif // NINFER_CONVERT_RECIPE_H
