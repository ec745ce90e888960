#include "convert/Recipe.h"

#include "support/File.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace ninfer {

namespace {

const char *const kCode = "NB0318";

struct RoleEntry {
  const char *name;
  const char *suffix; ///< of the parameter name; roles outside layers have the full name
  /// Whose format a role not named in a file without a default takes. Itself: it must be named.
  Role counterpart;
};
constexpr RoleEntry kRoles[kRoleCount] = {
    {"embedding", "text/token_embedding", Role::Embedding},
    {"head", "text/output_head", Role::Head},
    {"query", "/attention/query", Role::Query},
    {"key", "/attention/key", Role::Key},
    {"value", "/attention/value", Role::Value},
    {"output", "/attention/output", Role::Output},
    {"gate", "/mlp/gate", Role::Gate},
    {"up", "/mlp/up", Role::Up},
    {"down", "/mlp/down", Role::Down},
    {"attention_gate", "/attention/gate", Role::Value},
    {"gdn_query", "/gdn/query", Role::Query},
    {"gdn_key", "/gdn/key", Role::Key},
    {"gdn_value", "/gdn/value", Role::Value},
    {"gdn_z", "/gdn/z", Role::Value},
    {"gdn_output", "/gdn/output", Role::Output},
    {"gdn_decay", "/gdn/[ab]_projection", Role::DeltaDecay},
    {"router", "/moe/{router,shared_score}", Role::Router},
    {"expert_gate", "/moe/experts/*/gate", Role::Gate},
    {"expert_up", "/moe/experts/*/up", Role::Up},
    {"expert_down", "/moe/experts/*/down", Role::Down},
    {"shared_gate", "/moe/shared/gate", Role::Gate},
    {"shared_up", "/moe/shared/up", Role::Up},
    {"shared_down", "/moe/shared/down", Role::Down},
    {"mtp", "mtp/*", Role::Head},
    {"vision_patch", "vision/patch_embedding", Role::Embedding},
    {"vision_input", "vision/layers/*/{attention/{query,key,value},mlp/fc1}", Role::Query},
    {"vision_output", "vision/layers/*/{attention/output,mlp/fc2}", Role::Output},
    {"vision_merger", "vision/merger/*", Role::Head},
};

/// Small projections whose errors would be amplified: bf16 unless a file names them.
bool staysWide(Role role) { return role == Role::DeltaDecay || role == Role::Router; }
bool liesInNoLayer(Role role) {
  return role == Role::Embedding || role == Role::Head || role >= Role::Mtp;
}

struct FormatEntry {
  const char *name;
  Format format;
};
constexpr FormatEntry kFormats[] = {
    {"bf16", Format::BF16},
    {"fp32", Format::FP32},
    {"w8", Format::W8G32_F16S},
    {"q6", Format::Q6G64_F16S},
    {"q5", Format::Q5G64_F16S},
    {"q4", Format::Q4G64_F16S},
    {"fp8", Format::FP8_E4M3FN_ROW_BF16S},
};

std::string listFormatNames() {
  std::string out;
  for (const FormatEntry &f : kFormats)
    out += (out.empty() ? "" : ", ") + std::string(f.name);
  return out;
}

std::string listRoles() {
  std::string out;
  for (const RoleEntry &r : kRoles)
    out += (out.empty() ? "" : ", ") + std::string(r.name);
  return out;
}

std::optional<Role> roleFromName(std::string_view name) {
  for (size_t i = 0; i < kRoleCount; ++i)
    if (name == kRoles[i].name)
      return static_cast<Role>(i);
  return std::nullopt;
}

bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

std::optional<Role> roleOfVision(std::string_view parameter) {
  if (endsWith(parameter, "_weight") || endsWith(parameter, "_bias") ||
      endsWith(parameter, "/position_embedding"))
    return std::nullopt;
  if (endsWith(parameter, "/patch_embedding"))
    return Role::VisionPatch;
  if (parameter.find("/merger/") != std::string_view::npos)
    return Role::VisionMerger;
  return endsWith(parameter, "/output") || endsWith(parameter, "/fc2") ? Role::VisionOutput
                                                                      : Role::VisionInput;
}

} // namespace

std::string_view roleName(Role role) { return kRoles[static_cast<size_t>(role)].name; }

std::optional<Role> roleOfParameter(std::string_view parameter) {
  for (std::string_view suffix : {"norm", "/a_log", "/dt_bias", "/convolution", "/token_ids"})
    if (endsWith(parameter, suffix))
      return std::nullopt;
  if (parameter.substr(0, 7) == "vision/")
    return roleOfVision(parameter);
  if (endsWith(parameter, "/moe/router") || endsWith(parameter, "/moe/shared_score"))
    return Role::Router;
  if (parameter.substr(0, 4) == "mtp/")
    return Role::Mtp;
  if (endsWith(parameter, "/gdn/a_projection") || endsWith(parameter, "/gdn/b_projection"))
    return Role::DeltaDecay;
  if (parameter.find("/moe/experts/") != std::string_view::npos)
    return endsWith(parameter, "/gate") ? Role::ExpertGate
           : endsWith(parameter, "/up") ? Role::ExpertUp
                                        : Role::ExpertDown;
  for (size_t i = 0; i < kRoleCount; ++i) {
    std::string_view suffix = kRoles[i].suffix;
    if (suffix.front() == '/' ? endsWith(parameter, suffix) : parameter == suffix)
      return static_cast<Role>(i);
  }
  return std::nullopt;
}

std::optional<int64_t> layerOfParameter(std::string_view parameter) {
  constexpr std::string_view kPrefix = "text/layers/";
  if (parameter.substr(0, kPrefix.size()) != kPrefix)
    return std::nullopt;
  int64_t layer = 0;
  const char *end = parameter.data() + parameter.size();
  auto [at, error] = std::from_chars(parameter.data() + kPrefix.size(), end, layer);
  if (error != std::errc() || at == end || *at != '/')
    return std::nullopt;
  return layer;
}

std::string_view recipeFormatName(Format format) {
  for (const FormatEntry &f : kFormats)
    if (f.format == format)
      return f.name;
  return canonicalName(format);
}

std::optional<Format> formatFromRecipeName(std::string_view name) {
  for (const FormatEntry &f : kFormats)
    if (name == f.name)
      return f.format;
  return std::nullopt;
}

const std::vector<std::string> &Recipe::builtInNames() {
  static const std::vector<std::string> names = {
      "bf16",  "w8",   "q6",
      "q5",    "q4",   "mixed",
      "keep",  "qwen3.6-27b-int", "qwen3.8-27b-int", "qwen3.6-35b-a3b-int"};
  return names;
}

std::optional<Recipe> Recipe::builtIn(std::string_view name) {
  const auto &names = builtInNames();
  if (std::find(names.begin(), names.end(), name) == names.end())
    return std::nullopt;
  Recipe recipe;
  recipe.name_ = name;
  auto set = [&](Format format, std::initializer_list<Role> roles) {
    for (Role role : roles)
      recipe.formats_[static_cast<size_t>(role)] = format;
  };
  auto wide = [&] { set(Format::BF16, {Role::DeltaDecay, Role::Router}); };
  constexpr Format q4 = Format::Q4G64_F16S, q5 = Format::Q5G64_F16S, q6 = Format::Q6G64_F16S,
                   w8 = Format::W8G32_F16S;
  if (std::optional<Format> uniform = formatFromRecipeName(name == "keep" ? "bf16" : name)) {
    recipe.formats_.fill(*uniform);
    wide();
    return recipe;
  }
  // What feeds sums directly (values, gates of the mixer, outputs, down) gets one bit more than what
  // passes a softmax or a gate (q, k, gate, up); embedding and head two more. The draft layer and
  // shared experts, small beside the rest, keep eight bits.
  recipe.formats_.fill(w8);
  set(q4, {Role::ExpertGate, Role::ExpertUp});
  set(q5, {Role::ExpertDown});
  wide();
  set(q6, {Role::VisionPatch});
  set(q4, {Role::VisionInput});
  set(q5, {Role::VisionOutput});
  if (name == "qwen3.6-35b-a3b-int") { // eight bits but for the routed experts and the head
    set(q6, {Role::Head});
    for (int64_t layer : {34, 38, 39}) {
      Override entry{layer, layer, {}};
      entry.formats[static_cast<size_t>(Role::ExpertDown)] = q6;
      recipe.overrides_.push_back(entry);
    }
    return recipe;
  }
  set(q4, {Role::Query, Role::Key, Role::Gate, Role::Up, Role::DeltaQuery, Role::DeltaKey});
  set(q5, {Role::Value, Role::Output, Role::Down, Role::AttentionGate, Role::DeltaValue,
           Role::DeltaZ, Role::DeltaOutput});
  if (name != "qwen3.8-27b-int")
    set(q6, {Role::Embedding, Role::Head});
  return recipe;
}

/// Reads the TOML tree; every key not understood is an error.
class RecipeParser {
public:
  RecipeParser(const toml::table &root, const std::string &fileName)
      : root_(root), file_(fileName) {}

  Result<Recipe> run() {
    for (const auto &[key, node] : root_)
      if (key != "name" && key != "formats" && key != "layers")
        return fault(key,
                     "unknown key '" + std::string(key.str()) + "'; legal: name, formats, layers");
    NINFER_RETURN_IF_ERROR(name());
    NINFER_RETURN_IF_ERROR(formats());
    NINFER_RETURN_IF_ERROR(layers());
    return std::move(recipe_);
  }

private:
  Error faultAt(const toml::source_region &at, const std::string &text) const {
    return makeError(ErrorKind::BadFile, kCode,
                     file_ + ":" + std::to_string(at.begin.line) + ": " + text);
  }
  Error fault(const toml::key &key, const std::string &text) const {
    return faultAt(key.source(), text);
  }
  Error fault(const toml::node &node, const std::string &text) const {
    return faultAt(node.source(), text);
  }

  Status name() {
    const toml::node *node = root_.get("name");
    if (!node) {
      recipe_.name_ = file_;
      return Status();
    }
    const auto *text = node->as_string();
    if (!text || text->get().empty() || text->get().find('\0') != std::string::npos)
      return fault(*node, "name must be a string that is not empty");
    recipe_.name_ = text->get();
    return Status();
  }

  Result<Format> format(const toml::node &node, std::string_view key) const {
    const auto *text = node.as_string();
    std::optional<Format> found = text ? formatFromRecipeName(text->get()) : std::nullopt;
    if (!found)
      return fault(node, "'" + std::string(key) + "' must be one of " + listFormatNames());
    return *found;
  }

  Status unknownRole(const toml::key &key) const {
    Status status(
        fault(key, "unknown role '" + std::string(key.str()) + "'; legal: " + listRoles()));
    if (key == "norm")
      status.note("norms are always bf16");
    return status;
  }

  Status formats() {
    const toml::node *node = root_.get("formats");
    const toml::table *table = node ? node->as_table() : nullptr;
    if (!table)
      return faultAt(root_.source(), "a [formats] table is required");
    std::optional<Format> fallback;
    std::array<std::optional<Format>, kRoleCount> given;
    for (const auto &[key, value] : *table) {
      std::optional<Role> role = roleFromName(key.str());
      if (!role && key != "default")
        return unknownRole(key);
      NINFER_ASSIGN_OR_RETURN(Format format, this->format(value, key.str()));
      (role ? given[static_cast<size_t>(*role)] : fallback) = format;
    }
    for (size_t i = 0; i < kRoleCount; ++i) {
      const Role role = static_cast<Role>(i);
      if (!given[i] && staysWide(role))
        given[i] = Format::BF16;
      if (!given[i])
        given[i] = fallback ? fallback : given[static_cast<size_t>(kRoles[i].counterpart)];
      if (!given[i])
        return fault(*table, "role '" + std::string(kRoles[i].name) +
                                 "' has no format and there is no default");
      recipe_.formats_[i] = *given[i];
    }
    return Status();
  }

  Result<int64_t> bound(const toml::table &table, const char *key) const {
    const toml::node *node = table.get(key);
    const auto *value = node ? node->as_integer() : nullptr;
    if (!value || value->get() < 0 || value->get() > std::numeric_limits<int32_t>::max())
      return fault(table,
                   std::string("a [[layers]] entry needs '") + key + "', an integer of at least 0");
    return value->get();
  }

  Status layers() {
    const toml::node *node = root_.get("layers");
    if (!node)
      return Status();
    const toml::array *array = node->as_array();
    if (!array)
      return fault(*node, "layers must be an array of tables ([[layers]])");
    for (const toml::node &element : *array) {
      const toml::table *table = element.as_table();
      if (!table)
        return fault(element, "layers must be an array of tables ([[layers]])");
      NINFER_RETURN_IF_ERROR(layerEntry(*table));
    }
    return Status();
  }

  Status layerEntry(const toml::table &table) {
    Recipe::Override entry{};
    NINFER_ASSIGN_OR_RETURN(entry.first, bound(table, "first"));
    NINFER_ASSIGN_OR_RETURN(entry.last, bound(table, "last"));
    if (entry.last < entry.first)
      return fault(table, "'last' must be at least 'first'");
    for (const auto &[key, value] : table) {
      if (key == "first" || key == "last")
        continue;
      std::optional<Role> role = roleFromName(key.str());
      if (!role)
        return unknownRole(key);
      if (liesInNoLayer(*role))
        return fault(key, "role '" + std::string(key.str()) + "' lies in no layer");
      NINFER_ASSIGN_OR_RETURN(Format format, this->format(value, key.str()));
      entry.formats[static_cast<size_t>(*role)] = format;
    }
    recipe_.overrides_.push_back(entry);
    return Status();
  }

  const toml::table &root_;
  const std::string &file_;
  Recipe recipe_;
};

Result<Recipe> Recipe::parse(std::string_view text, const std::string &fileName) {
  toml::parse_result parsed = toml::parse(text, fileName);
  if (!parsed)
    return makeError(ErrorKind::BadFile, kCode,
                     fileName + ":" + std::to_string(parsed.error().source().begin.line) + ": " +
                         std::string(parsed.error().description()));
  return RecipeParser(parsed.table(), fileName).run();
}

Result<Recipe> Recipe::fromArgument(const std::string &argument) {
  if (std::optional<Recipe> recipe = builtIn(argument))
    return *recipe;
  std::error_code ignored;
  if (!std::filesystem::exists(argument, ignored)) {
    std::string list;
    for (const std::string &name : builtInNames())
      list += (list.empty() ? "" : ", ") + name;
    Status status(makeError(ErrorKind::Usage, kCode,
                            "recipe '" + argument + "' is no built-in name and no file"));
    status.help("built-in recipes: " + list);
    return status;
  }
  constexpr uint64_t kMaxRecipeBytes = 1u << 20;
  NINFER_ASSIGN_OR_RETURN(std::string text, readFile(argument, kMaxRecipeBytes));
  return parse(text, std::filesystem::path(argument).filename().string());
}

Status Recipe::checkLayers(int64_t layers) const {
  for (const Override &entry : overrides_)
    if (entry.first >= layers)
      return makeError(ErrorKind::Usage, kCode,
                       "recipe '" + name_ + "': layers " + std::to_string(entry.first) + ".." +
                           std::to_string(entry.last) + " are named, the model has " +
                           std::to_string(layers));
  return Status();
}

Format Recipe::formatOf(Role role, std::optional<int64_t> layer) const {
  Format format = formats_[static_cast<size_t>(role)];
  if (layer)
    for (const Override &entry : overrides_)
      if (*layer >= entry.first && *layer <= entry.last)
        if (std::optional<Format> other = entry.formats[static_cast<size_t>(role)])
          format = *other;
  return format;
}

Json Recipe::toJson(bool hybrid) const {
  const size_t roles = hybrid ? kRoleCount : kDecoderRoleCount;
  Json out = Json::object();
  out["name"] = name_;
  Json formats = Json::object();
  for (size_t i = 0; i < roles; ++i)
    formats[kRoles[i].name] = recipeFormatName(formats_[i]);
  out["formats"] = std::move(formats);
  Json layers = Json::array();
  for (const Override &entry : overrides_) {
    Json item = {{"first", entry.first}, {"last", entry.last}};
    for (size_t i = 0; i < roles; ++i)
      if (entry.formats[i])
        item[kRoles[i].name] = recipeFormatName(*entry.formats[i]);
    layers.push_back(std::move(item));
  }
  if (!layers.empty())
    out["layers"] = std::move(layers);
  return out;
}

} // namespace ninfer
